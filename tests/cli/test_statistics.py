"""The commands associate and compare, and what the commands of statistics share."""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import rindices as ri
from rindices.analysis.associate import associate_indices
from rindices.analysis.model_columns import ModelInputs, UsedColumns, find_used_columns
from rindices.atomic import write_json
from rindices.cli.main import app
from rindices.cli.statistics import raise_errors, write_results
from rindices.errors import AnalysisError, Findings, ProblemCode, TableError
from rindices.experiments.simulate import write_cohort
from rindices.model.records import CohortRecord
from rindices.study.write import write_patterns
from rindices.tables.cohort import describe_cohort
from tests.analysis.helpers import (
    N_PEOPLE,
    make_clinical_tables,
)
from tests.cohorts import fit_tiny_model, simulate_few_regions

TABLE = pd.DataFrame({"index": ["r1"], "effect": [0.5]})


def test_errors_are_raised_and_other_problems_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    findings = Findings()
    findings.note(ProblemCode.UNIT_UNKNOWN, "the unit is unknown")
    raise_errors(findings)
    assert "note: the unit is unknown." in capsys.readouterr().err
    findings.error(ProblemCode.FILE_EMPTY, "the file is empty")
    with pytest.raises(TableError, match="the file is empty"):
        raise_errors(findings)


@pytest.mark.parametrize("as_json", [True, False])
def test_a_table_is_written_and_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    write_results(TABLE, tmp_path / "regions.tsv", {"seed": 1}, as_json, "one effect")
    assert (tmp_path / "regions.tsv").read_text() == "index\teffect\nr1\t0.5\n"
    assert (tmp_path / "regions.json").is_file()
    output = capsys.readouterr().out
    if as_json:
        expected = {
            "out": str(tmp_path / "regions.tsv"),
            "seed": 1,
            "results": [{"index": "r1", "effect": 0.5}],
        }
        assert json.loads(output) == expected
    else:
        assert output == "one effect\n"


def get_row(table: pd.DataFrame, index: str, variable: str) -> pd.Series:
    return table[(table["index"] == index) & (table["variable"] == variable)].iloc[0]


def test_tables_are_joined_by_id_and_results_equal_the_function(tmp_path: Path) -> None:
    indices, clinical = make_clinical_tables()
    indices.to_csv(tmp_path / "r_indices.tsv", sep="\t", index=False)
    clinical = clinical.rename(columns={"participant_id": "ID"})
    clinical["ID"] = clinical["ID"].str.removeprefix(
        "sub-"
    )  # spelt differently, and in another order
    clinical["tau"] = np.where(
        clinical.index == 5, "<80", (clinical["age"] * 3).round(2).astype(str)
    )
    clinical.to_csv(tmp_path / "clinical.csv", index=False)
    arguments = [
        "associate",
        str(tmp_path / "r_indices.tsv"),
        str(tmp_path / "clinical.csv"),
    ]
    done = CliRunner().invoke(
        app,
        [*arguments, "--covariates", "age", "--out", str(tmp_path / "out"), "--json"],
    )
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    assert "'<80' for sub-" in done.stderr
    assert (value["people"], value["covariates"]) == (
        "all",
        ["age"],
    )  # no groups are known
    written = pd.read_csv(
        tmp_path / "out/associations.tsv",
        sep="\t",
        na_values="n/a",
        keep_default_na=False,
    )
    expected = associate_indices(*make_clinical_tables(), covariates=["age"])
    for index in ("r1", "r2"):
        for name in ("n", "correlation", "p", "low", "high"):
            assert get_row(written, index, "memory")[name] == pytest.approx(
                get_row(expected, index, "memory")[name]
            )
    assert get_row(written, "r1", "tau")["n"] == N_PEOPLE - 1
    assert get_row(written, "r1", "carrier")["level"] == "yes"
    dictionary = json.loads((tmp_path / "out/associations.json").read_text())
    assert set(written.columns) <= set(dictionary)
    assert len(value["results"]) == len(written)


