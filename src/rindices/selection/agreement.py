"""Agreement of two sets of R-indices on the order of the same people, and the spread of
patterns over members.

The c-index of two columns is the share of pairs of people that both columns order
alike. *A pair tied in either column counts a half.* With C concordant and D discordant
pairs out of P = N (N - 1) / 2 it is

    c = (C + (P - C - D) / 2) / P = (1 + (C - D) / P) / 2,

that is (Kendall's tau-a + 1) / 2. Tied pairs stay in the denominator whichever column
ties them, for two reasons: the measure is then symmetric, as an agreement between two
members must be, and a constant column scores 0.5 against every column, itself included,
so that collapsed members never seem to agree.

Shape letters: N people, M patterns, K inferred columns (K >= M), S members, Q
severities, R regions.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.optimize import linear_sum_assignment

from rindices._typing import FloatArray, IntArray
from rindices.errors import InputError

_CORRELATION_WEIGHT = 1e-9  # correlation decides between matchings of equal concordance


class PatternCIndex(NamedTuple):
    """The pattern-c-index of the paper, section 4.2.

    Attributes
    ----------
    mean : float
        Mean of `per_pattern`.
    per_pattern : ndarray of shape (M,)
        c-index of each true pattern with the column matched to it.
    matching : ndarray of shape (M,)
        ``inferred[:, matching[k]]`` is the column matched to true pattern k.
    """

    mean: float
    per_pattern: FloatArray
    matching: IntArray


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Agreement of two members, three measures under one matching.

    Attributes
    ----------
    concordance : float
        The paper's pattern-agr-index: mean c-index of matched columns.
    dimension : float
        Mean Pearson correlation of matched columns.
    difference : float
        Mean Pearson correlation of the differences r_i - r_j, over the pairs of
        patterns i < j. With M = 1 there is no difference and the value is NaN.
    matching : ndarray of shape (M,)
        ``second[:, matching[k]]`` is the column matched to ``first[:, k]``.
    """

    concordance: float
    dimension: float
    difference: float
    matching: IntArray

    @property
    def numbers(self) -> tuple[float, float, float]:
        """Concordance, dimension and difference."""
        return self.concordance, self.dimension, self.difference


@dataclass(frozen=True, kw_only=True)
class MembersAgreement:
    """Agreement among S members: means over their S (S - 1) / 2 pairs.

    Attributes
    ----------
    concordance, dimension, difference : float
        Means over pairs. See `Agreement`.
    per_member : ndarray of shape (S,)
        Mean concordance of each member with the others. The paper derives its
        R-indices from the member in which this is highest (section 4.3).
    pairwise : ndarray of shape (S, S)
        Concordance of every pair. NaN on the diagonal.
    """

    concordance: float
    dimension: float
    difference: float
    per_member: FloatArray
    pairwise: FloatArray

    @property
    def numbers(self) -> tuple[float, float, float]:
        """Concordance, dimension and difference."""
        return self.concordance, self.dimension, self.difference


def c_index(truth: ArrayLike, inferred: ArrayLike) -> float:
    """Return the share of pairs of people that two columns order alike, ties counting a
    half.

    Parameters
    ----------
    truth, inferred : array-like of shape (N,)
        Finite numbers, one per person, N >= 2. The result is symmetric in both.

    Returns
    -------
    float
        Between 0 and 1; 0.5 if either column is constant. Computed in O(N log N).

    Examples
    --------
    >>> c_index([1, 2, 3], [10, 20, 30])
    1.0
    >>> c_index([1, 2, 3], [5, 5, 5])
    0.5
    """
    first, second = (
        _validate_vector(truth, "truth"),
        _validate_vector(inferred, "inferred"),
    )
    _check_same_length(first, second)
    return _compute_c_index(first, second)


def c_index_matrix(truth: ArrayLike, inferred: ArrayLike) -> FloatArray:
    """Return the c-index of every true column with every inferred one.

    Parameters
    ----------
    truth : ArrayLike
    inferred : ArrayLike

    Returns
    -------
    ndarray of shape (M, K)
    """
    first, second = (
        _validate_matrix(truth, "truth"),
        _validate_matrix(inferred, "inferred"),
    )
    _check_same_length(first, second)
    return np.array([[_compute_c_index(a, b) for b in second.T] for a in first.T])


