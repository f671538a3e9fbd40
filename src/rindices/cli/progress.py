"""Progress of a long command: a bar on a terminal, a line now and then elsewhere."""

import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Self

import typer

from rindices.cli.console import print_problems
from rindices.errors import Problem
from rindices.study.progress import (
    SECONDS_BETWEEN_LINES,
    Pace,
    TrainingProgress,
    find_bar,
)

if TYPE_CHECKING:
    from rindices.learners.gan.callbacks import TrainingEvent
    from rindices.study.bar import Bar
    from rindices.study.methods import MemberSet


class Progress:
    """Progress on standard error, with the time left (`Pace`).

    title: name of the task.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self._pace, self._last_line_at, self._last_line = Pace(), time.monotonic(), ""
        self._bar: Bar | None = None
        self._training, self._lock = (
            TrainingProgress(SECONDS_BETWEEN_LINES),
            threading.RLock(),
        )

    def update(self, done: int, total: int, piece: object = None) -> None:
        """Report that ``done`` of ``total`` pieces are finished, the last one just now
        unless ``piece`` is None.
        """
        now, line = time.monotonic(), self._pace.describe(done, total, piece)
        if self._bar is not None:
            self._bar.update(
                self._bar.task_ids[0], completed=done, total=total, status=line
            )
        elif line != self._last_line and (
            now - self._last_line_at >= SECONDS_BETWEEN_LINES or done == total
        ):
            typer.echo(f"{self.title}: {line}", err=True)
            self._last_line_at, self._last_line = now, line

    def watch(self, work: "MemberSet", event: "TrainingEvent") -> None:
        """Report where the training of a member set stands; may be called by several
        threads.
        """
        with self._lock:
            if resumed := self._training.announce(work, event):
                self.say(f"{self.title}: {resumed}")
            line = self._training.describe(work, event)
            if line and self._bar is not None:
                self._bar.show_line(line)
            elif line:
                typer.echo(f"{self.title}: {line}", err=True)

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        with self._lock:
            self._pause()
            typer.echo(line, err=True)
            self._resume()

    def print_problems(self, problems: Iterable[Problem]) -> None:
        """Print problems above the bar."""
        with self._lock:
            self._pause()
            print_problems(problems)
            self._resume()

    def _pause(self) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _resume(self) -> None:
        if self._bar is not None:
            self._bar.start()

    def __enter__(self) -> Self:
        self._bar = find_bar(self.title)
        self._training = TrainingProgress(
            SECONDS_BETWEEN_LINES if self._bar is None else 0.0
        )
        self._resume()
        return self

    def __exit__(self, *_: object) -> None:
        self._pause()
