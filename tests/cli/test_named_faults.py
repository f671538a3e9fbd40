"""The message names the fault that there is: a transposed table, one group alone,
people far outside a range.
"""

from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from rindices.errors import RindicesError, TableError
from tests.conftest import muse_volumes, participants_of

TRANSPOSED = "regions are in rows and people in columns. Transpose it: one row a person, one column a region."


def run(*arguments: object) -> tuple[int, str]:
    """Return the exit code and all messages of a command."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    error = str(done.exception) if isinstance(done.exception, RindicesError) else ""
    return done.exit_code, f"{done.stderr}{error}"


@pytest.fixture
def volumes() -> pd.DataFrame:
    return muse_volumes().rename(
        columns=lambda name: name if name == "ID" else f"DL_MUSE_Volume_{name}"
    )


@pytest.mark.parametrize("spelling", ["muse", "freesurfer", "unknown"])
def test_a_transposed_table_is_named(
    spelling: str, volumes: pd.DataFrame, tmp_path: Path
) -> None:
    table = volumes.set_index("ID")
    if spelling == "freesurfer":
        table.columns = [f"lh_parcel{k}_thickness" for k in range(table.shape[1])]
    elif spelling == "unknown":
        table.columns = [f"marker{k}" for k in range(table.shape[1])]
    table.T.rename_axis("name").to_csv(tmp_path / "t.csv")
    participants_of(volumes).to_csv(tmp_path / "p.csv", index=False)
    options = (
        ["--participants", tmp_path / "p.csv"] if spelling == "unknown" else []
    )  # otherwise names are enough
    assert f"t.csv: {TRANSPOSED}" in run("check", tmp_path / "t.csv", *options)[1]
    with pytest.raises(TableError, match="regions are in rows"):
        ri.read_cohort(tmp_path / "t.csv", tmp_path / "p.csv")


def test_ids_that_are_numbers_or_words_are_no_regions(
    volumes: pd.DataFrame, tmp_path: Path
) -> None:
    volumes.columns = ["ID", *(f"marker{k}" for k in range(volumes.shape[1] - 1))]
    for ids in (
        range(100, 140),
        [f"r{k}" for k in range(40)],
        [f"{k}_volume" for k in range(40)],
    ):
        volumes.assign(ID=list(ids)).to_csv(tmp_path / "t.csv", index=False)
        assert "Transpose" not in run("check", tmp_path / "t.csv")[1]


def test_one_group_alone_is_named(volumes: pd.DataFrame, tmp_path: Path) -> None:
    people = participants_of(volumes)
    volumes.to_csv(tmp_path / "v.csv", index=False)
    people.assign(diagnosis="AD").to_csv(tmp_path / "p.csv", index=False)
    tables = [tmp_path / "v.csv", "--participants", tmp_path / "p.csv"]
    code, message = run(
        "fit",
        *tables,
        "--group",
        "diagnosis",
        "--covariates",
        "age,sex",
        "--out",
        tmp_path / "out",
    )
    assert code == 1
    assert (
        "there is one group alone, AD (40): a study compares controls with patients."
        in message
    )
    assert "which label" not in message
    assert (
        "AD alone, and a study compares controls with patients"
        in run("check", *tables)[1]
    )
    cohort = ri.simulate_cohort("tiny", seed=1).cohort
    for part, what in (
        (cohort.is_patient, "100 patients and no controls: add controls"),
        (cohort.is_control, "80 controls and no"),
    ):
        with pytest.raises(ri.StudyError, match=what):
            ri.fit(cohort.take(part), 1, members=2)
