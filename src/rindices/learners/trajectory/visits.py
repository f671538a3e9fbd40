"""Patterns from repeat visits: the level of a person and the change between visits share one set of patterns.

Visit v of person i is x_iv = sum_m D_m s_imv + e_i + u_iv. e ~ N(0, C) is normal variation, the same at all visits of a
person, and u ~ N(0, E) is retest noise. A person's visits are reduced to two rows: the level is their mean, the trend
is a contrast between later and earlier visits, with weights of sum 0 and norm 1. It is free of e, which is by far the
larger part of the variation between people. Severities that do not fall make the severities of the trend positive.

Both rows have the model of straight patterns (`expectation_maximisation`), with common steps, copula and noise of their
own, and the same patterns D. The M step for D adds the information of both rows, each in the metric of its own noise.
People enter through the same sums as with one visit. Shape letters: N people, R regions, M patterns, K steps.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from rindices._typing import FloatArray
from rindices.learners.base import handle_zeros_in_scale
from rindices.learners.contrastive.severity_prior import QUANTILE_GRID, SeverityPrior, fit_prior_to_moments
from rindices.learners.contrastive.sparse_patterns import (
    PeopleMoments,
    compute_severity_weights,
    estimate_severity_moments,
    solve_with_diagonal,
)
from rindices.learners.normal_variation import ReferenceTarget, estimate_covariance
from rindices.learners.severity_points import N_STEPS
from rindices.learners.trajectory.expectation_maximisation import (
    compute_gram,
    initialise_variances,
    isolate_pattern,
    update_common_steps,
    update_prior_variances,
    update_variation,
)
from rindices.learners.trajectory.model import TrajectoryModel
from rindices.learners.trajectory.sums import ControlSums, PatientSums, compute_log_likelihood

_MAX_ITERATIONS = 30
_N_TREND_STEPS = 3  # M steps of the trend alone, before the patterns are updated
_MIN_GAIN = 1e-2  # in the mean log-likelihood of held-out patients
_PATIENCE = 5  # M steps without that gain after which EM ends
_MIN_STEP_SHARE = 0.02  # of the mean step, at the start


class VisitRows(NamedTuple):
    """Levels (N, R) of people, and trends of those of them who have several visits, as shifts.

    Missing cells of levels are NaN. Trends have no missing cells.
    """

    level: FloatArray
    trend: FloatArray


class VisitModel(NamedTuple):
    """Models of both rows with the same patterns.

    Attributes
    ----------
    level : TrajectoryModel
        Its noise is C + E / n, averaged over people.
    trend : TrajectoryModel
        Of trends divided by ``scale``; its noise is E.
    scale : (R,)
        Standard deviation of the controls' trends.
    """

    level: TrajectoryModel
    trend: TrajectoryModel
    scale: FloatArray

    @property
    def retest_noise(self) -> FloatArray:
        """E (R, R), in the units of the levels."""
        return np.asarray(self.trend.noise * np.outer(self.scale, self.scale))

    @classmethod
    def initialise(cls, level: TrajectoryModel, controls: VisitRows, patients: VisitRows) -> Self:
        """Return a model of both rows with the patterns of a model of the levels."""
        scale = handle_zeros_in_scale(controls.trend.std(axis=0))
        noise = estimate_covariance(controls.trend / scale)
        return cls(level, make_straight_model(get_patterns(level) / scale, noise, patients.trend / scale), scale)

    def compute_log_likelihood(self, patients: VisitRows) -> float:
        """Return the log-likelihood of all visits per patient, up to a constant that no model changes."""
        levels = compute_log_likelihood(patients.level, self.level).sum()
        trends = compute_log_likelihood(patients.trend / self.scale, self.trend) - np.log(self.scale).sum()
        return float(levels + trends.sum()) / len(patients.level)


class VisitFit(NamedTuple):
    """Result of `fit_visits`.

    Attributes
    ----------
    model : VisitModel
    n_iterations : int
        Number of M steps.
    held_out : float
        Log-likelihood of all visits per held-out patient; NaN without any.
    """

    model: VisitModel
    n_iterations: int
    held_out: float = float("nan")


def get_patterns(model: TrajectoryModel) -> FloatArray:
    """Return the patterns D (M, R) of straight curves, per unit of their common steps."""
    squares = (model.common**2).sum(axis=1)
    return np.asarray((model.common[:, :, None] * model.steps).sum(axis=1) / squares[:, None])


def make_straight_model(patterns: FloatArray, noise: FloatArray, patients: FloatArray) -> TrajectoryModel:
    """Return a straight model of patterns (M, R), with the distribution of the severities of patients (N, R)."""
    is_negative = (patients @ compute_severity_weights(patterns.T, noise)).mean(axis=0) < 0
    patterns = np.where(is_negative[:, None], -patterns, patterns)
    prior = fit_prior_to_moments(*estimate_severity_moments(PeopleMoments.compute(patients), patterns.T, noise))
    common = compute_common_steps(prior)
    return TrajectoryModel(common[:, :, None] * patterns[:, None], noise, prior.factor @ prior.factor.T, common)


def compute_common_steps(prior: SeverityPrior) -> FloatArray:
    """Return the steps (M, K) between equally spaced quantiles of the severities."""
    levels = np.linspace(0.0, 1.0, N_STEPS + 1)
    common = np.diff(np.stack([np.interp(levels, QUANTILE_GRID, row) for row in prior.quantiles]), axis=1)
    return np.asarray(np.maximum(common, _MIN_STEP_SHARE * common.mean(axis=1, keepdims=True)))


def fit_visits(
    controls: VisitRows,
    patients: VisitRows,
    start: TrajectoryModel,
    target: ReferenceTarget | None = None,
    held_out: VisitRows | None = None,
    n_iterations: int | None = None,
    coupled: bool = True,
) -> VisitFit:
    """Maximise the likelihood of all visits from a straight model of the levels.

    Parameters
    ----------
    controls, patients : VisitRows
        Shifts from the controls' mean, in control standard deviations.
    start : TrajectoryModel
    target : ReferenceTarget, optional
        Correlations of a reference population, for normal variation.
    held_out : VisitRows, optional
        Other patients. EM ends when they do not become more likely any more.
    n_iterations : int, optional
        Number of M steps; the largest number if there are held-out patients.
    coupled : bool
        Whether trends change the patterns. If not, the model of the levels stays as it is, and the trend is fitted to
        its patterns.

    Returns
    -------
    VisitFit
    """
    model, variances = VisitModel.initialise(start, controls, patients), initialise_variances(start)
    control_rows, rows = _get_scaled_rows(controls, model), _get_scaled_rows(patients, model)
    control_sums = _sum_over_controls(control_rows, model)
    is_complete = not np.isnan(controls.level).any()
    targets = target, ReferenceTarget.choose(control_rows[1], np.eye(len(model.scale)))
    for _ in range(_N_TREND_STEPS):
        model = _update_trend(model, rows[1], control_sums[1], targets[1])
    best = VisitFit(model, 0, _compute_held_out(held_out, model))
    for iteration in range(1, (n_iterations or _MAX_ITERATIONS) + 1):
        if coupled:
            control_sums = control_sums if is_complete else _sum_over_controls(control_rows, model)
            model, variances = _update_both(model, variances, rows, control_sums, targets)
        else:
            model = _update_trend(model, rows[1], control_sums[1], targets[1])
        likelihood = _compute_held_out(held_out, model)
        if not likelihood < best.held_out + _MIN_GAIN:  # also without held-out patients
            best = VisitFit(model, iteration, likelihood)
        elif iteration - best.n_iterations >= _PATIENCE:
            break
    return best


def _get_scaled_rows(people: VisitRows, model: VisitModel) -> tuple[FloatArray, FloatArray]:
    """Return levels and trends as the two models take them."""
    return people.level, people.trend / model.scale


def _sum_over_controls(rows: Sequence[FloatArray], model: VisitModel) -> list[ControlSums]:
    return [ControlSums.compute(row, part) for row, part in zip(rows, (model.level, model.trend), strict=True)]


def _compute_held_out(patients: VisitRows | None, model: VisitModel) -> float:
    return float("nan") if patients is None or not len(patients.level) else model.compute_log_likelihood(patients)


def _update_trend(
    model: VisitModel, patients: FloatArray, control_sums: ControlSums, target: ReferenceTarget | None
) -> VisitModel:
    """Take one M step for the model of the trend, with its patterns as they are."""
    trend, sums = model.trend, PatientSums.compute(patients, model.trend)
    gram, patterns = compute_gram(trend, sums), get_patterns(trend)
    common = update_common_steps(trend, sums.cross, gram)
    trend = trend._replace(common=common, steps=common[:, :, None] * patterns[:, None])
    return model._replace(trend=update_variation(trend, sums, control_sums, sums.cross, gram, target))


def _update_both(
    model: VisitModel,
    variances: FloatArray,
    rows: Sequence[FloatArray],
    control_sums: Sequence[ControlSums],
    targets: Sequence[ReferenceTarget | None],
) -> tuple[VisitModel, FloatArray]:
    """Take one M step for patterns and both models; returns the model and the prior variances (M, R)."""
    parts, scales = [model.level, model.trend], (np.ones_like(model.scale), model.scale)
    sums = [PatientSums.compute(people, part) for people, part in zip(rows, parts, strict=True)]
    grams = [compute_gram(part, each) for part, each in zip(parts, sums, strict=True)]
    parts = [
        part._replace(common=update_common_steps(part, each.cross, gram))
        for part, each, gram in zip(parts, sums, grams, strict=True)
    ]
    information = [
        _RowInformation(part.common, np.asarray(np.linalg.inv(part.noise)), each.cross, gram, scale)
        for part, each, gram, scale in zip(parts, sums, grams, scales, strict=True)
    ]
    patterns, variances = _update_patterns(get_patterns(model.level), variances, information)
    for k, part in enumerate(parts):
        moved = part._replace(steps=part.common[:, :, None] * (patterns / scales[k])[:, None])
        parts[k] = update_variation(moved, sums[k], control_sums[k], sums[k].cross, grams[k], targets[k])
    return VisitModel(parts[0], parts[1], model.scale), variances


class _RowInformation(NamedTuple):
    """Sums over one of the two rows, for the M step of the patterns.

    Attributes
    ----------
    common : (M, K)
    precision : (R, R)
        Inverse of the noise.
    cross : (R, M * K)
    gram : (M * K, M * K)
    scale : (R,)
        What the row was divided by.
    """

    common: FloatArray
    precision: FloatArray
    cross: FloatArray
    gram: FloatArray
    scale: FloatArray

    def isolate(self, m: int, patterns: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the information (R, R) on pattern m, and its right-hand side (R,), given the others of (M, R)."""
        steps = self.common[:, :, None] * (patterns / self.scale)[:, None]
        root, unexplained = isolate_pattern(m, steps, self.cross, self.gram)
        size = float(np.square(root.T @ self.common[m]).sum())
        right = self.precision @ (self.common[m] @ unexplained) / self.scale
        return size * self.precision / np.outer(self.scale, self.scale), right


def _update_patterns(
    patterns: FloatArray, variances: FloatArray, rows: Sequence[_RowInformation]
) -> tuple[FloatArray, FloatArray]:
    """Return the posterior mean of the patterns (M, R) and updated prior variances (M, R)."""
    patterns, variances = patterns.copy(), variances.copy()
    for m in range(len(patterns)):
        parts = [row.isolate(m, patterns) for row in rows]
        information, right = (np.sum([part[k] for part in parts], axis=0) for k in (0, 1))
        sd = np.sqrt(variances[m])
        solution, diagonal = solve_with_diagonal(np.eye(len(sd)) + sd[:, None] * information * sd, sd * right)
        patterns[m] = sd * solution
        variances[m] = update_prior_variances(variances[m], patterns[m] ** 2, np.clip(1.0 - diagonal, 0.0, 1.0))
    return patterns, variances
