"""The engine of one machine: a process a core."""

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

    Parameters
    ----------
    workers : int
        Processes; -1 for all cores. One alone is this process itself.
    """

    workers: int = -1

    def run(self, orders: Sequence[TrainingJob], say: MessageCallback) -> Iterator[JobResult]:
        """Carry out all orders, each in the next free process."""
        number = count_processes(self.workers, len(orders))
        if number > 1:
            yield from _run_in_parallel(orders, number)
            return
        for order in orders:
            run_training_job(order)
            yield JobResult(order.work)


def _run_in_parallel(orders: Sequence[TrainingJob], number: int) -> Iterator[JobResult]:
    trainers = [TrainingProcess() for _ in range(number)]
    free: SimpleQueue[TrainingProcess] = SimpleQueue()
    stopping = Event()
    for trainer in trainers:
        free.put(trainer)

    def carry_out_beside(order: TrainingJob) -> JobResult:
        why = ""
        for _ in range(1 + MAX_RETRIES):
            trainer = free.get()
            try:
                trainer.train(order)
                return JobResult(order.work)
            except WorkerDiedError as error:
                if stopping.is_set():
                    raise TrainingPausedError from None
                why = f"{error}, {1 + MAX_RETRIES} times"
                trainers.append(trainer := TrainingProcess())
            finally:
                free.put(trainer)
        return JobResult(order.work, why)

    with ThreadPoolExecutor(number) as pool:
        running: list[Future[JobResult]] = [pool.submit(carry_out_beside, order) for order in orders]
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
            for trainer in trainers:
                trainer.request_stop()
            for trainer in trainers:
                trainer.stop()
