"""The factor model once more, with normal variation learnt from controls and patients together.

Controls are e, patients D s + e, and both have the same e ~ N(0, C). Controls alone measure C badly where they are few
against regions; what the patterns leave of the patients measures it too. `fit_factor_model` alternates between the two until
neither moves much. Shape letters: N people, R regions, M patterns.
"""

from typing import NamedTuple

import numpy as np
from sklearn.covariance import ledoit_wolf

from rindices._typing import FloatArray
from rindices.learners.contrastive.sparse_patterns import (
    compute_severity_weights,
    estimate_severity_moments,
    is_well_posed,
    refine_patterns,
)

_N_ALTERNATIONS, _N_NOISE_STEPS, _N_EM_STEPS = 6, 5, 10


class FactorModel(NamedTuple):
    """Patterns, normal variation and severities of the patients.

    Attributes
    ----------
    patterns : (R, M)
        Shift of each region per unit of severity.
    noise : (R, R)
        C, the covariance that controls and patients share.
    mean, covariance : (M,), (M, M)
        Of the patients' severities, the error of their estimation taken off.
    """

    patterns: FloatArray
    noise: FloatArray
    mean: FloatArray
    covariance: FloatArray


def fit_factor_model(
    controls: FloatArray, patients: FloatArray, patterns: FloatArray, noise: FloatArray
) -> FactorModel:
    """Learn patterns and shared normal variation together, from a first solution.

    The patterns keep the basis they came in. EM with a sparse prior would also turn them, by sparsity alone; that the
    basis is right was decided by more than that (`rotation`).

    Parameters
    ----------
    controls, patients : (N, R)
        Shifts, in control standard deviations about the controls' mean.
    patterns : (R, M)
        First solution.
    noise : (R, R)
        The controls' covariance.

    Notes
    -----
    Where the patterns vanish or merge, which happens where there is nothing to find, the first solution is returned.
    """
    try:
        found, shared = _alternate_updates(controls, patients, patterns, noise)
    except np.linalg.LinAlgError:  # a pattern vanished on the way: there is less to find than was asked for
        found, shared = patterns, noise
    return FactorModel(found, shared, *estimate_severity_moments(patients, found, shared))


def _alternate_updates(
    controls: FloatArray, patients: FloatArray, patterns: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return patterns (R, M) and shared covariance (R, R), or what was given where they end without meaning."""
    found, shared = patterns, noise
    for _ in range(_N_ALTERNATIONS):
        for _ in range(_N_NOISE_STEPS):
            shared = estimate_shared_covariance(controls, patients, found, shared)
        found = refine_patterns(patients, found, shared, _N_EM_STEPS)
    before, after = (patients @ compute_severity_weights(*pair) for pair in ((patterns, noise), (found, shared)))
    found = _restore_basis(before, after, found)
    return (found, shared) if is_well_posed(found, shared) else (patterns, noise)


def estimate_shared_covariance(
    controls: FloatArray, patients: FloatArray, patterns: FloatArray, noise: FloatArray
) -> FloatArray:
    """Return the covariance (R, R) of controls and of what the patterns leave of patients: one step of EM, shrunk."""
    mean, covariance = estimate_severity_moments(patients, patterns, noise)
    weights = np.linalg.solve(noise, patterns)
    precision = np.linalg.inv(covariance)
    uncertain = np.linalg.inv(patterns.T @ weights + precision)
    left = patients - (patients @ weights + mean @ precision) @ uncertain @ patterns.T
    people = np.concatenate([controls - controls.mean(axis=0), left - left.mean(axis=0)])
    return np.asarray(ledoit_wolf(people)[0] + len(left) / len(people) * patterns @ uncertain @ patterns.T)


def _restore_basis(before: FloatArray, after: FloatArray, patterns: FloatArray) -> FloatArray:
    """Return the patterns (R, M) in the basis in which severities run parallel to those of before, (N, M)."""
    mixing = np.linalg.lstsq(after - after.mean(axis=0), before - before.mean(axis=0), rcond=None)[0]
    if np.linalg.cond(mixing) > 1e6:
        return patterns
    return np.asarray(patterns @ np.linalg.inv(mixing).T)
