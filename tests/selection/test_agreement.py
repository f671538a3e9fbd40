"""The c-index, the matching of patterns and the agreement of members, against plain
definitions.
"""

import time
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import kendalltau

from rindices.errors import InputError
from rindices.selection.agreement import (
    IndexMoments,
    agreement,
    align_columns,
    c_index,
    c_index_matrix,
    members_agreement,
    pattern_c_index,
)
from rindices.selection.choose import find_agreeing_members


def c_index_by_loop(a, b):
    """Return the c-index by a loop over pairs."""
    total = 0.0
    for i, j in combinations(range(len(a)), 2):
        order = np.sign(a[i] - a[j]) * np.sign(b[i] - b[j])
        total += (1 + order) / 2
    return total / (len(a) * (len(a) - 1) / 2)


def tied_pair(seed):
    """Two columns with few or many ties, sometimes constant, sometimes related."""
    rng = np.random.default_rng(seed)
    n, levels = rng.integers(2, 40), rng.integers(1, 30)
    a = rng.integers(0, levels, n)
    return a, np.where(rng.random(n) < 0.5, a, rng.integers(0, rng.integers(1, 30), n))


@pytest.mark.parametrize("seed", range(200))
def test_c_index_equals_the_double_loop_with_ties(seed):
    a, b = tied_pair(seed)
    assert c_index(a, b) == pytest.approx(c_index_by_loop(a, b), abs=1e-12)


def test_c_index_without_ties_is_kendalls_tau():
    a, b = np.random.default_rng(0).random((2, 300))
    assert c_index(a, b) == pytest.approx(
        (kendalltau(a, b).statistic + 1) / 2, abs=1e-12
    )


def test_c_index_of_equal_reversed_and_constant_columns():
    a = np.arange(7.0)
    assert c_index(a, a) == 1.0
    assert c_index(a, -a) == 0.0
    assert (
        c_index(a, np.ones(7))
        == c_index(np.ones(7), a)
        == c_index(np.ones(7), np.ones(7))
        == 0.5
    )


@pytest.mark.parametrize("levels", [None, 5])
def test_c_index_of_a_million_people_takes_less_than_two_seconds(levels):
    rng = np.random.default_rng(0)
    a = rng.random(1_000_000)
    b = a + rng.random(1_000_000)
    b = b if levels is None else np.floor(b * levels)
    start = time.process_time()
    value = c_index(a, b)
    assert time.process_time() - start < 2.0
    assert 0.7 < value < 0.9


columns = st.integers(2, 30).flatmap(
    lambda n: arrays(np.float64, (2, n), elements=st.integers(-9, 9).map(float))
)


@given(columns)
def test_c_index_is_symmetric(pair):
    assert c_index(*pair) == pytest.approx(c_index(*pair[::-1]), abs=1e-12)


@given(columns)
def test_c_index_is_invariant_to_monotone_transforms_and_reflects_reversal(pair):
    a, b = pair
    assert c_index(a, b**3 + 2 * b) == pytest.approx(c_index(a, b), abs=1e-12)
    assert c_index(a, -b) == pytest.approx(1 - c_index(a, b), abs=1e-12)


@given(columns, st.randoms(use_true_random=False))
def test_c_index_ignores_the_order_of_people(pair, random):
    order = list(range(pair.shape[1]))
    random.shuffle(order)
    assert c_index(*pair[:, order]) == pytest.approx(c_index(*pair), abs=1e-12)


@pytest.mark.parametrize(
    ("m", "k"), [(1, 1), (1, 4), (2, 2), (3, 3), (3, 6), (4, 5), (5, 5)]
)
def test_pattern_c_index_equals_the_search_over_all_orders(m, k):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        truth, inferred = rng.integers(0, 12, (25, m)), rng.integers(0, 12, (25, k))
        scores = c_index_matrix(truth, inferred)
        best = max(
            np.mean([scores[i, p[i]] for i in range(m)])
            for p in permutations(range(k), m)
        )
        result = pattern_c_index(truth, inferred)
        assert result.mean == pytest.approx(best, abs=1e-12)
        assert len(set(result.matching)) == m
        expected = [
            c_index(truth[:, i], inferred[:, j]) for i, j in enumerate(result.matching)
        ]
        np.testing.assert_allclose(result.per_pattern, expected)


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.integers(1, 5))
def test_pattern_c_index_ignores_the_order_of_columns(seed, m):
    rng = np.random.default_rng(seed)
    truth, inferred = rng.random((2, 20, m))
    order = rng.permutation(m)
    permuted = pattern_c_index(truth, inferred[:, order])
    assert permuted.mean == pytest.approx(
        pattern_c_index(truth, inferred).mean, abs=1e-12
    )