def pattern_c_index(truth: ArrayLike, inferred: ArrayLike) -> PatternCIndex:
    """Return the mean c-index over patterns under the best one-to-one matching.

    Parameters
    ----------
    truth : array-like of shape (N, M) or (N,)
        True severities.
    inferred : array-like of shape (N, K) or (N,)
        R-indices, with K >= M. Surplus columns stay unmatched without a penalty.

    Returns
    -------
    PatternCIndex
        Mean, score of each pattern and matching.

    Raises
    ------
    InputError
        If there are fewer inferred columns than true patterns.
    """
    scores = c_index_matrix(truth, inferred)
    if scores.shape[0] > scores.shape[1]:
        raise InputError(
            f"inferred has {scores.shape[1]} columns for {scores.shape[0]} true patterns; "
            "every true pattern needs a separate column."
        )
    matching = _find_best_matching(scores)
    per_pattern = scores[np.arange(len(matching)), matching]
    return PatternCIndex(float(per_pattern.mean()), per_pattern, matching)


def align_columns(member: ArrayLike, reference: ArrayLike) -> IntArray:
    """Return the order of a member's columns that matches those of a reference.

    Parameters
    ----------
    member : ArrayLike
    reference : ArrayLike

    Returns
    -------
    ndarray of shape (M,)
        , ``member[:, align_columns(member, reference)]`` has the column order of
        `reference`.
    """
    return agreement(reference, member).matching


def agreement(first: ArrayLike, second: ArrayLike) -> Agreement:
    """Return the concordance, dimension and difference agreement of two members.

    Parameters
    ----------
    first, second : ArrayLike
        R-indices of the same people, in the same order.

    Returns
    -------
    Agreement
        Symmetric in the two members, except that the matching is inverted.
    """
    a, b = _validate_matrix(first, "first"), _validate_matrix(second, "second")
    if a.shape != b.shape:
        raise InputError(
            f"members have shapes {a.shape} and {b.shape}; both need the same people and patterns."
        )
    scores, correlations = (
        c_index_matrix(a, b),
        _normalise_columns(a).T @ _normalise_columns(b),
    )
    # Without the correlation, ties between matchings would be decided by the order of
    # the members.
    matching = _find_best_matching(scores + _CORRELATION_WEIGHT * correlations)
    matched, rows = b[:, matching], np.arange(len(matching))
    return Agreement(
        concordance=float(scores[rows, matching].mean()),
        dimension=float(correlations[rows, matching].mean()),
        difference=_correlate_differences(a, matched),
        matching=matching,
    )


def members_agreement(members: ArrayLike) -> MembersAgreement:
    """Return the agreement among many members, averaged over their pairs.

    Parameters
    ----------
    members : ArrayLike
        R-indices of S >= 2 members for the same people.
    """
    stack = _validate_stack(members)
    return average_agreement(len(stack), lambda i, j: agreement(stack[i], stack[j]))


def average_agreement(
    n_members: int, compare: Callable[[int, int], Agreement]
) -> MembersAgreement:
    """Return the agreement among members, averaged over their pairs, given that of two
    of them.
    """
    pairwise = np.full((n_members, n_members), np.nan)
    results = []
    for i, j in combinations(range(n_members), 2):
        results.append(compare(i, j))
        pairwise[i, j] = pairwise[j, i] = results[-1].concordance
    return MembersAgreement(
        concordance=float(np.mean([r.concordance for r in results])),
        dimension=float(np.mean([r.dimension for r in results])),
        difference=float(np.mean([r.difference for r in results])),
        per_member=np.nanmean(pairwise, axis=1),
        pairwise=pairwise,
    )


class IndexRows(NamedTuple):
    """R-indices (S, N, M) of the same people by several members.

    Attributes
    ----------
    values : ndarray
    """

    values: FloatArray

    @property
    def n_members(self) -> int:
        """S."""
        return len(self.values)

    @property
    def n_patterns(self) -> int:
        """M."""
        return int(self.values.shape[2])

    def compare(self, first: int, second: int) -> Agreement:
        """Return the agreement of two members."""
        return agreement(self.values[first], self.values[second])


