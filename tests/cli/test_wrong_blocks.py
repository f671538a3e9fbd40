"""Tables in which a whole block is wrong: named by check, refused by fit, and kept
where the user says so.
"""

import json
import logging
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rindices as ri
from rindices.cli.check import _print_result
from rindices.errors import Problem, ProblemCode, Severity, TableError
from rindices.model.records import ArtefactKind
from rindices.study.artefacts import find_artefacts
from rindices.study.config import make_study
from rindices.study.study import Study
from rindices.tables.options import TableOptions
from rindices.tables.readers import make_request
from rindices.tables.validate import validate_table
from tests.cli.test_outlying_measurements import run
from tests.tables.checks.people import People, simulate_people

GROUPS = ("--group", "group", "--controls", "control")


def write(people: People, folder: Path, name: str) -> Path:
    path = folder / f"{name}.csv"
    pd.concat([people.participants, people.volumes], axis=1).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def people() -> People:
    return simulate_people(1)


@pytest.fixture(scope="module")
def tables(people: People, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, rows = tmp_path_factory.mktemp("tables"), people.is_b
    shifted = np.roll(people.volumes[rows].to_numpy(), 1, axis=0)
    return {
        "sound": write(people, folder, "sound"),
        "scaled": write(
            people.change(rows, people.volumes[rows] * 0.296), folder, "scaled"
        ),
        "shifted": write(people.change(rows, shifted), folder, "shifted"),
    }


def test_json_names_the_block(tables: dict[str, Path]) -> None:
    result = run("check", tables["scaled"], *GROUPS, "--json")
    problems = json.loads(result.stdout)["problems"]
    (block,) = [each["block"] for each in problems if each["code"] == "suspect_factor"]
    assert "B" in block


def test_check_and_fit_say_nothing_of_a_sound_table(tables: dict[str, Path]) -> None:
    result = run("check", tables["sound"], *GROUPS)
    assert result.exit_code == 0, result.output
    assert "on-suspect" not in result.output


def test_a_scaled_site_is_named_and_refused(
    tables: dict[str, Path], tmp_path: Path
) -> None:
    result = run("check", tables["scaled"], *GROUPS)
    text = " ".join(result.output.split())
    assert result.exit_code == 1
    assert (
        "volumes of one site were multiplied by 0.296 after rounding: B (70 people);"
        in text
    )
    assert "voxels of 1.5 mm instead of mm3" in text
    assert (
        "or go on all the same (--on-suspect keep). To leave the site out: --leave-out-site B"
        in text
    )
    refused = run("fit", tables["scaled"], *GROUPS, "--out", tmp_path / "study")
    assert refused.exit_code == 1
    assert "volumes of one site were multiplied" in " ".join(
        str(refused.exception).split()
    )


@pytest.mark.parametrize("words", [("--on-suspect", "keep"), ("--leave-out-site", "B")])
def test_the_printed_options_go_on(
    tables: dict[str, Path], words: tuple[str, str]
) -> None:
    result = run("check", tables["scaled"], *GROUPS, *words)
    assert result.exit_code == 0, result.output


def test_a_shifted_site_is_a_warning(tables: dict[str, Path]) -> None:
    result = run("check", tables["shifted"], *GROUPS)
    text = " ".join(result.output.split())
    assert result.exit_code == 0
    assert (
        "regions of one site belong to other people than age, sex and head size"
        in text.replace(", head", " and head")
    )
    assert "they fit the row above" in text


def test_python_speaks_of_arguments(
    tables: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(TableError, match='on_suspect="keep"'):
        ri.read_cohort(tables["scaled"], group="group", controls="control")
    with caplog.at_level(logging.WARNING):
        cohort = ri.read_cohort(
            tables["scaled"], group="group", controls="control", on_suspect="keep"
        )
    assert "volumes of one site were multiplied" in caplog.text
    assert [problem.code for problem in cohort.suspicions] == [
        ProblemCode.SUSPECT_FACTOR
    ]
    with pytest.raises(TableError, match="on_suspect = 'what' is not known"):
        ri.read_cohort(
            tables["scaled"], group="group", controls="control", on_suspect="what"
        )


def test_a_study_says_it_beside_its_finding(tables: dict[str, Path]) -> None:
    cohort = ri.read_cohort(tables["shifted"], group="group", controls="control")
    values = {
        "data": {"volumes": "memory"},
        "model": {"method": "mean-difference"},
        "run": {"workers": 1},
    }
    signs = find_artefacts(Study(cohort, make_study(values, "fit")))
    assert [sign.what for sign in signs if sign.kind is ArtefactKind.TABLE] == [
        cohort.suspicions[0].summary
    ]
    assert "B" not in cohort.suspicions[0].summary.split()


def test_rows_of_means_with_a_group(people: People, tmp_path: Path) -> None:
    means = people.volumes.groupby(people.participants["group"]).mean().round(2)
    added = pd.DataFrame(
        {"participant_id": ["P-all", "C-all"], "group": ["patient", "control"]}
    )
    added = added.assign(site="A", age=50.0, sex="F", icv=1.4e6)
    frames = [pd.concat([people.volumes, means.loc[added["group"]]], ignore_index=True)]
    frames.insert(0, pd.concat([people.participants, added], ignore_index=True))
    path = tmp_path / "means.csv"
    pd.concat(frames, axis=1).to_csv(path, index=False)
    result = run("check", path, *GROUPS)
    text = " ".join(result.output.split())
    assert result.exit_code == 1
    assert "2 rows are rows of means and no person: P-all, C-all;" in text
    assert "--exclude-people P-all,C-all" in text
    assert run("check", path, *GROUPS, "--exclude-people", "P-all,C-all").exit_code == 0


def test_rows_that_are_named_as_a_summary(people: People, tmp_path: Path) -> None:
    named = people.participants["participant_id"].replace(
        {"sub-0007": "Mean", "sub-0008": "SD"}
    )
    result = run(
        "check",
        write(people.rename("participant_id", named), tmp_path, "summary"),
        *GROUPS,
    )
    assert result.exit_code == 1
    assert "2 rows are named as a summary and not as a person: Mean, SD" in " ".join(
        result.output.split()
    )


def test_the_page_shows_each_suspect_block(
    tables: dict[str, Path], tmp_path: Path
) -> None:
    page = tmp_path / "check.html"
    run("check", tables["scaled"], *GROUPS, "--report", page)
    text = page.read_text("utf-8")
    assert text.count("<figure>") == 1
    assert "multiplied by 0.296 after rounding: B (70 people)" in text
    assert not page.stat().st_mode & 0o007
    run("check", tables["sound"], *GROUPS, "--report", page)
    assert "<figure>" not in page.read_text("utf-8")


def test_a_terminal_shows_a_screen_and_the_verdict(
    tables: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = validate_table(
        make_request(tables["scaled"], None, TableOptions(covariates=(), site="none"))
    )
    result = replace(
        result,
        problems=(
            *result.problems,
            *[Problem(severity=Severity.NOTE, what="text " * 20)] * 30,
        ),
    )
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((100, 24)))
    _print_result(result, is_complete=False)
    out, err = capsys.readouterr()
    n_lines = sum(
        -(-len(line) // 100) for line in [*out.splitlines(), *err.splitlines()]
    )
    assert n_lines <= 24
    assert out.startswith("verdict  not ready: see the errors below\n")
    assert "add --all" in err


def test_columns_that_are_not_used_are_named(people: People, tmp_path: Path) -> None:
    extra = people.rename("education", 12.0).rename("Genotype", "E3")
    result = run("check", write(extra, tmp_path, "columns"), *GROUPS)
    listed = next(
        line
        for line in result.output.splitlines()
        if line.strip().startswith("about people")
    )
    assert "education" in listed
    assert "Genotype" in listed


def test_a_scanner_that_separates_the_groups(people: People, tmp_path: Path) -> None:
    is_patient = people.participants["group"] == "patient"
    models = np.where(is_patient, "Siemens Prisma", "GE Signa")
    result = run(
        "check", write(people.rename("mri_model", models), tmp_path, "model"), *GROUPS
    )
    assert result.exit_code == 1
    assert "share no value of column 'mri_model'" in " ".join(result.output.split())
    shared = np.where(np.arange(280) % 3 == 0, "Siemens Prisma", "GE Signa")
    assert (
        run(
            "check",
            write(people.rename("mri_model", shared), tmp_path, "shared"),
            *GROUPS,
        ).exit_code
        == 0
    )


def test_ids_tell_blocks_apart(people: People, tmp_path: Path) -> None:
    ids = (
        people.participants["site"].map(
            {"A": "HH", "B": "Guys", "C": "IOP", "D": "UCL"}
        )
        + "-"
    )
    named = People(people.volumes, people.participants.drop(columns="site"))
    named = named.rename(
        "participant_id", ids + people.participants["participant_id"].str[4:]
    )
    swapped = people.volumes[people.is_b].to_numpy()
    swapped = swapped.reshape(len(swapped), -1, 2)[:, :, ::-1].reshape(swapped.shape)
    result = run(
        "check", write(named.change(people.is_b, swapped), tmp_path, "ids"), *GROUPS
    )
    assert (
        "left and right of people with one kind of ID are exchanged: Guys (70 people)"
        in " ".join(result.output.split())
    )


def test_shared_ids_and_files_are_blocks(people: People, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    folder = tmp_path / "parts"
    folder.mkdir()
    order = np.argsort(np.arange(280) % 2, kind="stable")
    mixed = people.order(order)
    frame = pd.concat([mixed.participants, mixed.volumes], axis=1)
    values = np.roll(frame[people.volumes.columns].to_numpy()[140:], 1, axis=1)
    frame.loc[140:, people.volumes.columns] = values
    frame[:140].to_parquet(folder / "a.parquet")
    frame[140:].to_parquet(folder / "b.parquet")
    text = " ".join(run("check", folder, *GROUPS).output.split())
    assert "of one file hold the values of the column 1 further left" in text
