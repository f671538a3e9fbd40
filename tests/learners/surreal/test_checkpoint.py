"""Checkpoints: resuming gives the same numbers, and another training is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save as to_bytes

import rindices
from rindices.errors import RindicesError
from rindices.learners.surreal import train
from rindices.learners.surreal.losses import LossTerms
from rindices.learners.surreal.recipe import Recipe
from rindices.learners.surreal.train import release_stopped_members, train_stacks
from rindices.learners.surreal.training_state import TrainingPlan, TrainingState
from tests.learners.surreal.helpers import BRIEF, PEOPLE, SHORT, are_equal, make_data, make_starts

KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from rindices.learners.surreal.train import train_stacks
from rindices.learners.surreal.training_state import TrainingPlan
from tests.learners.surreal.helpers import PEOPLE, SHORT
plan = TrainingPlan(2, SHORT.replace(max_steps=1000), members=(0, 1))
train_stacks(*PEOPLE, plan, path=Path(sys.argv[1]), save_every=50)
"""


@contextmanager
def interrupt_at(step: int, error: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Raise an error after the check at a step."""

    def release_and_raise(state: TrainingState, terms: LossTerms, recipe: Recipe) -> None:
        release_stopped_members(state, terms, recipe)
        if state.steps == step:
            raise error

    with monkeypatch.context() as patch:
        patch.setattr(train, "release_stopped_members", release_and_raise)
        yield


@pytest.mark.parametrize("stack", [1, 3])
def test_resuming_continues_number_for_number(tmp_path: Path, stack: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = TrainingPlan(2, SHORT, members=(0, 1, 2), stack=stack)
    straight = train_stacks(*PEOPLE, plan)
    path = tmp_path / "members.safetensors"

    with interrupt_at(50, RuntimeError, monkeypatch), pytest.raises(RuntimeError):
        train_stacks(*PEOPLE, plan, path=path, save_every=20)
    assert path.exists()
    assert are_equal(straight, train_stacks(*PEOPLE, plan, path=path, save_every=20))
    assert are_equal(straight, train_stacks(*PEOPLE, plan, path=path))  # all done: nothing to train
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_another_plan_or_other_data_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "members.safetensors"
    train_stacks(*PEOPLE, TrainingPlan(2, SHORT), path=path)
    with pytest.raises(RindicesError, match="seed"):
        train_stacks(*PEOPLE, TrainingPlan(2, SHORT, seed=5), path=path)
    with pytest.raises(RindicesError, match="data"):
        train_stacks(PEOPLE[0] + 1, PEOPLE[1], TrainingPlan(2, SHORT), path=path)
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(RindicesError, match="delete it"):
        train_stacks(*PEOPLE, TrainingPlan(2, SHORT), path=path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("states", lambda text: "x"),
        ("states", lambda text: "[]"),
        ("states", lambda text: text.replace('"steps"', '"step"')),
        ("states", lambda text: text.replace('"members": [', '"members": ["a", ')),
        ("states", lambda text: text.replace('"members": [', '"members": [77, ')),
        ("identity", lambda text: "[" * 100_000),
        ("identity", lambda text: "[]"),
        ("0/phi", lambda tensor: torch.zeros(1)),
        ("0/order.controls", lambda tensor: tensor + 10**6),
        ("0/phi", lambda tensor: tensor + 1),
        ("0/weights.generator", lambda tensor: tensor.double()),
        ("0/stream.0", lambda tensor: tensor[:10]),
    ],
)
def test_damaged_checkpoints_are_refused_in_one_line(name: str, change: Any, tmp_path: Path) -> None:
    path, plan = tmp_path / "members.safetensors", TrainingPlan(2, SHORT.replace(max_steps=40))
    make_unfinished_checkpoint(path, plan)
    with safe_open(path, framework="pt") as file:
        metadata, tensors = file.metadata(), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    group = metadata if name in metadata else tensors
    group[name] = change(group[name])
    path.write_bytes(to_bytes(tensors, metadata))
    with pytest.raises(RindicesError, match=r"delete (it|this one)") as caught:
        train_stacks(*PEOPLE, plan, path=path)
    assert len(str(caught.value).splitlines()) == 1


def test_a_checkpoint_without_a_digest_is_resumed(tmp_path: Path) -> None:
    """Checkpoints of early versions have none; then names, types and shapes are checked."""
    path, plan = tmp_path / "members.safetensors", TrainingPlan(2, SHORT.replace(max_steps=40))
    make_unfinished_checkpoint(path, plan)
    with safe_open(path, framework="pt") as file:
        metadata, tensors = file.metadata(), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    del metadata["digest"]
    path.write_bytes(to_bytes(tensors, metadata))
    assert are_equal(train_stacks(*PEOPLE, plan, path=path), train_stacks(*PEOPLE, plan))
    tensors["0/phi"] = torch.zeros(1)
    path.write_bytes(to_bytes(tensors, metadata))
    with pytest.raises(RindicesError, match="phi has another shape or type"):
        train_stacks(*PEOPLE, plan, path=path)


def make_unfinished_checkpoint(path: Path, plan: TrainingPlan) -> None:
    with pytest.MonkeyPatch.context() as patch, interrupt_at(20, RuntimeError, patch), pytest.raises(RuntimeError):
        train_stacks(*PEOPLE, plan, path=path, save_every=10)


def test_a_killed_process_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "members.safetensors"
    tests = Path(__file__).parents[3]
    source = Path(rindices.__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(path), str(tests)], env=environment)
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    plan = TrainingPlan(2, SHORT.replace(max_steps=1000), members=(0, 1))
    assert are_equal(train_stacks(*PEOPLE, plan), train_stacks(*PEOPLE, plan, path=path))


def test_an_interrupted_warm_training_resumes_number_for_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = make_data(BRIEF.replace(telling_bar=0))
    plan, starts = TrainingPlan(2, data.recipe, members=(0, 1)), make_starts(data)
    people = data.scale_group(0), data.scale_group(1)
    straight = train_stacks(*people, plan, starts=starts)
    path = tmp_path / "members.safetensors"

    with interrupt_at(50, KeyboardInterrupt, monkeypatch), pytest.raises(KeyboardInterrupt):
        train_stacks(*people, plan, starts=starts, path=path, save_every=20)
    assert are_equal(straight, train_stacks(*people, plan, starts=starts, path=path, save_every=20))


def test_a_checkpoint_keeps_the_names_of_earlier_versions(tmp_path: Path) -> None:
    path = tmp_path / "members.safetensors"
    train_stacks(*PEOPLE, TrainingPlan(2, SHORT, members=(0, 1)), path=path)
    with safe_open(path, framework="pt") as file:
        names, metadata = set(file.keys()), file.metadata()
    flat = {f"0/{kind}.{part}" for kind in ("weights", "first", "second") for part in ("generator", "discriminator")}
    assert names >= flat | {"0/count", "0/phi", "0/phi_first", "0/phi_second", "0/order.controls", "0/seen.0"}
    assert json.loads(metadata["identity"])["recipe"]["averaging"] == 0.0
    assert json.loads(metadata["states"])[0].keys() == {"steps", "members", "cursors", "trained"}
