"""Start of a warm training: a linear model of a member's people, solved in closed form.

Shape letters: N people, R regions, M patterns.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rindices._typing import FloatArray, IntArray
from rindices.errors import InputError
from rindices.learners.contrastive.estimator import (
    compute_unit_severity,
    fit_contrastive_ica,
    fit_contrastive_likelihood,
)
from rindices.learners.contrastive.severity_prior import SeverityPrior, fit_prior_to_moments, make_independent_prior
from rindices.learners.contrastive.shared_noise import FactorModel, fit_factor_model
from rindices.learners.contrastive.sparse_patterns import (
    PeopleMoments,
    compute_severity_weights,
    estimate_severity_moments,
)
from rindices.learners.normal_variation import ReferenceTarget, estimate_covariance
from rindices.learners.subsampling import Subsample
from rindices.threads import limit_blas_threads

_N_PRIOR_DRAWS = 20_000
_KINDS_BY_LIKELIHOOD = ("contrastive", "likelihood")


class LinearStart(NamedTuple):
    """A solved linear model: patients are D s + e.

    Attributes
    ----------
    subsample : Subsample
        People of the member.
    patterns : (R, M)
        D, the shift of each region in control standard deviations at severity 1.
    noise : (R, R)
        Covariance of e.
    prior : SeverityPrior
        Of s.
    whitening_covariance : (R, R)
        Covariance by which people are whitened before D.
    """

    subsample: Subsample
    patterns: FloatArray
    noise: FloatArray
    prior: SeverityPrior
    whitening_covariance: FloatArray


def fit_linear_start(
    people: FloatArray,
    y: IntArray,
    subsample: Subsample,
    n_patterns: int,
    kind: str,
    conditioning: str,
    seed: int,
    reference: FloatArray | None = None,
) -> LinearStart:
    """Solve the linear model for the people of a member.

    Parameters
    ----------
    people : (N, R)
        Shifts in control standard deviations.
    y : (N,)
        0 control, 1 patient.
    subsample : Subsample
        People of the member.
    n_patterns : int
        M.
    kind : {'ica', 'contrastive', 'likelihood'}
        ``ica``: plain contrastive ICA, the controls' covariance, uniform and independent severities. ``contrastive``:
        the contrastive learner's likelihood, the controls' covariance, and severities with their marginals and
        correlation. ``likelihood``: also with normal variation shared by controls and patients. A random start uses
        ``ica``, and of it the covariance only.
    conditioning : str
        See `Recipe`.
    seed : int
    reference : (R, R), optional
        Correlations of a reference population.

    Returns
    -------
    LinearStart

    Raises
    ------
    InputError
        If the member has too few patients, or too few people, for that many patterns.
    """
    seen, labels = people[subsample.seen], y[subsample.seen]
    if labels.sum() <= n_patterns:
        raise InputError(
            f"{labels.sum()} patients cannot give {n_patterns} patterns (a member sees that many of {(y == 1).sum()}): "
            "lower n_patterns or add patients."
        )
    centre = seen[labels == 0].mean(axis=0)
    controls, patients = seen[labels == 0] - centre, seen[labels == 1] - centre
    try:
        with limit_blas_threads():
            target = ReferenceTarget.choose(controls, reference)
            control_covariance = estimate_covariance(controls, target)
            model = _fit_model(kind, controls, patients, control_covariance, n_patterns, seed, target)
    except np.linalg.LinAlgError as error:
        raise InputError(
            f"{n_patterns} patterns cannot be distinguished in {len(seen)} people: ask for fewer."
        ) from error
    unit = compute_unit_severity(patients @ compute_severity_weights(model.patterns, model.noise))
    mean, covariance = model.mean / unit, model.covariance / np.outer(unit, unit)
    make_prior = fit_prior_to_moments if kind in _KINDS_BY_LIKELIHOOD else make_independent_prior
    prior = make_prior(mean, covariance)
    whitening_covariance = control_covariance if conditioning == "controls" else model.noise
    return LinearStart(subsample, model.patterns * unit, model.noise, prior, whitening_covariance)


def _fit_model(
    kind: str,
    controls: FloatArray,
    patients: FloatArray,
    noise: FloatArray,
    n_patterns: int,
    seed: int,
    target: ReferenceTarget | None,
) -> FactorModel:
    """Return patterns, noise and moments of the severities; ``noise`` is the covariance of the controls."""
    fit = fit_contrastive_likelihood if kind in _KINDS_BY_LIKELIHOOD else fit_contrastive_ica
    patterns = fit(controls, patients, n_patterns, seed, target).patterns
    if kind == "likelihood":
        return fit_factor_model(controls, patients, patterns, noise, target)
    return FactorModel(patterns, noise, *estimate_severity_moments(PeopleMoments.compute(patients), patterns, noise))


def compute_inverse_weights(z: FloatArray, change: FloatArray, noise: FloatArray) -> FloatArray:
    """Compute the best linear inverse: the regression of z on people with that change.

    A person is e + change with e of covariance C, so the regression needs only the moments of z and the change.

    Parameters
    ----------
    z : (N, M)
        Drawn severities.
    change : (N, R)
        Change of a person by each.
    noise : (R, R)
        C.

    Returns
    -------
    (R, M)
        Weights.
    """
    change, z = change - change.mean(axis=0), z - z.mean(axis=0)
    return np.asarray(np.linalg.solve(noise + change.T @ change / len(change), change.T @ z / len(change)))


def compute_start_weights(start: LinearStart, rng: np.random.Generator) -> FloatArray:
    """Return the weights (R, M) of the linear model's inverse."""
    z, s = start.prior.draw(_N_PRIOR_DRAWS, rng)
    return compute_inverse_weights(z, s @ start.patterns.T, start.noise)


def compute_start_curves(start: LinearStart, levels: Sequence[float]) -> FloatArray:
    """Return the shift of each region by each pattern alone, at Q levels of z: (Q, M, R)."""
    n_patterns = start.patterns.shape[1]
    severities = np.stack([start.prior.severities(np.full((1, n_patterns), level))[0] for level in levels])
    return np.asarray(severities[:, :, None] * start.patterns.T)
