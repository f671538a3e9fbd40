"""State of a training: members, their passes over the people, and checkpoints.

A checkpoint is one safetensors file, replaced atomically. It holds all that the next
number depends on: weights, Adam's moments, random streams, the order of people and the
position in it, the history of the losses, and the members that have stopped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, NonNegativeInt, TypeAdapter
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor
from torch.optim import Adam

from rindices.atomic import write_atomically
from rindices.errors import RindicesError
from rindices.learners.ensemble import TrainingOutcome
from rindices.learners.gan.losses import LossTerms, make_member_generator
from rindices.learners.gan.networks import SurrealNetworks
from rindices.learners.gan.recipe import LOSS_NAMES, Recipe, TrainingPlan
from rindices.learners.prepared_people import draw_subsample

CHECKPOINT_FORMAT = "rindices.surreal.checkpoint/3"
NETWORKS_OF = {"d": ("d",), "copula": ("copula",), "f": ("f",), "g": ("g1", "g2")}
"""Networks that each optimiser trains."""


class History(NamedTuple):
    """Losses of members at their checks.

    Attributes
    ----------
    steps : list of int
        Steps taken at each check, (K,).
    losses : Tensor
        Means of each term of `LossTerms` over the steps since the check before, (S,
        K, 8), as float32.
    """

    steps: list[int]
    losses: Tensor

    def append(self, step: int, terms: LossTerms) -> History:
        """Return the history with another check."""
        losses = terms.stack().T[:, None].to(self.losses)
        return History([*self.steps, step], torch.cat([self.losses, losses], dim=1))


@dataclass(kw_only=True)
class MemberStack:
    """S members in training.

    Attributes
    ----------
    members : tuple of int
        Their numbers within the run.
    recipe : Recipe
    networks : SurrealNetworks
        The four networks and the copula.
    optimisers : dict
        Adam of f, of g (g1 and g2), of D and of the copula, by `NETWORKS_OF`.
    streams : list of torch.Generator
        One random stream per member.
    history : History
        Losses at the checks.
    steps : int
        Steps taken.
    """

    members: tuple[int, ...]
    recipe: Recipe
    networks: SurrealNetworks
    optimisers: dict[str, Adam]
    streams: list[torch.Generator]
    history: History
    steps: int = 0

    def select(self, positions: Sequence[int]) -> MemberStack:
        """Return a stack of the members at these positions of the S axis, with copies
        of their numbers.
        """
        index = list(positions)
        networks = self.networks.select(index)
        selected = replace(
            self,
            members=tuple(self.members[position] for position in index),
            networks=networks,
            optimisers=make_optimisers(networks, self.recipe),
            streams=[self.streams[position] for position in index],
            history=self.history._replace(losses=self.history.losses[index]),
        )
        selected.load_moments(
            {
                name: each if each.ndim == 0 else each[index]
                for name, each in self.collect_moments()
            }
        )
        return selected

    def collect_moments(self) -> Iterator[tuple[str, Tensor]]:
        """Yield what Adam keeps of each parameter that it has changed, such as
        ``exp_avg.f.gate``.
        """
        names: dict[Tensor, str] = {
            parameter: name for name, parameter in self.networks.named_parameters()
        }
        for optimiser in self.optimisers.values():
            for parameter, kept in optimiser.state.items():
                yield from (
                    (f"{kind}.{names[parameter]}", tensor)
                    for kind, tensor in kept.items()
                )

    def update(self, ratios: Mapping[str, float], loss: Tensor, rate: float) -> None:
        """Take a step of Adam on the sum of a loss, and clip the weights of f and g.

        Parameters
        ----------
        ratios : mapping
            Learning rate of each part of `NETWORKS_OF` that is updated, as a share
            of ``rate``.
        """
        optimisers, clip = (
            {name: self.optimisers[name] for name in ratios},
            self.recipe.clip,
        )
        parameters = [
            each
            for optimiser in optimisers.values()
            for each in optimiser.param_groups[0]["params"]
        ]
        gradients = torch.autograd.grad(
            loss.sum(), parameters, retain_graph="copula" in ratios
        )
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        for name, optimiser in optimisers.items():
            (group,) = optimiser.param_groups
            group["lr"] = rate * ratios[name]
            optimiser.step()
            if name in ("f", "g"):
                for parameter in group["params"]:
                    parameter.detach().clamp_(-clip, clip)
        for parameter in parameters:
            parameter.grad = None

    def load_moments(self, tensors: Mapping[str, Tensor]) -> None:
        """Set what Adam keeps of each parameter; those that are not named keep nothing,
        as before a first step.
        """
        parameters = dict(self.networks.named_parameters())
        optimiser_of = {
            parameter: optimiser
            for optimiser in self.optimisers.values()
            for parameter in optimiser.param_groups[0]["params"]
        }
        for optimiser in self.optimisers.values():
            optimiser.state.clear()
        for name, tensor in tensors.items():
            kind, _, parameter_name = name.partition(".")
            parameter = parameters[parameter_name]
            _check_like(name, tensor, parameter if kind != "step" else torch.zeros(()))
            optimiser_of[parameter].state[parameter][kind] = tensor.clone().to(
                parameter.device
            )


def make_optimisers(networks: SurrealNetworks, recipe: Recipe) -> dict[str, Adam]:
    """Return the optimisers of `NETWORKS_OF`; their rates are set at each step."""
    betas = (recipe.beta1, recipe.beta2)
    return {
        name: Adam(
            [
                parameter
                for network in parts
                for parameter in networks.get_submodule(network).parameters()
            ],
            lr=recipe.learning_rate,
            betas=betas,
            eps=recipe.epsilon,
            fused=True,
        )
        for name, parts in NETWORKS_OF.items()
    }


def make_member_stack(
    members: Sequence[int], plan: TrainingPlan, n_regions: int, like: Tensor
) -> MemberStack:
    """Return members with random initial weights, of the dtype and device
    of ``like``.
    """
    streams = [make_member_generator(plan.seed, member) for member in members]
    networks = make_networks(streams, plan, n_regions).to(like)
    history = History([], torch.zeros(len(members), 0, len(LOSS_NAMES)))
    return MemberStack(
        members=tuple(members),
        recipe=plan.recipe,
        networks=networks,
        optimisers=make_optimisers(networks, plan.recipe),
        streams=streams,
        history=history,
    )


def make_networks(
    streams: Sequence[torch.Generator], plan: TrainingPlan, n_regions: int
) -> SurrealNetworks:
    """Return networks with random initial weights, one for each stream."""
    networks = SurrealNetworks(
        len(streams), n_regions, plan.patterns, plan.recipe.standardised_d
    )
    networks.draw_weights(plan.recipe.init_sd, streams)
    return networks


class NormalVariation(NamedTuple):
    """N(mu, C) of people without disease for S members: mean (S, 1, R), and a root (S,
    R, R) with C = root^T root.

    Attributes
    ----------
    mean : Tensor
    root : Tensor
    """

    mean: Tensor
    root: Tensor

    def draw(self, batch: int, streams: Sequence[torch.Generator]) -> Tensor:
        """Return people, (S, B, R), each member's from its own stream on the CPU."""
        noise = torch.empty(
            len(streams), batch, self.root.shape[1], dtype=self.root.dtype
        )
        for member, stream in zip(noise, streams, strict=True):
            member.normal_(generator=stream)
        return torch.baddbmm(self.mean, noise.to(self.root.device), self.root)

    def select(self, positions: Sequence[int]) -> NormalVariation:
        """Return the part of the members at these positions of the S axis."""
        return NormalVariation(*(each[list(positions)] for each in self))


