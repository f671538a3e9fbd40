"""The tests of a cohort, and why agreement may give another number of patterns."""

from dataclasses import replace

import numpy as np
import pytest

import rindices as ri
from benchmarks.suites.trust_cohorts import NULL_COHORTS, simulate_null_cohort
from rindices.selection.dimensions import DimensionEstimate, DimensionTest
from rindices.selection.group_difference import GroupTest, RegionEffects, compare_groups
from rindices.selection.relabel import MAX_PERMUTATIONS, is_clear
from rindices.study import group_tests
from rindices.study.group_tests import (
    Finding,
    GroupTests,
    explain_disagreement,
    log_transform_volumes,
    make_number_record,
    run_group_tests,
)
from tests.cohorts import simulate_few_regions
from tests.selection.helpers import make_groups


def make_tests(number: int, p: float = 0.001, overlap: float = 0.9) -> GroupTests:
    steps = tuple(
        DimensionTest(
            patterns=k,
            statistic="ratio",
            excess=5.0,
            chance=(3.0, 3.3),
            p=0.005 if k < number else 0.4,
            relabellings=199,
        )
        for k in range(number + 1)
    )
    zeros = np.zeros(2)
    effects = RegionEffects(d=zeros, low=zeros, high=zeros, t=zeros, p=zeros)
    difference = GroupTest(
        p=p, values=(1.0,) * 4, p_values=(p,) * 4, n_permutations=999
    )
    return GroupTests(
        difference=difference,
        dimensions=DimensionEstimate(
            number=number, dimension_tests=steps, level=0.05, overlap=overlap
        ),
        effects=effects,
        smallest_effect=0.4,
    )


def test_the_true_number_is_found_whatever_the_unit() -> None:
    cohort = simulate_few_regions("small", seed=0).cohort
    tests = run_group_tests(cohort)
    assert tests.finding is Finding.PATTERNS
    assert tests.dimensions.number == 3
    assert tests.dimensions.overlap > 0.95
    assert len(tests.effects.d) == cohort.n_regions
    again = run_group_tests(replace(cohort, volumes=cohort.volumes / 1e6))
    np.testing.assert_allclose(
        again.difference.values, tests.difference.values, rtol=1e-6
    )
    np.testing.assert_allclose(
        [q.excess for q in again.dimensions.dimension_tests],
        [q.excess for q in tests.dimensions.dimension_tests],
        rtol=1e-6,
    )


def test_groups_of_different_sites_cannot_be_compared() -> None:
    cohort = simulate_few_regions("tiny", seed=0).cohort
    site = np.where(cohort.is_patient, "hospital", "school").astype(object)
    tests = run_group_tests(replace(cohort, people=cohort.people.assign(site=site)))
    assert tests.dimensions.overlap == 0.0
    assert tests.dimensions.number == 0
    assert (
        tests.finding is not Finding.NO_DIFFERENCE
    )  # no ground to say that there is none


def test_a_second_scan_adds_no_person() -> None:
    cohort = simulate_few_regions("tiny", seed=0).cohort
    twice = np.repeat(np.arange(len(cohort)), 2)
    frames = {
        name: getattr(cohort, name).iloc[twice].reset_index(drop=True)
        for name in ("volumes", "people", "covariates")
    }
    first, again = run_group_tests(cohort), run_group_tests(type(cohort)(**frames))
    assert again.difference == first.difference
    assert again.dimensions == first.dimensions


SLOW_KINDS = (
    "492 + 900",
    "patients vary more in all directions",
)  # tests/selection/test_dimensions.py has the second


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.slow] * (kind in SLOW_KINDS))
        for kind in NULL_COHORTS
    ],
)
def test_misleading_cohorts_without_disease(kind: str) -> None:
    assert (
        run_group_tests(simulate_null_cohort(kind, 0), 0).finding
        is Finding.NO_DIFFERENCE
    )


def test_large_groups_are_drawn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    cohort = ri.simulate_cohort("basic", seed=0).cohort
    seen = []
    monkeypatch.setattr(group_tests, "MAX_PARTICIPANTS_PER_GROUP", 150)
    real = group_tests.compare_groups
    monkeypatch.setattr(
        group_tests,
        "compare_groups",
        lambda *rest: (seen.append(rest[0].patient), real(*rest, n_permutations=1))[1],
    )
    run_group_tests(cohort)
    assert (len(seen[0]), seen[0].sum()) == (300, 150)


