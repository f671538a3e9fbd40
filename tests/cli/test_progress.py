"""Lines about a long command: never the same twice, and the time left counts down while nothing is finished."""

import pytest

from rindices.cli import progress
from rindices.errors import Problem, Severity


def lines_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], seen: list[tuple[float, float]]):
    """Return what is printed if so much was done of four pieces at these seconds."""
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    shown = progress.Progress("fit")
    for second, done in seen:
        clock[0] = second
        shown.update(done, 4)
    return capsys.readouterr().err.splitlines()


def test_waiting_counts_down(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = lines_of(monkeypatch, capsys, [(0, 0), (60, 1), (75, 1), (90, 1), (120, 2), (400, 2)])
    assert found == [
        "fit: 1 of 4, 3:00 left",
        "fit: 1 of 4, 2:45 left",
        "fit: 1 of 4, 2:30 left",
        "fit: 2 of 4, 2:00 left",
        "fit: 2 of 4, 1:00 left",
    ]


def test_no_line_is_repeated(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert lines_of(monkeypatch, capsys, [(0, 0), (20, 0), (40, 0), (60, 0)]) == ["fit: 0 of 4, begun"]


def test_pieces_of_an_earlier_run_took_no_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lines_of(monkeypatch, capsys, [(0, 2), (30, 3), (60, 4)]) == [
        "fit: 3 of 4, 0:30 left",
        "fit: 4 of 4, 0:00 left",
    ]


def test_a_terminal_gets_a_bar_and_lines_above_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True)
    with progress.Progress("fit") as shown:
        shown.update(1.5, 4)
        shown.say("2 patterns: members agree 0.900")
        shown.print_problems([Problem(Severity.WARNING, "a small cohort")])
        shown.update(3, 4)
    printed = capsys.readouterr().err
    assert "fit" in printed
    assert "1 of 4, begun" in printed
    assert "2 patterns: members agree 0.900\n" in printed
    assert "a small cohort." in printed
    assert "3 of 4" in printed


def test_the_time_left_never_jumps_up_while_work_goes_on_evenly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = [(20.0 * step, 4.0 * step / 20) for step in range(21)]
    lines = lines_of(monkeypatch, capsys, seen)
    minutes = [line.split(", ")[1].removesuffix(" left").split(":") for line in lines if "left" in line]
    seconds = [60 * int(parts[0]) + int(parts[1]) for parts in minutes]
    assert len(seconds) == 20
    assert seconds == sorted(seconds, reverse=True)


def test_the_time_left_never_jumps_up_where_work_becomes_slower(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = lines_of(monkeypatch, capsys, [(0, 0), (10, 1), (50, 1.5), (100, 2), (200, 2), (300, 3), (400, 4)])
    assert lines == [
        "fit: 1 of 4, 0:30 left",
        "fit: 2 of 4, 0:30 left",
        "fit: 3 of 4, 0:30 left",
        "fit: 4 of 4, 0:00 left",
    ]
