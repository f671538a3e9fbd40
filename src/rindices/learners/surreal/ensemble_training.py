"""Trained members as the rest of the package knows them: inference and patterns as numpy arrays."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

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
from rindices.learners.subsampling import Subsample, draw_subsample, split_into_halves
from rindices.learners.surreal import networks
from rindices.learners.surreal.networks import Transformation, append_ones
from rindices.learners.surreal.recipe import Recipe, recipe_from_dict
from rindices.learners.surreal.threads import one_thread
from rindices.learners.surreal.train import run_steps, train_stacks
from rindices.learners.surreal.training_state import TrainedMember, TrainingPlan, make_training_state
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD

_COPIES_PER_CONTROL = 10  # of every control, each with its own severities, for the inverse
_FIRST_HALF_MEMBER = 1000  # numbers of the members on halves begin here


@dataclass(frozen=True)
class TrainingData:
    """The people as a recipe sees them, controls first.

    Attributes
    ----------
    recipe : Recipe
    prepared : (N, R)
        As they come: controls have mean 1 and standard deviation 0.1.
    head : ContrastiveHead
        Turns prepared people into shifts; of zero weights.
    shifts : (N, R)
        In control standard deviations.
    y : (N,)
    """

    recipe: Recipe
    prepared: FloatArray
    head: ContrastiveHead
    shifts: FloatArray
    y: IntArray

    @classmethod
    def of(cls, X: FloatArray, y: IntArray, n_patterns: int, recipe: Recipe) -> TrainingData:
        """From prepared people (N, R) in any order."""
        order = np.argsort(y, kind="stable")
        people, labels = X[order], y[order]
        head = initialise_contrastive_head(people, labels == 1, n_patterns, recipe.straighten)
        return cls(recipe, people, head, head.prepare(people), labels)

    @property
    def needs_starts(self) -> bool:
        """Whether members differ in more than their random stream, or D is conditioned, or the inverse is refitted."""
        recipe = self.recipe
        return recipe.warm_start or recipe.share < 1 or recipe.conditioning != "none" or recipe.inverse == "refit"

    def scale_group(self, label: int) -> FloatArray:
        """Controls (0) or patients (1) on the scale that the networks expect, (N, R)."""
        return np.asarray(CONTROL_MEAN + CONTROL_SD * self.shifts[self.y == label])

    def start(self, seats: Subsample, n_patterns: int, seed: int) -> LinearStart:
        """Where a member with these people starts."""
        recipe = self.recipe
        return fit_linear_start(self.shifts, self.y, seats, n_patterns, recipe.start, recipe.conditioning, seed)


@one_thread()
def train_surreal_members(
    X: FloatArray,
    y: IntArray,
    n_patterns: int,
    numbers: Sequence[int],
    seed: int,
    values: dict[str, Any],
    checkpoint: Path | None = None,
    evidence: bool = True,
) -> list[Member]:
    """Train one stack of members.

    Parameters
    ----------
    X : (N, R)
        Prepared people; controls have mean 1 and standard deviation 0.1.
    y : (N,)
        0 control, 1 patient.
    values : dict
        The recipe, see :func:`.recipe.as_values`.
    checkpoint : Path, optional
        File to keep the state in while training, and to resume from.
    evidence : bool
        Whether warm members bring evidence from disjoint halves of the people.
    """
    chosen = recipe_from_dict(values)
    room = TrainingData.of(X, y, n_patterns, chosen)
    plan = TrainingPlan(n_patterns, chosen, seed=seed, members=tuple(numbers), stack=len(numbers))
    members = train_members(room, plan, checkpoint)
    if not (evidence and chosen.warm_start):
        return members
    trained_on = any(member.steps > chosen.held_steps for member in members)
    return [
        member._replace(evidence=_measure_split_half_agreement(room, plan, member.number, trained_on))
        for member in members
    ]


@one_thread()
def train_members(
    room: TrainingData, plan: TrainingPlan, checkpoint: Path | None = None, workers: int = 1, device: str = "cpu"
) -> list[Member]:
    """Train members, where the recipe asks for it each on its own people and from its own start."""
    if not room.needs_starts:
        controls, patients = room.prepared[room.y == 0], room.prepared[room.y == 1]
        trained = train_stacks(controls, patients, plan, path=checkpoint, workers=workers, device=device)
        return [make_member(member, controls) for member in trained]
    starts = {}
    for number in plan.members:
        rng = np.random.default_rng([plan.seed, number])
        seats = draw_subsample(room.y, plan.recipe.share, rng)
        starts[number] = room.start(seats, plan.patterns, int(rng.integers(2**31 - 1)))
    return _train_from_starts(room, plan, starts, path=checkpoint, workers=workers, device=device)


def _train_from_starts(
    room: TrainingData, plan: TrainingPlan, starts: Mapping[int, LinearStart], **how: Any
) -> list[Member]:
    trained = train_stacks(room.scale_group(0), room.scale_group(1), plan, starts=starts, **how)
    return [_make_member_from_start(member, room, starts[member.member], plan.seed) for member in trained]


def _make_member_from_start(trained: TrainedMember, room: TrainingData, start: LinearStart, seed: int) -> Member:
    """A trained member that reads shifts, with the inverse that its recipe asks for.

    Where D let f go at once, f is what its start taught it, and the start's own inverse is the exact one.
    """
    if room.recipe.inverse == "g":  # then nothing was straightened, and the scaled people are the prepared ones
        return make_member(trained, room.scale_group(0))
    rng = np.random.default_rng([seed, trained.member, 3])
    if room.recipe.warm_start and trained.steps <= room.recipe.held_steps:
        weights, shifts = compute_start_weights(start, rng), compute_start_curves(start, SEVERITY_LEVELS)
    else:
        weights, shifts = refit_inverse(trained, room, start, rng), _compute_shift_curves(trained, room.scale_group(0))
    head, curves = _make_scaled_head(weights, room), room.head.to_control_sd(shifts)
    return Member(trained.member, trained.outcome, trained.steps, head, curves)


def _make_scaled_head(weights: FloatArray, room: TrainingData) -> ContrastiveHead:
    """A head with these weights (R, M); R-index 1 is the patients' 98th percentile."""
    return replace(room.head, weights=weights / compute_unit_severity(room.shifts[room.y == 1] @ weights))


