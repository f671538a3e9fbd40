"""Checkpoints of a training: one safetensors file, replaced atomically.

The file holds everything the next number depends on: weights, Adam's moments, random
streams, the order of people and the place in it, histories, and members already done.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from rindices.atomic import write_atomically
from rindices.errors import RindicesError
from rindices.learners.outcome import TrainingOutcome
from rindices.learners.surreal.losses import LossTerms
from rindices.learners.surreal.recipe import recipe_to_dict
from rindices.learners.surreal.training_state import TrainedMember, TrainingPlan, TrainingState, select_members

CHECKPOINT_FORMAT = "rindices.surreal.checkpoint/1"


def describe_training(plan: TrainingPlan, controls: Tensor, patients: Tensor) -> dict[str, Any]:
    """What a checkpoint must match to be resumed: the plan and the data."""
    digest = hashlib.sha256()
    for people in (controls, patients):
        digest.update(np.ascontiguousarray(people.cpu().numpy()).tobytes())
    data = {"controls": len(controls), "patients": len(patients), "regions": controls.shape[1]}
    values = json.loads(json.dumps(dataclasses.asdict(plan) | {"recipe": recipe_to_dict(plan.recipe)}))
    return {"format": CHECKPOINT_FORMAT, **values, **data, "data": digest.hexdigest()}


def save(path: Path, groups: Sequence[TrainingState], identity: dict[str, Any]) -> None:
    """Write all groups; a crash leaves the old file or the new one, never a part."""
    tensors = {
        f"{number}/{name}": tensor.detach().cpu().contiguous()
        for number, group in enumerate(groups)
        for name, tensor in _collect_tensors(group).items()
    }
    states = json.dumps([_collect_json_state(group) for group in groups])
    metadata = {"identity": json.dumps(identity), "states": states}
    write_atomically(path, to_bytes(tensors, metadata))


def load(path: Path, groups: Sequence[TrainingState], identity: dict[str, Any]) -> None:
    """Bring fresh groups to where the checkpoint left them."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise RindicesError(f"{path} is not a checkpoint ({error}); delete it to start anew.") from error
    _check_identity(path, json.loads(metadata.get("identity", "{}")), identity)
    for number, (group, state) in enumerate(zip(groups, json.loads(metadata["states"]), strict=True)):
        prefix = f"{number}/"
        own = {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)}
        _restore_state(group, state, own)


def _check_identity(path: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    differing = [key for key in wanted if found.get(key) != wanted[key]]
    if differing:
        what = ", ".join(f"{key} ({found.get(key)} there, {wanted[key]} here)" for key in differing)
        raise RindicesError(f"{path} belongs to another training: {what}. Use another file or delete this one.")


def _iter_live_tensors(group: TrainingState) -> Iterator[tuple[str, Tensor]]:
    """The tensors of the running members, which are restored in place."""
    stack = group.stack
    yield "count", stack.count
    for name in ("weights", "first", "second"):
        flat = getattr(stack, name)
        yield f"{name}.generator", flat.generator
        yield f"{name}.discriminator", flat.discriminator
    for name in ("phi", "phi_first", "phi_second"):
        yield name, getattr(stack, name)
    for name, order in zip(("controls", "patients"), group.batches.orders, strict=True):
        yield f"order.{name}", order


def _collect_tensors(group: TrainingState) -> dict[str, Tensor]:
    tensors = dict(_iter_live_tensors(group))
    for member, stream in zip(group.stack.members, group.stack.streams, strict=True):
        tensors[f"stream.{member}"] = stream.get_state()
        tensors[f"seen.{member}"] = _convert_history(group.seen[member])
    for done in group.trained:
        tensors[f"seen.{done.member}"] = torch.from_numpy(done.history)
        tensors[f"correlation.{done.member}"] = done.correlation
        tensors |= {f"done.{done.member}.{name}": w for name, w in done.weights.items()}
    return tensors


def _convert_history(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64).view(-1, 1 + len(LossTerms._fields))


def _collect_json_state(group: TrainingState) -> dict[str, Any]:
    return {
        "steps": group.steps,
        "members": list(group.stack.members),
        "cursors": group.batches.cursors,
        "trained": [[done.member, done.outcome.value, done.steps] for done in group.trained],
    }


def _restore_state(group: TrainingState, state: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    here = group.stack.members
    select_members(group, [here.index(member) for member in state["members"]])
    group.steps, group.batches.cursors = state["steps"], state["cursors"]
    for name, tensor in _iter_live_tensors(group):
        tensor.copy_(tensors[name])
    for member, stream in zip(group.stack.members, group.stack.streams, strict=True):
        stream.set_state(tensors[f"stream.{member}"])
    group.seen = {member: tensors[f"seen.{member}"].tolist() for member in group.stack.members}
    group.trained = [_restore_trained_member(entry, tensors) for entry in state["trained"]]


def _restore_trained_member(entry: list[Any], tensors: dict[str, Tensor]) -> TrainedMember:
    member, outcome, steps = entry
    prefix = f"done.{member}."
    weights = {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)}
    return TrainedMember(
        member,
        TrainingOutcome(outcome),
        steps,
        weights,
        tensors[f"correlation.{member}"],
        tensors[f"seen.{member}"].numpy(),
    )
