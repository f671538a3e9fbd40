"""The registry of methods: a new record is enough for a study, its report and its
model.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from rindices.cli.main import app
from rindices.errors import StudyError
from rindices.experiments.simulate import write_cohort
from rindices.learners.contrastive.estimator import (
    compute_unit_severity,
    initialise_contrastive_head,
)
from rindices.learners.ensemble import Member, TrainingOutcome
from rindices.learners.inference import SEVERITY_LEVELS
from rindices.learners.prepared_people import PreparedPeople
from rindices.learners.trajectory.settings import EMSettings
from rindices.study.config import ModelConfig, make_study
from rindices.study.methods import (
    METHODS,
    SETTINGS_OF_SOME_METHODS,
    MemberSet,
    StudyMethod,
    get_study_method,
)
from rindices.study.study import make_plan
from tests.cohorts import simulate_few_regions


class PlainDifference(StudyMethod):
    name = "plain-difference"
    description = "the mean difference between patients and controls"

    def train_members(
        self,
        people: Sequence[PreparedPeople],
        work: MemberSet,
        checkpoint: Path | None,
        on_event: object = None,
    ) -> list[Member]:
        """One pattern per member: the mean difference between patients and controls of
        its own people.
        """
        members = []
        for number, each in zip(work.numbers, people, strict=True):
            rows = each.subsample.seen
            values, patient = each.X[rows], each.y[rows] == 1
            head = initialise_contrastive_head(values, patient, 1, straighten=False)
            shifts = head.prepare(values)
            difference = shifts[patient].mean(axis=0) - shifts[~patient].mean(axis=0)
            weights = difference[:, None] / (difference @ difference)
            unit = compute_unit_severity(shifts[patient] @ weights)
            head = replace(head, weights=weights / unit)
            curves = np.stack(
                [
                    head.to_control_sd(severity * unit[:, None] * difference)
                    for severity in SEVERITY_LEVELS
                ]
            )
            members.append(
                Member(
                    number=number,
                    outcome=TrainingOutcome.CONVERGED,
                    steps=0,
                    head=head,
                    patterns=curves,
                )
            )
        return members


@pytest.fixture
def plain_difference() -> Iterator[StudyMethod]:
    method = METHODS["plain-difference"] = PlainDifference()
    yield method
    del METHODS[method.name]


def invoke(*arguments: object) -> str:
    done = CliRunner().invoke(
        app, [str(argument) for argument in arguments], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.usefixtures("no_pictures")
def test_a_new_method_needs_no_more_than_its_record(
    plain_difference: StudyMethod, tmp_path: Path
) -> None:
    write_cohort(simulate_few_regions("tiny", seed=1), tmp_path)
    people = ["--participants", tmp_path / "participants.tsv"]
    study = [
        tmp_path / "volumes.csv",
        *people,
        "--group",
        "group",
        "--covariates",
        "age,sex,icv",
    ]
    study += [
        "--method",
        plain_difference.name,
        "--patterns",
        1,
        "--members",
        5,
        "--workers",
        1,
    ]
    out = tmp_path / "out"
    assert (
        json.loads(invoke("fit", *study, "--out", out, "--dry-run", "--json"))[
            "seconds_left"
        ]
        < 60
    )
    result = json.loads(invoke("fit", *study, "--out", out, "--json"))
    assert (result["n_patterns"], result["orthogonality"]) == (1, None)
    page = (out / "report.html").read_text("utf-8")
    assert (
        "method plain-difference: the mean difference between patients and controls"
        in page
    )
    assert "each trained on 80 % of controls and of patients" in page
    applied = tmp_path / "applied.tsv"
    invoke(
        "apply",
        out / "model.safetensors",
        tmp_path / "volumes.csv",
        *people,
        "--out",
        applied,
    )
    fitted = pd.read_csv(out / "r_indices.tsv", sep="\t")
    assert np.corrcoef(pd.read_csv(applied, sep="\t")["r1"], fitted["r1"])[0, 1] > 0.9
    assert fitted.groupby("group")["r1"].mean()["patient"] > 0.2
    assert (out / "study.toml").read_text("utf-8").count(
        'method = "plain-difference"'
    ) == 1


def test_an_unknown_method_suggests_another() -> None:
    with pytest.raises(
        StudyError, match=r"model\.method: .*did you mean 'contrastive'\?"
    ):
        make_study({"data": {"volumes": "v.csv"}, "model": {"method": "contrastve"}})
    with pytest.raises(
        StudyError,
        match="there is no method 'surreal-gann': did you mean 'surreal-gan'",
    ):
        get_study_method("surreal-gann")


def test_every_method_is_complete() -> None:
    names = [
        "trajectories",
        "surreal-gan",
        "surreal-gan-published",
        "contrastive",
        "mean-difference",
    ]
    assert list(METHODS) == names
    for name, method in METHODS.items():
        values = method.resolve_values({}, False)
        json.dumps(values, allow_nan=False)
        assert 0 < method.get_subsample_fraction(values) <= 1
        assert method.min_patients(2) >= 2
        assert method.description
        assert {
            work.method
            for work in make_plan(ModelConfig(method=name, patterns=(1,)), 0, "x")
        } == {name}


def test_a_method_without_values_refuses_changes() -> None:
    with pytest.raises(
        StudyError, match="the method contrastive has no max_steps: leave it out"
    ):
        ModelConfig(
            method="contrastive", method_settings={"max_steps": 9}
        ).resolve_values()
    with pytest.raises(StudyError, match="orthogonality is part of the grid"):
        ModelConfig(
            method="surreal-gan", method_settings={"orthogonality": 0.2}
        ).resolve_values()


def test_the_default_method_has_a_shape_and_nothing_else() -> None:
    em = {"em": EMSettings().to_dict()}
    assert ModelConfig().resolve_values() == {"shape": "auto", "start": "auto"} | em
    changed = ModelConfig(
        method_settings={"shape": "staged", "start": "whole-cohort"}
    ).resolve_values()
    assert changed == {"shape": "staged", "start": "whole-cohort"} | em
    with pytest.raises(
        StudyError,
        match="start is 'ratio': give one of auto, contrastive, whole-cohort",
    ):
        ModelConfig(method_settings={"start": "ratio"}).resolve_values()
    with pytest.raises(
        StudyError, match="shape is 'round': give one of auto, proportional, staged"
    ):
        ModelConfig(method_settings={"shape": "round"}).resolve_values()
    with pytest.raises(StudyError, match="the method trajectories has no max_steps"):
        ModelConfig(method_settings={"max_steps": 10}).resolve_values()


NAMED = {
    "orthogonality": "[0.4]",
    "correlated": "true",
    "reference": '"muse"',
    "visits": '"all"',
}


@pytest.mark.parametrize(
    "method", ["trajectories", "surreal-gan", "contrastive", "mean-difference"]
)
@pytest.mark.parametrize("command", ["fit", "check", "reproduce"])
def test_a_setting_that_the_method_does_not_use_is_refused(
    tmp_path: Path, method: str, command: str
) -> None:
    """``correlated`` was taken and ignored by the method trajectories, ``reference`` by
    the method surreal-gan.
    """
    assert set(NAMED) == set(SETTINGS_OF_SOME_METHODS)
    for name, value in NAMED.items():
        section = SETTINGS_OF_SOME_METHODS[name][0]
        lines = {"data": 'volumes = "v.csv"\n', "model": f'method = "{method}"\n'}
        lines[section] += f"{name} = {value}\n"
        (tmp_path / "study.toml").write_text(
            "".join(f"[{key}]\n{text}" for key, text in lines.items())
        )
        arguments = [command, str(tmp_path / "study.toml")]
        arguments += [] if command == "check" else ["--out", str(tmp_path / "out")]
        message = str(CliRunner().invoke(app, arguments).exception)
        is_refused = (
            f"{section}.{name} has no effect: the method {method} does not use"
            in message
        )
        assert is_refused == (name not in METHODS[method].uses), message
        assert not is_refused or "Leave it out, or use method = " in message
