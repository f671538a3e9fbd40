"""The choice between two starts of the trajectory learner."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from rindices.errors import InputError
from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import TASKS
from rindices.learners.contrastive.whole_cohort_start import CHANCE_LOSS
from rindices.learners.ensemble import Member, compute_pattern_weights
from rindices.learners.inference import TrajectoryHead
from rindices.learners.prepared_people import PreparedPeople
from rindices.learners.severity_posterior import make_severity_points
from rindices.learners.trajectory.estimator import DiseaseTrajectories
from rindices.learners.trajectory.expectation import (
    compute_head_likelihood,
    compute_log_ratio,
)
from rindices.learners.trajectory.members import (
    compare_trajectory_halves,
    fit_trajectory_members,
)
from rindices.learners.trajectory.model import TrajectoryModel
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.agreement import pattern_c_index
from tests.cohorts import simulate_few_regions
from tests.learners.diffuse_people import (
    DiffusePeople,
    simulate_diffuse_people,
    simulate_mixed_people,
)


def prepare(people: DiffusePeople) -> PreparedPeople:
    return PreparedPeople(X=1.0 + 0.1 * people.shifts, y=people.y)


def fit(
    people: PreparedPeople,
    start: str = "auto",
    n_patterns: int = 2,
    shape: str = "auto",
) -> list[Member]:
    return fit_trajectory_members(
        people.deal_to_members(range(5), 0),
        n_patterns,
        range(5),
        seed=0,
        shape=shape,
        start=start,
    )


def read_unseen(
    people: PreparedPeople, members: list[Member], severities: np.ndarray
) -> float:
    """Mean c-index of the R-indices of patients by the members that have
    not seen them.
    """
    values = []
    for member, own in zip(members, people.deal_to_members(range(5), 0), strict=True):
        assert own.seen is not None
        unseen = ~own.seen[people.y == 1]
        r = member.head.infer(people.X[people.y == 1])
        values.append(pattern_c_index(severities[unseen], r[unseen]).mean)
    return float(np.mean(values))


def average_losses(members: list[Member]) -> tuple[float, float]:
    losses = [
        (each.held_out.contrastive_loss, each.held_out.whole_cohort_loss)
        for each in members
        if each.held_out
    ]
    first, second = np.array(losses, dtype=float).mean(axis=0)
    return float(first), float(second)


@pytest.mark.parametrize("seed", [0, 4])
def test_diffuse_patterns_are_found_by_the_whole_cohort_start_alone(seed: int) -> None:
    truth = simulate_diffuse_people(seed)
    people = prepare(truth)
    chosen, contrastive = fit(people), fit(people, "contrastive")
    assert {each.held_out.start for each in chosen if each.held_out} == {"whole-cohort"}
    found, missed = (
        read_unseen(people, members, truth.severities)
        for members in (chosen, contrastive)
    )
    assert found > 0.7
    assert found > missed + 0.1
    own, other = average_losses(chosen)
    assert own - other > 0.1
    assert other < CHANCE_LOSS
    assert contrastive[0].held_out is not None
    assert contrastive[0].held_out.contrastive_loss is None


def test_a_local_pattern_beside_a_diffuse_one_is_kept_by_the_mixed_start() -> None:
    truth = simulate_mixed_people(seed=1)
    people = prepare(truth)
    chosen, contrastive, diffuse = (
        fit(people, start, shape="proportional")
        for start in ("auto", "contrastive", "whole-cohort")
    )
    assert {each.held_out.start for each in chosen if each.held_out} == {"mixed"}
    found, kept, lost = (
        read_unseen(people, members, truth.severities)
        for members in (chosen, contrastive, diffuse)
    )
    assert found > lost + 0.05
    assert found > kept
    own, other = average_losses(chosen)
    assert own - other > 0.1  # without the mixed start, the diffuse one would be taken
    losses = [each.held_out.mixed_loss for each in chosen if each.held_out]
    assert np.mean(np.array(losses, dtype=float)) < own


@pytest.mark.parametrize("start", ["whole-cohort", "mixed"])
def test_people_are_read_with_independent_severities(start: str) -> None:
    member = fit(prepare(simulate_diffuse_people()), start, shape="proportional")[0]
    assert isinstance(member.head, TrajectoryHead)
    np.testing.assert_array_equal(member.head.correlation, np.eye(2))


def test_halves_begin_at_the_start_of_the_members() -> None:
    people = prepare(simulate_diffuse_people())
    dealt, members = people.deal_to_members(range(5), 0), fit(people)
    evidence = [
        each.evidence for each in compare_trajectory_halves(dealt, members, seed=0)
    ]
    others = [
        replace(
            each, held_out=each.held_out and replace(each.held_out, start="contrastive")
        )
        for each in members
    ]
    contrastive = [
        each.evidence for each in compare_trajectory_halves(dealt, others, seed=0)
    ]
    assert (
        np.mean([each[0] for each in evidence if each])
        > np.mean([each[0] for each in contrastive if each]) + 0.05
    )


@pytest.mark.parametrize("n_patterns", [1, 3])
def test_local_patterns_keep_the_contrastive_start_to_the_bit(n_patterns: int) -> None:
    simulated = simulate_few_regions(
        replace(TASKS["basic"], n_controls=200, n_patients=300), seed=900
    )
    cohort = simulated.cohort
    people = PreparedPeople(
        X=Preprocessing.fit(cohort).transform(cohort),
        y=cohort.is_patient.astype(np.intp),
    )
    chosen, contrastive = (
        fit(people, n_patterns=n_patterns),
        fit(people, "contrastive", n_patterns),
    )
    for one, other in zip(chosen, contrastive, strict=True):
        assert one.held_out is not None
        assert one.held_out.start == "contrastive"
        assert one.held_out.whole_cohort_loss is not None
        arrays, expected = one.head.to_arrays(), other.head.to_arrays()
        for name, array in expected.items():
            np.testing.assert_array_equal(arrays[name], array)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["basic", "overlap", "mild", "tiny"])
def test_simulated_tasks_keep_the_contrastive_start(task: str) -> None:
    cohort = simulate_cohort(task, seed=900).cohort
    people = PreparedPeople(
        X=Preprocessing.fit(cohort).transform(cohort),
        y=cohort.is_patient.astype(np.intp),
    )
    for n_patterns in (2, 3, 4):
        members = fit(people, n_patterns=n_patterns, shape="proportional")
        assert members[0].held_out is not None
        assert members[0].held_out.start == "contrastive"


@pytest.mark.parametrize("seed", range(4))
def test_permuted_labels_never_take_the_whole_cohort_start(seed: int) -> None:
    people = prepare(simulate_diffuse_people(seed))
    permuted = replace(people, y=np.random.default_rng(seed).permutation(people.y))
    members = fit(permuted, shape="proportional")
    assert members[0].held_out is not None
    assert members[0].held_out.start == "contrastive"


def test_missing_cells_and_an_unknown_start() -> None:
    truth = simulate_diffuse_people()
    gaps = np.random.default_rng(0).uniform(size=truth.shifts.shape) < 0.03
    people = prepare(truth)
    members = fit(
        replace(people, X=np.where(gaps, np.nan, people.X)), shape="proportional"
    )
    assert members[0].held_out is not None
    assert members[0].held_out.start == "whole-cohort"
    with pytest.raises(InputError, match="start is 'best'"):
        DiseaseTrajectories(start="best").fit(people.X, people.y)


def test_patients_who_vary_less_than_controls_keep_the_contrastive_start() -> None:
    rng = np.random.default_rng(0)
    people = PreparedPeople(
        X=1.0 + 0.1 * rng.standard_normal((300, 8)), y=np.repeat([0, 1], 150)
    )
    people.X[people.y == 1] = 1.0 + 0.2 * (people.X[people.y == 1] - 1.0)
    members = fit(people, shape="proportional")
    assert members[0].held_out is not None
    assert (members[0].held_out.start, members[0].held_out.whole_cohort_loss) == (
        "contrastive",
        None,
    )
    with pytest.raises(InputError, match="do not vary more than controls"):
        fit(people, "whole-cohort")


@pytest.mark.parametrize("has_gaps", [False, True])
def test_log_ratio_is_that_of_the_two_densities(has_gaps: bool) -> None:
    rng = np.random.default_rng(3)
    root = rng.standard_normal((4, 4))
    common = np.full((2, 5), 0.2)
    steps = common[:, :, None] * rng.standard_normal((2, 1, 4))
    model = TrajectoryModel(
        steps=steps,
        noise=root @ root.T + np.eye(4),
        correlation=np.eye(2),
        common=common,
    )
    people = 2.0 * rng.standard_normal((6, 4))
    if has_gaps:
        people[1, 2] = people[3, 0] = people[3, 1] = np.nan
    points = make_severity_points(2)
    for person, found in zip(people, compute_log_ratio(people, model), strict=True):
        seen = ~np.isnan(person)
        control = multivariate_normal(
            np.zeros(seen.sum()), model.noise[np.ix_(seen, seen)]
        )
        shifts = person[seen] - points @ steps.sum(axis=1)[:, seen]
        density = np.mean([np.exp(control.logpdf(each)) for each in shifts])
        assert found == pytest.approx(
            np.log(density) - control.logpdf(person[seen]), rel=1e-9
        )


def test_weights_of_diffuse_patterns_learnt_again_need_their_own_space() -> None:
    truth = simulate_diffuse_people(n_controls=200, n_patients=600)
    halves = [
        prepare(simulate_diffuse_people(seed, n_controls=200, n_patients=600))
        for seed in (1, 2)
    ]
    patients = prepare(truth).X[truth.y == 1]
    agreement = {}
    for start in ("whole-cohort", "contrastive"):
        first, second = (
            patients @ compute_pattern_weights(half, truth.patterns.T, start)
            for half in halves
        )
        agreement[start] = min(
            np.corrcoef(a, b)[0, 1] for a, b in zip(first.T, second.T, strict=True)
        )
    assert agreement["whole-cohort"] > 0.9
    assert agreement["whole-cohort"] > agreement["contrastive"] + 0.1


def test_the_estimator_says_which_start_it_took() -> None:
    truth = simulate_diffuse_people()
    learner = DiseaseTrajectories(2, random_state=0, shape="proportional").fit(
        truth.shifts, truth.y
    )
    assert learner.start_ == "whole-cohort"
    assert np.isfinite(learner.score(truth.shifts, truth.y))
    head = learner.members_[0].head
    assert np.isfinite(compute_head_likelihood(head, prepare(truth).X)).all()
