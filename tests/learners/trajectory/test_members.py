"""Members of the trajectory learner: shape, evidence, heads."""

from dataclasses import replace

import numpy as np
import pytest

from rindices.errors import InputError
from rindices.experiments.tasks import TASKS
from rindices.learners.inference import SEVERITY_LEVELS, InteractingHead, TrajectoryHead
from rindices.learners.prepared_people import PreparedPeople
from rindices.learners.trajectory.members import (
    compare_trajectory_halves,
    fit_trajectory_members,
)
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.agreement import pattern_c_index
from tests.cohorts import simulate_few_regions
from tests.learners.trajectory.helpers import UnfoldingCohort, simulate_unfolding


def prepare(cohort: UnfoldingCohort) -> PreparedPeople:
    return PreparedPeople(X=1.0 + 0.1 * cohort.shifts, y=cohort.y)


@pytest.mark.parametrize(
    ("last_onset", "shape"), [(0.8, "staged"), (0.0, "proportional")]
)
def test_the_right_shape_is_chosen_and_severities_are_found(
    last_onset: float, shape: str
) -> None:
    cohort = simulate_unfolding(last_onset)
    people = prepare(cohort)
    dealt = people.deal_to_members(range(5), 0)
    members = compare_trajectory_halves(
        dealt, fit_trajectory_members(dealt, 2, range(5), seed=0), seed=0
    )
    assert [member.number for member in members] == list(range(5))
    for member in members:
        assert member.held_out is not None
        assert member.held_out.shape == shape
        assert member.held_out.get_value(shape) == getattr(member.held_out, shape)
        assert member.evidence is not None
        assert member.evidence[0] > 0.8
        assert isinstance(member.head, TrajectoryHead)
        r = member.head.infer(people.X)
        assert ((r > 0) & (r < 1)).all()
        assert pattern_c_index(cohort.z, r[cohort.y == 1]).mean > 0.8
        np.testing.assert_array_equal(
            member.patterns, member.head.compute_curves(np.array(SEVERITY_LEVELS))
        )
        np.testing.assert_allclose(
            member.head.compute_curves(np.zeros(1)), 0.0, atol=1e-12
        )


def test_interacting_patterns_are_chosen_where_one_makes_the_other_stronger() -> None:
    simulated = simulate_few_regions(
        replace(TASKS["together"], n_controls=250, n_patients=500), seed=0
    )
    cohort = simulated.cohort
    people = PreparedPeople(
        X=Preprocessing.fit(cohort).transform(cohort),
        y=cohort.is_patient.astype(np.intp),
    )
    (member,) = fit_trajectory_members(people.deal_to_members([0], 0), 3, [0], seed=0)
    assert member.held_out is not None
    assert member.held_out.shape == "interacting"
    assert isinstance(member.head, InteractingHead)
    arrays = member.head.to_arrays()
    assert {
        name: array.shape for name, array in arrays.items()
    } == InteractingHead.shapes(people.X.shape[1], 3)
    found = InteractingHead.from_arrays(arrays).infer(people.X)
    np.testing.assert_array_equal(found, member.head.infer(people.X))
    (additive,) = fit_trajectory_members(
        people.deal_to_members([0], 0), 3, [0], seed=0, shape="staged"
    )
    both = (
        pattern_c_index(simulated.truth, r[people.y == 1]).mean
        for r in (found, additive.head.infer(people.X))
    )
    assert next(both) > next(both) + 0.02


def test_a_single_pattern_has_no_interactions() -> None:
    people = prepare(simulate_unfolding(n_controls=60, n_patients=90))
    member = fit_trajectory_members(people.deal_to_members([0], 1), 1, [0], seed=1)[0]
    assert member.held_out is not None
    assert member.held_out.interacting is None


def test_a_member_owes_nothing_to_people_whom_it_has_not_seen_and_arrays_keep_it() -> (
    None
):
    people = prepare(simulate_unfolding(n_controls=60, n_patients=90))
    (dealt,) = people.deal_to_members([4], 1)
    assert dealt.seen is not None
    strangers = replace(
        dealt,
        X=np.where(
            dealt.seen[:, None] | (dealt.y == 1)[:, None], dealt.X, 9.0 * dealt.X
        ),
    )
    head, other = (
        fit_trajectory_members([each], 2, [4], seed=1, shape="staged")[0].head
        for each in (dealt, strangers)
    )
    np.testing.assert_array_equal(head.to_arrays()["steps"], other.to_arrays()["steps"])
    arrays = head.to_arrays()
    assert {
        name: array.shape for name, array in arrays.items()
    } == TrajectoryHead.shapes(30, 2)
    np.testing.assert_array_equal(
        TrajectoryHead.from_arrays(arrays).infer(people.X), head.infer(people.X)
    )


def test_curves_of_the_head_are_the_change_that_it_infers() -> None:
    people = prepare(simulate_unfolding())
    head = fit_trajectory_members(
        people.deal_to_members([0], 0), 2, [0], seed=0, shape="staged"
    )[0].head
    assert isinstance(head, TrajectoryHead)
    average = people.X[people.y == 0].mean(axis=0, keepdims=True)
    levels = np.array([0.2, 0.5, 0.8])
    changed = np.concatenate(
        [
            head.apply_change(average, change[[0]])
            for change in head.compute_curves(levels)
        ]
    )
    first = head.infer(changed)[:, 0]
    assert (np.diff(first) > 0.1).all()


def test_too_few_patients_are_named() -> None:
    people = prepare(simulate_unfolding(n_controls=20, n_patients=4))
    with pytest.raises(InputError, match="patients cannot give"):
        fit_trajectory_members(people.deal_to_members([0], 0), 6, [0], seed=0)


@pytest.mark.parametrize("shape", ["proportional", "interacting"])
def test_patterns_whose_regions_change_together_are_of_rank_one_after_accelerated_steps(
    shape: str,
) -> None:
    people = prepare(simulate_unfolding(0.0))
    (member,) = fit_trajectory_members(
        people.deal_to_members([0], 0), 2, [0], seed=0, shape=shape
    )
    assert isinstance(member.head, TrajectoryHead)
    assert member.steps > 2  # momentum begins with the second step
    singular = np.linalg.svd(member.head.steps, compute_uv=False)
    assert (singular[:, 1] < 1e-12 * singular[:, 0]).all()
