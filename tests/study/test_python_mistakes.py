"""Mistakes of people who write Python: each is answered by one sentence about it, with
a cure that works.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from rindices.experiments.simulate import write_cohort
from tests.cohorts import simulate_few_regions

X = np.random.default_rng(0).normal(1000, 100, (80, 12))
Y = np.repeat([0, 1], 40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of regions and of participants."""
    path = tmp_path_factory.mktemp("tables")
    write_cohort(simulate_few_regions("tiny", seed=1), path)
    return path


@pytest.fixture(scope="module")
def cohort() -> ri.Cohort:
    """People in memory."""
    return simulate_few_regions("tiny", seed=1).cohort


def catch(call: Callable[[], object]) -> str:
    """Return the one sentence, or the few, that a call ends with."""
    with pytest.raises((ri.RindicesError, TypeError)) as caught:
        call()
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def test_an_array_is_no_table() -> None:
    for call in (lambda: ri.fit(X), lambda: ri.fit(X, Y.tolist()), lambda: ri.fit([X])):
        message = catch(call)
        assert "cohort is an array of shape (80, 12), not a table" in message
        assert "rindices.DiseaseTrajectories(n_patterns=2).fit(X, y)" in message
    assert "volumes is a list of rows, not a table" in catch(
        lambda: ri.read_cohort(X.tolist())
    )
    estimator = ri.DiseaseTrajectories(n_patterns=2, members=1, random_state=0).fit(
        X, Y
    )  # the cure works
    assert estimator.patterns_.shape == (2, 12)


@pytest.mark.parametrize(
    ("volumes", "message"),
    [
        (None, "volumes is None, not a table. Give a path or a pandas DataFrame."),
        (3, "volumes is of the type int, not a table"),
        (
            {"id": [1]},
            "volumes is of the type dict, not a table. Give pandas.DataFrame(volumes).",
        ),
        (pd.Series([1.0]), "volumes is of the type Series, not a table"),
        ([], "volumes is empty"),
        ("none.csv", "none.csv: there is no such file"),
    ],
)
def test_what_is_no_table_is_named(volumes: Any, message: str) -> None:
    assert message in catch(lambda: ri.read_cohort(volumes))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"group": ["group"]},
            "group is ['group'], not the name of a column. Give group=\"group\".",
        ),
        ({"site": True}, "site is True, not the name of a column"),
        (
            {"group": "group", "covariates": "age,sex"},
            'Give a list of names: ["age", "sex"].',
        ),
        (
            {"group": "group", "controls": "control,patient"},
            'Give a list of labels: ["control", "patient"].',
        ),
        (
            {"on_missing": None},
            "on_missing = 'None' is not known. There is: model, drop, error.",
        ),
        (
            {"participants": np.eye(3)},
            "participants is an array of shape (3, 3), not a table",
        ),
        ({"exclude_people": "nobody"}, "1 id to leave out that nobody has: nobody"),
        (
            {"exclude_people": Path("none.txt")},
            "none.txt: the ids to leave out cannot be read",
        ),
    ],
)
def test_options_of_read_cohort_of_another_kind(
    folder: Path, options: dict[str, Any], message: str
) -> None:
    people = options.pop("participants", folder / "participants.tsv")
    assert message in catch(
        lambda: ri.read_cohort(folder / "volumes.csv", people, **options)
    )


