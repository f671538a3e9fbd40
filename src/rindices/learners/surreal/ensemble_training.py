"""Train the members of an ensemble, and turn them into heads and patterns of numpy arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rindices._typing import FloatArray, IntArray
from rindices.learners.contrastive.estimator import compute_unit_severity, initialise_contrastive_head
from rindices.learners.contrastive.linear_start import (
    LinearStart,
    compute_inverse_weights,
    compute_start_curves,
    compute_start_weights,
    fit_linear_start,
)
from rindices.learners.contrastive.severity_prior import draw_from_copula
from rindices.learners.ensemble import Member, SplitHalfAgreement, compute_split_half_agreement
from rindices.learners.inference import SEVERITY_LEVELS, ContrastiveHead, Head, SurrealHead
from rindices.learners.prepared_people import PreparedPeople
from rindices.learners.subsampling import Subsample, draw_subsample, split_into_halves
from rindices.learners.surreal import networks
from rindices.learners.surreal.networks import Transformation, append_ones
from rindices.learners.surreal.recipe import Recipe
from rindices.learners.surreal.threads import one_thread
from rindices.learners.surreal.train import train_stacks
from rindices.learners.surreal.training_state import TrainedMember, TrainingPlan
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD

_COPIES_PER_CONTROL = 10  # each with its own severities, to refit the inverse
_FIRST_HALF_MEMBER = 1000  # first number of the members trained on halves


@dataclass(frozen=True)
class TrainingData:
    """People as a recipe sees them, controls first.

    Attributes
    ----------
    recipe : Recipe
    prepared : (N, R)
        Standardised people: controls have mean 1 and standard deviation 0.1.
    head : ContrastiveHead
        Head with zero weights, which turns prepared people into shifts.
    shifts : (N, R)
        Shifts in control standard deviations.
    y : (N,)
        0 control, 1 patient.
    reference : (R, R), optional
        Correlations of the regions in a reference population.
    """

    recipe: Recipe
    prepared: FloatArray
    head: ContrastiveHead
    shifts: FloatArray
    y: IntArray
    reference: FloatArray | None = None

    @classmethod
    def from_people(cls, people: PreparedPeople, n_patterns: int, recipe: Recipe) -> TrainingData:
        """Return the training data of people in any order."""
        X, y, reference = people.take(np.argsort(people.y, kind="stable"))[:3]
        head = initialise_contrastive_head(X, y == 1, n_patterns, recipe.straighten)
        return cls(recipe, X, head, head.prepare(X), y, reference)

    @property
    def needs_starts(self) -> bool:
        """Whether members differ in more than their random stream, or D is conditioned, or the inverse is refitted."""
        recipe = self.recipe
        return recipe.warm_start or recipe.share < 1 or recipe.conditioning != "none" or recipe.inverse == "refit"

    def scale_group(self, label: int) -> FloatArray:
        """Return controls (0) or patients (1) on the scale that the networks expect, (N, R)."""
        return np.asarray(CONTROL_MEAN + CONTROL_SD * self.shifts[self.y == label])

    def fit_start(self, subsample: Subsample, n_patterns: int, seed: int) -> LinearStart:
        """Return the start of a member that sees this subsample."""
        kind, conditioning = self.recipe.start, self.recipe.conditioning
        return fit_linear_start(self.shifts, self.y, subsample, n_patterns, kind, conditioning, seed, self.reference)


@one_thread()
def train_surreal_members(
    people: PreparedPeople,
    n_patterns: int,
    numbers: Sequence[int],
    seed: int,
    recipe: Recipe,
    checkpoint: Path | None = None,
    evidence: bool = True,
) -> list[Member]:
    """Train one stack of members.

    Parameters
    ----------
    people : PreparedPeople
    n_patterns : int
        M.
    numbers : sequence of int
        Numbers of the members.
    seed : int
        Seed of the run.
    recipe : Recipe
        Hyper-parameters.
    checkpoint : Path, optional
        File to save the state to while training, and to resume from.
    evidence : bool
        Whether to measure the agreement of fits on disjoint halves, for members with a warm start.
    """
    data = TrainingData.from_people(people, n_patterns, recipe)
    plan = TrainingPlan(n_patterns, recipe, seed=seed, members=tuple(numbers), stack=len(numbers))
    members = train_members(data, plan, checkpoint)
    if not (evidence and recipe.warm_start):
        return members
    f_was_trained = any(member.steps > recipe.held_steps for member in members)
    return [
        member._replace(evidence=_measure_split_half_agreement(data, plan, member.number, f_was_trained))
        for member in members
    ]


@one_thread()
def train_members(
    data: TrainingData, plan: TrainingPlan, checkpoint: Path | None = None, workers: int = 1, device: str = "cpu"
) -> list[Member]:
    """Train the members of a plan, each on its subsample and from its start if the recipe asks for it."""
    if not data.needs_starts:
        controls, patients = data.prepared[data.y == 0], data.prepared[data.y == 1]
        trained = train_stacks(controls, patients, plan, path=checkpoint, workers=workers, device=device)
        return [make_member(member, controls) for member in trained]
    starts = {}
    for number in plan.members:
        rng = np.random.default_rng([plan.seed, number])
        subsample = draw_subsample(data.y, plan.recipe.share, rng)
        starts[number] = data.fit_start(subsample, plan.patterns, int(rng.integers(2**31 - 1)))
    return _train_from_starts(data, plan, starts, checkpoint, workers, device)


def _train_from_starts(
    data: TrainingData,
    plan: TrainingPlan,
    starts: Mapping[int, LinearStart],
    checkpoint: Path | None = None,
    workers: int = 1,
    device: str = "cpu",
) -> list[Member]:
    people = data.scale_group(0), data.scale_group(1)
    trained = train_stacks(*people, plan, starts=starts, path=checkpoint, workers=workers, device=device)
    return [_make_member_from_start(member, data, starts[member.member], plan.seed) for member in trained]


def _make_member_from_start(trained: TrainedMember, data: TrainingData, start: LinearStart, seed: int) -> Member:
    """Return a trained member with the inverse that its recipe asks for.

    If f was never trained after its start, the inverse of the start itself is used, which is exact.
    """
    if data.recipe.inverse == "g":  # then nothing was straightened, and the scaled people are the prepared ones
        return make_member(trained, data.scale_group(0))
    rng = np.random.default_rng([seed, trained.member, 3])
    if data.recipe.warm_start and trained.steps <= data.recipe.held_steps:
        weights, shifts = compute_start_weights(start, rng), compute_start_curves(start, SEVERITY_LEVELS)
    else:
        weights, shifts = refit_inverse(trained, data, start, rng), _compute_shift_curves(trained, data.scale_group(0))
    head, curves = _make_scaled_head(weights, data), data.head.to_control_sd(shifts)
    return Member(trained.member, trained.outcome, trained.steps, head, curves)


def _make_scaled_head(weights: FloatArray, data: TrainingData) -> ContrastiveHead:
    """Return a head with these weights (R, M), scaled so that R-index 1 is the patients' 98th percentile."""
    return replace(data.head, weights=weights / compute_unit_severity(data.shifts[data.y == 1] @ weights))


