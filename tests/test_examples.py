"""Examples in docstrings of exported names run as they are written."""

import doctest
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rindices as ri


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the results of a small study, as the examples name it."""
    path = tmp_path_factory.mktemp("examples")
    cohort = ri.simulate_cohort("tiny", seed=0).cohort
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ri.fit(
            cohort,
            1,
            method="mean-difference",
            members=5,
            workers=1,
            out=path / "results",
        )
    return path


@pytest.mark.parametrize(
    "name",
    ["FittedModel", "fit", "load", "read_cohort", "simulate_cohort", "write_report"],
)
def test_an_example_runs(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    value: Callable[..., Any] = getattr(ri, name)
    (example,) = doctest.DocTestFinder(recurse=False).find(value, name)
    assert example.examples
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert doctest.DocTestRunner().run(example).failed == 0