class IndexMoments(NamedTuple):
    """Mean (S * M,) and covariance (S * M, S * M) of the R-indices of several members
    in the same people.

    Counting pairs of people needs the people. From sums over them, concordance is that
    of normally distributed indices with the same correlation rho, 1 / 2 + arcsin(rho) /
    pi.

    Attributes
    ----------
    mean : ndarray
    covariance : ndarray
    n_patterns : int
    """

    mean: FloatArray
    covariance: FloatArray
    n_patterns: int

    @classmethod
    def compute(cls, members: Sequence[FloatArray]) -> "IndexMoments":
        """Return the moments of the R-indices (N, M) of each member."""
        joined = np.concatenate(members, axis=1)
        return cls.from_sums(
            joined.sum(axis=0), joined.T @ joined, len(joined), members[0].shape[1]
        )

    @classmethod
    def from_sums(
        cls, total: FloatArray, products: FloatArray, number: int, n_patterns: int
    ) -> "IndexMoments":
        """Return the moments of sums over a number of people."""
        mean = total / number
        return cls(mean, products / number - np.outer(mean, mean), n_patterns)

    @property
    def n_members(self) -> int:
        """S."""
        return len(self.mean) // self.n_patterns

    def take(self, start: int, stop: int) -> "IndexMoments":
        """Return the moments of some members that follow each other."""
        rows = slice(start * self.n_patterns, stop * self.n_patterns)
        return IndexMoments(
            self.mean[rows], self.covariance[rows, rows], self.n_patterns
        )

    def select(self, member: int, order: IntArray | None = None) -> FloatArray:
        """Return weights (S * M, M) that select the indices of a member, in an order
        (M,).
        """
        columns = np.arange(self.n_patterns) if order is None else order
        return np.asarray(np.eye(len(self.mean))[:, member * self.n_patterns + columns])

    def correlate(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Return the correlations (K, L) of weighted sums of indices, (S * M, K) and (S
        * M, L).
        """
        cross = first.T @ self.covariance @ second
        variances = [
            (weights * (self.covariance @ weights)).sum(axis=0)
            for weights in (first, second)
        ]
        return np.asarray(cross / np.sqrt(np.maximum(np.outer(*variances), 1e-300)))

    def compare(self, first: int, second: int) -> Agreement:
        """Return the agreement of two members; the difference is NaN with
        one pattern.
        """
        own, other = self.select(first), self.select(second)
        correlations = self.correlate(own, other)
        matching = _find_best_matching(correlations)
        matched = correlations[np.arange(self.n_patterns), matching]
        concordance = float(
            (0.5 + np.arcsin(np.clip(matched, -1.0, 1.0)) / np.pi).mean()
        )
        i, j = np.triu_indices(self.n_patterns, k=1)
        differences = [each[:, i] - each[:, j] for each in (own, other[:, matching])]
        difference = (
            float(np.diag(self.correlate(*differences)).mean())
            if len(i)
            else float("nan")
        )
        return Agreement(
            concordance=concordance,
            dimension=float(matched.mean()),
            difference=difference,
            matching=matching,
        )


def _compute_c_index(first: FloatArray, second: FloatArray) -> float:
    """Return the c-index of two valid columns (N,), from tau-b without its correction
    for ties.
    """
    untied = _count_untied_pairs(first), _count_untied_pairs(second)
    if 0 in untied:
        return 0.5
    if len(first) == 2:  # scipy divides by N - 2 for a p-value
        return (
            float(first[0] < first[1])
            if second[0] < second[1]
            else float(first[0] > first[1])
        )
    tau_b = float(stats.kendalltau(first, second, method="asymptotic").statistic)
    # Python integers, because the product exceeds 2**63 from a hundred thousand people.
    surplus = tau_b * math.sqrt(untied[0] * untied[1])
    n_pairs = len(first) * (len(first) - 1) // 2
    return (1.0 + surplus / n_pairs) / 2.0


def _count_untied_pairs(column: FloatArray) -> int:
    """Return the number of pairs of people whose values differ in a column (N,)."""
    counts = np.unique(column, return_counts=True)[1].astype(np.int64)
    tied = int((counts * (counts - 1) // 2).sum())
    return len(column) * (len(column) - 1) // 2 - tied


def _find_best_matching(scores: FloatArray) -> IntArray:
    """Return the column of each row in the best assignment: scores (M, K), M <= K ->
    (M,).
    """
    return np.asarray(linear_sum_assignment(scores, maximize=True)[1], dtype=np.intp)


def _normalise_columns(table: FloatArray) -> FloatArray:
    """Centre columns (N, M) and scale them to length 1; constant ones become 0."""
    # Scaling by the range first avoids overflow and underflow of squares.
    span = np.ptp(table, axis=0)
    varies = span > 0
    scaled = (table - table.mean(axis=0)) / np.where(varies, span, 1.0)
    length = np.linalg.norm(scaled, axis=0)
    return np.where(varies, scaled / np.where(varies, length, 1.0), 0.0)


def _correlate_differences(first: FloatArray, second: FloatArray) -> float:
    """Return the mean correlation of pairwise differences of columns (N, M); NaN with
    one column.
    """
    if first.shape[1] < 2:
        return float("nan")
    i, j = np.triu_indices(first.shape[1], k=1)
    a, b = (
        _normalise_columns(first[:, i] - first[:, j]),
        _normalise_columns(second[:, i] - second[:, j]),
    )
    return float(np.mean(np.sum(a * b, axis=0)))


def _validate_vector(values: ArrayLike, name: str) -> FloatArray:
    column = _convert_to_floats(
        values, f"{name} is not a table of numbers; convert its columns first."
    )
    if column.ndim != 1:
        raise InputError(
            f"{name} has shape {column.shape}; the c-index takes one number per person. "
            "For several patterns use pattern_c_index."
        )
    return _check_finite(column, name)


def _validate_matrix(values: ArrayLike, name: str) -> FloatArray:
    table = _convert_to_floats(
        values, f"{name} is not a table of numbers; convert its columns first."
    )
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or table.shape[1] == 0:
        raise InputError(
            f"{name} has shape {table.shape}; give people in rows, patterns in columns."
        )
    return _check_finite(table, name)


def _validate_stack(members: ArrayLike) -> FloatArray:
    layout = "give (members, people, patterns), every member with the same people and number of patterns"
    stack = _convert_to_floats(
        members, f"members differ in shape or are not numbers; {layout}."
    )
    if stack.ndim != 3 or len(stack) < 2:
        raise InputError(
            f"members have shape {stack.shape}; {layout}, and at least two members."
        )
    return stack


def _convert_to_floats(values: ArrayLike, message: str) -> FloatArray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(message) from None


def _check_finite(values: FloatArray, name: str) -> FloatArray:
    """Raise an error for fewer than two people and for values that are not finite."""
    if len(values) < 2:
        raise InputError(
            f"{name} has {len(values)} people; an order needs at least two."
        )
    rows = np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))
    if rows.size:
        shown = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
        raise InputError(
            f"{name} is not finite in {len(rows)} rows: {shown}. Drop or fill those people first."
        )
    return values


def _check_same_length(first: FloatArray, second: FloatArray) -> None:
    if len(first) != len(second):
        raise InputError(
            f"{len(first)} and {len(second)} people; give the same people in the same order."
        )


def compute_standard_error(members: FloatArray, share: float) -> FloatArray:
    """Return the standard error of the mean of members' patterns.

    If each member sees a share of the people, members are the draws of a delete-d
    jackknife: the sampling variance of a fit on all people is the variance of the
    members times share / (1 - share) (Shao and Wu, 1989). If all members see everyone,
    they differ by their random streams alone, and the result is the spread of one
    training. It then says nothing about other samples of people.

    Parameters
    ----------
    members : ndarray of shape (S, Q, M, R)
        Patterns of the aligned members.
    share : float
        Share of the people that each member sees.

    Returns
    -------
    ndarray of shape (Q, M, R)
    """
    factor = share / (1 - share) if share < 1 else 1.0
    return np.asarray(np.sqrt(factor * members.var(axis=0, ddof=1)))


def compute_confidence_interval(
    centre: FloatArray, error: FloatArray, n_members: int, level: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of Student's confidence interval with ``n_members - 1`` degrees
    of freedom.
    """
    half = stats.t.ppf((1 + level) / 2, n_members - 1) * error
    return centre - half, centre + half
