"""Tables with missing cells and regions, from ``check`` to ``apply``, on the command
line.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import rindices as ri
from rindices.cli.main import app
from rindices.errors import ProblemCode
from rindices.experiments.simulate import write_cohort
from rindices.selection.agreement import pattern_c_index
from tests.cohorts import simulate_few_regions
from tests.sums.sites import simulate_study

READ = ["--participants", "participants.tsv", "--covariates", "age,sex,icv"]
GROUP = ["--group", "group", "--controls", "control"]


def run(folder: Path, *words: object) -> Result:
    arguments = [
        str(folder / word) if str(word) in FILES else str(word) for word in words
    ]
    return CliRunner().invoke(app, arguments)


FILES = {
    "volumes.csv",
    "holes.csv",
    "fewer.csv",
    "participants.tsv",
    "model.safetensors",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, the same with holes, with missing regions, and a model of the table with
    holes.
    """
    folder = tmp_path_factory.mktemp("missing")
    simulated = simulate_few_regions("small", seed=3)
    write_cohort(simulated, folder)
    table = pd.read_csv(folder / "volumes.csv", index_col=0)
    rng = np.random.default_rng(0)
    is_hole = (rng.random(table.shape) < 0.1) & (np.arange(len(table)) % 4 == 0)[
        :, None
    ]
    holes = table.mask(is_hole)
    holes.iloc[7] = table.iloc[7]
    holes.iloc[7, :35] = np.nan  # a person who has one region
    holes.to_csv(folder / "holes.csv")
    table.drop(columns=table.columns[:5]).to_csv(folder / "fewer.csv")
    cohort = ri.read_cohort(
        folder / "holes.csv",
        folder / "participants.tsv",
        group="group",
        controls=["control"],
        covariates=["age", "sex", "icv"],
    )
    assert (len(cohort), cohort.volumes.isna().to_numpy().any()) == (349, True)
    model = ri.fit(
        cohort, 3, members=5, workers=1, method_settings={"shape": "proportional"}
    )
    model.save(folder / "model.safetensors")
    indices = model.apply(cohort)
    everyone = simulated.cohort.people.participant_id[simulated.cohort.is_patient]
    truth = simulated.truth[everyone.isin(cohort.people.participant_id).to_numpy()]
    found = indices[cohort.is_patient][["r1", "r2", "r3"]].to_numpy()
    assert pattern_c_index(truth, found).mean > 0.85
    return folder


def test_check_and_fit_use_the_cells_that_people_have(
    folder: Path, tmp_path: Path
) -> None:
    checked = run(folder, "check", "holes.csv", *READ, *GROUP)
    assert checked.exit_code == 0
    assert "cells are missing" in checked.output
    assert (
        "1 person has fewer than half of the regions: sub-008; left out"
        in checked.output
    )
    words = [
        "fit",
        "holes.csv",
        *READ,
        *GROUP,
        "--method",
        "contrastive",
        "--patterns",
        "3",
        "--members",
        "5",
    ]
    fitted = run(
        folder, *words, "--workers", 1, "--no-report", "--out", tmp_path / "study"
    )
    assert fitted.exit_code == 0, fitted.output
    indices = pd.read_csv(tmp_path / "study" / "r_indices.tsv", sep="\t")
    assert len(indices) == 349
    assert np.isfinite(indices[["r1", "r2", "r1_low", "r1_high", "outlier_score"]]).all(
        axis=None
    )
    stopped = run(folder, *words, "--on-missing", "error", "--out", tmp_path / "other")
    assert stopped.exit_code == 1
    assert "people have a missing region" in str(stopped.exception)


def test_a_table_in_which_nobody_is_complete_is_fitted(tmp_path: Path) -> None:
    simulated = simulate_study()
    lacks = np.random.default_rng(0).integers(
        len(simulated.cohort.volumes.columns), size=len(simulated.cohort)
    )
    volumes = simulated.cohort.volumes.mask(
        np.arange(simulated.cohort.volumes.shape[1]) == lacks[:, None]
    )
    write_cohort(
        replace(simulated, cohort=replace(simulated.cohort, volumes=volumes)), tmp_path
    )
    words = [
        "fit",
        "volumes.csv",
        *READ,
        *GROUP,
        "--patterns",
        2,
        "--members",
        5,
        "--workers",
        1,
        "--no-report",
    ]
    fitted = run(tmp_path, *words, "--out", tmp_path / "study")
    assert fitted.exit_code == 0, fitted.exception
    indices = pd.read_csv(tmp_path / "study" / "r_indices.tsv", sep="\t")
    assert (len(indices), indices["r1"].isna().sum()) == (350, 0)


