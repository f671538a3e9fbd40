"""The conda recipe asks for and starts what pyproject.toml says."""

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

import rindices

ROOT = Path(__file__).parents[1]
CONDA_NAMES = {"matplotlib": "matplotlib-base"}
"""Packages that conda-forge calls otherwise than PyPI."""


def read_recipe() -> dict[str, Any]:
    """Return the recipe with the values of its context filled in."""
    text = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text("utf-8")
    context = yaml.safe_load(text)["context"]
    filled = re.sub(r"\$\{\{ (\w+) \}\}", lambda match: context[match[1]], text)
    return dict(yaml.safe_load(filled))


def read_project() -> dict[str, Any]:
    content = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return dict(content)


def split_requirement(text: str) -> tuple[str, str]:
    """Return name and limits of a requirement of PyPI or conda."""
    match = re.fullmatch(r"([\w.-]+?) ?([<>=].*)?", text)
    assert match, text
    return match[1].lower(), match[2] or ""


def test_dependencies_are_those_of_pyproject() -> None:
    recipe, project = read_recipe(), read_project()["project"]
    expected = dict(map(split_requirement, project["dependencies"]))
    expected = {CONDA_NAMES.get(name, name): each for name, each in expected.items()}
    expected["python"] = project["requires-python"]
    run = recipe["requirements"]["run"]
    assert len(run) == len(expected)
    assert dict(map(split_requirement, run)) == expected


def test_build_entry_points_version_and_licence_are_those_of_pyproject() -> None:
    recipe, content = read_recipe(), read_project()
    project = content["project"]
    scripts = [f"{name} = {place}" for name, place in project["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts
    (hatchling,) = content["build-system"]["requires"]
    host = [each for each in recipe["requirements"]["host"] if "hatch" in each]
    assert [*map(split_requirement, host)] == [split_requirement(hatchling)]
    assert rindices.__version__.startswith(recipe["package"]["version"])
    about = recipe["about"]
    assert about["license"] == project["license"]
    assert about["summary"] == project["description"]
    assert (ROOT / about["license_file"]).is_file()
