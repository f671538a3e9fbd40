"""Cells of failed segmentations, from ``check`` to ``apply``, on the command line."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from rindices.cli.main import app
from rindices.experiments.simulate import write_cohort
from tests.cohorts import simulate_few_regions

OPTIONS = ["--covariates", "age,sex,icv", "--group", "group", "--controls", "control"]
FIT = ["--method", "mean-difference", "--members", "5", "--workers", "1", "--no-report"]


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, the same with a outlying measurement and a row that fails, the same with
    both empty, and a study of the first.
    """
    folder = tmp_path_factory.mktemp("wrong")
    write_cohort(simulate_few_regions("small", seed=3), folder)
    table = pd.read_csv(folder / "volumes.csv", index_col=0)
    wrong = table.copy()
    wrong.iloc[4, 6] *= 5.0
    wrong.iloc[200] *= np.resize([0.2, 5.0], table.shape[1])
    wrong.to_csv(folder / "wrong.csv")
    table.iloc[4, 6] = np.nan
    table.iloc[200, 1:] = np.nan
    table.to_csv(folder / "empty.csv")
    fitted = run(
        "fit",
        folder / "volumes.csv",
        "--participants",
        folder / "participants.tsv",
        *OPTIONS,
        *FIT,
        "--out",
        folder / "study",
    )
    assert fitted.exit_code == 0, fitted.output
    return folder


def test_check_names_the_cell_and_the_row(folder: Path) -> None:
    words = ["--participants", folder / "participants.tsv", *OPTIONS]
    table = pd.read_csv(folder / "wrong.csv", index_col=0)
    result = run("check", folder / "wrong.csv", *words)
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert (
        "1 measurement of 1 participant does not fit the other regions of the same participant"
        in text
    )
    assert (
        f"of {table.index[4]} ({float(f'{table.iloc[4, 6]:.4g}'):,.10g}, expected"
        in text
    )
    assert (
        f"regions of 1 person do not fit together: {table.index[200]}; nothing is learnt from them"
        in text
    )
    assert "do not fit" not in run("check", folder / "volumes.csv", *words).output
    assert (
        "not fit"
        not in run("check", folder / "wrong.csv", *words, "--on-outlier", "keep").output
    )
    refused = run("check", folder / "wrong.csv", *words, "--on-outlier", "error")
    assert refused.exit_code == 1
    assert "not ready" in refused.output


def test_fit_treats_outlying_measurements_as_missing_and_writes_them(
    folder: Path, tmp_path: Path
) -> None:
    words = ["--participants", folder / "participants.tsv", *OPTIONS, *FIT]
    fitted = run("fit", folder / "wrong.csv", *words, "--out", tmp_path / "wrong")
    assert fitted.exit_code == 0, fitted.output
    table = pd.read_csv(folder / "wrong.csv", index_col=0)
    cells = pd.read_csv(tmp_path / "wrong" / "outlying_measurements.tsv", sep="\t")
    assert cells.columns.tolist() == ["participant_id", "region", "value", "expected"]
    cell = cells[cells.participant_id == table.index[4]].iloc[0]
    assert (cell["region"], cell["value"]) == (
        "MUSE_116",
        pytest.approx(table.iloc[4, 6]),
    )
    assert cell["expected"] == pytest.approx(table.iloc[4, 6] / 5, rel=0.5)
    assert not (folder / "study" / "outlying_measurements.tsv").exists()
    wrong, clean = (
        pd.read_csv(path / "r_indices.tsv", sep="\t", index_col=0)["r1"]
        for path in (tmp_path / "wrong", folder / "study")
    )
    assert run("report", tmp_path / "wrong").exit_code == 0
    page = (tmp_path / "wrong" / "report.html").read_text("utf-8")
    assert (
        f"{len(cells)} measurements of {cells['participant_id'].nunique()} participants: "
        in page
    )
    assert "They do not fit the other regions of the same participant" in page
    assert f"The 14 of {cells['region'].nunique()} regions with most of them" in page
    assert table.index[4] not in page
    others = ~np.isin(np.arange(len(clean)), [200])
    assert len(wrong) == len(clean)
    assert (
        np.corrcoef(wrong[others], clean[others])[0, 1] > 0.999
    )  # members have other folds
    refused = run(
        "fit",
        folder / "wrong.csv",
        *words,
        "--on-outlier",
        "error",
        "--out",
        tmp_path / "error",
    )
    assert refused.exit_code == 1
    assert "treat them as missing: --on-outlier model" in str(refused.exception)
    again = run("fit", folder / "volumes.csv", *words, "--out", tmp_path / "wrong")
    assert again.exit_code == 0
    assert not (tmp_path / "wrong" / "outlying_measurements.tsv").exists()


def test_apply_treats_outlying_measurements_as_missing_and_keeps_failed_rows(
    folder: Path, tmp_path: Path
) -> None:
    people = ["--participants", folder / "participants.tsv"]
    model, columns = folder / "study" / "model.safetensors", ["r1", "r1_low", "r1_high"]
    tables = {}
    for name, options in {
        "volumes": [],
        "wrong": [],
        "empty": [],
        "keep": ["--on-outlier", "keep"],
    }.items():
        source = folder / f"{'wrong' if name == 'keep' else name}.csv"
        result = run(
            "apply",
            model,
            source,
            *people,
            *options,
            "--out",
            tmp_path / f"{name}.tsv",
            "--workers",
            1,
        )
        assert result.exit_code == 0, result.output
        assert ("not fit the other regions" in result.output) == (name == "wrong")
        tables[name] = pd.read_csv(tmp_path / f"{name}.tsv", sep="\t", index_col=0)
    person, failed = tables["volumes"].index[[4, 200]]
    pd.testing.assert_series_equal(
        tables["wrong"].loc[person, columns], tables["empty"].loc[person, columns]
    )
    clean, kept, emptied = (
        tables[name].loc[person, "r1"] for name in ("volumes", "keep", "wrong")
    )
    assert abs(emptied - clean) < 0.5 * abs(kept - clean)
    assert tables["wrong"].loc[failed, "outside_training_range"]
    others = tables["volumes"].index.difference([person, failed])
    pd.testing.assert_frame_equal(
        tables["wrong"].loc[others, columns], tables["volumes"].loc[others, columns]
    )
    refused = run(
        "apply",
        model,
        folder / "wrong.csv",
        *people,
        "--on-outlier",
        "error",
        "--out",
        tmp_path / "e.tsv",
    )
    assert refused.exit_code == 1
    unknown = run(
        "apply",
        model,
        folder / "wrong.csv",
        *people,
        "--on-outlier",
        "what",
        "--out",
        tmp_path / "e.tsv",
    )
    assert "give model, keep or error" in unknown.output
