"""Ensemble members: repeatable, different from each other, and on one scale."""

from dataclasses import replace

import numpy as np
import pytest

import rindices as ri
from rindices.errors import InputError
from rindices.learners.ensemble import (
    HeldOutLikelihood,
    TrainingOutcome,
    choose_shape,
    fit_linear_members,
    rescale_consensus,
    select_usable_members,
)
from rindices.learners.inference import SEVERITY_LEVELS
from rindices.learners.prepared_people import PreparedPeople


@pytest.fixture(scope="module")
def people() -> tuple[np.ndarray, np.ndarray]:
    cohort = ri.simulate_cohort("tiny", seed=1).cohort
    return ri.Preprocessing.fit(cohort).transform(cohort), cohort.is_patient.astype(
        np.intp
    )


def test_a_member_depends_on_seed_and_number_alone(
    people: tuple[np.ndarray, np.ndarray],
) -> None:
    X, y = people
    together = fit_linear_members(
        PreparedPeople(X=X, y=y).deal_to_members((0, 1), 3), 2, (0, 1), seed=3
    )
    (alone,) = fit_linear_members(
        PreparedPeople(X=X, y=y).deal_to_members((1,), 3), 2, (1,), seed=3
    )
    np.testing.assert_array_equal(together[1].head.weights, alone.head.weights)
    assert not np.array_equal(together[0].head.weights, alone.head.weights)
    assert alone.patterns.shape == (len(SEVERITY_LEVELS), 2, X.shape[1])
    assert alone.evidence is None


def test_evidence_is_the_agreement_of_disjoint_halves(
    people: tuple[np.ndarray, np.ndarray],
) -> None:
    X, y = people
    dealt = PreparedPeople(X=X, y=y).deal_to_members(range(5), 0)
    for member in fit_linear_members(dealt, 2, range(5), seed=0):
        assert member.evidence is not None
        assert 0.5 < member.evidence[0] <= 1.0


def test_too_many_patterns_are_an_input_error() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), np.repeat([0, 1], 10)
    with pytest.raises(InputError, match="n_patterns is 9 but X has 3"):
        fit_linear_members([PreparedPeople(X=X, y=y)], 9, (0,), seed=0)


def test_the_rescaled_consensus_is_1_at_the_98th_percentile(
    people: tuple[np.ndarray, np.ndarray],
) -> None:
    X, y = people
    dealt = PreparedPeople(X=X, y=y).deal_to_members((0, 1, 2), 0)
    heads = [member.head for member in fit_linear_members(dealt, 2, (0, 1, 2), seed=0)]
    orders = [np.array([0, 1]), np.array([1, 0]), np.array([0, 1])]
    before = np.mean(
        [
            head.infer(X[y == 1])[:, order]
            for head, order in zip(heads, orders, strict=True)
        ],
        axis=0,
    )
    heads, unit = rescale_consensus(heads, orders, before)
    consensus = np.mean(
        [
            head.infer(X[y == 1])[:, order]
            for head, order in zip(heads, orders, strict=True)
        ],
        axis=0,
    )
    np.testing.assert_allclose(np.quantile(consensus, 0.98, axis=0), 1.0)
    assert (unit > 0).all()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([("proportional", -1.0, -3.0), ("staged", -2.0, -1.0)], "proportional"),
        ([("proportional", -2.0, -1.9)], "staged"),
        ([("proportional", -2.0, -2.0)], "proportional"),
        ([("staged", None, -5.0)], "staged"),
        ([("staged", None, float("nan"))], "staged"),
    ],
)
def test_members_prefer_a_shape_together(
    values: list[tuple[str, float | None, float | None]], expected: str
) -> None:
    likelihoods = [
        HeldOutLikelihood(shape=shape, proportional=proportional, staged=staged)
        for shape, proportional, staged in values
    ]
    assert choose_shape(likelihoods) == expected


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        ([0.2, 0.1, 0.15], "interacting"),
        ([0.02, 0.03, 0.02], "staged"),  # too small
        ([0.5, -0.2, 0.1], "staged"),  # members differ
        ([0.2], "interacting"),
        ([None, None], "staged"),
    ],
)
def test_interactions_must_bring_a_clear_gain(
    gains: list[float | None], expected: str
) -> None:
    held_out = [
        HeldOutLikelihood(
            shape="staged",
            proportional=-3.0 + k,
            staged=-2.0 + k,
            interacting=None if gain is None else -2.0 + k + gain,
        )
        for k, gain in enumerate(gains)
    ]
    assert choose_shape(held_out) == expected


def test_usable_members_have_one_shape() -> None:
    rng = np.random.default_rng(0)
    (linear,) = fit_linear_members(
        [PreparedPeople(X=rng.normal(size=(20, 2)), y=np.repeat([0, 1], 10))],
        1,
        (0,),
        0,
        False,
    )
    likelihoods = [
        HeldOutLikelihood(shape="proportional", proportional=-1.0, staged=-1.1),
        HeldOutLikelihood(shape="staged", proportional=-2.0, staged=-1.0),
    ]
    members = [
        replace(linear, number=k, held_out=each) for k, each in enumerate(likelihoods)
    ]
    assert [member.number for member in select_usable_members(members)] == [1]
    minority = [members[0], members[0], members[1]]
    assert [member.number for member in select_usable_members(minority)] == [0, 0]
    without = [replace(member, held_out=None) for member in members]
    assert select_usable_members(without) == without
    failed = [replace(member, outcome=TrainingOutcome.DIVERGED) for member in members]
    assert select_usable_members(failed) == []