def test_pattern_c_index_takes_one_pattern_as_a_column_or_a_vector():
    a, b = np.random.default_rng(0).random((2, 30))
    assert (
        pattern_c_index(a, b).mean
        == pattern_c_index(a[:, None], b[:, None]).mean
        == c_index(a, b)
    )


@pytest.mark.parametrize("m", [1, 2, 3, 6])
def test_a_member_agrees_with_itself_in_any_order(m):
    rng = np.random.default_rng(m)
    r, order = rng.random((50, m)), rng.permutation(m)
    result = agreement(r, r[:, order])
    np.testing.assert_array_equal(r[:, order][:, result.matching], r)
    np.testing.assert_array_equal(r[:, order][:, align_columns(r[:, order], r)], r)
    assert result.numbers[:2] == pytest.approx((1.0, 1.0))
    assert (
        np.isnan(result.difference)
        if m == 1
        else result.difference == pytest.approx(1.0)
    )


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.integers(1, 5))
def test_agreement_is_symmetric(seed, m):
    a, b = np.random.default_rng(seed).random((2, 20, m))
    forward, backward = agreement(a, b), agreement(b, a)
    np.testing.assert_allclose(forward.numbers, backward.numbers, atol=1e-12)
    np.testing.assert_array_equal(backward.matching[forward.matching], np.arange(m))


def test_agreement_equals_its_definition():
    rng = np.random.default_rng(3)
    a = rng.random((80, 3))
    b = (a + 0.3 * rng.random((80, 3)))[:, [2, 0, 1]]
    result = agreement(a, b)
    m = b[:, result.matching]
    corr = lambda x, y: np.corrcoef(x, y)[0, 1]  # noqa: E731
    assert result.concordance == pytest.approx(
        np.mean([c_index_by_loop(a[:, k], m[:, k]) for k in range(3)])
    )
    assert result.dimension == pytest.approx(
        np.mean([corr(a[:, k], m[:, k]) for k in range(3)])
    )
    pairs = [(0, 1), (0, 2), (1, 2)]
    differences = [corr(a[:, i] - a[:, j], m[:, i] - m[:, j]) for i, j in pairs]
    assert result.difference == pytest.approx(np.mean(differences))


def test_columns_are_matched_by_concordance_and_correlation_only_breaks_ties():
    """An outlier decides the correlations; the order of the other people decides the
    matching.
    """
    rng = np.random.default_rng(7)
    a = rng.random((40, 2))
    b = a + 0.05 * rng.random((40, 2))
    a[0], b[0] = (1e3, 0.0), (0.0, 1e3)
    crossed = sum(np.corrcoef(a[:, k], b[:, 1 - k])[0, 1] for k in range(2))
    assert crossed > sum(np.corrcoef(a[:, k], b[:, k])[0, 1] for k in range(2))
    np.testing.assert_array_equal(agreement(a, b).matching, [0, 1])
    tied = np.array(
        [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, 4.0]]
    )  # all pairs of columns are ordered alike
    np.testing.assert_array_equal(agreement(tied, tied[:, ::-1]).matching, [1, 0])


def test_agreement_does_not_depend_on_scale():
    rng = np.random.default_rng(4)
    a, b = rng.random((2, 40, 3))
    for factor in (1e-200, 1e200):
        np.testing.assert_allclose(
            agreement(a * factor, b).numbers, agreement(a, b).numbers, rtol=1e-9
        )


def test_a_constant_member_agrees_with_no_other():
    r = np.random.default_rng(0).random((30, 2))
    for other in (r, np.zeros((30, 2))):
        result = agreement(np.zeros((30, 2)), other)
        assert result.numbers == (0.5, 0.0, 0.0)


