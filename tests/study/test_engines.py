"""Behaviour that all engines share: member sets that are given up, and
interruptions.
"""

import os
import re
import signal
import time
from pathlib import Path

import pytest

from rindices.study.store import RunStore
from tests.study.helpers import begin, newest_states, sets


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "dask"])
def test_a_set_that_kills_its_process_is_given_up(
    long_folder: Path, tmp_path: Path, engine: str
) -> None:
    """Whoever begins one of the sets is killed, each time; the journal's file names
    tell who that is.
    """
    options = [
        "--patterns",
        2,
        "--engine",
        engine,
        "--workers",
        2 if engine == "local" else 1,
    ]
    process = begin("fit", long_folder / "study.toml", "--out", tmp_path, *options)
    dead: set[int] = set()
    while process.poll() is None:
        for path in tmp_path.glob("runs/journal/*.tsv"):
            pid = int(path.stem.rpartition("-")[2])
            if (
                pid not in dead
                and "\tbegun\tm2-005"
                in path.read_text().rpartition("\n")[0].rpartition("\n")[2]
            ):
                dead.add(pid)
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    message = process.communicate()[1]
    assert process.returncode == 1, message
    reason = (
        "its process ended with SIGKILL"
        if engine == "local"
        else "its worker was lost.*"
    )
    assert re.search(
        rf"1 member set of 2 could not be trained: m2-005-\w+ \({reason}, 4 times\)",
        message,
    ), message
    assert "Traceback" not in message
    assert len(sets(tmp_path)) == 1
    begun = RunStore(tmp_path / "runs").count_events("begun")
    assert [count for key, count in begun.items() if key.startswith("m2-005")] == [4]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "dask"])
def test_the_end_of_a_batch_job_is_an_interruption(
    folder: Path, tmp_path: Path, engine: str
) -> None:
    options = [
        "--method",
        "surreal-gan",
        "--patterns",
        2,
        "--orthogonality",
        "0.1,0.2",
        "--members",
        2,
        "--workers",
        2,
    ]
    process = begin(
        "fit", folder / "study.toml", "--out", tmp_path, "--engine", engine, *options
    )
    states = newest_states(tmp_path / "runs", 2)
    process.terminate()
    message = process.communicate(timeout=120)[1]
    assert process.returncode == 3, message
    assert "run the same command again" in message
    assert "Traceback" not in message
    assert all(path.is_file() for path in states), "the same command would begin anew"
    assert not (tmp_path / "runs" / "lock").exists()
