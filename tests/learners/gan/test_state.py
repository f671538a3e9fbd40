"""Members in training and their buffers, batches, plans, and checkpoints."""

from __future__ import annotations

import dataclasses
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
from rindices.learners.gan import train
from rindices.learners.gan.losses import LossTerms
from rindices.learners.gan.recipe import Recipe, TrainingPlan
from rindices.learners.gan.state import (
    TrainingState,
    make_batch_sampler,
    make_training_state,
)
from rindices.learners.gan.train import release_stopped_members, run_steps, train_stacks
from tests.learners.gan.helpers import PEOPLE, SHORT, are_equal, draw_people, make_stack


def test_a_selected_stack_keeps_weights_moments_and_streams() -> None:
    stack = make_stack(12, 2, range(3))
    train.take_step(stack, *draw_people(stack, 8, torch.Generator().manual_seed(3)))
    selected = stack.select([2, 0])
    assert selected.members == (2, 0)
    assert selected.streams == [stack.streams[2], stack.streams[0]]
    for before, after in (
        (stack.networks.state_dict(), selected.networks.state_dict()),
        (dict(stack.collect_moments()), dict(selected.collect_moments())),
    ):
        assert before.keys() == after.keys()
        assert all(
            torch.equal(after[key], each[[2, 0]] if each.ndim else each)
            for key, each in before.items()
        )
    train.take_step(
        selected, *draw_people(selected, 8, torch.Generator().manual_seed(4))
    )
    assert stack.steps == 1  # selected members are copies


def test_a_pass_visits_each_person_once() -> None:
    controls, patients = torch.arange(10.0)[:, None], 100 + torch.arange(30.0)[:, None]
    plan = TrainingPlan(patterns=2, recipe=SHORT.replace(batch_share=6), members=(0, 1))
    batches = make_batch_sampler(controls, patients, (0, 1), plan)
    streams = [torch.Generator().manual_seed(seed) for seed in (0, 1)]
    seen = []
    for _ in range(6):
        x, y = batches.draw(streams)
        seen.append(torch.cat([x, y], dim=1)[:, :, 0])
    patients_seen = (
        torch.cat([batch[:, 5:] for batch in seen], dim=1).sort(dim=1).values
    )
    assert torch.equal(patients_seen, (100 + torch.arange(30.0)).repeat(2, 1))
    first_pass = torch.cat([batch[:, :5] for batch in seen[:2]], dim=1)
    assert torch.equal(first_pass.sort(dim=1).values, torch.arange(10.0).repeat(2, 1))
    assert not torch.equal(first_pass[0], first_pass[1])


def test_a_state_goes_on_with_selected_members() -> None:
    people = (torch.as_tensor(state, dtype=torch.float32) for state in PEOPLE)
    state = make_training_state(
        (4, 5, 6), TrainingPlan(patterns=2, recipe=SHORT, members=(4, 5, 6)), *people
    )
    run_steps(state, 3)
    state.select_members([2])
    assert (state.stack.members, state.steps, state.running) == ((6,), 3, True)
    run_steps(state, 3)
    state.select_members([])
    assert not state.running


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from rindices.learners.gan.train import train_stacks
from rindices.learners.gan.recipe import TrainingPlan
from tests.learners.gan.helpers import PEOPLE, SHORT
plan = TrainingPlan(2, SHORT.replace(max_steps=1000), members=(0, 1))
train_stacks(*PEOPLE, plan, path=Path(sys.argv[1]), save_every=50)
"""


@contextmanager
def interrupt_at(
    step: int, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Raise an error after the check at a step."""

    def release_and_raise(
        state: TrainingState, terms: LossTerms, recipe: Recipe
    ) -> None:
        release_stopped_members(state, terms, recipe)
        if state.steps == step:
            raise error

    with monkeypatch.context() as patch:
        patch.setattr(train, "release_stopped_members", release_and_raise)
        yield