@dataclass(kw_only=True)
class BatchSampler:
    """Position of S members in their passes over the people.

    A pass visits each person once, in random order. People left over when no full batch
    remains wait for the next pass. Controls and patients have separate passes.

    Attributes
    ----------
    table : Tensor
        Controls, then patients, (N, R).
    orders : list of Tensor
        For controls and for patients, rows of ``table`` in the order of the current
        pass, (S, N_cn) and (S, N_pt).
    cursors : list of int
        Number of people already taken from each order.
    batch : int
        B.
    normal : NormalVariation or None
        Distribution from which controls are drawn instead, once it is known.
    """

    table: Tensor
    orders: list[Tensor]
    cursors: list[int]
    batch: int
    normal: NormalVariation | None = None

    def draw(self, streams: Sequence[torch.Generator]) -> tuple[Tensor, Tensor]:
        """Return the next controls and patients of every member, (S, B, R) each."""
        controls = (
            self._draw_group(0, streams)
            if self.normal is None
            else self.normal.draw(self.batch, streams)
        )
        return controls, self._draw_group(1, streams)

    def draw_noise(
        self, sd: float, streams: Sequence[torch.Generator]
    ) -> Tensor | None:
        """Return noise for D's view of as many synthesised as real patients, (S, 2 B,
        R); None without noise.
        """
        if sd == 0 or self.normal is None:
            return None
        return sd * (self.normal.draw(2 * self.batch, streams) - self.normal.mean)

    def _draw_group(self, group: int, streams: Sequence[torch.Generator]) -> Tensor:
        order, start = self.orders[group], self.cursors[group]
        if start + self.batch > order.shape[1]:
            for row, stream in zip(order, streams, strict=True):
                row.copy_(
                    row[torch.randperm(len(row), generator=stream).to(row.device)]
                )
            start = 0
        self.cursors[group] = start + self.batch
        rows = order[:, start : start + self.batch]
        return torch.index_select(self.table, 0, rows.flatten()).view(*rows.shape, -1)

    def select(self, positions: Sequence[int]) -> BatchSampler:
        """Return the sampler of the members at these positions of the S axis."""
        return replace(
            self,
            orders=[order[list(positions)] for order in self.orders],
            cursors=list(self.cursors),
            normal=None if self.normal is None else self.normal.select(positions),
        )


