"""Choose a grid point and its members, by held-out likelihood or by agreement (sections
4.2 and 4.3 of the paper).

A grid point is a number of patterns M and a weight of orthogonality lambda. Its members
are trained alike, except for their random streams. If they agree, the result does not
depend on chance in training: only such a grid point is stable. Of the stable ones, the
one under which people that members have not seen are most likely is chosen, unless a
smaller number of patterns agrees better, or describes these people clearly better and
is not stable; for learners without a likelihood, the one whose members agree best.
Among patterns of which any are diffuse (`whole_cohort_start`), the group loss of these
people takes the place of their likelihood, because the likelihood also rewards a better
description of what patients and controls share.

Shape letters: S members, N people, M patterns.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rindices._typing import FloatArray, IntArray
from rindices.errors import InputError
from rindices.selection.agreement import (
    IndexMoments,
    IndexRows,
    MembersAgreement,
    average_agreement,
)

N_STANDARD_ERRORS = 1.0
"""Standard errors by which a larger setting must be ahead."""
MIN_STABLE_CONCORDANCE = 0.65
"""Minimum of the lower confidence bound of a stable grid point, above noise
(benchmarks/null_agreement.py).
"""
SINGLE_PATTERN_ADVANTAGE = 0.10
"""What a single pattern must be ahead by to be chosen: fits agree on it more easily,
since nothing can be rotated.

With one true pattern it is ahead by 0.2, with two by 0.02
(``benchmarks/number_choice.py``).
"""
CONCORDANCE_MARGIN = 0.05
"""A number of patterns that agrees less than a smaller one by more than this is not
chosen, however likely.

Noise within patterns makes a pattern too many more likely by 0.03 to 0.09 a patient,
but fits on disjoint halves agree less on it, by 0.07 to 0.14 (thirteen cohorts of seeds
from 400).
"""
AGREEMENT_MARGIN = 0.10
"""A member agrees if its mean concordance is at most this far below that of the best
member.
"""
NOT_MEASURED = (
    "agreement is measured for the chosen number of patterns and for smaller ones"
)
_MIN_BOOTSTRAP_MEMBERS = 4
_N_BOOTSTRAPS = 1_000
_CONFIDENCE_LEVEL = 0.95


def exceeds_chance(differences: FloatArray) -> bool:
    """Return whether the mean of paired differences (S,) exceeds its standard error."""
    if len(differences) < 2:
        return bool(differences.mean() > 0)
    error = float(differences.std(ddof=1)) / np.sqrt(len(differences))
    return bool(differences.mean() > N_STANDARD_ERRORS * error)


def choose_simplest_setting(likelihoods: Sequence[FloatArray]) -> int:
    """Return the first setting that the most likely one does not exceed by more than a
    standard error.

    Parameters
    ----------
    likelihoods : sequence of ndarray of shape (S,)
        Mean log-likelihood of the people that each member has not seen, of settings
        from simple to large.

    Returns
    -------
    int
        Position of the setting.
    """
    best = max(range(len(likelihoods)), key=lambda k: float(likelihoods[k].mean()))
    return next(
        k
        for k in range(best + 1)
        if k == best or not exceeds_chance(likelihoods[best] - likelihoods[k])
    )


class GridPoint(NamedTuple):
    """One setting of a study: M, and lambda for learners that have it.

    Attributes
    ----------
    n_patterns : int
    orthogonality : float or None
    """

    n_patterns: int
    orthogonality: float | None = None


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """The members of one grid point.

    Attributes
    ----------
    point : GridPoint
    indices : IndexRows or IndexMoments
        R-indices of the same people by each of S usable members, or their moments.
    numbers : tuple of int
        Numbers of the members.
    trained : int
        Number of members that were trained, converged or not.
    evidence : ndarray of shape (E, 3) or None
        Concordance, dimension and difference agreement of E pairs of fits on
        disjoint halves of the people. If given, it replaces the agreement among
        members, who share people.
    held_out : ndarray of shape (T,) or None
        Mean log-likelihood of the people that each of the T members of the first
        set has not seen, with the shape of patterns that they prefer together. If
        all candidates have it, it decides.
    converged : int or None
        Number of members that converged. S if not given. Converged members of
        another shape are not usable.
    group_loss : ndarray of shape (T,) or None
        Group loss of these people.
    is_diffuse : bool
        Whether the members are of a start with diffuse patterns.
    is_guessing : bool
        Whether members of the whole-cohort start tell patients from controls whom
        they have not seen no better than guessing. They are not stable then, because
        halves agree on diffuse patterns of noise, too.
    """

    point: GridPoint
    indices: IndexRows | IndexMoments
    numbers: tuple[int, ...]
    trained: int
    evidence: FloatArray | None = None
    held_out: FloatArray | None = None
    converged: int | None = None
    group_loss: FloatArray | None = None
    is_diffuse: bool = False
    is_guessing: bool = False


@dataclass(frozen=True, kw_only=True)
class CandidateEvaluation:
    """Agreement of the members of one grid point.

    Attributes
    ----------
    point : GridPoint
    trained, converged : int
        Numbers of members.
    agreement : MembersAgreement or None
        None if fewer than two members converged.
    interval : tuple of float
        95 % bootstrap interval of the concordance, over members.
    stable : bool
        Whether at least half of the members converged and the interval is above
        `MIN_STABLE_CONCORDANCE`.
    why : str
        Reason, if it is not stable.
    between : str
        Source of the agreement.
    evidence : ndarray of shape (S, 3) or None
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
        """Mean concordance; NaN if fewer than two members converged."""
        return (
            self.agreement.concordance if self.agreement is not None else float("nan")
        )


