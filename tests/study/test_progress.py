"""``fit`` in Python shows how far it is in a terminal and in a notebook, and writes
nothing into logs.
"""

import os
import subprocess
import sys
from types import ModuleType

import pytest

import rindices as ri
from rindices.learners.gan.callbacks import TrainingEvent
from rindices.selection.choose import GridPoint
from rindices.study import progress as progress_module
from rindices.study.methods import MemberSet
from rindices.study.progress import TrainingProgress
from tests.cohorts import simulate_few_regions

pytestmark = pytest.mark.filterwarnings("ignore::rindices.StudyWarning")
OPTIONS = {"method": "contrastive", "members": 2, "workers": 1}
PROGRAM = f"""
import warnings
import rindices as ri
from tests.cohorts import simulate_few_regions
warnings.simplefilter("ignore")
ri.fit(simulate_few_regions("tiny").cohort, 2, **{OPTIONS}, progress=PROGRESS)
"""


def read_terminal(progress: str) -> str:
    """Return what a program writes to standard error that is a terminal."""
    ours, theirs = os.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.replace("PROGRESS", progress)],
        stderr=theirs,
        env=environment,
    )
    os.close(theirs)
    parts = []
    try:
        while part := os.read(ours, 10_000):
            parts.append(part)
    except OSError:  # of a terminal that was closed
        pass
    assert process.wait() == 0
    return b"".join(parts).decode()


def test_a_terminal_shows_a_bar() -> None:
    shown = read_terminal("None")
    assert "fit" in shown
    assert "1 of 1, " in shown
    assert read_terminal("False") == ""


@pytest.mark.slow  # the bar of a terminal is tested above
def test_a_log_gets_lines_only_where_they_are_wanted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cohort = simulate_few_regions("tiny").cohort
    for progress, lines in (
        (None, []),
        (False, []),
        (True, ["fit: 1 of 1, 0:00:00 left"]),
    ):
        ri.fit(cohort, 2, **OPTIONS, progress=progress)  # type: ignore[arg-type]
        captured = capsys.readouterr()
        assert captured.out == ""
        written = captured.err.splitlines()
        assert [line.split(", ")[0] for line in written[-1:]] == [
            line.split(", ")[0] for line in lines
        ]


def test_a_notebook_shows_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        sys.modules, "ipykernel", ModuleType("ipykernel")
    )  # as in the process of a notebook
    ri.fit(simulate_few_regions("tiny").cohort, 2, **OPTIONS)  # type: ignore[arg-type]
    shown = capsys.readouterr().err
    assert shown.startswith("\rfit: begun")
    assert shown.rpartition("\r")[2].startswith("fit: 1 of 1, ")
    assert shown.endswith("\n")


def make_event(step: int, **values: object) -> TrainingEvent:
    return TrainingEvent(
        phase="training", step=step, max_steps=100, running=5, members=5, **values
    )  # type: ignore[arg-type]


def make_set(weight: float) -> MemberSet:
    return MemberSet(
        point=GridPoint(2, weight),
        numbers=(0, 1, 2, 3, 4),
        method="surreal-gan",
        values="{}",
        seed=0,
        data="x",
    )


def test_line_of_a_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first line at once, the first with losses too, then every ten seconds; of one
    member set at a time.
    """
    now = [100.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now[0])
    shown, first, second = TrainingProgress(10.0), make_set(0.1), make_set(0.2)
    assert (
        shown.describe(first, make_event(0))
        == "2 patterns, lambda 0.1: step 0 of 100, 5 of 5 members in training"
    )
    assert shown.describe(first, make_event(1)) == ""
    assert shown.describe(second, make_event(9, losses={"change": 1.0})) == ""
    line = shown.describe(
        first, make_event(2, losses={"change": 0.5}, seconds_left=61.0)
    )
    assert (
        line
        == "2 patterns, lambda 0.1: step 2 of 100, 5 of 5 members in training, 0:01:01 left, change 0.5"
    )
    now[0] += 9
    assert shown.describe(first, make_event(3, losses={"change": 0.5})) == ""
    now[0] += 1
    assert "step 4 of 100" in shown.describe(first, make_event(4))
    now[0] += 11  # the first set says nothing any more
    assert shown.describe(second, make_event(50)).startswith(
        "2 patterns, lambda 0.2: step 50"
    )


def test_a_resumed_training_is_announced_once() -> None:
    shown, work = TrainingProgress(10.0), make_set(0.1)
    assert shown.announce(work, make_event(0)) == ""
    resumed = make_event(2_000, resumed_from=2_000)
    assert (
        shown.announce(work, resumed)
        == "2 patterns, lambda 0.1: resumed from step 2,000"
    )
    assert shown.announce(work, resumed) == ""
    assert (
        shown.announce(make_set(0.2), resumed)
        == "2 patterns, lambda 0.2: resumed from step 2,000"
    )
