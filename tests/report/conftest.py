"""A small finished study on disk."""

from dataclasses import replace
from pathlib import Path

import pytest

import rindices as ri
from rindices.experiments.simulate import SimulatedCohort
from rindices.experiments.tasks import TASKS
from tests.cohorts import simulate_few_regions
from tests.report.helpers import omit_pictures


@pytest.fixture(scope="session")
def simulated() -> SimulatedCohort:
    return ri.simulate_cohort("small", seed=1)


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory, simulated: SimulatedCohort) -> Path:
    folder = tmp_path_factory.mktemp("report") / "results"
    ri.fit(simulated.cohort, [2, 3], method="contrastive", members=5, workers=1, out=folder)
    return folder


@pytest.fixture(scope="session")
def page(study: Path) -> str:
    return ri.write_report(study).read_text("utf-8")


@pytest.fixture(scope="session")
def curved_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of the default method in which regions change at different severities."""
    folder = tmp_path_factory.mktemp("curved") / "results"
    task = replace(TASKS["staged"], n_controls=200, n_patients=400)
    ri.fit(simulate_few_regions(task, seed=3).cohort, 3, members=3, workers=1, out=folder)
    return folder


@pytest.fixture(scope="session")
def curved_page(curved_study: Path) -> str:
    with omit_pictures():
        return ri.write_report(curved_study).read_text("utf-8")
