"""Records of the settings that a study compares, and the figures of their members by
which they are compared.

Shape letters: S members.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rindices._typing import FloatArray
from rindices.learners.contrastive.whole_cohort_start import (
    CHANCE_LOSS,
    MIN_CHANCE_GAIN,
    MIN_LOSS_GAIN,
)
from rindices.learners.ensemble import (
    DIFFUSE_STARTS,
    HeldOutLikelihood,
    Member,
    choose_common_shape,
)
from rindices.learners.prepared_people import N_FOLDS
from rindices.model import records
from rindices.selection.choose import CandidateEvaluation, GridPoint, SelectionResult


@dataclass(frozen=True, kw_only=True)
class TrainedSettings:
    """Settings of a model after training.

    Attributes
    ----------
    gathered : mapping
        All members by grid point.
    choice : SelectionResult
        The choice among the grid points.
    """

    gathered: Mapping[GridPoint, Sequence[Member]]
    choice: SelectionResult

    @property
    def chosen_members(self) -> Sequence[Member]:
        """All members of the chosen setting."""
        assert self.choice.best is not None
        return self.gathered[self.choice.evaluations[self.choice.best].point]


@dataclass(frozen=True, kw_only=True)
class TrainedStudy:
    """What a study has trained.

    Attributes
    ----------
    patterns : TrainedSettings or None
        None where no patterns were tried.
    difference : TrainedSettings or None
        The mean difference; None where it was not needed.
    """

    patterns: TrainedSettings | None
    difference: TrainedSettings | None


def make_candidate_records(
    trained: TrainedSettings,
) -> tuple[records.CandidateRecord, ...]:
    """Return the records of all settings that were compared."""
    gathered, choice = trained.gathered, trained.choice
    found = {point: collect_likelihoods(members) for point, members in gathered.items()}
    values = {point: array for point, array in found.items() if array is not None}
    best = max(
        values.values(), key=lambda array: float(array.mean()), default=np.zeros(0)
    )
    held_out = {
        point: _make_held_out_record(gathered[point], best, array)
        for point, array in values.items()
    }
    starts = {
        point: make_start_record(list_first_likelihoods(gathered[point]))
        for point in values
    }
    return tuple(
        _make_candidate_record(each, held_out.get(each.point), starts.get(each.point))
        for each in choice.evaluations
    )


def collect_likelihoods(members: Sequence[Member]) -> FloatArray | None:
    """Return the likelihood of held-out patients of the first set of members (S,) with
    the shape that they prefer.

    Settings are compared by it, since later sets are trained for the chosen one alone.
    None without a likelihood.
    """
    held_out = list_first_likelihoods(members)
    if not held_out:
        return None
    shape = choose_common_shape(held_out)
    return np.array([each.get_value(shape) for each in held_out])


def collect_group_losses(members: Sequence[Member]) -> FloatArray | None:
    """Return the group loss of held-out people of the first set of members (S,), by the
    start that was taken.

    Of the mixed start, and where it was refused, it is that of the whole-cohort start,
    because numbers are only comparable if normal variation is estimated in one way.
    """
    losses = [
        each.whole_cohort_loss
        if each.start in DIFFUSE_STARTS or each.mixed_loss is not None
        else each.contrastive_loss
        for each in list_first_likelihoods(members)
    ]
    return None if not losses or None in losses else np.array(losses, dtype=float)


def is_diffuse(members: Sequence[Member]) -> bool:
    """Return whether members are of a start with diffuse patterns."""
    return any(each.start in DIFFUSE_STARTS for each in list_first_likelihoods(members))


def is_guessing(members: Sequence[Member]) -> bool:
    """Return whether patterns of the whole-cohort start tell patients from controls
    whom members have not seen no better than guessing.

    Leading directions of normal variation reappear in both halves of the people, even
    if the labels mean nothing, so that agreement of halves is not enough. See equation
    6 of `rindices.learners.contrastive.whole_cohort_start`.
    """
    losses = [
        each.whole_cohort_loss
        for each in list_first_likelihoods(members)
        if each.start == "whole-cohort"
    ]
    known = [loss for loss in losses if loss is not None]
    return bool(known) and CHANCE_LOSS - float(np.mean(known)) < MIN_CHANCE_GAIN


def list_first_likelihoods(members: Sequence[Member]) -> list[HeldOutLikelihood]:
    """Return the likelihoods of the first set of members, which alone are fitted with
    all shapes.
    """
    return [
        each.held_out
        for each in members
        if each.held_out is not None and each.number < N_FOLDS
    ]


def _make_held_out_record(
    members: Sequence[Member], best: FloatArray, values: FloatArray
) -> records.HeldOutLikelihoodRecord:
    """Return the record of members with these likelihoods (S,), compared with those of
    the best grid point.
    """
    held_out = list_first_likelihoods(members)
    differences = best - values
    staged_gains = np.array(
        [each.get_value("staged") - each.get_value("proportional") for each in held_out]
    )
    staged_gains = staged_gains[np.isfinite(staged_gains)]
    coupled = [each.coupled for each in held_out if each.coupled is not None]
    return records.HeldOutLikelihoodRecord(
        shape=choose_common_shape(held_out),
        proportional=_average([each.proportional for each in held_out]),
        staged=_average([each.staged for each in held_out]),
        interacting=_average([each.interacting for each in held_out]),
        below_best=_finite_or_none(float(differences.mean())),
        below_best_se=_compute_error(differences),
        visits=None
        if not coupled
        else "coupled"
        if 2 * sum(coupled) > len(coupled)
        else "mean",
        coupling_gain=_average([each.coupling_gain for each in held_out]),
        staged_gain_se=_compute_error(staged_gains),
    )


def make_start_record(members: Sequence[HeldOutLikelihood]) -> records.StartRecord:
    """Return from which start the members of a setting were fitted, and why, in one
    sentence.
    """
    taken = members[0].start
    name = f"The {taken} start was taken"
    contrastive, whole_cohort, mixed = (
        _average_known([getattr(each, field) for each in members])
        for field in ("contrastive_loss", "whole_cohort_loss", "mixed_loss")
    )
    if contrastive is None or whole_cohort is None:
        return records.StartRecord(
            taken=taken,
            whole_cohort_loss=whole_cohort,
            why=f"{name}: it was asked for, or the other one cannot be computed.",
        )
    losses = f"(loss {whole_cohort:.3f}, against {contrastive:.3f}; guessing gives {CHANCE_LOSS:.3f})"
    people = "held-out patients and controls"
    if mixed is not None:
        how = "distinguished better" if taken == "mixed" else "not distinguished better"
        why = (
            f"patterns of the contrastive start are local, and with these and diffuse ones of the whole cohort, {people} "
            f"are {how} than with the contrastive start alone (loss {mixed:.3f}, against {contrastive:.3f})"
        )
    elif taken == "whole-cohort":
        why = f"{people} are distinguished better with its patterns than with those of the contrastive start {losses}"
    elif contrastive - whole_cohort < MIN_LOSS_GAIN:
        why = f"with the whole-cohort start, {people} are not distinguished better by {MIN_LOSS_GAIN:g} {losses}"
    else:
        why = f"with the whole-cohort start, {people} are not distinguished clearly better than by guessing {losses}"
    return records.StartRecord(
        taken=taken,
        contrastive_loss=contrastive,
        whole_cohort_loss=whole_cohort,
        why=f"{name}: {why}.",
        mixed_loss=mixed,
    )


def _average_known(values: Sequence[float | None]) -> float | None:
    """Return the mean of values, all of which must be known."""
    return None if any(value is None for value in values) else _average(values)


def _compute_error(differences: FloatArray) -> float | None:
    """Return the standard error of the mean of differences (S,); None where it is not
    known.
    """
    return (
        _finite_or_none(float(differences.std(ddof=1) / np.sqrt(len(differences))))
        if len(differences) > 1
        else None
    )


def _average(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _finite_or_none(float(np.mean(known))) if known else None


def _make_candidate_record(
    evaluation: CandidateEvaluation,
    held_out: records.HeldOutLikelihoodRecord | None,
    start: records.StartRecord | None,
) -> records.CandidateRecord:
    """Return the record of one evaluated setting."""
    agreement, evidence, (low, high) = (
        evaluation.agreement,
        evaluation.evidence,
        evaluation.interval,
    )
    n_patterns, orthogonality = evaluation.point
    concordance, dimension, difference = (
        [None] * 3
        if agreement is None
        else [_finite_or_none(number) for number in agreement.numbers]
    )
    by_member, pairwise = np.zeros(0), np.zeros((0, 0))
    if agreement is not None:
        by_member, pairwise = agreement.per_member, agreement.pairwise
    return records.CandidateRecord(
        setting=records.SettingRecord(
            n_patterns=n_patterns, orthogonality=orthogonality
        ),
        agreement=records.AgreementRecord(
            concordance=concordance, dimension=dimension, difference=difference
        ),
        agreement_between=evaluation.between,
        concordance_interval=(_finite_or_none(low), _finite_or_none(high)),
        members=records.MemberCountRecord(
            trained=evaluation.trained, converged=evaluation.converged
        ),
        stable=evaluation.stable,
        why=evaluation.why,
        by_member=tuple(
            map(_finite_or_none, by_member if evidence is None else evidence[:, 0])
        ),
        pairwise=tuple(tuple(map(_finite_or_none, row)) for row in pairwise),
        held_out=held_out,
        start=start,
    )


def _finite_or_none(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)