def make_batch_sampler(
    controls: Tensor, patients: Tensor, members: Sequence[int], plan: TrainingPlan
) -> BatchSampler:
    """Return a sampler before the first shuffle.

    Parameters
    ----------
    controls, patients : Tensor
        (N_cn, R) and (N_pt, R) if members share them, or (K, N_cn, R) and (K, N_pt,
        R) with the people of each of the K members of the plan. A member sees its
        own share of them.
    """
    sizes = [people.shape[-2] for people in (controls, patients)]
    y, n_people = np.repeat([0, 1], sizes), sum(sizes)
    if controls.ndim == 2:
        table, offsets = torch.cat([controls, patients]), [0] * len(members)
    else:
        positions = [plan.members.index(member) for member in members]
        table = torch.cat([controls[positions], patients[positions]], dim=1).flatten(
            0, 1
        )
        offsets = [n_people * number for number in range(len(members))]
    streams = (np.random.default_rng([plan.seed, member]) for member in members)
    seen = [draw_subsample(y, plan.recipe.share, stream).seen for stream in streams]
    orders = [
        torch.as_tensor(
            np.stack(
                [
                    rows[y[rows] == group] + offset
                    for rows, offset in zip(seen, offsets, strict=True)
                ]
            ),
            device=controls.device,
        )
        for group in (0, 1)
    ]
    lengths = [order.shape[1] for order in orders]
    return BatchSampler(
        table=table,
        orders=orders,
        cursors=lengths,
        batch=plan.recipe.batch_size(*lengths),
    )


