"""Callbacks and the line of progress."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from rindices.learners.gan.callbacks import (
    Callback,
    ProgressLine,
    StackProgress,
    TrainingEvent,
    Watch,
)
from rindices.learners.gan.recipe import LOSS_NAMES, TrainingPlan
from rindices.learners.gan.train import prepare_starts, train_stacks
from tests.learners.gan.helpers import PEOPLE, SHORT
from tests.learners.gan.test_start import BRIEF_START


class Recorder(Callback):
    """Keeps the name and the event of every call; stops the training at a step."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.calls: list[tuple[str, TrainingEvent]] = []
        self.stop_at = stop_at

    def on_train_begin(self, event: TrainingEvent) -> None:
        self.calls.append(("begin", event))

    def on_check(self, event: TrainingEvent) -> None:
        self.calls.append(("check", event))
        if event.step == self.stop_at:
            raise KeyboardInterrupt

    def on_train_end(self, event: TrainingEvent) -> None:
        self.calls.append(("end", event))


def test_a_training_calls_back_at_every_check() -> None:
    recorder = Recorder()
    (trained,) = train_stacks(
        *PEOPLE, TrainingPlan(patterns=2, recipe=SHORT), callbacks=[recorder]
    )
    names, events = zip(*recorder.calls, strict=True)
    assert names == ("begin", *["check"] * 6, "end")
    assert [event.step for event in events] == [0, 10, 20, 30, 40, 50, 60, 60]
    assert [event.running for event in events] == [1] * 6 + [0, 0]
    for event, losses in zip(events[1:-1], trained.losses.tolist(), strict=True):
        assert event.losses == pytest.approx(
            dict(zip(LOSS_NAMES, losses, strict=True)), rel=1e-5
        )
    assert events[0].seconds_left is None
    assert events[-1].seconds_left == 0


def test_the_start_calls_back_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rindices.learners.gan.callbacks.SECONDS_BETWEEN_EVENTS", 0.0)
    recorder = Recorder()
    train_stacks(
        *PEOPLE, TrainingPlan(patterns=2, recipe=BRIEF_START), callbacks=[recorder]
    )
    in_start = [event for name, event in recorder.calls if event.phase == "start"]
    assert [event.step for event in in_start[:31]] == list(range(30)) + [30] * (
        len(in_start) > 30
    )
    assert set(in_start[1].losses) == {"regression"}
    assert set(in_start[-1].losses) == {
        "discrimination",
        "decomposition",
        "reconstruction",
    }
    assert in_start[0].max_steps == 30
    assert recorder.calls[-1][1].phase == "training"


def test_starts_that_are_prepared_are_no_training() -> None:
    line = io.StringIO()
    prepare_starts(
        *PEOPLE,
        TrainingPlan(patterns=2, recipe=BRIEF_START, members=(0, 1)),
        callbacks=[ProgressLine(line)],
    )
    first, last = line.getvalue().splitlines()
    assert first == "Surreal-GAN: start, step 0 of 30, 2 of 2 members in training"
    assert last.startswith(
        "Surreal-GAN: start, step 30 of 30, 2 of 2 members in training, 0:00:00 left"
    )


def test_a_resumed_training_says_where_it_goes_on(tmp_path: Path) -> None:
    path, plan = (
        tmp_path / "members.safetensors",
        TrainingPlan(patterns=2, recipe=SHORT, members=(0, 1), stack=1),
    )
    with pytest.raises(KeyboardInterrupt):
        train_stacks(
            *PEOPLE, plan, path=path, save_every=10, callbacks=[Recorder(stop_at=40)]
        )
    line, recorder = io.StringIO(), Recorder()
    train_stacks(
        *PEOPLE,
        plan,
        path=path,
        callbacks=[recorder, ProgressLine(line)],
        label="lambda 0.2",
    )
    resumed_from = recorder.calls[0][1].resumed_from
    assert resumed_from >= 40
    first, second, *_, last = line.getvalue().splitlines()
    assert first == f"Surreal-GAN, lambda 0.2: resumed from step {resumed_from}"
    assert "2 of 2 members in training" in second
    assert last.startswith(
        "Surreal-GAN, lambda 0.2: step 60 of 60, 0 of 2 members in training, 0:00:00 left, discrimination "
    )


def test_the_time_left_is_at_the_pace_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(
        "rindices.learners.gan.callbacks.time.monotonic", lambda: now[0]
    )
    recorder = Recorder()
    stacks = [
        StackProgress(members=2, running=2, step=0, start_step=0) for _ in range(2)
    ]
    watch = Watch([recorder], start_steps=0, max_steps=100, stacks=stacks)
    now[0] = 110.0
    watch.report_step(0, 50, 2, {"change": 1.0})
    now[0] = 120.0
    watch.report_step(1, 25, 1, {"change": 4.0})
    first, second = (event for _, event in recorder.calls)
    assert first.seconds_left == pytest.approx(
        10.0 / 100 * 300
    )  # of 400 steps of members, 100 are done
    assert (second.step, second.running, second.losses["change"]) == (25, 3, 2.0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_is_replaced_on_a_terminal_and_printed_now_and_then_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    event = TrainingEvent(
        phase="start",
        step=1200,
        max_steps=4800,
        running=3,
        members=3,
        losses={"near_zero": 0.012},
    )
    terminal, log = Terminal(), io.StringIO()
    for file in (terminal, log):
        line = ProgressLine(file)
        line.on_train_begin(event)
        line.on_check(event)
        line.on_train_end(event)
    shown = terminal.getvalue().split("\r")
    assert len(shown) == 4
    assert {len(each.rstrip("\n")) for each in shown[1:]} == {59}
    assert (
        log.getvalue().splitlines()
        == [
            "Surreal-GAN: start, step 1,200 of 4,800, 3 of 3 members in training, near-zero 0.012"
        ]
        * 2
    )
