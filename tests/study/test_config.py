"""The study file: read, checked, merged with options and written."""

import json
from pathlib import Path

import pytest

from rindices.errors import StudyError
from rindices.study.config import (
    QueueConfig,
    format_study_toml,
    make_study,
    merge_options,
    read_study,
)
from tests.study.helpers import BRIEF, STUDY, outputs, run


def test_plain_options_and_the_study_they_make(folder: Path) -> None:
    options = [
        "--participants",
        folder / "participants.tsv",
        "--group",
        "group",
        "--covariates",
        "age,sex,icv",
    ]
    options += [
        "--patterns",
        1,
        "--members",
        2,
        "--method",
        "contrastive",
        "--seed",
        3,
        "--json",
    ]
    done = run("fit", folder / "volumes.csv", *options, "--out", folder / "options")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    expected = {
        "n_patterns",
        "orthogonality",
        "agreement",
        "members",
        "seconds",
        "model",
        "report",
    }
    assert expected <= set(told)
    again = run("fit", folder / "options" / "study.toml", "--out", folder / "again")
    assert again.returncode == 0, again.stderr
    assert outputs(folder / "again") == outputs(folder / "options")


def test_study_file_round_trip(tmp_path: Path, folder: Path) -> None:
    study = read_study(folder / "study.toml")
    (tmp_path / "s.toml").write_text(format_study_toml(study))
    assert read_study(tmp_path / "s.toml") == study
    changed = make_study(
        {
            "data": {"volumes": "v.csv"},
            "model": {"method": "surreal-gan", "method_settings": BRIEF},
        }
    )
    (tmp_path / "t.toml").write_text(format_study_toml(changed))
    assert read_study(tmp_path / "t.toml") == changed


@pytest.mark.parametrize(
    ("text", "offender", "cure"),
    [
        (
            "[data]\nvolumes = 'v.csv'\n[model]\npaterns = [2]",
            "model.paterns",
            "Did you mean 'patterns'?",
        ),
        (
            "[data]\nvolumes = 'v.csv'\n[model]\npatterns = [0]",
            "model.patterns: 0 is below 1",
            "patterns = [2, 3, 4]",
        ),
        (
            "[data]\nvolumes = 'v.csv'\n[model]\nmembers = 'many'",
            "model.members",
            "'many' is not a whole number",
        ),
        (
            "[data]\nvolumes = 'v.csv'\n[model]\nmethod = 'surreal-gann'",
            "model.method",
            "surreal-gan",
        ),
        ("[data]\nvolumes = 'v.csv'\n[run]\nengine = 'magic'", "run.engine", "local"),
        (
            "[model]\npatterns = 2",
            "data is missing",
            'Add [data] with volumes = "dlmuse.csv"',
        ),
        ("[data]\nvolumes = 'v.csv'\n[modle]\n", "modle", "Did you mean 'model'?"),
        ("this is no toml", "s.toml", "not a study file"),
    ],
)
def test_wrong_study_files(tmp_path: Path, text: str, offender: str, cure: str) -> None:
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(StudyError) as caught:
        read_study(tmp_path / "s.toml")
    assert offender in str(caught.value)
    assert cure in str(caught.value)


def test_options_on_top_of_a_study_file(folder: Path) -> None:
    text = STUDY.replace(
        'method = "contrastive"',
        'method = "surreal-gan"\nmethod_settings = { learning_rate = 8e-4 }',
    )
    (folder / "paper.toml").write_text(text)
    merged = merge_options(
        folder / "paper.toml",
        {"data": {}, "model": {"method_settings": {"max_steps": 300_000}}, "run": {}},
    )
    study = make_study(merged)
    assert study.data.volumes == (str(folder / "volumes.csv"),)
    values = study.model.resolve_values()
    assert (values["learning_rate"], values["max_steps"], values["min_steps"]) == (
        8e-4,
        300_000,
        3_000,
    )
    short = study.model.model_copy(
        update={"method_settings": {"max_steps": 20}}
    ).resolve_values()
    assert (short["max_steps"], short["min_steps"]) == (20, 3_000)


@pytest.mark.parametrize(
    ("run_", "offender", "cure"),
    [
        ({"slurm": {"partion": "x"}}, "run.slurm.partion", "Did you mean 'partition'?"),
        ({"slurm": {"walltime": "long"}}, "run.slurm.walltime", "12:00:00"),
        ({"slurm": {"cores": 0}}, "run.slurm.cores", "0 is below 1"),
        ({"scheduler": "tcp://x:1"}, "scheduler", 'engine = "dask"'),
    ],
)
def test_wrong_tables_of_batch_systems(
    run_: dict[str, object], offender: str, cure: str
) -> None:
    with pytest.raises(StudyError) as caught:
        make_study({"data": {"volumes": "v.csv"}, "run": run_})
    assert offender in str(caught.value)
    assert cure in str(caught.value)
    assert QueueConfig().walltime == "12:00:00"