@dataclass(frozen=True, kw_only=True)
class TrainedMember:
    """One member when it stopped.

    Attributes
    ----------
    member : int
        Its number within the run.
    outcome : TrainingOutcome
        Why it stopped.
    met_bars : bool
        Whether its losses were below the bars of the recipe at its last check.
    steps : int
        Steps it took.
    weights : dict
        Its weights by name (`SurrealNetworks.get_member`).
    checks : Tensor
        Steps at its checks, (K,).
    losses : Tensor
        Means of each term of `LossTerms` over the steps since the check before, (K,
        8).
    """

    member: int
    outcome: TrainingOutcome
    met_bars: bool
    steps: int
    weights: dict[str, Tensor]
    checks: Tensor
    losses: Tensor


@dataclass(kw_only=True)
class TrainingState:
    """One stack in training: members, position in the data, the members that have
    stopped, and whether it has started.

    The start is what comes before the first step, see `.start`.

    Attributes
    ----------
    stack : MemberStack
    batches : BatchSampler
    trained : list of TrainedMember
    has_started : bool
    """

    stack: MemberStack
    batches: BatchSampler
    trained: list[TrainedMember] = field(default_factory=list)
    has_started: bool = False

    @property
    def running(self) -> bool:
        """Whether a member is still in training."""
        return bool(self.stack.members)

    @property
    def steps(self) -> int:
        """Steps taken."""
        return self.stack.steps

    def select_members(self, positions: Sequence[int]) -> None:
        """Continue with the members at these positions of the S axis only."""
        self.stack, self.batches = (
            self.stack.select(positions),
            self.batches.select(positions),
        )

    def adopt(self, started: TrainingState) -> None:
        """Take over copies of the numbers of a stack after its start; the
        recipe stays.
        """
        positions, recipe = range(len(started.stack.members)), self.stack.recipe
        self.stack, self.batches = (
            started.stack.select(positions),
            started.batches.select(positions),
        )
        self.stack.recipe, self.has_started = recipe, True
        self.stack.streams = [
            torch.Generator().set_state(each.get_state())
            for each in started.stack.streams
        ]


def make_training_state(
    members: Sequence[int], plan: TrainingPlan, controls: Tensor, patients: Tensor
) -> TrainingState:
    """Return a stack before its first step.

    Parameters
    ----------
    members : sequence of int
        Numbers of the members of this stack.
    plan : TrainingPlan
        Recipe and seed.
    controls, patients : Tensor
        (N_cn, R) and (N_pt, R), or those of each member of the plan, see
        `make_batch_sampler`.
    """
    stack = make_member_stack(members, plan, controls.shape[-1], controls)
    batches = make_batch_sampler(controls, patients, members, plan)
    has_no_start = (
        plan.recipe.start == "random" and plan.recipe.draw_controls == "people"
    )
    return TrainingState(stack=stack, batches=batches, has_started=has_no_start)


class _StackRecord(BaseModel):
    """Progress of one stack, as JSON.

    Attributes
    ----------
    steps : NonNegativeInt
    members : list of NonNegativeInt
    cursors : list of NonNegativeInt
    checks : list of NonNegativeInt
        Steps at the checks of the members in training.
    has_started : bool
        Whether the start is done.
    trained : list of tuple
        Number, outcome, whether the bars were met, and steps of each member that
        has stopped.
    """

    model_config = ConfigDict(strict=True)

    steps: NonNegativeInt
    members: list[NonNegativeInt]
    cursors: list[NonNegativeInt]
    checks: list[NonNegativeInt]
    has_started: bool
    trained: list[tuple[NonNegativeInt, TrainingOutcome, bool, NonNegativeInt]]


_STACK_RECORDS = TypeAdapter(list[_StackRecord])


def _hash_content(records: str, tensors: Mapping[str, Tensor]) -> str:
    """Return a hash of all numbers in a checkpoint."""
    digest = hashlib.sha256(records.encode())
    for name in sorted(tensors):
        digest.update(
            f"{name} {tensors[name].dtype} {list(tensors[name].shape)}".encode()
        )
        digest.update(tensors[name].numpy().tobytes())
    return digest.hexdigest()


