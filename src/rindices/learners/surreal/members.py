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
from numpy.typing import NDArray

from rindices.learners.contrastive import severe_unit, straightening_head
from rindices.learners.heads import SEVERITIES, ContrastiveHead, Head, SurrealHead
from rindices.learners.members import Evidence, Member, evidence_of
from rindices.learners.seats import Seats, halves, take_seats
from rindices.learners.severity_prior import copula_draw
from rindices.learners.starts import Start, inverse_weights, make_start, start_curves, start_weights
from rindices.learners.surreal import networks
from rindices.learners.surreal.group import Plan, Trained, new_group
from rindices.learners.surreal.networks import Transformation, with_one
from rindices.learners.surreal.recipe import Recipe, from_values
from rindices.learners.surreal.threads import one_thread
from rindices.learners.surreal.train import advance, train
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD

Floats = NDArray[np.float64]

_COPIES = 10  # of every control, each with its own severities, for the inverse
_PAIRS = 1000  # numbers of the members on halves begin here


@dataclass(frozen=True)
class Room:
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
    prepared: Floats
    head: ContrastiveHead
    shifts: Floats
    y: NDArray[np.intp]

    @classmethod
    def of(cls, X: Floats, y: NDArray[np.intp], n_patterns: int, recipe: Recipe) -> Room:
        """From prepared people (N, R) in any order."""
        order = np.argsort(y, kind="stable")
        people, labels = X[order], y[order]
        head = straightening_head(people, labels == 1, n_patterns, recipe.straighten)
        return cls(recipe, people, head, head.prepare(people), labels)

    @property
    def needs_starts(self) -> bool:
        """Whether members differ in more than their random stream, or D is conditioned, or the inverse is refitted."""
        recipe = self.recipe
        return recipe.warm or recipe.share < 1 or recipe.conditioning != "none" or recipe.inverse == "refit"

    def scaled(self, label: int) -> Floats:
        """Controls (0) or patients (1) on the scale that the networks expect, (N, R)."""
        return np.asarray(CONTROL_MEAN + CONTROL_SD * self.shifts[self.y == label])

    def start(self, seats: Seats, n_patterns: int, seed: int) -> Start:
        """Where a member with these people starts."""
        recipe = self.recipe
        return make_start(self.shifts, self.y, seats, n_patterns, recipe.start, recipe.conditioning, seed)


