"""Watching a training: a base class of callbacks, and a line of progress.

Nothing here needs torch.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TextIO

SECONDS_BETWEEN_LINES = 10.0
"""Least time between two lines where a line cannot be replaced."""
SECONDS_BETWEEN_EVENTS = 2.0
"""Longest time between two events of a stack, apart from one step."""
_COST_OF_START = 0.3
"""Processor time of a step of the start, in units of a step of the training."""


@dataclass(frozen=True, kw_only=True)
class TrainingEvent:
    """Where a training stands.

    Parameters
    ----------
    phase : {'start', 'training'}
        Whether the start of the members is being computed, or they are trained.
    step, max_steps : int
        Steps taken in this phase by the stack that is furthest behind, and steps after
        which all members stop.
    running, members : int
        Number of members that are in training, and of all.
    losses : mapping from str to float
        Mean losses of the members in training since their last check, by the names of
        `LOSS_NAMES`.
    seconds_left : float or None
        Time to ``max_steps`` at the pace so far. None before the first step.
    resumed_from : int
        Step at which an interrupted training was resumed. 0 for a new one.
    label : str
        Which of several trainings it is, such as ``lambda 0.1``. Empty if there is one.
    """

    phase: str
    step: int
    max_steps: int
    running: int
    members: int
    losses: Mapping[str, float] = field(default_factory=dict)
    seconds_left: float | None = None
    resumed_from: int = 0
    label: str = ""


class Callback:
    """Base class of callbacks, whose methods do nothing unless a subclass overrides
    them.

    Stacks of members may be trained in several threads, but only one of them calls a
    callback at a time. An exception in a callback ends the training.
    ``KeyboardInterrupt`` also saves the checkpoint.
    """

    def on_train_begin(self, event: TrainingEvent) -> None:
        """Take the event before the first step."""

    def on_check(self, event: TrainingEvent) -> None:
        """Take an event: at each check of the losses, and every two seconds in between
        and during the start.
        """

    def on_train_end(self, event: TrainingEvent) -> None:
        """Take the event after the last step."""


EventCallback = Callable[["TrainingEvent"], None]
"""Takes an event."""


class Forwarder(Callback):
    """Passes every event to a function.

    Parameters
    ----------
    on_event : callable
        Takes a `TrainingEvent`.
    """

    def __init__(self, on_event: EventCallback) -> None:
        self._on_event = on_event

    def on_train_begin(self, event: TrainingEvent) -> None:
        """Pass the event."""
        self._on_event(event)

    def on_check(self, event: TrainingEvent) -> None:
        """Pass the event."""
        self._on_event(event)

    def on_train_end(self, event: TrainingEvent) -> None:
        """Pass the event."""
        self._on_event(event)


class ProgressLine(Callback):
    """Prints one line with step, members, time left and losses, which is replaced on a
    terminal and in a notebook.

    Parameters
    ----------
    file : text file, optional
        Where to print; standard error by default.
    title : str, default='Surreal-GAN'
        First words of the line.
    """

    def __init__(self, file: TextIO | None = None, title: str = "Surreal-GAN") -> None:
        self.file, self.title = file, title
        self._printed_at, self._width = float("-inf"), 0

    def on_train_begin(self, event: TrainingEvent) -> None:
        """Print the first line."""
        if event.resumed_from:
            self._get_file().write(
                f"{self._make_title(event)}: resumed from step {event.resumed_from:,}\n"
            )
        self._show(event, is_last=False)

    def on_check(self, event: TrainingEvent) -> None:
        """Replace the line, or print another after ten seconds."""
        self._show(event, is_last=False)

    def on_train_end(self, event: TrainingEvent) -> None:
        """Print the last line."""
        self._show(event, is_last=True)

    def _make_title(self, event: TrainingEvent) -> str:
        return ", ".join(part for part in (self.title, event.label) if part)

    def _get_file(self) -> TextIO:
        return sys.stderr if self.file is None else self.file

    def _show(self, event: TrainingEvent, is_last: bool) -> None:
        file, line = (
            self._get_file(),
            f"{self._make_title(event)}: {describe_event(event)}",
        )
        is_notebook = self.file is None and "ipykernel" in sys.modules
        if is_notebook or file.isatty():
            if not is_notebook:  # a line that wraps could not be replaced
                line = line[: shutil.get_terminal_size().columns - 1]
            file.write(f"\r{line:<{self._width}}" + ("\n" if is_last else ""))
            self._width = len(line)
        elif is_last or time.monotonic() - self._printed_at >= SECONDS_BETWEEN_LINES:
            file.write(f"{line}\n")
            self._printed_at = time.monotonic()
        file.flush()


def describe_event(event: TrainingEvent) -> str:
    """Return an event as one line."""
    phase = "start, step" if event.phase == "start" else "step"
    parts = [
        f"{phase} {event.step:,} of {event.max_steps:,}",
        f"{event.running} of {event.members} members in training",
    ]
    if event.seconds_left is not None:
        parts.append(f"{timedelta(seconds=round(event.seconds_left))} left")
    losses = " ".join(
        f"{name.replace('_', '-')} {value:.2g}" for name, value in event.losses.items()
    )
    return ", ".join([*parts, losses] if losses else parts)


@dataclass(kw_only=True)
class StackProgress:
    """Number of members of a stack and of those in training, steps of training and of
    the start, and last losses.

    Attributes
    ----------
    members : int
    running : int
    step : int
    start_step : int
    losses : mapping
    """

    members: int
    running: int
    step: int
    start_step: int
    losses: Mapping[str, float] = field(default_factory=dict)


class Watch:
    """Collects the progress of all stacks, and passes it to the callbacks, one call at
    a time.

    Parameters
    ----------
    callbacks : sequence of Callback
        In the order in which they are called.
    start_steps : int
        Steps of the start of the members.
    max_steps : int
        Steps of the training. 0 where only the start is computed.
    stacks : sequence of StackProgress
        Where each stack stands.
    label : str
        See `TrainingEvent`.
    """

    def __init__(
        self,
        callbacks: Sequence[Callback],
        *,
        start_steps: int,
        max_steps: int,
        stacks: Sequence[StackProgress],
        label: str = "",
    ) -> None:
        self._callbacks, self._start_steps, self._max_steps = (
            callbacks,
            start_steps,
            max_steps,
        )
        self._label = label
        self._stacks, self._resumed_from = (
            stacks,
            max((stack.step for stack in stacks), default=0),
        )
        self._lock, self._began, self._last = (
            threading.Lock(),
            time.monotonic(),
            time.monotonic(),
        )
        self._initial_work = self._compute_work()

    def begin(self) -> None:
        """Call ``on_train_begin``."""
        self._call("on_train_begin")

    def end(self) -> None:
        """Call ``on_train_end``."""
        self._call("on_train_end")

    @property
    def is_due(self) -> bool:
        """Whether the last event was so long ago that another is due between two
        checks.
        """
        return (
            bool(self._callbacks)
            and time.monotonic() - self._last >= SECONDS_BETWEEN_EVENTS
        )

    def report_start(self, stack: int, step: int, losses: Mapping[str, float]) -> None:
        """Report the steps that a stack has taken of its start, and call
        ``on_check``.
        """
        with self._lock:
            self._stacks[stack].start_step, self._stacks[stack].losses = step, losses
        self._call("on_check")

    def finish_start(self, stack: int) -> None:
        """Note that a stack has finished its start."""
        with self._lock:
            self._stacks[stack].start_step, self._stacks[stack].losses = (
                self._start_steps,
                {},
            )

    def report_step(
        self, stack: int, step: int, running: int, losses: Mapping[str, float]
    ) -> None:
        """Report the steps, the members in training and the losses of a stack, and call
        ``on_check``.
        """
        with self._lock:
            progress = self._stacks[stack]
            progress.step, progress.running, progress.losses = step, running, losses
        self._call("on_check")

    def _compute_work(self) -> tuple[float, float]:
        """Return the work that is done and the work that is left, in steps of one
        member.
        """
        done = left = 0.0
        for stack in self._stacks:
            start = _COST_OF_START * stack.members
            done += start * stack.start_step + stack.members * stack.step
            left += start * (self._start_steps - stack.start_step) + stack.running * (
                self._max_steps - stack.step
            )
        return done, left

    def _make_event(self) -> TrainingEvent:
        (done, left), now = self._compute_work(), time.monotonic()
        advance = done - self._initial_work[0]
        running = [stack for stack in self._stacks if stack.running]
        behind = [stack for stack in running if stack.start_step < self._start_steps]
        is_start = bool(behind) or not self._max_steps
        steps = [
            each.start_step if is_start else each.step
            for each in behind or running or self._stacks
        ]
        known = [stack for stack in behind or running or self._stacks if stack.losses]
        names = known[0].losses if known else {}
        weights = [max(stack.running, 1) for stack in known]
        return TrainingEvent(
            phase="start" if is_start else "training",
            step=min(steps) if running else max(steps),
            max_steps=self._start_steps if is_start else self._max_steps,
            running=sum(stack.running for stack in running),
            members=sum(stack.members for stack in self._stacks),
            losses={
                name: sum(
                    n * stack.losses.get(name, 0.0)
                    for n, stack in zip(weights, known, strict=True)
                )
                / sum(weights)
                for name in names
            },
            seconds_left=(now - self._began) / advance * left if advance > 0 else None,
            resumed_from=self._resumed_from,
            label=self._label,
        )

    def _call(self, method: str) -> None:
        if not self._callbacks:
            return
        with self._lock:
            self._last, event = time.monotonic(), self._make_event()
            for callback in self._callbacks:
                getattr(callback, method)(event)
