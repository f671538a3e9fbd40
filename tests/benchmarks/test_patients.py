"""Tables of real patients, where they are at hand."""

from pathlib import Path

import pytest

from benchmarks.suites.patients import list_patient_tables
from rindices.errors import SimulationError

DATA = Path(__file__).parents[3] / "shared" / "data" / "patients"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SimulationError, match="--suite patients --data FOLDER"):
        list_patient_tables(tmp_path / "none")


@pytest.mark.skipif(
    not DATA.is_dir(), reason="needs the tables of patients in ../shared/data"
)
@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("psychosis", (67, 98, 169)),
        ("psychosis-thickness", (67, 98, 148)),
        ("depression", (59, 62, 148)),
        ("schizophrenia", (41, 23, 157)),
        ("autism", (528, 499, 89)),
    ],
)
def test_tables_are_read_as_they_are(name: str, size: tuple[int, int, int]) -> None:
    cohort = list_patient_tables(DATA)[name]().cohort
    assert (cohort.n_controls, cohort.n_patients, cohort.n_regions) == size
