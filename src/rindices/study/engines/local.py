"""The engine of one machine: one process per core."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event

from rindices.study.engines.base import (
    MAX_RETRIES,
    JobResult,
    MessageCallback,
    TrainingJob,
    count_processes,
    run_training_job,
)
from rindices.study.engines.worker_process import TrainingPausedError, TrainingProcess, WorkerDiedError
from rindices.study.exceptions import StudyStoppedError


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
    free: SimpleQueue[TrainingProcess] = SimpleQueue()
    stopping = Event()
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
        running: list[Future[JobResult]] = [pool.submit(run_job, job) for job in jobs]
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