def test_without_adjustment_covariates_do_not_matter() -> None:
    cohort = simulate_few_regions("tiny", seed=0).cohort
    plain = replace(cohort, covariates=cohort.covariates.iloc[:, :0])
    assert (
        run_group_tests(cohort, adjust="none").difference
        == run_group_tests(plain).difference
    )


def test_shifts_are_logarithms_of_volumes_and_z_scores_stay() -> None:
    rng = np.random.default_rng(0)
    volumes = np.exp(rng.normal(8, 0.1, size=(50, 4)))
    np.testing.assert_allclose(
        log_transform_volumes(volumes), np.log(volumes / volumes.mean(axis=0))
    )
    scores = rng.normal(size=(50, 4))
    np.testing.assert_allclose(log_transform_volumes(scores).std(axis=0), 1.0)
    np.testing.assert_allclose(
        np.corrcoef(log_transform_volumes(scores)[:, 0], scores[:, 0])[0, 1], 1.0
    )


def test_what_the_tests_support() -> None:
    assert make_tests(2).finding is Finding.PATTERNS
    assert make_tests(0).finding is Finding.MEAN_DIFFERENCE
    assert make_tests(0, p=0.4).finding is Finding.NO_DIFFERENCE
    assert make_tests(0, p=0.4, overlap=0.1).finding is Finding.MEAN_DIFFERENCE


def test_numbers_next_to_the_one_of_the_test_are_tried() -> None:
    assert make_tests(3).list_numbers_to_try(8) == (1, 2, 3, 4)
    assert make_tests(4).list_numbers_to_try(8) == (1, 3, 4, 5)
    assert make_tests(4).list_numbers_to_try(8, from_one=False) == (3, 4, 5)
    assert make_tests(1).list_numbers_to_try(8) == (1, 2)
    assert make_tests(4).list_numbers_to_try(3) == (1, 3)
    assert make_tests(6).list_numbers_to_try(2) == (1, 2)
    assert make_tests(6).list_numbers_to_try(2, from_one=False) == (2,)


@pytest.mark.parametrize(
    ("tests", "chosen", "forced", "words"),
    [
        (make_tests(3), 3, False, ""),
        (make_tests(0, p=0.5), 3, True, "no difference between patients and controls"),
        (make_tests(0), 3, True, "from each other"),
        (make_tests(0), 1, False, "the pattern is their mean difference"),
        (make_tests(5), 3, True, "--patterns 5"),
        (make_tests(3), 2, False, "weak"),
        (make_tests(2), 4, False, "split"),
    ],
)
def test_the_disagreement_is_explained(
    tests: GroupTests, chosen: int, forced: bool, words: str
) -> None:
    reason = explain_disagreement(tests, chosen, forced)
    assert words in reason
    assert bool(reason) == bool(words)


def test_records_hold_all_figures() -> None:
    tests = make_tests(2)
    number = make_number_record(tests, None, 3)
    assert (number.by_agreement, number.by_test, number.forced) == (3, 2, None)
    assert [step.p for step in number.test.curve] == [0.005, 0.005, 0.4]
    assert make_number_record(tests, 4, 4).forced == 4
    difference = tests.make_difference_record()
    assert (difference.p, difference.permutations, difference.smallest_effect) == (
        0.001,
        999,
        0.4,
    )
    assert list(difference.statistics) == [
        "largest_t",
        "mean_squared_t",
        "shift",
        "excess_variance",
    ]


def test_permutations_go_on_while_p_is_near_the_level() -> None:
    """The number of permutations was 999 at most, so that the seed decided near the
    level.
    """
    rng = np.random.default_rng(5)
    values, patient = rng.normal(size=(60, 3)), np.arange(60) < 30
    values[patient, 0] += 1.2
    test = compare_groups(make_groups(values, patient))
    assert 0.02 <= test.p <= 0.10
    assert 999 < test.n_permutations <= MAX_PERMUTATIONS
    assert (
        is_clear(test.p, test.n_permutations) or test.n_permutations == MAX_PERMUTATIONS
    )
    record = replace(make_tests(0, test.p), difference=test).make_difference_record()
    assert record.p_error == pytest.approx(
        np.sqrt(test.p * (1 - test.p) / (test.n_permutations + 1))
    )
    assert f"Monte Carlo error {record.p_error:.3f}" in record.describe_p(0.05)
    assert ("too near 0.05 to tell" in record.describe_p(0.05)) == (
        abs(test.p - 0.05) <= 1.96 * record.p_error
    )
