"""Tables of real patients are read as they are: what is odd about them is named."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rindices.cli.main import app


@pytest.fixture
def patients(shared: Path) -> Path:
    if not (shared / "patients").is_dir():
        pytest.skip(
            f"the tables of real patients are not beside the project ({shared / 'patients'})"
        )
    return shared / "patients"


def check(*arguments: object) -> tuple[dict[str, Any], str]:
    done = CliRunner().invoke(app, ["check", *map(str, arguments), "--json"])
    value = json.loads(done.stdout)
    return value, "\n".join(
        f"{problem['what']}. {problem['cure']}" for problem in value["problems"]
    )


def test_psychosis_has_two_visits_two_measures_and_ventricles(patients: Path) -> None:
    table = patients / "psychosis/LNM_data.csv"
    value, text = check(table, "--group", "group", "--covariates", "age,sex,icv")
    assert (value["ready"], value["controls"], value["patients"]) == (True, 67, 98)
    assert value["units"] == {"thickness": "mm", "volume": "mm3"}
    assert value["measures"] == {"thickness": 148, "volume": 21}
    assert "patterns are learnt from 330 scans of 165 people" in text
    assert "9 of ventricles or fluid" in text
    thickness, _ = check(table, "--group", "group", "--measure", "thickness")
    assert (thickness["regions"], thickness["unit"]) == (148, "mm")
    with_ventricles, _ = check(table, "--group", "group", "--include", "ventricles")
    assert with_ventricles["regions"] == 175


def test_autism_has_another_id_column_codes_and_a_faulty_head_size(
    patients: Path,
) -> None:
    people = patients / "autism/Phenotypic_V1_0b_preprocessed1.csv"
    options = [
        "--participants",
        people,
        "--group",
        "DX_GROUP",
        "--controls",
        "2",
        "--patients",
        "1",
    ]
    value, text = check(
        patients / "autism/stats/aseg_table.tsv",
        *options,
        "--covariates",
        "AGE_AT_SCAN,FIQ",
    )
    assert (value["controls"], value["patients"], value["ready"]) == (530, 505, False)
    assert "column 'FILE_ID' holds the ids" in text
    assert "227 of 1,035 people have an ICV below SupraTentorialVol" in text
    assert "35 cells of covariate FIQ may hold codes for missing" in text
    options += [
        "--missing-codes",
        "-9999",
        "--on-missing",
        "drop",
        "--covariates",
        "AGE_AT_SCAN,FIQ",
        "--site",
        "none",
    ]
    value, text = check(patients / "autism/stats/aseg_table.tsv", *options)
    assert (value["ready"], value["people"]) == (True, 966)
    assert "69 people have no FIQ" in text


def test_depression_is_a_table_of_thickness(patients: Path) -> None:
    table = patients / "depression/openneuro_main.csv"
    _, text = check(table, "--covariates", "age,sex", "--site", "site")
    assert "say --measure thickness if thickness is meant" in text
    value, _ = check(
        table, "--covariates", "age,sex", "--site", "site", "--measure", "thickness"
    )
    assert (value["ready"], value["controls"], value["patients"], value["unit"]) == (
        True,
        59,
        62,
        "mm",
    )
