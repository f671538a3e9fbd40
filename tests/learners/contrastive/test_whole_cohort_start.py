"""The whole-cohort start: its space, normal variation, whitening and rotation, and the
choice between starts.
"""

from itertools import product

import numpy as np
import pytest

from rindices.learners.contrastive.linear_start import GroupMoments
from rindices.learners.contrastive.rotation import compute_severity_weights
from rindices.learners.contrastive.whole_cohort_start import (
    CHANCE_LOSS,
    CONTROL_SHARE,
    compute_group_loss,
    compute_rotation_gradient,
    compute_rotation_loss,
    find_rotation,
    find_space,
    is_whole_cohort_taken,
    pool_normal_variation,
    solve_whole_cohort,
    sum_group_losses,
    whiten_severities,
)
from rindices.learners.normal_variation import ReferenceTarget
from rindices.preprocess.standardise import shrink_normal_covariance
from tests.learners.diffuse_people import (
    N_REGIONS,
    DiffusePeople,
    simulate_diffuse_people,
)


def compute_moments(people: DiffusePeople) -> GroupMoments:
    return GroupMoments.compute(
        people.shifts[people.y == 0], people.shifts[people.y == 1]
    )


def measure_share_in_space(patterns: np.ndarray, space: np.ndarray) -> float:
    """Smallest length of a true pattern (M, R), relative to its own, in a
    space (R, M).
    """
    basis = np.linalg.qr(space)[0]
    return float(
        (
            np.linalg.norm(patterns @ basis, axis=1) / np.linalg.norm(patterns, axis=1)
        ).min()
    )


@pytest.mark.parametrize("seed", range(3))
def test_diffuse_patterns_are_in_the_space_of_the_whole_cohort_and_not_in_that_of_the_ratio(
    seed: int,
) -> None:
    people = simulate_diffuse_people(seed)
    moments = compute_moments(people)
    assert measure_share_in_space(people.patterns, find_space(moments, 2).space) > 0.9
    assert measure_share_in_space(people.patterns, moments.solve_space(2)[0]) < 0.65


@pytest.mark.parametrize("seed", range(3))
def test_patterns_are_found_one_by_one(seed: int) -> None:
    people = simulate_diffuse_people(seed, n_controls=400, n_patients=1200)
    start = solve_whole_cohort(compute_moments(people), 2)
    unit = [
        each / np.linalg.norm(each, axis=1, keepdims=True)
        for each in (people.patterns, start.patterns.T)
    ]
    cosines = unit[0] @ unit[1].T
    assert (
        max(min(cosines[0, 0], cosines[1, 1]), min(cosines[0, 1], cosines[1, 0])) > 0.9
    )


def test_space_maximises_excess_variance_between_added_variance_and_ratio() -> None:
    moments = compute_moments(simulate_diffuse_people())
    space, _, spectrum = find_space(moments, 3)
    noise = shrink_normal_covariance(
        moments.controls.covariance, moments.controls.number
    )
    values, axes = np.linalg.eigh(noise)
    root = (axes * values**0.125) @ axes.T
    shift = moments.patients.mean - moments.controls.mean
    excess = moments.patients.covariance + np.outer(shift, shift) - noise
    white = np.linalg.solve(root, np.linalg.solve(root, excess).T)
    directions = np.linalg.solve(root, space)
    np.testing.assert_allclose(white @ directions, directions * spectrum[:3], atol=1e-7)
    assert spectrum[0] == pytest.approx(np.linalg.eigvalsh(white)[-1], rel=1e-6)


def test_normal_variation_is_that_of_controls_within_the_space_and_of_everyone_outside() -> (
    None
):
    people = simulate_diffuse_people()
    moments = compute_moments(people)
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((N_REGIONS, 2)))[0]
    noise = pool_normal_variation(moments, basis @ np.array([[2.0, 1.0], [0.0, 0.5]]))
    controls, patients = (people.shifts[people.y == label] for label in (0, 1))
    deviations = [controls - controls.mean(axis=0), patients - patients.mean(axis=0)]
    outside = [each - each @ basis @ basis.T for each in deviations]
    inside = deviations[0] @ basis @ basis.T
    scatter = deviations[0].T @ deviations[0] + outside[1].T @ outside[1]
    scatter += len(patients) / len(controls) * (inside.T @ inside)
    expected = shrink_normal_covariance(scatter / len(people.y), len(people.y))
    np.testing.assert_allclose(noise, expected, atol=1e-7)


def test_a_reference_takes_part_in_normal_variation() -> None:
    moments = compute_moments(simulate_diffuse_people())
    target = ReferenceTarget(np.eye(N_REGIONS), 1.0)
    noise = find_space(moments._replace(target=target), 2).noise
    assert np.abs(noise - np.diag(np.diag(noise))).max() == 0.0


def test_severities_are_white_when_people_without_disease_are_added() -> None:
    """Measured in the patterns, patients and a share of people at 0 have the identity
    as excess covariance.
    """
    moments = compute_moments(simulate_diffuse_people(n_controls=400, n_patients=1200))
    space, noise, _ = find_space(moments, 2)
    patterns, means = whiten_severities(moments, space, noise)
    weights = compute_severity_weights(patterns, noise)
    excess = (
        weights.T
        @ (moments.patients.covariance - moments.controls.covariance)
        @ weights
    )
    np.testing.assert_allclose(
        excess + CONTROL_SHARE * np.outer(means, means), np.eye(2), atol=1e-8
    )
    np.testing.assert_allclose(
        weights.T @ (moments.patients.mean - moments.controls.mean), means, atol=1e-8
    )


def test_patients_who_vary_less_than_controls_have_no_start() -> None:
    rng = np.random.default_rng(0)
    people = rng.standard_normal((400, 6))
    with pytest.raises(np.linalg.LinAlgError, match="vary less"):
        solve_whole_cohort(GroupMoments.compute(people[:200], 0.1 * people[200:]), 2)


