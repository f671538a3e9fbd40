"""Every package that the source imports is declared in pyproject.toml."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
PART_OF = {"dask": "distributed", "upath": "universal-pathlib"}
"""Packages that a declared one always brings."""


def list_imported_packages() -> set[str]:
    names = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module)
    return (
        {name.partition(".")[0] for name in names}
        - sys.stdlib_module_names
        - {"rindices"}
    )


def list_declared_packages() -> tuple[set[str], set[str]]:
    """Return the packages of the core, and those of the extras for users."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    users = [
        text
        for name in extras
        if name not in ("all", "dev", "docs")
        for text in extras[name]
    ]
    lists = (project["dependencies"], users)
    core, optional = (
        {re.split(r"[<>=~!;\[ ]", text)[0].lower() for text in texts} for texts in lists
    )
    return core, optional


def test_every_imported_package_is_declared() -> None:
    core, optional = list_declared_packages()
    distributions = packages_distributions()
    for name in sorted(list_imported_packages()):
        names = {
            distribution.lower() for distribution in distributions.get(name, [name])
        } | {PART_OF.get(name, name)}
        assert names & (core | optional), (
            f"{name} is imported, but none of {sorted(names)} is declared"
        )


def test_the_report_needs_the_core_alone() -> None:
    assert "pillow" in list_declared_packages()[0]


def test_the_core_has_no_torch() -> None:
    core, optional = list_declared_packages()
    assert "torch" in optional - core


def test_actions_are_pinned_by_commit() -> None:
    uses = [
        line.strip()
        for path in (ROOT / ".github" / "workflows").glob("*.yml")
        for line in path.read_text("utf-8").splitlines()
        if "uses:" in line
    ]
    assert uses
    assert [
        line
        for line in uses
        if not re.fullmatch(r"- uses: [\w./-]+@[0-9a-f]{40} # v[\d.]+", line)
    ] == []


def test_image_and_gate_install_by_hash() -> None:
    for name in ("Dockerfile", ".ci/run"):
        text = (ROOT / name).read_text("utf-8").replace("\\\n", "")
        commands = re.findall(r"pip (?:install|wheel) [^&\n]*", text)
        allowed = (
            "--require-hashes",
            "--no-index",
            "torch==",
            "--upgrade pip",
            "--no-build-isolation .",
        )
        assert commands
        assert [
            command
            for command in commands
            if not any(words in command for words in allowed)
        ] == []


def test_hashes_are_known_of_every_pinned_package() -> None:
    constraints, requirements = (
        (ROOT / name).read_text("utf-8")
        for name in ("constraints.txt", "constraints-hashes.txt")
    )
    pinned = re.findall(r"^([\w.-]+)==([^\s;]+)", constraints, re.MULTILINE)
    hashed = re.findall(
        r"^([\w.-]+)==([^\s;]+)[^\n]*\n    --hash=sha256", requirements, re.MULTILINE
    )
    names = [
        {(re.sub(r"[_.]", "-", name.lower()), version) for name, version in pairs}
        for pairs in (pinned, hashed)
    ]
    assert names[0] == names[1]


def test_hashes_are_known_of_every_requirement_of_every_extra() -> None:
    """PyTorch differs between machines, and comes from its own index."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    hashed = {
        name.lower()
        for file in ("constraints-hashes.txt", "constraints-cloud-hashes.txt")
        for name in re.findall(
            r"^([\w.-]+)==[^\n]*\n    --hash=sha256",
            (ROOT / file).read_text("utf-8"),
            re.MULTILINE,
        )
    }
    for extra, requirements in project["optional-dependencies"].items():
        names = {re.split(r"[<>=~!;\[ ]", text)[0].lower() for text in requirements}
        assert names - {"torch", "rindices"} <= hashed, extra
