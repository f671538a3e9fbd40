"""What is released: wheel and sdist hold what they should and nothing else, and say who
they are.
"""

import email
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from hatchling.build import build_sdist, build_wheel

import rindices

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "rindices"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        build_wheel(str(folder))
        build_sdist(str(folder))
    return folder


def files_of_wheel(dist: Path) -> set[str]:
    (path,) = dist.glob("*.whl")
    return set(zipfile.ZipFile(path).namelist())


def test_wheel_holds_the_package_and_nothing_else(dist: Path) -> None:
    there = {
        f"rindices/{path.relative_to(PACKAGE).as_posix()}"
        for path in PACKAGE.rglob("*")
        if path.is_file()
    }
    there = {name for name in there if "__pycache__" not in name}
    packed = files_of_wheel(dist)
    info = f"rindices-{rindices.__version__}.dist-info/"
    assert {name for name in packed if not name.startswith(info)} == there
    assert "rindices/py.typed" in packed
    assert {
        f"{info}METADATA",
        f"{info}licenses/LICENSE",
        f"{info}entry_points.txt",
    } <= packed


def test_metadata(dist: Path) -> None:
    (path,) = dist.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
        metadata = email.message_from_bytes(wheel.read(name))
        (points,) = (
            name for name in wheel.namelist() if name.endswith("entry_points.txt")
        )
        assert "rindices = rindices.cli.main:run" in wheel.read(points).decode()
    assert metadata["Version"] == rindices.__version__
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert {"parquet", "cluster", "brain", "onnx", "docs", "dev", "all"} <= set(
        metadata.get_all("Provides-Extra", [])
    )
    core = [
        text for text in metadata.get_all("Requires-Dist", []) if "extra ==" not in text
    ]
    needed = {re.split(r"[<>=~! ;\[]", text)[0].lower() for text in core}
    assert {"numpy", "pandas", "typer", "safetensors"} <= needed
    assert not needed & {"pytest", "sphinx", "nilearn", "onnx", "distributed", "torch"}


def test_sdist_holds_what_a_packager_needs(dist: Path) -> None:
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {
        "pyproject.toml",
        "LICENSE",
        "CITATION.cff",
        "README.md",
        "CHANGELOG.md",
        "SECURITY.md",
    } <= names
    assert {
        "src/rindices/__init__.py",
        "tests/test_release.py",
        "docs/conf.py",
        "PKG-INFO",
    } <= names
    assert (
        "benchmarks/suites/oracle.py" in names
    )  # the tests need the benchmarks, not their results
    assert not [
        name
        for name in names
        if name.startswith(("docs/_build", "docs/gallery", "benchmarks/results", ".ci"))
    ]


def test_a_tag_is_the_version() -> None:
    tags = subprocess.run(
        ["git", "tag", "--points-at", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    versions = [
        tag.removeprefix("v")
        for tag in tags.stdout.split()
        if re.fullmatch(r"v\d+(\.\d+)+\S*", tag)
    ]
    assert versions in ([], [rindices.__version__])


def test_version_is_cited_and_told() -> None:
    changes, version = (ROOT / "CHANGELOG.md").read_text("utf-8"), rindices.__version__
    if "dev" in version:
        assert "## Unreleased" in changes
        return
    (date,) = re.findall(
        rf"^## {re.escape(version)}, (\d{{4}}-\d\d-\d\d)$", changes, re.MULTILINE
    )
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {version}\ndate-released: {date}\n" in citation