def test_intervals_are_wider_where_regions_are_missing(
    folder: Path, tmp_path: Path
) -> None:
    widths = {}
    for table in ("volumes.csv", "fewer.csv"):
        out = tmp_path / "out.csv"
        result = run(
            folder,
            "apply",
            "model.safetensors",
            table,
            *READ[:2],
            "--workers",
            1,
            "--out",
            out,
        )
        assert result.exit_code == 0, result.output
        frame = pd.read_csv(out)
        widths[table] = (frame.r1_high - frame.r1_low).mean()
    assert (
        "the table lacks 5 regions: R-indices come from the others, and their intervals are"
        in result.output
    )
    assert widths["fewer.csv"] > 1.02 * widths["volumes.csv"]
    words = [
        "apply",
        "model.safetensors",
        "fewer.csv",
        *READ[:2],
        "--on-missing",
        "error",
        "--out",
        tmp_path / "o.csv",
    ]
    refused = run(folder, *words)
    assert refused.exit_code == 1
    assert "5 regions are missing" in str(refused.exception)


def test_people_with_too_few_regions_are_named_and_the_others_written(
    folder: Path, tmp_path: Path
) -> None:
    words = [
        "apply",
        "model.safetensors",
        "holes.csv",
        *READ[:2],
        "--workers",
        1,
        "--out",
        tmp_path / "out.csv",
    ]
    message = "1 person lacks too many regions: the others determine less than 50% of an R-index: sub-008."
    result = run(folder, *words)
    assert result.exit_code == 0, result.output
    assert f"warning: {message} They are left out of the results" in result.output
    assert "349 people written" in result.output
    indices = pd.read_csv(tmp_path / "out.csv")
    assert len(indices) == 349
    assert "sub-008" not in set(indices["participant_id"])
    assert np.isfinite(indices["r1"]).all()
    (tmp_path / "out.csv").unlink()
    result = run(folder, *words, "--on-missing", "error")
    assert result.exit_code == 1
    assert not (tmp_path / "out.csv").exists()


def test_chunks_of_people_with_holes_give_the_same_bytes(
    folder: Path, tmp_path: Path
) -> None:
    from rindices.apply.chunks import apply_stream
    from rindices.tables.chunks import ChunkSize
    from rindices.tables.options import TableOptions
    from rindices.tables.validate import TableRequest

    table = pd.read_csv(folder / "holes.csv").iloc[
        [*range(7), *range(8, 40), 7]
    ]  # who is left out is a chunk alone
    table.to_csv(tmp_path / "holes.csv", index=False)
    request = TableRequest(
        volumes=(tmp_path / "holes.csv",),
        participants=folder / "participants.tsv",
        options=TableOptions(covariates=("age", "sex", "icv"), site="none"),
        find_groups=False,
    )
    outs = []
    for rows in (40, 13):
        out = tmp_path / f"{rows}.csv"
        size = ChunkSize(rows=rows, parquet_rows=1_000_000, text_bytes=20_000)
        result = apply_stream(
            folder / "model.safetensors", request, out, 1, replace(size, schema_rows=20)
        )
        outs.append(out.read_bytes())
        (warning,) = [
            problem
            for problem in result.problems
            if problem.code is ProblemCode.PEOPLE_WITHOUT_INDEX
        ]
        assert warning.offenders == ("sub-008",)
        assert result.people == 39
    assert outs[0] == outs[1]


