"""Compare the members of a federated study: among each other, by halves, and by numbers of patterns.

The pooled fit counts pairs of people that two members order alike, which is not a sum over people. Here concordance is
that of normally distributed indices with the same correlation rho, 1 / 2 + arcsin(rho) / pi, from sums of R-indices and
their products.

Shape letters: S members, M patterns, C columns.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from rindices._typing import FloatArray, IntArray
from rindices.federated.members import CurveTask
from rindices.learners.pattern_stability import PatternStability
from rindices.learners.trajectory.expectation_maximisation import TrajectoryModel
from rindices.model.records import CandidateRecord, HeldOutLikelihoodRecord
from rindices.selection.agreement import Agreement, average_agreement
from rindices.selection.choose import (
    MIN_STABLE_CONCORDANCE,
    Candidate,
    CandidateEvaluation,
    ConsensusMembers,
    GridPoint,
    align_agreeing_members,
    average_evidence,
    bootstrap_concordance,
    evaluate_candidate,
)
from rindices.study.build import make_candidate_record

_NOT_MEASURED = "agreement was measured for the chosen number alone"


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

    def select(self, model: int, order: IntArray | None = None) -> FloatArray:
        """Return weights (S * M, M) that select the indices of a model, in an order (M,)."""
        columns = np.arange(self.n_patterns) if order is None else order
        return np.asarray(np.eye(len(self.mean))[:, model * self.n_patterns + columns])

    def correlate(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Return the correlations (C, D) of weighted sums of indices, (S * M, C) and (S * M, D)."""
        cross = first.T @ self.covariance @ second
        variances = [(weights * (self.covariance @ weights)).sum(axis=0) for weights in (first, second)]
        return np.asarray(cross / np.sqrt(np.maximum(np.outer(*variances), 1e-300)))

    def compare(self, first: int, second: int) -> Agreement:
        """Return the agreement of two models; the difference is NaN with one pattern."""
        own, other = self.select(first), self.select(second)
        correlations = self.correlate(own, other)
        matching = np.asarray(linear_sum_assignment(correlations, maximize=True)[1], dtype=np.intp)
        matched = correlations[np.arange(self.n_patterns), matching]
        concordance = float((0.5 + np.arcsin(np.clip(matched, -1.0, 1.0)) / np.pi).mean())
        i, j = np.triu_indices(self.n_patterns, k=1)
        differences = [each[:, i] - each[:, j] for each in (own, other[:, matching])]
        difference = float(np.diag(self.correlate(*differences)).mean()) if len(i) else float("nan")
        return Agreement(concordance, float(matched.mean()), difference, matching)


class NumberFits(NamedTuple):
    """Fits of all members with one number of patterns.

    shape: the shape under which held-out patients are more likely; tasks: by shape, one for each member.
    """

    n_patterns: int
    shape: str
    tasks: dict[str, list[CurveTask]]

    @property
    def likelihoods(self) -> FloatArray:
        """Mean log-likelihood (S,) of the patients that each member has not seen."""
        return np.array([task.best_likelihood for task in self.tasks[self.shape]])

    @property
    def models(self) -> list[TrajectoryModel]:
        """The models of the members."""
        return [task.result for task in self.tasks[self.shape]]


class MemberComparison(NamedTuple):
    """Agreement of the members of one number of patterns, and of their halves.

    stability: correlation of each member with the consensus, and between halves, (S, M) each.
    """

    evaluation: CandidateEvaluation
    consensus: ConsensusMembers
    stability: PatternStability


def compare_fits(
    indices: IndexMoments,
    n_members: int,
    likelihoods: FloatArray | None,
    seed: int,
    min_concordance: float = MIN_STABLE_CONCORDANCE,
) -> MemberComparison:
    """Compare S members among each other and their halves pair by pair.

    indices: of the members, then of both halves of each member; likelihoods (S,); seed: of the bootstrap;
    min_concordance: of a stable setting.
    """
    n_patterns = indices.n_patterns
    among = average_agreement(n_members, indices.compare)
    consensus = align_agreeing_members(among.per_member, lambda best, k: indices.compare(best, k).matching)
    halves = [indices.compare(n_members + 2 * k, n_members + 2 * k + 1) for k in range(n_members)]
    evidence = np.array([each[:3] for each in halves])
    agreement = average_evidence(among, evidence)
    bootstrap = bootstrap_concordance(agreement, evidence, np.random.default_rng([seed, n_patterns]))
    point, no_people = GridPoint(n_patterns), np.zeros((n_members, 0, n_patterns))
    numbers = tuple(range(n_members))
    candidate = Candidate(point, no_people, numbers, n_members, evidence, likelihoods, n_members)
    evaluation = evaluate_candidate(candidate, agreement, bootstrap, min_concordance)
    return MemberComparison(evaluation, consensus, _correlate_with_consensus(indices, consensus, n_members))


def _correlate_with_consensus(indices: IndexMoments, consensus: ConsensusMembers, n_members: int) -> PatternStability:
    """Return the correlation of each member with the consensus, and between halves, pattern by pattern."""
    aligned = [
        indices.select(k, indices.compare(consensus.member, k).matching)
        for k in range(len(indices.mean) // indices.n_patterns)
    ]
    mean = np.mean([aligned[k] for k in consensus.agreeing], axis=0)
    members, first, second = aligned[:n_members], aligned[n_members::2], aligned[n_members + 1 :: 2]
    stability = [np.diag(indices.correlate(member, mean)) for member in members]
    split_half = [np.diag(indices.correlate(*pair)) for pair in zip(first, second, strict=True)]
    return PatternStability(np.array(stability), np.array(split_half))


def make_grid_records(
    fits: dict[int, NumberFits], comparisons: dict[int, MemberComparison]
) -> tuple[CandidateRecord, ...]:
    """Return the records of all numbers of patterns; agreement is only known where it was measured."""
    best = max((fit.likelihoods for fit in fits.values()), key=lambda values: float(values.mean()))
    records = []
    for number, fit in sorted(fits.items()):
        n_members, differences = len(best), best - fit.likelihoods
        means = {shape: float(np.mean([task.best_likelihood for task in tasks])) for shape, tasks in fit.tasks.items()}
        held_out = HeldOutLikelihoodRecord(
            shape=fit.shape,
            straight=means.get("straight"),
            curved=means.get("curved"),
            below_best=float(differences.mean()),
            below_best_se=float(differences.std(ddof=1) / np.sqrt(n_members)),
        )
        unmeasured = (None, (np.nan, np.nan), True, _NOT_MEASURED)
        evaluation = CandidateEvaluation(GridPoint(number), n_members, n_members, *unmeasured)
        if number in comparisons:
            evaluation = comparisons[number].evaluation
        records.append(make_candidate_record(evaluation, held_out))
    return tuple(records)
