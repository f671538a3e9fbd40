"""What the program decides about a table by itself is the same in check and fit, and is
said.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from rindices.cli.main import app

N = 60


def make_table(**columns: object) -> pd.DataFrame:
    """Return 30 controls and 30 patients with age, sex and six regions."""
    rng = np.random.default_rng(0)
    people = {
        "participant_id": [f"sub-{k:02d}" for k in range(N)],
        "age": rng.uniform(50, 80, N).round(1),
    }
    people |= {
        "sex": ["F", "M"] * (N // 2),
        "group": ["control"] * 30 + ["patient"] * 30,
    }
    regions = {f"region{k}": rng.normal(4000, 300, N).round(1) for k in range(6)}
    return pd.DataFrame({**people, **regions}).assign(**columns)


def run(command: str, table: pd.DataFrame, folder: Path, *options: str) -> Result:
    path = folder / "table.csv"
    table.to_csv(path, index=False)
    return CliRunner().invoke(app, [command, str(path), *options])


def check(table: pd.DataFrame, folder: Path, *options: str) -> dict[str, str]:
    """Return the messages of check by code, with the verdict as ``ready``."""
    answer = json.loads(run("check", table, folder, "--json", *options).stdout)
    messages = {
        each["code"]: f"{each['severity']}: {each['what']} {each['cure']}"
        for each in answer["problems"]
    }
    return messages | {
        "ready": str(answer["ready"]),
        "covariates": ",".join(answer["covariates"]),
    }


def fit_plan(table: pd.DataFrame, folder: Path, *options: str) -> str:
    result = run(
        "fit", table, folder, "--out", str(folder / "out"), "--dry-run", *options
    )
    return f"{result.output} {result.exception or ''}"


@pytest.mark.parametrize(
    ("options", "covariates"), [((), "age,sex,icv"), (("--covariates", "none"), "")]
)
def test_fit_adjusts_for_the_covariates_that_check_lists(
    tmp_path: Path, options: tuple[str, ...], covariates: str
) -> None:
    table = make_table(eTIV=np.random.default_rng(1).normal(1.5e6, 1e5, N).round())
    messages = check(table, tmp_path, *options)
    assert messages["covariates"] == covariates
    few = [
        "--method",
        "contrastive",
        "--members",
        "2",
        "--patterns",
        "1",
        "--no-report",
    ]
    result = run("fit", table, tmp_path, "--out", str(tmp_path / "out"), *few, *options)
    record = json.loads((tmp_path / "out" / "cohort.json").read_text("utf-8"))
    assert ",".join(each["name"] for each in record["covariates"]) == covariates
    assert ("adjusted for age, sex, icv" in result.output) == bool(covariates)


def test_head_size_that_nobody_named_is_not_used_for_thickness(tmp_path: Path) -> None:
    table = make_table(eTIV=1.5e6 + np.arange(N)).rename(
        columns=lambda name: name.replace("region", "lh_x_thickness")
    )
    regions = [name for name in table if name.startswith("lh_")]
    table[regions] /= 1600
    assert check(table, tmp_path, "--measure", "thickness")["covariates"] == "age,sex"


def test_a_column_of_sites_is_used_and_said(tmp_path: Path) -> None:
    table = make_table(scanner=["a", "a", "b", "b"] * 15)
    assert (
        "holds 2 sites, whose effects are removed"
        in check(table, tmp_path)["sites_used"]
    )
    assert "holds 2 sites, whose effects are removed" in fit_plan(table, tmp_path)
    assert "sites_used" not in check(table, tmp_path, "--site", "none")
    assert "sites_used" not in check(make_table(scanner="a"), tmp_path)


def test_groups_that_share_no_site_are_refused(tmp_path: Path) -> None:
    table = make_table(site=["A"] * 30 + ["B"] * 30)
    messages = check(table, tmp_path)
    assert messages["site_separates_groups"].startswith(
        "error: controls and patients share no site"
    )
    assert "controls are of A, patients of B" in messages["site_separates_groups"]
    assert "share no site" in fit_plan(table, tmp_path)
    assert check(table, tmp_path, "--site", "none")["site_separates_groups"].startswith(
        "warning"
    )


def test_sites_are_left_out_by_name(tmp_path: Path) -> None:
    table = make_table(site=["A", "A", "B", "B"] * 15)
    table.loc[0, "site"] = "Pittsburgh"
    assert "Pittsburgh has one control" in str(check(table, tmp_path).values())
    assert check(table, tmp_path, "--leave-out-site", "Pittsburgh")["ready"] == "True"
    assert (
        "there is no site 'C'"
        in check(table, tmp_path, "--leave-out-site", "C")["unknown_site"]
    )


@pytest.mark.parametrize("labels", [(0, 1), (1, 2), (-1, 1)])
def test_numbers_as_labels_always_ask(tmp_path: Path, labels: tuple[int, int]) -> None:
    table = make_table(group=[labels[0]] * 30 + [labels[1]] * 30)
    one, other = sorted(map(str, labels))
    choice = (
        f"--controls {one} --patients {other}, or --controls {other} --patients {one}"
    )
    assert choice in check(table, tmp_path, "--group", "group")["labels_unclear"]
    assert choice in fit_plan(table, tmp_path)


def test_minus_one_is_a_control_in_the_layout_of_surrealgan(tmp_path: Path) -> None:
    table = (
        make_table().rename(columns={"group": "diagnosis"}).drop(columns=["age", "sex"])
    )
    table["diagnosis"] = [-1] * 30 + [1] * 30
    assert (
        "controls are -1 (30) and patients are 1 (30)"
        in check(table, tmp_path)["labels_guessed"]
    )


@pytest.mark.parametrize(
    "label",
    ["\uff43\uff4f\uff4e\uff54\uff52\uff4f\uff4c", "control\u00a0", "con\u200btrol"],
)
def test_unusual_characters_of_labels_are_folded(tmp_path: Path, label: str) -> None:
    table = make_table()
    table.loc[:4, "group"] = label
    messages = check(
        table, tmp_path, "--group", "group", "--controls", "control", "--patients", "*"
    )
    assert (
        "controls are control (30) and patients are patient (30)"
        in messages["labels_guessed"]
    )


def test_one_dash_is_like_another(tmp_path: Path) -> None:
    table = make_table(group=["-1"] * 25 + ["\u22121"] * 5 + ["1"] * 30)
    messages = check(
        table, tmp_path, "--group", "group", "--controls=-1", "--patients", "*"
    )
    assert "controls are -1 (30)" in messages["labels_guessed"]


def test_labels_of_two_scripts_are_refused(tmp_path: Path) -> None:
    table = make_table()
    table.loc[:4, "group"] = "c\u043entrol"
    messages = check(
        table, tmp_path, "--group", "group", "--controls", "control", "--patients", "*"
    )
    assert messages["mixed_scripts"].startswith("error")
    assert check(
        make_table(group=["A\u03b2-"] * 30 + ["A\u03b2+"] * 30),
        tmp_path,
        "--controls",
        "A\u03b2-",
    )["ready"]


def test_repeated_ids_are_first_advised_to_be_unique(tmp_path: Path) -> None:
    table = make_table(dataset=["one", "two"] * 30, sex=["F", "F", "M", "M"] * 15)
    table["participant_id"] = [f"sub-{k // 2}" for k in range(N)]
    advice = check(table, tmp_path)["duplicate_ids"]
    assert advice.index("--id dataset,participant_id") < advice.index(
        "--session dataset"
    )
    assert check(table, tmp_path, "--id", "dataset,participant_id")["ready"] == "True"
    assert (
        "ages of"
        in check(table, tmp_path, "--session", "dataset")["contradictory_visits"]
    )
    assert "duplicate_ids" not in check(table, tmp_path, "--session", "dataset")


def test_strangers_of_many_studies_are_not_visits(shared: Path) -> None:
    path = str(shared / "patients/openneuro/openneuro_freesurfer.csv")
    result = CliRunner().invoke(app, ["check", path, "--session", "dataset"])
    assert result.exit_code == 1
    assert "have two sexes" in result.output


def test_missing_cells_that_depend_on_the_group_are_a_warning(tmp_path: Path) -> None:
    table = make_table()
    table.loc[30:44, "region2"] = np.nan
    messages = check(table, tmp_path)
    assert (
        "0.0% of the cells of controls, 8.3% of patients"
        in messages["missing_by_group"]
    )
    assert (
        "region2 is missing in 0% of controls and 50% of patients"
        in messages["missing_by_group"]
    )
    assert "missing cells depend on the group" in fit_plan(table, tmp_path)


def test_cells_missing_at_random_seldom_warn(tmp_path: Path) -> None:
    rng, warned = np.random.default_rng(0), 0
    for _ in range(20):
        table = make_table()
        regions = [name for name in table if name.startswith("region")]
        table[regions] = table[regions].mask(rng.random((N, 6)) < 0.1)
        warned += "missing_by_group" in check(table, tmp_path)
    assert warned <= 1


def test_unequal_sexes_are_a_warning_and_small_size_is_one(tmp_path: Path) -> None:
    table = make_table(sex=["F"] * 24 + ["M"] * 6 + ["F"] * 6 + ["M"] * 24)
    result = run("check", table, tmp_path)
    assert "sex is F in 80% of controls and 20% of patients" in result.output
    assert result.output.count("a small study (30 controls and 30 patients)") == 1
    assert "unequal_sexes" not in check(make_table(), tmp_path)


def test_ages_that_hardly_overlap_are_a_warning(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    controls, patients = rng.uniform(50, 60, 30), rng.uniform(50, 60, 30)
    assert "ages_apart" not in check(make_table(age=[*controls, *patients]), tmp_path)
    older = make_table(age=[*controls, *(patients + 8)])
    advice = check(older, tmp_path)["ages_apart"]
    assert (
        "of patients have an age that is common among controls (50 to 60 years)"
        in advice
        or "(51 to" in advice
    )
    assert "give controls of the patients' ages" in fit_plan(older, tmp_path)


def test_check_knows_the_options_of_a_table_that_fit_has() -> None:
    texts = {
        name: CliRunner().invoke(app, [name, "--help"], terminal_width=200).output
        for name in ("check", "fit")
    }
    for option in (
        "--visits",
        "--leave-out-site",
        "--covariates",
        "--site",
        "--impute-covariates",
        "--method",
    ):
        assert option in texts["check"]
        assert option in texts["fit"]


def test_participants_who_contradict_the_table_are_said(tmp_path: Path) -> None:
    people = make_table()[["participant_id", "age", "sex", "group"]]
    people.assign(age=people["age"][::-1].to_numpy()).to_csv(
        tmp_path / "people.csv", index=False
    )
    messages = check(
        make_table(), tmp_path, "--participants", str(tmp_path / "people.csv")
    )
    assert (
        "age differs from table.csv for 60 people" in messages["contradictory_columns"]
    )
