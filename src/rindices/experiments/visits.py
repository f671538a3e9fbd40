"""Simulated repeat visits: severities that grow at each person's own rate, retest
noise, dropout, and events.

Shape letters: N people, V visits of all people, M patterns, R regions.
"""

import copy
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import SimulationError
from rindices.experiments import simulate
from rindices.experiments.reference import load_reference
from rindices.experiments.tasks import SimulationTask
from rindices.one_line import ShownInOneLine
from rindices.tables.cohort import GROUP, ID, SESSION, Cohort
from rindices.tables.layouts.muse import single_regions

_EVENT_STEP = 0.05  # years of the grid on which hazards are summed


@dataclass(frozen=True, kw_only=True)
class VisitPlan:
    """How people change and are followed.

    Attributes
    ----------
    visits : int
        Planned visits of each person.
    interval : float
        Planned years between visits. Actual times differ by up to a quarter of it.
    growth : float
        Mean growth of a severity per year, among those that grow.
    stable_share : float
        Share of severities that do not grow.
    dropout : float
        Probability of leaving before each later visit.
    hazard : float
        Hazard of the event per year without disease.
    event_weights : tuple of float
        Growth of the log hazard with the severity of each pattern. Further patterns
        have 0.
    max_follow_up : float
        Years after which observation of the event ends at the latest.
    uniform_growth : float or None
        Largest growth of a severity from the first to the last planned visit. If it is
        given, growth is uniform between 0 and this, instead of ``growth`` and
        ``stable_share``, and severities of the first visit are scaled so that none
        exceeds 1 at the last.
    """

    visits: int = 3
    interval: float = 1.0
    growth: float = 0.08
    stable_share: float = 1 / 3
    dropout: float = 0.1
    hazard: float = 0.03
    event_weights: tuple[float, ...] = (3.0, 1.5)
    max_follow_up: float = 8.0
    uniform_growth: float | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class SimulatedVisits(ShownInOneLine):
    """Visits with their true severities.

    Attributes
    ----------
    simulated : SimulatedCohort
        One row per visit. The people and the true severities have ``session_id``.
    sessions : DataFrame
        One row per visit: ``participant_id``, ``session_id``, ``years`` since the first
        visit, group and covariates.
    rates : DataFrame
        One row per patient: ``participant_id`` and the growth of each severity per
        year.
    outcomes : DataFrame
        One row per person: ``participant_id``, ``years`` to the event or to the end of
        observation, ``event`` (0 or 1), group and covariates at the first visit.
    """

    simulated: simulate.SimulatedCohort
    sessions: pd.DataFrame
    rates: pd.DataFrame
    outcomes: pd.DataFrame


def _check_plan(plan: VisitPlan, spec: SimulationTask) -> None:
    """Refuse tasks that cannot have visits, and plans without any."""
    if spec.organs or spec.dependence:
        raise SimulationError(
            "tasks organs and personal cannot have visits: choose another task."
        )
    if plan.visits < 2:
        raise SimulationError(
            f"{plan.visits} visit per person is not a repeat visit: give 2 or more."
        )


def simulate_visits(
    task: str | SimulationTask = "basic",
    seed: int = 0,
    plan: VisitPlan | None = None,
    *,
    new_people: bool = False,
) -> SimulatedVisits:
    """Simulate repeat visits of a cohort with known severities.

    Without retest noise, the first visit is the cohort that `simulate_cohort` gives for
    the same task and seed. A person keeps anatomy and pattern from visit to visit, and
    ages. With ``new_people``, 20 other people are simulated, with the patterns and the
    retest noise of this cohort.

    Raises SimulationError: if the task cannot have visits, or fewer than two are
    planned.
    """
    plan, spec = plan or VisitPlan(), simulate.resolve_task(task)
    _check_plan(plan, spec)
    reference = load_reference()
    drawn = simulate.draw_people(spec, seed, None, reference, new_people)
    volumes, people, covariates = drawn.volumes, drawn.people, drawn.covariates
    patient, patterns = drawn.patient, drawn.patterns
    disease_rng, course_rng, noise_rng, event_rng = simulate.make_streams(
        seed, (1, 10, 11, 12), new_people
    )
    severities = np.zeros((len(people), len(patterns)))
    severities[patient] = spec.draw_severities(int(patient.sum()), disease_rng) * (
        1 - (plan.uniform_growth or 0)
    )
    growth = _draw_growth(severities.shape, plan, course_rng)
    growth[~patient] = 0.0
    person, visit, years = _draw_schedule(len(people), plan, course_rng)
    # severities at each visit (V, M) and volumes with ageing, before disease
    current = np.clip(severities[person] + growth[person] * years[:, None], 0, 1)
    ageing = np.exp(years[:, None] * reference.coefficients[1])
    measured = volumes.to_numpy(dtype=float)[person] * ageing
    disease = simulate.Disease(spec, patterns, np.full(measured.shape[1], spec.rate))
    measured *= _draw_losses(disease, current, patient, person, visit, disease_rng)
    # regions of new people are as noisy as those of the cohort
    fraction_rng = np.random.default_rng([seed, 11]) if new_people else noise_rng
    variance = np.diag(reference.residual_covariance)
    deviations = _draw_noise_deviations(variance, fraction_rng)
    pairs = _pair_sides(volumes.columns)
    measured *= np.exp(draw_retest_noise(deviations, pairs, len(person), noise_rng))
    sessions = _tabulate_sessions(people, covariates, person, visit, years)
    names = [f"s{k + 1}" for k in range(len(patterns))]
    severity_frame = pd.DataFrame(current, columns=names)
    truth = pd.concat([sessions[[ID, SESSION]], severity_frame], axis=1)
    changes, onsets = disease.describe(volumes.columns)
    simulated = simulate.SimulatedCohort(
        cohort=_make_cohort(measured, volumes.columns, sessions, covariates.columns),
        severities=truth[patient[person]].reset_index(drop=True),
        patterns=changes,
        onsets=onsets,
    )
    rates = simulate.tabulate_severities(growth[patient], people.loc[patient, ID])
    events = _draw_events(severities, growth, plan, event_rng)
    outcomes = _tabulate_outcomes(people, covariates, *events)
    return SimulatedVisits(
        simulated=simulated, sessions=sessions, rates=rates, outcomes=outcomes
    )