def test_a_linear_model_fills_missing_regions_by_the_others() -> None:
    cohort = simulate_few_regions("tiny", seed=3).cohort
    model = ri.fit(cohort, 2, members=5, method="contrastive", workers=1)
    cohort = cohort.take(np.arange(0, len(cohort), 3))
    complete = model.apply(cohort)
    rng = np.random.default_rng(1)
    holes = replace(
        cohort, volumes=cohort.volumes.mask(rng.random(cohort.volumes.shape) < 0.1)
    )
    found = model.apply(holes)
    for name in ("r1", "r2"):
        assert np.corrcoef(found[name], complete[name])[0, 1] > 0.97
        wider = (found[f"{name}_high"] - found[f"{name}_low"]) / (
            complete[f"{name}_high"] - complete[f"{name}_low"]
        )
        assert 1.0 < wider.mean() < 1.3
    pd.testing.assert_frame_equal(model.apply(cohort, on_missing="error"), complete)


def test_healthy_people_who_lack_cells_are_not_taken_for_ill(
    folder: Path, tmp_path: Path
) -> None:
    healthy = simulate_few_regions("basic", seed=907).cohort
    healthy = healthy.take(healthy.is_control)
    people = healthy.people[["participant_id"]].join(healthy.covariates)
    complete = pd.concat([people, healthy.volumes], axis=1)
    rng = np.random.default_rng(5)
    lacking = complete.copy()
    lacking[list(healthy.regions)] = healthy.volumes.mask(
        rng.random((12, healthy.n_regions))[np.arange(len(people)) % 12] < 0.4
    )
    tables = {}
    for name, table in {"complete": complete, "lacking": lacking}.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        words = [
            "apply",
            "model.safetensors",
            tmp_path / f"{name}.csv",
            "--out",
            tmp_path / f"{name}.tsv",
        ]
        result = run(folder, *words, "--workers", 1)
        assert result.exit_code == 0, result.output
        tables[name] = pd.read_csv(tmp_path / f"{name}.tsv", sep="\t")
    assert (tables["complete"]["information"] == 1.0).all()
    assert tables["lacking"]["information"].between(0.5, 0.999).all()
    names, kept = (
        ["r1", "r2", "r3"],
        tables["complete"][
            tables["complete"].participant_id.isin(tables["lacking"].participant_id)
        ],
    )
    shares = [
        (tables["lacking"][name].to_numpy()[:, None] > kept[name].to_numpy()).mean()
        for name in names
    ]
    assert (
        np.abs(np.array(shares) - 0.5).max() < 0.05
    )  # a posterior mean alone would give 0.7


def test_sessions_and_groups_that_lack_more_cells_are_named(
    folder: Path, tmp_path: Path
) -> None:
    table = pd.read_csv(folder / "volumes.csv").head(40)
    covariates = pd.read_csv(folder / "participants.tsv", sep="\t").head(40)[
        ["age", "sex", "icv"]
    ]
    visits = [table.assign(session_id=f"ses-{k}", **covariates) for k in (1, 2)]
    visits[1].iloc[:, 1:15] = np.nan
    pd.concat(visits).to_csv(tmp_path / "visits.csv", index=False)
    words = [
        "apply",
        "model.safetensors",
        tmp_path / "visits.csv",
        "--out",
        tmp_path / "r.tsv",
        "--workers",
        1,
    ]
    result = run(folder, *words)
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "less well measured in one session than in another: ses-2" in text
    cohort = simulate_few_regions("small", seed=908).cohort
    lacking = replace(
        cohort,
        volumes=cohort.volumes.mask(cohort.is_patient[:, None] & (np.arange(36) < 14)),
    )
    problems = ri.load(folder / "model.safetensors").assess(lacking).problems
    assert [
        problem.offenders
        for problem in problems
        if problem.code is ProblemCode.MISSING_BY_GROUP
    ] == [("patient", "control")]


def test_sites_that_lack_more_cells_are_named(folder: Path) -> None:
    cohort = simulate_few_regions("small", seed=908, sites=2).cohort
    is_second = (cohort.people["site"] == "site2").to_numpy()
    mask = np.zeros(cohort.volumes.shape, dtype=bool)
    mask[is_second, :14] = True
    model = ri.load(folder / "model.safetensors")
    problems = model.assess(replace(cohort, volumes=cohort.volumes.mask(mask))).problems
    (warning,) = [
        problem
        for problem in problems
        if problem.code is ProblemCode.MISSING_BY_GROUP and problem.subject == "site"
    ]
    assert "less well measured in one site than in another" in warning.what
    assert warning.offenders == ("site2", "site1")
