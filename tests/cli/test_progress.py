"""Lines about a long command: never the same twice, with a time left that is never
raised.
"""

import sys

import pytest

from rindices.cli import progress
from rindices.errors import Problem, Severity


def lines_of(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    seen: list[tuple[float, int]],
):
    """Return what is printed if so much was done of four pieces at these seconds."""
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    shown = progress.Progress("fit")
    for second, done in seen:
        clock[0] = second
        shown.update(done, 4)
    return capsys.readouterr().err.splitlines()


def test_the_time_left_follows_the_pace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lines_of(monkeypatch, capsys, [(0, 0), (60, 1), (62, 2), (120, 3)]) == [
        "fit: 1 of 4, 0:03:00 left",
        "fit: 3 of 4, 0:00:40 left",
    ]


def test_no_line_is_repeated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lines_of(monkeypatch, capsys, [(0, 0), (20, 0), (40, 0), (60, 0)]) == [
        "fit: 0 of 4, begun"
    ]


def test_pieces_of_an_earlier_run_took_no_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lines_of(monkeypatch, capsys, [(0, 2), (30, 3), (60, 4)]) == [
        "fit: 3 of 4, 0:00:30 left",
        "fit: 4 of 4, 0:00:00 left",
    ]


def test_a_terminal_gets_a_bar_and_lines_above_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress.Progress("fit") as shown:
        shown.update(1, 4)
        shown.say("2 patterns: members agree 0.900")
        shown.print_problems(
            [Problem(severity=Severity.WARNING, what="a small cohort")]
        )
        shown.update(3, 4)
    printed = capsys.readouterr().err
    assert "fit" in printed
    assert "1 of 4, begun" in printed
    assert "2 patterns: members agree 0.900\n" in printed
    assert "a small cohort." in printed
    assert "3 of 4" in printed


def test_the_time_left_never_jumps_up_where_work_becomes_slower(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lines_of(
        monkeypatch, capsys, [(0, 0), (10, 1), (100, 2), (300, 3), (400, 4)]
    ) == [
        "fit: 1 of 4, 0:00:30 left",
        "fit: 2 of 4, 0:00:30 left",
        "fit: 3 of 4, 0:00:30 left",
        "fit: 4 of 4, 0:00:00 left",
    ]
