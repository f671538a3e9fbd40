"""The lock of a run folder: one holder at a time, and a message that names it."""

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rindices.errors import StudyError
from rindices.lock import lock_folder, read_holder


def test_the_record_names_the_holder_and_goes_with_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with lock_folder(tmp_path):
        holder = read_holder(path)
        assert holder is not None
        assert (holder.host, holder.pid) == (socket.gethostname(), os.getpid())
        with pytest.raises(StudyError) as caught, lock_folder(tmp_path):
            pass
        assert f"is in use by process {os.getpid()} on {holder.host} since {holder.since}: wait" in str(caught.value)
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
        assert read_holder(path) == holder
    assert not path.exists()
    with lock_folder(tmp_path):
        assert path.exists()


def test_a_killed_holder_is_replaced_and_a_living_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = (
        "import time; from pathlib import Path; from rindices.lock import lock_folder\n"
        f"with lock_folder(Path({str(tmp_path)!r})): print('held', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(StudyError, match=f"in use by process {process.pid} on"), lock_folder(tmp_path):
            pass
        process.kill()
        process.wait()
    assert json.loads(path.read_text())["pid"] == process.pid
    with lock_folder(tmp_path):
        assert json.loads(path.read_text())["pid"] == os.getpid()


@pytest.mark.parametrize(
    ("record", "holder"),
    [('{"host": "elsewhere", "pid": 7}', "process 7 on elsewhere"), ("", "an unknown machine"), ("[]", "process ?")],
)
def test_a_foreign_record_is_left_as_it_is(tmp_path: Path, record: str, holder: str) -> None:
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


def test_a_foreign_file_is_not_truncated(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("mine")
    with lock_folder(tmp_path):
        pass
    assert (tmp_path / ".lock").read_text() == "mine"


def test_an_unusable_folder_is_a_study_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StudyError, match="cannot write to"), lock_folder(tmp_path / "file"):
        pass


def test_the_record_of_a_dead_process_is_replaced(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    host = socket.gethostname()
    pids = (gone.pid, 1, 0, -7, 10**30, '"x"')  # whatever number: the lock of the system is free
    for holder in (f'{{"host": "{host}", "pid": {pid}}}' for pid in pids):
        lock.write_text(holder)
        with lock_folder(tmp_path):
            assert f'"pid": {os.getpid()}' in lock.read_text()
        assert not lock.exists()
    for holder, who in (('{"host": "elsewhere", "pid": 7}', "process 7 on elsewhere"), ("", "an unknown machine")):
        lock.write_text(holder)
        with pytest.raises(StudyError, match=who), lock_folder(tmp_path):
            pass
        assert lock.read_text() == holder
