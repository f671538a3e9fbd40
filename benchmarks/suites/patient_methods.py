"""Methods of the suite ``patients``: each learns one score from prepared people.

Shape letters: N people, R regions.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from sklearn.decomposition import NMF, PCA
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from benchmarks.suites.entrants import get_entrant
from rindices._typing import FloatArray
from rindices.learners.contrastive.estimator import ContrastiveICA, MeanDifference
from rindices.learners.ensemble import LinearLearner, fit_linear_members
from rindices.learners.prepared_people import PreparedPeople
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD

Scorer = Callable[[FloatArray], FloatArray]
"""Takes prepared people (N, R) and returns their scores (N,)."""
N_MEMBERS = 10
_PENALTIES = np.geomspace(1.0, 1e6, 25)
_N_COMPONENTS = {
    "pca": 10,
    "nmf": 3,
    "cpca": 10,
    "normative-pca": 10,
    "normative-ica": 10,
    "deviation-nmf": 3,
}


def _fit_members(people: PreparedPeople, seed: int, learner: LinearLearner) -> Scorer:
    """Fit the members of a study with one index and return their mean."""
    dealt = people.deal_to_members(range(N_MEMBERS), seed)
    members = fit_linear_members(
        dealt, 1, range(N_MEMBERS), seed, evidence=False, learner=learner
    )
    return lambda X: np.mean([member.head.infer(X)[:, 0] for member in members], axis=0)


def fit_default(people: PreparedPeople, seed: int) -> Scorer:
    """Return the index of a study that ends with a mean difference, without a
    reference.
    """
    return _fit_members(replace(people, reference=None), seed, MeanDifference)


def fit_default_with_reference(people: PreparedPeople, seed: int) -> Scorer:
    """Return the index of a study that ends with a mean difference, with a
    reference.
    """
    return _fit_members(people, seed, MeanDifference)


def fit_contrastive(people: PreparedPeople, seed: int) -> Scorer:
    """Return the index of one contrastive pattern."""
    return _fit_members(replace(people, reference=None), seed, ContrastiveICA)


def fit_mean_z(people: PreparedPeople, seed: int) -> Scorer:
    """Return the mean z-score of all regions, with the sign that is positive in
    patients.
    """
    difference = _compute_mean_difference(people)
    sign = 1.0 if difference.mean() >= 0 else -1.0
    return lambda X: sign * np.asarray(_compute_z(X).mean(axis=1))


def fit_t_map(people: PreparedPeople, seed: int) -> Scorer:
    """Return the sum of z-scores weighted by the t statistics of the groups."""
    z, patient = _compute_z(people.X), people.y == 1
    variances = [
        z[mask].var(axis=0, ddof=1) / mask.sum() for mask in (patient, ~patient)
    ]
    t = _compute_mean_difference(people) / np.sqrt(
        np.maximum(np.sum(variances, axis=0), 1e-12)
    )
    return lambda X: np.asarray(_compute_z(X) @ t)


def fit_pca(people: PreparedPeople, seed: int) -> Scorer:
    """Return logistic regression on the principal components, with its penalty chosen
    inside.
    """
    return _fit_components(
        people, [StandardScaler(), PCA(_N_COMPONENTS["pca"], random_state=seed)]
    )


def fit_nmf(people: PreparedPeople, seed: int) -> Scorer:
    """Return logistic regression on non-negative factors, with its penalty chosen
    inside.
    """
    positive = FunctionTransformer(lambda X: np.maximum(X, 0.0))
    factors = NMF(
        _N_COMPONENTS["nmf"], init="nndsvda", max_iter=3000, tol=1e-3, random_state=seed
    )
    return _fit_components(people, [positive, factors])


def fit_ridge(people: PreparedPeople, seed: int) -> Scorer:
    """Return ridge regression of the group, with its penalty chosen by leave-one-out
    inside.
    """
    model = make_pipeline(StandardScaler(), RidgeCV(_PENALTIES)).fit(
        people.X, people.y.astype(float)
    )
    return lambda X: np.asarray(model.predict(X))


def _fit_learner(people: PreparedPeople, seed: int, learner: str) -> Scorer:
    """Return logistic regression on the components of a learner of the benchmark, with
    its penalty chosen inside.
    """
    make = get_entrant(learner).make
    assert make is not None
    return _fit_components(people, [make(_N_COMPONENTS[learner], seed)])


METHODS: dict[str, Callable[[PreparedPeople, int], Scorer]] = {
    "default": fit_default,
    "default, reference": fit_default_with_reference,
    "contrastive, one pattern": fit_contrastive,
    "mean z": fit_mean_z,
    "t-map": fit_t_map,
    "PCA and logistic regression": fit_pca,
    "NMF and logistic regression": fit_nmf,
    "ridge": fit_ridge,
    "contrastive PCA and logistic regression": partial(_fit_learner, learner="cpca"),
    "normative PCA and logistic regression": partial(
        _fit_learner, learner="normative-pca"
    ),
    "normative ICA and logistic regression": partial(
        _fit_learner, learner="normative-ica"
    ),
    "deviation NMF and logistic regression": partial(
        _fit_learner, learner="deviation-nmf"
    ),
}
"""Functions that learn a score, by name."""
NEEDS_REFERENCE = frozenset({"default, reference"})


def _fit_components(people: PreparedPeople, steps: list[object]) -> Scorer:
    grid = {"C": np.geomspace(1e-3, 1e2, 6)}
    regression = GridSearchCV(
        LogisticRegression(max_iter=2000), grid, scoring="roc_auc", cv=5
    )
    model = make_pipeline(*steps, StandardScaler(), regression).fit(people.X, people.y)
    return lambda X: np.asarray(model.decision_function(X))


def _compute_z(X: FloatArray) -> FloatArray:
    """Return prepared people (N, R) in control standard deviations."""
    return np.asarray((X - CONTROL_MEAN) / CONTROL_SD)


def _compute_mean_difference(people: PreparedPeople) -> FloatArray:
    """Return the difference (R,) between the means of patients and controls, in control
    standard deviations.
    """
    z = _compute_z(people.X)
    return np.asarray(z[people.y == 1].mean(axis=0) - z[people.y == 0].mean(axis=0))
