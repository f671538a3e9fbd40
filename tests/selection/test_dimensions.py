"""The test for the number of patterns: its parts against plain computations, its result
against simulated truth.
"""

import numpy as np
import pytest
from scipy.linalg import eigh
from sklearn.covariance import ledoit_wolf
from sklearn.linear_model import LinearRegression

from rindices._typing import BoolArray, FloatArray
from rindices.preprocess.standardise import shrink_covariance
from rindices.selection.dimensions import (
    EXCESS_STATISTICS,
    AdjustedGroups,
    DimensionEstimate,
    DimensionTest,
    ParticipantData,
    _test_dimension,
    count_dimensions,
    count_significant,
    summarise_excess,
)
from rindices.selection.relabel import PermutationScheme, fit_log_odds
from tests.selection.helpers import make_groups


def simulate(
    patterns: int,
    seed: int,
    regions: int = 12,
    controls: int = 150,
    patients: int = 200,
) -> tuple[FloatArray, BoolArray]:
    """Return people with correlated regions; patients have patterns of uniform
    severity.
    """
    rng = np.random.default_rng(seed)
    mix = np.linalg.qr(rng.normal(size=(regions, regions)))[0] * np.linspace(
        0.5, 2, regions
    )
    people = rng.normal(size=(controls + patients, regions)) @ mix
    patient = np.arange(controls + patients) >= controls
    directions = np.linalg.qr(rng.normal(size=(regions, regions)))[0][
        :, :patterns
    ] @ np.diag([8.0] * patterns)
    people[patient] += rng.uniform(size=(patients, patterns)) @ (mix.T @ directions).T
    return people, patient


def estimate(
    people: FloatArray,
    patient: BoolArray,
    design: FloatArray | None = None,
    **options: int,
) -> DimensionEstimate:
    columns = (
        np.ones((len(people), 1))
        if design is None
        else np.column_stack([np.ones(len(people)), design])
    )
    odds = fit_log_odds(columns[:, 1:], np.zeros((len(people), 0)), patient)
    strata = np.zeros(len(people), dtype=np.intp)
    groups = AdjustedGroups(
        ParticipantData(people, columns), patient, PermutationScheme(odds, strata)
    )
    return count_dimensions(groups, **options)


def test_shrinkage_is_ledoit_wolf() -> None:
    people = simulate(0, 0)[0]
    centred = people - people.mean(axis=0)
    shrunk = shrink_covariance(
        centred.T @ centred / len(centred),
        float(((centred**2).sum(axis=1) ** 2).sum()),
        len(centred),
    )
    np.testing.assert_allclose(
        shrunk, ledoit_wolf(centred, assume_centered=True)[0], atol=1e-8
    )


def test_contrast_against_a_plain_computation() -> None:
    people, patient = simulate(2, 1)
    rng = np.random.default_rng(1)
    covariates = rng.normal(size=(len(people), 2))
    people = people + covariates @ rng.normal(size=(2, people.shape[1]))
    contrast = ParticipantData(
        people, np.column_stack([np.ones(len(people)), covariates])
    ).compute_contrast(patient)
    adjusted = people - LinearRegression().fit(
        covariates[~patient], people[~patient]
    ).predict(covariates)
    adjusted /= adjusted[~patient].std(axis=0)
    controls = ledoit_wolf(adjusted[~patient], assume_centered=True)[0]
    second = adjusted[patient].T @ adjusted[patient] / patient.sum()
    np.testing.assert_allclose(contrast.controls, controls, atol=1e-7)
    np.testing.assert_allclose(contrast.patients, second, rtol=1e-8, atol=1e-8)
    values = eigh(second, controls, eigvals_only=True)
    sample = adjusted[~patient].T @ adjusted[~patient] / (~patient).sum()
    added = np.linalg.eigvalsh(second / values.mean() - sample)[-1]
    np.testing.assert_allclose(
        contrast.compute_excess(), [values[-1] / values.mean(), added], rtol=1e-6
    )
    # with patients as the smaller group, the sums are computed the other way round
    swapped = ParticipantData(people, np.ones((len(people), 1))).compute_contrast(
        ~patient
    )
    plain = people - people[patient].mean(axis=0)
    np.testing.assert_allclose(swapped.scale, plain[patient].std(axis=0), rtol=1e-8)