@pytest.mark.parametrize("m", [1, 3])
def test_members_agreement_is_the_mean_over_pairs(m):
    members = np.random.default_rng(5).random((4, 30, m))
    result = members_agreement(members)
    pairs = [agreement(members[i], members[j]) for i, j in combinations(range(4), 2)]
    np.testing.assert_allclose(
        result.numbers, np.mean([p.numbers for p in pairs], axis=0)
    )
    assert np.isnan(result.difference) == (m == 1)
    off = ~np.eye(4, dtype=bool)
    np.testing.assert_allclose(
        result.per_member, [result.pairwise[i][off[i]].mean() for i in range(4)]
    )
    np.testing.assert_array_equal(result.pairwise, result.pairwise.T)


def test_members_agreement_ignores_the_order_of_members_and_columns():
    rng = np.random.default_rng(6)
    members = rng.random((4, 30, 3))
    permuted = np.stack([m[:, rng.permutation(3)] for m in members[::-1]])
    np.testing.assert_allclose(
        members_agreement(permuted).numbers, members_agreement(members).numbers
    )


BAD_COLUMNS = [
    (([1.0, np.nan, 2.0], [1, 2, 3]), "not finite in 1 rows: 1"),
    (([1, 2, 3], [np.inf, 2, 3]), "inferred is not finite"),
    (([1, 2, 3], [1, 2]), "3 and 2 people"),
    (([1], [1]), "at least two"),
    (([[1, 2], [3, 4]], [1, 2]), "one number per person"),
    ((["a", "b"], [1, 2]), "not a table of numbers"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_COLUMNS)
def test_c_index_refuses_invalid_columns(arguments, message):
    with pytest.raises(InputError, match=message):
        c_index(*arguments)


def test_tables_of_wrong_shape_are_refused():
    r = np.random.default_rng(0).random((10, 3))
    for call, message in [
        (lambda: pattern_c_index(r, r[:, :2]), "a separate column"),
        (lambda: pattern_c_index(r, r[:, :0]), "patterns in columns"),
        (lambda: pattern_c_index(r, r[:, :, None]), "people in rows"),
        (lambda: agreement(r, r[:, :2]), "the same people and patterns"),
        (lambda: align_columns(r, r[:5]), "same people"),
        (lambda: members_agreement(r), "members, people, patterns"),
        (lambda: members_agreement(r[None]), "at least two members"),
        (lambda: members_agreement([r, r[:, :2]]), "differ in shape"),
        (lambda: members_agreement(np.stack([r, r * np.nan])), "not finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


def simulate_members() -> list[np.ndarray]:
    """Return three members; the second has its columns exchanged."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(4000, 2))
    members = [truth + 0.4 * rng.normal(size=truth.shape) for _ in range(3)]
    members[1] = members[1][:, ::-1]
    return members


def test_agreement_from_correlations_is_close_to_that_of_people() -> None:
    members = simulate_members()
    columns = np.concatenate(members, axis=1)
    moments = IndexMoments.from_sums(
        columns.sum(axis=0), columns.T @ columns, len(columns), 2
    )
    np.testing.assert_allclose(
        IndexMoments.compute(members).covariance, moments.covariance
    )
    own, other = moments.compare(0, 1), agreement(members[0], members[1])
    assert (
        moments.take(1, 3).compare(0, 1).difference == moments.compare(1, 2).difference
    )
    np.testing.assert_array_equal(own.matching, other.matching)
    assert own.concordance == pytest.approx(other.concordance, abs=0.01)
    assert own.dimension == pytest.approx(other.dimension, abs=1e-9)
    assert own.difference == pytest.approx(other.difference, abs=1e-9)
    consensus = find_agreeing_members(moments)
    assert consensus.agreeing == (0, 1, 2)
    aligned = [
        members[k][:, order]
        for k, order in zip(consensus.agreeing, consensus.orders, strict=True)
    ]
    assert np.corrcoef(aligned[0][:, 0], aligned[1][:, 0])[0, 1] > 0.8