@torch.inference_mode()
def refit_inverse(
    trained: TrainedMember, room: TrainingData, start: LinearStart, rng: np.random.Generator
) -> FloatArray:
    """The regression of z on f(x, z), in closed form: weights (R, M) of people's shifts.

    f changes the controls that the member has seen; the normal variation is that of the start, which has more people
    to learn it from.
    """
    seen = start.subsample.seen
    controls = np.repeat(room.shifts[seen[room.y[seen] == 0]], _COPIES_PER_CONTROL, axis=0)
    if room.recipe.correlated:
        correlation = np.asarray(trained.correlation.numpy(), np.float64)
        factor = np.linalg.cholesky(correlation + 1e-6 * np.eye(len(correlation)))
        z = draw_from_copula(np.asarray(factor), len(controls), rng)
    else:
        z = rng.random((len(controls), start.patterns.shape[1]))
    x = torch.as_tensor(CONTROL_MEAN + CONTROL_SD * controls)[None]
    drawn = append_ones(torch.as_tensor(z))[None]
    change = networks.apply_transformation(_extract_transformation(trained), x, drawn).change[0].numpy() / CONTROL_SD
    return compute_inverse_weights(z, change, start.noise)


def _measure_split_half_agreement(
    room: TrainingData, plan: TrainingPlan, number: int, trained_on: bool
) -> SplitHalfAgreement:
    """How well two members agree that have no person in common, on all patients.

    They go as far as the members went: where D found nothing that f could still learn, a half is its start.
    """
    rng = np.random.default_rng([plan.seed, number, 4])
    starts = [
        room.start(seats, plan.patterns, int(rng.integers(2**31 - 1))) for seats in split_into_halves(room.y, rng)
    ]
    heads: Sequence[Head]
    if trained_on:
        own = {_FIRST_HALF_MEMBER + 2 * number + half: start for half, start in enumerate(starts)}
        pair = _train_from_starts(room, replace(plan, members=tuple(own), stack=2), own)
        heads = [member.head for member in pair]
    else:
        heads = [_make_scaled_head(compute_start_weights(start, rng), room) for start in starts]
    first, second = (head.infer(room.prepared[room.y == 1]) for head in heads)
    return compute_split_half_agreement(first, second)


def make_member(trained: TrainedMember, controls: FloatArray) -> Member:
    """A trained member with its patterns on these controls, (N, R)."""
    curves = _compute_shift_curves(trained, controls)
    return Member(trained.member, trained.outcome, trained.steps, extract_head(trained), curves)


def extract_head(trained: TrainedMember) -> SurrealHead:
    """G of a member."""
    weights = {name: tensor.numpy() for name, tensor in trained.weights.items()}
    layers = {f"g2_{kind}{place}": weights[f"g2.{kind}{place}"] for kind in ("weight", "bias") for place in (1, 2, 3)}
    return SurrealHead(g1=weights["g1.weight"], **layers)


def _extract_transformation(trained: TrainedMember) -> Transformation:
    """The weights of f in double precision, with a member axis."""
    return Transformation(*(trained.weights[f"f.{name}"].double()[None] for name in Transformation._fields))


@torch.inference_mode()
def _compute_shift_curves(trained: TrainedMember, controls: FloatArray) -> FloatArray:
    """Mean change of controls (N, R) under each pattern alone, (Q, M, R), in control standard deviations."""
    f = _extract_transformation(trained)
    n_patterns = f.gate.shape[1] - 1
    x = torch.as_tensor(controls, dtype=torch.float64)[None]
    curves = []
    for severity in SEVERITY_LEVELS:
        alone = append_ones(severity * torch.eye(n_patterns, dtype=torch.float64)).repeat(len(controls), 1)[None]
        change = networks.apply_transformation(f, x, alone).change.view(len(controls), n_patterns, -1)
        curves.append(change.mean(dim=0).numpy() / CONTROL_SD)
    return np.stack(curves)


@one_thread()
def estimate_seconds_per_member(
    X: FloatArray, y: IntArray, n_patterns: int, members: int, values: str, steps: int = 20
) -> float:
    """Seconds that a member will take to its last step, from timing a few on this machine."""
    chosen = recipe_from_dict(json.loads(values))
    if chosen.warm_start:
        start = time.perf_counter()
        train_surreal_members(X, y, n_patterns, (0,), 0, json.loads(values))
        return time.perf_counter() - start
    plan = TrainingPlan(n_patterns, chosen, members=tuple(range(members)), stack=members)
    controls, patients = (torch.as_tensor(X[y == label], dtype=torch.float32) for label in (0, 1))
    group = make_training_state(plan.members, plan, controls, patients)
    run_steps(group, steps)
    start = time.perf_counter()
    run_steps(group, steps)
    return (time.perf_counter() - start) / steps * chosen.max_steps / members
