"""``fit`` in Python shows how far it is in a terminal and in a notebook, and writes nothing into logs."""

import os
import subprocess
import sys
from types import ModuleType

import pytest

import rindices as ri
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
        [sys.executable, "-c", PROGRAM.replace("PROGRESS", progress)], stderr=theirs, env=environment
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


def test_a_log_gets_lines_only_where_they_are_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    cohort = simulate_few_regions("tiny").cohort
    for progress, lines in ((None, []), (False, []), (True, ["fit: 1 of 1, 0:00:00 left"])):
        ri.fit(cohort, 2, **OPTIONS, progress=progress)  # type: ignore[arg-type]
        captured = capsys.readouterr()
        assert captured.out == ""
        written = captured.err.splitlines()
        assert [line.split(", ")[0] for line in written[-1:]] == [line.split(", ")[0] for line in lines]


def test_a_notebook_shows_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))  # as in the process of a notebook
    ri.fit(simulate_few_regions("tiny").cohort, 2, **OPTIONS)  # type: ignore[arg-type]
    shown = capsys.readouterr().err
    assert shown.startswith("\rfit: begun")
    assert shown.rpartition("\r")[2].startswith("fit: 1 of 1, ")
    assert shown.endswith("\n")