@pytest.mark.parametrize("statistic", EXCESS_STATISTICS)
def test_a_removed_pattern_leaves_what_is_uncorrelated_with_it(statistic: str) -> None:
    """A person's severity of the pattern, estimated in the metric of controls, is 0
    afterwards.
    """
    people, patient = simulate(2, 2)
    before = ParticipantData(people, np.ones((len(people), 1))).compute_contrast(
        patient
    )
    if statistic == "ratio":
        pattern = before.controls @ eigh(before.patients, before.controls)[1][:, -1]
    else:
        mean = np.trace(np.linalg.solve(before.controls, before.patients)) / len(
            before.controls
        )
        pattern = np.linalg.eigh(before.patients / mean - before.sample)[1][:, -1]
    weights = np.linalg.solve(before.controls, pattern)
    rest = ParticipantData(people, np.ones((len(people), 1))).remove_pattern(
        patient, statistic
    )
    np.testing.assert_allclose(rest.shifts / before.scale @ weights, 0.0, atol=1e-9)
    other = np.linalg.qr(np.column_stack([pattern, np.eye(len(pattern))]))[0][
        :, 1
    ]  # no part of the pattern
    unchanged = people / before.scale @ other
    np.testing.assert_allclose(rest.shifts / before.scale @ other, unchanged, atol=1e-9)


def test_removed_ratios_are_zero_and_the_others_unchanged() -> None:
    people, patient = simulate(2, 2)
    everyone = ParticipantData(people, np.ones((len(people), 1)))
    before = everyone.compute_contrast(patient)
    width = people.shape[1]
    top = eigh(
        before.patients, before.controls, subset_by_index=[width - 2, width - 1]
    )[1]
    rest = everyone.remove_pattern(patient, "ratio").remove_pattern(patient, "ratio")
    scores = rest.shifts / before.scale @ top
    assert (
        scores.std() < 0.1 * (everyone.shifts / before.scale @ top).std()
    )  # shrinkage is estimated again
    low = eigh(before.patients, before.controls, eigvals_only=True)[: width - 2]
    assert (
        rest.compute_contrast(patient).compute_excess()[0] < 1.5 * low[-1] / low.mean()
    )


@pytest.mark.parametrize("seed", range(5))
def test_diffuse_patterns_are_found_by_the_variance_that_they_add(seed: int) -> None:
    """Two patterns along the largest axes of normal variation, where the ratio hardly
    exceeds 1.
    """
    rng = np.random.default_rng(seed)
    regions, controls, patients = 60, 80, 200
    axes = np.linalg.qr(rng.normal(size=(regions, regions)))[0]
    sd = np.r_[4.0, 3.0, np.linspace(1.2, 0.8, regions - 2)]
    people = rng.normal(size=(controls + patients, regions)) * sd @ axes.T
    patient = np.arange(controls + patients) >= controls
    people[patient] += (rng.uniform(size=(patients, 2)) * [16.0, 12.0]) @ axes[:, :2].T
    found = estimate(people, patient, seed=seed)
    assert found.dimension_tests[0].statistic == "added_variance"
    assert found.number == 2


def test_the_mean_difference_is_removed_given_the_covariates() -> None:
    people, patient = simulate(2, 4)
    design = np.column_stack(
        [
            np.ones(len(people)),
            np.random.default_rng(4).normal(size=len(people)) + patient,
        ]
    )
    rest = ParticipantData(people, design).remove_mean_difference(patient)
    columns = np.column_stack([design[:, 1], patient])
    assert np.abs(LinearRegression().fit(columns, rest.shifts).coef_[:, 1]).max() < 1e-9
    np.testing.assert_array_equal(rest.shifts[~patient], people[~patient])


def test_the_excess_is_finite_with_twenty_controls_and_two_hundred_regions() -> None:
    people, patient = simulate(0, 6, regions=200, controls=20, patients=23)
    result = estimate(people, patient, n_permutations=39)
    assert result.number == 0
    assert 0 < result.dimension_tests[0].excess < 200


@pytest.mark.parametrize("patterns", [0, 1, 2, 4])
def test_the_number_of_patterns_is_estimated(patterns: int) -> None:
    correct = [
        estimate(*simulate(patterns, seed)).number == patterns for seed in range(10)
    ]
    assert sum(correct) >= 9


@pytest.mark.slow
def test_the_significance_level_holds() -> None:
    small = {"regions": 6, "controls": 40, "patients": 50}
    rejected = [
        estimate(*simulate(0, seed, **small), max_patterns=1, n_permutations=99).number
        > 0
        for seed in range(120)
    ]
    assert 1 <= sum(rejected) <= 13  # 6 expected; more than 13 in 2 of 1,000


def test_patients_who_are_all_alike_have_no_pattern() -> None:
    numbers = []
    for seed in range(10):
        people, patient = simulate(0, seed)
        people[patient] += people.std(axis=0) * np.sign(
            np.random.default_rng(seed).normal(size=people.shape[1])
        )
        numbers.append(estimate(people, patient).number)
    assert sum(number > 0 for number in numbers) <= 2


