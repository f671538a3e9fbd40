"""The engine of one machine: a process a core."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event

from rindices.study.engines.base import RETRIES, Order, Report, Say, StoppedError, carry_out, processes
from rindices.study.engines.trainer import LostError, PausedError, Trainer


@dataclass(frozen=True)
class LocalEngine:
    """Trains on this machine.

    Parameters
    ----------
    workers : int
        Processes; -1 for all cores. One alone is this process itself.
    """

    workers: int = -1

    def run(self, orders: Sequence[Order], say: Say) -> Iterator[Report]:
        """Carry out all orders, each in the next free process."""
        number = processes(self.workers, len(orders))
        if number > 1:
            yield from _side_by_side(orders, number)
            return
        for order in orders:
            carry_out(order)
            yield Report(order.work)


def _side_by_side(orders: Sequence[Order], number: int) -> Iterator[Report]:
    trainers = [Trainer() for _ in range(number)]
    free: SimpleQueue[Trainer] = SimpleQueue()
    stopping = Event()
    for trainer in trainers:
        free.put(trainer)

    def carry_out_beside(order: Order) -> Report:
        why = ""
        for _ in range(1 + RETRIES):
            trainer = free.get()
            try:
                trainer.train(order)
                return Report(order.work)
            except LostError as error:
                if stopping.is_set():
                    raise PausedError from None
                why = f"{error}, {1 + RETRIES} times"
                trainers.append(trainer := Trainer())
            finally:
                free.put(trainer)
        return Report(order.work, why)

    with ThreadPoolExecutor(number) as pool:
        running: list[Future[Report]] = [pool.submit(carry_out_beside, order) for order in orders]
        try:
            for future in as_completed(running):
                yield future.result()
        except PausedError:
            raise StoppedError("the training was stopped from outside: run the same command again to go on.") from None
        finally:
            stopping.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for trainer in trainers:
                trainer.ask_to_stop()
            for trainer in trainers:
                trainer.stop()
