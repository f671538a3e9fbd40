"""The commands power, simulate, score and reference."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from rindices.errors import SimulationError, TableError
from rindices.experiments.simulate import write_cohort
from rindices.model.normal_reference import NormalReference
from rindices.selection.agreement import pattern_c_index
from tests.cohorts import simulate_few_regions
from tests.report.helpers import get_section_text


def test_json_has_one_row_per_size_and_wrong_sizes_exit_2() -> None:
    arguments = [
        "power",
        "--people",
        "80+100",
        "--rates",
        "0.3",
        "--patterns",
        "1",
        "--cohorts",
        "1",
        "--json",
    ]
    done = CliRunner().invoke(app, [*arguments, "--workers", "1"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"][0]["controls"] == 80
    assert CliRunner().invoke(app, ["power", "--people", "80,100"]).exit_code == 2


def test_effects_are_given_in_d_of_the_users_table(tmp_path: Path) -> None:
    """10 % of a thickness is more than a standard deviation: the table says what it is
    in d.
    """
    rng = np.random.default_rng(0)
    regions = {
        f"lh_parcel{k}_thickness": 2.5 * np.exp(rng.normal(0, 0.04, 60))
        for k in range(24)
    }
    pd.DataFrame({"participant_id": [f"s{k}" for k in range(60)], **regions}).to_csv(
        tmp_path / "t.csv", index=False
    )
    how = [
        "power",
        "--controls",
        str(tmp_path / "t.csv"),
        "--people",
        "40+50",
        "--patterns",
        "1",
        "--cohorts",
        "1",
    ]
    done = CliRunner().invoke(
        app, [*how, "--effect-d", "0.5", "--rates", "0.1", "--workers", "1", "--json"]
    )
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    in_d, as_share = value["rows"][:2]  # of the people asked for; more people follow
    assert (in_d["d"], in_d["rate"]) == (0.5, pytest.approx(0.04, rel=0.3))
    assert (as_share["d"], as_share["rate"]) == (pytest.approx(1.25, rel=0.3), 0.1)
    assert value["d_of_tenth"][1] == pytest.approx(as_share["d"])
    text = CliRunner().invoke(app, [*how, "--effect-d", "0.5", "--workers", "1"]).stdout
    assert "| 0.50 |" in text
    assert "In these people a loss of 10 % is d = " in text


@pytest.mark.slow
def test_own_controls_are_as_many_as_they_are_and_adjusted_by_default(
    tmp_path: Path,
) -> None:
    """Their number is combined with more and more patients, and the answer is the
    fewest who are enough.
    """
    simulated = simulate_few_regions("tiny", 0)
    controls = simulated.cohort.take(simulated.cohort.is_control)
    table = pd.concat(
        [controls.people, controls.covariates, controls.volumes], axis=1
    ).drop(columns="group")
    table.to_csv(tmp_path / "own.csv", index=False)
    how = [
        "power",
        "--controls",
        str(tmp_path / "own.csv"),
        "--effect-d",
        "1.5",
        "--cohorts",
        "1",
        "--workers",
        "1",
    ]
    value = json.loads(
        CliRunner().invoke(app, [*how, "--patterns", "1", "--json"]).stdout
    )
    assert [(row["controls"], row["patients"]) for row in value["rows"]] == [
        (80, n) for n in (100, 200, 400, 800)
    ]
    assert value["covariates"] == ["age", "sex", "icv"]
    done = CliRunner().invoke(app, [*how, "--people", "80+100", "--covariates", "none"])
    assert [line.split("|")[1].strip() for line in done.stdout.splitlines()[2:5]] == [
        "1",
        "2",
        "3",
    ]
    assert (
        "1 pattern of d 1.5: 80 controls and 100 patients are enough, the right number is found in"
        in done.stdout
    )
    assert CliRunner().invoke(app, [*how, "--patterns", "many"]).exit_code == 2


def test_effects_are_in_d_by_default_and_wrong_ones_are_refused() -> None:
    assert CliRunner().invoke(app, ["power", "--effect-d", "big"]).exit_code == 2
    done = CliRunner().invoke(app, ["power", "--effect-d", "50"])
    assert "effects in d between 0 and 5" in str(done.exception)


def call(*arguments: str) -> object:
    return CliRunner().invoke(app, ["simulate", *arguments])


def test_json_has_the_counts_and_files_are_written(tmp_path: Path) -> None:
    done = call(
        "--task",
        "tiny",
        "--seed",
        "2",
        "--sites",
        "3",
        "--out",
        str(tmp_path / "demo"),
        "--json",
    )
    value = json.loads(done.stdout)  # type: ignore[attr-defined]
    assert (
        value["people"],
        value["controls"],
        value["patients"],
        value["patterns"],
    ) == (180, 80, 100, 3)
    assert (
        pd.read_csv(tmp_path / "demo" / "participants.tsv", sep="\t")["site"].nunique()
        == 3
    )
    assert len(pd.read_csv(tmp_path / "demo" / "truth.tsv", sep="\t")) == 100


def test_the_model_is_applied_to_new_people_without_options_and_scored(
    tmp_path: Path,
) -> None:
    """simulate writes 20 people who are in no fit, in one table, and the severities of
    its patients.
    """
    demo, model = tmp_path / "demo", tmp_path / "model.safetensors"
    done = call("--task", "tiny", "--seed", "0", "--out", str(demo), "--json")
    assert json.loads(done.stdout)["new_people"] == 20  # type: ignore[attr-defined]
    cohort = ri.simulate_cohort("tiny", 0).cohort
    ri.fit(cohort, 3, members=2, method="contrastive", workers=1).save(model)
    new = pd.read_csv(demo / "new_people.csv")
    assert len(new) == 20
    assert set(new["participant_id"]).isdisjoint(
        pd.read_csv(demo / "volumes.csv")["participant_id"]
    )
    applied = CliRunner().invoke(
        app,
        [
            "apply",
            str(model),
            str(demo / "new_people.csv"),
            "--out",
            str(tmp_path / "n.tsv"),
        ],
    )
    assert applied.exit_code == 0, applied.output
    assert "in the study that the model was fitted to" not in applied.output
    assert list(pd.read_csv(tmp_path / "n.tsv", sep="\t")["participant_id"]) == list(
        new["participant_id"]
    )
    scored = CliRunner().invoke(
        app, ["score", str(tmp_path / "n.tsv"), str(demo / "new_truth.tsv"), "--json"]
    )
    result = json.loads(scored.stdout)
    assert result["people"] == 12
    assert result["pattern_c_index"] > 0.75


def test_new_people_have_the_columns_of_the_study(tmp_path: Path) -> None:
    """Sites and sessions where the study has them; none are drawn from a
    user's table.
    """
    call("--task", "tiny", "--sites", "3", "--out", str(tmp_path / "sites"))
    call("--task", "tiny", "--visits", "2", "--out", str(tmp_path / "visits"))
    call("--task", "organs", "--out", str(tmp_path / "organs"))
    columns = {
        name: list(pd.read_csv(tmp_path / name / "new_people.csv"))
        for name in ("sites", "visits", "organs")
    }
    assert columns["sites"][:5] == ["participant_id", "site", "age", "sex", "icv"]
    assert columns["visits"][:5] == [
        "participant_id",
        "session_id",
        "age",
        "sex",
        "icv",
    ]
    features = list(pd.read_csv(tmp_path / "organs" / "features.csv"))
    assert columns["organs"] == ["participant_id", "age", "sex", *features[1:]]
    volumes = pd.read_csv(tmp_path / "sites" / "volumes.csv")
    volumes.to_csv(tmp_path / "healthy.csv", index=False)
    done = call(
        "--task",
        "tiny",
        "--controls",
        str(tmp_path / "healthy.csv"),
        "--out",
        str(tmp_path / "own"),
        "--json",
    )
    assert json.loads(done.stdout)["new_people"] == 0  # type: ignore[attr-defined]
    assert not (tmp_path / "own" / "new_people.csv").exists()


def test_staged_tasks_have_their_onsets(tmp_path: Path) -> None:
    assert call("--task", "staged", "--out", str(tmp_path / "demo")).exit_code == 0  # type: ignore[attr-defined]
    onsets = pd.read_csv(tmp_path / "demo" / "onsets.tsv", sep="\t")
    patterns = pd.read_csv(tmp_path / "demo" / "patterns.tsv", sep="\t")
    assert list(onsets.columns) == ["pattern", "region", "onset"]
    for name, group in onsets.groupby("pattern"):
        assert set(group.region) == set(patterns.region[patterns[name] > 0])
        assert (group.onset.min(), group.onset.max()) == (0.0, 0.6)


def test_wrong_names_and_unclear_groups_are_refused(tmp_path: Path) -> None:
    unknown = call("--task", "tny", "--out", str(tmp_path))
    assert isinstance(unknown.exception, SimulationError)  # type: ignore[attr-defined]
    assert "did you mean 'tiny'" in str(unknown.exception)  # type: ignore[attr-defined]
    assert call("--task", "tiny", "--out", str(tmp_path / "demo")).exit_code == 0  # type: ignore[attr-defined]
    table = pd.read_csv(tmp_path / "demo" / "volumes.csv").copy()
    table["diagnosis"] = ["well", "ill"] * (len(table) // 2)
    table.to_csv(tmp_path / "table.csv", index=False)
    healthy = [
        "--controls",
        str(tmp_path / "table.csv"),
        "--out",
        str(tmp_path / "new"),
    ]
    unclear = call(*healthy)
    assert isinstance(unclear.exception, TableError)  # type: ignore[attr-defined]
    assert "--group COLUMN --label LABEL" in str(unclear.exception)  # type: ignore[attr-defined]
    done = call(*healthy, "--group", "diagnosis", "--label", "well", "--json")
    assert json.loads(done.stdout)["people"] == 90  # type: ignore[attr-defined]


@pytest.mark.parametrize("option", [("--seed", "x"), ("--sites", "-1")])
def test_wrong_usage_exits_2(option: tuple[str, str], tmp_path: Path) -> None:
    assert call(*option, "--out", str(tmp_path)).exit_code == 2  # type: ignore[attr-defined]


def test_visits_are_written_by_session(tmp_path: Path) -> None:
    done = call(
        "--task", "tiny", "--visits", "3", "--out", str(tmp_path / "demo"), "--json"
    )
    value = json.loads(done.stdout)  # type: ignore[attr-defined]
    truth = pd.read_csv(tmp_path / "demo" / "truth.tsv", sep="\t")
    assert list(truth.columns) == ["participant_id", "session_id", "s1", "s2", "s3"]
    assert value["people"] == 180
    assert value["visits"] == len(
        pd.read_csv(tmp_path / "demo" / "sessions.tsv", sep="\t")
    )
    refused = call(
        "--task",
        "tiny",
        "--visits",
        "3",
        "--sites",
        "2",
        "--out",
        str(tmp_path / "demo"),
    )
    assert "--visits cannot be combined with --sites" in str(refused.exception)  # type: ignore[attr-defined]


def test_score_compares_r_indices_with_the_truth(tmp_path: Path) -> None:
    simulated = simulate_few_regions("tiny", seed=1)
    write_cohort(simulated, tmp_path)
    noisy = simulated.truth[:, ::-1] + np.random.default_rng(0).normal(
        0, 0.1, simulated.truth.shape
    )
    indices = simulated.severities[["participant_id"]].assign(
        r1=noisy[:, 0], r2=noisy[:, 1], r3=noisy[:, 2]
    )
    indices.sample(frac=1, random_state=0).to_csv(
        tmp_path / "r_indices.tsv", sep="\t", index=False
    )
    arguments = [
        "score",
        str(tmp_path / "r_indices.tsv"),
        str(tmp_path / "truth.tsv"),
        "--json",
    ]
    result = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert result["people"] == 100
    assert result["pattern_c_index"] == pytest.approx(
        pattern_c_index(simulated.truth, noisy).mean, abs=1e-6
    )


COVARIATES = ["--covariates", "age,sex,icv"]


def invoke(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, f"{result.output} {result.exception!r}"
    return result.output if code == 0 else f"{result.output}{result.exception}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small study, a table of healthy people of three sites, and a reference whose
    regions are exchanged.
    """
    folder = tmp_path_factory.mktemp("reference")
    write_cohort(simulate_few_regions("tiny", seed=1), folder)
    healthy = simulate_few_regions("null", seed=9, sites=3).cohort.take(np.arange(300))
    table = pd.concat(
        [healthy.people, healthy.covariates, healthy.volumes], axis=1
    ).drop(columns="group")
    table["participant_id"] = "healthy-" + table["participant_id"].astype(str)
    table.to_csv(folder / "healthy.csv", index=False)
    learnt = NormalReference.fit(healthy, "wrong.csv")
    order = np.random.default_rng(0).permutation(len(learnt.regions))
    wrong = NormalReference(
        regions=learnt.regions,
        correlation=learnt.correlation[np.ix_(order, order)],
        people=300,
        name="wrong.csv",
    )
    wrong.save(folder / "wrong.safetensors")
    return folder


