"""Fields of UK Biobank are read as structures of FreeSurfer, FAST or FIRST."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rindices.errors import Findings
from rindices.tables.layout.formats import detect_layout
from rindices.tables.layout.selection import ColumnSelection, select_columns
from rindices.tables.layout.ukbiobank import FieldColumn, load_structures, parse_field
from tests.tables.layout.helpers import LABELS, N, check_table, draw_values


def make_fields(fields: Iterable[int], style: str = "{}-2.0") -> pd.DataFrame:
    rng = np.random.default_rng(0)
    structures = load_structures()
    columns = {style.format(field): draw_values(structures[field].name, rng) for field in fields}
    return pd.DataFrame({"eid": range(1_000_001, 1_000_001 + N), "diagnosis": LABELS, **columns})


def list_atlas(*atlases: str) -> list[int]:
    return [field for field, structure in load_structures().items() if structure.atlas in atlases]


@pytest.mark.parametrize(
    ("field", "name"),
    [
        (26521, "EstimatedTotalIntraCranialVol"),
        (26562, "Left-Hippocampus"),
        (26593, "Right-Hippocampus"),
        (26721, "lh_WhiteSurfArea_area"),
        (26793, "lh_entorhinal_volume"),
        (26889, "rh_insula_thickness"),
        (27208, "lh_entorhinal_volume"),
        (25019, "FIRST Left-Hippocampus"),
        (25886, "FAST Left-Hippocampus"),
    ],
)
def test_names_are_those_of_the_data_dictionary(field: int, name: str) -> None:
    assert load_structures()[field].name == name


@pytest.mark.parametrize("column", ["26562-2.0", "f.26562.2.0", "X26562.2.0", "x26562_2_0", "p26562_i2"])
def test_each_spelling_of_a_field(column: str) -> None:
    assert parse_field(column) == FieldColumn(26562, 2)


@pytest.mark.parametrize("column", ["26562", "MUSE_47", "2020-01.5x", "f.eid", "area 1"])
def test_other_names_are_not_fields(column: str) -> None:
    assert parse_field(column) is None


def test_one_atlas_and_one_visit_are_read_at_the_first_try(tmp_path: Path) -> None:
    frame = make_fields(list_atlas("aseg", "desikan", "dkt", "fast"))
    second = make_fields(list_atlas("aseg"), "{}-3.0").drop(columns=["eid", "diagnosis"])
    age = {"21003-2.0": np.linspace(50, 79, N), "31-0.0": [0, 1] * (N // 2), "25005-2.0": np.linspace(6e5, 9e5, N)}
    frame = pd.concat([frame, second], axis=1).assign(**age)
    options = ["--group", "diagnosis", "--covariates", "21003-2.0,31-0.0,icv"]
    code, values, problems = check_table(frame, tmp_path, *options)
    assert code == 0, problems
    assert (values["format"], values["people"], values["regions"]) == ("ukbiobank", N, 87)
    assert (values["icv"], values["unit"]) == ("26521-2.0", "mm3")
    assert {"lh_entorhinal_volume", "Left-Hippocampus"} <= set(values["region_names"])  # type: ignore[call-overload]
    assert values["aside"]["other visit"] == 54  # type: ignore[index]
    assert values["aside"]["other field"] == 1  # type: ignore[index]  # 25005, the whole grey matter


def test_thickness_is_read_on_request(tmp_path: Path) -> None:
    frame = make_fields(list_atlas("desikan"))
    code, values, _ = check_table(frame, tmp_path, "--group", "diagnosis", "--measure", "thickness")
    assert (code, values["regions"], values["unit"]) == (0, 66, "mm")


def test_fields_that_are_not_of_the_brain_are_refused_with_a_cure(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    blood = {f"{30_000 + 10 * k}-0.0": rng.gamma(2, 1, N) for k in range(1, 9)}
    frame = pd.DataFrame({"eid": range(N), "diagnosis": LABELS, **blood})
    code, _, problems = check_table(frame, tmp_path, "--group", "diagnosis")
    assert code == 1
    assert "no regions were found. Give fields of brain structures (26514 to" in problems
    assert "--measure any" in problems


def test_models_of_earlier_versions_find_their_columns() -> None:
    frame = make_fields(list_atlas("desikan"))
    layout = detect_layout(list(frame.columns), frame, ["eid", "diagnosis"])
    selection = ColumnSelection(model_regions=("26789-2.0", "lh_entorhinal_volume"))
    regions = select_columns(layout, selection, "t.csv", Findings()).regions
    assert (regions["26789-2.0"], regions["26793-2.0"]) == ("26789-2.0", "lh_entorhinal_volume")