@pytest.mark.parametrize("stack", [1, 3])
def test_resuming_continues_number_for_number(
    tmp_path: Path, stack: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = TrainingPlan(patterns=2, recipe=SHORT, members=(0, 1, 2), stack=stack)
    straight = train_stacks(*PEOPLE, plan)
    path = tmp_path / "members.safetensors"

    with interrupt_at(50, RuntimeError, monkeypatch), pytest.raises(RuntimeError):
        train_stacks(*PEOPLE, plan, path=path, save_every=20)
    assert path.exists()
    assert are_equal(straight, train_stacks(*PEOPLE, plan, path=path, save_every=20))
    assert are_equal(
        straight, train_stacks(*PEOPLE, plan, path=path)
    )  # all done: nothing to train
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_another_plan_or_other_data_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "members.safetensors"
    train_stacks(*PEOPLE, TrainingPlan(patterns=2, recipe=SHORT), path=path)
    with pytest.raises(RindicesError, match="seed"):
        train_stacks(*PEOPLE, TrainingPlan(patterns=2, recipe=SHORT, seed=5), path=path)
    with pytest.raises(RindicesError, match="data"):
        train_stacks(
            PEOPLE[0] + 1, PEOPLE[1], TrainingPlan(patterns=2, recipe=SHORT), path=path
        )
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(RindicesError, match="delete it"):
        train_stacks(*PEOPLE, TrainingPlan(patterns=2, recipe=SHORT), path=path)


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
        ("0/weights.copula.phi", lambda tensor: torch.zeros(1)),
        ("0/order.controls", lambda tensor: tensor + 10**6),
        ("0/weights.copula.phi", lambda tensor: tensor + 1),
        ("0/weights.g1.weight", lambda tensor: tensor.double()),
        ("0/adam.exp_avg.f.gate", lambda tensor: tensor[:, :1]),
        ("0/losses", lambda tensor: tensor[:, :0]),
        ("0/stream.0", lambda tensor: tensor[:10]),
    ],
)
def test_damaged_checkpoints_are_refused_in_one_line(
    name: str, change: Any, tmp_path: Path
) -> None:
    path, plan = (
        tmp_path / "members.safetensors",
        TrainingPlan(patterns=2, recipe=SHORT.replace(max_steps=40)),
    )
    make_unfinished_checkpoint(path, plan)
    with safe_open(path, framework="pt") as file:
        metadata, tensors = (
            file.metadata(),
            {key: file.get_tensor(key) for key in file.keys()},  # noqa: SIM118
        )
    group = metadata if name in metadata else tensors
    group[name] = change(group[name])
    path.write_bytes(to_bytes(tensors, metadata))
    with pytest.raises(RindicesError, match=r"delete (it|this one)") as caught:
        train_stacks(*PEOPLE, plan, path=path)
    assert len(str(caught.value).splitlines()) == 1


def make_unfinished_checkpoint(path: Path, plan: TrainingPlan) -> None:
    with (
        pytest.MonkeyPatch.context() as patch,
        interrupt_at(20, RuntimeError, patch),
        pytest.raises(RuntimeError),
    ):
        train_stacks(*PEOPLE, plan, path=path, save_every=10)


@pytest.mark.slow  # the next tests interrupt it without a process
def test_a_killed_process_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "members.safetensors"
    tests = Path(__file__).parents[3]
    source = Path(rindices.__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path), str(tests)], env=environment
    )
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    plan = TrainingPlan(
        patterns=2, recipe=SHORT.replace(max_steps=1000), members=(0, 1)
    )
    assert are_equal(
        train_stacks(*PEOPLE, plan), train_stacks(*PEOPLE, plan, path=path)
    )


def test_an_interrupted_training_on_a_share_of_the_people_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, path = (
        TrainingPlan(patterns=2, recipe=SHORT.replace(share=0.8), members=(0, 1)),
        tmp_path / "members.safetensors",
    )
    with (
        interrupt_at(50, KeyboardInterrupt, monkeypatch),
        pytest.raises(KeyboardInterrupt),
    ):
        train_stacks(*PEOPLE, plan, path=path, save_every=20)
    assert are_equal(
        train_stacks(*PEOPLE, plan),
        train_stacks(*PEOPLE, plan, path=path, save_every=20),
    )


def test_the_content_of_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "members.safetensors"
    make_unfinished_checkpoint(
        path, TrainingPlan(patterns=2, recipe=SHORT, members=(0, 1))
    )
    with safe_open(path, framework="pt") as file:
        names, metadata = set(file.keys()), file.metadata()
    kinds = ("weights", "adam.step", "adam.exp_avg", "adam.exp_avg_sq")
    groups = {
        f"0/{kind}.{part}"
        for kind in kinds
        for part in ("f.gate", "g1.bias", "d.bias3")
    }
    assert names >= groups | {
        "0/weights.copula.phi",
        "0/losses",
        "0/order.controls",
        "0/stream.1",
    }
    assert (
        "0/adam.exp_avg.copula.phi" not in names
    )  # a copula that is not learnt has no moments
    assert json.loads(metadata["identity"])["recipe"] == dataclasses.asdict(SHORT)
    assert json.loads(metadata["states"])[0].keys() == {
        *("steps", "members", "cursors", "checks", "has_started", "trained")
    }
