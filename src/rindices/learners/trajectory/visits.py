"""Patterns from repeat visits: the level of a person and the change between visits
share one set of patterns.

Visit v of person i is x_iv = sum_m D_m s_imv + e_i + u_iv. e ~ N(0, C) is normal
variation, the same at all visits of a person, and u ~ N(0, E) is retest noise. A
person's visits are reduced to two rows: the level is their mean, the trend is a
contrast between later and earlier visits, with weights of sum 0 and norm 1. It is free
of e, which is by far the larger part of the variation between people. Severities that
do not fall make the severities of the trend positive.

Both rows have the model of proportional patterns (`model`), with common
steps, copula and noise of their own, and the same patterns D. The M step for D adds the
information of both rows, each in the metric of its own noise. People enter through the
same sums as with one visit. Shape letters: N people, R regions, M patterns, K steps.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from rindices._typing import FloatArray, IntArray
from rindices.learners.base import handle_zeros_in_scale
from rindices.learners.contrastive.rotation import (
    QUANTILE_GRID,
    PeopleMoments,
    SeverityPrior,
    compute_severity_weights,
    estimate_severity_moments,
    fit_prior_to_moments,
    solve_with_diagonal,
)
from rindices.learners.inference import ShiftHead
from rindices.learners.missing_cells import complete_people
from rindices.learners.normal_variation import ReferenceTarget, estimate_covariance
from rindices.learners.prepared_people import PreparedPeople
from rindices.learners.severity_posterior import N_STEPS
from rindices.learners.trajectory.em import StepRule
from rindices.learners.trajectory.expectation import (
    ControlSums,
    PatientSums,
    compute_log_likelihood,
)
from rindices.learners.trajectory.maximisation import (
    combine_sums,
    initialise_variances,
    isolate_pattern,
    update_common_steps,
    update_prior_variances,
    update_variation,
)
from rindices.learners.trajectory.model import TrajectoryModel
from rindices.learners.trajectory.settings import DEFAULT_EM_SETTINGS, EMSettings

MIN_FOLLOWED = 20
"""Fewest controls, and fewest patients, with several visits from whom trends are
learnt.
"""
_SQRT2 = np.sqrt(2.0)


class VisitRows(NamedTuple):
    """Levels (N, R) of people, and trends of those of them who have several visits, as
    shifts.

    Missing cells of levels are NaN. Trends have no missing cells.

    Attributes
    ----------
    level : ndarray
    trend : ndarray
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
        Of trends divided by ``scale``. Its noise is E.
    scale : ndarray of shape (R,)
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
    def initialise(
        cls,
        level: TrajectoryModel,
        controls: VisitRows,
        patients: VisitRows,
        settings: EMSettings = DEFAULT_EM_SETTINGS,
    ) -> Self:
        """Return a model of both rows with the patterns of a model of the levels."""
        scale = handle_zeros_in_scale(controls.trend.std(axis=0))
        noise = estimate_covariance(controls.trend / scale)
        return cls(
            level,
            make_proportional_model(
                level.patterns / scale, noise, patients.trend / scale, settings
            ),
            scale,
        )

    def compute_log_likelihood(self, patients: VisitRows) -> float:
        """Return the log-likelihood of all visits per patient, up to a constant that no
        model changes.
        """
        levels = compute_log_likelihood(patients.level, self.level).sum()
        trends = (
            compute_log_likelihood(patients.trend / self.scale, self.trend)
            - np.log(self.scale).sum()
        )
        return float(levels + trends.sum()) / len(patients.level)


class VisitFit(NamedTuple):
    """Result of `fit_visits`.

    Attributes
    ----------
    model : VisitModel
    n_iterations : int
        Number of M steps.
    held_out : float
        Log-likelihood of all visits per held-out patient. NaN without any.
    """

    model: VisitModel
    n_iterations: int
    held_out: float = float("nan")


def make_proportional_model(
    patterns: FloatArray,
    noise: FloatArray,
    patients: FloatArray,
    settings: EMSettings = DEFAULT_EM_SETTINGS,
) -> TrajectoryModel:
    """Return a proportional model of patterns (M, R), with the distribution of the
    severities of patients (N, R).
    """
    is_negative = (patients @ compute_severity_weights(patterns.T, noise)).mean(
        axis=0
    ) < 0
    patterns = np.where(is_negative[:, None], -patterns, patterns)
    prior = fit_prior_to_moments(
        *estimate_severity_moments(PeopleMoments.compute(patients), patterns.T, noise)
    )
    common = compute_common_steps(prior, settings)
    return TrajectoryModel(
        steps=common[:, :, None] * patterns[:, None],
        noise=noise,
        correlation=prior.factor @ prior.factor.T,
        common=common,
    )


