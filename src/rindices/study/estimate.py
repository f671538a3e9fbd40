"""Estimate how long a study takes on this machine."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rindices.learners.prepared_people import PreparedPeople
from rindices.model.normal_reference import NormalReference
from rindices.preprocess.measures import DEFAULT_ICV_FOR
from rindices.preprocess.pipeline import Preprocessing
from rindices.study.config import ModelConfig
from rindices.study.engines.base import count_processes
from rindices.study.plan import MemberSet, make_data_key, make_plan
from rindices.study.recipes import get_study_recipe
from rindices.study.store import RunStore
from rindices.study.visits import prepare_first_visits, reduce_to_visits, resolve_visits
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


def estimate_run_time(
    cohort: Cohort,
    model: ModelConfig,
    seed: int,
    runs: Path,
    workers: int = -1,
    harmonise: str | None = None,
    adjust: str | None = None,
    reference: NormalReference | None = None,
    icv_for: str = DEFAULT_ICV_FOR,
    visits: str | None = None,
) -> RunEstimate:
    """Return what would run and roughly for how long: by the size of the table, or after timing one member.

    Parameters
    ----------
    cohort : Cohort
    model : ModelConfig
    seed : int
    runs : Path
        Folder of finished member sets, which would not run again.
    workers : int
        Number of processes; -1 for all cores.
    harmonise : {'controls', 'all', 'none'}, optional
        People from whom site effects are learnt.
    adjust : {'log', 'linear', 'rank', 'none'}, optional
        Scale of the adjustment for covariates.
    reference : NormalReference, optional
    icv_for : {'volume', 'all'}
        Regions that are adjusted for head size in a cohort with thickness and other measures.
    visits : {'first', 'mean', 'all'}, optional
        What is learnt from repeat visits.

    Returns
    -------
    RunEstimate
    """
    adjust = adjust or get_study_recipe(model.recipe).adjust
    if model.patterns is None:
        model = model.model_copy(update={"patterns": TYPICAL_PATTERNS})
    visits = resolve_visits(cohort, visits, model.recipe)
    plan = make_plan(model, seed, make_data_key(cohort, harmonise, adjust, reference, icv_for, visits))
    store = RunStore(runs) if runs.is_dir() else None
    missing = [work for work in plan if store is None or store.load(work) is None]
    n_processes = count_processes(workers, len(missing))
    seconds = 0.0
    if missing:
        preprocessing = Preprocessing.fit(cohort, harmonise, adjust, icv_for)
        people = prepare_first_visits(cohort, preprocessing, reference)
        people = reduce_to_visits(people, cohort, preprocessing, visits)
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
    people = people if recipe.uses_measured_cells else people.complete()
    if recipe.estimate_seconds is not None:
        first_sets = {work.point.n_patterns: work for work in reversed(sets)}
        per_member = {n_patterns: recipe.estimate_seconds(people, work) for n_patterns, work in first_sets.items()}
        return [per_member[work.point.n_patterns] * len(work.numbers) for work in sets]
    largest = max(sets, key=lambda work: work.point.n_patterns)
    rows = np.arange(0, len(people.X), max(1, len(people.X) // MAX_TIMED_PEOPLE))
    start = time.perf_counter()
    recipe.train_members(people.take(rows), replace(largest, numbers=(0,)), None)
    seconds = time.perf_counter() - start
    return [seconds * len(work.numbers) for work in sets]
