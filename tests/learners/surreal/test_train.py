"""The loop: outcomes, histories, checkpoints, workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from rindices.errors import RindicesError
from rindices.learners.outcome import TrainingOutcome
from rindices.learners.surreal import checkpoint, networks
from rindices.learners.surreal.batches import make_batch_sampler
from rindices.learners.surreal.losses import LossTerms
from rindices.learners.surreal.recipe import get_recipe
from rindices.learners.surreal.train import train_stacks
from rindices.learners.surreal.training_state import TrainedMember, TrainingPlan

SHORT = get_recipe("paper", min_steps=20, max_steps=60, check_every=10)
PEOPLE = (
    1 + 0.1 * np.random.default_rng(0).standard_normal((40, 9)),
    1 + 0.1 * np.random.default_rng(1).standard_normal((90, 9)),
)


def same(first: list[TrainedMember], second: list[TrainedMember]) -> bool:
    return all(
        a.member == b.member
        and a.outcome is b.outcome
        and np.array_equal(a.history, b.history)
        and all(torch.equal(a.weights[name], b.weights[name]) for name in a.weights)
        for a, b in zip(first, second, strict=True)
    )


def test_the_same_seed_gives_the_same_bytes() -> None:
    plan = TrainingPlan(2, SHORT, members=(0, 1, 2), stack=2)
    first = train_stacks(*PEOPLE, plan)
    assert same(first, train_stacks(*PEOPLE, plan))
    assert same(first, train_stacks(*PEOPLE, plan, workers=2))
    other = train_stacks(*PEOPLE, TrainingPlan(2, SHORT, seed=1, members=(0, 1, 2), stack=2))
    assert not same(first, other)


def test_a_member_does_not_depend_on_the_other_stacks() -> None:
    both = train_stacks(*PEOPLE, TrainingPlan(2, SHORT, members=(0, 1), stack=1))
    assert same(both[1:], train_stacks(*PEOPLE, TrainingPlan(2, SHORT, members=(1,))))


def test_a_member_that_never_meets_the_bars_reaches_the_limit() -> None:
    (only,) = train_stacks(*PEOPLE, TrainingPlan(2, SHORT))
    assert only.outcome is TrainingOutcome.STEP_LIMIT
    assert only.steps == 60
    assert only.history.shape == (6, 1 + len(LossTerms._fields))
    assert only.history[:, 0].tolist() == [10, 20, 30, 40, 50, 60]


def test_a_member_below_the_bars_stops_after_the_minimum() -> None:
    easy = SHORT.replace(reconstruction_bar=1e3, monotonicity_bar=1e3)
    (only,) = train_stacks(*PEOPLE, TrainingPlan(2, easy))
    assert only.outcome is TrainingOutcome.CONVERGED
    assert only.steps == 20


def test_members_leave_a_stack_one_by_one() -> None:
    free = SHORT.replace(min_steps=0)
    plan = TrainingPlan(2, free, members=(0, 1, 2), stack=3)
    losses = {
        m.member: m.history[:, 1 + LossTerms._fields.index("reconstruction")] for m in train_stacks(*PEOPLE, plan)
    }
    firsts = sorted(float(row[0]) for row in losses.values())
    bar = (firsts[0] + firsts[1]) / 2
    eager = TrainingPlan(2, free.replace(reconstruction_bar=bar, monotonicity_bar=1e3), members=(0, 1, 2), stack=3)
    trained = train_stacks(*PEOPLE, eager)
    assert [m.member for m in trained] == [0, 1, 2]
    assert min(m.steps for m in trained) == 10
    assert max(m.steps for m in trained) > 10


def test_a_diverging_member_is_named_and_the_others_go_on() -> None:
    wild = SHORT.replace(explosion_bar=1e-6)
    (only,) = train_stacks(*PEOPLE, TrainingPlan(2, wild))
    assert only.outcome is TrainingOutcome.DIVERGED
    assert only.steps == 10


@pytest.mark.parametrize("stack", [1, 3])
def test_resuming_continues_number_for_number(tmp_path: Path, stack: int) -> None:
    plan = TrainingPlan(2, SHORT, members=(0, 1, 2), stack=stack)
    straight = train_stacks(*PEOPLE, plan)
    path = tmp_path / "members.safetensors"

    class StopHereError(Exception):
        pass

    def interrupt(_members: tuple[int, ...], steps: int, _terms: LossTerms) -> None:
        if steps == 50:
            raise StopHereError

    with pytest.raises(StopHereError):
        train_stacks(*PEOPLE, plan, path=path, save_every=20, look=interrupt)
    assert path.exists()
    assert same(straight, train_stacks(*PEOPLE, plan, path=path, save_every=20))
    assert same(straight, train_stacks(*PEOPLE, plan, path=path))  # all done: nothing to train
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


KILLED = """
import sys
import numpy as np
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_train import PEOPLE, SHORT, TrainingPlan, train_stacks
plan = TrainingPlan(2, SHORT.replace(max_steps=4000), members=(0, 1))
train_stacks(*PEOPLE, plan, path=Path(sys.argv[1]), save_every=50)
"""


def test_a_killed_process_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "members.safetensors"
    here = Path(__file__).parent
    source = Path(checkpoint.__file__).parents[3]
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(path), str(here)], env=environment)
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    plan = TrainingPlan(2, SHORT.replace(max_steps=4000), members=(0, 1))
    assert same(train_stacks(*PEOPLE, plan), train_stacks(*PEOPLE, plan, path=path))


def test_bad_tables_are_refused_with_a_cure() -> None:
    controls, patients = PEOPLE
    with pytest.raises(RindicesError, match="same regions"):
        train_stacks(controls[:, :5], patients, TrainingPlan(2, SHORT))
    holes = patients.copy()
    holes[7, 2] = np.nan
    with pytest.raises(RindicesError, match=r"rows \[7\]"):
        train_stacks(controls, holes, TrainingPlan(2, SHORT))
    with pytest.raises(RindicesError, match="people x regions"):
        train_stacks(controls[0], patients, TrainingPlan(2, SHORT))


@pytest.mark.parametrize(
    "wrong",
    [{"patterns": 0}, {"stack": 0}, {"members": ()}, {"members": (1, 1)}, {"dtype": "int8"}],
)
def test_impossible_plans_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(RindicesError, match="plan"):
        TrainingPlan(**({"patterns": 2} | wrong))  # type: ignore[arg-type]


def test_a_pass_visits_each_person_once() -> None:
    controls, patients = torch.arange(10.0)[:, None], 100 + torch.arange(30.0)[:, None]
    batches = make_batch_sampler(controls, patients, members=2)
    streams = [torch.Generator().manual_seed(seed) for seed in (0, 1)]
    people, seen = torch.zeros(2, 10, 2), []
    for _ in range(6):
        batches.fill(people, streams)
        seen.append(people[:, :, 0].clone())
    patients_seen = torch.cat([batch[:, 5:] for batch in seen], dim=1).sort(dim=1).values
    assert torch.equal(patients_seen, (100 + torch.arange(30.0)).repeat(2, 1))
    first_pass = torch.cat([batch[:, :5] for batch in seen[:2]], dim=1)
    assert torch.equal(first_pass.sort(dim=1).values, torch.arange(10.0).repeat(2, 1))
    assert not torch.equal(first_pass[0], first_pass[1])


def test_inference_gives_one_number_per_pattern() -> None:
    (only,) = train_stacks(*PEOPLE, TrainingPlan(3, SHORT))
    weights = networks.allocate_weights(networks.NetworkSizes(9, 3), 1, torch.zeros(()))
    for name, tensor in networks.named_weights(weights.networks).items():
        tensor[0].copy_(only.weights[name])
    y = torch.as_tensor(PEOPLE[1], dtype=torch.float32)
    assert networks.infer_r_indices(weights.networks, y[None]).shape == (1, 90, 3)


def test_threads_of_the_machine_change_no_byte() -> None:
    plan = TrainingPlan(2, SHORT, members=(0, 1))
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            found.append(train_stacks(*PEOPLE, plan))
    finally:
        torch.set_num_threads(before)
    assert same(found[0], found[1])
    assert same(found[0], found[2])
