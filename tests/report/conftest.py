"""A small finished study on disk."""

from pathlib import Path

import pytest

import rindices as ri
from rindices.experiments.simulate import SimulatedCohort


@pytest.fixture(scope="session")
def simulated() -> SimulatedCohort:
    return ri.simulate_cohort("small", seed=1)


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory, simulated: SimulatedCohort) -> Path:
    folder = tmp_path_factory.mktemp("report") / "results"
    ri.fit(simulated.cohort, [2, 3], recipe="contrastive", members=6, workers=1, out=folder)
    return folder


@pytest.fixture(scope="session")
def page(study: Path) -> str:
    return ri.write_report(study).read_text("utf-8")
