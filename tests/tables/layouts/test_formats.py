"""Layouts are recognised by their header, and the regions among the columns
are chosen.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rindices.errors import Findings, ProblemCode
from rindices.tables.layouts.layout import Layout
from rindices.tables.layouts.select import select_columns
from tests.conftest import muse_volumes
from tests.tables.helpers import (
    PARCELS,
    N,
    aparc,
    aseg,
    list_messages,
    make_table,
    validate_files,
    write_table,
)


def test_ixi_is_a_dlmuse_table(shared: Path) -> None:
    result = validate_files(shared / "ixi/volumes.csv", shared / "ixi/demographics.csv")
    assert (result.format, result.people, result.regions, result.icv) == (
        "dlmuse",
        291,
        139,
        "702",
    )
    assert result.covariates == ("Age", "Sex", "icv")
    assert (result.unit, result.aside) == ("mm3", {"ventricle": 6, "composite": 114})
    assert {str(p.severity) for p in result.problems} <= {"note"}


def test_the_nichart_demo_is_a_dlmuse_table(shared: Path) -> None:
    result = validate_files(
        shared / "nichart_demo/DLMUSE_Volumes.csv",
        shared / "nichart_demo/participants.csv",
    )
    assert (result.format, result.people, result.regions) == ("dlmuse", 23, 139)
    assert {str(p.severity) for p in result.problems} <= {"note"}


def test_the_sample_of_the_authors_is_a_surrealgan_table(shared: Path) -> None:
    result = validate_files(shared / "upstream/sample_roi.csv")
    assert (result.format, result.people, result.regions) == ("surrealgan", 1500, 100)
    assert (result.controls, result.patients) == (600, 900)
    assert {str(p.severity) for p in result.problems} <= {"note"}


def test_fcon1000_is_a_freesurfer_table(shared: Path) -> None:
    result = validate_files(
        shared / "fcon1000/fcon1000.csv", site="site", covariates=["age", "sex", "icv"]
    )
    assert (result.format, result.people, result.regions, result.sites) == (
        "freesurfer",
        1078,
        169,
        23,
    )
    assert (result.icv, result.unit) == ("EstimatedTotalIntraCranialVol", "mixed")
    warnings = {p.code: p.offenders for p in result.problems if p.severity != "note"}
    assert warnings.pop(ProblemCode.EQUAL_ROWS) == (
        "ICBM_sub10582",
        "ICBM_sub41546",
    )  # one person under two ids
    assert (
        len(warnings.pop(ProblemCode.SMALL_HEAD_SIZES)) == 24
    )  # eTIV below the volume of the brain
    assert not warnings
    assert result.cohort is not None
    assert len(result.cohort) == 1078
    assert (
        result.cohort.volumes.isna().any(axis=1).sum() == 2
    )  # people with a thickness of 0.0: absent, not zero


def test_thickness_of_enigma_is_not_a_volume(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = [f"{side}_{name}_thickavg" for side in "LR" for name in PARCELS]
    frame = pd.DataFrame(
        {"SubjID": range(20), **{name: rng.normal(2.5, 0.2, 20) for name in names}}
    )
    path = write_table(frame, tmp_path / "thick.csv")
    result = validate_files(path)
    assert result.format == "enigma"
    assert "thickness, not volume" in list_messages(result, "error")
    assert validate_files(path, measure="thickness").ok


def test_volumes_of_enigma(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = [
        "LLatVent",
        "RLatVent",
        "Lthal",
        "Rthal",
        "Lhippo",
        "Rhippo",
        "Lamyg",
        "Ramyg",
    ]
    frame = pd.DataFrame(
        {"SubjID": range(20), **{name: rng.normal(4000, 300, 20) for name in names}}
    )
    result = validate_files(write_table(frame.assign(ICV=1.5e6), tmp_path / "land.csv"))
    assert (result.format, result.regions, result.icv, result.aside) == (
        "enigma",
        6,
        "ICV",
        {"ventricle": 2},
    )


def test_numeric_columns_of_an_unknown_table_are_regions(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "name": [f"p{k}" for k in range(40)],
            "Age": 60,
            "gender": "F",
            "dx": ["HC", "SZ"] * 20,
        }
    )
    frame = frame.assign(
        **{f"area{k}": rng.normal(3000 + 500 * k, 200, 40) for k in range(6)}
    )
    result = validate_files(write_table(frame, tmp_path / "t.csv", ";"))
    assert (result.format, result.regions, result.controls, result.patients) == (
        "table",
        6,
        20,
        20,
    )


@pytest.mark.parametrize(
    "column",
    [
        "Age_at_MRI",
        "PTEDUCAT",
        "CDRSB",
        "ADAS11",
        "IMAGEUID",
        "Years_bl",
        "31-0.0",
        "21003-2.0",
        "ST30SA",
        "WholeBrain",
    ],
)
def test_columns_about_people_are_not_regions(tmp_path: Path, column: str) -> None:
    result = validate_files(
        write_table(
            make_table(**{column: np.linspace(60, 3000, N)}), tmp_path / "v.csv"
        )
    )
    assert result.regions == 20
    assert column not in result.region_names


def test_codes_are_not_regions(tmp_path: Path) -> None:
    result = validate_files(
        write_table(
            make_table(Maternal=[0, 1] * 30, arm=[1, 2, 3] * 20), tmp_path / "v.csv"
        )
    )
    assert (result.regions, result.aside) == (20, {"few whole numbers": 2})


def test_numbered_regions_of_another_atlas_are_not_muse(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "ID": [f"p{k}" for k in range(N)],
            **{f"ROI_{k}": rng.normal(3000, 99, N) for k in range(1, 200)},
        }
    )
    assert validate_files(write_table(frame, tmp_path / "v.csv")).format == "table"


def test_covariate_files_of_enigma_are_participants(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ids = [f"e{k}" for k in range(N)]
    names = [
        "LLatVent",
        "RLatVent",
        "Lthal",
        "Rthal",
        "Lhippo",
        "Rhippo",
        "Lamyg",
        "Ramyg",
    ]
    volumes = pd.DataFrame(
        {
            "SubjID": ids,
            **{name: rng.normal(4000, 300, N) for name in names},
            "ICV": 1.5e6,
        }
    )
    people = pd.DataFrame(
        {
            "SubjID": ids,
            "Dx": [0] * 30 + [1] * 30,
            "Age": rng.uniform(20, 60, N),
            "Sex": [1, 2] * 30,
        }
    )
    people = people.assign(
        Site1=[1, 0, 0] * 20, Site2=[0, 1, 0] * 20, AO=[np.nan] * 30 + [25.0] * 30
    )
    paths = (
        write_table(volumes, tmp_path / "LandRvolumes.csv"),
        write_table(people, tmp_path / "Covariates.csv"),
    )
    result = validate_files(
        *paths, group="Dx", controls=["0"], covariates=["Age", "Sex", "Site1", "Site2"]
    )
    assert result.ok, list_messages(result, "error")
    assert (result.format, result.controls, result.patients, result.regions) == (
        "enigma",
        30,
        30,
        6,
    )
    alone = validate_files(paths[1])
    assert "If it describes participants, give it with --participants" in list_messages(
        alone, "error"
    )


VENTRICLES = {"Left-Lateral-Ventricle", "3rd-Ventricle", "4th-Ventricle"}


def select(
    layout: Layout,
    include: Sequence[str] = (),
    measure: str | None = None,
    model_regions: Sequence[str] = (),
) -> tuple[Layout, Findings]:
    findings = Findings()
    return select_columns(
        layout, include, measure, model_regions, findings.at("t.csv")
    ), findings


@pytest.fixture
def layout() -> Layout:
    names = ["Left-Hippocampus", "lh_insula_thickness"]
    fluid = [
        *sorted(VENTRICLES),
        "CSF",
        "5th-Ventricle",
        "Left-choroid-plexus",
        "VentricleChoroidVol",
    ]
    measures = {"Left-Hippocampus": "volume", "lh_insula_thickness": "thickness"}
    aside = {"ventricle": fluid, "no tissue": ["Optic-Chiasm"]}
    return Layout(
        format="freesurfer",
        regions={name: name for name in names},
        icv=None,
        aside=aside,
        participant_columns=("age",),
        measures=measures,
    )


def test_ventricles_are_included_without_fluid_plexus_and_sums(layout: Layout) -> None:
    selected, findings = select(layout, include=("Ventricles",))
    assert set(selected.regions) - set(layout.regions) == VENTRICLES
    assert not VENTRICLES & set(selected.aside["ventricle"])
    assert not findings.errors()


def test_a_single_column_is_included_by_its_name(layout: Layout) -> None:
    selected, findings = select(layout, include=("optic-chiasm", "Left-Hippocampus"))
    assert "Optic-Chiasm" in selected.regions
    assert "no tissue" not in selected.aside
    assert not findings.errors()


def test_a_name_that_is_not_there_is_an_error_with_a_suggestion(layout: Layout) -> None:
    _, findings = select(layout, include=("ventrikels",))
    assert [problem.cure for problem in findings.errors()] == [
        "Did you mean 'ventricles'?"
    ]


def test_ventricles_of_a_table_without_any_are_an_error(layout: Layout) -> None:
    _, findings = select(
        Layout(format="table", regions=layout.regions), include=("ventricles",)
    )
    assert "no column of ventricles" in str(findings.errors()[0])


def test_what_is_not_used_is_named_with_the_reason(layout: Layout) -> None:
    (note,) = select(layout)[1]
    assert note.code is ProblemCode.COLUMNS_NOT_USED
    assert "8 columns are not used: 7 of ventricles or fluid" in note.text
    assert note.cure == "To use the ventricles: --include ventricles"


def test_regions_of_a_model_are_read_without_a_note(layout: Layout) -> None:
    selected, findings = select(
        layout, model_regions=("Left-Hippocampus", "4th-Ventricle")
    )
    assert set(selected.regions) == {"Left-Hippocampus", "4th-Ventricle"}
    assert not list(findings)


def test_a_model_of_one_measure_is_applied_to_a_table_of_several(
    layout: Layout,
) -> None:
    selected, _ = select(layout, measure="all", model_regions=("lh_insula_thickness",))
    assert list(selected.regions) == ["lh_insula_thickness"]
    for regions in (tuple(layout.regions), ("elsewhere",)):
        assert select(layout, model_regions=regions)[0].regions == layout.regions


def test_a_measure_selects_its_columns(layout: Layout) -> None:
    selected, _ = select(layout, measure="thickness")
    assert list(selected.regions) == ["lh_insula_thickness"]
    assert selected.aside["volume"] == ["Left-Hippocampus"]
    assert list(map(selected.measure_of, selected.regions.values())) == ["thickness"]


@pytest.mark.parametrize("measure", [None, "any", "area"])
def test_without_such_a_measure_all_columns_stay(
    layout: Layout, measure: str | None
) -> None:
    assert select(layout, measure=measure)[0].regions == layout.regions


def test_muse_ventricles_have_the_names_of_their_codes(tmp_path: Path) -> None:
    path = write_table(muse_volumes(), tmp_path / "v.csv")
    result = validate_files(path, include="ventricles")
    assert result.regions == 145
    assert {"MUSE_4", "MUSE_49"} <= set(result.region_names)
    assert validate_files(path, include="ventricles", exclude="MUSE_4").regions == 144


def test_thickness_is_in_mm_and_volume_in_mm3(tmp_path: Path) -> None:
    thickness = aparc("lh", measure="thickness").drop(columns="eTIV")
    paths = [
        write_table(aseg(), tmp_path / "a.txt", "\t"),
        write_table(thickness, tmp_path / "b.txt", "\t"),
    ]
    result = validate_files(paths)
    assert (result.unit, result.units) == (
        "mixed",
        {"thickness": "mm", "volume": "mm3"},
    )
    assert result.measures == {"volume": 6, "thickness": 6}
    assert "6 columns of volume, 6 columns of thickness" in list_messages(
        result, "note"
    )
    result = validate_files(paths, measure="thickness")
    assert (result.unit, result.units, result.regions) == ("mm", {"thickness": "mm"}, 6)
    assert validate_files(paths, measure="volume").unit == "mm3"


def test_area_is_in_mm2(tmp_path: Path) -> None:
    areas = aparc("lh").rename(columns=lambda name: name.replace("volume", "area"))
    result = validate_files(
        write_table(areas, tmp_path / "a.txt", "\t"), measure="area"
    )
    assert (result.unit, result.measures) == ("mm2", {"area": 6})


def test_standard_deviations_of_thickness_are_no_thickness(tmp_path: Path) -> None:
    thickness = aparc("lh", measure="thickness")
    spread = aparc("lh", measure="thickness").iloc[:, 1:-1].add_suffix("std") / 5
    path = write_table(pd.concat([thickness, spread], axis=1), tmp_path / "t.txt", "\t")
    assert validate_files(path, measure="thickness").regions == 6
