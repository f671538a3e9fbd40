"""How long a study takes."""

from dataclasses import dataclass
from pathlib import Path

from rindices.study.cluster import count_workers
from rindices.study.methods import list_shortened_sets
from rindices.study.store import RunStore
from rindices.study.study import Study, StudyPeople

TYPICAL_PATTERNS = (2, 3, 4)
"""Numbers of patterns whose time is estimated where the tests are to decide."""


@dataclass(frozen=True, kw_only=True)
class RunEstimate:
    """Size of a study and the time it still takes.

    ``rindices fit --dry-run --json`` prints these.

    Attributes
    ----------
    settings : int
        Number of settings to try.
    members : int
        Ensemble members of each setting.
    member_sets : int
        Number of member sets.
    finished : int
        Member sets that are in the store.
    workers : int
        Number of processes.
    seconds_left : float
        Estimated seconds.
    """

    settings: int
    members: int
    member_sets: int
    finished: int
    workers: int
    seconds_left: float


def estimate_run_time(study: Study, runs: Path) -> RunEstimate:
    """Return what would run and roughly for how long; ``runs`` has finished member
    sets, which would not run again.
    """
    model = study.config.model
    people = StudyPeople(
        study, model.model_copy(update={"patterns": model.patterns or TYPICAL_PATTERNS})
    )
    plan, store = people.plan, RunStore(runs) if runs.is_dir() else None
    if (
        people.method.compares_halves
    ):  # later sets are trained for the chosen number; any will do here
        *others, chosen = (work for work in plan if work.numbers[0] == 0)
        first = None if store is None else store.load(chosen)
        later = [
            work for work in plan if work.point == chosen.point and work.numbers[0]
        ]
        plan = [
            *others,
            chosen,
            *(
                work if first is None else people.method.follow(work, first)
                for work in later
            ),
        ]
    if shortened := list_shortened_sets(plan):
        plan = [*shortened, *(work for work in plan if work.point == plan[0].point)]
    missing = [work for work in plan if store is None or store.load(work) is None]
    n_workers, seconds = count_workers(study.config.run, len(missing)), 0.0
    if missing:
        prepared = people.prepare(visits=people.visits)
        by_kind = {
            (work.point.n_patterns, work in shortened): work
            for work in reversed(missing)
        }
        per_member = {
            kind: people.method.estimate_seconds(prepared, work)
            for kind, work in by_kind.items()
        }
        seconds = sum(
            per_member[work.point.n_patterns, work in shortened] * len(work.numbers)
            for work in missing
        )
    return RunEstimate(
        settings=len({work.point for work in plan}),
        members=sum(len(work.numbers) for work in plan),
        member_sets=len(plan),
        finished=len(plan) - len(missing),
        workers=n_workers,
        seconds_left=round(seconds / n_workers, 1),
    )
