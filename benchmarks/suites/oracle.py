"""The theoretical limit on simulated cohorts: posterior means of the severities under
the true generator.

The oracle knows everything but the severities: the patterns, their rates, onsets, noise
and interaction, how the change depends on the person, the distribution of severities,
and the distribution of healthy people. No learner can rank severities better on
average.

Healthy log volumes are c + e: the effect c of the covariates and the deviation e of the
person. Given severities z, the log volumes of a patient are c + change(z) + scale(z) *
e. The scale is 1, unless the change depends on the person. It is then 1 - dependence *
change / sd, because the change of a region is multiplied by 1 - dependence * e / sd. So
log volumes are normal given z in every task, with a mean and a covariance that depend
on z. The posterior mean is a sum over a grid of z. Regions outside all patterns do not
change. The regions of patterns are conditioned on them once, and only the regions of
patterns remain in the sum.

There are two approximations besides the grid. The noise of the loss enters log volumes
to second order. If covariates are not known, c is taken as normal, with the mean and
the covariance of many people.

Shape letters: N people, R regions, P regions of any pattern, M patterns, L levels of a
grid, G = L^M points.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from scipy.linalg import block_diag, solve_triangular
from scipy.stats import beta, norm

from rindices._typing import FloatArray, IntArray
from rindices.experiments.reference import (
    LATENT_SD,
    HealthyReference,
    OrganReference,
    list_features,
    load_organ_reference,
    load_reference,
)
from rindices.experiments.simulate import (
    SimulatedCohort,
    express_severities,
    simulate_cohort,
)
from rindices.experiments.tasks import TASKS, SimulationTask

N_LEVELS = 15
# people whose mean and covariance stand for the effects of unknown covariates
_N_DRAWS = 20_000
_DRAW_SEED = 4711
_CHUNK_SIZE = 400  # points of the grid at once


@dataclass(frozen=True)
class _HealthyParts:
    """Distribution of the two parts of healthy log volumes, effects of covariates and
    deviations of people.
    """

    mean: FloatArray  # (N, R) or (R,), of the sum
    covariate_covariance: FloatArray  # (R, R); 0 if the covariates are known
    deviation_covariance: FloatArray  # (R, R)


@dataclass(frozen=True)
class _ConditionalParts:
    """Distribution of the two parts in the regions of patterns, given the other
    regions; axis 2 is the part.
    """

    mean: FloatArray  # (N, 2, P)
    covariance: FloatArray  # (2, P, 2, P)


@dataclass(frozen=True)
class _GridChanges:
    """Effect of the severities at each point of a grid on the log volumes of the
    regions of patterns.
    """

    change: FloatArray  # (G, P), in a person without deviation
    scale: FloatArray  # (G, P), factor of the person's deviation
    noise: FloatArray  # (G, P), variance


def compute_oracle_severities(
    simulated: SimulatedCohort,
    task: SimulationTask,
    adjusted: bool,
    n_levels: int = N_LEVELS,
) -> FloatArray:
    """Return the posterior mean severities of the patients.

    Parameters
    ----------
    simulated : SimulatedCohort
        Simulated with the generator of the package, without sites.
    task : SimulationTask
        What the oracle takes as true; the task of the cohort gives the limit.
    adjusted : bool
        Whether age, sex and head size of each person are known.
    n_levels : int
        L.

    Returns
    -------
    (N, M)
    """
    cohort = simulated.cohort.take(np.flatnonzero(simulated.cohort.is_patient))
    values = cohort.volumes.to_numpy(dtype=float)
    logs = recover_logs(values) if task.organs else np.log(values)
    reference = load_organ_reference() if task.organs else load_reference()
    healthy = _describe_healthy_people(
        reference, cohort.covariates if adjusted else None
    )
    affected = [
        np.array([cohort.regions.index(name) for name in pattern])
        for pattern in task.patterns
    ]
    rows = np.unique(np.concatenate(affected))
    conditional = _condition_on_rest(logs - healthy.mean, healthy, rows)
    levels, log_prior = _make_grid(task, n_levels)
    sd = np.sqrt(np.diag(healthy.deviation_covariance))[rows]
    changes = _compute_changes(
        levels, task, [np.searchsorted(rows, regions) for regions in affected], sd
    )
    return _average_over_posterior(
        (logs - healthy.mean)[:, rows], conditional, levels, log_prior, changes
    )


def score_oracle(task: str, seed: int, adjusted: bool) -> tuple[FloatArray, FloatArray]:
    """Return true and posterior mean severities (N, M) of the patients of
    one cohort.
    """
    simulated = simulate_cohort(task, seed)
    return simulated.truth, compute_oracle_severities(simulated, TASKS[task], adjusted)


def _describe_healthy_people(
    reference: HealthyReference | OrganReference, covariates: pd.DataFrame | None
) -> _HealthyParts:
    """Return the distribution of log volumes, given the covariates of people or not."""
    deviations = reference.residual_covariance
    if covariates is not None:
        return _HealthyParts(
            reference.predict_logs(covariates), np.zeros_like(deviations), deviations
        )
    _, drawn = reference.draw(_N_DRAWS, np.random.default_rng(_DRAW_SEED))
    effects = reference.predict_logs(drawn)
    return _HealthyParts(effects.mean(axis=0), np.cov(effects.T), deviations)


def _condition_on_rest(
    residuals: FloatArray, healthy: _HealthyParts, rows: IntArray
) -> _ConditionalParts:
    """Return both parts in some regions, given the log volumes of all others as
    residuals (N, R) from the mean.
    """
    parts = (healthy.covariate_covariance, healthy.deviation_covariance)
    others = np.setdiff1d(np.arange(residuals.shape[1]), rows)
    among_others = sum(part[np.ix_(others, others)] for part in parts)
    with_others = np.concatenate(
        [part[np.ix_(others, rows)] for part in parts], axis=1
    )  # (R - P, 2P)
    weights = np.linalg.solve(among_others, with_others)
    covariance = (
        block_diag(*(part[np.ix_(rows, rows)] for part in parts))
        - with_others.T @ weights
    )
    mean = residuals[:, others] @ weights
    return _ConditionalParts(
        mean.reshape(-1, 2, len(rows)), covariance.reshape(2, len(rows), 2, len(rows))
    )


def _make_grid(task: SimulationTask, n_levels: int) -> tuple[FloatArray, FloatArray]:
    """Return severities (G, M) at equally likely levels of each pattern, and the log
    prior of each point (G,).
    """
    middle = (np.arange(n_levels) + 0.5) / n_levels
    points = np.array(list(product(middle, repeat=len(task.patterns))))
    normal = norm.ppf(points)
    correlation = np.full((points.shape[1],) * 2, task.correlation)
    np.fill_diagonal(correlation, 1.0)
    excess = np.linalg.inv(correlation) - np.eye(len(correlation))
    return np.asarray(beta.ppf(points, *task.beta)), -0.5 * np.einsum(
        "gi,ij,gj->g", normal, excess, normal
    )


def _compute_changes(
    levels: FloatArray, task: SimulationTask, affected: list[IntArray], sd: FloatArray
) -> _GridChanges:
    """Return the effect of severities (G, M) on regions whose healthy deviations have
    standard deviations (P,).
    """
    change, correction, noise = np.zeros((3, len(levels), len(sd)))
    all_expressed = express_severities(
        levels, [len(regions) for regions in affected], task
    )
    for regions, expressed in zip(affected, all_expressed, strict=True):
        loss = task.rate * expressed
        variance = (task.noise * loss / (1 - loss)) ** 2
        change[:, regions] += np.log1p(-loss)
        correction[:, regions] += 0.5 * variance
        noise[:, regions] += variance
    return _GridChanges(change - correction, 1 - task.dependence * change / sd, noise)


def _average_over_posterior(
    residuals: FloatArray,
    conditional: _ConditionalParts,
    levels: FloatArray,
    log_prior: FloatArray,
    changes: _GridChanges,
) -> FloatArray:
    """Return posterior means (N, M) of severities on a grid (G, M), from residuals (N,
    P) of log volumes.
    """
    log_density = np.empty((len(levels), len(residuals)))
    residuals = residuals - conditional.mean[:, 0]
    deviations = conditional.mean[:, 1]
    for start in range(0, len(levels), _CHUNK_SIZE):
        part = slice(start, start + _CHUNK_SIZE)
        roots = np.linalg.cholesky(
            _sum_covariances(
                conditional.covariance, changes.scale[part], changes.noise[part]
            )
        )
        for point, root in enumerate(roots, start=start):
            expected = changes.change[point] + changes.scale[point] * deviations
            white = solve_triangular(
                root, (residuals - expected).T, lower=True, check_finite=False
            )
            log_density[point] = (
                -0.5 * (white**2).sum(axis=0)
                - np.log(np.diag(root)).sum()
                + log_prior[point]
            )
    weights = np.exp(log_density - log_density.max(axis=0))
    return np.asarray((weights.T @ levels) / weights.sum(axis=0)[:, None])


def _sum_covariances(
    parts: FloatArray, scale: FloatArray, noise: FloatArray
) -> FloatArray:
    """Return covariances (G, P, P) of effects + scale * deviations + noise, from those
    of both parts (2, P, 2, P).
    """
    between = scale[:, :, None] * parts[1, :, 0, :]  # of scaled deviations and effects
    scaled = scale[:, :, None] * parts[1, :, 1, :] * scale[:, None, :]
    total = parts[0, :, 0, :] + between + between.transpose(0, 2, 1) + scaled
    return np.asarray(total + noise[:, :, None] * np.eye(noise.shape[1]))


def recover_logs(features: FloatArray) -> FloatArray:
    """Return latents from features, the inverse of `express_features` without the
    exponential: (N, R) -> (N, R).
    """
    columns = []
    for feature, values in zip(list_features(), features.T, strict=True):
        shift = (
            np.log(values / feature.centre)
            if feature.is_skewed
            else values - feature.centre
        )
        columns.append(-feature.direction * LATENT_SD * shift / feature.spread)
    return np.column_stack(columns)
