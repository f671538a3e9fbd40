"""Estimate how long a study takes on this machine."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rindices._typing import FloatArray, IntArray
from rindices.preprocess.pipeline import Preprocessing
from rindices.study.config import ModelConfig
from rindices.study.engines.base import count_processes
from rindices.study.plan import MemberSet, make_data_key, make_plan
from rindices.study.recipes import get_study_recipe
from rindices.study.store import RunStore
from rindices.tables.cohort import Cohort


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
    cohort: Cohort, model: ModelConfig, seed: int, runs: Path, workers: int = -1, harmonise: str | None = None
) -> RunEstimate:
    """Return what would run and for how long, after timing one member or a few steps.

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

    Returns
    -------
    RunEstimate
    """
    plan = make_plan(model, seed, make_data_key(cohort, harmonise))
    store = RunStore(runs) if runs.is_dir() else None
    missing = [work for work in plan if store is None or store.load(work) is None]
    n_processes = count_processes(workers, len(missing))
    seconds = 0.0
    if missing:
        X = Preprocessing.fit(cohort, harmonise).transform(cohort)
        y = cohort.is_patient.astype(np.intp)
        first_sets = {work.point.n_patterns: work for work in reversed(missing)}
        per_member = {n_patterns: _time_member(work, X, y) for n_patterns, work in first_sets.items()}
        seconds = sum(per_member[work.point.n_patterns] * len(work.numbers) for work in missing) / n_processes
    return RunEstimate(
        settings=len({work.point for work in plan}),
        members=sum(len(work.numbers) for work in plan),
        member_sets=len(plan),
        finished=len(plan) - len(missing),
        workers=n_processes,
        seconds_left=round(seconds, 1),
    )


def _time_member(work: MemberSet, X: FloatArray, y: IntArray) -> float:
    """Return the seconds that one member of a set takes."""
    recipe = get_study_recipe(work.recipe)
    if recipe.estimate_seconds is not None:
        return recipe.estimate_seconds(X, y, work)
    start = time.perf_counter()
    recipe.train_members(X, y, replace(work, numbers=(0,)), None)
    return time.perf_counter() - start
