"""The run store: finished sets are kept, also on full, read-only and slow disks."""

import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load as from_bytes

from rindices.errors import StudyError
from rindices.learners.ensemble import Member, TrainingOutcome
from rindices.learners.inference import ContrastiveHead
from rindices.lock import lock_folder
from rindices.model.safetensors_io import read_metadata, write_safetensors
from rindices.study import store as stores
from rindices.study.config import ModelConfig
from rindices.study.store import RunStore
from rindices.study.study import make_plan
from tests.study.helpers import LONG, outputs, run, sets


def test_finished_sets_are_not_trained_again(folder: Path, undisturbed: Path) -> None:
    files = sorted(undisturbed.glob("runs/[!.]*.safetensors"))
    before = {path: path.stat().st_mtime_ns for path in files}
    damaged = files[2]
    damaged.write_bytes(damaged.read_bytes()[:-100])
    expected = outputs(undisturbed)
    assert run("fit", folder / "study.toml", "--out", undisturbed).returncode == 0
    after = {path: path.stat().st_mtime_ns for path in files}
    assert [path for path in files if before[path] != after[path]] == [damaged]
    assert outputs(undisturbed) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"members": [[0, "converged", 1, []]]},
        {"members": [["a", "converged", 1, None]]},
        {"members": 3},
        {"regions": 10**9},
        {"regions": "many"},
        {"kind": "magic"},
        {"key": "other"},
    ],
)
def test_a_damaged_set_is_not_taken_for_a_finished_one(
    changes: dict[str, object], tmp_path: Path
) -> None:
    store, work = (
        RunStore(tmp_path),
        make_plan(ModelConfig(patterns=(2,), members=1, method="contrastive"), 0, "x")[
            0
        ],
    )
    shapes = ContrastiveHead.shapes(5, 2)
    head = ContrastiveHead.from_arrays(
        {name: np.ones(shape) for name, shape in shapes.items()}
    )
    store.save(
        work,
        [
            Member(
                number=0,
                outcome=TrainingOutcome.CONVERGED,
                steps=1,
                head=head,
                patterns=np.ones((4, 2, 5)),
            )
        ],
    )
    assert store.load(work) is not None
    path = store.path(work)
    write_safetensors(
        path, from_bytes(path.read_bytes()), read_metadata(path) | changes
    )
    assert store.load(work) is None


@contextmanager
def small_disk(path: Path, how: str) -> Iterator[Path]:
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", how, "tmpfs", str(path)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here: that needs root")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.mark.parametrize(
    "engine", [["--workers", 1], ["--engine", "dask", "--workers", 2]]
)
@pytest.mark.slow
def test_a_full_disk(
    folder: Path, undisturbed: Path, tmp_path: Path, engine: list[object]
) -> None:
    kilobytes = [
        len(content) // 1024 + 4 for _, content in sorted(sets(undisturbed).items())
    ]
    room = (
        kilobytes[0] + kilobytes[1] + 580
    )  # two of four sets, and the people of ten members
    with small_disk(tmp_path / "disk", f"size={room}k") as disk:
        done = run("fit", folder / "study.toml", "--out", disk, *engine)
        assert done.returncode == 1
        assert re.search(
            r"error: cannot write \S+ \(No space left on device\): make room and run again\.",
            done.stderr,
        )
        assert "Traceback" not in done.stderr
        kept = sets(disk)
        assert 0 < len(kept) < 4
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        assert run("fit", folder / "study.toml", "--out", disk, *engine).returncode == 0
        assert kept.items() <= sets(disk).items()


def test_an_unwritable_folder(folder: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "size=1m") as disk:
        (disk / "out" / "runs").mkdir(parents=True)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        for out in ("out", "new"):
            done = run("fit", folder / "study.toml", "--out", disk / out)
            assert done.returncode == 1
            assert "(Read-only file system)" in done.stderr
            assert "give another" in done.stderr
            assert len(done.stderr.splitlines()) < 5


def test_a_slow_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, work = RunStore(tmp_path), make_plan(ModelConfig(**LONG), 0, "x")[0]
    late = threading.Timer(1.0, store.path(work).touch)
    late.start()
    store.wait_for(work)
    late.join()
    monkeypatch.setattr(stores, "FILE_VISIBILITY_TIMEOUT", 0.5)
    store.path(work).unlink()
    with pytest.raises(StudyError, match="is not seen here"):
        store.wait_for(work)
    with pytest.raises(
        StudyError,
        match=f"{socket.gethostname()} does not see .*people-0.npz: give an --out on a file",
    ):
        stores.load_people(tmp_path / "people-0.npz")


def test_a_second_client_is_refused_and_told_who_works_there(
    folder: Path, tmp_path: Path
) -> None:
    with lock_folder(tmp_path / "runs"):
        second = run("fit", folder / "study.toml", "--out", tmp_path)
    assert second.returncode == 1
    who = rf"is in use by process {os.getpid()} on {socket.gethostname()} since \S+: wait for it, or end it"
    assert re.search(who, second.stderr), second.stderr
    assert not list(tmp_path.glob("runs/*lock*"))


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
@pytest.mark.parametrize("name", ["lock", ".lock"])
def test_a_link_in_place_of_a_lock_is_refused_in_one_line(
    folder: Path, tmp_path: Path, name: str
) -> None:
    foreign = tmp_path / "foreign.txt"
    foreign.write_text("precious")
    (tmp_path / "out" / "runs").mkdir(parents=True)
    (tmp_path / "out" / "runs" / name).symlink_to(foreign)
    done = run("fit", folder / "study.toml", "--out", tmp_path / "out")
    assert done.returncode == 1
    errors = [
        line
        for line in done.stderr.splitlines()
        if not line.startswith(("warning:", "note:"))
    ]
    assert len(errors) == 1
    assert (
        f"{name} is a link, which a lock does not follow: delete the link" in errors[0]
    )
    assert foreign.read_text() == "precious"


def test_a_stale_lock_is_replaced_and_no_lock_is_left(
    folder: Path, undisturbed: Path
) -> None:
    runs, expected = undisturbed / "runs", outputs(undisturbed)
    (runs / "lock").write_text(f"process {10**30} on {socket.gethostname()} since noon")
    done = run("fit", folder / "study.toml", "--out", undisturbed)
    assert done.returncode == 0, done.stderr
    assert not [path.name for path in runs.iterdir() if "lock" in path.name]
    assert outputs(undisturbed) == expected
