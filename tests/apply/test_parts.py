"""Parts of ``rindices apply`` on the command line: damage is noticed, runs are kept
apart, workers are replaced.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import psutil
import pytest

from rindices.apply.chunks import RECORDS_FOLDER
from tests.cohorts import fit_tiny_model, simulate_few_regions
from tests.study.helpers import run

FILES = 6


def run_apply(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run("apply", *arguments, "--workers", 1, "--json")


def command(*arguments: object, workers: int = 1) -> list[str]:
    program = "from rindices.cli.main import run; run()"
    return [
        sys.executable,
        "-c",
        program,
        "apply",
        *map(str, arguments),
        "--workers",
        str(workers),
        "--json",
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, and a table of some files: each file is a chunk."""
    path = tmp_path_factory.mktemp("parts")
    cohort = simulate_few_regions("tiny", seed=0).cohort
    model = fit_tiny_model()
    model.save(path / "model1.safetensors")
    fewer = {
        "heads": model.heads[1:],
        "orders": model.orders[1:],
        "pipelines": model.pipelines[1:],
    }
    replace(model, **fewer).save(path / "model2.safetensors")
    frame = pd.concat(
        [cohort.people[["participant_id"]], cohort.covariates, cohort.volumes], axis=1
    )
    (path / "table").mkdir()
    for number in range(FILES):
        frame.iloc[number::FILES].to_csv(path / "table" / f"{number}.csv", index=False)
    return path


@pytest.fixture(scope="module")
def expected(folder: Path) -> bytes:
    done = run_apply(
        folder / "model1.safetensors",
        folder / "table",
        "--out",
        folder / "expected.tsv",
    )
    assert done.returncode == 0, done.stderr
    assert not list(folder.glob(".expected*"))
    return (folder / "expected.tsv").read_bytes()


