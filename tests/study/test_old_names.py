"""Names of rindices 0.1.0 for methods and settings: they work, and one line says the
new ones.
"""

import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import rindices as ri
from rindices.cli.main import app
from rindices.errors import StudyError
from rindices.experiments.simulate import write_cohort
from rindices.old_names import OLD_METHOD_NAMES
from rindices.study.config import ModelConfig, format_study_toml, read_study
from rindices.study.methods import METHODS
from rindices.study.study import make_plan
from tests.cohorts import simulate_few_regions

FIXTURES = Path(__file__).parents[1] / "model" / "fixtures"
COLUMNS = [
    "--participants",
    "participants.tsv",
    "--group",
    "group",
    "--covariates",
    "age,sex,icv",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study")
    write_cohort(simulate_few_regions("tiny", seed=1), path)
    return path


def invoke(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: object) -> Result:
    monkeypatch.chdir(folder)
    return CliRunner().invoke(app, [str(word) for word in words])


def list_notices(result: Result) -> list[str]:
    return [line for line in result.stderr.splitlines() if " now " in line]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--recipe", "default"], "--recipe default is now --method trajectories"),
        (["--recipe", "paper"], "--recipe paper is now --method surreal-gan"),
        (
            ["--recipe", "contrastive"],
            "--recipe contrastive is now --method contrastive",
        ),
        (["--method", "paper"], "--method paper is now --method surreal-gan"),
    ],
)
@pytest.mark.parametrize("command", ["check", "fit"])
def test_an_old_option_works_and_says_the_new_one(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    words: list[str],
    line: str,
) -> None:
    dry = (
        []
        if command == "check"
        else ["--dry-run", "--max-steps", 9]
        if "paper" in words
        else ["--dry-run"]
    )
    extra = (
        ["--out", "never", "--members", 5, "--patterns", 1] if command == "fit" else []
    )
    result = invoke(
        folder, monkeypatch, command, "volumes.csv", *COLUMNS, *words, *extra, *dry
    )
    assert result.exit_code == 0, result.output
    assert list_notices(result) == [line]
    assert line not in result.stdout


def test_the_old_option_is_not_in_the_help(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = invoke(folder, monkeypatch, "fit", "--help").output
    assert "--method" in text
    assert "--recipe" not in text


def test_both_names_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["check", "volumes.csv", *COLUMNS, "--recipe", "contrastive"]
    result = invoke(folder, monkeypatch, *words, "--method", "contrastive")
    assert result.exit_code == 2
    assert "both --method and --recipe, its old name, are given" in " ".join(
        result.output.split()
    )
    result = invoke(folder, monkeypatch, *words[:-1], "papper")
    assert "there is no method 'papper'" in " ".join(result.output.split())
    assert not list_notices(result)


@pytest.mark.parametrize(
    ("model", "line"),
    [
        (
            'recipe = "paper"',
            'study.toml: recipe = "paper" is now method = "surreal-gan"',
        ),
        (
            'method = "default"',
            'study.toml: method = "default" is now method = "trajectories"',
        ),
        (
            'recipe_changes = { shape = "curved" }',
            'study.toml: model.recipe_changes and shape = "curved" are now model.method_settings and '
            'shape = "staged"',
        ),
        (
            'recipe = "paper"\nrecipe_changes = { max_steps = 9 }',
            'study.toml: recipe = "paper" and model.recipe_changes are now method = "surreal-gan" and '
            "model.method_settings",
        ),
    ],
)
def test_an_old_study_file_works_and_one_line_says_the_new_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch, model: str, line: str
) -> None:
    data = 'volumes = "volumes.csv"\nparticipants = "participants.tsv"\ngroup = "group"'
    path = folder / "study.toml"
    path.write_text(f"[data]\n{data}\n[model]\n{model}\n", "utf-8")
    result = invoke(folder, monkeypatch, "check", "study.toml")
    assert result.exit_code == 0, result.output
    assert list_notices(result) == [line]
    with warnings.catch_warnings():
        warnings.simplefilter(
            "error"
        )  # a study that is read to show its results says nothing
        study = read_study(path)
    assert "recipe" not in format_study_toml(study)
    assert study.model.method in METHODS
    assert study.model.method_settings == (
        {} if "changes" not in model else study.model.method_settings
    )
    path.write_text(
        path.read_text("utf-8").replace(
            "[model]", '[model]\nmethod_settings = {}\nmethod = "contrastive"'
        )
    )
    if "recipe" in model:
        with pytest.raises(
            StudyError,
            match=r"study\.toml: both model\.method.* its old name, are given\. Leave",
        ):
            read_study(path)


def test_an_option_overrides_an_old_study_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = 'volumes = "volumes.csv"\nparticipants = "participants.tsv"\ngroup = "group"'
    text = f'[data]\n{data}\n[model]\nrecipe = "paper"\n'
    (folder / "study.toml").write_text(text, "utf-8")
    result = invoke(
        folder, monkeypatch, "check", "study.toml", "--method", "contrastve"
    )
    assert "did you mean 'contrastive'?" in str(result.exception)


def test_old_arguments_of_python_warn_once() -> None:
    cohort = simulate_few_regions("tiny", seed=1).cohort
    with pytest.warns(FutureWarning) as caught:
        model = ri.fit(cohort, 1, recipe="contrastive", members=2, workers=1)
    (notice,) = [each for each in caught if each.category is FutureWarning]
    assert (
        str(notice.message) == 'fit: recipe="contrastive" is now method="contrastive"'
    )
    assert notice.filename == __file__
    assert model.card.method is not None
    assert model.card.method.name == "contrastive"
    with (
        pytest.warns(
            FutureWarning, match="^fit: recipe_changes is now method_settings$"
        ),
        pytest.raises(StudyError, match="shape is 'round'"),
    ):
        ri.fit(cohort, 1, recipe_changes={"shape": "round"})
    with pytest.raises(
        StudyError, match="both method and recipe, its old name, are given"
    ):
        ri.fit(cohort, 1, recipe="contrastive", method="contrastive")


@pytest.mark.parametrize("old", list(OLD_METHOD_NAMES))
def test_a_model_of_the_last_version_shows_the_new_name(old: str) -> None:
    path = FIXTURES / f"{old}.safetensors"
    assert f'"recipe": "{old}"'.encode() in path.read_bytes().replace(b'\\"', b'"')
    model = ri.load(path)
    assert model.card.method is not None
    assert model.card.method.name == OLD_METHOD_NAMES[old]
    assert not model.card.model_extra
    result = CliRunner().invoke(app, ["model", "show", str(path)])
    assert f"{OLD_METHOD_NAMES[old]}, seed" in result.stdout
    assert not result.stderr


@pytest.mark.parametrize(
    ("model", "key"),
    [
        (ModelConfig(patterns=(2,), method="contrastive"), "m2-000-19cdfa974f90cce6"),
    ],
)
def test_finished_member_sets_of_the_last_version_are_found(
    model: ModelConfig, key: str
) -> None:
    """Keys as rindices 0.1.0 computes them."""
    assert make_plan(model, 0, "x")[0].key == key


def test_member_sets_without_a_choice_of_the_start_are_trained_again() -> None:
    """The default of rindices 0.1.0 had one start."""
    assert (
        make_plan(ModelConfig(patterns=(2,)), 0, "x")[0].key
        != "m2-000-e9b1a0fe67aeaf09"
    )