def test_visits_of_a_person_count_once(tmp_path: Path) -> None:
    indices, clinical = make_clinical_tables()
    visits = [
        indices.assign(session_id=session, group="patient")
        for session in ("post", "pre")
    ]
    visits[0]["r1"] = 1.0 - visits[0]["r1"]
    pd.concat(visits).to_csv(tmp_path / "visits.tsv", sep="\t", index=False)
    clinical[5:].to_csv(tmp_path / "clinical.csv", index=False)
    arguments = [
        "associate",
        str(tmp_path / "visits.tsv"),
        str(tmp_path / "clinical.csv"),
        "--variables",
        "memory",
    ]
    done = CliRunner().invoke(
        app, [*arguments, "--out", str(tmp_path / "out"), "--json"]
    )
    assert done.exit_code == 0, done.output
    assert f"the first of several sessions is used for {N_PEOPLE} people" in done.stderr
    assert "5 people with R-indices have no row" in done.stderr
    expected = get_row(
        associate_indices(indices, clinical[5:], variables=["memory"]), "r1", "memory"
    )
    row = json.loads(done.stdout)["results"][0]
    assert (row["n"], row["correlation"]) == (
        expected["n"],
        pytest.approx(expected["correlation"]),
    )
    done = CliRunner().invoke(
        app, [*arguments, "--people", "controls", "--out", str(tmp_path / "out")]
    )
    assert "has no controls: choose all people" in str(done.exception)