def fit(folder: Path, reference: object, out: str, *more: object, code: int = 0) -> str:
    study = [
        folder / "volumes.csv",
        "--participants",
        folder / "participants.tsv",
        "--group",
        "group",
        *COVARIATES,
    ]
    settings = [
        "--method",
        "contrastive",
        "--patterns",
        "1",
        "--members",
        "3",
        "--workers",
        "1",
    ]
    return invoke(
        "fit",
        *study,
        *settings,
        "--reference",
        reference,
        "--out",
        folder / out,
        *more,
        code=code,
    )


def test_a_reference_is_a_small_file_without_people(folder: Path) -> None:
    file = folder / "healthy.safetensors"
    shown = json.loads(
        invoke(
            "reference",
            folder / "healthy.csv",
            *COVARIATES,
            "--site",
            "site",
            "--out",
            file,
            "--json",
        )
    )
    assert (shown["people"], shown["sites"], shown["regions"], shown["adjust"]) == (
        300,
        3,
        36,
        "log",
    )
    assert b"healthy-" not in file.read_bytes()
    assert "300" in invoke(
        "reference", folder / "healthy.csv", *COVARIATES, "--out", file
    )
    assert "another ending" in invoke(
        "reference", folder / "healthy.csv", "--out", folder / "healthy.csv", code=2
    )


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_a_table_and_its_file_give_the_same_model_and_it_says_so(folder: Path) -> None:
    table = fit(folder, folder / "healthy.csv", "table")
    assert "healthy.csv, 300 people of" in table
    invoke(
        "reference",
        folder / "healthy.csv",
        *COVARIATES,
        "--out",
        folder / "file.safetensors",
    )
    model = ri.load(folder / "table" / "model.safetensors")
    study = ri.read_cohort(
        folder / "volumes.csv",
        folder / "participants.tsv",
        group="group",
        covariates=["age", "sex", "icv"],
    )
    reference = NormalReference.load(folder / "file.safetensors")
    again = ri.fit(
        study, 1, method="contrastive", members=3, workers=1, reference=reference
    )
    np.testing.assert_allclose(again.patterns, model.patterns, rtol=1e-9)
    assert model.card.reference is not None
    assert model.card.reference.weight >= 0.6
    assert "healthy.csv, 300 people of 3 sites, weight" in invoke(
        "model", "show", folder / "table/model.safetensors"
    )
    page = (folder / "table" / "report.html").read_text("utf-8")
    assert "reference population of 300 healthy people of 3 sites" in get_section_text(
        page, "methods"
    )


