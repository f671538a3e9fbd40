"""Training the member sets of a plan as tasks of an engine (`rindices.engine`).

All engines give equal bytes, because the plan decides the sets. A set may be trained
twice, or be interrupted at any time: files are written whole, and long trainings save a
checkpoint every now and then.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from rindices.engine.tasks import (
    Engine,
    Finished,
    MessageCallback,
    Report,
    StoppedError,
    Task,
    run,
)
from rindices.errors import (
    Problem,
    StudyError,
    explain_write_errors,
    format_count,
    join_names,
)
from rindices.learners.gan.callbacks import TrainingEvent
from rindices.learners.prepared_people import PreparedPeople
from rindices.selection.choose import GridPoint
from rindices.study.exceptions import StudyStoppedError
from rindices.study.methods import MemberSet, get_study_method
from rindices.study.store import MAKE_ROOM, RunStore, load_people
from rindices.threads import limit_blas_threads

ProgressCallback = Callable[[int, int, MemberSet | None], None]
"""Called with the number of finished sets, of all sets, and the set just finished."""
TrainingCallback = Callable[[MemberSet, TrainingEvent], None]
"""Called with a member set in training and where its training stands; only methods with
long trainings report it.
"""


def _ignore(*arguments: object) -> None:
    """Do nothing."""


@dataclass(frozen=True, kw_only=True)
class StudyObserver:
    """Functions that are called while a study runs.

    Attributes
    ----------
    on_progress : ProgressCallback
        See `ProgressCallback`.
    on_setting : callable
        Called with a setting whose members are all trained, and the concordance among
        them.
    on_message : MessageCallback
        Called with a line for the user.
    on_problems : callable
        Called with problems of the data, and with reasons to doubt the result.
    on_written : callable
        Called with the folder of the study when its files are written, while it is
        still locked.
    on_training : TrainingCallback
        See `TrainingCallback`.
    """

    on_progress: ProgressCallback = _ignore
    on_setting: Callable[[GridPoint, float], None] = _ignore
    on_message: MessageCallback = _ignore
    on_problems: Callable[[Sequence[Problem]], None] = _ignore
    on_written: Callable[[Path], None] = _ignore
    on_training: TrainingCallback = _ignore


NO_OBSERVER = StudyObserver()


class TrainingJob(NamedTuple):
    """A member set to train.

    Attributes
    ----------
    work : MemberSet
        The member set.
    folder : Path
        Folder of the run store.
    people : Path
        File of the people.
    """

    work: MemberSet
    folder: Path
    people: Path


def run_training_job(job: TrainingJob, report: Report | None = None) -> None:
    """Train a member set that the store lacks, and save it; on one thread, so that sums
    are equal everywhere.

    report: gets where a long training stands.
    """
    store = RunStore(job.folder)
    if store.load(job.work) is not None:
        return
    people = load_people(job.people)

    def report_event(event: TrainingEvent) -> None:
        if not job.people.exists():
            raise StudyStoppedError("the command that asked for the training ended.")
        if report is not None:
            report(asdict(event))

    with (
        explain_write_errors(f"to {store.folder}", StudyError, MAKE_ROOM),
        limit_blas_threads(),
    ):
        store.log_event("begun", job.work)
        method, work = get_study_method(job.work.method), job.work
        if work.halves:
            trained = store.load(replace(work, halves=False))
            if trained is None:
                raise StudyError(
                    f"{store.folder} has lost members that it had: run the same command again."
                )
            members = method.compare_halves(people, trained, work)
        else:
            members = method.train_members(
                people, work, store.checkpoint_path(work), report_event
            )
        store.save(work, members)
        store.log_event("finished", job.work)


def run_plan(
    plan: Sequence[MemberSet],
    prepare_people: Callable[[Sequence[int]], Sequence[PreparedPeople]],
    store: RunStore,
    engine: Engine,
    observer: StudyObserver = NO_OBSERVER,
) -> None:
    """Train every member set that the store lacks.

    The sets that were given up are named in an error at the end.

    Parameters
    ----------
    plan : sequence of MemberSet
        Member sets.
    prepare_people : callable
        Takes the numbers of the members of a set. Returns the people of each, or of one
        if members share them.
    store : RunStore
        Where finished sets are kept.
    engine : Engine
        Where members are trained.
    observer : StudyObserver
        Is told about the progress.
    """
    missing = [work for work in plan if store.load(work) is None]
    if not missing:
        return
    done, lost = len(plan) - len(missing), list[Finished[None]]()
    paths = {
        numbers: store.save_people(prepare_people(numbers))
        for numbers in {work.numbers for work in missing}
    }
    folder, works = store.folder.absolute(), {work.key: work for work in missing}
    journal = folder / "journal"
    journal.mkdir(exist_ok=True)
    tasks = [
        Task(
            key=work.key,
            function=run_training_job,
            arguments=(TrainingJob(work, folder, paths[work.numbers]),),
            mailbox=journal,
        )
        for work in missing
    ]

    def pass_on(task: Task[None], values: Mapping[str, Any]) -> None:
        observer.on_training(works[task.key], TrainingEvent(**values))

    observer.on_progress(done, len(plan), None)
    try:
        for finished in run(
            engine, tasks, folder, on_message=observer.on_message, on_report=pass_on
        ):
            work = works[finished.task.key]
            if finished.lost:
                lost.append(finished)
                observer.on_message(f"given up: {work.key} ({finished.lost})")
            else:
                store.wait_for(work)
                done += 1
                observer.on_progress(done, len(plan), work)
    except StoppedError as error:
        raise StudyStoppedError(error.problems) from None
    finally:
        for path in paths.values():
            path.unlink(missing_ok=True)
    if lost:
        names = join_names([f"{each.task.key} ({each.lost})" for each in lost], 3)
        what = f"{format_count(len(lost), 'member set')} of {len(plan)} could not be trained: {names}"
        raise StudyError(
            f"{what}. The others are finished: look into {store.folder / 'journal'}, then run again."
        )