def test_forgotten_participants_are_asked_for(folder: Path) -> None:
    table = folder / "volumes.csv"
    what, cure = (
        "there is no column 'group' for the group",
        "If another table has it, give that as well ({}participants)",
    )
    message = catch(lambda: ri.fit(table, group="group"))
    assert what in message
    assert cure.format("") in message
    done = CliRunner().invoke(
        app, ["fit", str(table), "--group", "group", "--out", str(folder / "out")]
    )
    assert cure.format("--") in str(done.exception)
    done = CliRunner().invoke(app, ["fit", str(table), "--out", str(folder / "out")])
    assert "Name the column: --group COLUMN" in str(done.exception)
    assert cure.format("--") in str(done.exception)
    message = catch(lambda: ri.fit(table))
    assert (
        "no controls and no patients: name the column of groups (group) and the labels (controls, patients)"
        in message
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"patterns": 0},
            "fit: patterns: 0 is below 1. Give one or several: patterns=[2, 3, 4].",
        ),
        (
            {"patterns": "2-5"},
            "patterns: '2-5' is not a whole number. Give one or several: patterns=[2, 3, 4, 5].",
        ),
        ({"patterns": 2.5}, "fit: patterns: 2.5 is not a whole number."),
        (
            {"patterns": []},
            "fit: patterns: there is no number. Give one or several: patterns=[2, 3, 4].",
        ),
        ({"members": 0}, "fit: members: 0 is below 1: give 1 or more."),
        ({"members": "many"}, "fit: members: 'many' is not a whole number."),
        ({"seed": None}, "fit: seed: None is not a whole number."),
        ({"workers": 0}, "fit: workers: 0 workers cannot work"),
        (
            {"method": "gan"},
            "fit: method: there is no method 'gan': there is: trajectories, surreal-gan",
        ),
        (
            {"harmonise": True},
            "fit: harmonise: True is not known: there is: controls, all, none.",
        ),
        ({"adjust": "logg"}, "fit: adjust: 'logg' is not known: did you mean 'log'?"),
        ({"visits": "all"}, 'visits="all" has no effect: nobody has several visits'),
        ({"icv_for": "all"}, 'icv_for="all" has no effect'),
        (
            {"orthogonality": 0.1},
            "fit: orthogonality has no effect: the method trajectories does not use weights lambda. Leave",
        ),
        (
            {"method_settings": ["shape"]},
            "fit: method_settings: ['shape'] is not a table of names and values.",
        ),
        (
            {"method_settings": {"shap": "auto"}},
            "fit: the method trajectories has no shap: did you mean 'shape'?",
        ),
        (
            {"method_settings": {"max_steps": 9}},
            "max_steps has no effect: the method trajectories has no max_steps. Leave it",
        ),
        (
            {"reference": X},
            "reference is a ndarray: give rindices.NormalReference.fit(cohort)",
        ),
        (
            {"reference": "healthy.csv"},
            "reference is the table healthy.csv: learn one from it",
        ),
        (
            {"engine": "slurm"},
            "engine is 'slurm': give an engine, such as rindices.engine.cluster.DaskEngine(",
        ),
        ({"grupo": "x"}, "fit has no argument 'grupo': did you mean 'group'?"),
        ({"group": "x"}, "fit takes group with a table, not with a Cohort"),
    ],
)
def test_options_of_fit_of_another_kind(
    cohort: ri.Cohort, options: dict[str, Any], message: str
) -> None:
    assert message in catch(lambda: ri.fit(cohort, **options))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "--patterns 0",
            "--patterns: 0 is below 1. Give one or several: --patterns 2,3,4",
        ),
        (
            "--patterns 2-4",
            "--patterns: '2-4' is not a whole number. Give one or several: --patterns 2,3,4",
        ),
        (
            "--patterns 1..3",
            "--patterns: '1..3' is not a whole number. Give one or several: --patterns 1,2,3",
        ),
        (
            "--patterns two",
            "--patterns: 'two' is not a whole number. Give one or several: --patterns 2,3,4",
        ),
        (
            "--orthogonality x --method surreal-gan",
            "--orthogonality: 'x' is not a number. Give one or several: --ortho",
        ),
        (
            "--method surreal-gann",
            "--method: there is no method 'surreal-gann': did you mean 'surreal-gan'?",
        ),
        ("--engine slrum", "--engine: 'slrum' is not known: did you mean 'slurm'?"),
    ],
)
def test_numbers_and_names_on_the_command_line(
    folder: Path, words: str, message: str
) -> None:
    table, out = folder / "volumes.csv", folder / "out"
    done = CliRunner().invoke(
        app, ["fit", str(table), *words.split(), "--out", str(out)], terminal_width=300
    )
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.replace("│", " ").split())
    study = folder / "s.toml"
    study.write_text('[data]\nvolumes = "volumes.csv"\n')
    done = CliRunner().invoke(
        app, ["fit", str(study), *words.split(), "--out", str(out)]
    )
    assert done.exit_code == 1
    assert f"s.toml: {message}" in str(done.exception)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"training": {"max_steps": 5}},
            "training is a dict; give a recipe: from rindices.learners.gan.recipe import",
        ),
        ({"training": "paper"}, "training is a str; give a recipe"),
        (
            {"orthogonality": [0.1, 0.2]},
            "weight 'orthogonality' is [0.1, 0.2]. Give one number.",
        ),
        ({"max_steps": "9"}, "max_steps is '9'. Give one number."),
        ({"correlated": "yes"}, "correlated is 'yes'; give True or False."),
        ({"device": "gpu"}, "device is 'gpu', which torch does not know: give 'cpu'"),
        ({"members": True}, "members is True; give a whole number from 1."),
    ],
)
def test_parameters_of_surreal_gan_of_another_kind(
    options: dict[str, Any], message: str
) -> None:
    pytest.importorskip("torch", reason="the extra gan is not installed")
    assert message in catch(
        lambda: ri.SurrealGAN(n_patterns=2, **{"members": 1, **options}).fit(X, Y)
    )


def test_the_recipe_that_a_message_gives_works() -> None:
    pytest.importorskip("torch", reason="the extra gan is not installed")
    from rindices.learners.gan.recipe import SURREAL_GAN

    message = catch(
        lambda: ri.SurrealGAN(training={"max_steps": 5, "min_steps": 5}, members=1).fit(
            X, Y
        )
    )  # type: ignore[arg-type]
    _, _, cure = message.rstrip(".").partition("training=")
    training = eval(cure, {"SURREAL_GAN": SURREAL_GAN})
    with pytest.warns(UserWarning, match="none of 1 members converged"):
        assert ri.SurrealGAN(2, 0, members=1, training=training).fit(X, Y).n_iter_ == 5
