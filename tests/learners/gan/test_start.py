"""The start of a training: the linear solution, f and g that learn it, normal
variation, and starts that are shared.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.covariance import ledoit_wolf

from rindices.errors import InputError, RindicesError
from rindices.learners.contrastive.estimator import ContrastiveICA
from rindices.learners.gan import start
from rindices.learners.gan.callbacks import Callback, TrainingEvent
from rindices.learners.gan.networks import SurrealNetworks
from rindices.learners.gan.recipe import SURREAL_GAN, Recipe, TrainingPlan
from rindices.learners.gan.state import (
    BatchSampler,
    NormalVariation,
    make_training_state,
)
from rindices.learners.gan.train import prepare_starts, train_stacks
from tests.learners.gan.helpers import PEOPLE, are_equal
from tests.learners.helpers import LinearCohort

BRIEF_START = SURREAL_GAN.replace(
    start_steps=20, warm_steps=10, min_steps=20, max_steps=40, check_every=10
)
TENSORS = tuple(torch.as_tensor(group, dtype=torch.float32) for group in PEOPLE)


def prepare(cohort: LinearCohort) -> tuple[np.ndarray, np.ndarray]:
    mean, scale = cohort.controls.mean(axis=0), cohort.controls.std(axis=0)
    return 1 + 0.1 * (cohort.controls - mean) / scale, 1 + 0.1 * (
        cohort.patients - mean
    ) / scale


def test_the_teacher_adds_the_contrastive_patterns_after_the_log_transform() -> None:
    rng = np.random.default_rng(0)
    controls = np.exp(rng.normal(7, 0.12, (120, 12)))
    patients = np.exp(rng.normal(7, 0.12, (200, 12))) * (
        1 - 0.5 * rng.random((200, 2))[:, np.arange(12) % 2]
    )
    mean, scale = controls.mean(axis=0), controls.std(axis=0)
    controls, patients = (
        1 + 0.1 * (controls - mean) / scale,
        1 + 0.1 * (patients - mean) / scale,
    )
    teacher = start.LinearTeacher.fit([(controls, patients)], 2, [5])
    fitted = ContrastiveICA(2, random_state=5).fit(
        np.concatenate([controls, patients]), np.repeat([0, 1], [120, 200])
    )
    z = rng.random((120, 2))
    change = teacher.compute_change(
        torch.as_tensor(controls)[None], torch.as_tensor(z)[None]
    )[0].numpy()
    shifts = fitted.head_.prepare(controls + change) - fitted.head_.prepare(controls)
    unit = 2 * fitted.transform(patients).mean(
        axis=0
    )  # the mean severity of patients is that of z
    is_above_the_tangent = 1 + fitted.log_constant_ * (controls - 1) / 0.1 > 0.2
    np.testing.assert_allclose(
        shifts[is_above_the_tangent],
        ((z * unit) @ fitted.shifts_)[is_above_the_tangent],
        atol=1e-6,
    )
    assert fitted.log_constant_ > 0.05


def test_f_and_g_learn_the_linear_solution() -> None:
    cohort = LinearCohort(controls=300, patients=600)
    people = [torch.as_tensor(group, dtype=torch.float32) for group in prepare(cohort)]
    plan = TrainingPlan(
        patterns=2,
        recipe=SURREAL_GAN.replace(start_steps=800, warm_steps=300),
        members=(0, 1),
    )
    errors = []
    state = start.start_stack(
        (0, 1), plan, *people, lambda step, terms: errors.append(terms)
    )
    assert errors[799]["regression"].max() < 0.2 * errors[0]["regression"].min()
    assert (
        errors[-1]["reconstruction"].max() < 0.3 * errors[800]["reconstruction"].min()
    )
    z = torch.eye(2).expand(2, -1, -1)
    change = (
        state.stack.networks.f.decode(
            state.stack.networks.f.encode(torch.ones(2, 2, 40)), z
        )
        / 0.1
    )
    scale = cohort.controls.std(axis=0)
    for member in change.detach().numpy():
        truth = cohort.patterns.T / scale
        matched = np.corrcoef(member, truth)[:2, 2:].max(axis=0)
        assert (matched > 0.85).all(), matched


def test_f_is_frozen_while_g_and_d_learn() -> None:
    state = make_training_state(
        (0,), TrainingPlan(patterns=2, recipe=BRIEF_START), *TENSORS
    )
    before = state.stack.networks.get_member(0)
    start.train_inversion(state, lambda step, terms: None)
    after = state.stack.networks.get_member(0)
    moved = {
        name.partition(".")[0]
        for name in before
        if not torch.equal(before[name], after[name])
    }
    assert moved == {"g1", "g2", "d"}


def test_without_a_change_all_people_vary_as_controls_do() -> None:
    controls, patients = PEOPLE
    f = SurrealNetworks(1, 9, 2).f  # its weights are zero
    residuals = np.concatenate([controls, patients]) - controls.mean(axis=0)
    expected = ledoit_wolf(residuals, assume_centered=True)[0]
    np.testing.assert_allclose(
        start.estimate_covariance(f, controls, patients), expected, rtol=1e-4, atol=1e-7
    )


def test_the_covariance_of_people_without_disease_is_found_in_patients() -> None:
    cohort = LinearCohort(controls=60, patients=1000)
    controls, patients = prepare(cohort)
    people = [
        torch.as_tensor(group, dtype=torch.float32) for group in (controls, patients)
    ]
    plan = TrainingPlan(
        patterns=2,
        recipe=SURREAL_GAN.replace(start_steps=1500, warm_steps=1, share=1.0),
    )
    state = start.start_stack((0,), plan, *people)
    assert state.batches.normal is not None
    root = state.batches.normal.root[0].double().numpy()
    truth = 0.01 * cohort.noise / np.outer(*[cohort.controls.std(axis=0)] * 2)
    few, all_people = (
        np.linalg.norm(each - truth)
        for each in (ledoit_wolf(controls)[0], root.T @ root)
    )
    assert all_people < 0.8 * few


def test_controls_are_drawn_from_the_normal_variation() -> None:
    plan = TrainingPlan(
        patterns=2,
        recipe=SURREAL_GAN.replace(start="random", share=1.0),
        members=(0, 1),
    )
    state = start.start_stack((0, 1), plan, *TENSORS)
    assert state.batches.normal is not None
    drawn = state.batches.normal.draw(20_000, state.stack.streams)
    for member in drawn.double().numpy():
        np.testing.assert_allclose(
            member.mean(axis=0), PEOPLE[0].mean(axis=0), atol=5e-3
        )
        np.testing.assert_allclose(
            np.cov(member.T), ledoit_wolf(PEOPLE[0])[0], atol=5e-4
        )
    assert not torch.equal(drawn[0], drawn[1])


def test_each_member_starts_from_its_own_people() -> None:
    plan = TrainingPlan(patterns=2, recipe=BRIEF_START, members=(0, 1))
    both = start.start_stack((0, 1), plan, *TENSORS)
    alone = start.start_stack((1,), plan, *TENSORS)
    assert not torch.equal(
        both.batches.orders[1][0].sort().values, both.batches.orders[1][1].sort().values
    )
    for name, weight in alone.stack.networks.get_member(0).items():
        torch.testing.assert_close(
            weight, both.stack.networks.get_member(1)[name], rtol=0, atol=1e-4, msg=name
        )


def test_trainings_at_several_lambdas_log_constant_a_start(tmp_path: Path) -> None:
    plans = [
        TrainingPlan(
            patterns=2,
            recipe=BRIEF_START.replace(orthogonality=weight),
            members=(0, 1, 2),
            stack=2,
        )
        for weight in (0.1, 0.8)
    ]
    path = tmp_path / "starts.safetensors"
    starts = prepare_starts(*PEOPLE, plans[0], path=path)
    again = prepare_starts(*PEOPLE, plans[1], path=path)
    trained = [train_stacks(*PEOPLE, plan) for plan in plans]
    for kept in (starts, again):
        for plan, expected in zip(plans, trained, strict=True):
            assert are_equal(expected, train_stacks(*PEOPLE, plan, starts=kept))
    assert not are_equal(*trained)
    with pytest.raises(
        RindicesError,
        match="the starts belong to another training, which differs in seed",
    ):
        train_stacks(
            *PEOPLE,
            TrainingPlan(
                patterns=2, recipe=BRIEF_START, seed=1, members=(0, 1, 2), stack=2
            ),
            starts=starts,
        )


class _Interruption(Callback):
    """Interrupts a training as Ctrl+C does, in its start or at a step of
    the training.
    """

    def __init__(self, phase: str, step: int) -> None:
        self.phase, self.step = phase, step

    def on_check(self, event: TrainingEvent) -> None:
        if event.phase == self.phase and event.step >= self.step:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("phase", "step"), [("start", 7), ("start", 25), ("training", 20)]
)
def test_an_interrupted_training_goes_on_with_the_same_numbers(
    phase: str, step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rindices.learners.gan.callbacks.SECONDS_BETWEEN_EVENTS", 0.0)
    plan, path = (
        TrainingPlan(patterns=2, recipe=BRIEF_START, members=(0, 1, 2), stack=2),
        tmp_path / "members.safetensors",
    )
    with pytest.raises(KeyboardInterrupt):
        train_stacks(
            *PEOPLE,
            plan,
            path=path,
            save_every=10,
            callbacks=[_Interruption(phase, step)],
        )
    assert path.exists()
    assert are_equal(
        train_stacks(*PEOPLE, plan), train_stacks(*PEOPLE, plan, path=path, workers=2)
    )


def test_too_few_people_for_the_patterns_are_refused() -> None:
    with pytest.raises(RindicesError, match="2 patients cannot give 2 patterns"):
        train_stacks(
            PEOPLE[0], PEOPLE[1][:2], TrainingPlan(patterns=2, recipe=BRIEF_START)
        )


def test_noise_of_d_has_the_covariance_of_normal_variation() -> None:
    mean, root = (
        torch.ones(1, 1, 3),
        torch.tensor([[[1.0, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 2.0]]]),
    )
    people = torch.ones(20_000, 3)
    batches = BatchSampler(
        table=people,
        orders=[torch.arange(20_000)[None]] * 2,
        cursors=[0, 0],
        batch=20_000,
        normal=NormalVariation(mean, root),
    )
    noise = batches.draw_noise(0.5, [torch.Generator().manual_seed(0)])
    assert noise is not None
    assert noise.shape == (1, 40_000, 3)
    np.testing.assert_allclose(noise[0].mean(dim=0), 0.0, atol=0.02)
    np.testing.assert_allclose(
        np.cov(noise[0].numpy(), rowvar=False), 0.25 * (root[0].mT @ root[0]), atol=0.03
    )


def test_noise_without_a_covariance_is_refused() -> None:
    with pytest.raises(
        InputError,
        match=r"instance_noise has no C to be drawn from\. Give draw_controls='normal'",
    ):
        Recipe(instance_noise=1.0)
