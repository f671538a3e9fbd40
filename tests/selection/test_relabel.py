"""Permutation of labels given the odds that follow from covariates."""

from itertools import combinations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from rindices.selection.relabel import (
    PermutationScheme,
    draw_permuted_labels,
    estimate_overlap,
    fit_log_odds,
)
from tests.selection.helpers import make_unrestricted_scheme


def test_labels_follow_their_conditional_distribution() -> None:
    """Each set of 3 patients among 6 people is drawn with a probability proportional to
    the product of its odds.
    """
    odds = np.array([-1.0, 0.0, 0.5, 1.0, 0.0, 2.0])
    patient = np.array([True, True, True, False, False, False])
    sets = list(combinations(range(6), 3))
    weights = np.array([np.exp(odds[list(chosen)].sum()) for chosen in sets])
    counts = dict.fromkeys(sets, 0)
    draws = 5_000
    rng = np.random.default_rng(0)
    for _ in range(
        draws // 100
    ):  # draws with one hidden set are exchangeable, not independent
        for labels in draw_permuted_labels(
            patient, PermutationScheme(odds, np.zeros(6, dtype=np.intp)), 100, rng
        ):
            assert labels.sum() == 3
            counts[tuple(np.flatnonzero(labels))] += 1
    np.testing.assert_allclose(
        [counts[chosen] / draws for chosen in sets], weights / weights.sum(), atol=0.02
    )


def test_without_covariates_labels_are_permuted() -> None:
    patient = np.arange(40) < 10
    odds = fit_log_odds(np.zeros((40, 0)), np.zeros((40, 0)), patient)
    np.testing.assert_array_equal(odds, 0.0)
    drawn = np.array(
        list(
            draw_permuted_labels(
                patient, make_unrestricted_scheme(40), 2000, np.random.default_rng(0)
            )
        )
    )
    np.testing.assert_allclose(drawn.mean(axis=0), 0.25, atol=0.05)


@pytest.mark.parametrize("equal_odds", [True, False])
def test_the_number_of_patients_per_stratum_is_preserved(equal_odds: bool) -> None:
    rng = np.random.default_rng(4)
    strata, patient = rng.integers(3, size=300), rng.uniform(size=300) < 0.4
    odds = np.zeros(300) if equal_odds else rng.normal(size=300)
    drawn = np.array(
        list(draw_permuted_labels(patient, PermutationScheme(odds, strata), 50, rng))
    )
    for stratum in range(3):
        np.testing.assert_array_equal(
            drawn[:, strata == stratum].sum(axis=1), patient[strata == stratum].sum()
        )
    assert (drawn != patient).mean() > 0.3


def test_odds_are_those_of_a_logistic_regression() -> None:
    rng = np.random.default_rng(1)
    site = rng.integers(2, size=4000).astype(float)
    patient = rng.uniform(size=4000) < 1 / (1 + np.exp(-(2 * site - 1)))
    odds = fit_log_odds(np.zeros((4000, 0)), site[:, None], patient)
    plain = (
        LogisticRegression(C=np.inf)
        .fit(site[:, None], patient)
        .decision_function(site[:, None])
    )
    np.testing.assert_allclose(odds, plain, atol=0.01)
    np.testing.assert_allclose(
        [odds[site == 0].mean(), odds[site == 1].mean()], [-1, 1], atol=0.15
    )


def test_odds_may_be_nonlinear_in_age() -> None:
    rng = np.random.default_rng(2)
    age = rng.uniform(40, 80, 3000)
    patient = rng.uniform(size=3000) < np.where(
        np.abs(age - 60) < 10, 0.8, 0.2
    )  # the middle-aged are ill
    odds = fit_log_odds(age[:, None], np.zeros((3000, 0)), patient)
    assert odds[np.abs(age - 60) < 5].mean() > 1
    assert odds[np.abs(age - 60) > 15].mean() < -0.7


def test_overlap_is_near_1_without_covariates_and_near_0_if_groups_separate() -> None:
    patient = np.arange(200) < 100
    separated = fit_log_odds(
        np.where(patient, 1.0, 0.0)[:, None] + np.arange(200)[:, None] / 1e6,
        np.zeros((200, 0)),
        patient,
    )
    rng = np.random.default_rng(3)
    assert estimate_overlap(patient, make_unrestricted_scheme(200), rng) > 0.95
    assert (
        estimate_overlap(
            patient, PermutationScheme(separated, np.zeros(200, dtype=np.intp)), rng
        )
        < 0.2
    )
