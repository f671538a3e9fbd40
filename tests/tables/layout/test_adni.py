"""Codes of the UCSF FreeSurfer tables of ADNI are read as structures of FreeSurfer."""

from pathlib import Path

import numpy as np
import pandas as pd

from rindices.tables.layout.adni import load_structures, name_structures
from tests.tables.helpers import write_table
from tests.tables.layout.helpers import LABELS, N, check_table, draw_values

EMPTY_CODES = (8, 19, 20, 78, 79)


def make_ucsffsx() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    columns: dict[str, object] = {"COLPROT": "ADNI2", "RID": range(1, N + 1), "VISCODE": "bl", "IMAGEUID": range(N)}
    for code, name in load_structures().items():
        is_parcel = name.startswith(("lh_", "rh_"))
        for letters in ("CV", "SA", "TA", "TS") if is_parcel else ("CV",) if code in (10, 28, 87) else ("SV",):
            values = draw_values(f"{name}_thickness" if letters[0] == "T" else name, rng)
            columns[f"ST{code}{letters}"] = np.nan if code in EMPTY_CODES else values
    return pd.DataFrame({**columns, "ST131HS": 300.0, "OVERALLQC": "Pass", "update_stamp": "2015-11-02"})


def write_people(folder: Path) -> Path:
    people = {"RID": range(1, N + 1), "AGE": np.linspace(55, 85, N), "PTGENDER": ["Male", "Female"] * (N // 2)}
    return write_table(pd.DataFrame({**people, "DX": LABELS}), folder / "people.csv")


def test_codes_are_those_of_the_data_dictionary() -> None:
    codes = ["ST24CV", "ST83TA", "ST29SV", "ST88SV", "ST130SA", "ST10CV", "ST24TS", "ST131HS", "ST37SV"]
    names, aside = name_structures([*codes, "STATUS", "ST"])
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
    columns = ["ST24CV_UCSFFSX_11_02_15", "ST29SV_UCSFFSX_11_02_15", "ST24CV_UCSFFSL_02_01_16"]
    names, aside = name_structures(columns)
    assert (list(names), aside) == (columns[:2], {"other version": columns[2:]})


def test_ucsffsx_is_read_at_the_first_try(tmp_path: Path) -> None:
    options = ["--participants", str(write_people(tmp_path)), "--group", "DX", "--covariates", "AGE,PTGENDER,icv"]
    code, values, problems = check_table(make_ucsffsx(), tmp_path, *options)
    assert code == 0, problems
    assert (values["format"], values["people"], values["regions"]) == ("adni", N, 89)
    assert (values["icv"], values["unit"]) == ("ST10CV", "mm3")
    assert values["aside"]["ventricle"] == 9  # type: ignore[index]
    assert values["aside"]["empty"] == len(EMPTY_CODES)  # type: ignore[index]


def test_thickness_and_ventricles_are_read_on_request(tmp_path: Path) -> None:
    options = ["--participants", str(write_people(tmp_path)), "--group", "DX"]
    code, values, _ = check_table(make_ucsffsx(), tmp_path, *options, "--measure", "thickness")
    assert (code, values["regions"], values["unit"]) == (0, 68, "mm")
    _, values, _ = check_table(make_ucsffsx(), tmp_path, *options, "--include", "ventricles")
    assert {"Left-Lateral-Ventricle", "3rd-Ventricle"} <= set(values["region_names"])  # type: ignore[call-overload]


def test_a_table_without_structures_is_refused_with_a_cure(tmp_path: Path) -> None:
    frame = make_ucsffsx()[["RID", "VISCODE", "OVERALLQC"]].assign(AGE=np.linspace(50, 80, N), DX=LABELS)
    code, _, problems = check_table(frame, tmp_path, "--group", "DX")
    assert code == 1
    assert "no regions were found. If it describes participants, give it with --participants" in problems
