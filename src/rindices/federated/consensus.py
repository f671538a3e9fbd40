"""Agreement of members and halves, from sums of R-indices and their products.

The pooled fit counts pairs of people that two members order alike, which is not a sum over people. Here concordance is
that of normally distributed indices with the same correlation rho, 1 / 2 + arcsin(rho) / pi.

Shape letters: S members, M patterns.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from rindices._typing import FloatArray, IntArray
from rindices.selection.agreement import Agreement, MembersAgreement
from rindices.selection.choose import AGREEMENT_MARGIN, ConsensusMembers


class IndexMoments(NamedTuple):
    """Mean (S * M,) and covariance (S * M, S * M) of the R-indices of several models in the same people."""

    mean: FloatArray
    covariance: FloatArray
    n_patterns: int

    @classmethod
    def from_sums(cls, total: FloatArray, products: FloatArray, number: int, n_patterns: int) -> "IndexMoments":
        """Return the moments of sums over a number of people."""
        mean = total / number
        return cls(mean, products / number - np.outer(mean, mean), n_patterns)

    def compare(self, first: int, second: int) -> Agreement:
        """Return the agreement of two models."""
        rows, columns = (slice(k * self.n_patterns, (k + 1) * self.n_patterns) for k in (first, second))
        own, other, cross = (
            self.covariance[rows, rows],
            self.covariance[columns, columns],
            self.covariance[rows, columns],
        )
        correlations = _correlate(cross, np.diag(own), np.diag(other))
        matching = np.asarray(linear_sum_assignment(correlations, maximize=True)[1], dtype=np.intp)
        matched = correlations[np.arange(self.n_patterns), matching]
        difference = _correlate_differences(own, other[np.ix_(matching, matching)], cross[:, matching])
        return Agreement(float(convert_to_concordance(matched).mean()), float(matched.mean()), difference, matching)

    def correlate(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Return the correlations (K,) of pairs of weighted sums of indices, (S * M, K) each."""
        cross, variances = (first * (self.covariance @ second)).sum(axis=0), []
        for weights in (first, second):
            variances.append((weights * (self.covariance @ weights)).sum(axis=0))
        return np.asarray(cross / np.sqrt(np.maximum(variances[0] * variances[1], 1e-300)))


def convert_to_concordance(correlations: FloatArray) -> FloatArray:
    """Return the share of pairs that two normal variables of these correlations order alike."""
    return np.asarray(0.5 + np.arcsin(np.clip(correlations, -1.0, 1.0)) / np.pi)


def compare_members(moments: IndexMoments, n_members: int) -> MembersAgreement:
    """Return the agreement among the first S models."""
    pairwise, results = np.full((n_members, n_members), np.nan), []
    for i, j in combinations(range(n_members), 2):
        results.append(moments.compare(i, j))
        pairwise[i, j] = pairwise[j, i] = results[-1].concordance
    means = [float(np.mean([result[k] for result in results])) for k in range(3)]
    return MembersAgreement(means[0], means[1], means[2], np.nanmean(pairwise, axis=1), pairwise)


def find_consensus(moments: IndexMoments, agreement: MembersAgreement | None) -> ConsensusMembers:
    """Return the best member, those that agree with it, and the orders of their patterns."""
    if agreement is None:
        return ConsensusMembers(0, (0,), (np.arange(moments.n_patterns),))
    best = int(np.argmax(agreement.per_member))
    agreeing = np.flatnonzero(agreement.per_member >= agreement.per_member[best] - AGREEMENT_MARGIN).tolist()
    orders: list[IntArray] = [
        np.arange(moments.n_patterns) if k == best else moments.compare(best, k).matching for k in agreeing
    ]
    return ConsensusMembers(best, tuple(agreeing), tuple(orders))


def _correlate(cross: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    return np.asarray(cross / np.sqrt(np.maximum(np.outer(first, second), 1e-300)))


def _correlate_differences(own: FloatArray, other: FloatArray, cross: FloatArray) -> float:
    """Return the mean correlation of differences of columns, from matched covariances (M, M); NaN with one column."""
    if len(own) < 2:
        return float("nan")
    i, j = np.triu_indices(len(own), k=1)
    variances = [matrix[i, i] + matrix[j, j] - 2.0 * matrix[i, j] for matrix in (own, other)]
    shared = cross[i, i] + cross[j, j] - cross[i, j] - cross[j, i]
    return float(np.mean(shared / np.sqrt(np.maximum(variances[0] * variances[1], 1e-300))))
