"""Training the member sets of a plan as tasks of an engine (`rindices.engine`).

All engines give equal bytes, because the plan decides the sets. A set may be trained
twice, or be interrupted at any time: files are written whole, and long trainings save a
checkpoint every now and then.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rindices.atomic import write_json
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


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    """A member set to train, or one member whose fits to halves are compared.

    Members of a set are trained together: they share the choice of their shape, and EM
    ends for all of them at once. Their halves have nothing in common.

    Attributes
    ----------
    work : MemberSet
        The member set.
    folder : Path
        Folder of the run store.
    people : Path
        File of the people.
    number : int or None
        Number of the member, for halves.
    """

    work: MemberSet
    folder: Path
    people: Path
    number: int | None = None

    @property
    def key(self) -> str:
        """Name that changes with everything that could change the result."""
        part = "" if self.number is None else f"-{self.number:03d}"
        return f"{self.work.key}{part}"


def run_training_job(job: TrainingJob, report: Report | None = None) -> None:
    """Train a member set that the store lacks, and save it; on one thread, so that sums
    are equal everywhere.

    report: gets where a long training stands.
    """
    store, work = RunStore(job.folder), job.work
    if store.load(work) is not None or store.evidence_path(job.key).is_file():
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
        store.log_event("begun", job.key)
        method = get_study_method(work.method)
        if job.number is None:
            members = method.train_members(
                people, work, store.checkpoint_path(work), report_event
            )
            store.save(work, members)
        else:
            trained = store.load_trained(work)
            member = method.compare_halves(people, trained, work, job.number)
            write_json(store.evidence_path(job.key), {"evidence": member.evidence})
        store.log_event("finished", job.key)


def list_jobs(work: MemberSet, folder: Path, people: Path) -> list[TrainingJob]:
    """Return the jobs of a member set: one, or for halves one a member."""
    numbers = work.numbers if work.halves else (None,)
    return [
        TrainingJob(work=work, folder=folder, people=people, number=number)
        for number in numbers
    ]


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
    paths = {
        numbers: store.save_people(prepare_people(numbers))
        for numbers in {work.numbers for work in missing}
    }
    folder, lost = store.folder.absolute(), list[Finished[None]]()
    jobs = {work.key: list_jobs(work, folder, paths[work.numbers]) for work in missing}
    done = len(plan) - len(missing)
    observer.on_progress(done, len(plan), None)
    try:
        for finished in _run_jobs(jobs, folder, engine, observer):
            work = finished.task.arguments[0].work
            if finished.lost:
                lost.append(finished)
                observer.on_message(f"given up: {finished.task.key} ({finished.lost})")
                continue
            if work.halves:
                store.take_evidence(work, [job.key for job in jobs[work.key]])
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


def _run_jobs(
    jobs: Mapping[str, Sequence[TrainingJob]],
    folder: Path,
    engine: Engine,
    observer: StudyObserver,
) -> Iterator[Finished[None]]:
    """Run the jobs of member sets; yield the last one of each set, and those that were
    given up.
    """
    journal = folder / "journal"
    journal.mkdir(exist_ok=True)
    tasks = [
        Task(key=job.key, function=run_training_job, arguments=(job,), mailbox=journal)
        for own in jobs.values()
        for job in own
    ]
    n_open = Counter(job.work.key for own in jobs.values() for job in own)

    def pass_on(task: Task[None], values: Mapping[str, Any]) -> None:
        observer.on_training(task.arguments[0].work, TrainingEvent(**values))

    for finished in run(
        engine, tasks, folder, on_message=observer.on_message, on_report=pass_on
    ):
        work = finished.task.arguments[0].work
        n_open[work.key] -= not finished.lost
        if finished.lost or not n_open[work.key]:
            yield finished
