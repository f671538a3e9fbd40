"""Ensemble members, repetitions of a training whose agreement shows whether a result
can be trusted, and stability.

Stability of each pattern is measured by learning it from other people. The disease
space is learnt from a part of the people (`GroupMoments.solve_space`), the model's
patterns are projected onto it, and patients who were left out are ranked along each
pattern. A pattern is stable if it ranks them as before. Ranks are compared, because a
pattern of a few patients (a batch, a scanner, one family) is easily found again but
ranks all other patients by noise. The basis of the disease space is taken from the
model. The agreement of split halves shows whether that basis is found again.

Shape letters: S members, N people, R regions, M patterns, B repetitions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, spearmanr

from rindices._typing import FloatArray, IntArray
from rindices.errors import InputError
from rindices.learners.contrastive.estimator import (
    UNIT_SEVERITY_QUANTILE,
    ContrastiveICA,
    MeanDifference,
    initialise_contrastive_head,
)
from rindices.learners.contrastive.linear_start import GroupMoments
from rindices.learners.contrastive.whole_cohort_start import find_space
from rindices.learners.inference import (
    SEVERITY_LEVELS,
    ContrastiveHead,
    MemberHead,
    invert_log_transform,
)
from rindices.learners.normal_variation import ReferenceTarget
from rindices.learners.prepared_people import PreparedPeople, Subsample, split_by_folds
from rindices.selection.agreement import agreement
from rindices.threads import limit_blas_threads

SHAPES = ("proportional", "staged", "interacting")
"""Shapes of patterns, the simpler ones first."""
STARTS = ("contrastive", "whole-cohort", "mixed")
"""Where the fit of a member begins: at the patterns of the contrastive learner, at
those of the whole cohort, or at the local ones of the former and diffuse ones of the
latter.
"""
DIFFUSE_STARTS = STARTS[1:]
"""Starts with diffuse patterns; people are read with independent severities."""
MIN_INTERACTION_GAIN = 0.05
"""Gain in the mean log-likelihood of held-out patients that interactions must bring.