@pytest.fixture(scope="module")
def killed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an output whose run was killed after some parts."""
    path = tmp_path_factory.mktemp("killed")
    arguments = (
        folder / "model1.safetensors",
        folder / "table",
        "--out",
        path / "out.tsv",
    )
    code = (
        "import os, signal\n"
        "from rindices.apply import chunks\n"
        "original, made = chunks.make_part, []\n"
        "def make_part(*arguments):\n"
        "    made.append(1)\n"
        "    return original(*arguments) if len(made) < 6 else os.kill(os.getpid(), signal.SIGKILL)\n"
        "chunks.make_part = make_part\n"
        "from rindices.cli.main import run; run()"
    )
    line = command(*arguments)
    line[2] = code
    assert (
        subprocess.run(line, capture_output=True, check=False).returncode
        == -signal.SIGKILL
    )
    return path


@pytest.fixture
def interrupted(killed: Path, tmp_path: Path) -> Path:
    """A copy of the folder of a killed run."""
    return shutil.copytree(killed, tmp_path / "copy")


def list_parts(folder: Path) -> list[Path]:
    return sorted(folder.glob(".out.tsv.parts/*/*.tsv"))


def test_damaged_parts_are_made_again(
    folder: Path, interrupted: Path, expected: bytes
) -> None:
    truncated, altered, emptied, cut_record, other_record = list_parts(interrupted)
    content = truncated.read_bytes()
    truncated.write_bytes(
        content[: content[: len(content) // 2].rindex(b"\n") + 1]
    )  # whole rows are missing
    altered.write_bytes(altered.read_bytes().replace(b"0.1", b"0.2", 1))
    emptied.write_bytes(b"")
    records = cut_record.parent / RECORDS_FOLDER
    record = records / f"{cut_record.stem}.npz"
    record.write_bytes(record.read_bytes()[:-8])
    record = records / f"{other_record.stem}.npz"
    content = record.read_bytes()
    place = content.index(b"keys.npy") + 200  # within the hashes
    record.write_bytes(
        content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :]
    )
    done = run_apply(
        folder / "model1.safetensors",
        folder / "table",
        "--out",
        interrupted / "out.tsv",
    )
    assert done.returncode == 0, done.stderr
    assert (interrupted / "out.tsv").read_bytes() == expected
    assert sorted(path.name for path in interrupted.iterdir()) == [
        "out.json",
        "out.tsv",
    ]


def test_parts_of_another_model_are_not_used(
    folder: Path, interrupted: Path, expected: bytes
) -> None:
    done = run_apply(
        folder / "model2.safetensors",
        folder / "table",
        "--out",
        interrupted / "out.tsv",
    )
    assert done.returncode == 0, done.stderr
    result = (interrupted / "out.tsv").read_bytes()
    assert not set(result.splitlines()[1:]) & set(expected.splitlines()[1:])
    assert len(result.splitlines()) == 181
    assert not list(interrupted.glob(".*"))


@pytest.mark.parametrize("out", ["out.tsv", "out"])
def test_a_run_that_finishes_no_part_leaves_nothing(
    out: str, folder: Path, tmp_path: Path
) -> None:
    done = run_apply(
        folder / "model1.safetensors", tmp_path / "absent.csv", "--out", tmp_path / out
    )
    assert done.returncode == 1
    assert re.fullmatch(r"error: \S*absent\.csv: .*\n", done.stderr), done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "out", ["out.tsv", pytest.param("out", marks=pytest.mark.slow)]
)
def test_a_second_run_into_the_same_place_is_refused(
    out: str, folder: Path, tmp_path: Path
) -> None:
    slow = command(
        folder / "model1.safetensors", folder / "table", "--out", tmp_path / out
    )
    (tmp_path / "wait").touch()
    slow[2] = (
        "import os, time\n"
        "from rindices.apply import chunks\n"
        "original = chunks.make_part\n"
        "def make_part(*arguments):\n"
        f"    while os.path.exists({str(tmp_path / 'wait')!r}):\n"
        "        time.sleep(0.02)\n"
        "    return original(*arguments)\n"
        "chunks.make_part = make_part\n"
        "from rindices.cli.main import run; run()"
    )
    lock = tmp_path / f".{out}.parts" / "lock"
    with subprocess.Popen(
        slow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as first:
        end = time.monotonic() + 60
        while not lock.exists() and time.monotonic() < end:
            time.sleep(0.02)
        second = run_apply(
            folder / "model1.safetensors", folder / "table", "--out", tmp_path / out
        )
        assert second.returncode == 1
        assert re.fullmatch(
            rf"error: \S+ is in use by process {first.pid} on .*: wait for it, or end it\.\n",
            second.stderr,
        ), second.stderr
        (tmp_path / "wait").unlink()
        _, message = first.communicate()
    assert first.returncode == 0, message
    assert not [path for path in tmp_path.rglob("*") if "lock" in path.name]


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
@pytest.mark.parametrize(
    ("out", "link"), [("out.tsv", ".out.tsv.parts"), ("out", ".out.parts")]
)
def test_a_link_in_place_of_a_hidden_folder_is_refused(
    out: str, link: str, folder: Path, tmp_path: Path
) -> None:
    foreign = tmp_path / "foreign"
    (foreign / "thesis").mkdir(parents=True)
    (foreign / "thesis" / "chapter.txt").write_text("precious")
    (tmp_path / link).parent.mkdir(exist_ok=True)
    (tmp_path / link).symlink_to(foreign)
    done = run_apply(
        folder / "model1.safetensors", folder / "table", "--out", tmp_path / out
    )
    assert done.returncode == 1
    assert re.fullmatch(
        r"error: \S+ is a link in place of a folder: delete the link or .*\n",
        done.stderr,
    ), done.stderr
    assert [path.name for path in foreign.iterdir()] == ["thesis"]
    assert (foreign / "thesis" / "chapter.txt").read_text() == "precious"


def test_the_work_of_a_killed_worker_is_done_again(
    folder: Path, tmp_path: Path, expected: bytes
) -> None:
    done = kill_workers(folder, tmp_path, KILL_FIRST)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.tsv").read_bytes() == expected
    assert json.loads(done.stdout)["people"] == 180


def test_workers_that_are_always_killed_end_in_one_line(
    folder: Path, tmp_path: Path, expected: bytes
) -> None:
    done = kill_workers(folder, tmp_path, KILL_ALL)
    assert done.returncode == 1
    message = r"error: part \d-00000 was not made: its process ended with SIGKILL, 4 times; the system kills .*--workers\.\n"
    assert re.fullmatch(message, done.stderr), done.stderr
    again = run_apply(
        folder / "model1.safetensors", folder / "table", "--out", tmp_path / "out.tsv"
    )
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "out.tsv").read_bytes() == expected


KILL_FIRST = """
    from rindices.apply import chunks
    original = chunks.open_part_file
    def open_part_file(path):
        if not os.listdir(os.environ["KILL_MARKS"]):
            kill()
        return original(path)
    chunks.open_part_file = open_part_file
"""
KILL_ALL = """
    if "loky" in " ".join(sys.orig_argv) and "tracker" not in " ".join(sys.orig_argv):
        kill()
"""


def kill_workers(
    folder: Path, tmp_path: Path, code: str
) -> subprocess.CompletedProcess[str]:
    """Run with two workers: the first at a chunk is killed there, or all are killed
    when they start.
    """
    (tmp_path / "site").mkdir()
    (tmp_path / "kills").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "def kill():\n"
        "    open(os.path.join(os.environ['KILL_MARKS'], str(os.getpid())), 'w').close()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "if os.getppid() != int(os.environ['FIRST_PARENT']):\n" + code
    )
    paths = [str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "KILL_MARKS": str(tmp_path / "kills"),
        "FIRST_PARENT": str(psutil.Process().pid),
    }
    arguments = (
        folder / "model1.safetensors",
        folder / "table",
        "--out",
        tmp_path / "out.tsv",
    )
    line = command(*arguments, workers=2)
    done = subprocess.run(
        line, capture_output=True, text=True, check=False, env=environment
    )
    assert list((tmp_path / "kills").iterdir())
    return done
