"""The protocol of `Learner`, tested for every learner.

scikit-learn's conventions, order of rows and columns, units, unseen people, few people,
M = 1.
"""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from benchmarks.suites.baselines.contrastive_pca import ContrastivePCA
from benchmarks.suites.baselines.contrastive_vae import ContrastiveVAE
from benchmarks.suites.baselines.decompositions import (
    DNMFBaseline,
    FactorAnalysisBaseline,
    LDABaseline,
    NMFBaseline,
    OpNMFBaseline,
    SignedDecomposition,
)
from benchmarks.suites.baselines.normative import (
    DeviationNMF,
    NormativeICA,
    NormativePCA,
)
from rindices.errors import InputError
from rindices.learners.contrastive.estimator import ContrastiveICA
from rindices.learners.gan.estimator import SurrealGAN
from rindices.selection.agreement import c_index, members_agreement
from tests.learners.helpers import make_cohort, make_learner

LEARNERS = [
    ContrastiveICA,
    SurrealGAN,
    NMFBaseline,
    FactorAnalysisBaseline,
    LDABaseline,
    OpNMFBaseline,
    DNMFBaseline,
    ContrastivePCA,
    ContrastiveVAE,
    NormativePCA,
    NormativeICA,
    DeviationNMF,
]
PUBLIC = (ContrastiveICA, SurrealGAN)
# twenty steps teach the networks nothing; the others use covariances alone, so one
# component may contrast patterns
MEAN_NOT_LEARNT = (
    SurrealGAN,
    ContrastiveVAE,
    ContrastivePCA,
    NormativePCA,
    NormativeICA,
)
every_learner = pytest.mark.parametrize("learner", LEARNERS)
NOT_APPLICABLE = {
    "check_estimators_pickle": "the subclass is local to this test; pickling is tested above",
}


@every_learner
def test_fit_transform_and_clone_follow_the_protocol(learner):
    x, y, _ = make_cohort()
    model = make_learner(learner).fit(x, y)
    r = model.transform(x)
    assert r.shape == (len(x), 3)
    assert np.isfinite(r).all()
    assert model.patterns_.shape == (3, 24)
    assert model.n_features_in_ == 24
    assert set(model.get_params()) >= {"n_patterns", "random_state"}
    fresh = clone(model)
    assert not hasattr(fresh, "patterns_")
    np.testing.assert_allclose(fresh.fit(x, y).transform(x), r)
    np.testing.assert_allclose(fresh.fit_transform(x, y), r)


@every_learner
def test_unseen_people_get_the_same_indices_alone_or_with_others(learner):
    x, y, _ = make_cohort()
    model = make_learner(learner).fit(x[::2], y[::2])
    r = model.transform(x)
    np.testing.assert_allclose(model.transform(x[1::2]), r[1::2], rtol=1e-3, atol=2e-3)
    assert np.isfinite(model.transform(x * 0.1)).all()
    assert np.isfinite(model.transform(x * 10)).all()


@pytest.mark.parametrize(
    "learner", [ContrastiveICA, FactorAnalysisBaseline, DNMFBaseline, NMFBaseline]
)
def test_patients_are_above_controls_on_average(learner):
    x, y, _ = make_cohort()
    r = make_learner(learner).fit(x, y).transform(x)
    assert (r[y == 1].mean(axis=0) >= r[y == 0].mean(axis=0)).all()


@every_learner
def test_units_of_regions_do_not_matter(learner):
    x, y, _ = make_cohort()
    units = 10.0 ** np.random.default_rng(0).integers(-3, 4, x.shape[1])
    plain, scaled = (
        make_learner(learner).fit(t, y).transform(t) for t in (x, x * units)
    )
    np.testing.assert_allclose(plain, scaled, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "learner", [ContrastiveICA, NMFBaseline, OpNMFBaseline, FactorAnalysisBaseline]
)
def test_order_of_rows_and_columns_does_not_matter(learner):
    x, y, _ = make_cohort()
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(len(x)), rng.permutation(x.shape[1])
    plain = make_learner(learner).fit(x, y)
    moved = make_learner(learner).fit(x[rows][:, columns], y[rows])
    both = np.stack([plain.transform(x), moved.transform(x[:, columns])])
    assert members_agreement(both).dimension > 0.999


@every_learner
@pytest.mark.parametrize("regions", [1, 2, 24, 300])
def test_one_pattern_and_any_number_of_regions(learner, regions):
    x, y, severity = make_cohort(controls=30, patients=40, regions=regions)
    model = make_learner(learner, m=1).fit(x, y)
    r = model.transform(x)
    assert r.shape == (70, 1)
    assert np.isfinite(r).all()
    if learner is LDABaseline:
        np.testing.assert_allclose(r, 1.0)
    elif learner not in MEAN_NOT_LEARNT:
        assert c_index(severity[:, : min(regions, 3)].mean(axis=1), r[30:, 0]) > 0.6