In simulated cohorts of seeds 400 to 404 it was below 0.04 without interactions and
above 0.09 with them.
"""
_SPLIT_FRACTION = (
    0.4  # of the people in each of two disjoint fits; both rank the remaining fifth
)
_CARRIER_QUANTILE = 0.95  # quantile of controls above which a patient carries a pattern
N_BOOTSTRAPS, N_SPLITS = 30, 15


class TrainingOutcome(StrEnum):
    """Why a member stopped."""

    CONVERGED = "converged"
    STEP_LIMIT = "step limit"
    DIVERGED = "diverged"


SplitHalfAgreement = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class HeldOutLikelihood:
    """Mean log-likelihood of the patients that a member has not seen.

    Attributes
    ----------
    shape : str
        Shape of the member's patterns.
    proportional, staged, interacting : float or None
        With patterns of each shape. None for a shape that was not fitted.
    coupled : bool or None
        Whether the patterns are those of all visits, coupled. None without repeat
        visits.
    coupling_gain : float or None
        Gain in the log-likelihood of all visits per held-out patient by coupling
        them.
    from_trends : bool or None
        Whether coupled patterns started from the trends.
    start : str
        One of `STARTS`, from which the member was fitted.
    contrastive_loss, whole_cohort_loss, mixed_loss : float or None
        Group loss of people that the member has not seen, with the patterns of each
        start (`rindices.learners.contrastive.whole_cohort_start`). None where
        starts were not compared, and without local patterns beside diffuse ones.
    """

    shape: str
    proportional: float | None
    staged: float | None
    interacting: float | None = None
    coupled: bool | None = None
    coupling_gain: float | None = None
    from_trends: bool | None = None
    start: str = "contrastive"
    contrastive_loss: float | None = None
    whole_cohort_loss: float | None = None
    mixed_loss: float | None = None

    @classmethod
    def from_values(cls, shape: str, values: Mapping[str, float | None]) -> Self:
        """Return the likelihood of a member of a shape, from the values of the shapes
        that were fitted.
        """
        return cls(
            shape=shape,
            proportional=values.get("proportional"),
            staged=values.get("staged"),
            interacting=values.get("interacting"),
        )

    def get_value(self, shape: str) -> float:
        """Return the likelihood with a shape; NaN if it was not fitted."""
        value: float | None = getattr(self, shape)
        return float("nan") if value is None else value


@dataclass(frozen=True, kw_only=True)
class NetworkTraining:
    """What is kept of the training of a member with networks.

    Attributes
    ----------
    met_bars : bool
        Whether its losses were below the bars of the recipe at its last check.
    checks : ndarray of shape (K,)
        Steps at its checks.
    losses : NDArray
        Means of each of `LOSS_NAMES` over the steps since the check before.
    weights : dict
        Of its networks, by their names in the state of `SurrealNetworks`.
    """

    met_bars: bool
    checks: IntArray
    losses: NDArray[np.float32]
    weights: dict[str, NDArray[np.float32]]


@dataclass(frozen=True, kw_only=True)
class Member:
    """One repetition of a training.

    Attributes
    ----------
    number : int
        Number in the study. Its random stream depends on it and on the seed of the
        study.
    outcome : TrainingOutcome
    steps : int
        Number of training steps. 0 for learners without any.
    head : MemberHead
        Inference.
    patterns : ndarray of shape (Q, M, R)
        Change of each region at each of `SEVERITY_LEVELS`, in control standard
        deviations, for the average control.
    evidence : SplitHalfAgreement or None
        Concordance, dimension and difference agreement of two fits on disjoint
        halves of the people. It is needed where members share people, because such
        members agree even on noise.
    held_out : HeldOutLikelihood or None
        For learners with a likelihood.
    training : NetworkTraining or None
        For learners with networks.
    """

    number: int
    outcome: TrainingOutcome
    steps: int
    head: MemberHead
    patterns: FloatArray
    evidence: SplitHalfAgreement | None = None
    held_out: HeldOutLikelihood | None = None
    training: NetworkTraining | None = None


def choose_shape(held_out: Sequence[HeldOutLikelihood]) -> str:
    """Return the shape with which held-out patients are more likely on average, the
    simpler one of equals.

    Interactions are a stronger claim, and their EM may choose among more steps. They
    must exceed both other shapes by `MIN_INTERACTION_GAIN` and by two standard errors
    over members. A shape that was not fitted is not chosen; without any likelihood it
    is the shape of the first member.
    """
    values = {
        shape: np.array([each.get_value(shape) for each in held_out])
        for shape in SHAPES
    }
    additive = [shape for shape in SHAPES[:2] if np.isfinite(values[shape]).all()]
    if not additive:
        return held_out[0].shape
    best = max(additive, key=lambda shape: float(values[shape].mean()))
    return (
        "interacting"
        if is_clear_gain(values["interacting"] - values[best], MIN_INTERACTION_GAIN)
        else best
    )


def is_clear_gain(gains: FloatArray, least: float) -> bool:
    """Return whether the mean gain of members (S,) exceeds a least gain and two
    standard errors.
    """
    error = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else 0.0
    return bool(gains.mean() > max(least, 2.0 * float(error)))


def choose_common_shape(held_out: Sequence[HeldOutLikelihood]) -> str:
    """Return the shape, of those that at least half of the members have, that all
    members together prefer.

    Members are fitted in sets, and each set chooses the shape that its own members
    prefer.
    """
    counts = {shape: sum(each.shape == shape for each in held_out) for shape in SHAPES}
    frequent = [shape for shape in SHAPES if 2 * counts[shape] >= len(held_out)]
    return frequent[0] if len(frequent) == 1 else choose_shape(held_out)


def select_usable_members(members: Sequence[Member]) -> list[Member]:
    """Return the converged members, of one shape where they chose different ones
    (`choose_common_shape`).
    """
    converged = [
        member for member in members if member.outcome is TrainingOutcome.CONVERGED
    ]
    held_out = [member.held_out for member in converged if member.held_out is not None]
    if not held_out:
        return converged
    shape = choose_common_shape(held_out)
    return [
        member
        for member in converged
        if member.held_out is not None and member.held_out.shape == shape
    ]


LinearLearner = type[ContrastiveICA] | type[MeanDifference]


def fit_linear_members(
    people: Sequence[PreparedPeople],
    n_patterns: int,
    numbers: Sequence[int],
    seed: int,
    evidence: bool = True,
    learner: LinearLearner = ContrastiveICA,
) -> list[Member]:
    """Fit members of a linear learner, each on its own four fifths of controls and of
    patients.

    The mean of such members is no worse than one fit on all people, and better where
    people are few. But members that share people agree even on noise. So each member
    also has evidence: the agreement of two fits on disjoint halves.

    Parameters
    ----------
    people : sequence of PreparedPeople
        Of each member.
    numbers : sequence of int
        Numbers of the members.
    evidence : bool
        Whether to compute the evidence, which takes twice as long as the member
        itself.
    learner : LinearLearner
        `ContrastiveICA` or `MeanDifference`.
    """
    members = []
    for number, each, split in zip(
        numbers, people, split_by_folds(people), strict=True
    ):
        rng, halves = np.random.default_rng([seed, number]), None
        fitted = _fit_subsample(each, each.subsample, learner, n_patterns, rng)
        curves = np.stack(
            [
                fitted.head_.to_control_sd(severity * fitted.shifts_)
                for severity in SEVERITY_LEVELS
            ]
        )
        if evidence and split is not None:
            patients = each.complete().X[each.y == 1]
            fits = [
                _fit_subsample(each, half, learner, n_patterns, rng) for half in split
            ]
            first, second = (half.head_.infer(patients) for half in fits)
            halves = agreement(first, second).numbers
        members.append(
            Member(
                number=number,
                outcome=TrainingOutcome.CONVERGED,
                steps=0,
                head=fitted.head_,
                patterns=curves,
                evidence=halves,
            )
        )
    return members


def _fit_subsample(
    people: PreparedPeople,
    subsample: Subsample,
    learner: LinearLearner,
    n_patterns: int,
    rng: np.random.Generator,
) -> ContrastiveICA | MeanDifference:
    """Fit a learner on a subsample, in which missing cells are filled."""
    seen = people.take(subsample.seen).complete()
    seed = int(rng.integers(2**31 - 1))
    try:
        if issubclass(learner, MeanDifference):
            return learner(n_patterns, seed, seen.reference, seen.kinds).fit(
                seen.X, seen.y
            )
        return learner(n_patterns, seed, reference=seen.reference).fit(seen.X, seen.y)
    except np.linalg.LinAlgError as error:
        raise InputError(
            f"{n_patterns} patterns cannot be told apart in {len(seen.y)} people: ask for fewer."
        ) from error


def rescale_consensus(
    heads: Sequence[MemberHead], orders: Sequence[Sequence[int]], patients: FloatArray
) -> tuple[tuple[MemberHead, ...], FloatArray]:
    """Rescale members so that their mean is 1 at the patients' 98th percentile.

    The mean of members that agree only in part on a pattern is flatter than each of
    them. R-indices of a GAN and of trajectories keep the scale of their severities.

    Parameters
    ----------
    orders : sequence of sequence of int
        Column of each member that is pattern k of the consensus.
    patients : ndarray of shape (N, M)
        R-indices of patients before.

    Returns
    -------
    heads : tuple of MemberHead
        The members, rescaled.
    unit : ndarray of shape (M,)
        98th percentile of each pattern before.
    """
    linear = [head for head in heads if isinstance(head, ContrastiveHead)]
    if len(linear) < len(heads):
        return tuple(heads), np.ones(patients.shape[1])
    unit = np.nanquantile(patients, UNIT_SEVERITY_QUANTILE, axis=0)
    unit = np.where(unit > 1e-6, unit, 1.0)
    scaled = []
    for head, order in zip(linear, orders, strict=True):
        column_units = np.empty(len(unit))
        column_units[list(order)] = (
            unit  # column order[k] of the member is pattern k of the consensus
        )
        scaled.append(replace(head, weights=head.weights / column_units))
    return tuple(scaled), unit


WeightLearner = Callable[[PreparedPeople, FloatArray], FloatArray]
"""Takes people, as shifts, and patterns (R, M); returns the weights (R, M) learnt from
these people.
"""


class PatternStability(NamedTuple):
    """Stability of each pattern in people who were left out.

    Attributes
    ----------
    stability : ndarray of shape (B, M)
        Rank correlation of the model's R-index with that of a bootstrap sample, on
        patients outside the sample.
    split_half : ndarray of shape (B, M)
        Rank correlation of the R-indices of two disjoint sets of people, on
        patients of neither.
    """

    stability: FloatArray
    split_half: FloatArray


def compute_pattern_weights(
    people: PreparedPeople, patterns: FloatArray, start: str = STARTS[0]
) -> FloatArray:
    """Return the weights (R, M) of the projections of patterns (R, M) onto the disease
    space of people.

    The space is that of the start from which the patterns were fitted; of the mixed
    start, that of both others.
    """
    centre = people.X[people.y == 0].mean(axis=0)
    controls, patients = (
        people.X[people.y == 0] - centre,
        people.X[people.y == 1] - centre,
    )
    target = ReferenceTarget.choose(controls, people.reference)
    moments = GroupMoments.compute(controls, patients, target)
    find = find_space if start == "whole-cohort" else GroupMoments.solve_space
    space, noise, _ = find(moments, patterns.shape[1])
    if start == "mixed":
        space = np.hstack([space, find_space(moments, patterns.shape[1]).space])
    dual = np.linalg.solve(noise, space)
    projected = space @ np.linalg.solve(space.T @ dual, dual.T @ patterns)
    size = np.sqrt((patterns * np.linalg.solve(noise, patterns)).sum(axis=0))
    x = np.linalg.solve(noise, projected)
    gram = projected.T @ x + 1e-6 * np.diag(
        size**2
    )  # invertible also where two patterns have one projection
    return np.asarray(x @ np.linalg.inv(gram))


@limit_blas_threads()
def assess_pattern_stability(
    people: PreparedPeople,
    indices: FloatArray,
    patterns: FloatArray,
    learn_weights: WeightLearner = compute_pattern_weights,
    seed: int = 0,
    bootstraps: int = N_BOOTSTRAPS,
    splits: int = N_SPLITS,
) -> PatternStability:
    """Rank left-out patients along a model's patterns, learnt again from other people.

    Parameters
    ----------
    people : PreparedPeople
        Without missing cells.
    indices : ndarray of shape (N, M)
        The model's R-indices.
    patterns : ndarray of shape (M, R)
        Change of each region at R-index 1, in control standard deviations.
    bootstraps, splits : int
        Number of bootstrap samples and of split halves.
    """
    head = initialise_contrastive_head(
        people.X, people.y == 1, len(patterns), straighten=True
    )
    average = invert_log_transform(head.shift_mean, float(head.log_constant))
    shifts = head.prepare(
        head.control_mean + head.control_scale * (average + patterns)
    ).T
    people = replace(people, X=head.prepare(people.X))
    groups = [np.flatnonzero(people.y == label) for label in (0, 1)]
    sizes = [max(2, round(_SPLIT_FRACTION * len(group))) for group in groups]
    rng = np.random.default_rng([seed, 7])
    stability, split_half = [], []
    for _ in range(bootstraps):
        sample = np.concatenate([rng.choice(group, len(group)) for group in groups])
        patients = np.setdiff1d(groups[1], sample)
        again = people.X[patients] @ learn_weights(people.take(sample), shifts)
        stability.append(_correlate_ranks(indices[patients], again))
    for _ in range(splits):
        dealt = [rng.permutation(group) for group in groups]
        patients = dealt[1][2 * sizes[1] :]
        halves = [
            np.concatenate(
                [
                    rows[k * n : (k + 1) * n]
                    for rows, n in zip(dealt, sizes, strict=True)
                ]
            )
            for k in (0, 1)
        ]
        ranked = [
            people.X[patients] @ learn_weights(people.take(half), shifts)
            for half in halves
        ]
        split_half.append(_correlate_ranks(*ranked))
    return PatternStability(np.array(stability), np.array(split_half))


class GroupSeparation(NamedTuple):
    """How R-indices separate patients from controls, in all people and in resampled
    ones.

    Attributes
    ----------
    carriers : ndarray of shape (1 + B, M)
        Share of patients above 95 % of controls, corrected for the share expected
        among controls.
    auc : ndarray of shape (1 + B, M)
        Probability that a patient has a higher R-index than a control.
    """

    carriers: FloatArray
    auc: FloatArray


def measure_separation(
    controls: FloatArray, patients: FloatArray, seed: int, bootstraps: int = 400
) -> GroupSeparation:
    """Return how R-indices (N, M) of controls and of patients differ, and the same in
    bootstrap samples of them.
    """
    rng = np.random.default_rng([seed, 8])
    figures = [
        (_estimate_carrier_share(controls, patients), _estimate_auc(controls, patients))
    ]
    for _ in range(bootstraps):
        draw = rng.choice(controls, len(controls)), rng.choice(patients, len(patients))
        figures.append((_estimate_carrier_share(*draw), _estimate_auc(*draw)))
    return GroupSeparation(*(np.array(each) for each in zip(*figures, strict=True)))


def _estimate_carrier_share(controls: FloatArray, patients: FloatArray) -> FloatArray:
    """Return the share (M,) of patients (N, M) above 95 % of controls (N, M), corrected
    for chance.
    """
    above = (patients > np.quantile(controls, _CARRIER_QUANTILE, axis=0)).mean(axis=0)
    return np.asarray(
        np.clip((above - (1 - _CARRIER_QUANTILE)) / _CARRIER_QUANTILE, 0.0, 1.0)
    )


def _estimate_auc(controls: FloatArray, patients: FloatArray) -> FloatArray:
    """Return the probability (M,) that a patient has a higher value than a control,
    ties counted by half.
    """
    ranks = rankdata(np.concatenate([controls, patients]), axis=0)[len(controls) :].sum(
        axis=0
    )
    n_controls, n_patients = len(controls), len(patients)
    return np.asarray(
        (ranks - n_patients * (n_patients + 1) / 2) / max(n_controls * n_patients, 1)
    )


def _correlate_ranks(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the rank correlation of parallel columns, (N, M) x2 -> (M,); 0 if one is
    constant or has under 3 rows.
    """
    correlations = np.zeros(first.shape[1])
    for k, (a, b) in enumerate(zip(first.T, second.T, strict=True)):
        if len(a) > 2 and np.ptp(a) > 0 and np.ptp(b) > 0:
            correlations[k] = spearmanr(a, b).statistic
    return correlations
