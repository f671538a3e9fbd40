"""Estimate how long a study takes on this machine."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rindices.learners.prepared_people import PreparedPeople
from rindices.model.normal_reference import NormalReference
from rindices.study.config import StudyConfig
from rindices.study.engines.base import count_processes
from rindices.study.people import StudyPeople, resolve_visits
from rindices.study.plan import MemberSet, make_data_key, make_plan
from rindices.study.recipes import get_study_recipe
from rindices.study.store import RunStore
from rindices.tables.cohort import Cohort

MAX_TIMED_PEOPLE = 2_000
"""People on whom a member is trained to time it."""
TYPICAL_PATTERNS = (2, 3, 4)
"""Numbers of patterns that are assumed where the tests are to decide."""


@dataclass(frozen=True)
class RunEstimate:
    """Size of a study and the seconds it still takes, as ``rindices fit --dry-run --json`` prints them."""

    settings: int
    members: int
    member_sets: int
    finished: int
    workers: int
    seconds_left: float


def estimate_run_time(cohort: Cohort, study: StudyConfig, runs: Path, reference: NormalReference | None) -> RunEstimate:
    """Return what would run and roughly for how long: by the size of the table, or after timing one member.

    runs: folder of finished member sets, which would not run again; reference: the reference that the study names.
    """
    model = study.model
    if model.patterns is None:
        model = model.model_copy(update={"patterns": TYPICAL_PATTERNS})
    visits = resolve_visits(cohort, study.data.visits, model.recipe)
    plan = make_plan(model, study.run.seed, make_data_key(cohort, study, reference, visits))
    store = RunStore(runs) if runs.is_dir() else None
    missing = [work for work in plan if store is None or store.load(work) is None]
    n_processes = count_processes(study.run.workers, len(missing))
    seconds = 0.0
    if missing:
        people = StudyPeople(cohort, study, study.fit_preprocessing(cohort), reference).prepare(visits=visits)
        seconds = sum(_estimate_set_seconds(missing, people)) / n_processes
    return RunEstimate(
        settings=len({work.point for work in plan}),
        members=sum(len(work.numbers) for work in plan),
        member_sets=len(plan),
        finished=len(plan) - len(missing),
        workers=n_processes,
        seconds_left=round(seconds, 1),
    )


def _estimate_set_seconds(sets: Sequence[MemberSet], people: PreparedPeople) -> list[float]:
    """Return the seconds that each member set takes; without a formula, the largest number of patterns is timed."""
    recipe = get_study_recipe(sets[0].recipe)
    if recipe.estimate_seconds is not None:
        first_sets = {work.point.n_patterns: work for work in reversed(sets)}
        per_member = {n_patterns: recipe.estimate_seconds(people, work) for n_patterns, work in first_sets.items()}
        return [per_member[work.point.n_patterns] * len(work.numbers) for work in sets]
    largest = max(sets, key=lambda work: work.point.n_patterns)
    rows = np.arange(0, len(people.X), max(1, len(people.X) // MAX_TIMED_PEOPLE))
    start = time.perf_counter()
    recipe.train_members(people.take(rows).deal_to_members([0], 0), replace(largest, numbers=(0,)), None)
    seconds = time.perf_counter() - start
    return [seconds * len(work.numbers) for work in sets]
