"""The page "Your first change" works as it stands: its changes are made in a copy, and its commands are run."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "first_change.md").read_text("utf-8")
CHANGE = re.compile(r"(?:New file|[Ii]n)\s`([\w/.]+)`:\n(?:<!--[^>]*-->\n)?```(python|diff)\n(.*?)^```$", re.M | re.S)
COMMANDS = [block.splitlines() for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.M | re.S)]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy of the project with the changes of the page."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("src", "tests", "benchmarks", "scripts", "docs"):
        ignored = shutil.ignore_patterns("__pycache__", "_build", "gallery", "generated", "results")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    changes = CHANGE.findall(PAGE)
    assert len(changes) == PAGE.count("```python") + PAGE.count("```diff")
    for path, kind, text in changes:
        change_file(folder / path, text, kind)
    return folder


def change_file(path: Path, text: str, kind: str) -> None:
    """Write a new file, or add the lines of a diff between the lines that are there."""
    if kind == "python":
        assert not path.exists()
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
        return
    lines = text.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line[0] != "+")
    after = "".join(line[1:] for line in lines)
    assert path.read_text("utf-8").count(before) == 1, f"{path.name} does not have once: {before}"
    path.write_text(path.read_text("utf-8").replace(before, after), "utf-8")


def run_command(command: str, project: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in the changed copy."""
    paths = {"PYTHONPATH": str(project / "src"), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(
        command.split(), cwd=project, env=os.environ | paths, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("commands", COMMANDS, ids=("layout", "checks"))
def test_commands_of_the_page_succeed(commands: list[str], project: Path) -> None:
    for command in commands:
        if command != "mypy":  # it takes a minute, and the gate runs it
            done = run_command(command, project)
            assert done.returncode == 0, done.stdout + done.stderr


def test_paths_in_the_developer_guide_exist() -> None:
    guide = (ROOT / "docs" / "developers.md").read_text("utf-8")
    paths = re.findall(r"`((?:\w+/)+\w+(?:\.py)?)`", guide)
    assert len(paths) > 10
    assert [path for path in paths if not ((ROOT / path).exists() or (ROOT / "src/rindices" / path).exists())] == []
