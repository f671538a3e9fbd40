"""Compare the members of a federated study: among each other, by halves, and by numbers of patterns.

Shape letters: S members, M patterns.
"""

from typing import NamedTuple

import numpy as np

from rindices._typing import FloatArray, IntArray
from rindices.federated.consensus import IndexMoments, compare_members, find_consensus
from rindices.federated.curves import CurveTask
from rindices.learners.trajectory.expectation_maximisation import TrajectoryModel
from rindices.model.records import CandidateRecord, HeldOutLikelihoodRecord
from rindices.selection.choose import (
    Candidate,
    CandidateEvaluation,
    ConsensusMembers,
    GridPoint,
    bootstrap_concordance,
    evaluate_candidate,
)
from rindices.study.build import make_candidate_record

_NOT_MEASURED = "agreement was measured for the chosen number alone"


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
    """Agreement of the members of one number of patterns, and of their halves."""

    evaluation: CandidateEvaluation
    consensus: ConsensusMembers
    correlations: dict[str, FloatArray]


def compare_fits(
    indices: IndexMoments,
    n_members: int,
    n_patterns: int,
    likelihoods: FloatArray | None,
    seed: int,
    min_concordance: float | None = None,
) -> MemberComparison:
    """Compare S members among each other and their halves pair by pair.

    indices: of the members, then of both halves of each member; likelihoods (S,); seed: of the bootstrap;
    min_concordance: of a stable setting.
    """
    among = compare_members(indices, n_members)
    consensus = find_consensus(indices, among)
    halves = [indices.compare(n_members + 2 * k, n_members + 2 * k + 1) for k in range(n_members)]
    evidence = np.array([[each.concordance, each.dimension, each.difference] for each in halves])
    concordance, dimension, difference = (float(value) for value in evidence.mean(axis=0))
    agreement = among._replace(concordance=concordance, dimension=dimension, difference=difference)
    bootstrap = bootstrap_concordance(agreement, evidence, np.random.default_rng([seed, n_patterns]))
    candidate = Candidate(
        *(GridPoint(n_patterns), np.zeros((n_members, 0, n_patterns)), tuple(range(n_members)), n_members),
        *(evidence, likelihoods, n_members),
    )
    limits = () if min_concordance is None else (min_concordance,)
    evaluation = evaluate_candidate(candidate, agreement, bootstrap, *limits)
    correlations = _correlate_with_consensus(indices, consensus, n_members)
    return MemberComparison(evaluation, consensus, correlations)


def _correlate_with_consensus(
    indices: IndexMoments, consensus: ConsensusMembers, n_members: int
) -> dict[str, FloatArray]:
    """Return the correlation of each member with the consensus, and between halves, (S, M) each by pattern."""
    n_patterns, n_columns = indices.n_patterns, len(indices.mean)

    def select(model: int, order: IntArray) -> FloatArray:
        weights = np.zeros((n_columns, n_patterns))
        weights[model * n_patterns + order, np.arange(n_patterns)] = 1.0
        return weights

    best = consensus.member
    mean = np.mean([select(k, order) for k, order in zip(consensus.agreeing, consensus.orders, strict=True)], axis=0)
    orders = {k: indices.compare(best, k).matching for k in range(n_columns // n_patterns)}
    stability = [indices.correlate(select(k, orders[k]), mean) for k in range(n_members)]
    split_half = [
        indices.correlate(*(select(n_members + 2 * k + half, orders[n_members + 2 * k + half]) for half in (0, 1)))
        for k in range(n_members)
    ]
    return {"stability": np.array(stability), "split_half": np.array(split_half)}


def make_grid_records(
    fits: dict[int, NumberFits], comparisons: dict[int, MemberComparison]
) -> tuple[CandidateRecord, ...]:
    """Return the records of all numbers of patterns; agreement is only known where it was measured."""
    best = max((fit.likelihoods for fit in fits.values()), key=lambda values: float(values.mean()))
    records = []
    for number, fit in sorted(fits.items()):
        differences = best - fit.likelihoods
        means = {shape: float(np.mean([task.best_likelihood for task in tasks])) for shape, tasks in fit.tasks.items()}
        held_out = HeldOutLikelihoodRecord(
            shape=fit.shape,
            straight=means.get("straight"),
            curved=means.get("curved"),
            below_best=float(differences.mean()),
            below_best_se=float(differences.std(ddof=1) / np.sqrt(len(differences))),
        )
        if number in comparisons:
            records.append(make_candidate_record(comparisons[number].evaluation, held_out))
        else:
            n_members = len(fit.likelihoods)
            evaluation = CandidateEvaluation(
                GridPoint(number), n_members, n_members, None, (np.nan, np.nan), True, _NOT_MEASURED
            )
            records.append(make_candidate_record(evaluation, held_out))
    return tuple(records)