def compute_common_steps(
    prior: SeverityPrior, settings: EMSettings = DEFAULT_EM_SETTINGS
) -> FloatArray:
    """Return the steps (M, K) between equally spaced quantiles of the severities."""
    levels = np.linspace(0.0, 1.0, N_STEPS + 1)
    common = np.diff(
        np.stack([np.interp(levels, QUANTILE_GRID, row) for row in prior.quantiles]),
        axis=1,
    )
    return np.asarray(
        np.maximum(common, settings.min_step * common.mean(axis=1, keepdims=True))
    )


@dataclass(frozen=True, kw_only=True)
class VisitProblem:
    """All visits of the people of one member, and a proportional model of the levels
    from which EM begins.

    Attributes
    ----------
    controls, patients : VisitRows
        Shifts from the controls' mean, in control standard deviations.
    start : TrajectoryModel
    target : ReferenceTarget or None
        Correlations of a reference population, for normal variation.
    held_out : VisitRows or None
        Other patients, who tell when EM ends.
    """

    controls: VisitRows
    patients: VisitRows
    start: TrajectoryModel
    target: ReferenceTarget | None = None
    held_out: VisitRows | None = None

    def iterate(
        self, coupled: bool, settings: EMSettings = DEFAULT_EM_SETTINGS
    ) -> Iterator[tuple[VisitModel, float]]:
        """Yield the start, then the model after each M step, each with the
        log-likelihood of held-out visits.
        """
        model = VisitModel.initialise(
            self.start, self.controls, self.patients, settings
        )
        variances = initialise_variances(self.start)
        control_rows, rows = (
            (each.level, each.trend / model.scale)
            for each in (self.controls, self.patients)
        )
        control_sums = _sum_over_controls(control_rows, model)
        is_complete = not np.isnan(self.controls.level).any()
        targets = (
            self.target,
            ReferenceTarget.choose(control_rows[1], np.eye(len(model.scale))),
        )
        for _ in range(settings.trend_steps):
            model = _update_trend(model, rows[1], control_sums[1], targets[1], settings)
        while True:
            if self.held_out is None or not len(self.held_out.level):
                yield model, float("nan")
            else:
                yield model, model.compute_log_likelihood(self.held_out)
            if coupled:
                control_sums = (
                    control_sums
                    if is_complete
                    else _sum_over_controls(control_rows, model)
                )
                model, variances = _update_both(
                    model, variances, rows, control_sums, targets, settings
                )
            else:
                model = _update_trend(
                    model, rows[1], control_sums[1], targets[1], settings
                )


def fit_visits(
    problems: Sequence[VisitProblem],
    n_iterations: int | None = None,
    coupled: bool = True,
    settings: EMSettings = DEFAULT_EM_SETTINGS,
) -> list[VisitFit]:
    """Maximise the likelihood of all visits of the people of each member.

    Parameters
    ----------
    problems : sequence of VisitProblem
        One per member.
    n_iterations : int or None
        Number of M steps. The largest number if there are held-out patients. It is
        the same for all members.
    coupled : bool
        Whether trends change the patterns. If not, the model of the levels stays as
        it is, and the trend is fitted to its patterns.
    """
    paths = [problem.iterate(coupled, settings) for problem in problems]
    rule: StepRule[VisitModel] = StepRule(
        n_iterations or settings.max_visit_steps, settings.min_visit_gain
    )
    while not rule.ends([next(path) for path in paths], settings.patience):
        pass
    return [VisitFit(model, rule.n_best, held_out) for model, held_out in rule.best]


def _sum_over_controls(
    rows: Sequence[FloatArray], model: VisitModel
) -> list[ControlSums]:
    return [
        ControlSums.compute(row, part)
        for row, part in zip(rows, (model.level, model.trend), strict=True)
    ]


def _update_trend(
    model: VisitModel,
    patients: FloatArray,
    control_sums: ControlSums,
    target: ReferenceTarget | None,
    settings: EMSettings,
) -> VisitModel:
    """Take one M step for the model of the trend, with its patterns as they are."""
    trend, sums = model.trend, PatientSums.compute(patients, model.trend)
    common = update_common_steps(
        trend, sums.cross, combine_sums(trend, sums)[1], settings
    )
    trend = replace(
        trend, common=common, steps=common[:, :, None] * trend.patterns[:, None]
    )
    return model._replace(
        trend=update_variation(trend, sums, control_sums, target, settings)
    )


