"""Where a warm training starts: a solved linear model of a member's own people, in closed form.

Shape letters: N people, R regions, M patterns.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rindices._typing import FloatArray, IntArray
from rindices.errors import InputError
from rindices.learners.contrastive.estimator import (
    compute_unit_severity,
    estimate_control_covariance,
    fit_contrastive_ica,
    fit_contrastive_likelihood,
)
from rindices.learners.contrastive.severity_prior import SeverityPrior, fit_prior_to_moments, make_independent_prior
from rindices.learners.contrastive.shared_noise import FactorModel, fit_factor_model
from rindices.learners.contrastive.sparse_patterns import compute_severity_weights, estimate_severity_moments
from rindices.learners.subsampling import Subsample
from rindices.threads import limit_blas_threads

_N_PRIOR_DRAWS = 20_000


class LinearStart(NamedTuple):
    """A solved linear model: patients are D s + e.

    Attributes
    ----------
    seats : Seats
    patterns : (R, M)
        D, the shift of each region in control standard deviations at severity 1.
    noise : (R, R)
        Covariance of e.
    prior : SeverityPrior
        Of s.
    whitened_by : (R, R)
        Covariance in which people are whitened before D.
    """

    seats: Subsample
    patterns: FloatArray
    noise: FloatArray
    prior: SeverityPrior
    whitening_covariance: FloatArray


def fit_linear_start(
    people: FloatArray, y: IntArray, seats: Subsample, n_patterns: int, kind: str, conditioning: str, seed: int
) -> LinearStart:
    """Solve the linear model for the people of a member.

    Parameters
    ----------
    people : (N, R)
        Shifts in control standard deviations.
    kind : {'ica', 'likelihood'}
        ``ica``: plain contrastive ICA, the controls' covariance, uniform and independent severities. ``likelihood``:
        the contrastive learner's likelihood, normal variation shared by controls and patients, and severities with
        their own marginals and correlation. For a random start ``ica`` serves, of which only the covariance is used.
    conditioning : str
        See `Recipe`.
    """
    own, labels = people[seats.seen], y[seats.seen]
    if labels.sum() <= n_patterns:
        raise InputError(
            f"{labels.sum()} patients cannot give {n_patterns} patterns (a member sees that many of {(y == 1).sum()}): "
            "lower n_patterns or add patients."
        )
    centre = own[labels == 0].mean(axis=0)
    controls, patients = own[labels == 0] - centre, own[labels == 1] - centre
    try:
        with limit_blas_threads():
            found = (_fit_likelihood_model if kind == "likelihood" else _fit_ica_model)(
                controls, patients, n_patterns, seed
            )
            whitened_by = estimate_control_covariance(controls) if conditioning == "controls" else found.noise
    except np.linalg.LinAlgError as error:
        raise InputError(f"{n_patterns} patterns cannot be told apart in {len(own)} people: ask for fewer.") from error
    unit = compute_unit_severity(patients @ compute_severity_weights(found.patterns, found.noise))
    mean, covariance = found.mean / unit, found.covariance / np.outer(unit, unit)
    prior = (fit_prior_to_moments if kind == "likelihood" else make_independent_prior)(mean, covariance)
    return LinearStart(seats, found.patterns * unit, found.noise, prior, whitened_by)


def _fit_ica_model(controls: FloatArray, patients: FloatArray, n_patterns: int, seed: int) -> FactorModel:
    patterns, noise = (
        fit_contrastive_ica(controls, patients, n_patterns, seed)[1],
        estimate_control_covariance(controls),
    )
    return FactorModel(patterns, noise, *estimate_severity_moments(patients, patterns, noise))


def _fit_likelihood_model(controls: FloatArray, patients: FloatArray, n_patterns: int, seed: int) -> FactorModel:
    patterns = fit_contrastive_likelihood(controls, patients, n_patterns, seed)[1]
    return fit_factor_model(controls, patients, patterns, estimate_control_covariance(controls))


def compute_inverse_weights(z: FloatArray, change: FloatArray, noise: FloatArray) -> FloatArray:
    """Return the weights (R, M) of the best linear inverse: the regression of z on a person who was changed so.

    A person is e + change with e of covariance C, so the regression needs only the moments of z and the change.

    Parameters
    ----------
    z : (N, M)
        Severities as drawn.
    change : (N, R)
        What each does to a person.
    noise : (R, R)
        C.
    """
    moved, drawn = change - change.mean(axis=0), z - z.mean(axis=0)
    return np.asarray(np.linalg.solve(noise + moved.T @ moved / len(moved), moved.T @ drawn / len(moved)))


def compute_start_weights(start: LinearStart, rng: np.random.Generator) -> FloatArray:
    """Return the weights (R, M) of the inverse of the linear model itself."""
    z, s = start.prior.draw(_N_PRIOR_DRAWS, rng)
    return compute_inverse_weights(z, s @ start.patterns.T, start.noise)


def compute_start_curves(start: LinearStart, levels: Sequence[float]) -> FloatArray:
    """Return the shift of each region under each pattern alone, at some levels of z: (Q, M, R)."""
    width = start.patterns.shape[1]
    severities = np.stack([start.prior.severities(np.full((1, width), level))[0] for level in levels])
    return np.asarray(severities[:, :, None] * start.patterns.T)