class ConsensusMembers(NamedTuple):
    """Members of the consensus.

    Attributes
    ----------
    member : int
        Position, among the usable members, of the one with the highest mean
        agreement (the paper's choice).
    agreeing : tuple of int
        Positions of the members that agree with it. Their aligned mean is the
        consensus.
    orders : tuple of ndarray of shape (M,)
        For each agreeing member, the order of its columns that matches the chosen
        member.
    """

    member: int
    agreeing: tuple[int, ...]
    orders: tuple[IntArray, ...]


@dataclass(frozen=True, kw_only=True)
class SelectionResult:
    """The chosen grid point and the evaluations of all.

    Attributes
    ----------
    evaluations : tuple of CandidateEvaluation
        One per grid point, in the order of the candidates.
    best : int or None
        Position of the chosen grid point. None if none is stable.
    ties : tuple of int
        Positions of stable grid points whose concordance does not differ
        significantly from the best one.
    member : int
        Members of the consensus. See `ConsensusMembers`.
    agreeing : tuple of int
        Members of the consensus. See `ConsensusMembers`.
    orders : tuple of ndarray
        Members of the consensus. See `ConsensusMembers`.
    """

    evaluations: tuple[CandidateEvaluation, ...]
    best: int | None
    ties: tuple[int, ...] = ()
    member: int = 0
    agreeing: tuple[int, ...] = ()
    orders: tuple[IntArray, ...] = ()


def keep_best_member(choice: SelectionResult) -> SelectionResult:
    """Return a choice whose consensus is the member that agrees best with
    the others.
    """
    if choice.best is None:
        return choice
    position = choice.agreeing.index(choice.member)
    return replace(choice, agreeing=(choice.member,), orders=(choice.orders[position],))


class _Evaluated(NamedTuple):
    """Evaluation of a candidate, the agreement that decides, and its bootstrap sample.

    Attributes
    ----------
    evaluation : CandidateEvaluation
    agreement : MembersAgreement or None
    bootstrap : ndarray or None
    """

    evaluation: CandidateEvaluation
    agreement: MembersAgreement | None
    bootstrap: FloatArray | None

    @property
    def rank_value(self) -> float:
        """The concordance by which grid points are compared."""
        is_single = self.evaluation.point.n_patterns == 1
        return self.evaluation.concordance - (
            SINGLE_PATTERN_ADVANTAGE if is_single else 0.0
        )


def _evaluate(
    candidate: Candidate, seed: Sequence[int], min_concordance: float
) -> _Evaluated:
    agreement = compute_candidate_agreement(candidate)
    bootstrap = bootstrap_concordance(
        agreement, candidate.evidence, np.random.default_rng(seed)
    )
    return _Evaluated(
        evaluate_candidate(candidate, agreement, bootstrap, min_concordance),
        agreement,
        bootstrap,
    )