def _draw_noise_deviations(
    variance: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return the standard deviation (R,) of the noise of a visit.

    It is a fraction f of the variance of a visit with noise: f = n^2 / (v + n^2).
    """
    fraction = draw_noise_fractions(len(variance), rng)
    return np.sqrt(variance * fraction / (1 - fraction))


def _tabulate_outcomes(
    people: pd.DataFrame, covariates: pd.DataFrame, end: FloatArray, event: BoolArray
) -> pd.DataFrame:
    """Return the years that each person was observed, and whether the event came."""
    outcomes = pd.concat([people[[ID, GROUP]], covariates], axis=1)
    outcomes = outcomes.reset_index(drop=True)
    return outcomes.assign(years=end.round(3), event=event.astype(int))


def _tabulate_sessions(
    people: pd.DataFrame,
    covariates: pd.DataFrame,
    person: IntArray,
    visit: IntArray,
    years: FloatArray,
) -> pd.DataFrame:
    """Return the visits of people with their covariates; people age."""
    sessions = people.iloc[person][[ID, GROUP]].reset_index(drop=True)
    sessions.insert(1, SESSION, [f"ses-{number + 1}" for number in visit])
    at_visits = covariates.iloc[person].reset_index(drop=True)
    sessions = pd.concat([sessions.assign(years=years), at_visits], axis=1)
    sessions["age"] = (sessions["age"] + years).round(2)
    return sessions


def _make_cohort(
    measured: FloatArray,
    regions: pd.Index,
    sessions: pd.DataFrame,
    covariates: pd.Index,
) -> Cohort:
    """Return visits as a cohort, given the volumes (V, R)."""
    return Cohort(
        volumes=pd.DataFrame(measured.round(2), columns=regions),
        people=sessions[[ID, SESSION, GROUP]].copy(),
        covariates=sessions[list(covariates)].copy(),
        source="dlmuse",
        unit="mm3",
    )


def _draw_losses(
    disease: simulate.Disease,
    current: FloatArray,
    patient: BoolArray,
    person: IntArray,
    visit: IntArray,
    rng: np.random.Generator,
) -> FloatArray:
    """Return by which factor the disease changes each region at each visit (V, R),
    given the severities (V, M).

    The same random numbers are used at each visit: a person keeps a pattern.
    """
    losses = np.ones((len(person), len(disease.rates)))
    positions = np.cumsum(patient) - 1  # of each patient among the patients
    for number in np.unique(visit):
        rows = np.flatnonzero((visit == number) & patient[person])
        full = np.zeros((int(patient.sum()), current.shape[1]))
        position = positions[person[rows]]
        full[position] = current[rows]
        ones = np.ones((len(full), losses.shape[1]))
        changed = disease.apply(ones, full, copy.deepcopy(rng))
        losses[rows] = changed[position]
    return losses


def _draw_growth(
    shape: tuple[int, ...], plan: VisitPlan, rng: np.random.Generator
) -> FloatArray:
    """Return the growth of each severity per year, (N, M): none for some, gamma
    distributed for the others.

    Or uniform, if the plan says so.
    """
    if plan.uniform_growth is not None:
        return rng.uniform(
            0, plan.uniform_growth / ((plan.visits - 1) * plan.interval), shape
        )
    is_stable = rng.random(shape) < plan.stable_share
    return np.where(is_stable, 0.0, rng.gamma(4.0, plan.growth / 4, shape))


def _draw_schedule(
    n_people: int, plan: VisitPlan, rng: np.random.Generator
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return person, number and years since the first visit of each visit that takes
    place, (V,).
    """
    shift = rng.uniform(-0.25, 0.25, (n_people, plan.visits)) * plan.interval
    years = np.arange(plan.visits) * plan.interval + shift
    years[:, 0] = 0.0
    stays = rng.random((n_people, plan.visits)) >= plan.dropout
    stays[:, 0] = True
    attended = np.cumprod(stays, axis=1).astype(bool)
    person, visit = np.nonzero(attended)
    return person, visit, years[attended].round(3)


@cache
def load_retest_figures() -> dict[str, Any]:
    """Load the figures of retest noise in healthy people; see
    ``experiments/data/README.md``.
    """
    figures: dict[str, Any] = json.loads(
        (files("rindices.experiments") / "data" / "retest.json").read_text("utf-8")
    )
    return figures


def draw_noise_fractions(n_regions: int, rng: np.random.Generator) -> FloatArray:
    """Return the fraction of noise in the variance of each region (R,), distributed as
    measured.
    """
    quantiles: FloatArray = np.array(load_retest_figures()["noise_share_quantiles"])
    return np.interp(
        rng.uniform(size=n_regions), np.linspace(0, 1, len(quantiles)), quantiles
    )


def draw_retest_noise(
    deviations: FloatArray, pairs: FloatArray, n_scans: int, rng: np.random.Generator
) -> FloatArray:
    """Draw the noise of scans.

    It has a part that all regions share, a part that the two sides of a structure
    share, and a part of each region.

    Parameters
    ----------
    deviations : ndarray of shape (R,)
        Standard deviation of the noise of each region.
    pairs : ndarray of shape (R,)
        Number of the structure of each region. Its two sides have the same number.
    n_scans : int
        Number of scans.
    rng : Generator
        Source of random numbers.

    Returns
    -------
    ndarray of shape (n_scans, R)
        Noise of log measures.
    """
    figures = load_retest_figures()
    common = figures["noise_correlation"]
    side = max(figures["noise_correlation_of_sides"] - common, 0.0)
    structures, structure = np.unique(pairs, return_inverse=True)
    shared = rng.normal(size=(n_scans, 1))
    of_sides = rng.normal(size=(n_scans, len(structures)))[:, structure]
    own = rng.normal(size=(n_scans, len(deviations)))
    noise = (
        np.sqrt(common) * shared
        + np.sqrt(side) * of_sides
        + np.sqrt(1 - common - side) * own
    )
    return np.asarray(noise * deviations)


def _pair_sides(names: Sequence[str]) -> FloatArray:
    """Return a number for each MUSE region that the left and the right region of a
    structure share.
    """
    labels = [single_regions()[int(name.rsplit("_", 1)[-1])].label for name in names]
    return np.asarray(
        pd.factorize(np.array([re.sub("_[LR]$", "", label) for label in labels]))[0],
        dtype=float,
    )


def _draw_events(
    severities: FloatArray,
    growth: FloatArray,
    plan: VisitPlan,
    rng: np.random.Generator,
) -> tuple[FloatArray, BoolArray]:
    """Return the years to the event or to the end of observation and whether the event
    was observed, both (N,).
    """
    grid = np.arange(0, plan.max_follow_up, _EVENT_STEP)
    log_hazard = np.full((len(severities), len(grid)), np.log(plan.hazard))
    for k, weight in enumerate(plan.event_weights[: severities.shape[1]]):
        log_hazard += weight * np.clip(
            severities[:, k, None] + growth[:, k, None] * grid, 0, 1
        )
    cumulative = np.cumsum(np.exp(log_hazard), axis=1) * _EVENT_STEP
    reached = cumulative >= rng.exponential(size=(len(severities), 1))
    years = np.where(
        reached.any(axis=1), grid[reached.argmax(axis=1)] + _EVENT_STEP, np.inf
    )
    years = years - rng.uniform(0, _EVENT_STEP, len(years))
    end = rng.uniform(plan.max_follow_up / 4, plan.max_follow_up, len(years))
    return np.minimum(years, end), years <= end


def write_visits(
    result: SimulatedVisits, folder: Path, new_people: SimulatedVisits | None = None
) -> None:
    """Write the tables of `write_cohort` by session, and ``sessions.tsv``,
    ``rates.tsv`` and ``outcomes.tsv``.

    ``participants.tsv`` has one row per person, as at the first visit.
    """
    simulate.write_cohort(
        result.simulated, folder, new_people.simulated if new_people else None
    )
    first = result.sessions.drop_duplicates(ID).drop(columns=[SESSION, "years"])
    tables = {"participants.tsv": first, "sessions.tsv": result.sessions}
    tables |= {"rates.tsv": result.rates, "outcomes.tsv": result.outcomes}
    simulate.write_tables(folder, tables)
