"""``rindices.fit`` and ``rindices fit`` are the same study: same files, same warnings,
same endings.
"""

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import rindices as ri
from rindices.cli.main import app
from rindices.experiments.simulate import write_cohort
from rindices.experiments.tasks import TASKS
from tests.cohorts import simulate_few_regions

CONTRASTIVE: dict[str, Any] = {"members": 4, "method": "contrastive", "workers": 1}


def fit_by_command(folder: Path, out: Path, *options: object) -> Result:
    study = [
        "fit",
        folder / "volumes.csv",
        "--participants",
        folder / "participants.tsv",
        "--group",
        "group",
    ]
    study += [
        "--covariates",
        "age,sex,icv",
        "--method",
        "contrastive",
        "--members",
        4,
        "--workers",
        1,
    ]
    return CliRunner().invoke(
        app, [str(part) for part in (*study, *options, "--out", out)]
    )


def read_files(
    folder: Path, leave_out: tuple[str, ...] = ("study.toml", "report.html")
) -> dict[str, bytes]:
    paths = [
        path
        for path in folder.iterdir()
        if path.is_file() and path.name not in leave_out
    ]
    return {path.name: path.read_bytes() for path in sorted(paths)}


def read_cohort(folder: Path) -> ri.Cohort:
    options = {"group": "group", "covariates": ["age", "sex", "icv"]}
    return ri.read_cohort(
        folder / "volumes.csv", folder / "participants.tsv", **options
    )


def drop_notes(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return files without the notes of the table in ``cohort.json``: a cohort does not
    know its file.
    """
    cohort = json.loads(files["cohort.json"])
    cohort["problems"] = [
        problem for problem in cohort["problems"] if problem["severity"] != "note"
    ]
    return files | {"cohort.json": json.dumps(cohort).encode()}


def test_python_and_command_write_the_same_files(tmp_path: Path) -> None:
    write_cohort(simulate_few_regions("tiny", seed=1), tmp_path)
    done = fit_by_command(
        tmp_path, tmp_path / "command", "--patterns", 1, "--no-report"
    )
    assert done.exit_code == 0, done.output
    with pytest.warns(ri.StudyWarning, match="a small study") as caught:
        ri.fit(read_cohort(tmp_path), 1, out=tmp_path / "python", **CONTRASTIVE)
    assert {Path(warning.filename).name for warning in caught} == {Path(__file__).name}
    files = drop_notes(read_files(tmp_path / "python"))
    assert files == drop_notes(read_files(tmp_path / "command"))
    assert len(files) == 13
    problems = json.loads(files["cohort.json"])["problems"]
    assert str(caught[0].message).startswith(problems[0]["what"])
    assert problems[0]["what"] in " ".join(done.stderr.split())


@pytest.fixture(scope="module")
def null_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("null")
    write_cohort(
        simulate_few_regions(replace(TASKS["null"], n_controls=80, n_patients=100), 0),
        folder,
    )
    return folder


@pytest.mark.parametrize("patterns", [1, None])
def test_a_study_without_a_model_is_written_by_both(
    null_study: Path, tmp_path: Path, patterns: int | None
) -> None:
    options = ["--patterns", patterns] if patterns else []
    done = fit_by_command(null_study, tmp_path / "command", *options, "--no-report")
    assert done.exit_code == 0, done.output
    assert ("1 pattern, as asked, gave no stable result" in done.output) == (
        patterns == 1
    )
    with pytest.warns(
        ri.StudyWarning,
        match=r"no difference .* was detected .* d = 0\.\d\d in one region",
    ):
        model = ri.fit(
            read_cohort(null_study), patterns, out=tmp_path / "python", **CONTRASTIVE
        )
    files = [
        "cohort.json",
        "dataset_description.json",
        "effects.json",
        "effects.tsv",
        "findings.json",
        "selection.json",
    ]
    assert list(read_files(tmp_path / "python")) == files
    selection = (tmp_path / "python" / "selection.json").read_bytes()
    assert selection == (tmp_path / "command" / "selection.json").read_bytes()
    assert model.selection.to_dict() == json.loads(selection)
    assert_is_null_result(model)
    assert_is_null_result(pickle.loads(pickle.dumps(model)))


def assert_is_null_result(model: ri.FittedModel) -> None:
    """A model without R-indices says what it is, and answers with one sentence."""
    assert (model.finding, model.n_patterns, model.indices) == (
        "no_difference",
        0,
        None,
    )
    assert model.findings.finding == "no_difference"
    message = r"^there are no R-indices: no difference .* was detected \(p = .*\.$"
    cohort = simulate_few_regions("tiny", seed=1).cohort
    for use in (
        lambda: model.apply(cohort),
        lambda: model.with_sites(cohort),
        lambda: model.save("m.safetensors"),
        model.trajectories,
        model.region_order,
        model.interactions,
    ):
        with pytest.raises(ri.RindicesError, match=message):
            use()
    assert "no difference" in repr(model)
    assert "no difference" in model._repr_html_()


def test_an_unwritable_folder_is_a_study_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ri.StudyError, match="cannot write to"):
        ri.fit(
            ri.simulate_cohort("tiny", seed=1).cohort,
            2,
            out=tmp_path / "file" / "out",
            **CONTRASTIVE,
        )


def test_frames_and_their_columns_go_into_fit(tmp_path: Path) -> None:
    write_cohort(simulate_few_regions("tiny", seed=0), tmp_path)
    volumes, people = (
        pd.read_csv(tmp_path / "volumes.csv"),
        pd.read_csv(tmp_path / "participants.tsv", sep="\t"),
    )
    columns = {"group": "group", "covariates": ["age", "sex", "icv"]}
    model = ri.fit(volumes, 1, **CONTRASTIVE, participants=people, **columns)
    assert model.card.fingerprint == read_cohort(tmp_path).fingerprint()
    with pytest.raises(
        TypeError,
        match="fit takes group with a table, not with a Cohort: give them to read_cohort",
    ):
        ri.fit(read_cohort(tmp_path), group="group")
