"""The lock of a run folder: one holder at a time, and a message that names it."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from filelock import FileLock

from rindices.errors import StudyError
from rindices.lock import lock_folder


def test_the_record_names_the_holder_and_goes_with_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with lock_folder(tmp_path):
        holder = path.read_text()
        assert holder.startswith(
            f"process {os.getpid()} on {socket.gethostname()} since 20"
        )
        with pytest.raises(StudyError) as caught, lock_folder(tmp_path):
            pass
        assert f"is in use by {holder}: wait" in str(caught.value)
        errors: list[str] = []

        def lock_again() -> None:
            try:
                with lock_folder(tmp_path):
                    pass
            except StudyError as error:
                errors.append(str(error))

        thread = threading.Thread(target=lock_again)
        thread.start()
        thread.join()
        assert "is in use by process" in errors[0]
        assert path.read_text() == holder
    assert not list(tmp_path.iterdir())
    with lock_folder(tmp_path):
        assert path.exists()


def test_a_holder_that_has_not_yet_written_its_record_is_another_process(
    tmp_path: Path,
) -> None:
    refused = pytest.raises(StudyError, match="in use by another process: wait")
    with FileLock(tmp_path / ".lock"), refused, lock_folder(tmp_path):
        pass


def test_a_killed_holder_is_replaced_and_a_living_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = (
        "import time; from pathlib import Path; from rindices.lock import lock_folder\n"
        f"with lock_folder(Path({str(tmp_path)!r})): print('held', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "held\n"
        with (
            pytest.raises(StudyError, match=f"in use by process {process.pid} on"),
            lock_folder(tmp_path),
        ):
            pass
        process.kill()
        process.wait()
    assert path.read_text().startswith(f"process {process.pid} on ")
    with lock_folder(tmp_path):
        assert path.read_text().startswith(f"process {os.getpid()} on ")


@pytest.mark.parametrize(
    ("record", "holder"),
    [
        ("process 7 on elsewhere since noon", "process 7 on elsewhere"),
        ("", "another process"),
        ("[]", "[]"),
    ],
)
def test_a_foreign_record_is_left_as_it_is(
    tmp_path: Path, record: str, holder: str
) -> None:
    path = tmp_path / "lock"
    path.write_text(record)
    with pytest.raises(StudyError) as caught, lock_folder(tmp_path):
        pass
    assert holder in str(caught.value)
    assert f"delete {path} if that process is gone" in str(caught.value)
    assert path.read_text() == record


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
@pytest.mark.parametrize("name", ["lock", ".lock"])
def test_links_are_not_followed(tmp_path: Path, name: str) -> None:
    foreign = tmp_path / "foreign.txt"
    foreign.write_text("mine")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / name).symlink_to(foreign)
    with pytest.raises(StudyError), lock_folder(tmp_path / "runs"):
        pass
    assert foreign.read_text() == "mine"
    assert (tmp_path / "runs" / name).is_symlink()


def test_an_unusable_folder_is_a_study_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StudyError, match="cannot write to"),
        lock_folder(tmp_path / "file"),
    ):
        pass


def test_the_record_of_a_dead_process_is_replaced(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    for pid in (10**9, 1, "x"):  # whatever number: the lock of the system is free
        lock.write_text(f"process {pid} on {socket.gethostname()} since noon")
        with lock_folder(tmp_path):
            assert f"process {os.getpid()} on " in lock.read_text()
        assert not lock.exists()
