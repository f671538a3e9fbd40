"""How long a study will take on this machine, from timing a little of it."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rindices._typing import FloatArray, IntArray
from rindices.preprocess.pipeline import Preprocessing
from rindices.study.config import ModelConfig
from rindices.study.engines.base import count_processes
from rindices.study.plan import MemberSet, make_data_key, make_plan
from rindices.study.recipes import get_study_recipe
from rindices.study.store import RunStore
from rindices.tables.cohort import Cohort


def estimate_run_time(
    cohort: Cohort, model: ModelConfig, seed: int, runs: Path, workers: int = -1, harmonise: str | None = None
) -> dict[str, Any]:
    """Return what would run and how long it would take, after timing one member or a few steps.

    Parameters
    ----------
    runs : Path
        Folder of finished member sets, which would not run again.
    workers : int
        Processes; -1 for all cores.
    harmonise : {'controls', 'all', 'none'}, optional
        On whom to learn what sites do.
    """
    plan = make_plan(model, seed, make_data_key(cohort, harmonise))
    store = RunStore(runs) if runs.is_dir() else None
    rest = [work for work in plan if store is None or store.load(work) is None]
    number = count_processes(workers, len(rest))
    seconds = 0.0
    if rest:
        X = Preprocessing.fit(cohort, harmonise).transform(cohort)
        y = cohort.is_patient.astype(np.intp)
        per_width = {
            width: _time_member(_find_first_set(rest, width), X, y) for width in {w.point.n_patterns for w in rest}
        }
        seconds = sum(per_width[work.point.n_patterns] * len(work.numbers) for work in rest) / number
    points = {work.point for work in plan}
    return {
        "settings": len(points),
        "members": sum(len(work.numbers) for work in plan),
        "member_sets": len(plan),
        "finished": len(plan) - len(rest),
        "workers": number,
        "seconds_left": round(seconds, 1),
    }


def _find_first_set(plan: list[MemberSet], width: int) -> MemberSet:
    return next(work for work in plan if work.point.n_patterns == width)


def _time_member(work: MemberSet, X: FloatArray, y: IntArray) -> float:
    """Return the seconds that one member of a set takes."""
    recipe = get_study_recipe(work.recipe)
    if recipe.estimate_seconds is not None:
        return recipe.estimate_seconds(X, y, work)
    start = time.perf_counter()
    recipe.train_members(X, y, replace(work, numbers=(0,)), None)
    return time.perf_counter() - start
