"""Progress of a long command: a bar on a terminal, a line now and then elsewhere."""

import math
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Self

import typer

from rindices.cli.console import print_problems
from rindices.errors import Problem

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

_SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Progress on standard error, with the time left.

    The time left follows the pace since the start, not that of the last pieces: pieces that finish together would make
    it jump. It is never raised: where the work becomes slower, it stands still until the work has caught up.

    title: name of the task.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self._start = self._last_line_at = self._advanced_at = time.monotonic()
        self._done, self._seconds_left = 0.0, math.inf
        self._initially_done: float | None = None
        self._last_line, self._last_done = "", -1.0
        self._bar: RichProgress | None = None

    def update(self, done: float, total: int, piece: object = None) -> None:
        """Report that ``done`` of ``total`` pieces are finished; a part of a piece counts for the time left."""
        now = time.monotonic()
        if self._initially_done is None:
            self._initially_done = done if piece is None else done - 1  # from an earlier run, which took no time now
        if done != self._done:
            self._done, self._advanced_at = done, now
        time_left = self._format_time_left(done - self._initially_done, total - done, now)
        line = f"{int(done)} of {total}, {time_left}"
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, total=total, status=line)
        elif line != self._last_line and (
            now - self._last_line_at >= _SECONDS_BETWEEN_LINES or (done == total and self._last_done < total)
        ):
            typer.echo(f"{self.title}: {line}", err=True)
            self._last_line_at, self._last_done, self._last_line = now, done, line

    def _format_time_left(self, advance: float, remaining: float, now: float) -> str:
        """Return the time left at the pace up to the last advance; waiting since then counts for one piece at most."""
        if advance <= 0:
            return "begun"
        pace = (self._advanced_at - self._start) / advance
        seconds = pace * remaining - min(now - self._advanced_at, pace, pace * remaining)
        self._seconds_left = min(self._seconds_left, seconds)
        return f"{_format_duration(self._seconds_left)} left"

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
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[status]}"))
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task(title, total=None, status="begun")
    return bar


def _format_duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
