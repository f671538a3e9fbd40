"""Progress of a long command: a bar on a terminal, a line now and then elsewhere."""

import math
import sys
import time
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Self

import typer

from rindices.cli.console import print_problems
from rindices.errors import Problem

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

_SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Progress on standard error, with the time left at the pace since the start.

    Pieces that finish together would make a pace of the last pieces jump. The time left is never raised: where the work
    becomes slower, it stands still until the work has caught up.

    title: name of the task.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self._start = self._last_line_at = time.monotonic()
        self._seconds_left, self._last_line = math.inf, ""
        self._initially_done: int | None = None
        self._bar: RichProgress | None = None

    def update(self, done: int, total: int, piece: object = None) -> None:
        """Report that ``done`` of ``total`` pieces are finished, the last one just now unless ``piece`` is None."""
        now = time.monotonic()
        if self._initially_done is None:
            self._initially_done = done if piece is None else done - 1  # from an earlier run, which took no time now
        advance, time_left = done - self._initially_done, "begun"
        if advance > 0:
            self._seconds_left = min(self._seconds_left, (now - self._start) / advance * (total - done))
            time_left = f"{timedelta(seconds=round(self._seconds_left))} left"
        line = f"{done} of {total}, {time_left}"
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, total=total, status=line)
        elif line != self._last_line and (now - self._last_line_at >= _SECONDS_BETWEEN_LINES or done == total):
            typer.echo(f"{self.title}: {line}", err=True)
            self._last_line_at, self._last_line = now, line

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self._pause()
        typer.echo(line, err=True)
        self._resume()

    def print_problems(self, problems: Iterable[Problem]) -> None:
        """Print problems above the bar."""
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
        if sys.stderr.isatty():
            self._bar = _make_bar(self.title)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._pause()


def _make_bar(title: str) -> "RichProgress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    texts = (TextColumn("{task.description}", markup=False), TextColumn("{task.fields[status]}"))
    bar = Progress(texts[0], BarColumn(), TimeElapsedColumn(), texts[1], console=Console(stderr=True), transient=True)
    bar.add_task(title, total=None, status="begun")
    return bar
