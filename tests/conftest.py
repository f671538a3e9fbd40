"""What all tests share: real tables where they are to be had, small tables of every
format where not.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import settings

import rindices as ri
from rindices.errors import Problem
from rindices.experiments.simulate import SimulatedCohort
from rindices.experiments.tasks import TASKS
from rindices.tables.layouts.muse import paper_codes, single_regions
from tests.cohorts import simulate_few_regions
from tests.printed_commands import list_faults
from tests.report.helpers import omit_pictures

# The gate must not depend on luck; by hand every run looks elsewhere. Machines are slow
# now and then.
settings.register_profile("gate", derandomize=bool(os.environ.get("CI")), deadline=None)
settings.load_profile("gate")

SHARED = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip(f"the shared data are not beside the project ({SHARED})")
    return SHARED


def muse_volumes(people: int = 40, seed: int = 0) -> pd.DataFrame:
    """Volumes of the 145 single regions and 702, by code, as DLMUSE gives them."""
    rng = np.random.default_rng(seed)
    size = np.exp(rng.normal(0, 0.1, size=(people, 1)))
    frame = pd.DataFrame(
        {
            str(code): region.typical_mm3
            * size[:, 0]
            * np.exp(rng.normal(0, 0.1, people))
            for code, region in single_regions().items()
        }
    )
    frame.insert(0, "702", 1.4e6 * size[:, 0])
    frame.insert(0, "ID", [f"sub-{k:03d}" for k in range(people)])
    return frame.round(3)


def participants_of(volumes: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Participants of a table of volumes: half controls, half patients."""
    rng = np.random.default_rng(seed)
    people = len(volumes)
    return pd.DataFrame(
        {
            "participant_id": volumes.iloc[:, 0],
            "age": rng.uniform(50, 80, people).round(1),
            "sex": rng.choice(["F", "M"], people),
            "diagnosis": ["CN", "AD"] * (people // 2),
        }
    )


@pytest.fixture
def volumes() -> pd.DataFrame:
    return muse_volumes()


@pytest.fixture
def participants(volumes: pd.DataFrame) -> pd.DataFrame:
    return participants_of(volumes)


@pytest.fixture
def no_pictures() -> Iterator[None]:
    """Brains and charts, which take most of the time of a report, are not drawn."""
    with omit_pictures():
        yield


@pytest.fixture(autouse=True)
def cures_can_be_pasted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each command and option in each message that a test provokes is one that the
    command line knows.
    """
    messages, write = set[str](), Problem.__str__

    def record(problem: Problem) -> str:
        message = write(problem)
        messages.add(message)
        return message

    monkeypatch.setattr(Problem, "__str__", record)
    yield
    faults = {
        message: faults for message in messages if (faults := list_faults(message))
    }
    assert not faults


@pytest.fixture(scope="session")
def small_cohort() -> SimulatedCohort:
    return ri.simulate_cohort("small", seed=1)


@pytest.fixture(scope="session")
def study(
    tmp_path_factory: pytest.TempPathFactory, small_cohort: SimulatedCohort
) -> Path:
    folder = tmp_path_factory.mktemp("report") / "results"
    ri.fit(
        small_cohort.cohort,
        [2, 3],
        method="contrastive",
        members=5,
        workers=1,
        out=folder,
    )
    return folder


@pytest.fixture(scope="session")
def staged_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of the default method in which regions change at different severities."""
    folder = tmp_path_factory.mktemp("staged") / "results"
    task = replace(TASKS["staged"], n_controls=200, n_patients=400)
    ri.fit(
        simulate_few_regions(task, seed=3).cohort, 3, members=3, workers=1, out=folder
    )
    return folder


__all__ = ["muse_volumes", "paper_codes", "participants_of"]
