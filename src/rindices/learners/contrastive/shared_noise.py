"""Factor model whose normal variation is estimated from controls and patients together.

Controls are e and patients D s + e, with the same e ~ N(0, C). A few controls estimate C badly; the residuals of the
patients, after the patterns, add information. `fit_factor_model` alternates between C and D.
Shape letters: N people, R regions, M patterns. In all functions ``patterns`` is D and ``noise`` is C.
"""

from typing import NamedTuple

import numpy as np
from sklearn.covariance import ledoit_wolf

from rindices._typing import FloatArray
from rindices.learners.contrastive.sparse_patterns import (
    PeopleMoments,
    compute_severity_weights,
    estimate_severity_moments,
    is_well_posed,
    refine_patterns,
)
from rindices.learners.normal_variation import ReferenceTarget

_N_ALTERNATIONS, _N_NOISE_STEPS, _N_EM_STEPS = 6, 5, 10


class FactorModel(NamedTuple):
    """Patterns, normal variation and moments of the severities.

    Attributes
    ----------
    patterns : (R, M)
        D, the shift of each region per unit of severity.
    noise : (R, R)
        C, the covariance of e.
    mean, covariance : (M,), (M, M)
        Of the patients' severities, with the variance of their estimation error subtracted.
    """

    patterns: FloatArray
    noise: FloatArray
    mean: FloatArray
    covariance: FloatArray


def fit_factor_model(
    controls: FloatArray,
    patients: FloatArray,
    patterns: FloatArray,
    noise: FloatArray,
    target: ReferenceTarget | None = None,
) -> FactorModel:
    """Estimate patterns and shared covariance by alternation from a first solution.

    The patterns keep their basis. EM with a sparse prior would also rotate them, by sparsity alone, but the basis was
    chosen by more criteria (`rotation`).

    Parameters
    ----------
    controls, patients : (N, R)
        Shifts from the controls' mean, in control standard deviations.
    patterns : (R, M)
        First solution.
    noise : (R, R)
        The controls' covariance.
    target : ReferenceTarget, optional
        Correlations of a reference population, for the shared covariance.

    Returns
    -------
    FactorModel
        With the first solution, where patterns vanish or merge because there is too little to find.
    """
    try:
        solution = _alternate_updates(controls, patients, patterns, noise, target)
    except np.linalg.LinAlgError:  # a pattern vanished
        solution = patterns, noise
    return FactorModel(*solution, *estimate_severity_moments(PeopleMoments.compute(patients), *solution))


def _alternate_updates(
    controls: FloatArray,
    patients: FloatArray,
    patterns: FloatArray,
    noise: FloatArray,
    target: ReferenceTarget | None,
) -> tuple[FloatArray, FloatArray]:
    """Return patterns (R, M) and shared covariance (R, R), or the first solution where these are not well posed."""
    refined, shared, moments = patterns, noise, PeopleMoments.compute(patients)
    for _ in range(_N_ALTERNATIONS):
        for _ in range(_N_NOISE_STEPS):
            shared = _estimate_shared_covariance(controls, patients, refined, shared, target)
        refined = refine_patterns(moments, refined, shared, _N_EM_STEPS)
    before = patients @ compute_severity_weights(patterns, noise)
    after = patients @ compute_severity_weights(refined, shared)
    refined = _restore_basis(before, after, refined)
    return (refined, shared) if is_well_posed(refined, shared) else (patterns, noise)


def _estimate_shared_covariance(
    controls: FloatArray,
    patients: FloatArray,
    patterns: FloatArray,
    noise: FloatArray,
    target: ReferenceTarget | None,
) -> FloatArray:
    """Take one EM step for C (R, R), from the controls and the residuals of the patients, with shrinkage."""
    mean, covariance = estimate_severity_moments(PeopleMoments.compute(patients), patterns, noise)
    weights = np.linalg.solve(noise, patterns)
    precision = np.linalg.inv(covariance)
    posterior_cov = np.linalg.inv(patterns.T @ weights + precision)
    residuals = patients - (patients @ weights + mean @ precision) @ posterior_cov @ patterns.T
    people = np.concatenate([controls - controls.mean(axis=0), residuals - residuals.mean(axis=0)])
    shared = np.asarray(ledoit_wolf(people)[0])
    shared = shared if target is None else target.mix(shared, people)
    return np.asarray(shared + len(residuals) / len(people) * patterns @ posterior_cov @ patterns.T)


def _restore_basis(before: FloatArray, after: FloatArray, patterns: FloatArray) -> FloatArray:
    """Return the patterns (R, M) in the basis whose severities are closest to those of before, (N, M)."""
    mixing = np.linalg.lstsq(after - after.mean(axis=0), before - before.mean(axis=0), rcond=None)[0]
    if np.linalg.cond(mixing) > 1e6:
        return patterns
    return np.asarray(patterns @ np.linalg.inv(mixing).T)
