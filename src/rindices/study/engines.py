"""Engines that train the member sets of a plan.

All give equal bytes, because the plan decides the sets.

Here are the jobs of all engines, running a plan to its end, and the engine of one
machine, with one process per core. Engines for many machines are in
`rindices.study.cluster`. Training has a process of its own, so that the worker stays
responsive and a crash does not take the worker with it. Run as a program, this module
is that process: jobs arrive on its standard input, and where their trainings stand and
their answers leave on its standard output, one line of JSON each. A pool of
`multiprocessing` would import the user's script again and would get the terminal's
Ctrl-C. The process may be killed at any time: files are written whole, and long
trainings save a checkpoint every now and then.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Protocol

from rindices.errors import (
    Problem,
    RindicesError,
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

MAX_RETRIES = 3
"""How often a member set whose worker died is tried again."""
_EVENT = "event "  # begins the lines of a training process that are no answers
_ONE_THREAD_ENV = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)

ProgressCallback = Callable[[int, int, MemberSet | None], None]
"""Called with the number of finished sets, of all sets, and the set just finished."""
MessageCallback = Callable[[str], None]
"""Called with a line for the user."""
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


class JobResult(NamedTuple):
    """A member set that is finished, or was given up.

    Attributes
    ----------
    work : MemberSet
        The member set.
    lost : str
        Why it was given up.
    """

    work: MemberSet
    lost: str = ""


class Engine(Protocol):
    """Runs training jobs."""

    def run(
        self, jobs: Sequence[TrainingJob], on_message: MessageCallback
    ) -> Iterator[JobResult]:
        """Run all jobs and yield their results in any order; an error that the user can
        mend is raised at once.
        """
        ...


def count_processes(workers: int, n_jobs: int) -> int:
    """Return how many processes of this machine to use; -1 workers are all cores."""
    return min(workers if workers > 0 else os.cpu_count() or 1, max(1, n_jobs))


def run_training_job(
    job: TrainingJob, on_training: TrainingCallback | None = None
) -> None:
    """Train a member set that the store lacks, and save it; on one thread, so that sums
    are equal everywhere.
    """
    store = RunStore(job.folder)
    if store.load(job.work) is not None:
        return
    people = load_people(job.people)
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
            on_event = None if on_training is None else partial(on_training, work)
            members = method.train_members(
                people, work, store.checkpoint_path(work), on_event
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
    done, lost = len(plan) - len(missing), list[JobResult]()
    paths = {
        numbers: store.save_people(prepare_people(numbers))
        for numbers in {work.numbers for work in missing}
    }
    jobs = [
        TrainingJob(work, store.folder.absolute(), paths[work.numbers])
        for work in missing
    ]
    observer.on_progress(done, len(plan), None)
    try:
        for result in engine.run(jobs, observer.on_message):
            if result.lost:
                lost.append(result)
                observer.on_message(f"given up: {result.work.key} ({result.lost})")
            else:
                store.wait_for(result.work)
                done += 1
                observer.on_progress(done, len(plan), result.work)
    finally:
        for path in paths.values():
            path.unlink(missing_ok=True)
    if lost:
        names = join_names([f"{result.work.key} ({result.lost})" for result in lost], 3)
        what = f"{format_count(len(lost), 'member set')} of {len(plan)} could not be trained: {names}"
        raise StudyError(
            f"{what}. The others are finished: look into {store.folder / 'journal'}, then run again."
        )


class WorkerDiedError(Exception):
    """The process died while training: it was killed, for instance for its memory, or
    it crashed.
    """


class TrainingProcess:
    """A training process, as its worker sees it.

    module: what the process imports at once, before its first job.
    """

    def __init__(self, module: str = "rindices.study.engines") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rindices.study.engines", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | _ONE_THREAD_ENV,
            process_group=0
            if os.name == "posix"
            else None,  # Ctrl-C reaches the command alone
        )
        self.folder: Path | None = None

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    def train(self, job: TrainingJob, on_training: TrainingCallback = _ignore) -> None:
        """Run a job to its end.

        Raises StudyError: if the user can mend it. Raises WorkerDiedError: if the
        process ended before the job. Raises StudyStoppedError: if SIGTERM, by which
        batch systems end a job, ended it.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.folder, answer = job.folder, ""
        with suppress(
            BrokenPipeError, ValueError
        ):  # ValueError: `kill` has closed the pipes
            self._process.stdin.write(_encode_job(job) + "\n")
            self._process.stdin.flush()
            while (answer := self._process.stdout.readline()).startswith(_EVENT):
                on_training(
                    job.work, TrainingEvent(**json.loads(answer.removeprefix(_EVENT)))
                )
        self.folder = None
        if answer:
            if error := json.loads(answer):
                raise StudyError(error)
            return
        code = self._process.wait()
        if code == -signal.SIGTERM:
            raise StudyStoppedError(
                "the training was stopped from outside: run the same command again to go on."
            )
        raise WorkerDiedError(
            f"its process ended with {signal.Signals(-code).name if code < 0 else f'code {code}'}"
        )

    def kill(self) -> None:
        """End the process; a job in training is lost since its last checkpoint."""
        with suppress(BrokenPipeError), self._process:
            self._process.kill()