def _update_both(
    model: VisitModel,
    variances: FloatArray,
    rows: Sequence[FloatArray],
    control_sums: Sequence[ControlSums],
    targets: Sequence[ReferenceTarget | None],
    settings: EMSettings,
) -> tuple[VisitModel, FloatArray]:
    """Take one M step for patterns and both models; returns the model and the prior
    variances (M, R).
    """
    parts, scales = [model.level, model.trend], (np.ones_like(model.scale), model.scale)
    sums = [
        PatientSums.compute(people, part)
        for people, part in zip(rows, parts, strict=True)
    ]
    grams = [
        combine_sums(part, each)[1] for part, each in zip(parts, sums, strict=True)
    ]
    parts = [
        replace(part, common=update_common_steps(part, each.cross, gram, settings))
        for part, each, gram in zip(parts, sums, grams, strict=True)
    ]
    information = [
        _RowInformation(
            common=part.common,
            precision=part.precision,
            cross=each.cross,
            gram=gram,
            scale=scale,
        )
        for part, each, gram, scale in zip(parts, sums, grams, scales, strict=True)
    ]
    patterns, variances = _update_patterns(
        model.level.patterns, variances, information, settings
    )
    for k, part in enumerate(parts):
        moved = replace(
            part, steps=part.common[:, :, None] * (patterns / scales[k])[:, None]
        )
        parts[k] = update_variation(
            moved, sums[k], control_sums[k], targets[k], settings
        )
    return VisitModel(parts[0], parts[1], model.scale), variances


@dataclass(frozen=True, kw_only=True)
class _RowInformation:
    """Sums over one of the two rows, for the M step of the patterns.

    Attributes
    ----------
    common : ndarray of shape (M, K)
    precision : ndarray of shape (R, R)
        Inverse of the noise.
    cross : ndarray of shape (R, M * K)
    gram : ndarray of shape (M * K, M * K)
    scale : ndarray of shape (R,)
        What the row was divided by.
    """

    common: FloatArray
    precision: FloatArray
    cross: FloatArray
    gram: FloatArray
    scale: FloatArray

    def isolate(self, m: int, patterns: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the information (R, R) on pattern m, and its right-hand side (R,),
        given the others of (M, R).
        """
        steps = self.common[:, :, None] * (patterns / self.scale)[:, None]
        root, unexplained = isolate_pattern(m, steps, self.cross, self.gram)
        size = float(np.square(root.T @ self.common[m]).sum())
        right = self.precision @ (self.common[m] @ unexplained) / self.scale
        return size * self.precision / np.outer(self.scale, self.scale), right


def _update_patterns(
    patterns: FloatArray,
    variances: FloatArray,
    rows: Sequence[_RowInformation],
    settings: EMSettings = DEFAULT_EM_SETTINGS,
) -> tuple[FloatArray, FloatArray]:
    """Return the posterior mean of the patterns (M, R) and updated prior variances (M,
    R).
    """
    patterns, variances = patterns.copy(), variances.copy()
    for m in range(len(patterns)):
        parts = [row.isolate(m, patterns) for row in rows]
        information, right = (
            np.sum([part[k] for part in parts], axis=0) for k in (0, 1)
        )
        sd = np.sqrt(variances[m])
        solution, diagonal = solve_with_diagonal(
            np.eye(len(sd)) + sd[:, None] * information * sd, sd * right
        )
        patterns[m] = sd * solution
        variances[m] = update_prior_variances(
            variances[m], patterns[m] ** 2, np.clip(1.0 - diagonal, 0.0, 1.0), settings
        )
    return patterns, variances


class VisitShifts(NamedTuple):
    """Trends of people as shifts.

    Attributes
    ----------
    trend : ndarray of shape (N, R)
        Without missing cells, except that people with one visit have NaN
        everywhere.
    retest_share : float
        Part of the retest noise of one visit that the mean of visits lacks: 1 -
        mean(1 / n).
    """

    trend: FloatArray
    retest_share: float

    def select(self, levels: FloatArray, rows: IntArray) -> VisitRows:
        """Return the rows of some people, with their levels of (N, R)."""
        trend = self.trend[rows]
        return VisitRows(levels[rows], trend[~np.isnan(trend).all(axis=1)])


def prepare_visit_shifts(people: PreparedPeople, head: ShiftHead) -> VisitShifts | None:
    """Return the trends of people as shifts; None where hardly anyone has several
    visits.
    """
    if people.trend is None or people.n_visits is None:
        return None
    followed = ~np.isnan(people.trend).all(axis=1)
    if np.bincount(people.y[followed], minlength=2).min() < MIN_FOLLOWED:
        return None
    levels, trend = people.X[followed], people.trend[followed]
    shifts = np.full_like(people.trend, np.nan)
    # with two visits, level -+ trend / sqrt(2) are the visits
    changes = (
        head.prepare(levels + trend / _SQRT2) - head.prepare(levels - trend / _SQRT2)
    ) / _SQRT2
    shifts[followed] = complete_people(
        changes, people.y[followed], np.random.default_rng(0)
    )
    return VisitShifts(shifts, float(1.0 - np.mean(1.0 / people.n_visits)))