def make_rotation_problem(n_patterns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([n_patterns, seed])
    return rng.standard_normal((30, n_patterns)) ** 3, rng.standard_normal(
        n_patterns
    ) + 1.0


@pytest.mark.parametrize("seed", range(5))
def test_rotation_of_two_patterns_is_the_best_of_all_angles(seed: int) -> None:
    patterns, means = make_rotation_problem(2, seed)
    rotation = find_rotation(patterns, means)
    angles = np.linspace(0.0, np.pi, 20_000)
    losses = []
    for angle in angles:
        turn = np.array(
            [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        )
        losses.append(compute_rotation_loss(patterns @ turn, means @ turn))
    found = compute_rotation_loss(patterns @ rotation, means @ rotation)
    assert found <= min(losses) + 1e-9
    assert found == pytest.approx(min(losses), abs=1e-4)
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(2), atol=1e-12)


@pytest.mark.parametrize("n_patterns", [3, 4])
def test_rotation_of_several_patterns_is_better_than_any_of_many(
    n_patterns: int,
) -> None:
    patterns, means = make_rotation_problem(n_patterns, 0)
    rotation, rng = find_rotation(patterns, means), np.random.default_rng(0)
    found = compute_rotation_loss(patterns @ rotation, means @ rotation)
    for _ in range(3_000):
        other = np.linalg.qr(rng.standard_normal((n_patterns, n_patterns)))[0]
        assert found < compute_rotation_loss(patterns @ other, means @ other)
    assert (
        np.abs(compute_rotation_gradient(patterns @ rotation, means @ rotation)).max()
        < 1e-10
    )
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(n_patterns), atol=1e-12)


def test_gradient_of_the_rotation_is_that_of_small_turns() -> None:
    patterns, means = make_rotation_problem(3, 1)
    gradient, width = compute_rotation_gradient(patterns, means), 1e-6
    for found, (i, j) in zip(gradient, [(0, 1), (0, 2), (1, 2)], strict=True):
        sides = []
        for angle in (width, -width):
            turn = np.eye(3)
            turn[[i, j], [i, j]], turn[j, i], turn[i, j] = (
                np.cos(angle),
                np.sin(angle),
                -np.sin(angle),
            )
            sides.append(compute_rotation_loss(patterns @ turn, means @ turn))
        assert found == pytest.approx(
            (sides[0] - sides[1]) / (2.0 * width), rel=1e-5, abs=1e-6
        )


def test_one_pattern_needs_no_rotation() -> None:
    patterns, means = make_rotation_problem(1, 0)
    np.testing.assert_array_equal(find_rotation(patterns, means), np.eye(1))


def test_group_loss_counts_both_groups_alike_and_clips_outliers() -> None:
    patients, controls = [0.3, -1.0, 80.0], [-0.4, -70.0, 2.0, 0.1]
    expected = 0.0
    for group, sign in ((patients, -1.0), (controls, 1.0)):
        losses = [
            np.log(1.0 + np.exp(sign * max(min(ratio, 5.0), -5.0))) for ratio in group
        ]
        expected += 0.5 * sum(losses) / len(losses)
    sums = [
        sum_group_losses(np.array(group), is_patient)
        for group, is_patient in ((controls, False), (patients, True))
    ]
    assert compute_group_loss(*sums, 4, 3) == pytest.approx(expected, rel=1e-12)
    nothing = [
        sum_group_losses(np.zeros(7), is_patient) for is_patient in (False, True)
    ]
    assert compute_group_loss(*nothing, 7, 7) == pytest.approx(CHANCE_LOSS)
    assert np.isnan(compute_group_loss(0.0, 3.0, 0, 3))


@pytest.mark.parametrize(
    ("contrastive", "whole_cohort", "is_taken"),
    [
        ([0.6, 0.5], [0.4, 0.45], True),
        ([0.6, 0.5], [0.52, 0.49], False),  # not better by 0.05
        ([0.9, 1.3], [0.69, 0.69], False),  # as good as guessing
        ([0.9, 1.3], [0.5, 0.8], True),
        ([0.9, np.nan], [0.5, 0.5], False),
        ([0.9, 0.9], [0.5, np.nan], False),
    ],
)
def test_the_start_that_distinguishes_people_clearly_better_is_taken(
    contrastive: list[float], whole_cohort: list[float], is_taken: bool
) -> None:
    assert (
        is_whole_cohort_taken(np.array(contrastive), np.array(whole_cohort)) is is_taken
    )


def test_signs_and_order_of_regions_do_not_matter() -> None:
    people = simulate_diffuse_people()
    rng = np.random.default_rng(1)
    order, signs = rng.permutation(N_REGIONS), rng.choice([-1.0, 1.0], N_REGIONS)
    start, other = (
        solve_whole_cohort(compute_moments(people._replace(shifts=shifts)), 2).patterns
        for shifts in (people.shifts, (people.shifts * signs)[:, order])
    )
    np.testing.assert_allclose(other, (start.T * signs)[:, order].T, atol=1e-9)


def test_rows_in_any_order_give_the_same_patterns() -> None:
    people = simulate_diffuse_people()
    for n_patterns, seed in product((2, 3), range(2)):
        order = np.random.default_rng(seed).permutation(len(people.y))
        shuffled = people._replace(shifts=people.shifts[order], y=people.y[order])
        first, second = (
            solve_whole_cohort(compute_moments(each), n_patterns)
            for each in (people, shuffled)
        )
        np.testing.assert_allclose(first.patterns, second.patterns, atol=1e-10)
        np.testing.assert_allclose(first.noise, second.noise, atol=1e-10)