@torch.inference_mode()
def refit_inverse(
    trained: TrainedMember, data: TrainingData, start: LinearStart, rng: np.random.Generator
) -> FloatArray:
    """Return the regression of z on f(x, z) in closed form: weights (R, M) of people's shifts.

    f changes the controls that the member has seen. The normal variation is that of the start, which is estimated from
    more people.
    """
    seen = start.subsample.seen
    controls = np.repeat(data.shifts[seen[data.y[seen] == 0]], _COPIES_PER_CONTROL, axis=0)
    if data.recipe.correlated:
        correlation = np.asarray(trained.correlation.numpy(), np.float64)
        factor = np.linalg.cholesky(correlation + 1e-6 * np.eye(len(correlation)))
        z = draw_from_copula(np.asarray(factor), len(controls), rng)
    else:
        z = rng.random((len(controls), start.patterns.shape[1]))
    x = torch.as_tensor(CONTROL_MEAN + CONTROL_SD * controls)[None]
    z_rows = append_ones(torch.as_tensor(z))[None]
    change = networks.apply_transformation(_extract_transformation(trained), x, z_rows).change[0].numpy() / CONTROL_SD
    return compute_inverse_weights(z, change, start.noise)


def _measure_split_half_agreement(
    data: TrainingData, plan: TrainingPlan, number: int, f_was_trained: bool
) -> SplitHalfAgreement:
    """Return the agreement, on all patients, of two fits that have no person in common.

    They are trained as far as the members were: if f was never trained after its start, the starts are compared.
    """
    rng = np.random.default_rng([plan.seed, number, 4])
    halves = split_into_halves(data.y, rng)
    starts = [data.fit_start(half, plan.patterns, int(rng.integers(2**31 - 1))) for half in halves]
    heads: Sequence[Head]
    if f_was_trained:
        numbered = {_FIRST_HALF_MEMBER + 2 * number + half: start for half, start in enumerate(starts)}
        half_plan = replace(plan, members=tuple(numbered), stack=2)
        heads = [member.head for member in _train_from_starts(data, half_plan, numbered)]
    else:
        heads = [_make_scaled_head(compute_start_weights(start, rng), data) for start in starts]
    first, second = (head.infer(data.prepared[data.y == 1]) for head in heads)
    return compute_split_half_agreement(first, second)


def make_member(trained: TrainedMember, controls: FloatArray) -> Member:
    """Return a member that infers by g, with its patterns on these controls (N, R)."""
    curves = _compute_shift_curves(trained, controls)
    return Member(trained.member, trained.outcome, trained.steps, extract_head(trained.weights), curves)


def extract_head(weights: Mapping[str, Tensor]) -> SurrealHead:
    """Return g of one member from its named weights."""
    layers = (f"{kind}{layer}" for kind in ("weight", "bias") for layer in (1, 2, 3))
    return SurrealHead(
        g1=weights["g1.weight"].numpy(), **{f"g2_{name}": weights[f"g2.{name}"].numpy() for name in layers}
    )


def _extract_transformation(trained: TrainedMember) -> Transformation:
    """Return the weights of f in double precision, with a member axis."""
    return Transformation(*(trained.weights[f"f.{name}"].double()[None] for name in Transformation._fields))


@torch.inference_mode()
def _compute_shift_curves(trained: TrainedMember, controls: FloatArray) -> FloatArray:
    """Return the mean change of controls (N, R) under each pattern alone, (Q, M, R), in control sd."""
    f = _extract_transformation(trained)
    n_patterns = f.gate.shape[1] - 1
    x = torch.as_tensor(controls, dtype=torch.float64)[None]
    curves = []
    for severity in SEVERITY_LEVELS:
        singles = append_ones(severity * torch.eye(n_patterns, dtype=torch.float64)).repeat(len(controls), 1)[None]
        change = networks.apply_transformation(f, x, singles).change.view(len(controls), n_patterns, -1)
        curves.append(change.mean(dim=0).numpy() / CONTROL_SD)
    return np.stack(curves)