def test_named_groups_replace_those_of_the_indices(tmp_path: Path) -> None:
    simulated = ri.simulate_cohort("small", 0)
    write_cohort(simulated, tmp_path)
    people = pd.read_csv(tmp_path / "participants.tsv", sep="\t")
    people["dx"] = np.where(people.index % 3 == 0, "B", "A")
    people.to_csv(tmp_path / "participants.tsv", sep="\t", index=False)
    people[["participant_id", "group"]].assign(r1=0.5).to_csv(
        tmp_path / "r.tsv", sep="\t", index=False
    )
    arguments = [
        "compare",
        str(tmp_path / "r.tsv"),
        str(tmp_path / "volumes.csv"),
        "--participants",
    ]
    arguments += [
        str(tmp_path / "participants.tsv"),
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    for options, controls in (
        ([], "control"),
        (["--group", "dx", "--controls", "B", "--patients", "A"], "B"),
    ):
        done = CliRunner().invoke(app, [*arguments, *options])
        assert done.exit_code == 0, done.output
        number = int(
            (people["group" if controls == "control" else "dx"] == controls).sum()
        )
        assert {row["n_controls"] for row in json.loads(done.stdout)["results"]} == {
            number
        }


def test_codes_for_missing_never_enter_a_correlation(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ids = [f"s{k}" for k in range(60)]
    r1 = rng.random(60)
    score = 20 + 10 * r1 + rng.normal(0, 1, 60)
    indices = pd.DataFrame({"participant_id": ids, "group": "patient", "r1": r1})
    clinical = pd.DataFrame(
        {"participant_id": ids, "ados": np.where(np.arange(60) < 6, -9999, score)}
    )
    clinical["iq"] = np.where(np.arange(60) < 3, -4, rng.integers(70, 130, 60))
    clinical["change"] = rng.integers(-3, 4, 60)
    indices.to_csv(tmp_path / "r.tsv", sep="\t", index=False)
    clinical.to_csv(tmp_path / "c.csv", index=False)
    arguments = [
        "associate",
        str(tmp_path / "r.tsv"),
        str(tmp_path / "c.csv"),
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, AnalysisError)
    message = str(done.exception)
    assert (
        "9 cells in 2 columns may stand for missing: ados (-9999 in 6 cells), iq (-4 in 3 cells)"
        in message
    )
    assert "--missing-codes -9999,-4" in message
    done = CliRunner().invoke(app, [*arguments, "--missing-codes", "-9999,-4"])
    rows = {row["variable"]: row for row in json.loads(done.stdout)["results"]}
    assert (rows["ados"]["n"], rows["iq"]["n"], rows["change"]["n"]) == (54, 57, 60)
    assert rows["ados"]["correlation"] > 0.8
    only_change = CliRunner().invoke(app, [*arguments, "--variables", "change"])
    assert only_change.exit_code == 0
    as_they_are = CliRunner().invoke(app, [*arguments, "--missing-codes", "none"])
    assert (
        abs(
            {row["variable"]: row for row in json.loads(as_they_are.stdout)["results"]}[
                "ados"
            ]["correlation"]
        )
        < 0.5
    )


def test_the_true_regions_have_the_largest_effects(tmp_path: Path) -> None:
    simulated = ri.simulate_cohort("small", 0)
    write_cohort(simulated, tmp_path)
    severities = simulated.severities.rename(
        columns={"s1": "r1", "s2": "r2", "s3": "r3"}
    )
    indices = simulated.cohort.people.merge(severities, how="left").fillna(
        {"r1": 0.0, "r2": 0.0, "r3": 0.0}
    )
    indices.to_csv(tmp_path / "r.tsv", sep="\t", index=False)
    arguments = ["compare", str(tmp_path / "r.tsv"), str(tmp_path / "volumes.csv")]
    arguments += [
        "--participants",
        str(tmp_path / "participants.tsv"),
        "--covariates",
        "age,sex,icv",
    ]
    done = CliRunner().invoke(
        app, [*arguments, "--out", str(tmp_path / "out"), "--json"]
    )
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    table = pd.DataFrame(value["results"])
    written = pd.read_csv(
        tmp_path / "out/regions.tsv", sep="\t", na_values="n/a", keep_default_na=False
    )
    np.testing.assert_allclose(written["effect"], table["effect"])
    truth = simulated.patterns.set_index("region")
    for k in (1, 2, 3):
        high = table[(table["index"] == f"r{k}") & (table["subgroup"] == "high")]
        top = high.nsmallest(14, "effect")["region"]
        assert (truth.loc[top, f"s{k}"] > 0).mean() > 0.75
    people = pd.read_csv(tmp_path / "out/subgroups.tsv", sep="\t")
    assert set(people.columns) == {"participant_id", "index", "subgroup", "range"}
    assert len(people) == table.drop_duplicates(["index", "subgroup"])["n"].sum()
    assert (
        "Description"
        in json.loads((tmp_path / "out/regions.json").read_text())["effect"]
    )


@pytest.fixture(scope="module")
def circular(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, its R-indices, and a table of the same regions and a
    clinical variable.
    """
    folder, cohort = (
        tmp_path_factory.mktemp("circular"),
        simulate_few_regions("tiny", seed=0).cohort,
    )
    model = fit_tiny_model(2)
    assert model.indices is not None
    model.save(folder / "model.safetensors")
    model.indices.to_csv(folder / "r_indices.tsv", sep="\t", index=False)
    write_patterns(folder, model)
    write_json(
        folder / "cohort.json", CohortRecord.of(describe_cohort(cohort), []).to_dict()
    )
    table = pd.concat(
        [cohort.people["participant_id"], cohort.covariates, cohort.volumes], axis=1
    )
    table = table.rename(columns={"age": "Age", "icv": "EstimatedTotalIntraCranialVol"})
    table["301"] = cohort.volumes.sum(axis=1)
    table["memory"] = np.random.default_rng(0).normal(size=len(table))
    table.to_csv(folder / "table.csv", index=False)
    return folder


def run_associate(folder: Path, *options: str) -> tuple[dict[str, Any], str]:
    arguments = [
        "associate",
        str(folder / "r_indices.tsv"),
        str(folder / "table.csv"),
        "--json",
        "--out",
    ]
    result = CliRunner().invoke(
        app, [*arguments, str(folder / "out"), *options], catch_exceptions=False
    )
    return json.loads(result.stdout), result.stderr


def test_regions_of_the_model_are_no_associations(circular: Path) -> None:
    result, messages = run_associate(circular)
    by_variable = {
        row["variable"]: row for row in result["results"] if row["index"] == "r1"
    }
    assert set(by_variable) == {"Age", "sex", "EstimatedTotalIntraCranialVol", "memory"}
    assert [name for name, row in by_variable.items() if row["q"] is not None] == [
        "memory"
    ]
    assert by_variable["Age"]["note"] == "the model adjusts for it: not counted"
    assert by_variable["memory"]["q"] == pytest.approx(
        min(1.0, by_variable["memory"]["q"])
    )
    assert len(result["model_regions"]) == 36
    assert result["model_sums"] == ["301"]
    line = next(
        line for line in messages.splitlines() if "regions of the model" in line
    )
    assert (
        "37 columns are regions of the model or sums of regions (301), from which the R-indices were"
        in line
    )
    assert (
        "the model adjusts for Age, sex, EstimatedTotalIntraCranialVol: listed and not counted"
        in line
    )


def test_a_region_that_is_named_is_listed_and_not_counted(circular: Path) -> None:
    named = pd.read_csv(circular / "table.csv", nrows=0).columns[5]
    result, messages = run_associate(circular, "--variables", f"{named},memory")
    assert {row["variable"] for row in result["results"]} == {named, "memory"}
    assert {row["variable"] for row in result["results"] if row["q"] is not None} == {
        "memory"
    }
    assert {row["note"] for row in result["results"]} == {
        "a region of the model: not counted",
        "",
    }
    assert (
        "1 column is a region of the model, from which the R-indices were computed: listed and not counted"
        in messages
    )


def test_the_model_is_named_or_known_from_its_patterns_or_its_absence_is_said(
    circular: Path, tmp_path: Path
) -> None:
    expected = run_associate(circular)[0]["results"]
    for name in ("r_indices.tsv", "table.csv"):
        shutil.copy(circular / name, tmp_path)
    result, messages = run_associate(tmp_path)
    assert len(result["results"]) == 2 * (36 + 5)
    assert (
        "has no model.safetensors or patterns.tsv of them), so regions that the R-indices were"
        in messages
    )
    assert "Name the model with --model." in messages
    fit_tiny_model(3).save(tmp_path / "model.safetensors")  # of other R-indices
    assert len(run_associate(tmp_path)[0]["results"]) == 2 * (36 + 5)
    (tmp_path / "model.safetensors").unlink()
    model = str(circular / "model.safetensors")
    assert run_associate(tmp_path, "--model", model)[0]["results"] == expected
    for name in ("patterns.tsv", "cohort.json"):
        shutil.copy(circular / name, tmp_path)
    assert run_associate(tmp_path)[0]["results"] == expected


def test_r_indices_of_another_model_are_refused(circular: Path, tmp_path: Path) -> None:
    fit_tiny_model(3).save(tmp_path / "other.safetensors")
    with pytest.raises(
        AnalysisError,
        match=r"has 2 R-indices and the model 3: name the model .* --model",
    ):
        run_associate(circular, "--model", str(tmp_path / "other.safetensors"))


def test_python_takes_the_model_and_warns_without_it(
    circular: Path, caplog: pytest.LogCaptureFixture
) -> None:
    indices = pd.read_csv(circular / "r_indices.tsv", sep="\t")
    table = pd.read_csv(circular / "table.csv")
    found = associate_indices(
        indices, table, model=ri.load(circular / "model.safetensors")
    )
    assert list(found.loc[found["q"].notna(), "variable"].unique()) == ["memory"]
    assert "regions of the model or sums of regions" in caplog.text
    caplog.clear()
    associate_indices(indices, table)
    assert "the model of the R-indices is not given, so regions" in caplog.text
    assert "Name the model with model." in caplog.text
    caplog.clear()
    associate_indices(indices, table[["participant_id", "memory"]])
    assert not caplog.text


def test_other_spellings_of_regions_are_known(shared: Path) -> None:
    columns = list(
        pd.read_csv(shared / "patients" / "psychosis" / "LNM_data.csv", nrows=0)
    )
    inputs = ModelInputs(
        regions=("Left-Thalamus", "lh_G_cuneus_thickness"),
        covariates=("age", "icv", "site"),
        n_patterns=1,
    )
    used = find_used_columns(columns, inputs)
    assert set(used.regions) == {"Left-Thalamus-Proper", "lh_G_cuneus_thickness"}
    assert used.sums == (
        "SubCortGrayVol",
        "TotalGrayVol",
        "SupraTentorialVol",
        "SupraTentorialVolNotVent",
    )
    assert set(used.covariates) == {"age", "EstimatedTotalIntraCranialVol", "site"}
    muse = ["ID", "702", "701", *map(str, (23, 30, 31, 32, 35, 36, 37, 47, 48, 55, 56))]
    used = find_used_columns(
        muse,
        ModelInputs(
            regions=("MUSE_47+MUSE_48", "MUSE_47", "MUSE_48", "MUSE_35"),
            covariates=("icv",),
            n_patterns=2,
        ),
    )
    assert used == UsedColumns(("35", "47", "48"), ("701",), ("702",))


@pytest.mark.usefixtures("no_pictures")
def test_a_report_does_not_count_regions_that_an_earlier_version_listed(
    tmp_path: Path,
) -> None:
    cohort = simulate_few_regions("tiny", seed=0).cohort
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ri.StudyWarning)
        model = ri.fit(
            cohort, 2, members=2, method="contrastive", workers=1, out=tmp_path
        )
    region = model.regions[0]
    rows = [
        ("r1", region, "pearson", "n/a", 120, -0.81, -0.85, -0.75, 1e-9, 2e-9, "n/a"),
        ("r1", "age", "pearson", "n/a", 120, -0.31, -0.55, -0.15, 1e-4, 2e-4, "n/a"),
        ("r1", "memory", "pearson", "n/a", 120, -0.21, -0.35, -0.05, 0.03, 0.04, "n/a"),
        ("r1", "mood", "pearson", "n/a", 120, 0.05, -0.13, 0.23, 0.6, 0.6, "n/a"),
    ]
    columns = [
        "index",
        "variable",
        "kind",
        "level",
        "n",
        "correlation",
        "low",
        "high",
        "p",
        "q",
        "note",
    ]
    pd.DataFrame(rows, columns=columns).to_csv(
        tmp_path / "associations.tsv", sep="\t", index=False
    )
    text = ri.write_report(tmp_path).read_text("utf-8")
    section = text.partition('id="associations"')[2].partition("</section>")[0]
    table = section.partition("<tbody>")[2]
    assert region not in table
    assert 'class="sure"' not in table  # 0.03 twice is 0.06
    assert "0.060" in table
    assert table.count("not counted</td>") == 1
    assert "Regions of the model are not listed" in section
