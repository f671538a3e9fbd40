"""How far a long command is: a bar with the time left on a terminal, a line now and then elsewhere."""

import sys
import time
from types import TracebackType
from typing import Self

import typer

_EVERY = 10.0  # seconds between lines where the output is not a terminal


class Progress:
    """Progress on standard error.

    Parameters
    ----------
    title : str
        What is going on.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self._start = self._last = time.monotonic()
        self._first: float | None = None
        self._shown = -1.0
        self._terminal = sys.stderr.isatty()

    def update(self, done: float, total: int, piece: object = None) -> None:
        """Tell that ``done`` of ``total`` pieces are finished; a part of a piece counts for the time left."""
        now = time.monotonic()
        if self._first is None:
            self._first = done if piece is None else done - 1  # pieces of an earlier run, which took no time now
        fresh = done - self._first
        left = f"{_clock((now - self._start) / fresh * (total - done))} left" if fresh > 0 else "begun"
        line = f"{self.title}: {int(done)} of {total}, {left}"
        if self._terminal:
            typer.echo(f"\r\x1b[K{line}", err=True, nl=False)
        elif now - self._last >= _EVERY or (done == total and self._shown < total):
            typer.echo(line, err=True)
            self._last, self._shown = now, done

    def say(self, line: str) -> None:
        """Print a line of its own, above the bar."""
        typer.echo(f"\r\x1b[K{line}" if self._terminal else line, err=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal:
            typer.echo("", err=True)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
