"""Checkpoints of a training: one safetensors file, replaced atomically.

The file holds all that the next number depends on: weights, Adam's moments, random streams, the order of people and
the position in it, histories, and the members that have stopped.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, NonNegativeInt, TypeAdapter
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from rindices.atomic import write_atomically
from rindices.errors import RindicesError
from rindices.learners.outcome import TrainingOutcome
from rindices.learners.surreal.losses import LossTerms
from rindices.learners.surreal.recipe import recipe_to_dict
from rindices.learners.surreal.training_state import TrainedMember, TrainingPlan, TrainingState

CHECKPOINT_FORMAT = "rindices.surreal.checkpoint/1"
TrainingIdentity = Mapping[str, object]
"""Plan and data by name, as JSON values; a checkpoint resumes only the training that wrote it."""


class _StackRecord(BaseModel):
    """Progress of one stack, as JSON; ``trained`` has number, outcome and steps of each member that has stopped."""

    model_config = ConfigDict(strict=True)

    steps: NonNegativeInt
    members: list[NonNegativeInt]
    cursors: list[NonNegativeInt]
    trained: list[tuple[NonNegativeInt, TrainingOutcome, NonNegativeInt]]


_STACK_RECORDS = TypeAdapter(list[_StackRecord])


def describe_training(plan: TrainingPlan, controls: Tensor, patients: Tensor) -> TrainingIdentity:
    """Return what a checkpoint must match to be resumed: the plan and the data."""
    digest = hashlib.sha256()
    for people in (controls, patients):
        digest.update(np.ascontiguousarray(people.cpu().numpy()).tobytes())
    data = {"controls": len(controls), "patients": len(patients), "regions": controls.shape[1]}
    values = json.loads(json.dumps(dataclasses.asdict(plan) | {"recipe": recipe_to_dict(plan.recipe)}))
    return {"format": CHECKPOINT_FORMAT, **values, **data, "data": digest.hexdigest()}


def save_checkpoint(path: Path, states: Sequence[TrainingState], identity: TrainingIdentity) -> None:
    """Write the state of all stacks; after a crash the file is the old one or the new one."""
    tensors = {
        f"{number}/{name}": tensor.detach().cpu().contiguous()
        for number, state in enumerate(states)
        for name, tensor in _collect_tensors(state).items()
    }
    records = json.dumps([_make_record(state).model_dump(mode="json") for state in states])
    metadata = {"identity": json.dumps(identity), "states": records, "digest": _hash_content(records, tensors)}
    write_atomically(path, to_bytes(tensors, metadata))


def load_checkpoint(path: Path, states: Sequence[TrainingState], identity: TrainingIdentity) -> None:
    """Restore stacks before their first step, in place; refuse the checkpoint of another training."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        saved, records = json.loads(metadata["identity"]), _STACK_RECORDS.validate_json(metadata["states"])
        if metadata.get("digest", "") not in ("", _hash_content(metadata["states"], tensors)):  # early files have none
            raise ValueError("its numbers were changed")
    except (SafetensorError, KeyError, ValueError, RecursionError) as error:
        raise _make_error(path, error) from error
    _check_identity(path, saved if isinstance(saved, dict) else {}, identity)
    try:
        for number, (state, record) in enumerate(zip(states, records, strict=True)):
            _restore_state(state, record, _select_prefix(tensors, f"{number}/"))
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        raise _make_error(path, error) from error


def _hash_content(records: str, tensors: Mapping[str, Tensor]) -> str:
    """Return a hash of all numbers in a checkpoint."""
    digest = hashlib.sha256(records.encode())
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {list(tensors[name].shape)}".encode())
        digest.update(tensors[name].numpy().tobytes())
    return digest.hexdigest()


def _make_error(path: Path, error: Exception) -> RindicesError:
    """Return the error about a damaged checkpoint; its reason is the first line of another error."""
    reason = (str(error).splitlines() or [type(error).__name__])[0][:100]
    return RindicesError(f"{path} is not a checkpoint of this training ({reason}); delete it to start again.")


def _select_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _check_identity(path: Path, saved: TrainingIdentity, expected: TrainingIdentity) -> None:
    differing = [key for key in expected if saved.get(key) != expected[key]]
    if differing:
        details = ", ".join(f"{key} ({saved.get(key)} there, {expected[key]} here)" for key in differing)
        raise RindicesError(f"{path} belongs to another training: {details}. Use another file or delete this one.")


def _iter_live_tensors(state: TrainingState) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of the members in training, which are restored in place."""
    stack = state.stack
    yield "count", stack.step_count
    flat = {"weights": stack.weights, "first": stack.first_moments, "second": stack.second_moments}
    for name, weights in flat.items():
        yield f"{name}.generator", weights.generator
        yield f"{name}.discriminator", weights.discriminator
    yield "phi", stack.phi
    yield "phi_first", stack.phi_first_moment
    yield "phi_second", stack.phi_second_moment
    for name, order in zip(("controls", "patients"), state.batches.orders, strict=True):
        yield f"order.{name}", order


def _collect_tensors(state: TrainingState) -> dict[str, Tensor]:
    tensors = dict(_iter_live_tensors(state))
    for member, stream in zip(state.stack.members, state.stack.streams, strict=True):
        tensors[f"stream.{member}"] = stream.get_state()
        history = torch.tensor(state.history[member], dtype=torch.float64)
        tensors[f"seen.{member}"] = history.view(-1, 1 + len(LossTerms._fields))
    for trained in state.trained:
        tensors[f"seen.{trained.member}"] = torch.from_numpy(trained.history)
        tensors[f"correlation.{trained.member}"] = trained.correlation
        tensors |= {f"done.{trained.member}.{name}": weight for name, weight in trained.weights.items()}
    return tensors


def _make_record(state: TrainingState) -> _StackRecord:
    return _StackRecord(
        steps=state.steps,
        members=list(state.stack.members),
        cursors=state.batches.cursors,
        trained=[(trained.member, trained.outcome, trained.steps) for trained in state.trained],
    )


def _restore_state(state: TrainingState, record: _StackRecord, tensors: dict[str, Tensor]) -> None:
    members = state.stack.members
    if sorted([*record.members, *(member for member, _, _ in record.trained)]) != sorted(members):
        raise ValueError("it has other members")
    state.select_members([members.index(member) for member in record.members])
    state.steps, state.batches.cursors = record.steps, record.cursors
    for name, tensor in _iter_live_tensors(state):
        if tensors[name].shape != tensor.shape or tensors[name].dtype != tensor.dtype:
            raise ValueError(f"{name} has another shape or type")
        tensor.copy_(tensors[name])
    for member, stream in zip(state.stack.members, state.stack.streams, strict=True):
        stream.set_state(tensors[f"stream.{member}"])
    state.history = {member: tensors[f"seen.{member}"].tolist() for member in state.stack.members}
    state.trained = [
        TrainedMember(
            member,
            outcome,
            steps,
            _select_prefix(tensors, f"done.{member}."),
            tensors[f"correlation.{member}"],
            tensors[f"seen.{member}"].numpy(),
        )
        for member, outcome, steps in record.trained
    ]
