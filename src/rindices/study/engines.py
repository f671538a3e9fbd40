"""Engines that train the member sets of a plan. All give equal bytes, because the plan decides the sets.

Here are the jobs of all engines, running a plan to its end, and the engine of one machine, with one process per core.
Engines for many machines are in `rindices.study.cluster`. Training has a process of its own, so that the worker stays
responsive, a crash does not take the worker with it, and signals reach the training. Run as a program, this module is
that process: jobs arrive on its standard input and results leave on its standard output, one line of JSON each.
SIGTERM, or the end of its input, makes it write a checkpoint and exit.
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
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from rindices.errors import Problem, RindicesError, StudyError, format_count, join_names
from rindices.learners.prepared_people import PreparedPeople
from rindices.selection.choose import GridPoint
from rindices.study.exceptions import StudyStoppedError
from rindices.study.recipes import MemberSet, get_study_recipe
from rindices.study.store import RunStore, explain_write_errors
from rindices.threads import limit_blas_threads

MAX_RETRIES = 3
"""How often a member set whose worker died is tried again."""
_PROGRESS_INTERVAL = 5.0  # seconds between updates of the progress of sets in training
_STOPPED_EXIT_CODE = 75  # as in sysexits.h: try again later
_STOP_TIMEOUT = 60.0  # seconds for the last checkpoint
_ONE_THREAD_ENV = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

ProgressCallback = Callable[[float, int, MemberSet | None], None]
"""Called with the number of finished sets, which may be a fraction, of all sets, and the set just finished."""
MessageCallback = Callable[[str], None]
"""Called with a line for the user."""


def _ignore(*arguments: object) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class StudyObserver:
    """Functions that are called while a study runs.

    on_progress: see `ProgressCallback`; on_setting: called with a setting whose members are all trained, and the
    concordance among them; on_message: called with a line for the user; on_problems: called with problems of the data,
    and with reasons to doubt the result; on_written: called with the folder of the study when its files are written,
    while it is still locked.
    """

    on_progress: ProgressCallback = _ignore
    on_setting: Callable[[GridPoint, float], None] = _ignore
    on_message: MessageCallback = _ignore
    on_problems: Callable[[Sequence[Problem]], None] = _ignore
    on_written: Callable[[Path], None] = _ignore


NO_OBSERVER = StudyObserver()


class TrainingJob(NamedTuple):
    """A member set to train, with the folder of the run store and the file of the people."""

    work: MemberSet
    folder: Path
    people: Path


class JobResult(NamedTuple):
    """A member set that is finished, or was given up for the reason ``lost``."""

    work: MemberSet
    lost: str = ""


class Engine(Protocol):
    """Runs training jobs."""

    def run(self, jobs: Sequence[TrainingJob], on_message: MessageCallback) -> Iterator[JobResult]:
        """Run all jobs and yield their results in any job; an error that the user can mend is raised at once."""
        ...


def count_processes(workers: int, n_jobs: int) -> int:
    """Return how many processes of this machine to use; -1 workers are all cores."""
    return min(workers if workers > 0 else os.cpu_count() or 1, max(1, n_jobs))


def run_training_job(job: TrainingJob) -> None:
    """Train a member set that the store lacks, and save it; on one thread, so that sums are equal everywhere."""
    store = RunStore(job.folder)
    if store.load(job.work) is not None:
        return
    people = _load_people(job.people)
    with explain_write_errors(f"to {store.folder}"), limit_blas_threads():
        store.log_event("begun", job.work)
        recipe, work = get_study_recipe(job.work.recipe), job.work
        if work.halves:
            trained = store.load(replace(work, halves=False))
            if trained is None:
                raise StudyError(f"{store.folder} has lost members that it had: run the same command again.")
            members = recipe.compare_halves(people, trained, work.seed)
        else:
            members = recipe.train_members(people, work, store.checkpoint_path(work))
        store.save(work, members)
        store.log_event("finished", job.work)


@lru_cache(maxsize=1)
def _load_people(path: Path) -> list[PreparedPeople]:
    """Return the people of a set of members; a process keeps the last ones that it has read."""
    return RunStore(path.parent).load_people(path)


def run_plan(
    plan: Sequence[MemberSet],
    prepare_people: Callable[[Sequence[int]], Sequence[PreparedPeople]],
    store: RunStore,
    engine: Engine,
    observer: StudyObserver = NO_OBSERVER,
) -> None:
    """Train every member set that the store lacks; an error names those that were given up, at the end.

    prepare_people: takes the numbers of the members of a set; returns the people of each, or of one if members share
    them.
    """
    missing = [work for work in plan if store.load(work) is None]
    if not missing:
        return
    done, lost = len(plan) - len(missing), list[JobResult]()
    paths = {numbers: store.save_people(prepare_people(numbers)) for numbers in {work.numbers for work in missing}}
    jobs = [TrainingJob(work, store.folder.absolute(), paths[work.numbers]) for work in missing]
    try:
        with _report_progress(missing, store, lambda partly: observer.on_progress(done + partly, len(plan), None)):
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
        raise StudyError(f"{what}. The others are finished: look into {store.folder / 'journal'}, then run again.")


@contextmanager
def _report_progress(
    missing: Sequence[MemberSet], store: RunStore, on_progress: Callable[[float], None]
) -> Iterator[None]:
    """Report the progress of sets in training at once, then every few seconds."""
    end = threading.Event()

    def report() -> None:
        while not end.wait(_PROGRESS_INTERVAL):
            on_progress(store.sum_partial_progress(missing))

    on_progress(store.sum_partial_progress(missing))
    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


class WorkerDiedError(Exception):
    """The process died while training: it was killed, for instance for its memory, or it crashed."""


class TrainingPausedError(Exception):
    """The process was asked to stop and has written its checkpoint."""


class TrainingProcess:
    """A training process, as its worker sees it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rindices.study.engines"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | _ONE_THREAD_ENV,
            process_group=0 if os.name == "posix" else None,  # Ctrl-C reaches the command alone, which then asks
        )
        self.folder: Path | None = None

    @property
    def alive(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    def train(self, job: TrainingJob) -> None:
        """Run a job to its end.

        Raises StudyError: if the user can mend it. Raises WorkerDiedError, TrainingPausedError: if the process ended
        before the job.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.folder, answer = job.folder, ""
        with suppress(BrokenPipeError, ValueError):  # ValueError: the input was closed by `request_stop`
            self._process.stdin.write(_encode_job(job) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        self.folder = None
        if not answer:
            raise _make_exit_error(self._process.wait())
        if error := json.loads(answer)["error"]:
            raise StudyError(error)

    def request_stop(self) -> None:
        """Ask for a checkpoint and the end, without waiting."""
        if not self.alive:
            return
        if os.name == "nt":  # terminate() would kill it there
            self._close_input()
        else:
            self._process.terminate()

    def stop(self) -> None:
        """Let the process write its checkpoint, and end it."""
        self.request_stop()
        self._close_input()  # it ends after this job even if the interrupt is lost
        try:
            self._process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _close_input(self) -> None:
        with suppress(BrokenPipeError):
            if self._process.stdin is not None:
                self._process.stdin.close()


def _make_exit_error(code: int) -> Exception:
    if code == _STOPPED_EXIT_CODE or -code in (signal.SIGTERM, signal.SIGINT):
        return TrainingPausedError()
    return WorkerDiedError(f"its process ended with {signal.Signals(-code).name if code < 0 else f'code {code}'}")


def _encode_job(job: TrainingJob) -> str:
    return json.dumps([asdict(job.work), str(job.folder), str(job.people)])


def _decode_job(line: str) -> TrainingJob:
    work, folder, people = json.loads(line)
    work |= {"point": GridPoint(*work["point"]), "numbers": tuple(work["numbers"])}
    return TrainingJob(MemberSet(**work), Path(folder), Path(people))


@dataclass(frozen=True)
class LocalEngine:
    """Trains on this machine.

    workers: number of processes; -1 for all cores. With 1, members are trained in this process.
    """

    workers: int = -1

    def run(self, jobs: Sequence[TrainingJob], on_message: MessageCallback) -> Iterator[JobResult]:
        """Run all jobs, each in the next free process."""
        n_processes = count_processes(self.workers, len(jobs))
        if n_processes > 1:
            yield from _run_in_parallel(jobs, n_processes)
            return
        for job in jobs:
            run_training_job(job)
            yield JobResult(job.work)


def _run_in_parallel(jobs: Sequence[TrainingJob], n_processes: int) -> Iterator[JobResult]:
    processes = [TrainingProcess() for _ in range(n_processes)]
    free: queue.SimpleQueue[TrainingProcess] = queue.SimpleQueue()
    stopping = threading.Event()
    for process in processes:
        free.put(process)

    def run_job(job: TrainingJob) -> JobResult:
        reason = ""
        for _ in range(1 + MAX_RETRIES):
            process = free.get()
            try:
                process.train(job)
                return JobResult(job.work)
            except WorkerDiedError as error:
                if stopping.is_set():
                    raise TrainingPausedError from None
                reason = f"{error}, {1 + MAX_RETRIES} times"
                processes.append(process := TrainingProcess())
            finally:
                free.put(process)
        return JobResult(job.work, reason)

    with ThreadPoolExecutor(n_processes) as pool:
        running = [pool.submit(run_job, job) for job in jobs]
        try:
            for future in as_completed(running):
                yield future.result()
        except TrainingPausedError:
            raise StudyStoppedError(
                "the training was stopped from outside: run the same command again to go on."
            ) from None
        finally:
            stopping.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.request_stop()
            for process in processes:
                process.stop()


def _forward_jobs(lines: "queue.SimpleQueue[str]") -> None:
    """Queue the lines of the input; at its end, interrupt a training and end a process that waits."""
    for line in sys.stdin:
        lines.put(line)
    lines.put("")
    signal.raise_signal(signal.SIGTERM)


def _interrupt_training(*_: Any) -> None:
    """Interrupt the training once; further signals must not disturb its checkpoint.

    They get a function that does nothing: with ``SIG_IGN``, Python reports a signal that has already arrived as an
    error.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _ignore)
    raise KeyboardInterrupt


def _repeat_lost_interrupt(lost: "sys.UnraisableHookArgs") -> None:
    """Interrupt again if Python dropped the interrupt: callbacks of C libraries and destructors cannot raise."""
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt_training)
    threading.Timer(0.01, signal.raise_signal, (signal.SIGTERM,)).start()


def main() -> None:
    """Train the jobs of the standard input until it ends."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries must not be taken for an answer
    sys.unraisablehook = _repeat_lost_interrupt
    with suppress(KeyboardInterrupt):
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _interrupt_training)
        threading.Thread(target=_forward_jobs, args=(lines,), daemon=True).start()
        while line := lines.get():
            error = ""
            try:
                run_training_job(_decode_job(line))
            except RindicesError as problem:
                error = str(problem)
            answers.write(json.dumps({"error": error}) + "\n")
            answers.flush()
    os._exit(_STOPPED_EXIT_CODE)  # nothing is open, and the listening thread may hold standard input


if __name__ == "__main__":
    main()