@one_thread()
def surreal_members(
    X: Floats,
    y: NDArray[np.intp],
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
    chosen = from_values(values)
    room = Room.of(X, y, n_patterns, chosen)
    plan = Plan(n_patterns, chosen, seed=seed, members=tuple(numbers), stack=len(numbers))
    members = train_members(room, plan, checkpoint)
    if not (evidence and chosen.warm):
        return members
    trained_on = any(member.steps > chosen.held_steps for member in members)
    return [member._replace(evidence=_evidence(room, plan, member.number, trained_on)) for member in members]


@one_thread()
def train_members(
    room: Room, plan: Plan, checkpoint: Path | None = None, workers: int = 1, device: str = "cpu"
) -> list[Member]:
    """Train members, where the recipe asks for it each on its own people and from its own start."""
    if not room.needs_starts:
        controls, patients = room.prepared[room.y == 0], room.prepared[room.y == 1]
        trained = train(controls, patients, plan, path=checkpoint, workers=workers, device=device)
        return [as_member(member, controls) for member in trained]
    starts = {}
    for number in plan.members:
        rng = np.random.default_rng([plan.seed, number])
        seats = take_seats(room.y, plan.recipe.share, rng)
        starts[number] = room.start(seats, plan.patterns, int(rng.integers(2**31 - 1)))
    return _train_from(room, plan, starts, path=checkpoint, workers=workers, device=device)


def _train_from(room: Room, plan: Plan, starts: Mapping[int, Start], **how: Any) -> list[Member]:
    trained = train(room.scaled(0), room.scaled(1), plan, starts=starts, **how)
    return [_as_started(member, room, starts[member.member], plan.seed) for member in trained]


def _as_started(trained: Trained, room: Room, start: Start, seed: int) -> Member:
    """A trained member that reads shifts, with the inverse that its recipe asks for.

    Where D let f go at once, f is what its start taught it, and the start's own inverse is the exact one.
    """
    if room.recipe.inverse == "g":  # then nothing was straightened, and the scaled people are the prepared ones
        return as_member(trained, room.scaled(0))
    rng = np.random.default_rng([seed, trained.member, 3])
    if room.recipe.warm and trained.steps <= room.recipe.held_steps:
        weights, shifts = start_weights(start, rng), start_curves(start, SEVERITIES)
    else:
        weights, shifts = refit_inverse(trained, room, start, rng), _shift_curves(trained, room.scaled(0))
    head, curves = _scaled_head(weights, room), room.head.in_control_sd(shifts)
    return Member(trained.member, trained.outcome, trained.steps, head, curves)


def _scaled_head(weights: Floats, room: Room) -> ContrastiveHead:
    """A head with these weights (R, M); R-index 1 is the patients' 98th percentile."""
    return replace(room.head, weights=weights / severe_unit(room.shifts[room.y == 1] @ weights))


@torch.inference_mode()
def refit_inverse(trained: Trained, room: Room, start: Start, rng: np.random.Generator) -> Floats:
    """The regression of z on f(x, z), in closed form: weights (R, M) of people's shifts.

    f changes the controls that the member has seen; the normal variation is that of the start, which has more people
    to learn it from.
    """
    seen = start.seats.seen
    controls = np.repeat(room.shifts[seen[room.y[seen] == 0]], _COPIES, axis=0)
    if room.recipe.correlated:
        correlation = np.asarray(trained.correlation.numpy(), np.float64)
        factor = np.linalg.cholesky(correlation + 1e-6 * np.eye(len(correlation)))
        z = copula_draw(np.asarray(factor), len(controls), rng)
    else:
        z = rng.random((len(controls), start.patterns.shape[1]))
    x = torch.as_tensor(CONTROL_MEAN + CONTROL_SD * controls)[None]
    drawn = with_one(torch.as_tensor(z))[None]
    change = networks.transform(_f_of(trained), x, drawn).change[0].numpy() / CONTROL_SD
    return inverse_weights(z, change, start.noise)


def _evidence(room: Room, plan: Plan, number: int, trained_on: bool) -> Evidence:
    """How well two members agree that have no person in common, on all patients.

    They go as far as the members went: where D found nothing that f could still learn, a half is its start.
    """
    rng = np.random.default_rng([plan.seed, number, 4])
    starts = [room.start(seats, plan.patterns, int(rng.integers(2**31 - 1))) for seats in halves(room.y, rng)]
    heads: Sequence[Head]
    if trained_on:
        own = {_PAIRS + 2 * number + half: start for half, start in enumerate(starts)}
        pair = _train_from(room, replace(plan, members=tuple(own), stack=2), own)
        heads = [member.head for member in pair]
    else:
        heads = [_scaled_head(start_weights(start, rng), room) for start in starts]
    first, second = (head.infer(room.prepared[room.y == 1]) for head in heads)
    return evidence_of(first, second)


def as_member(trained: Trained, controls: Floats) -> Member:
    """A trained member with its patterns on these controls, (N, R)."""
    curves = _shift_curves(trained, controls)
    return Member(trained.member, trained.outcome, trained.steps, head_of(trained), curves)


def head_of(trained: Trained) -> SurrealHead:
    """G of a member."""
    weights = {name: tensor.numpy() for name, tensor in trained.weights.items()}
    layers = {f"g2_{kind}{place}": weights[f"g2.{kind}{place}"] for kind in ("weight", "bias") for place in (1, 2, 3)}
    return SurrealHead(g1=weights["g1.weight"], **layers)


def _f_of(trained: Trained) -> Transformation:
    """The weights of f in double precision, with a member axis."""
    return Transformation(*(trained.weights[f"f.{name}"].double()[None] for name in Transformation._fields))


@torch.inference_mode()
def _shift_curves(trained: Trained, controls: Floats) -> Floats:
    """Mean change of controls (N, R) under each pattern alone, (Q, M, R), in control standard deviations."""
    f = _f_of(trained)
    n_patterns = f.gate.shape[1] - 1
    x = torch.as_tensor(controls, dtype=torch.float64)[None]
    curves = []
    for severity in SEVERITIES:
        alone = with_one(severity * torch.eye(n_patterns, dtype=torch.float64)).repeat(len(controls), 1)[None]
        change = networks.transform(f, x, alone).change.view(len(controls), n_patterns, -1)
        curves.append(change.mean(dim=0).numpy() / CONTROL_SD)
    return np.stack(curves)


@one_thread()
def seconds_per_member(
    X: Floats, y: NDArray[np.intp], n_patterns: int, members: int, values: str, steps: int = 20
) -> float:
    """Seconds that a member will take to its last step, from timing a few on this machine."""
    chosen = from_values(json.loads(values))
    if chosen.warm:
        start = time.perf_counter()
        surreal_members(X, y, n_patterns, (0,), 0, json.loads(values))
        return time.perf_counter() - start
    plan = Plan(n_patterns, chosen, members=tuple(range(members)), stack=members)
    controls, patients = (torch.as_tensor(X[y == label], dtype=torch.float32) for label in (0, 1))
    group = new_group(plan.members, plan, controls, patients)
    advance(group, steps)
    start = time.perf_counter()
    advance(group, steps)
    return (time.perf_counter() - start) / steps * chosen.max_steps / members
