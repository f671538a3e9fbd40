"""Kills by real signals, followed by the same job submitted again."""

import json
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.lab import SERVER, WAIT, Lab
from tests.study import JOB_STUDY, run_in_memory

pytestmark = pytest.mark.slow
PLACES = (3, 30, 60)
"""Rounds after which a process is killed."""


@pytest.mark.parametrize(
    ("run", "name", "what"),
    [
        ("client", "site-2", "all"),
        ("client-job", "site-3", "job"),
        ("server-job", SERVER, "job"),
        ("server", SERVER, "all"),
    ],
)
def test_the_same_job_goes_on_after_a_kill(
    lab: Lab, tables: dict[str, Path], run: str, name: str, what: str
) -> None:
    lab.close_kits(run, tables)
    job, kept = lab.write_job(run, JOB_STUDY, list(tables)), dict[str, bytes]()
    rounds = lab.kits / SERVER / run / "rounds"
    for place in PLACES:
        number = lab.begin_job(run, job)
        assert lab.wait_for_rounds(run, place) >= place, lab.read_state(run)
        assert lab.signal(name, what)
        if name == SERVER and what == "all":
            lab.start(SERVER)
        else:
            state = lab.wait(run, number)
            assert not state["finished"]
        if name != SERVER and what == "all":
            assert f"no answer of {name} within {WAIT} seconds" in state["says"]
            lab.start(name)
        now = {path.name: path.read_bytes() for path in rounds.glob("[0-9]*.npz")}
        assert kept == {
            file: now[file] for file in kept
        }  # no round has another total than before
        kept = now
    assert lab.run_job(run, job) == {"finished": True, "says": "finished: patterns"}
    memory = lab.folder / "memory-kills"
    if not memory.exists():
        run_in_memory(tables, lab.folder / f"{run}.toml", memory, masked=True)
    own, expected = (
        load_file(folder / "model.safetensors")
        for folder in (lab.kits / SERVER / run, memory)
    )
    for array_name, array in expected.items():
        np.testing.assert_allclose(own[array_name], array, rtol=0, atol=1e-12)
    answered = [
        json.loads(lab.read_private(run, site, "answered.json")) for site in tables
    ]
    assert all(
        each["rounds"] == answered[0]["rounds"] for each in answered
    )  # each round is one question, everywhere


def test_a_client_that_hangs_does_no_harm_and_one_that_never_comes_back_ends_the_job(
    lab: Lab, tables: dict[str, Path]
) -> None:
    run = "hang"
    lab.close_kits(run, tables)
    job = lab.write_job(run, JOB_STUDY, list(tables), "--wait", "45")
    number = lab.begin_job(run, job)
    assert lab.wait_for_rounds(run, 5) >= 5
    lab.signal("site-4", "all", signal.SIGSTOP)
    time.sleep(20)
    lab.signal("site-4", "all", signal.SIGCONT)
    before = lab.count_rounds(run)
    assert lab.wait_for_rounds(run, before + 10) >= before + 10
    lab.signal("site-4", "all", signal.SIGSTOP)
    stopped = time.monotonic()
    state = lab.wait(run, number)
    seconds = time.monotonic() - stopped
    lab.signal("site-4")
    assert seconds < 120
    assert state["says"] == (
        "no answer of site-4 within 45 seconds: start its client, and submit the same job again, which goes on there."
    )
