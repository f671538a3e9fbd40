"""Regions as numbers, head sizes, and people who lack values."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rindices.errors import Findings
from rindices.tables.layouts.layout import Layout
from rindices.tables.options import TableOptions
from rindices.tables.participants import GroupLabels, JoinedParticipants
from rindices.tables.readers import make_request
from rindices.tables.regions import UnfilteredCohort
from rindices.tables.table import Table
from rindices.tables.validate import validate_table
from tests.conftest import muse_volumes
from tests.tables.helpers import (
    STRUCTURES,
    N,
    aparc,
    list_messages,
    make_people,
    make_table,
    validate_files,
    write_table,
)


def test_zero_means_missing_in_freesurfer_tables(tmp_path: Path) -> None:
    left = aparc("lh")
    left.loc[3, "lh_insula_volume"] = 0.0
    path = write_table(left, tmp_path / "lh.txt", "\t")
    assert "sub-03" in list_messages(validate_files(path, on_missing="error"), "error")
    dropped = validate_files(path, on_missing="drop").cohort
    assert dropped is not None
    assert len(dropped) == 29


def test_a_region_in_two_columns_is_refused(
    tmp_path: Path, volumes: pd.DataFrame
) -> None:
    doubled = pd.concat(
        [
            volumes.add_prefix("DL_MUSE_Volume_"),
            volumes.iloc[:, 2:].add_prefix("H_DL_MUSE_Volume_"),
        ],
        axis=1,
    )
    result = validate_files(
        write_table(
            doubled.rename(columns={"DL_MUSE_Volume_ID": "MRID"}), tmp_path / "v.csv"
        )
    )
    assert "in two columns: DL_MUSE_Volume_23, H_DL_MUSE_Volume_23" in list_messages(
        result, "error"
    )


def test_the_intracranial_volume_may_come_from_the_participants(tmp_path: Path) -> None:
    participants = make_people(EstimatedTotalIntraCranialVol=1.5e6)
    paths = (
        write_table(make_table(), tmp_path / "v.csv"),
        write_table(participants, tmp_path / "p.csv"),
    )
    assert validate_files(*paths, covariates=["icv"]).ok


def make_aseg(supratentorial: float = 1.0e6, icv: float = 1.5e6) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(5000, 500, 30) for name in STRUCTURES}
    sums = {"SupraTentorialVol": supratentorial, "EstimatedTotalIntraCranialVol": icv}
    return pd.DataFrame(
        {"Measure:volume": [f"sub-{k:02d}" for k in range(30)], **columns, **sums}
    )


def test_people_below_their_supratentorial_volume_are_counted(tmp_path: Path) -> None:
    table = make_aseg()
    table.loc[[3, 7], "EstimatedTotalIntraCranialVol"] = 0.9e6
    path = write_table(table, tmp_path / "a.txt", "\t")
    errors = list_messages(
        validate_files(path), "error"
    )  # a head size that nobody named is not used then
    for cure in (
        "--covariates SupraTentorialVol,",
        "--covariates none,",
        "--covariates icv",
    ):
        assert cure in errors
    warnings = list_messages(validate_files(path, covariates=["icv"]), "warning")
    assert (
        "2 of 30 people have an ICV below SupraTentorialVol: sub-03, sub-07."
        in warnings
    )
    assert "--covariates SupraTentorialVol" in warnings


def test_the_sum_of_regions_is_a_part_of_the_head(tmp_path: Path) -> None:
    volumes = muse_volumes()
    volumes.loc[4, "702"] /= 4
    warnings = list_messages(
        validate_files(write_table(volumes, tmp_path / "v.csv")), "warning"
    )
    assert (
        "1 of 40 people have an ICV below the sum of their regions: sub-004. Look at"
        in warnings
    )


def test_the_unit_is_doubted_where_it_concerns_everyone(tmp_path: Path) -> None:
    table = make_aseg(icv=1_500.0)
    assert "30 of 30 people" in (
        text := list_messages(
            validate_files(write_table(table, tmp_path / "a.txt", "\t"))
        )
    )
    assert "Check its unit" in text


@pytest.mark.parametrize("covariates", [(), ("icv",)])
def test_good_tables_have_no_such_warning(
    tmp_path: Path, covariates: tuple[str, ...]
) -> None:
    overlapping = make_table(icv=[1e4] * 60)
    for table in (make_aseg(), muse_volumes(), overlapping):
        result = validate_files(
            write_table(table, tmp_path / "v.csv"), covariates=covariates
        )
        assert "ICV below" not in list_messages(result)


GROUPS = {"group": "diagnosis", "controls": ["CN"]}


@pytest.fixture
def holes() -> pd.DataFrame:
    """A table in which one person lacks one region and another one lacks most."""
    table = make_table()
    table.loc[3, "roi7"] = np.nan
    table.loc[5, [f"roi{k}" for k in range(1, 16)]] = np.nan
    return table


def write_people(tmp_path: Path, **columns: object) -> Path:
    return write_table(make_people(**columns), tmp_path / "people.tsv", sep="\t")


@pytest.mark.parametrize("policy", ["model", "report"])
def test_people_with_few_regions_are_left_out_and_not_said_to_be_used(
    tmp_path: Path, holes: pd.DataFrame, policy: str
) -> None:
    result = validate_files(
        write_table(holes, tmp_path / "v.csv"),
        write_people(tmp_path),
        on_missing=policy,
        **GROUPS,
    )
    assert not list_messages(result, "error")
    assert (
        "1 person has fewer than half of the regions: sub-006; left out"
        in list_messages(result, "warning")
    )
    used = "1 person has a missing region, 1 of 1,180 cells are missing (roi7 1 times): sub-004; their other regions"
    assert used in list_messages(result, "note")
    assert len(result.cohort_or_raise()) == len(holes) - 1


def test_without_groups_the_model_decides_who_has_enough_regions(
    tmp_path: Path, holes: pd.DataFrame
) -> None:
    holes.loc[:, [f"roi{k}" for k in range(1, 9)]] = np.nan
    holes.loc[0, "roi1"] = 1.0
    options = TableOptions(covariates=(), site="none")
    request = make_request(write_table(holes, tmp_path / "v.csv"), None, options)
    result = validate_table(replace(request, find_groups=False, reports_missing=True))
    assert "fewer than half" not in list_messages(result)
    assert "At most 30%" not in list_messages(result)


def test_a_study_with_too_many_missing_cells_is_refused(tmp_path: Path) -> None:
    table = make_table()
    table.iloc[2:, 1:8] = np.nan
    result = validate_files(
        write_table(table, tmp_path / "v.csv"), write_people(tmp_path), **GROUPS
    )
    assert (
        "At most 30% may be: leave out regions (--exclude) or people"
        in list_messages(result, "error")
    )


@pytest.mark.parametrize(
    ("policy", "severity", "ending"),
    [
        ("error", "error", ""),
        ("model", "error", ""),
        ("drop", "note", "; left out"),
        ("report", "note", "; fit stops here unless told to leave them out"),
    ],
)
def test_a_missing_covariate_is_an_error_or_a_note(
    tmp_path: Path, policy: str, severity: str, ending: str
) -> None:
    people = write_people(tmp_path, age=[np.nan, *np.linspace(50.0, 80.0, N - 1)])
    table = write_table(make_table(), tmp_path / "v.csv")
    result = validate_files(
        table, people, covariates=["age"], on_missing=policy, **GROUPS
    )
    assert f"1 person has no age: sub-001{ending}" in list_messages(result, severity)


def test_a_mask_selects_people_from_every_part() -> None:
    ids = ["a", "b", "c"]
    frame = pd.DataFrame({"region": [1.0, 2.0, 3.0]})
    people = JoinedParticipants(
        ids=ids,
        frame=pd.DataFrame({"age": [50, 60, 70]}),
        unmatched=np.zeros(3, dtype=bool),
        findings=Findings(where="p.csv"),
    )
    groups = GroupLabels(
        pd.Series(["control", "patient", "patient"]), np.zeros(3, dtype=bool)
    )
    table = Table(
        ids=ids,
        sessions=None,
        frame=frame,
        layout=Layout(format="table", regions={"region": "region"}),
        where="t.csv",
    )
    parts = UnfilteredCohort(
        table=table,
        people=people,
        regions=frame,
        covariates=people.frame,
        groups=groups,
        sites=pd.Series(list("xyz")),
        icv=pd.Series([7, 8, 9]),
    )
    assert parts.take(np.ones(3, dtype=bool)) is parts
    selected = parts.take(np.array([True, False, True]))
    assert selected.table.ids == selected.people.ids == ["a", "c"]
    assert selected.ranges.high.tolist() == [3.0]
    assert selected.covariates["age"].tolist() == [50, 70]
    assert selected.groups is not None
    assert selected.groups.labels.tolist() == ["control", "patient"]
    assert selected.sites is not None
    assert selected.sites.tolist() == ["x", "z"]
    assert selected.icv is not None
    assert selected.icv.tolist() == [7, 9]
