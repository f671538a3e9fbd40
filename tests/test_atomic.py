"""Files are written in full or not at all, on any system."""

import os
import re
from pathlib import Path

import pandas as pd
import pytest

from rindices import atomic
from rindices.atomic import (
    atomic_path,
    compute_digest,
    delete_temporary_files,
    write_atomically,
    write_json,
)


def test_a_new_file_replaces_the_old_one_and_leaves_nothing_else(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.txt"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write_and_stop() -> None:
        with atomic_path(path) as temporary_path:
            temporary_path.write_text("half of the n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_and_stop()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_flush_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_temporary_path_keeps_the_suffix(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "a.parquet") as temporary_path:
        assert (temporary_path.suffix, temporary_path.parent) == (".parquet", tmp_path)
        pd.DataFrame({"r1": [1.0]}).to_csv(temporary_path)


def test_writing_works_where_folders_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, flags: int) -> int:
        raise PermissionError(13, "Permission denied", str(path))  # as on Windows

    monkeypatch.setattr(atomic.os, "open", refuse)
    write_json(tmp_path / "a.json", {"é": 1})
    assert (tmp_path / "a.json").read_text("utf-8") == '{\n  "é": 1\n}\n'


def test_temporary_names_cannot_be_guessed(tmp_path: Path) -> None:
    names = set()
    for _ in range(20):
        with atomic_path(tmp_path / "a.txt") as temporary_path:
            temporary_path.touch()
            names.add(temporary_path.name)
    assert len(names) == 20
    assert all(
        re.fullmatch(r"\.a\.txt\.[0-9a-f]{16}\.part\.txt", name) for name in names
    )


def test_what_a_killed_process_left_is_deleted_and_nothing_else(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "a.txt") as temporary_path:
        temporary_path.touch()
        left = temporary_path.name
    kept = ["a.txt", ".a.txt.mine.part.txt", "b.part.txt"]
    for name in (left, left.replace("a.txt", "b.txt", 1), *kept):
        (tmp_path / name).touch()
    delete_temporary_files(tmp_path, "a.txt")
    assert (tmp_path / left.replace("a.txt", "b.txt", 1)).exists()
    delete_temporary_files(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
@pytest.mark.parametrize(
    ("umask", "folder", "expected"),
    [
        (0o022, 0o755, 0o640),
        (0o022, 0o700, 0o600),
        (0o077, 0o755, 0o600),
        (0o002, 0o770, 0o660),
    ],
)
def test_private_files_have_the_permissions_of_their_folder_less_others(
    umask: int, folder: int, expected: int, tmp_path: Path
) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study").chmod(folder)
    path = tmp_path / "study" / "r_indices.tsv"
    old = os.umask(umask)
    try:
        write_atomically(path, b"1", is_private=True)
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == expected


def test_the_digest_of_a_file_changes_with_its_content(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", b"1")
    write_atomically(tmp_path / "b", b"2")
    assert (
        compute_digest(tmp_path / "a")
        == compute_digest(tmp_path / "a")
        != compute_digest(tmp_path / "b")
    )
