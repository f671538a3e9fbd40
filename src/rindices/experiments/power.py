"""Power study: accuracy, number of patterns and intervals by simulation, for several
group sizes and effects.

An effect is the share of volume that a region loses, or Cohen's d: the mean difference
between patients and controls in a region of a pattern, in standard deviations of the
controls after adjustment. A loss of 10 % is many standard deviations of a cortical
thickness and few of a ventricle. Shape letters: R regions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed, parallel_config

from rindices._typing import FloatArray
from rindices.errors import InputError, SimulationError, format_count, join_names
from rindices.experiments.reference import (
    FittedHealthyReference,
    HealthyGenerator,
    load_reference,
)
from rindices.experiments.simulate import SimulatedCohort, simulate_cohort
from rindices.experiments.tasks import (
    MAX_PATTERNS,
    SimulationTask,
    make_task_with_patterns,
)
from rindices.learners.contrastive.estimator import ContrastiveICA
from rindices.plot import files
from rindices.plot.power import power as draw_power
from rindices.preprocess.pipeline import Preprocessing
from rindices.preprocess.residualise import Residualiser
from rindices.selection.agreement import pattern_c_index
from rindices.study.checks import MIN_RECOVERY_RATE, PowerRow
from rindices.study.group_tests import Finding, run_group_tests
from rindices.tables.cohort import Cohort

GROUP_SIZES = ((80, 100), (150, 200), (300, 400), (492, 900))
N_PATIENTS = (100, 200, 400, 800)  # beside the user's own controls
LOSS_RATES = (0.1, 0.2, 0.3)
EFFECTS_D = (0.3, 0.5, 0.8)
MAX_D = 5.0
FACTORS = (
    2,
    4,
    8,
    16,
)  # by which the people of a single size are multiplied until they are enough
N_COHORTS = 6
FIRST_SEED = (
    10_000  # far from the seeds of the benchmark, so that the two do not share people
)
_N_DRAWN = 2_000  # people from whom the variation of healthy regions is estimated
_MAX_RATE = 0.95  # share of volume that a region can lose


@dataclass(frozen=True, kw_only=True)
class PowerConfig:
    """Settings of a power study.

    Attributes
    ----------
    people : tuple of tuple of int
        Numbers of controls and patients.
    rates : tuple of float
        Shares of volume lost at severity 1.
    patterns : tuple of int
        True numbers of patterns.
    cohorts : int
        Simulated cohorts of each number of patterns, effect and size.
    covariates : tuple of str or None
        Covariates to adjust for. None for all that the healthy people have.
    healthy : Cohort or None
        Source of people instead of the reference.
    effects : tuple of float
        Cohen's d of the regions of a pattern, beside or instead of the rates.
    """

    people: tuple[tuple[int, int], ...] = GROUP_SIZES
    rates: tuple[float, ...] = LOSS_RATES
    patterns: tuple[int, ...] = (3,)
    cohorts: int = N_COHORTS
    covariates: tuple[str, ...] | None = None
    healthy: Cohort | None = field(default=None, compare=False, repr=False)
    effects: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if min(min(pair) for pair in self.people) < 10:
            raise InputError("give at least 10 controls and 10 patients.")
        is_possible = self.patterns and all(
            1 <= number <= MAX_PATTERNS for number in self.patterns
        )
        if not is_possible or not all(0 < rate < 1 for rate in self.rates):
            raise InputError(
                f"give 1 to {MAX_PATTERNS} patterns, and rates between 0 and 1."
            )
        if not all(0 < d <= MAX_D for d in self.effects) or not (
            self.rates or self.effects
        ):
            raise InputError(f"give rates, or effects in d between 0 and {MAX_D:g}.")

    @cached_property
    def generator(self) -> HealthyGenerator:
        """Generator of healthy people: like those of the user's table, or the one of
        the package.
        """
        return (
            load_reference()
            if self.healthy is None
            else FittedHealthyReference.fit(self.healthy)
        )

    @cached_property
    def adjusted(self) -> tuple[str, ...]:
        """Covariates that are adjusted for."""
        if self.covariates is not None:
            return self.covariates
        return tuple(self.generator.draw(10, np.random.default_rng(0))[1].columns)

    @cached_property
    def relative_sd(self) -> FloatArray:
        """Standard deviation of each region as a share of its mean, (R,)."""
        return estimate_relative_sd(self.generator, self.adjusted)


@dataclass(frozen=True, eq=False, kw_only=True)
class PowerJob:
    """One simulated cohort of a power study.

    Attributes
    ----------
    config : PowerConfig
        Settings of the study.
    n_controls : int
        Number of controls.
    n_patients : int
        Number of patients.
    rates : ndarray of shape (R,)
        Share of volume that each region loses at severity 1.
    seed : int
        Seed of the cohort.
    patterns : int
        True number of patterns.
    """

    config: PowerConfig
    n_controls: int
    n_patients: int
    rates: FloatArray
    seed: int
    patterns: int = 3


@dataclass(frozen=True, kw_only=True)
class PowerMeasurement:
    """Figures of one simulated cohort. See `PowerRow`.

    Attributes
    ----------
    accuracy : float
        Pattern-c-index.
    right : bool
        Whether the test found the true number of patterns.
    any : bool
        Whether the test found at least one pattern.
    width : float
        Width of the 95 % interval of a person's severity.
    """

    accuracy: float
    right: bool
    any: bool
    width: float


@dataclass(frozen=True, kw_only=True)
class PowerResult:
    """Result of a power study.

    Attributes
    ----------
    patterns : list of int
        True numbers of patterns.
    cohorts : int
        Simulated cohorts of each number of patterns, effect and size.
    covariates : list of str
        Covariates that were adjusted for.
    rows : list of PowerRow
        One row per number of patterns, effect and size.
    d_of_tenth : list of float
        Quartiles over regions of Cohen's d of a loss of 10 % at the highest severity.
    """

    patterns: list[int]
    cohorts: int
    covariates: list[str]
    rows: list[PowerRow]
    d_of_tenth: list[float]


def run_power(
    config: PowerConfig,
    workers: int = -1,
    progress: Callable[[int, int, object], None] | None = None,
) -> PowerResult:
    """Simulate all sizes and effects; ``progress`` is called with the number of jobs
    done, of all, and the last one.

    Where there is one size, the effects whose number of patterns is too rarely right
    are simulated with 2, 4, 8 and 16 times as many people, until it is right in
    `MIN_RECOVERY_RATE` of the cohorts.
    """
    task, relative_sd = SimulationTask(), config.relative_sd
    by_d = [convert_d_to_rates(d, relative_sd, task) for d in config.effects]
    effects = [
        _Effect(float(np.median(rates)), d, rates)
        for d, rates in zip(config.effects, by_d, strict=True)
    ]
    for rate in config.rates:
        d = float(np.median(convert_rate_to_d(rate, relative_sd, task)))
        effects.append(_Effect(rate, d, np.full(len(relative_sd), rate)))
    cases = [
        _Case(n_controls=n, n_patients=m, effect=effect, patterns=k)
        for k in config.patterns
        for effect in effects
        for n, m in config.people
    ]
    rows = _measure_cases(config, cases, workers, progress)
    factors = FACTORS if len(config.people) == 1 else ()
    for factor in factors:
        is_missed = [
            row.right < MIN_RECOVERY_RATE for row in rows[len(rows) - len(cases) :]
        ]
        cases = [case for case, missed in zip(cases, is_missed, strict=True) if missed]
        n_controls, n_patients = (factor * n for n in config.people[0])
        cases = [
            replace(case, n_controls=n_controls, n_patients=n_patients)
            for case in cases
        ]
        rows += _measure_cases(config, cases, workers, progress)
    quartiles = np.quantile(
        convert_rate_to_d(0.1, relative_sd, task), [0.25, 0.5, 0.75]
    )
    return PowerResult(
        patterns=list(config.patterns),
        cohorts=config.cohorts,
        covariates=list(config.adjusted),
        rows=rows,
        d_of_tenth=quartiles.tolist(),
    )


class _Effect(NamedTuple):
    """Loss of a pattern.

    Attributes
    ----------
    rate : float
        Share of volume lost at severity 1.
    d : float
        Cohen's d of that loss.
    rates : ndarray of shape (R,)
        Share of volume that each region loses at severity 1.
    """

    rate: float
    d: float
    rates: FloatArray


@dataclass(frozen=True, kw_only=True)
class _Case:
    """What the cohorts of one row have in common.

    Attributes
    ----------
    n_controls : int
        Number of controls.
    n_patients : int
        Number of patients.
    effect : _Effect
        Loss of a pattern.
    patterns : int
        True number of patterns.
    """

    n_controls: int
    n_patients: int
    effect: _Effect
    patterns: int


def _measure_cases(
    config: PowerConfig,
    cases: Sequence[_Case],
    workers: int,
    progress: Callable[[int, int, object], None] | None,
) -> list[PowerRow]:
    """Return the row of each case: mean and standard error over its cohorts."""
    seeds = range(FIRST_SEED, FIRST_SEED + config.cohorts)
    jobs = [
        PowerJob(
            config=config,
            n_controls=case.n_controls,
            n_patients=case.n_patients,
            rates=case.effect.rates,
            seed=seed,
            patterns=case.patterns,
        )
        for case in cases
        for seed in seeds
    ]
    results = []
    with parallel_config(backend="loky", inner_max_num_threads=1):
        for result in Parallel(n_jobs=workers, return_as="generator")(
            delayed(measure_power_job)(job) for job in jobs
        ):
            results.append(result)
            if progress is not None:
                progress(len(results), len(jobs), jobs[len(results) - 1])
    rows = []
    for position, case in enumerate(cases):
        own = results[position * config.cohorts : (position + 1) * config.cohorts]
        numbers: dict[str, Any] = {}
        for name in (each.name for each in fields(PowerMeasurement)):
            values = np.array([getattr(result, name) for result in own], float)
            numbers[name] = float(values.mean())
            numbers[f"{name}_se"] = (
                float(values.std(ddof=1) / np.sqrt(len(values)))
                if len(values) > 1
                else None
            )
        rows.append(
            PowerRow(
                controls=case.n_controls,
                patients=case.n_patients,
                rate=case.effect.rate,
                d=case.effect.d,
                patterns=case.patterns,
                **numbers,
            )
        )
    return rows


def measure_power_job(job: PowerJob) -> PowerMeasurement:
    """Simulate one cohort, fit a model to it and compare with the truth."""
    simulated, indices = fit_power_job(job)
    score, tests = (
        pattern_c_index(simulated.truth, indices),
        run_group_tests(simulated.cohort, job.seed),
    )
    width = compute_interval_width(simulated.truth, indices[:, score.matching])
    is_right, is_different = (
        tests.dimensions.number == job.patterns,
        tests.finding is not Finding.NO_DIFFERENCE,
    )
    return PowerMeasurement(
        accuracy=score.mean, right=is_right, any=is_different, width=width
    )


def fit_power_job(job: PowerJob) -> tuple[SimulatedCohort, FloatArray]:
    """Return a simulated cohort with the covariates to adjust for, and the R-indices of
    its patients.
    """
    config = job.config
    task = replace(
        make_task_with_patterns(job.patterns),
        n_controls=job.n_controls,
        n_patients=job.n_patients,
    )
    reference = None if config.healthy is None else config.generator
    simulated = simulate_cohort(task, job.seed, reference=reference, rates=job.rates)
    cohort = replace(
        simulated.cohort,
        covariates=_select_columns(simulated.cohort.covariates, config.adjusted),
    )
    X, y = (
        Preprocessing.fit(cohort).transform(cohort),
        cohort.is_patient.astype(np.intp),
    )
    indices = ContrastiveICA(job.patterns, job.seed).fit(X, y).transform(X[y == 1])
    return replace(simulated, cohort=cohort), indices


def estimate_relative_sd(
    generator: HealthyGenerator, covariates: Sequence[str], seed: int = 0
) -> FloatArray:
    """Return the standard deviation of each region of healthy people, as a share of its
    mean.

    generator: draws the people; covariates: covariates to adjust for. Returns (R,).
    """
    volumes, drawn = generator.draw(_N_DRAWN, np.random.default_rng([seed, 9]))
    logs, drawn = (
        np.log(volumes.to_numpy(dtype=float)),
        _select_columns(drawn, covariates),
    )
    return np.asarray(Residualiser.fit(logs, drawn).transform(logs, drawn).std(axis=0))


def _select_columns(covariates: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    missing = [name for name in names if name not in covariates]
    if missing:
        raise SimulationError(
            f"there is no covariate {missing[0]}: there is {', '.join(covariates)}."
        )
    return covariates[list(names)]


def convert_d_to_rates(
    d: float, relative_sd: FloatArray, task: SimulationTask
) -> FloatArray:
    """Return the share of volume that each region must lose at severity 1 for an effect
    of d.

    Parameters
    ----------
    d : float
        Cohen's d of a region of a pattern.
    relative_sd : ndarray of shape (R,)
        See `estimate_relative_sd`.
    task : SimulationTask
        Its distribution of severities is used.

    Returns
    -------
    ndarray of shape (R,)
        At most 0.95.
    """
    return np.minimum(d * relative_sd / _compute_mean_severity(task), _MAX_RATE)


def convert_rate_to_d(
    rate: float, relative_sd: FloatArray, task: SimulationTask
) -> FloatArray:
    """Return Cohen's d (R,) of regions that lose this share at severity 1; see
    `convert_d_to_rates`.
    """
    return np.asarray(rate * _compute_mean_severity(task) / relative_sd)


def _compute_mean_severity(task: SimulationTask) -> float:
    first, second = task.beta
    return first / (first + second)


def compute_interval_width(truth: FloatArray, indices: FloatArray) -> float:
    """Return the mean width of the 95 % prediction interval of severities (N, M), given
    R-indices (N, M).
    """
    widths = []
    for severity, index in zip(truth.T, indices.T, strict=True):
        slope, level = np.polyfit(index, severity, 1)
        widths.append(
            2 * 1.96 * float(np.std(severity - slope * index - level, ddof=2))
        )
    return float(np.mean(widths))


def describe_needed_people(result: PowerResult) -> list[str]:
    """Return a sentence for each number of patterns and effect: how many people gave
    the right number often enough.
    """
    sentences = []
    for number in result.patterns:
        own = [row for row in result.rows if row.patterns == number]
        for d in sorted({row.d for row in own if row.d is not None}, reverse=True):
            rows = sorted(
                (row for row in own if row.d == d),
                key=lambda row: row.controls + row.patients,
            )
            sentences.append(_describe_needed(rows, result.cohorts))
    return sentences


def _describe_needed(rows: Sequence[PowerRow], n_cohorts: int) -> str:
    """Return how many people the rows of one effect need for the right number of
    patterns, fewest people first.
    """
    first = rows[0]
    enough = next((row for row in rows if row.right >= MIN_RECOVERY_RATE), None)
    row = enough or rows[-1]
    people = f"{row.controls:,} controls and {row.patients:,} patients"
    factor = row.controls // first.controls
    if factor > 1 and (row.controls, row.patients) == (
        factor * first.controls,
        factor * first.patients,
    ):
        people += (
            f", {factor} times as many as {first.controls:,} and {first.patients:,},"
        )
    patterns = f"{format_count(row.patterns, 'pattern')} of d {row.d:.2g}"
    found = f"the right number is found in {round(row.right * n_cohorts)} of {n_cohorts} studies"
    return f"{patterns}: {people} are {'' if enough else 'not '}enough, {found}."


def describe_detection(result: PowerResult) -> list[str]:
    """Return a sentence for the first size: how often any pattern is detected, by
    effect.
    """
    first = result.rows[0]
    rows = [
        row
        for row in result.rows
        if (row.controls, row.patients) == (first.controls, first.patients)
    ]
    shares = [
        f"{row.any:.0%} of studies with {format_count(row.patterns, 'pattern')} of d {row.d:.2g}"
        for row in sorted(rows, key=lambda row: (row.patterns, -(row.d or 0.0)))
    ]
    people = f"{first.controls:,} controls and {first.patients:,} patients"
    return [
        f"With {people}, patients are found to differ in {join_names(shares, len(shares))}."
    ]


def format_markdown(result: PowerResult) -> str:
    """Return the rows as a table."""
    names = "patterns | effect d | share lost | controls | patients | accuracy | right number | any pattern | interval"
    lines = [f"| {names} |", "|---" * 9 + "|"]
    for row in result.rows:
        error = "" if row.accuracy_se is None else f" +- {row.accuracy_se:.3f}"
        effect = [
            str(row.patterns),
            "" if row.d is None else f"{row.d:.2f}",
            f"{row.rate:.0%}",
        ]
        cells = [
            *effect,
            str(row.controls),
            str(row.patients),
            f"{row.accuracy:.3f}{error}",
        ]
        cells += [f"{row.right:.0%}", f"{row.any:.0%}", f"{row.width:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    low, d, high = result.d_of_tenth
    adjusted = (
        f", adjusted for {', '.join(result.covariates)}" if result.covariates else ""
    )
    answers = [*describe_needed_people(result), *describe_detection(result)]
    sentences = (
        f"{format_count(result.cohorts, 'simulated cohort')} per row.",
        "Effect d: difference between the means of patients and controls in a region of a pattern, in standard",
        f"deviations of the controls (Cohen's d){adjusted}.",
        "Share lost: of a region at the highest severity; where d was given, of the median region.",
        f"In these people a loss of 10 % is d = {d:.2f} in the median region, {low:.2f} to {high:.2f} in half of them.",
        "Accuracy: pattern-c-index, 1 is perfect, 0.5 is chance.",
        "Interval: width of the 95 % interval of a person's severity; severities are 0 to 1.",
    )
    return "\n".join(
        [
            *lines,
            "",
            *(f"- {answer}" for answer in answers),
            "",
            " ".join(sentences),
            "",
        ]
    )


def plot_power(result: PowerResult, path: Path) -> None:
    """Draw accuracy, chance of the right number and interval width against the number
    of people into a PNG file.
    """
    table = _name_effects(result)
    files.write_png(path, lambda: draw_power(table))


def _name_effects(result: PowerResult) -> pd.DataFrame:
    """Return the rows of a power study with the name of each effect."""
    frame = pd.DataFrame(result.rows)
    effects = [
        f"{row.rate:.0%} lost" if row.d is None else f"d {row.d:.2g}"
        for row in result.rows
    ]
    several = len(result.patterns) > 1
    counts = [
        f"{format_count(row.patterns, 'pattern')}, " if several else ""
        for row in result.rows
    ]
    frame["effect"] = [
        f"{count}{effect}" for count, effect in zip(counts, effects, strict=True)
    ]
    return frame