def test_columns_that_the_reference_does_not_have_are_left_out(folder: Path) -> None:
    """The study names a session and a site that only its own table has."""
    people = pd.read_csv(folder / "participants.tsv", sep="\t").assign(
        visit="v1", hospital="north"
    )
    volumes = pd.read_csv(folder / "volumes.csv")
    people.merge(volumes, on="participant_id").to_csv(
        folder / "joined.csv", index=False
    )
    columns = ["--session", "visit", "--site", "hospital", "--harmonise", "none"]
    study = [folder / "joined.csv", "--group", "group", *COVARIATES, *columns]
    assert "ready" in invoke("check", *study, "--reference", folder / "healthy.csv")


@pytest.mark.slow
def test_another_reference_is_another_study_in_the_same_folder(folder: Path) -> None:
    fit(folder, "muse", "resumed", "--no-report")
    first = pd.read_csv(folder / "resumed" / "r_indices.tsv", sep="\t")
    assert 'reference = "muse"' in (folder / "resumed" / "study.toml").read_text(
        "utf-8"
    )
    fit(folder, folder / "wrong.safetensors", "resumed", "--no-report")
    second = pd.read_csv(folder / "resumed" / "r_indices.tsv", sep="\t")
    assert not np.allclose(first["r1"], second["r1"])
    model = ri.load(folder / "resumed" / "model.safetensors")
    assert model.card.reference is not None
    assert model.card.reference.weight <= 0.2  # its columns are exchanged
    study = (folder / "resumed" / "study.toml").read_text("utf-8")
    assert 'wrong.safetensors"' in study
    again = invoke(
        "fit",
        folder / "resumed" / "study.toml",
        "--out",
        folder / "resumed",
        "--no-report",
    )
    assert "wrong.csv" in again


def test_references_that_cannot_be_used_are_named_by_check_and_fit(
    folder: Path,
) -> None:
    NormalReference(
        regions=("MUSE_1", "MUSE_2"), correlation=np.eye(2), people=30, name="two.csv"
    ).save(folder / "two.safetensors")
    study = [
        folder / "volumes.csv",
        "--participants",
        folder / "participants.tsv",
        "--group",
        "group",
        *COVARIATES,
    ]
    for reference, message in [
        ("two.safetensors", "the reference two.csv lacks 36 regions of the study"),
        ("participants.tsv", "no regions"),
        ("nowhere.csv", "nowhere.csv"),
    ]:
        assert message in fit(folder, folder / reference, "refused", code=1)
        checked = invoke("check", *study, "--reference", folder / reference, code=1)
        assert message in checked
        assert "not ready" in checked
    fit(folder, folder, "refused", code=1)  # a folder
    assert "ready" in invoke("check", *study, "--reference", "muse")
