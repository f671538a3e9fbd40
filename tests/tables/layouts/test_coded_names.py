"""Columns that code a structure: ADNI, UK Biobank, and parcels under the names of
ggseg, neuromaps and abagen.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rindices.errors import Findings
from rindices.tables.layouts.adni import name_adni_structures
from rindices.tables.layouts.coded import load_codes
from rindices.tables.layouts.detect import detect_layout
from rindices.tables.layouts.ggseg import PARCELS, name_parcels
from rindices.tables.layouts.select import select_columns
from rindices.tables.layouts.ukbiobank import FieldColumn, parse_field
from tests.tables.helpers import write_table
from tests.tables.layouts.helpers import LABELS, N, check_table, draw_values

EMPTY_CODES = (8, 19, 20, 78, 79)


def make_ucsffsx() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    columns: dict[str, object] = {
        "COLPROT": "ADNI2",
        "RID": range(1, N + 1),
        "VISCODE": "bl",
        "IMAGEUID": range(N),
    }
    for code, (name,) in load_codes("adni_structures").items():
        is_parcel = name.startswith(("lh_", "rh_"))
        for letters in (
            ("CV", "SA", "TA", "TS")
            if is_parcel
            else ("CV",)
            if code in (10, 28, 87)
            else ("SV",)
        ):
            values = draw_values(
                f"{name}_thickness" if letters[0] == "T" else name, rng
            )
            columns[f"ST{code}{letters}"] = np.nan if code in EMPTY_CODES else values
    return pd.DataFrame(
        {**columns, "ST131HS": 300.0, "OVERALLQC": "Pass", "update_stamp": "2015-11-02"}
    )


def write_people(folder: Path) -> Path:
    people = {
        "RID": range(1, N + 1),
        "AGE": np.linspace(55, 85, N),
        "PTGENDER": ["Male", "Female"] * (N // 2),
    }
    return write_table(pd.DataFrame({**people, "DX": LABELS}), folder / "people.csv")


def test_codes_are_those_of_the_data_dictionary() -> None:
    codes = [
        "ST24CV",
        "ST83TA",
        "ST29SV",
        "ST88SV",
        "ST130SA",
        "ST10CV",
        "ST24TS",
        "ST131HS",
        "ST37SV",
    ]
    names, aside = name_adni_structures([*codes, "STATUS", "ST"])
    assert names == {
        "ST24CV": "lh_entorhinal_volume",
        "ST83TA": "rh_entorhinal_thickness",
        "ST29SV": "Left-Hippocampus",
        "ST88SV": "Right-Hippocampus",
        "ST130SA": "rh_insula_area",
        "ST10CV": "EstimatedTotalIntraCranialVol",
        "ST37SV": "Left-Lateral-Ventricle",
    }
    assert aside == {"no structure": ["ST24TS", "ST131HS"]}


def test_of_two_versions_one_is_used() -> None:
    columns = [
        "ST24CV_UCSFFSX_11_02_15",
        "ST29SV_UCSFFSX_11_02_15",
        "ST24CV_UCSFFSL_02_01_16",
    ]
    names, aside = name_adni_structures(columns)
    assert (list(names), aside) == (columns[:2], {"other version": columns[2:]})


def test_ucsffsx_is_read_at_the_first_try(tmp_path: Path) -> None:
    options = [
        "--participants",
        str(write_people(tmp_path)),
        "--group",
        "DX",
        "--covariates",
        "AGE,PTGENDER,icv",
    ]
    code, values, problems = check_table(make_ucsffsx(), tmp_path, *options)
    assert code == 0, problems
    assert (values["format"], values["people"], values["regions"]) == ("adni", N, 89)
    assert (values["icv"], values["unit"]) == ("ST10CV", "mm3")
    assert values["aside"]["ventricle"] == 9  # type: ignore[index]
    assert values["aside"]["empty"] == len(EMPTY_CODES)  # type: ignore[index]


def test_thickness_and_ventricles_are_read_on_request(tmp_path: Path) -> None:
    options = ["--participants", str(write_people(tmp_path)), "--group", "DX"]
    code, values, _ = check_table(
        make_ucsffsx(), tmp_path, *options, "--measure", "thickness"
    )
    assert (code, values["regions"], values["unit"]) == (0, 68, "mm")
    _, values, _ = check_table(
        make_ucsffsx(), tmp_path, *options, "--include", "ventricles"
    )
    assert {"Left-Lateral-Ventricle", "3rd-Ventricle"} <= set(values["region_names"])  # type: ignore[call-overload]


def test_a_table_without_structures_is_refused_with_a_cure(tmp_path: Path) -> None:
    frame = make_ucsffsx()[["RID", "VISCODE", "OVERALLQC"]].assign(
        AGE=np.linspace(50, 80, N), DX=LABELS
    )
    code, _, problems = check_table(frame, tmp_path, "--group", "DX")
    assert code == 1
    assert (
        "no regions were found. If it describes participants, give it with --participants"
        in problems
    )


@pytest.mark.parametrize(
    "column",
    [
        "lh_superiorfrontal",
        "superiorfrontal_L",
        "L_superiorfrontal",
        "left superior frontal",
        "lh.superiorfrontal",
    ],
)
def test_each_spelling_of_a_parcel(column: str) -> None:
    assert name_parcels([column])[0] == {column: "lh_superiorfrontal"}


def test_structures_below_the_cortex_have_the_names_of_freesurfer() -> None:
    names, without_cortex = name_parcels(
        ["thalamusproper_L", "R_hippocampus", "lh_unknown", "rh_corpuscallosum", "l_x"]
    )
    assert names == {
        "thalamusproper_L": "Left-Thalamus",
        "R_hippocampus": "Right-Hippocampus",
    }
    assert without_cortex == ["lh_unknown", "rh_corpuscallosum"]


def make_parcels(style: str, measure: str = "volume") -> pd.DataFrame:
    rng = np.random.default_rng(0)
    sides = (("lh", "L"), ("rh", "R"))
    names = [
        style.format(p=p, lh=lh, L=letter)
        for lh, letter in sides
        for p in sorted(PARCELS)
    ]
    columns = {name: draw_values(f"x_{measure}", rng) for name in names}
    return pd.DataFrame(
        {"subject": [f"s{k}" for k in range(N)], "group": LABELS, **columns}
    )


@pytest.mark.parametrize("style", ["{lh}_{p}", "{p}_{L}", "{L}_{p}"])
def test_tables_of_ggseg_and_neuromaps_are_read_at_the_first_try(
    tmp_path: Path, style: str
) -> None:
    extra = {
        "Left-Hippocampus": np.linspace(3000, 4000, N),
        "Left-Lateral-Ventricle": np.linspace(9e3, 2e4, N),
    }
    frame = make_parcels(style).assign(
        lh_unknown=1.0, eTIV=np.linspace(1.4e6, 1.6e6, N), **extra
    )
    code, values, problems = check_table(
        frame, tmp_path, "--group", "group", "--covariates", "icv"
    )
    assert code == 0, problems
    assert (values["format"], values["regions"], values["icv"]) == ("ggseg", 69, "eTIV")
    assert values["aside"] == {"no tissue": 1, "ventricle": 1}
    assert {"lh_insula", "rh_insula"} <= set(values["region_names"])  # type: ignore[call-overload]


def test_an_atlas_that_shares_some_names_with_ggseg_keeps_its_other_regions(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    others = ("L_occipital", "R_occipital", "L_middle_frontal", "R_middle_frontal")
    frame = make_parcels("{L}_{p}").assign(
        **{name: draw_values("x_volume", rng) for name in others},
        ASF=rng.normal(1.2, 0.1, N),
        nWBV=rng.normal(0.7, 0.05, N),
        brain_volume_ants=rng.normal(1.1e6, 1e5, N),
    )
    code, values, problems = check_table(frame, tmp_path, "--group", "group")
    assert code == 0, problems
    assert (values["format"], values["regions"]) == ("table", 72)
    assert set(others) <= set(values["region_names"])  # type: ignore[call-overload]
    assert values["aside"]["composite"] == 1  # type: ignore[index]


def test_thickness_under_names_without_a_measure_is_refused_with_a_cure(
    tmp_path: Path,
) -> None:
    frame = make_parcels("{p}_{L}", "thickness")
    code, _, problems = check_table(frame, tmp_path, "--group", "group")
    assert code == 1
    assert "say --measure thickness" in problems
    assert (
        check_table(frame, tmp_path, "--group", "group", "--measure", "thickness")[0]
        == 0
    )


def make_fields(fields: Iterable[int], style: str = "{}-2.0") -> pd.DataFrame:
    rng = np.random.default_rng(0)
    structures = load_codes("ukb_fields")
    columns = {
        style.format(field): draw_values(structures[field][1], rng) for field in fields
    }
    return pd.DataFrame(
        {"eid": range(1_000_001, 1_000_001 + N), "diagnosis": LABELS, **columns}
    )


def list_atlas(*atlases: str) -> list[int]:
    return [
        field
        for field, (atlas, _) in load_codes("ukb_fields").items()
        if atlas in atlases
    ]


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
    assert load_codes("ukb_fields")[field][1] == name


@pytest.mark.parametrize(
    "column", ["26562-2.0", "f.26562.2.0", "X26562.2.0", "x26562_2_0", "p26562_i2"]
)
def test_each_spelling_of_a_field(column: str) -> None:
    assert parse_field(column) == FieldColumn(26562, 2)


@pytest.mark.parametrize(
    "column", ["26562", "MUSE_47", "2020-01.5x", "f.eid", "area 1"]
)
def test_other_names_are_not_fields(column: str) -> None:
    assert parse_field(column) is None


def test_one_atlas_and_one_visit_are_read_at_the_first_try(tmp_path: Path) -> None:
    frame = make_fields(list_atlas("aseg", "desikan", "dkt", "fast"))
    second = make_fields(list_atlas("aseg"), "{}-3.0").drop(
        columns=["eid", "diagnosis"]
    )
    age = {
        "21003-2.0": np.linspace(50, 79, N),
        "31-0.0": [0, 1] * (N // 2),
        "25005-2.0": np.linspace(6e5, 9e5, N),
    }
    frame = pd.concat([frame, second], axis=1).assign(**age)
    options = ["--group", "diagnosis", "--covariates", "21003-2.0,31-0.0,icv"]
    code, values, problems = check_table(frame, tmp_path, *options)
    assert code == 0, problems
    assert (values["format"], values["people"], values["regions"]) == (
        "ukbiobank",
        N,
        87,
    )
    assert (values["icv"], values["unit"]) == ("26521-2.0", "mm3")
    assert {"lh_entorhinal_volume", "Left-Hippocampus"} <= set(values["region_names"])  # type: ignore[call-overload]
    assert values["aside"]["other visit"] == 54  # type: ignore[index]
    assert values["aside"]["other field"] == 1  # type: ignore[index]  # 25005, the whole grey matter


def test_thickness_is_read_on_request(tmp_path: Path) -> None:
    frame = make_fields(list_atlas("desikan"))
    code, values, _ = check_table(
        frame, tmp_path, "--group", "diagnosis", "--measure", "thickness"
    )
    assert (code, values["regions"], values["unit"]) == (0, 66, "mm")


def test_fields_that_are_not_of_the_brain_are_refused_with_a_cure(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    blood = {f"{30_000 + 10 * k}-0.0": rng.gamma(2, 1, N) for k in range(1, 9)}
    frame = pd.DataFrame({"eid": range(N), "diagnosis": LABELS, **blood})
    code, _, problems = check_table(frame, tmp_path, "--group", "diagnosis")
    assert code == 1
    assert (
        "no regions were found. Give fields of brain structures (26514 to" in problems
    )
    assert "--measure any" in problems


def test_models_of_earlier_versions_find_their_columns() -> None:
    frame = make_fields(list_atlas("desikan"))
    layout = detect_layout(frame, ["eid", "diagnosis"])
    model_regions = ("26789-2.0", "lh_entorhinal_volume")
    regions = select_columns(layout, (), None, model_regions, Findings()).regions
    assert (regions["26789-2.0"], regions["26793-2.0"]) == (
        "26789-2.0",
        "lh_entorhinal_volume",
    )