@pytest.mark.parametrize("stretch", [0.7, 1.4])
def test_patients_who_vary_more_or_less_in_all_directions_have_no_pattern(
    stretch: float,
) -> None:
    numbers = []
    for seed in range(5):
        people, patient = simulate(0, seed)
        people[patient] *= stretch
        numbers.append(estimate(people, patient).number)
    assert sum(number > 0 for number in numbers) <= 1


@pytest.mark.slow
def test_nonlinear_effects_of_age_need_permutations_by_age() -> None:
    """A linear adjustment leaves a curve: permutations by age allow for it, free
    permutations do not.
    """
    n_conditional, n_free = 0, 0
    for seed in range(15):
        rng = np.random.default_rng(seed)
        age = rng.normal(size=300)
        people = rng.normal(size=(300, 8)) + 0.5 * age[:, None] ** 2 * np.linspace(
            0, 1, 8
        )
        patient = rng.uniform(size=300) < 1 / (1 + np.exp(-1.5 * age))
        design = np.column_stack([np.ones(300), age])
        n_conditional += (
            estimate(people, patient, age[:, None], max_patterns=1).number > 0
        )
        n_free += (
            count_dimensions(
                make_groups(people, patient, design), max_patterns=1
            ).number
            > 0
        )
    assert n_free >= 10
    assert n_conditional <= 3


def test_a_seed_gives_one_result_whose_last_test_is_not_significant() -> None:
    people, patient = simulate(2, 5)
    first, again = estimate(people, patient, seed=3), estimate(people, patient, seed=3)
    assert first == again
    assert [test.patterns for test in first.dimension_tests] == [0, 1, 2]
    assert [test.p <= first.level for test in first.dimension_tests] == [
        True,
        True,
        False,
    ]
    # a test ends early: at the 60th labelling if none reaches the excess, at any 20th
    # if too many do
    assert [test.relabellings for test in first.dimension_tests[:2]] == [59, 59]
    assert first.dimension_tests[2].relabellings < 199
    assert first.dimension_tests[2].relabellings % 20 == 19
    assert (
        first.dimension_tests[0].chance[0]
        < first.dimension_tests[0].chance[1]
        < first.dimension_tests[0].excess
    )


def test_p_is_that_of_the_smaller_p_of_both_statistics() -> None:
    values = [np.array(row) for row in ([3.0, 0.5], [1.0, 0.4], [3.0, 0.2], [2.0, 0.1])]
    test = summarise_excess(values, n_removed=1)
    assert (test.statistic, test.excess, test.relabellings) == (
        "added_variance",
        0.5,
        3,
    )
    assert test.p == 1 / 4  # no other row is first in one of both
    tied = summarise_excess([*values, np.array([0.0, 0.9])], n_removed=1)
    assert (
        tied.p == 3 / 5
    )  # ranks 2, 3, 2, 4 and 1 of 5: the two that tie in the ratio, and the last


def test_permutations_go_on_if_an_early_one_reaches_the_observed_excess() -> None:
    people, patient = simulate(1, 3)
    rng = np.random.default_rng(0)
    labels = [patient, patient, *(rng.permutation(patient) for _ in range(500))]
    groups = make_groups(people, patient)
    test = _test_dimension(groups, iter(labels), 0, n_permutations=99, level=0.05)
    assert test.relabellings >= 99
    assert test.p == pytest.approx(3 / (test.relabellings + 1))
    alone = _test_dimension(groups, iter(labels[2:]), 0, n_permutations=99, level=0.05)
    assert (
        alone.relabellings < 99
    )  # no permutation reaches it: clear after the first ones


def test_one_test_more_than_the_largest_number_of_patterns() -> None:
    """Each is removed by the statistic of the test before."""

    def count(p: float) -> tuple[DimensionEstimate, list[tuple[str, ...]]]:
        seen: list[tuple[str, ...]] = []

        def test(removed: tuple[str, ...], k: int) -> DimensionTest:
            seen.append(removed)
            return DimensionTest(
                patterns=k,
                statistic=EXCESS_STATISTICS[k % 2],
                excess=2.0,
                chance=(1.0, 1.5),
                p=p,
                relabellings=199,
            )

        found = count_significant(
            (), test, lambda removed, name: (*removed, name), 3, level=0.05, overlap=1.0
        )
        return found, seen

    everything, removed = count(0.01)
    assert (
        everything.number,
        [each.patterns for each in everything.dimension_tests],
    ) == (3, [0, 1, 2, 3])
    assert removed[3] == ("ratio", "added_variance", "ratio")
    nothing, removed = count(0.06)
    assert (nothing.number, len(nothing.dimension_tests), removed) == (0, 1, [()])
