"""A study on a real Slurm of one machine."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import SHARED
from tests.study.helpers import LONG_STUDY, command, outputs, run

START = SHARED.parent / "slurm" / "start-slurm"
SLURM = """engine = "slurm"
[run.slurm]
partition = "debug"
walltime = "00:30:00"
memory = "1GB"
jobs = 2
"""

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    if os.geteuid() != 0:
        pytest.skip("Slurm can be started by root only")
    if not START.is_file():
        pytest.skip(f"the script that starts Slurm is not beside the project ({START})")
    if shutil.which("slurmctld") is None:
        pytest.skip("Slurm is not installed: apt-get install slurm-wlm munge")
    if (os.cpu_count() or 1) < 2:
        pytest.skip("two jobs need two cores")
    state = tmp_path_factory.mktemp("slurm")
    env = {
        name: value for name, value in os.environ.items() if not name.startswith("OMP_")
    }  # nproc heeds them
    started = subprocess.run(
        [START, state], env=env, capture_output=True, text=True, check=False
    )
    try:
        if "idle" not in started.stdout:
            pytest.skip(f"Slurm does not start here: {started.stdout} {started.stderr}")
        yield
    finally:
        subprocess.run([START, state, "stop"], env=env, check=True)


def running() -> list[str]:
    found = subprocess.run(
        ["squeue", "-h", "-t", "R", "-o", "%i"],
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(found.stdout.split(), key=int)


def finished(out: Path) -> int:
    return len(list(out.glob("runs/[!.]*.safetensors")))


def test_a_study_over_two_jobs_one_of_which_is_cancelled(
    slurm: None, long_folder: Path
) -> None:
    folder = long_folder
    out, longer = (
        folder / "slurm",
        LONG_STUDY.replace("members = 10", "members = 20"),
    )  # it must outlast a new job's start
    (folder / "slurm.toml").write_text(longer + SLURM)
    (folder / "longer.toml").write_text(longer)
    assert (
        run("fit", folder / "longer.toml", "--out", folder / "longer").returncode == 0
    )
    soon = os.environ | {
        "DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT": "1s"
    }  # replace what is lost before the end
    asked = command("fit", folder / "slurm.toml", "--out", out)
    process = subprocess.Popen(asked, stderr=subprocess.PIPE, text=True, env=soon)
    jobs: list[str] = []
    end = time.monotonic() + 300
    while finished(out) < 2 and process.poll() is None and time.monotonic() < end:
        jobs = running()
        time.sleep(0.1)
    assert len(jobs) == 2
    assert process.poll() is None
    before = finished(out)
    subprocess.run(["scancel", jobs[1]], check=True)
    message = process.communicate(timeout=300)[1]
    assert process.returncode == 0, message
    assert before < 8
    assert (
        f"slurm: 2 jobs of 1 workers; their output is in {out / 'runs' / 'jobs'}"
        in message
    )
    assert len(list(out.glob("runs/jobs/*.err"))) > 2, (
        "the cancelled job was not replaced"
    )
    assert outputs(out) == outputs(folder / "longer")
    deadline = time.monotonic() + 60
    while running() and time.monotonic() < deadline:
        time.sleep(0.5)
    assert not running(), "the study left jobs behind"
