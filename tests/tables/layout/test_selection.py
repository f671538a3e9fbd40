"""Columns that are used as regions: ventricles on request, one kind of measure."""

from pathlib import Path

import pandas as pd
import pytest

from rindices.errors import Findings, ProblemCode
from rindices.tables.layout.formats import Layout
from rindices.tables.layout.selection import ColumnSelection, count_measures, select_columns
from tests.conftest import muse_volumes
from tests.tables.helpers import aparc, aseg, list_messages, validate_files, write_table

VENTRICLES = {"Left-Lateral-Ventricle", "3rd-Ventricle", "4th-Ventricle"}


def select(layout: Layout, **options: object) -> tuple[Layout, Findings]:
    findings = Findings()
    return select_columns(layout, ColumnSelection(**options), "t.csv", findings), findings  # type: ignore[arg-type]


@pytest.fixture
def layout() -> Layout:
    names = ["Left-Hippocampus", "lh_insula_thickness"]
    fluid = [*sorted(VENTRICLES), "CSF", "5th-Ventricle", "Left-choroid-plexus", "VentricleChoroidVol"]
    measures = {"Left-Hippocampus": "volume", "lh_insula_thickness": "thickness"}
    aside = {"ventricle": fluid, "no tissue": ["Optic-Chiasm"]}
    return Layout("freesurfer", {name: name for name in names}, None, aside, ("age",), measures)


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
    assert [problem.cure for problem in findings.errors()] == ["Did you mean 'ventricles'?"]


def test_ventricles_of_a_table_without_any_are_an_error(layout: Layout) -> None:
    _, findings = select(Layout("table", layout.regions), include=("ventricles",))
    assert "no column of ventricles" in str(findings.errors()[0])


def test_what_is_not_used_is_named_with_the_reason(layout: Layout) -> None:
    (note,) = select(layout)[1]
    assert note.code is ProblemCode.COLUMNS_NOT_USED
    assert "8 columns are not used: 7 of ventricles or fluid" in note.text
    assert note.cure == "To use the ventricles: --include ventricles"


def test_regions_of_a_model_are_read_without_a_note(layout: Layout) -> None:
    selected, findings = select(layout, model_regions=("Left-Hippocampus", "4th-Ventricle"))
    assert set(selected.regions) == {"Left-Hippocampus", "4th-Ventricle"}
    assert not list(findings)


def test_a_model_of_one_measure_is_applied_to_a_table_of_several(layout: Layout) -> None:
    selected, _ = select(layout, measure="all", model_regions=("lh_insula_thickness",))
    assert list(selected.regions) == ["lh_insula_thickness"]
    for regions in (tuple(layout.regions), ("elsewhere",)):
        assert select(layout, model_regions=regions)[0].regions == layout.regions


def test_a_measure_selects_its_columns(layout: Layout) -> None:
    selected, _ = select(layout, measure="thickness")
    assert list(selected.regions) == ["lh_insula_thickness"]
    assert selected.aside["volume"] == ["Left-Hippocampus"]
    assert count_measures(list(selected.regions.values()), selected.measures) == {"thickness": 1}


@pytest.mark.parametrize("measure", [None, "any", "area"])
def test_without_such_a_measure_all_columns_stay(layout: Layout, measure: str | None) -> None:
    assert select(layout, measure=measure)[0].regions == layout.regions


def test_muse_ventricles_have_the_names_of_their_codes(tmp_path: Path) -> None:
    path = write_table(muse_volumes(), tmp_path / "v.csv")
    result = validate_files(path, include="ventricles")
    assert result.regions == 145
    assert {"MUSE_4", "MUSE_49"} <= set(result.region_names)
    assert validate_files(path, include="ventricles", exclude="MUSE_4").regions == 144


def test_thickness_is_in_mm_and_volume_in_mm3(tmp_path: Path) -> None:
    thickness = aparc("lh", measure="thickness").drop(columns="eTIV")
    paths = [write_table(aseg(), tmp_path / "a.txt", "\t"), write_table(thickness, tmp_path / "b.txt", "\t")]
    result = validate_files(paths)
    assert (result.unit, result.units) == ("mixed", {"thickness": "mm", "volume": "mm3"})
    assert result.measures == {"volume": 6, "thickness": 6}
    assert "6 columns of volume, 6 columns of thickness" in list_messages(result, "note")
    result = validate_files(paths, measure="thickness")
    assert (result.unit, result.units, result.regions) == ("mm", {"thickness": "mm"}, 6)
    assert validate_files(paths, measure="volume").unit == "mm3"


def test_area_is_in_mm2(tmp_path: Path) -> None:
    areas = aparc("lh").rename(columns=lambda name: name.replace("volume", "area"))
    result = validate_files(write_table(areas, tmp_path / "a.txt", "\t"), measure="area")
    assert (result.unit, result.measures) == ("mm2", {"area": 6})


def test_standard_deviations_of_thickness_are_no_thickness(tmp_path: Path) -> None:
    thickness = aparc("lh", measure="thickness")
    spread = aparc("lh", measure="thickness").iloc[:, 1:-1].add_suffix("std") / 5
    path = write_table(pd.concat([thickness, spread], axis=1), tmp_path / "t.txt", "\t")
    assert validate_files(path, measure="thickness").regions == 6
