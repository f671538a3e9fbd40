"""The theoretical limit on simulated cohorts: posterior means of the severities under the true generator.

The oracle knows everything but the severities: the patterns, their rates, onsets and noise, the distribution of
severities, and the distribution of healthy people given their covariates. No learner can rank severities better on
average. Regions outside all patterns say what is normal in a person; given them, the regions of patterns are normal
around the change that severities z make, and the posterior is summed over a grid of z.

Shape letters: N people, R regions, P regions of any pattern, M patterns, L levels of a grid, G = L^M points.
"""

from itertools import product

import numpy as np
import pandas as pd
from scipy.linalg import solve_triangular
from scipy.stats import beta, norm

from rindices._typing import FloatArray, IntArray
from rindices.experiments.reference import AGE_CENTRE, LOG_ICV_CENTRE, HealthyReference, load_reference
from rindices.experiments.simulate import SimulatedCohort, simulate_cohort
from rindices.experiments.tasks import TASKS, SimulationTask

N_LEVELS = 15
_N_DRAWS = 20_000  # people whose mean and covariance stand for those of unadjusted people
_DRAW_SEED = 4711
_CHUNK_SIZE = 400  # points of the grid at once


def compute_oracle_severities(
    simulated: SimulatedCohort, task: SimulationTask, adjusted: bool, n_levels: int = N_LEVELS
) -> FloatArray:
    """Return the posterior mean severities of the patients.

    Parameters
    ----------
    simulated : SimulatedCohort
        Simulated with the generator of the package, without sites.
    task : SimulationTask
    adjusted : bool
        Whether age, sex and head size of each person are known.
    n_levels : int
        L.

    Returns
    -------
    (N, M)
    """
    cohort = simulated.cohort.take(np.flatnonzero(simulated.cohort.is_patient))
    logs = np.log(cohort.volumes.to_numpy(dtype=float))
    mean, covariance = _describe_healthy_people(load_reference(), cohort.covariates if adjusted else None)
    affected = [np.array([cohort.regions.index(name) for name in pattern]) for pattern in task.patterns]
    rows = np.unique(np.concatenate(affected))
    residuals, spread = _condition_on_rest(logs - mean, covariance, rows)
    levels, log_prior = _make_grid(task, n_levels)
    change, noise = _compute_changes(levels, task, [np.searchsorted(rows, regions) for regions in affected], len(rows))
    return _average_over_posterior(residuals, spread, levels, log_prior, change, noise)


def score_oracle(task: str, seed: int, adjusted: bool) -> tuple[FloatArray, FloatArray]:
    """Return true and posterior mean severities (N, M) of the patients of one cohort."""
    simulated = simulate_cohort(task, seed)
    return simulated.truth, compute_oracle_severities(simulated, TASKS[task], adjusted)


def _describe_healthy_people(
    reference: HealthyReference, covariates: pd.DataFrame | None
) -> tuple[FloatArray, FloatArray]:
    """Return mean (N, R) or (R,) and covariance (R, R) of log volumes, given covariates or not."""
    if covariates is None:
        volumes, _ = reference.draw(_N_DRAWS, np.random.default_rng(_DRAW_SEED))
        logs = np.log(volumes.to_numpy())
        return logs.mean(axis=0), np.cov(logs.T)
    design = np.column_stack(
        [
            np.ones(len(covariates)),
            covariates["age"].to_numpy() - AGE_CENTRE,
            (covariates["sex"] == "M").to_numpy(dtype=float),
            np.log(covariates["icv"].to_numpy()) - LOG_ICV_CENTRE,
        ]
    )
    return design @ reference.coefficients, reference.root @ reference.root.T


def _condition_on_rest(residuals: FloatArray, covariance: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return residuals (N, P) of some regions given all others, and their covariance (P, P)."""
    others = np.setdiff1d(np.arange(len(covariance)), rows)
    weights = np.linalg.solve(covariance[np.ix_(others, others)], covariance[np.ix_(others, rows)])
    spread = covariance[np.ix_(rows, rows)] - covariance[np.ix_(rows, others)] @ weights
    return residuals[:, rows] - residuals[:, others] @ weights, spread


def _make_grid(task: SimulationTask, n_levels: int) -> tuple[FloatArray, FloatArray]:
    """Return severities (G, M) at equally likely levels of each pattern, and the log prior of each point (G,)."""
    middle = (np.arange(n_levels) + 0.5) / n_levels
    points = np.array(list(product(middle, repeat=len(task.patterns))))
    normal = norm.ppf(points)
    correlation = np.full((points.shape[1],) * 2, task.correlation)
    np.fill_diagonal(correlation, 1.0)
    excess = np.linalg.inv(correlation) - np.eye(len(correlation))
    return np.asarray(beta.ppf(points, *task.beta)), -0.5 * np.einsum("gi,ij,gj->g", normal, excess, normal)


def _compute_changes(
    levels: FloatArray, task: SimulationTask, affected: list[IntArray], n_regions: int
) -> tuple[FloatArray, FloatArray]:
    """Return the change of log volumes (G, P) at each point of a grid (G, M), and the variance of its noise (G, P)."""
    change, noise = np.zeros((len(levels), n_regions)), np.zeros((len(levels), n_regions))
    for severity, regions in zip(levels.T, affected, strict=True):
        onset = np.linspace(0, task.last_onset, len(regions))
        loss = task.rate * np.clip((severity[:, None] - onset) / (1 - onset), 0, 1)
        variance = (task.noise * loss / (1 - loss)) ** 2
        change[:, regions] += np.log1p(-loss) - 0.5 * variance
        noise[:, regions] += variance
    return change, noise


def _average_over_posterior(
    residuals: FloatArray,
    spread: FloatArray,
    levels: FloatArray,
    log_prior: FloatArray,
    change: FloatArray,
    noise: FloatArray,
) -> FloatArray:
    """Return posterior means (N, M) of severities on a grid (G, M)."""
    log_density = np.empty((len(levels), len(residuals)))
    for start in range(0, len(levels), _CHUNK_SIZE):
        part = slice(start, start + _CHUNK_SIZE)
        roots = np.linalg.cholesky(spread + noise[part][:, :, None] * np.eye(len(spread)))
        for point, root in enumerate(roots, start=start):
            white = solve_triangular(root, (residuals - change[point]).T, lower=True, check_finite=False)
            log_density[point] = -0.5 * (white**2).sum(axis=0) - np.log(np.diag(root)).sum() + log_prior[point]
    weights = np.exp(log_density - log_density.max(axis=0))
    return np.asarray((weights.T @ levels) / weights.sum(axis=0)[:, None])