def _make_error(path: Path, error: Exception) -> RindicesError:
    """Return the error about a damaged checkpoint; its reason is the first line of
    another error.
    """
    reason = (str(error).splitlines() or [type(error).__name__])[0][:100]
    return RindicesError(
        f"{path} is not a checkpoint of this training ({reason}); delete it to start again."
    )


def _select_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a prefix, without it."""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def _check_like(name: str, tensor: Tensor, like: Tensor) -> None:
    if tensor.shape != like.shape or tensor.dtype != like.dtype:
        raise ValueError(f"{name} has another shape or type")


def _iter_live_tensors(state: TrainingState) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of the members in training, which are restored in place."""
    yield from (
        (f"weights.{name}", weight)
        for name, weight in state.stack.networks.state_dict().items()
    )
    for name, order in zip(("controls", "patients"), state.batches.orders, strict=True):
        yield f"order.{name}", order
    if state.batches.normal is not None:
        yield from zip(
            ("normal.mean", "normal.root"), state.batches.normal, strict=True
        )


def _collect_tensors(state: TrainingState) -> dict[str, Tensor]:
    stack = state.stack
    tensors = dict(_iter_live_tensors(state)) | {
        f"adam.{name}": each for name, each in stack.collect_moments()
    }
    tensors["losses"] = stack.history.losses
    for member, stream in zip(stack.members, stack.streams, strict=True):
        tensors[f"stream.{member}"] = stream.get_state()
    for each in state.trained:
        tensors |= {
            f"done.{each.member}.{name}": weight
            for name, weight in each.weights.items()
        }
        tensors |= {
            f"checks.{each.member}": each.checks,
            f"losses.{each.member}": each.losses,
        }
    return tensors


def _restore_state(
    state: TrainingState, record: _StackRecord, tensors: dict[str, Tensor]
) -> None:
    members = state.stack.members
    if sorted([*record.members, *(member for member, *_ in record.trained)]) != sorted(
        members
    ):
        raise ValueError("it has other members")
    state.select_members([members.index(member) for member in record.members])
    stack, state.has_started = state.stack, record.has_started
    stack.steps, state.batches.cursors = record.steps, record.cursors
    if "normal.mean" in tensors:
        n_members, n_regions, like = (
            len(stack.members),
            stack.networks.n_regions,
            state.batches.table,
        )
        state.batches.normal = NormalVariation(
            like.new_zeros(n_members, 1, n_regions),
            like.new_zeros(n_members, n_regions, n_regions),
        )
    for name, tensor in _iter_live_tensors(state):
        _check_like(name, tensors[name], tensor)
        tensor.copy_(tensors[name])
    stack.load_moments(_select_prefix(tensors, "adam."))
    _check_like(
        "losses",
        tensors["losses"],
        torch.zeros(len(stack.members), len(record.checks), len(LOSS_NAMES)),
    )
    stack.history = History(record.checks, tensors["losses"].to(stack.history.losses))
    for member, stream in zip(stack.members, stack.streams, strict=True):
        stream.set_state(tensors[f"stream.{member}"])
    state.trained = [
        TrainedMember(
            member=member,
            outcome=outcome,
            met_bars=met_bars,
            steps=steps,
            weights=_select_prefix(tensors, f"done.{member}."),
            checks=tensors[f"checks.{member}"],
            losses=tensors[f"losses.{member}"],
        )
        for member, outcome, met_bars, steps in record.trained
    ]


def identify_training(
    plan: TrainingPlan, controls: Tensor, patients: Tensor
) -> dict[str, object]:
    """Return what distinguishes a training: the plan, and a digest of the data."""
    digest = hashlib.sha256()
    for people in (controls, patients):
        digest.update(np.ascontiguousarray(people.cpu().numpy()).tobytes())
    data = {
        "controls": controls.shape[-2],
        "patients": patients.shape[-2],
        "regions": controls.shape[-1],
    }
    values = json.loads(json.dumps(asdict(plan)))
    return {"format": CHECKPOINT_FORMAT, **values, **data, "data": digest.hexdigest()}


