"""The command fit prints one figure of reproduction for each pattern."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

import rindices as ri
from rindices.cli import fit
from rindices.cli.main import app
from rindices.experiments.simulate import simulate_cohort, write_cohort
from rindices.selection.choose import GridPoint
from rindices.study.config import ModelConfig
from tests.conftest import muse_volumes, participants_of


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_fit_has_one_figure_of_reproduction(tmp_path: Path) -> None:
    write_cohort(simulate_cohort("tiny"), tmp_path)
    tables = [
        str(tmp_path / "volumes.csv"),
        "--participants",
        str(tmp_path / "participants.tsv"),
        "--group",
        "group",
    ]
    how = [
        "--patterns",
        "2",
        "--members",
        "2",
        "--method",
        "contrastive",
        "--workers",
        "1",
    ]
    done = invoke("fit", *tables, *how, "--no-report", "--out", str(tmp_path / "out"))
    assert done.exit_code == 0
    assert "disjoint halves" not in done.stdout
    assert "agreement" not in [line.split(" ")[0] for line in done.stdout.splitlines()]
    words = "reproduced in other people|not known whether other people reproduce it|not reproduced in other people"
    figure = rf"(?:{words}): split-half reproducibility -?[01]\.\d\d \(-?[01]\.\d\d to [01]\.\d\d\);"
    assert [
        len(re.findall(figure, line))
        for line in done.stdout.splitlines()
        if re.search(words, line)
    ] == [1, 1]


@dataclass(frozen=True)
class FinishedStudy:
    """A study of the command fit: its arguments, its folder, what it printed, and its
    participants.
    """

    arguments: list[str]
    out: Path
    printed: str
    people: pd.DataFrame


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> FinishedStudy:
    """A study of controls and of patients who lose a few regions and whose ventricles
    grow.
    """
    folder = tmp_path_factory.mktemp("ventricles")
    rng = np.random.default_rng(0)
    volumes = muse_volumes(160).iloc[:, :50].drop(columns="702")
    people = participants_of(volumes)
    loss = np.where(people["diagnosis"] == "AD", rng.uniform(0, 0.5, len(people)), 0)
    volumes[["47", "48", "31", "32"]] = volumes[["47", "48", "31", "32"]].mul(
        1 - loss, axis=0
    )
    volumes[["51", "52"]] = volumes[["51", "52"]].mul(1 + loss, axis=0)
    people["age"] += rng.uniform(0.01, 0.04, len(people)).round(4)
    people["icv"] = rng.normal(1.5e6, 1e5, len(people)).round(2)
    volumes.to_csv(folder / "v.csv", index=False)
    people.to_csv(folder / "p.csv", index=False)
    arguments = [
        str(folder / "v.csv"),
        "--participants",
        str(folder / "p.csv"),
        "--group",
        "diagnosis",
    ]
    arguments += [
        "--covariates",
        "age,sex,icv",
        "--include",
        "ventricles",
        "--patterns",
        "1",
        "--members",
        "2",
    ]
    arguments += [
        "--method",
        "contrastive",
        "--workers",
        "1",
        "--no-report",
        "--out",
        str(folder / "out"),
    ]
    done = invoke("fit", *arguments)
    assert done.exit_code == 0, done.output
    return FinishedStudy(arguments, folder / "out", done.stdout, people)


def test_a_model_with_ventricles_applies_without_a_word(
    study: FinishedStudy, tmp_path: Path
) -> None:
    assert 'include = ["ventricles"]' in (study.out / "study.toml").read_text()
    model = str(study.out / "model.safetensors")
    assert (
        "MUSE_51"
        in json.loads(invoke("model", "show", model, "--json").stdout)["regions"]
    )
    done = invoke(
        "apply", model, *study.arguments[:3], "--out", str(tmp_path / "r.tsv"), "--json"
    )
    assert json.loads(done.stdout)["people"] == 160
    indices = pd.read_csv(tmp_path / "r.tsv", sep="\t")
    assert (
        np.corrcoef(
            indices["r1"], pd.read_csv(study.out / "r_indices.tsv", sep="\t")["r1"]
        )[0, 1]
        > 0.98
    )


def test_lambda_is_printed_only_where_it_was_chosen() -> None:
    assert not fit._has_weights(ModelConfig())
    assert fit._has_weights(ModelConfig(method="surreal-gan"))
    assert fit._has_weights(ModelConfig(orthogonality=(0.2,)))
    assert fit._describe_setting(GridPoint(1, 0.2), has_weights=False) == "1 pattern"
    assert (
        fit._describe_setting(GridPoint(2, 0.2), has_weights=True)
        == "2 patterns, lambda 0.2"
    )


def test_all_files_that_are_not_descriptions_are_listed(study: FinishedStudy) -> None:
    listed = next(
        line for line in study.printed.splitlines() if line.startswith("written")
    )
    files = {path.name for path in study.out.iterdir() if path.is_file()}
    described = {
        f"{name}.json" for name in ("r_indices", "patterns", "effects", "subgroups")
    }
    described |= {"cohort.json", "findings.json", "dataset_description.json"}
    assert files - described == set(listed.partition(": ")[2].split(", "))


def test_the_model_file_has_no_value_of_a_single_person(study: FinishedStudy) -> None:
    """Neither the youngest and the oldest, nor the smallest and the largest head, nor a
    distance of each person.
    """
    model, people = study.out / "model.safetensors", study.people
    shown = json.loads(invoke("model", "show", str(model), "--json").stdout)
    for name in ("age", "icv"):
        coding = next(
            coding for coding in shown["covariates"] if coding["name"] == name
        )
        for low, high in (
            shown["covariate_ranges"][name],
            (coding["low"], coding["high"]),
        ):
            assert (
                low
                == float(f"{low:.2g}")
                <= people.loc[people["diagnosis"] == "CN", name].min()
            )
            assert (
                high
                == float(f"{high:.2g}")
                >= people.loc[people["diagnosis"] == "CN", name].max()
            )
    assert len(ri.load(model).training.distances) == len(people) // 5 + 2
