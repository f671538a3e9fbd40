"""How long a study will take on this machine, from timing a little of it."""

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rindices.learners.members import contrastive_members
from rindices.preprocess.pipeline import Preprocessing
from rindices.study.config import Model
from rindices.study.engines.base import processes
from rindices.study.plan import MemberSet, data_key, make_plan
from rindices.study.store import RunStore
from rindices.tables.cohort import Cohort


def estimate(
    cohort: Cohort, model: Model, seed: int, runs: Path, workers: int = -1, harmonise: str | None = None
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
    plan = make_plan(model, seed, data_key(cohort, harmonise))
    store = RunStore(runs) if runs.is_dir() else None
    rest = [work for work in plan if store is None or store.load(work) is None]
    number = processes(workers, len(rest))
    seconds = 0.0
    if rest:
        X = Preprocessing.fit(cohort, harmonise).transform(cohort)
        y = cohort.is_patient.astype(np.intp)
        per_width = {width: _seconds(_first(rest, width), X, y) for width in {w.point.n_patterns for w in rest}}
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


def _first(plan: list[MemberSet], width: int) -> MemberSet:
    return next(work for work in plan if work.point.n_patterns == width)


def _seconds(work: MemberSet, X: NDArray[np.float64], y: NDArray[np.intp]) -> float:
    """Return the seconds that one member of a set takes."""
    if work.recipe == "contrastive":
        start = time.perf_counter()
        contrastive_members(X, y, work.point.n_patterns, (0,), work.seed)
        return time.perf_counter() - start
    from rindices.learners.surreal.members import seconds_per_member

    return seconds_per_member(X, y, work.point.n_patterns, len(work.numbers), work.values)