def _encode_job(job: TrainingJob) -> str:
    return json.dumps([asdict(job.work), str(job.folder), str(job.people)])


def _decode_job(line: str) -> TrainingJob:
    work, folder, people = json.loads(line)
    work |= {"point": GridPoint(*work["point"]), "numbers": tuple(work["numbers"])}
    return TrainingJob(MemberSet(**work), Path(folder), Path(people))


@dataclass(frozen=True)
class LocalEngine:
    """Trains on this machine.

    Attributes
    ----------
    workers : int
        Number of processes. -1 means all cores. With 1, members are trained in this
        process.
    on_training : TrainingCallback
        See `TrainingCallback`.
    kept : list of TrainingProcess
        Processes that wait for jobs. See `keep_processes`.
    """

    workers: int = -1
    on_training: TrainingCallback = _ignore
    kept: list[TrainingProcess] = field(default_factory=list, compare=False)

    @contextmanager
    def keep_processes(self, n_jobs: int, module: str) -> Iterator[None]:
        """Start processes for at least so many jobs before the first of them, and end
        them after the last.

        Importing torch takes seconds; so it is imported while this process is testing
        the groups.
        """
        n_processes = count_processes(self.workers, n_jobs)
        try:
            if n_processes > 1:
                self.kept.extend(TrainingProcess(module) for _ in range(n_processes))
            yield
        finally:
            for process in self.kept:
                process.kill()
            self.kept.clear()

    def run(
        self, jobs: Sequence[TrainingJob], on_message: MessageCallback
    ) -> Iterator[JobResult]:
        """Run all jobs, each in the next free process."""
        n_processes = count_processes(self.workers, len(jobs))
        if n_processes > 1:
            yield from _run_in_parallel(jobs, n_processes, self.on_training, self.kept)
            return
        for job in jobs:
            run_training_job(job, self.on_training)
            yield JobResult(job.work)


def _run_in_parallel(
    jobs: Sequence[TrainingJob],
    n_processes: int,
    on_training: TrainingCallback,
    kept: list[TrainingProcess],
) -> Iterator[JobResult]:
    """Run jobs in the processes that are kept and in new ones, and keep again as many
    as there were.
    """
    n_kept = len(kept)
    processes = [kept.pop() for _ in range(min(n_kept, n_processes))]
    free: queue.SimpleQueue[TrainingProcess] = queue.SimpleQueue()
    stopping = threading.Event()

    def run_job(job: TrainingJob) -> JobResult:
        reason = ""
        for _ in range(1 + MAX_RETRIES):
            process = free.get()
            try:
                process.train(job, on_training)
                return JobResult(job.work)
            except WorkerDiedError as error:
                if stopping.is_set():
                    raise
                reason = f"{error}, {1 + MAX_RETRIES} times"
                processes.append(process := TrainingProcess())
            finally:
                free.put(process)
        return JobResult(job.work, reason)

    with ThreadPoolExecutor(n_processes) as pool:
        # at an interrupt, the pool would wait for jobs whose process is not killed
        try:
            processes += [
                TrainingProcess() for _ in range(n_processes - len(processes))
            ]
            for process in processes:
                free.put(process)
            running = [pool.submit(run_job, job) for job in jobs]
            for future in as_completed(running):
                yield future.result()
            while len(kept) < n_kept:
                kept.append(free.get())
        finally:
            stopping.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                if process not in kept:
                    process.kill()


def _receive_jobs(lines: "queue.SimpleQueue[str]") -> None:
    """Queue the lines of the input; its end, which is that of the worker, ends the
    process at once.
    """
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


def main() -> None:
    """Train the jobs of the standard input until it ends."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # without process groups, Ctrl-C reaches this process, too
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries must not be taken for an answer
    threading.Thread(target=_receive_jobs, args=(lines,), daemon=True).start()
    for module in sys.argv[1:]:
        import_module(module)

    def report(work: MemberSet, event: TrainingEvent) -> None:
        answers.write(f"{_EVENT}{json.dumps(asdict(event))}\n")
        answers.flush()

    while True:
        error = ""
        try:
            run_training_job(_decode_job(lines.get()), report)
        except RindicesError as problem:
            error = str(problem)
        answers.write(json.dumps(error) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
