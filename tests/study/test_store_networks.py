"""The run store keeps the training of members with networks, bit for bit."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rindices.learners.ensemble import Member, TrainingOutcome
from rindices.learners.gan.recipe import TrainingPlan
from rindices.learners.gan.train import train_surreal_members
from rindices.learners.prepared_people import PreparedPeople
from rindices.study.config import ModelConfig
from rindices.study.methods import MemberSet
from rindices.study.store import RunStore
from rindices.study.study import make_plan
from tests.learners.gan.helpers import PEOPLE, SHORT


@pytest.fixture(scope="module")
def members() -> list[Member]:
    people = PreparedPeople(
        X=np.concatenate(PEOPLE), y=np.repeat([0, 1], [len(each) for each in PEOPLE])
    )
    return train_surreal_members(
        [people], TrainingPlan(patterns=2, recipe=SHORT, seed=3, members=(0, 1))
    )


@pytest.fixture
def work() -> MemberSet:
    return make_plan(
        ModelConfig(patterns=(2,), members=2, method="contrastive"), 0, "x"
    )[0]


def check_same(loaded: Sequence[Member] | None, saved: Sequence[Member]) -> None:
    assert loaded is not None
    for a, b in zip(loaded, saved, strict=True):
        assert (a.number, a.outcome, a.steps) == (b.number, b.outcome, b.steps)
        assert a.training is not None
        assert b.training is not None
        assert a.training.met_bars == b.training.met_bars
        assert a.training.checks.tolist() == b.training.checks.tolist() != []
        assert a.training.losses.dtype == b.training.losses.dtype
        assert a.training.losses.tobytes() == b.training.losses.tobytes()
        assert (
            a.training.weights.keys()
            == b.training.weights.keys()
            >= {"f.gate", "g1.weight", "d.weight1"}
        )
        for name, weight in b.training.weights.items():
            assert a.training.weights[name].dtype == weight.dtype
            assert a.training.weights[name].shape == weight.shape
            assert a.training.weights[name].tobytes() == weight.tobytes()


def test_training_is_loaded_as_it_was_saved(
    members: list[Member], work: MemberSet, tmp_path: Path
) -> None:
    store = RunStore(tmp_path)
    store.save(work, members)
    check_same(store.load(work), members)


def test_a_member_that_diverged_is_kept(
    members: list[Member], work: MemberSet, tmp_path: Path
) -> None:
    first = members[0]
    assert first.training is not None
    losses, patterns = first.training.losses.copy(), first.patterns.copy()
    weights = {name: weight.copy() for name, weight in first.training.weights.items()}
    losses[-1], patterns[0], weights["f.gate"][0] = np.inf, np.nan, np.nan
    training = replace(first.training, losses=losses, weights=weights)
    lost = replace(
        first, outcome=TrainingOutcome.DIVERGED, patterns=patterns, training=training
    )
    store = RunStore(tmp_path)
    store.save(work, [lost, members[1]])
    check_same(store.load(work), [lost, members[1]])
    converged = replace(lost, outcome=TrainingOutcome.CONVERGED)
    store.save(work, [converged, members[1]])
    assert store.load(work) is None


def test_a_set_without_trainings_is_loaded(
    members: list[Member], work: MemberSet, tmp_path: Path
) -> None:
    store = RunStore(tmp_path)
    store.save(work, [replace(member, training=None) for member in members])
    loaded = store.load(work)
    assert loaded is not None
    assert [member.training for member in loaded] == [None, None]
    for a, b in zip(loaded, members, strict=True):
        assert a.patterns.tobytes() == b.patterns.tobytes()
