"""How long a study will take on this machine, from timing a little of it."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from rindices._typing import FloatArray, IntArray
from rindices.learners.ensemble import fit_contrastive_members
from rindices.preprocess.pipeline import Preprocessing
from rindices.study.config import ModelConfig
from rindices.study.engines.base import count_processes
from rindices.study.plan import MemberSet, make_data_key, make_plan
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
    if work.recipe == "contrastive":
        start = time.perf_counter()
        fit_contrastive_members(X, y, work.point.n_patterns, (0,), work.seed)
        return time.perf_counter() - start
    from rindices.learners.surreal.ensemble_training import estimate_seconds_per_member

    return estimate_seconds_per_member(X, y, work.point.n_patterns, len(work.numbers), work.values)
