"""The test for the number of patterns: its parts against plain oracles, the whole against known truth."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.covariance import ledoit_wolf
from sklearn.linear_model import LinearRegression

from rindices.selection.dimensions import (
    DimensionEstimate,
    ParticipantData,
    compute_excess_and_shift,
    compute_joint_p_value,
    count_dimensions,
    shrink_covariance,
)
from rindices.selection.relabel import PermutationScheme, fit_log_odds

Floats = NDArray[np.float64]


def cohort(
    patterns: int, seed: int, regions: int = 12, controls: int = 150, patients: int = 200
) -> tuple[Floats, NDArray[np.bool_]]:
    """Correlated people; patients have so many patterns of uniform severities."""
    rng = np.random.default_rng(seed)
    mix = np.linalg.qr(rng.normal(size=(regions, regions)))[0] * np.linspace(0.5, 2, regions)
    people = rng.normal(size=(controls + patients, regions)) @ mix
    patient = np.arange(controls + patients) >= controls
    directions = np.linalg.qr(rng.normal(size=(regions, regions)))[0][:, :patterns] @ np.diag([8.0] * patterns)
    people[patient] += rng.uniform(size=(patients, patterns)) @ (mix.T @ directions).T
    return people, patient


def found(
    people: Floats, patient: NDArray[np.bool_], design: Floats | None = None, **options: int
) -> DimensionEstimate:
    columns = np.ones((len(people), 1)) if design is None else np.column_stack([np.ones(len(people)), design])
    odds = fit_log_odds(columns[:, 1:], np.zeros((len(people), 0)), patient)
    strata = np.zeros(len(people), dtype=np.intp)
    return count_dimensions(ParticipantData(people, columns), patient, PermutationScheme(odds, strata), **options)


def test_shrinkage_is_ledoit_wolf() -> None:
    people = cohort(0, 0)[0]
    centred = people - people.mean(axis=0)
    own = shrink_covariance(centred.T @ centred / len(centred), (centred**2).sum(axis=1))
    np.testing.assert_allclose(own, ledoit_wolf(centred, assume_centered=True)[0], atol=1e-8)


def test_contrast_against_a_plain_computation() -> None:
    people, patient = cohort(2, 1)
    rng = np.random.default_rng(1)
    covariates = rng.normal(size=(len(people), 2))
    people = people + covariates @ rng.normal(size=(2, people.shape[1]))
    contrast = ParticipantData(people, np.column_stack([np.ones(len(people)), covariates])).contrast(patient)
    adjusted = people - LinearRegression().fit(covariates[~patient], people[~patient]).predict(covariates)
    adjusted /= adjusted[~patient].std(axis=0)
    controls = ledoit_wolf(adjusted[~patient], assume_centered=True)[0]
    second = adjusted[patient].T @ adjusted[patient] / patient.sum()
    np.testing.assert_allclose(contrast.controls, controls, atol=1e-7)
    np.testing.assert_allclose(contrast.patients, second, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(contrast.shift, adjusted[patient].mean(axis=0), atol=1e-8)
    values = eigh(second, controls, eigvals_only=True)
    shift = adjusted[patient].mean(axis=0)
    error = 1 / (~patient).sum() + np.median(values) / patient.sum()
    expected = (values[-1] / np.median(values), shift @ np.linalg.solve(controls, shift) / error)
    np.testing.assert_allclose(compute_excess_and_shift(contrast), expected, rtol=1e-6)
    # labels that make patients the fewer take the other way to the same sums
    swapped = ParticipantData(people, np.ones((len(people), 1))).contrast(~patient)
    plain = people - people[patient].mean(axis=0)
    np.testing.assert_allclose(swapped.scale, plain[patient].std(axis=0), rtol=1e-8)


def test_what_is_taken_out_is_gone() -> None:
    people, patient = cohort(2, 2)
    everyone = ParticipantData(people, np.ones((len(people), 1)))
    before = everyone.contrast(patient)
    width = people.shape[1]
    top = eigh(before.patients, before.controls, subset_by_index=[width - 2, width - 1])[1]
    rest = everyone.remove_directions(patient, 2)
    np.testing.assert_allclose(rest.shifts / before.scale @ top, 0.0, atol=1e-9)
    low = eigh(before.patients, before.controls, eigvals_only=True)[: width - 2]
    others = eigh(before.patients, before.controls, subset_by_index=[0, width - 3])[1]
    kept = everyone.shifts / before.scale @ others  # in all other directions people are as they were
    np.testing.assert_allclose(rest.shifts / before.scale @ others, kept, atol=1e-9)
    assert compute_excess_and_shift(rest.contrast(patient))[0] < 1.5 * low[-1] / np.median(low)


def test_joint_p_against_a_loop() -> None:
    values = np.random.default_rng(0).normal(size=(50, 2)).round(1)  # with ties
    reached = [min(int((values[:, q] >= row[q]).sum()) for q in range(2)) for row in values]
    expected = np.mean([other <= reached[0] for other in reached])
    assert compute_joint_p_value(values) == pytest.approx(expected)
    one = values[:, :1]
    assert compute_joint_p_value(one) == pytest.approx((one[:, 0] >= one[0, 0]).mean())


@pytest.mark.parametrize("patterns", [0, 1, 2, 4])
def test_the_number_is_found(patterns: int) -> None:
    right = [found(*cohort(patterns, seed)).number == patterns for seed in range(10)]
    assert sum(right) >= 9


def test_the_level_is_kept() -> None:
    small = {"regions": 6, "controls": 40, "patients": 50}
    few = [found(*cohort(0, seed, **small), most=1, number=99).number > 0 for seed in range(120)]
    assert 1 <= sum(few) <= 13  # 6 expected; more than 13 in 2 of 1,000


def test_a_weak_shift_of_everyone_is_found() -> None:
    people, patient = cohort(0, 3)
    people[patient] += 0.5 * people.std(axis=0) * np.sign(np.random.default_rng(3).normal(size=people.shape[1]))
    result = found(people, patient)
    assert result.number == 1
    assert result.dimension_tests[0].p < 0.02


@pytest.mark.parametrize("stretch", [0.7, 1.4])
def test_patients_who_vary_more_or_less_in_all_directions_have_no_pattern(stretch: float) -> None:
    numbers = []
    for seed in range(10):
        people, patient = cohort(0, seed)
        people[patient] *= stretch
        numbers.append(found(people, patient).number)
    assert sum(number > 0 for number in numbers) <= 2


def test_older_patients_whose_volumes_bend_with_age() -> None:
    """A straight line does not take a curve out; labels exchanged by age know, labels exchanged freely do not."""
    fair, free = 0, 0
    for seed in range(15):
        rng = np.random.default_rng(seed)
        age = rng.normal(size=300)
        people = rng.normal(size=(300, 8)) + 0.5 * age[:, None] ** 2 * np.linspace(0, 1, 8)
        patient = rng.uniform(size=300) < 1 / (1 + np.exp(-1.5 * age))
        design = np.column_stack([np.ones(300), age])
        fair += found(people, patient, age[:, None], most=1).number > 0
        free += (
            count_dimensions(
                ParticipantData(people, design), patient, PermutationScheme.unrestricted(300), most=1
            ).number
            > 0
        )
    assert free >= 10
    assert fair <= 3


def test_same_seed_same_answer_and_the_last_question_is_answered_with_yes() -> None:
    people, patient = cohort(2, 5)
    first, again = found(people, patient, seed=3), found(people, patient, seed=3)
    assert first == again
    assert [question.patterns for question in first.dimension_tests] == [0, 1, 2]
    assert [question.p <= first.level for question in first.dimension_tests] == [True, True, False]
    # looks end a question early: at the 60th where nothing comes near, at any 20th where too much does
    assert [question.relabellings for question in first.dimension_tests[:2]] == [59, 59]
    assert first.dimension_tests[2].relabellings < 199
    assert first.dimension_tests[2].relabellings % 20 == 19
    assert first.dimension_tests[0].chance[0] < first.dimension_tests[0].chance[1] < first.dimension_tests[0].excess