def choose_grid_point(
    candidates: Sequence[Candidate],
    seed: int = 0,
    min_concordance: float = MIN_STABLE_CONCORDANCE,
    number_margin: float = 0.0,
) -> SelectionResult:
    """Choose the grid point whose members agree best, its best member and the members
    that agree with it.

    Parameters
    ----------
    seed : int
        Seed of the bootstrap.
    min_concordance : float
        Minimum of the lower confidence bound of a stable grid point.
    number_margin : float
        By how much members of the largest number of patterns may agree less than
        those of the best. Members agree about as well on a pattern too few as on
        the right number, and clearly less on one too many.
    """
    if not candidates:
        raise InputError(
            "there is no grid point to choose from: give at least one number of patterns."
        )
    evaluated = {
        k: _evaluate(each, [seed, k], min_concordance)
        for k, each in enumerate(candidates)
    }
    stable = [k for k, each in evaluated.items() if each.evaluation.stable]
    if not stable:
        return SelectionResult(
            evaluations=tuple(each.evaluation for each in evaluated.values()), best=None
        )
    kept = _list_unrivalled(evaluated)
    choice = _choose_by_likelihood(
        candidates, kept, set(range(len(candidates))) - set(kept)
    )
    if choice is None:
        best = max(stable, key=lambda k: evaluated[k].rank_value)
        lowest = evaluated[best].rank_value - number_margin
        near = [k for k in stable if evaluated[k].rank_value >= lowest] or [
            best
        ]  # none if agreement is not known
        largest = max(candidates[k].point.n_patterns for k in near)
        in_number = [k for k in near if candidates[k].point.n_patterns == largest]
        best = max(in_number, key=lambda k: evaluated[k].rank_value)
        bootstraps = {k: evaluated[k].bootstrap for k in stable}
        choice = (
            best,
            tuple(
                k
                for k in stable
                if k != best and _are_tied(bootstraps[best], bootstraps[k])
            ),
        )
    return _conclude(candidates, evaluated, *choice)


def choose_and_measure(
    candidates: Sequence[Candidate],
    measure: Callable[[Sequence[GridPoint]], Sequence[Candidate]],
    complete: Callable[[GridPoint], Candidate],
    seed: int = 0,
    min_concordance: float = MIN_STABLE_CONCORDANCE,
) -> SelectionResult:
    """Choose among candidates whose evidence and later members are costly: they are
    asked for where they are needed.

    Evidence is measured for the most likely candidate and for those with fewer
    patterns, until one is stable. A candidate with more patterns than a refused one is
    not taken if it is clearly less likely than that one. ``measure`` returns candidates
    with evidence; ``complete`` returns the chosen one with all its members.
    """
    known, evaluated, remaining = (
        list(candidates),
        dict[int, _Evaluated](),
        list(range(len(candidates))),
    )

    def update(k: int, candidate: Candidate) -> None:
        known[k], evaluated[k] = (
            candidate,
            _evaluate(candidate, [seed, k], min_concordance),
        )

    while remaining:
        choice = _choose_by_likelihood(
            known, remaining, set(range(len(known))) - set(remaining)
        )
        if choice is None and not _has_likelihoods(known):
            return choose_grid_point(
                measure([each.point for each in known]), seed, min_concordance
            )
        if choice is None:
            break
        best, ties = choice
        missing = [
            k
            for k, each in enumerate(known)
            if each.point.n_patterns <= known[best].point.n_patterns
            and k not in evaluated
        ]
        for k, candidate in zip(
            missing, measure([known[k].point for k in missing]), strict=True
        ):
            update(k, candidate)
        kept = _list_unrivalled(evaluated)
        if best in kept:
            update(best, complete(known[best].point))
            return _conclude(
                known, evaluated, best, tuple(k for k in ties if k in kept)
            )
        remaining = [k for k in remaining if k in kept or k not in evaluated]
    return SelectionResult(
        evaluations=tuple(evaluated[k].evaluation for k in sorted(evaluated)), best=None
    )


def is_clearly_judged(concordances: Sequence[float], min_concordance: float) -> bool:
    """Return whether pairs of fits all agree, or all do not, so that further pairs
    hardly change the judgement.
    """
    return min(concordances) >= min_concordance or max(concordances) < min_concordance


