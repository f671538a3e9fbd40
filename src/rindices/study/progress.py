"""Progress of a fit: the time left at the pace since the start, as a bar in a terminal
and as a line in a notebook.
"""

import math
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from rindices.errors import format_count
from rindices.learners.gan.callbacks import TrainingEvent, describe_event
from rindices.study.methods import MemberSet

if TYPE_CHECKING:
    from rindices.study.bar import Bar

SECONDS_BETWEEN_LINES = 10.0
"""Least time between two lines where there is no bar."""


class Pace:
    """Says how much of a work is done, and how long the rest takes.

    Pieces that finish together would make a pace of the last pieces jump. The time left
    is never raised: where the work becomes slower, it stands still until the work has
    caught up.
    """

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._seconds_left = math.inf
        self._initially_done: int | None = None

    def describe(self, done: int, total: int, piece: object = None) -> str:
        """Return that ``done`` of ``total`` pieces are finished, the last one just now
        unless ``piece`` is None.
        """
        if self._initially_done is None:
            self._initially_done = (
                done if piece is None else done - 1
            )  # from an earlier run, which took no time now
        advance, time_left = done - self._initially_done, "begun"
        if advance > 0:
            seconds = (time.monotonic() - self._start) / advance * (total - done)
            self._seconds_left = min(self._seconds_left, seconds)
            time_left = f"{timedelta(seconds=round(self._seconds_left))} left"
        return f"{done} of {total}, {time_left}"


class TrainingProgress:
    """Says where the training of member sets stands; of several at the same time, the
    first one.

    seconds_between: least time between two lines. The first line with losses does not
    wait.
    """

    def __init__(self, seconds_between: float) -> None:
        self._seconds_between, self._resumed = seconds_between, set[str]()
        self._shown, self._heard_at, self._line_at, self._has_losses = (
            "",
            -math.inf,
            -math.inf,
            False,
        )

    def announce(self, work: MemberSet, event: TrainingEvent) -> str:
        """Return from which step an interrupted training goes on, once for each member
        set; otherwise ''.
        """
        if not event.resumed_from or work.key in self._resumed:
            return ""
        self._resumed.add(work.key)
        return f"{_describe_point(work)}: resumed from step {event.resumed_from:,}"

    def describe(self, work: MemberSet, event: TrainingEvent) -> str:
        """Return where the training of a member set stands; '' while another one is
        shown, or too early.
        """
        now = time.monotonic()
        if work.key != self._shown and now - self._heard_at < SECONDS_BETWEEN_LINES:
            return ""
        self._shown, self._heard_at = work.key, now if event.running else -math.inf
        is_first = bool(event.losses) and not self._has_losses
        if not is_first and now - self._line_at < self._seconds_between:
            return ""
        self._line_at, self._has_losses = now, self._has_losses or bool(event.losses)
        return f"{_describe_point(work)}: {describe_event(event)}"


def _describe_point(work: MemberSet) -> str:
    number, weight = (
        format_count(work.point.n_patterns, "pattern"),
        work.point.orthogonality,
    )
    return number if weight is None else f"{number}, lambda {weight:g}"


class FitProgress:
    """Progress of a function of Python on standard error.

    is_wanted: left out, a bar is shown in a terminal and a line in a notebook, and
    nothing elsewhere, so that logs stay short. True also prints a line now and then
    elsewhere; False prints nothing.
    """

    def __init__(self, title: str, is_wanted: bool | None = None) -> None:
        self._title, self._pace, self._bar = (
            title,
            Pace(),
            None if is_wanted is False else find_bar(title),
        )
        is_notebook = "ipykernel" in sys.modules
        self._show: Callable[[str, bool], None] | None = None
        if self._bar is not None:
            self._show = self._update_bar
        elif is_notebook and is_wanted is not False:
            self._show = self._replace_line
        elif is_wanted:
            self._show = self._print_line
        self._last_line_at, self._has_line = time.monotonic(), False
        is_line = self._bar is None and not is_notebook
        self._training = TrainingProgress(SECONDS_BETWEEN_LINES if is_line else 0.0)

    def update(self, done: int, total: int, piece: object = None) -> None:
        """Report that ``done`` of ``total`` pieces are finished, see
        `Pace.describe`.
        """
        line = self._pace.describe(done, total, piece)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, total=total)
        if self._show is not None:
            self._show(line, done == total)

    def watch(self, work: MemberSet, event: TrainingEvent) -> None:
        """Report where the training of a member set stands."""
        if self._show is None:
            return
        if resumed := self._training.announce(work, event):
            self._say(resumed)
        if not (line := self._training.describe(work, event)):
            return
        if self._bar is not None:
            self._bar.show_line(line)
        elif self._show == self._print_line:
            self._say(line)
        else:
            self._show(line, False)

    def _say(self, line: str) -> None:
        """Print a line that stays."""
        if self._bar is not None:
            self._bar.console.print(
                f"{self._title}: {line}", markup=False, highlight=False
            )
        else:
            start = "\n" if self._has_line else ""
            sys.stderr.write(f"{start}{self._title}: {line}\n")
            sys.stderr.flush()

    def _update_bar(self, line: str, is_last: bool) -> None:
        assert self._bar is not None
        self._bar.update(self._bar.task_ids[0], status=line)

    def _replace_line(self, line: str, is_last: bool) -> None:
        sys.stderr.write(f"\r{self._title}: {line:<40}")
        sys.stderr.flush()
        self._has_line = True

    def _print_line(self, line: str, is_last: bool) -> None:
        now = time.monotonic()
        if is_last or now - self._last_line_at >= SECONDS_BETWEEN_LINES:
            sys.stderr.write(f"{self._title}: {line}\n")
            self._last_line_at = now

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        elif self._show is not None and self._show != self._print_line:
            self._show("begun", False)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif self._has_line:
            sys.stderr.write("\n")


def find_bar(title: str) -> "Bar | None":
    """Return a bar for a terminal; None where standard error is none."""
    if not sys.stderr.isatty():
        return None
    from rindices.study.bar import Bar

    return Bar(title)
