"""Choosing a grid point and its members by agreement (sections 4.2 and 4.3 of the paper).

A grid point is a number of patterns M and a weight of orthogonality lambda; its members were trained alike but for
their random streams. Where they agree, the result is not an accident of training; the grid point whose members agree
most is chosen. Everything here is arithmetic on arrays.

Shape letters: S members, N people, M patterns.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rindices._typing import FloatArray, IntArray
from rindices.errors import InputError
from rindices.selection.agreement import MembersAgreement, align_columns, members_agreement

MIN_STABLE_CONCORDANCE = (
    0.65  # the lower end of the concordance must reach this (benchmarks/null_agreement.py: what noise reaches)
)
AGREEMENT_MARGIN = 0.10  # a member agrees if its mean concordance is at most this far below the best member's
_MIN_BOOTSTRAP_MEMBERS = 4  # members below which an interval would only pretend
_N_BOOTSTRAPS = 1_000
_CONFIDENCE_LEVEL = 0.95


class GridPoint(NamedTuple):
    """One setting of the study.

    Attributes
    ----------
    n_patterns : int
        M.
    orthogonality : float or None
        lambda; None for learners that have none.
    """

    n_patterns: int
    orthogonality: float | None = None


class Candidate(NamedTuple):
    """The members of one grid point.

    Attributes
    ----------
    point : GridPoint
    indices : (S, N, M)
        R-indices of the same people by every converged member.
    numbers : (S,)
        The members' numbers.
    trained : int
        How many were trained, converged or not.
    evidence : (S, 3), optional
        Concordance, dimension and difference agreement that each member brings from people it does not share with
        others; where it is given, it is judged by instead of the agreement among the members.
    """

    point: GridPoint
    indices: FloatArray
    numbers: tuple[int, ...]
    trained: int
    evidence: FloatArray | None = None


class CandidateEvaluation(NamedTuple):
    """How well the members of one grid point agree.

    Attributes
    ----------
    agreement : MembersAgreement or None
        None where fewer than two members converged.
    interval : tuple of float
        95 % bootstrap interval of the concordance, over members.
    stable : bool
        Whether at least half of the members converged and they agree beyond doubt.
    why : str
        In words, where it is not stable.
    between : str
        Whose agreement was judged: that of ``members``, or of fits on ``disjoint halves`` of the people.
    evidence : (S, 3) or None
        See `Candidate`.
    """

    point: GridPoint
    trained: int
    converged: int
    agreement: MembersAgreement | None
    interval: tuple[float, float]
    stable: bool
    why: str
    between: str = "members"
    evidence: FloatArray | None = None

    @property
    def concordance(self) -> float:
        """Mean concordance among members; NaN where there is none."""
        return self.agreement.concordance if self.agreement is not None else float("nan")


class SelectionResult(NamedTuple):
    """What was chosen, and from what.

    Attributes
    ----------
    judgements : tuple of Judgement
        One per grid point, in the order given.
    best : int or None
        Place of the chosen grid point; None where none is stable.
    ties : tuple of int
        Other places whose concordance cannot be told from the best one's.
    member : int
        Place, among the converged members, of the one with the highest mean agreement (the paper's choice).
    agreeing : tuple of int
        Places of the members that agree with it; their aligned mean is the consensus.
    orders : tuple of (M,) arrays
        For each agreeing member the order of its columns that runs parallel to the chosen member.
    """

    evaluations: tuple[CandidateEvaluation, ...]
    best: int | None
    ties: tuple[int, ...] = ()
    member: int = 0
    agreeing: tuple[int, ...] = ()
    orders: tuple[IntArray, ...] = ()


def choose_grid_point(candidates: Sequence[Candidate], seed: int = 0) -> SelectionResult:
    """Choose the grid point whose members agree most, its best member and those that agree with it.

    Parameters
    ----------
    candidates : sequence of Candidate
    seed : int
        Of the bootstrap of the intervals.
    """
    if not candidates:
        raise InputError("there is no grid point to choose from: give at least one number of patterns.")
    agreements = [compute_candidate_agreement(c) for c in candidates]
    draws = [
        _bootstrap_concordance(a, c.evidence, np.random.default_rng([seed, place]))
        for place, (a, c) in enumerate(zip(agreements, candidates, strict=True))
    ]
    judgements = tuple(_evaluate_candidate(c, a, d) for c, a, d in zip(candidates, agreements, draws, strict=True))
    stable = [place for place, judgement in enumerate(judgements) if judgement.stable]
    if not stable:
        return SelectionResult(judgements, None)
    best = max(stable, key=lambda place: judgements[place].concordance)
    ties = tuple(place for place in stable if place != best and _are_tied(draws[best], draws[place]))
    agreement = agreements[best]
    known = None if agreement is None else agreement.per_member
    return SelectionResult(judgements, best, ties, *find_agreeing_members(candidates[best].indices, known))


def compute_consensus(indices: FloatArray, agreeing: Sequence[int], orders: Sequence[IntArray]) -> FloatArray:
    """Return the mean of the aligned, agreeing members: (S, N, M) -> (N, M)."""
    aligned = [indices[place][:, order] for place, order in zip(agreeing, orders, strict=True)]
    return np.asarray(np.mean(aligned, axis=0))


def compute_candidate_agreement(candidate: Candidate) -> MembersAgreement | None:
    """Return the agreement to judge by; per member and pair it is always that among the members."""
    if len(candidate.indices) < 2:
        return None
    among = members_agreement(candidate.indices)
    if candidate.evidence is None:
        return among
    concordance, dimension, difference = (float(value) for value in candidate.evidence.mean(axis=0))
    return among._replace(concordance=concordance, dimension=dimension, difference=difference)


class ConsensusMembers(NamedTuple):
    """Who makes the consensus; see the same fields of `SelectionResult`."""

    member: int
    agreeing: tuple[int, ...]
    orders: tuple[IntArray, ...]


def find_agreeing_members(indices: FloatArray, per_member: FloatArray | None = None) -> ConsensusMembers:
    """Return the best of members (S, N, M), those close to it, and how their columns line up with its own.

    Parameters
    ----------
    per_member : (S,), optional
        How well each agrees with the others, where it is known already.
    """
    if len(indices) == 1:  # nobody to agree with
        return ConsensusMembers(0, (0,), (np.arange(indices.shape[2]),))
    if per_member is None:
        per_member = members_agreement(indices).per_member
    member = int(np.argmax(per_member))
    agreeing = tuple(int(place) for place in np.flatnonzero(per_member >= per_member[member] - AGREEMENT_MARGIN))
    return ConsensusMembers(
        member, agreeing, tuple(align_columns(indices[place], indices[member]) for place in agreeing)
    )


def _evaluate_candidate(
    candidate: Candidate, agreement: MembersAgreement | None, draws: FloatArray | None
) -> CandidateEvaluation:
    converged = len(candidate.indices)
    common = (candidate.point, candidate.trained, converged)
    if candidate.trained == 1 == converged:
        return CandidateEvaluation(*common, None, (np.nan, np.nan), True, "a single member: its agreement is not known")
    if agreement is None:
        why = f"{converged} of {candidate.trained} members converged"
        return CandidateEvaluation(*common, None, (np.nan, np.nan), False, why)
    tail = (1 - _CONFIDENCE_LEVEL) / 2
    interval = (np.nan, np.nan)
    if draws is not None:
        interval = (float(np.quantile(draws, tail)), float(np.quantile(draws, 1 - tail)))
    lowest = agreement.concordance if draws is None else interval[0]
    why = _explain_instability(lowest, converged, candidate.trained)
    between = "members" if candidate.evidence is None else "disjoint halves"
    return CandidateEvaluation(*common, agreement, interval, not why, why, between, candidate.evidence)


def _explain_instability(lowest: float, converged: int, trained: int) -> str:
    if 2 * converged < trained:
        return f"only {converged} of {trained} members converged"
    if lowest < MIN_STABLE_CONCORDANCE:
        return f"members do not agree (concordance may be as low as {lowest:.2f}, {MIN_STABLE_CONCORDANCE} is needed)"
    return ""


def _bootstrap_concordance(
    agreement: MembersAgreement | None, evidence: FloatArray | None, rng: np.random.Generator
) -> FloatArray | None:
    """Return the concordance among members drawn with replacement, pairs of one and the same left out."""
    if agreement is None or len(agreement.pairwise) < _MIN_BOOTSTRAP_MEMBERS:
        return None
    if evidence is not None:
        return np.asarray(rng.choice(evidence[:, 0], size=(_N_BOOTSTRAPS, len(evidence))).mean(axis=1))
    pairwise = agreement.pairwise
    number = len(pairwise)
    drawn = rng.integers(number, size=(_N_BOOTSTRAPS, number))
    values = pairwise[drawn[:, :, None], drawn[:, None, :]]
    distinct = ~np.isnan(values).all(axis=(1, 2))
    return np.asarray(np.nanmean(values[distinct], axis=(1, 2)))


def _are_tied(best: FloatArray | None, other: FloatArray | None) -> bool:
    """Return whether two concordances cannot be told apart: the interval of their difference holds 0."""
    if best is None or other is None:
        return True
    size = min(len(best), len(other))
    return bool(np.quantile(best[:size] - other[:size], (1 - _CONFIDENCE_LEVEL) / 2) <= 0)
