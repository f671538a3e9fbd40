"""A small study on disk, and what it gives when nothing disturbs it."""

from pathlib import Path

import pytest

import rindices as ri
from rindices.experiments.simulate import write_cohort
from tests.cohorts import simulate_few_regions
from tests.study.helpers import LONG_STUDY, STUDY, run


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study")
    write_cohort(simulate_few_regions("tiny", seed=1), path)
    (path / "study.toml").write_text(STUDY)
    return path


@pytest.fixture(scope="session")
def long_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long_study")
    write_cohort(ri.simulate_cohort("tiny", seed=1), path)
    (path / "study.toml").write_text(LONG_STUDY)
    return path


@pytest.fixture(scope="session")
def undisturbed(folder: Path) -> Path:
    done = run("fit", folder / "study.toml", "--out", folder / "plain", "--workers", 1)
    assert done.returncode == 0, done.stderr
    return folder / "plain"