def _conclude(
    candidates: Sequence[Candidate],
    evaluated: Mapping[int, _Evaluated],
    best: int,
    ties: tuple[int, ...],
) -> SelectionResult:
    """Return the result of a choice, with the members of the consensus."""
    evaluations = tuple(
        evaluated[k].evaluation
        if k in evaluated
        else CandidateEvaluation(
            point=each.point,
            trained=each.trained,
            converged=each.converged or each.indices.n_members,
            agreement=None,
            interval=(np.nan, np.nan),
            stable=False,
            why=NOT_MEASURED,
        )
        for k, each in enumerate(candidates)
    )
    agreement = evaluated[best].agreement
    per_member = None if agreement is None else agreement.per_member
    consensus = find_agreeing_members(candidates[best].indices, per_member)
    return SelectionResult(
        evaluations=evaluations,
        best=best,
        ties=ties,
        member=consensus.member,
        agreeing=consensus.agreeing,
        orders=consensus.orders,
    )


def _list_unrivalled(evaluated: Mapping[int, _Evaluated]) -> list[int]:
    """Return the stable candidates whose agreement is at most `CONCORDANCE_MARGIN`
    below that of one with fewer patterns.
    """
    stable = {k: each for k, each in evaluated.items() if each.evaluation.stable}
    return [
        k
        for k, own in stable.items()
        if not any(
            own.evaluation.point.n_patterns > other.evaluation.point.n_patterns
            and own.rank_value < other.rank_value - CONCORDANCE_MARGIN
            for other in stable.values()
        )
    ]


def _choose_by_likelihood(
    candidates: Sequence[Candidate],
    stable: Sequence[int],
    refused: Collection[int] = (),
) -> tuple[int, tuple[int, ...]] | None:
    """Return the position of the simplest of the most likely candidates, and the others
    that are as likely.

    Parameters
    ----------
    stable : sequence of int
        Positions to choose from.
    refused : Collection
        Positions of others, than which a candidate with more patterns must not be
        clearly less likely. None where a likelihood is missing, where candidates
        have different numbers of members, or where none is left.
    """
    if not _has_likelihoods(candidates):
        return None
    values = score_candidates(candidates)

    def is_clearly_worse(k: int) -> bool:
        number = candidates[k].point.n_patterns
        smaller = [
            other for other in refused if candidates[other].point.n_patterns < number
        ]
        return any(exceeds_chance(values[other] - values[k]) for other in smaller)

    ordered = sorted(
        (k for k in stable if not is_clearly_worse(k)),
        key=lambda k: candidates[k].point.n_patterns,
    )
    if not ordered:
        return None
    scores = [values[k] for k in ordered]
    best = choose_simplest_setting(scores)
    differences = [scores[best] - other for other in scores]
    ties = [
        k
        for k, d in enumerate(differences)
        if k != best and not exceeds_chance(d) and not exceeds_chance(-d)
    ]
    return ordered[best], tuple(ordered[k] for k in ties)


def _has_likelihoods(candidates: Sequence[Candidate]) -> bool:
    """Return whether all candidates have a likelihood of the same people."""
    likelihoods = [
        values for each in candidates if (values := each.held_out) is not None
    ]
    return (
        len(likelihoods) == len(candidates)
        and len(set(map(len, likelihoods))) == 1
        and bool(np.isfinite(likelihoods).all())
    )


def is_decided_by_group_loss(candidates: Sequence[Candidate]) -> bool:
    """Return whether the group loss decides: any candidate is diffuse, and all have a
    group loss.
    """
    losses = [each.group_loss for each in candidates]
    return any(each.is_diffuse for each in candidates) and all(
        loss is not None and np.isfinite(loss).all() for loss in losses
    )


def score_candidates(candidates: Sequence[Candidate]) -> list[FloatArray]:
    """Return by how much each candidate is preferred, by the people that each of its
    members has not seen (T,).
    """
    by_loss = is_decided_by_group_loss(candidates)
    return [
        np.asarray(
            -np.asarray(each.group_loss) if by_loss else each.held_out, dtype=float
        )
        for each in candidates
    ]


def compute_candidate_agreement(candidate: Candidate) -> MembersAgreement | None:
    """Return the agreement that decides; its values per member and pair are always
    those among the members.
    """
    if candidate.indices.n_members < 2:
        return None
    among_members = average_agreement(
        candidate.indices.n_members, candidate.indices.compare
    )
    return (
        among_members
        if candidate.evidence is None
        else average_evidence(among_members, candidate.evidence)
    )