@dataclass(frozen=True)
class Checkpoint:
    """File of a training; nothing is saved or loaded without a path.

    Attributes
    ----------
    path : Path or None
    states : sequence of TrainingState
    identity : mapping
        What the file must match to be resumed: the plan and the data.
    """

    path: Path | None
    states: Sequence[TrainingState]
    identity: Mapping[str, object]

    @classmethod
    def begin(
        cls, path: Path | None, plan: TrainingPlan, controls: Tensor, patients: Tensor
    ) -> Checkpoint:
        """Return the states of all stacks: before their first step, or those of the
        file.
        """
        identity = identify_training(plan, controls, patients)
        states = [
            make_training_state(members, plan, controls, patients)
            for members in plan.stacks
        ]
        checkpoint = cls(path, states, identity)
        if path is not None and path.exists():
            checkpoint._load(path)
        return checkpoint

    def adopt_starts(
        self, starts: Checkpoint, plan: TrainingPlan, controls: Tensor, patients: Tensor
    ) -> None:
        """Let stacks that have not started begin where the starts of the same members
        end.
        """
        own = identify_training(
            replace(plan, recipe=plan.recipe.forget_training()), controls, patients
        )
        differing = [
            key
            for key in own
            if key != "members" and starts.identity.get(key) != own[key]
        ]
        by_members = {started.stack.members: started for started in starts.states}
        if differing or not all(members in by_members for members in plan.stacks):
            what = f"the starts belong to another training, which differs in {', '.join(differing) or 'members'}"
            raise RindicesError(
                f"{what}: prepare them for the same people, members, seed and recipe."
            )
        for members, state in zip(plan.stacks, self.states, strict=True):
            if not state.has_started:
                state.adopt(by_members[members])

    def save(self) -> None:
        """Write the state of all stacks; after a crash the file is the old one or the
        new one.
        """
        if self.path is None:
            return
        tensors = {
            f"{number}/{name}": tensor.detach().cpu().contiguous()
            for number, state in enumerate(self.states)
            for name, tensor in _collect_tensors(state).items()
        }
        progress = [
            _StackRecord(
                steps=state.steps,
                members=list(state.stack.members),
                cursors=state.batches.cursors,
                checks=state.stack.history.steps,
                has_started=state.has_started,
                trained=[
                    (each.member, each.outcome, each.met_bars, each.steps)
                    for each in state.trained
                ],
            ).model_dump(mode="json")
            for state in self.states
        ]
        records = json.dumps(progress)
        metadata = {
            "identity": json.dumps(self.identity),
            "states": records,
            "digest": _hash_content(records, tensors),
        }
        write_atomically(self.path, to_bytes(tensors, metadata))

    def _load(self, path: Path) -> None:
        """Restore stacks before their first step, in place; refuse the checkpoint of
        another training.
        """
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            saved, records = (
                json.loads(metadata["identity"]),
                _STACK_RECORDS.validate_json(metadata["states"]),
            )
            if metadata["digest"] != _hash_content(metadata["states"], tensors):
                raise ValueError("its numbers were changed")
        except (SafetensorError, KeyError, ValueError, RecursionError) as error:
            raise _make_error(path, error) from error
        identity, saved = self.identity, saved if isinstance(saved, dict) else {}
        if differing := [key for key in identity if saved.get(key) != identity[key]]:
            details = ", ".join(
                f"{key} ({saved.get(key)} there, {identity[key]} here)"
                for key in differing
            )
            raise RindicesError(
                f"{path} belongs to another training: {details}. Use another file or delete this one."
            )
        try:
            for number, (state, record) in enumerate(
                zip(self.states, records, strict=True)
            ):
                _restore_state(state, record, _select_prefix(tensors, f"{number}/"))
        except (KeyError, ValueError, TypeError, RuntimeError) as error:
            raise _make_error(path, error) from error
