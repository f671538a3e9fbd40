"""How far a long command is: a bar with the time left on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

import typer

from rindices.cli.console import print_problems
from rindices.errors import Problem

_SECONDS_BETWEEN_LINES = 10.0  # seconds between lines where the output is not a terminal


class Progress:
    """Progress on standard error.

    Parameters
    ----------
    title : str
        What is going on.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self._start = self._last = self._moved = time.monotonic()
        self._done = 0.0
        self._line = ""
        self._first: float | None = None
        self._shown = -1.0
        self._terminal = sys.stderr.isatty()

    def update(self, done: float, total: int, piece: object = None) -> None:
        """Tell that ``done`` of ``total`` pieces are finished; a part of a piece counts for the time left."""
        now = time.monotonic()
        if self._first is None:
            self._first = done if piece is None else done - 1  # pieces of an earlier run, which took no time now
        if done != self._done:
            self._done, self._moved = done, now
        line = f"{self.title}: {int(done)} of {total}, {self._format_time_left(done - self._first, total - done, now)}"
        if self._terminal:
            typer.echo(f"\r\x1b[K{line}", err=True, nl=False)
        elif line != self._line and (
            now - self._last >= _SECONDS_BETWEEN_LINES or (done == total and self._shown < total)
        ):
            typer.echo(line, err=True)
            self._last, self._shown, self._line = now, done, line

    def _format_time_left(self, fresh: float, rest: float, now: float) -> str:
        """Return the time left at the pace up to the last advance; waiting since then counts down."""
        if fresh <= 0:
            return "begun"
        left = (self._moved - self._start) / fresh * rest - (now - self._moved)
        return f"{_format_duration(max(left, 0.0))} left"

    def say(self, line: str) -> None:
        """Print a line of its own, above the bar."""
        typer.echo(f"\r\x1b[K{line}" if self._terminal else line, err=True)

    def print_problems(self, problems: Iterable[Problem]) -> None:
        """Print problems above the bar."""
        if self._terminal:
            typer.echo("\r\x1b[K", err=True, nl=False)
        print_problems(problems)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal:
            typer.echo("", err=True)


def _format_duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