@every_learner
@pytest.mark.parametrize(("controls", "patients"), [(2, 2), (3, 2), (5, 4)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_few_people_give_finite_indices_or_an_error(learner, controls, patients):
    x, y, _ = make_cohort(controls=controls, patients=patients)
    refused = patients < 3 and (
        learner in (ContrastiveICA, ContrastivePCA)
        or issubclass(learner, SignedDecomposition)
    )
    if refused:
        with pytest.raises(InputError, match=r"[23] patients cannot give 3 "):
            make_learner(learner).fit(x, y)
        return
    r = make_learner(learner).fit(x, y).transform(x)
    assert r.shape == (controls + patients, 3)
    assert np.isfinite(r).all()


@every_learner
def test_a_constant_region_gives_finite_indices(learner):
    x, y, _ = make_cohort()
    x[:, 5] = 7.0
    x[y == 0, 6] = 900.0
    assert np.isfinite(make_learner(learner).fit(x, y).transform(x)).all()


@every_learner
def test_wrong_input_raises_an_error_with_the_cure(learner):
    x, y, _ = make_cohort()
    with_nan = x.copy()
    with_nan[3, 4] = np.nan
    others = [
        (x, np.where(y == 1, 1, -1), "recode it to 0 for controls and 1 for patients"),
        (x, np.where(y == 1, "AD", "CN"), "recode"),
    ]
    for regions, labels, message in [
        *(others if learner is not SurrealGAN else []),  # it takes any two labels
        (x, y + 1, "recode"),
        (x, np.zeros_like(y), "0 patients"),
        (x, np.arange(len(x)) == 0, "at least 2 of each"),
        (with_nan, y, "NaN"),
        (
            x,
            y[:-1],
            f"X has {len(x)} rows and y has {len(x) - 1} labels: give one for each row of X.",
        ),
        (x.T[:, :-1], y, "give one for each row of X.$"),
        (x.T, y, "X looks transposed: X.T has people in rows"),
        (x[:, 0], y, "X has one row of .* give people in rows and regions in columns"),
        (
            x,
            None,
            "the target y is None: give 0 for each control and 1 for each patient",
        ),
        (
            "volumes.csv",
            y,
            r"X is the path 'volumes.csv'; \w+ takes numbers. Use rindices.fit\(path, ...\)",
        ),
        (
            pd.DataFrame(x, columns=[f"c{k}" for k in range(x.shape[1])]).assign(
                ID="a"
            ),
            y,
            "not numbers: ID. Give the",
        ),
        (x[:, :2], y, "at most as many patterns"),
    ]:
        with pytest.raises(ValueError, match=message):
            make_learner(learner).fit(regions, labels)
    for m in (0, -1, 2.5, "3", True):
        with pytest.raises(InputError, match="n_patterns"):
            make_learner(learner, m).fit(x, y)
    with pytest.raises(NotFittedError):
        make_learner(learner).transform(x)
    with pytest.raises(ValueError, match="24 features"):
        make_learner(learner).fit(x, y).transform(x[:, :9])


@every_learner
def test_the_seed_determines_the_result(learner):
    x, y, _ = make_cohort()
    one, two = (make_learner(learner, seed=5).fit(x, y).transform(x) for _ in range(2))
    np.testing.assert_array_equal(one, two)


@every_learner
def test_data_frames_give_data_frames(learner):
    x, y, _ = make_cohort()
    frame = pd.DataFrame(
        x,
        columns=[f"region{k}" for k in range(x.shape[1])],
        index=[f"p{k}" for k in range(len(x))],
    )
    frame_indices = (
        make_learner(learner)
        .set_output(transform="pandas")
        .fit(frame, y)
        .transform(frame)
    )
    assert list(frame_indices.columns) == ["r1", "r2", "r3"]
    assert list(frame_indices.index) == list(frame.index)
    np.testing.assert_allclose(
        frame_indices, make_learner(learner).fit(x, y).transform(x)
    )


@every_learner
def test_learner_works_in_a_pipeline(learner):
    x, y, _ = make_cohort()
    pipeline = make_pipeline(FunctionTransformer(), make_learner(learner)).fit(x, y)
    np.testing.assert_array_equal(
        pipeline.transform(x), make_learner(learner).fit(x, y).transform(x)
    )


@every_learner
def test_learner_can_be_pickled(learner):
    x, y, _ = make_cohort()
    model = make_learner(learner).fit(x, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(x), model.transform(x))


def recode_labels(learner):
    """Return a subclass that recodes any labels to 0 and 1; the class of largest mean
    is the controls.
    """

    class Recoding(learner):
        __init__ = (
            learner.__init__
        )  # scikit-learn reads the parameters from its signature

        def fit(self, X, y):
            return super().fit(
                X, y if y is None else make_binary_labels(np.asarray(X), np.asarray(y))
            )

    return Recoding


def make_binary_labels(x, y):
    if y.ndim != 1 or x.ndim != 2 or len(x) != len(y):
        return y
    if x.dtype.kind not in "fiu":
        return np.arange(len(y)) % 2
    largest = max(np.unique(y), key=lambda label: x[y == label].mean())
    return (y != largest).astype(int)


@pytest.mark.parametrize(
    "learner",
    [
        pytest.param(learner, marks=[pytest.mark.slow] * (learner not in PUBLIC))
        for learner in LEARNERS
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks_pass(learner):
    """Labels other than 0 and 1 raise an error on purpose, so they are
    recoded first.
    """
    estimator = make_learner(recode_labels(learner), m=1)
    if "members" in estimator.get_params():
        estimator.set_params(members=1)  # the checks fit some hundred times
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    failed = {
        r["check_name"]: str(r["exception"]) for r in results if r["status"] == "failed"
    }
    assert {
        name: why for name, why in failed.items() if name not in NOT_APPLICABLE
    } == {}
    assert len(results) > 40