def average_evidence(
    among_members: MembersAgreement, evidence: FloatArray
) -> MembersAgreement:
    """Return an agreement with the means of evidence (S, 3) instead of those over pairs
    of members.
    """
    concordance, dimension, difference = (
        float(value) for value in evidence.mean(axis=0)
    )
    return replace(
        among_members,
        concordance=concordance,
        dimension=dimension,
        difference=difference,
    )


def find_agreeing_members(
    indices: IndexRows | IndexMoments, per_member: FloatArray | None = None
) -> ConsensusMembers:
    """Find the best member and those that agree with it, and align their columns.

    Parameters
    ----------
    indices : IndexRows or IndexMoments
        R-indices of the same people by each of S members.
    per_member : ndarray of shape (S,) or None
        Mean concordance of each member with the others. Computed if not given.
    """
    if indices.n_members == 1:
        return ConsensusMembers(0, (0,), (np.arange(indices.n_patterns),))
    if per_member is None:
        per_member = average_agreement(indices.n_members, indices.compare).per_member
    best = int(np.argmax(per_member))
    agreeing = tuple(
        np.flatnonzero(per_member >= per_member[best] - AGREEMENT_MARGIN).tolist()
    )
    return ConsensusMembers(
        best, agreeing, tuple(indices.compare(best, k).matching for k in agreeing)
    )


def evaluate_candidate(
    candidate: Candidate,
    agreement: MembersAgreement | None,
    bootstrap: FloatArray | None,
    min_concordance: float = MIN_STABLE_CONCORDANCE,
) -> CandidateEvaluation:
    """Return whether the members of a candidate agree, given their agreement and its
    bootstrap sample.
    """
    trained, interval = candidate.trained, (np.nan, np.nan)
    converged = candidate.converged
    if converged is None:
        converged = candidate.indices.n_members
    is_single = trained == 1 == converged
    if is_single or agreement is None:
        why = f"{converged} of {trained} members converged"
        why = "a single member: its agreement is not known" if is_single else why
        return CandidateEvaluation(
            point=candidate.point,
            trained=trained,
            converged=converged,
            agreement=None,
            interval=interval,
            stable=is_single,
            why=why,
        )
    if bootstrap is not None:
        tail = (1 - _CONFIDENCE_LEVEL) / 2
        low, high = np.quantile(bootstrap, tail), np.quantile(bootstrap, 1 - tail)
        interval = float(low), float(high)
    lowest, why = agreement.concordance if bootstrap is None else interval[0], ""
    if 2 * converged < trained:
        why = f"only {converged} of {trained} members converged"
    elif lowest < min_concordance:
        why = f"members do not agree (concordance may be as low as {lowest:.2f}, {min_concordance} is needed)"
    elif candidate.is_guessing:
        why = "patients and controls who were not seen are told apart no better than by guessing"
    evidence = candidate.evidence
    between = "members" if evidence is None else "disjoint halves"
    return CandidateEvaluation(
        point=candidate.point,
        trained=trained,
        converged=converged,
        agreement=agreement,
        interval=interval,
        stable=not why,
        why=why,
        between=between,
        evidence=evidence,
    )


def bootstrap_concordance(
    agreement: MembersAgreement | None,
    evidence: FloatArray | None,
    rng: np.random.Generator,
) -> FloatArray | None:
    """Return the concordance of members drawn with replacement, pairs of a member with
    itself left out.
    """
    if agreement is None or len(agreement.pairwise) < _MIN_BOOTSTRAP_MEMBERS:
        return None
    if evidence is not None:
        return np.asarray(
            rng.choice(evidence[:, 0], size=(_N_BOOTSTRAPS, len(evidence))).mean(axis=1)
        )
    n_members = len(agreement.pairwise)
    drawn = rng.integers(n_members, size=(_N_BOOTSTRAPS, n_members))
    values = agreement.pairwise[drawn[:, :, None], drawn[:, None, :]]
    has_pairs = ~np.isnan(values).all(axis=(1, 2))
    return np.asarray(np.nanmean(values[has_pairs], axis=(1, 2)))


def _are_tied(best: FloatArray | None, other: FloatArray | None) -> bool:
    """Return whether the bootstrap interval of the difference of two concordances
    contains 0.
    """
    if best is None or other is None:
        return True
    size = min(len(best), len(other))
    return bool(
        np.quantile(best[:size] - other[:size], (1 - _CONFIDENCE_LEVEL) / 2) <= 0
    )
