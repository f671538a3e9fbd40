"""A study says from which start its patterns were fitted, and why."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import rindices as ri
from rindices.learners.ensemble import HeldOutLikelihood
from rindices.learners.inference import TrajectoryHead
from rindices.selection.agreement import pattern_c_index
from rindices.study.candidates import is_guessing, make_start_record
from rindices.tables.cohort import ID
from tests.learners.diffuse_people import make_diffuse_cohort, simulate_diffuse_people


def test_a_study_of_diffuse_patterns(tmp_path: Path) -> None:
    truth = simulate_diffuse_people()
    model = ri.fit(make_diffuse_cohort(truth), 2, members=10, workers=1, out=tmp_path)
    assert model.indices is not None
    patients = make_diffuse_cohort(truth).people[ID][truth.y == 1]
    own = model.indices.set_index(ID).loc[patients, ["r1", "r2"]].to_numpy()
    assert pattern_c_index(truth.severities, own).mean > 0.7
    (record,) = [
        each["start"]
        for each in json.loads((tmp_path / "selection.json").read_text())["grid"]
    ]
    assert record["taken"] == "whole-cohort"
    assert record["contrastive_loss"] - record["whole_cohort_loss"] > 0.1
    assert record["whole_cohort_loss"] < np.log(2.0)
    losses = f"loss {record['whole_cohort_loss']:.3f}, against {record['contrastive_loss']:.3f}; guessing gives 0.693"
    assert losses in record["why"]
    assert record["why"] in ri.write_report(tmp_path).read_text("utf-8")
    heads = ri.load(tmp_path / "model.safetensors").heads
    assert len(heads) > 5  # those of the second set of members, too
    for head in heads:
        assert isinstance(head, TrajectoryHead)
        np.testing.assert_array_equal(head.correlation, np.eye(2))


@pytest.mark.slow
def test_a_start_that_is_asked_for_has_its_group_loss() -> None:
    cohort = make_diffuse_cohort(simulate_diffuse_people())
    found, given = (
        ri.fit(cohort, 2, members=5, workers=1, method_settings=settings)
        for settings in ({}, {"start": "whole-cohort"})
    )
    own, other = (model.selection.grid[0].start for model in (found, given))
    assert own.taken == other.taken == "whole-cohort"
    assert own.whole_cohort_loss == other.whole_cohort_loss < np.log(2.0)
    assert other.contrastive_loss is None
    for model in (found, given):
        assert model.selection.number_of_patterns.decided_by == "group loss"


@pytest.mark.parametrize(
    ("start", "losses", "guessing"),
    [
        ("whole-cohort", {"whole_cohort_loss": 0.6}, False),
        ("whole-cohort", {"whole_cohort_loss": 0.69}, True),
        ("whole-cohort", {"whole_cohort_loss": 0.9}, True),
        ("whole-cohort", {}, False),  # a model of an earlier version
        ("mixed", {"whole_cohort_loss": 0.6, "mixed_loss": 0.8}, False),
        ("contrastive", {"contrastive_loss": 0.9, "whole_cohort_loss": 0.9}, False),
    ],
)
def test_diffuse_patterns_must_say_who_is_a_patient(
    start: str, losses: dict[str, float], guessing: bool
) -> None:
    held_out = HeldOutLikelihood.from_values("proportional", {"proportional": -1.0})
    held_out = replace(held_out, start=start, **losses)
    members = [SimpleNamespace(number=k, held_out=held_out) for k in range(5)]
    assert is_guessing(members) is guessing


@pytest.mark.parametrize(
    ("taken", "contrastive", "whole_cohort", "mixed", "why"),
    [
        (
            "whole-cohort",
            [0.8, 0.9],
            [0.4, 0.5],
            None,
            "better with its patterns than with those of the contrastive start",
        ),
        (
            "contrastive",
            [0.03, 0.04],
            [0.06, 0.08],
            None,
            "are not distinguished better by 0.05 (loss 0.070, against 0.035;",
        ),
        (
            "contrastive",
            [1.2, 1.3],
            [0.7, 0.69],
            None,
            "not distinguished clearly better than by guessing (loss 0.695,",
        ),
        (
            "contrastive",
            [0.8, None],
            [0.4, 0.5],
            None,
            "it was asked for, or the other one cannot be computed",
        ),
        (
            "mixed",
            [0.8, 0.9],
            [0.4, 0.5],
            0.7,
            "distinguished better than with the contrastive start alone (loss 0.700, against 0.850)",
        ),
        (
            "contrastive",
            [0.8, 0.9],
            [0.4, 0.5],
            0.9,
            "not distinguished better than with the contrastive start alone (loss 0.900, against 0.850)",
        ),
    ],
)
def test_the_reason_is_one_sentence(
    taken: str,
    contrastive: list[float | None],
    whole_cohort: list[float | None],
    mixed: float | None,
    why: str,
) -> None:
    members = [
        HeldOutLikelihood(
            shape="proportional",
            proportional=-1.0,
            staged=None,
            start=taken,
            contrastive_loss=first,
            whole_cohort_loss=second,
            mixed_loss=mixed,
        )
        for first, second in zip(contrastive, whole_cohort, strict=True)
    ]
    record = make_start_record(members)
    assert record.taken == taken
    assert record.why.startswith(f"The {taken} start was taken: ")
    assert why in record.why
    assert record.why.endswith(".")
    assert (record.contrastive_loss is None) == (None in contrastive)
