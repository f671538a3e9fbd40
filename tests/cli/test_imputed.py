"""Missing covariates on the command line: an error, or imputed on request by fit and
apply.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import rindices as ri
from rindices.cli.main import app
from rindices.experiments.simulate import write_cohort
from tests.cohorts import simulate_few_regions

READ = ["--covariates", "age,sex,icv", "--group", "group", "--controls", "control"]
LACKING = {
    "age": ["sub-001", "sub-150"],
    "sex": ["sub-002"],
    "icv": ["sub-002", "sub-140"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, and its participants of whom four lack a covariate."""
    folder = tmp_path_factory.mktemp("imputed")
    write_cohort(simulate_few_regions("tiny", seed=3), folder)
    people = pd.read_csv(folder / "participants.tsv", sep="\t", dtype=str).set_index(
        "participant_id"
    )
    for name, ids in LACKING.items():
        people.loc[ids, name] = None
    people.to_csv(folder / "holes.tsv", sep="\t", na_rep="n/a")
    words = [
        *READ,
        "--method",
        "contrastive",
        "--patterns",
        "1",
        "--members",
        "5",
        "--workers",
        "1",
        "--no-report",
    ]
    fitted = run(
        folder,
        "fit",
        "holes.tsv",
        *words,
        "--impute-covariates",
        "--out",
        folder / "study",
    )
    assert fitted.exit_code == 0, fitted.output
    assert (
        "2 people have no age: sub-001, sub-150; it is imputed from controls"
        in " ".join(fitted.output.split())
    )
    return folder


def run(folder: Path, command: str, participants: str, *words: object) -> Result:
    tables = [folder / "volumes.csv", "--participants", folder / participants]
    model = [folder / "study" / "model.safetensors"] if command == "apply" else []
    return CliRunner().invoke(
        app, [str(word) for word in (command, *model, *tables, *words)]
    )


def test_without_the_option_people_are_named_and_nothing_is_imputed(
    folder: Path, tmp_path: Path
) -> None:
    for command, words in (
        ("fit", [*READ, "--out", tmp_path / "o"]),
        ("apply", ["--out", tmp_path / "o.csv"]),
    ):
        stopped = run(folder, command, "holes.tsv", *words)
        assert stopped.exit_code == 1
        assert "2 people have no age: sub-001, sub-150" in str(stopped.exception)
        assert "impute them (--impute-covariates)" in str(stopped.exception)


def test_check_says_who_is_imputed_and_that_fit_would_run(folder: Path) -> None:
    assert run(folder, "check", "holes.tsv", *READ).exit_code == 1
    checked = run(folder, "check", "holes.tsv", *READ, "--impute-covariates")
    assert checked.exit_code == 0, checked.output
    assert "1 person has no sex: sub-002; it is imputed from controls" in " ".join(
        checked.output.split()
    )


def test_everyone_has_indices_that_hardly_depend_on_the_imputation(
    folder: Path, tmp_path: Path
) -> None:
    indices = pd.read_csv(
        folder / "study" / "r_indices.tsv", sep="\t", index_col="participant_id"
    )
    assert np.isfinite(indices[["r1", "r1_low", "r1_high", "outlier_score"]]).all(
        axis=None
    )
    assert "impute_covariates = true" in (folder / "study" / "study.toml").read_text(
        "utf-8"
    )
    applied = []
    for name, words in {
        "participants.tsv": (),
        "holes.tsv": ("--impute-covariates",),
    }.items():
        result = run(
            folder,
            "apply",
            name,
            *words,
            "--workers",
            1,
            "--out",
            tmp_path / f"{name}.csv",
        )
        assert result.exit_code == 0, result.output
        applied.append(
            pd.read_csv(tmp_path / f"{name}.csv", index_col="participant_id").loc[
                indices.index, "r1"
            ]
        )
    known, imputed = applied
    others = ~indices.index.isin([person for ids in LACKING.values() for person in ids])
    np.testing.assert_allclose(imputed[others], known[others])
    assert not np.isclose(imputed[~others], known[~others]).any()
    assert np.abs(imputed - known).max() < 0.5


def test_apply_takes_values_from_the_model_and_not_from_the_table(
    folder: Path, tmp_path: Path
) -> None:
    words = ["--impute-covariates", "--workers", 1, "--out"]
    applied = run(folder, "apply", "holes.tsv", *words, tmp_path / "all.csv")
    assert applied.exit_code == 0, applied.output
    assert (
        "2 people have no icv: sub-002, sub-140; it is imputed from controls"
        in " ".join(applied.output.split())
    )
    everyone = pd.read_csv(tmp_path / "all.csv", index_col="participant_id")
    table = pd.read_csv(folder / "volumes.csv", index_col=0)
    table.loc[["sub-002", "sub-150"]].to_csv(tmp_path / "volumes.csv")
    (tmp_path / "study").symlink_to(folder / "study")
    (tmp_path / "holes.tsv").symlink_to(folder / "holes.tsv")
    alone = run(tmp_path, "apply", "holes.tsv", *words, tmp_path / "two.csv")
    assert alone.exit_code == 0, alone.output
    two = pd.read_csv(tmp_path / "two.csv", index_col="participant_id")
    np.testing.assert_allclose(two["r1"], everyone.loc[two.index, "r1"], rtol=1e-9)


def test_python_warns_of_imputed_people(folder: Path) -> None:
    cohort = ri.read_cohort(
        folder / "volumes.csv",
        folder / "holes.tsv",
        group="group",
        controls="control",
        covariates=["age", "sex", "icv"],
        impute_covariates=True,
    )
    with pytest.warns(ri.StudyWarning, match="2 people have no age: sub-001, sub-150"):
        model = ri.fit(cohort, 1, method="contrastive", members=5, workers=1)
    indices = pd.read_csv(folder / "study" / "r_indices.tsv", sep="\t")
    assert model.indices is not None
    np.testing.assert_allclose(model.indices["r1"], indices["r1"])
