"""Running member sets: on this machine, a process a core."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed, parallel_config
from numpy.typing import NDArray

from rindices.learners.members import Member, contrastive_members
from rindices.study.plan import MemberSet
from rindices.study.store import RunStore

Told = Callable[[int, int, MemberSet | None], None]
"""Called with the number of finished sets, of all sets, and the set that was just finished."""


def train_set(work: MemberSet, X: NDArray[np.float64], y: NDArray[np.intp], checkpoint: Path | None) -> list[Member]:
    """Train one member set.

    Parameters
    ----------
    X : (N, R)
        Prepared people.
    y : (N,)
        0 control, 1 patient.
    checkpoint : Path, optional
        File to keep the state of a long training in, and to resume from.
    """
    if work.recipe == "contrastive":
        return contrastive_members(X, y, work.point.n_patterns, work.numbers, work.seed)
    from rindices.learners.surreal.members import surreal_members

    values = json.loads(work.values)
    return surreal_members(X, y, work.point.n_patterns, work.numbers, work.seed, values, checkpoint)


def run_local(
    plan: Sequence[MemberSet],
    X: NDArray[np.float64],
    y: NDArray[np.intp],
    store: RunStore,
    workers: int = -1,
    told: Told | None = None,
) -> None:
    """Train every member set that the store does not have; results go through the store."""
    rest = [work for work in plan if store.load(work) is None]
    done = len(plan) - len(rest)
    if told is not None and rest:
        told(done, len(plan), None)
    processes = min(workers if workers > 0 else os.cpu_count() or 1, max(1, len(rest)))
    if processes == 1:
        _follow(map(partial(_run_one, X=X, y=y, store=store), rest), done, len(plan), told)
        return
    with parallel_config(backend="loky", inner_max_num_threads=1):
        jobs = (delayed(_run_one)(work, X, y, store) for work in rest)
        _follow(Parallel(n_jobs=processes, return_as="generator_unordered")(jobs), done, len(plan), told)


def _run_one(work: MemberSet, X: NDArray[np.float64], y: NDArray[np.intp], store: RunStore) -> MemberSet:
    store.save(work, train_set(work, X, y, store.checkpoint(work)))
    return work


def _follow(finished: Iterator[MemberSet], done: int, total: int, told: Told | None) -> None:
    for work in finished:
        done += 1
        if told is not None:
            told(done, total, work)
