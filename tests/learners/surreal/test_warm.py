"""Warm trainings: the map before D, held f, schedules, the judge of unseen people, resuming."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

from rindices.errors import InputError
from rindices.learners.inference import ContrastiveHead
from rindices.learners.outcome import TrainingOutcome
from rindices.learners.subsampling import draw_subsample
from rindices.learners.surreal import networks, step, supervised_start, train
from rindices.learners.surreal.ensemble_training import TrainingData, train_members, train_surreal_members
from rindices.learners.surreal.losses import LossTerms
from rindices.learners.surreal.networks import NetworkSizes, append_ones
from rindices.learners.surreal.recipe import get_recipe, recipe_to_dict
from rindices.learners.surreal.stopping import CHANCE_LOSS, held_out_discrimination_loss
from rindices.learners.surreal.training_state import TrainingPlan, make_training_state
from rindices.selection.agreement import pattern_c_index
from tests.learners.helpers import LinearCohort
from tests.learners.surreal.test_step import fill, prepare

BRIEF = get_recipe("default", start_steps=150, held_steps=30, max_steps=60, check_every=10)
TRUTH = LinearCohort(controls=90, patients=160, regions=24)
X = 1 + 0.1 * TRUTH.people


def room(chosen=BRIEF) -> TrainingData:
    return TrainingData.of(X, TRUTH.y, 2, chosen)


def group_of(chosen, members=(0, 1)):
    made = room(chosen)
    starts = {}
    for number in members:
        rng = np.random.default_rng(number)
        starts[number] = made.start(warm_seats(made, chosen, rng), 2, number)
    plan = TrainingPlan(2, chosen, members=tuple(members))
    x, y = (torch.as_tensor(made.scale_group(label), dtype=torch.float32) for label in (0, 1))
    return make_training_state(members, plan, x, y, starts), starts, made


def warm_seats(made, chosen, rng):
    return draw_subsample(made.y, chosen.share, rng)


def test_the_map_before_d_whitens_people_of_its_covariance() -> None:
    conditioner = supervised_start._make_conditioner(TRUTH.noise[:24, :24])
    rng = np.random.default_rng(0)
    people = 1 + 0.1 * rng.multivariate_normal(np.zeros(24), TRUTH.noise[:24, :24], size=40_000)
    shown = (append_ones(torch.as_tensor(people)) @ conditioner).numpy()
    np.testing.assert_allclose(shown[:, -1], 1)
    np.testing.assert_allclose(shown[:, :-1].mean(axis=0), 0, atol=0.003)
    np.testing.assert_allclose(np.cov(shown[:, :-1].T), 0.01 * np.eye(24), atol=5e-4)


def test_gradients_through_the_map_are_autograds() -> None:
    chosen = get_recipe("paper", learning_rate=8e-4, conditioning="controls")
    stack, work = prepare(NetworkSizes(7, 2), 2, 5, chosen, torch.float64)
    rng = np.random.default_rng(1)
    root = rng.normal(size=(7, 7))
    stack.conditioner = torch.stack([supervised_start._make_conditioner(root @ root.T + np.eye(7) * k) for k in (1, 2)])
    fill(work, torch.Generator().manual_seed(1), sd=0.6)
    before = {name: w.clone() for name, w in networks.named_weights(stack.weights.networks).items()}
    step.take_step(stack, work)
    for member in range(2):
        d = networks.Perceptron(
            *(
                before[f"d.{n}"][member][None].clone().requires_grad_() if f"d.{n}" in before else None
                for n in networks.Perceptron._fields
            )
        )
        shown = work.pair[member] @ stack.conditioner[member]
        top = networks.apply_perceptron(d, shown[None]).top[0]
        labels = torch.repeat_interleave(torch.tensor([0, 1]), 5)
        loss = 2 * torch.nn.functional.cross_entropy(top, labels)
        loss.backward()
        torch.testing.assert_close(work.grads.networks.d.weight1[member], d.weight1.grad[0])
    # f: what reaches y' through the updated D, by finite differences of the adversarial loss alone
    alone = chosen.replace(change=0, decomposition=0, reconstruction=0, orthogonality=0, monotonicity=0, near_zero=0)
    stack, work = prepare(NetworkSizes(7, 2), 1, 5, alone, torch.float64)
    stack.conditioner = supervised_start._make_conditioner(root @ root.T + np.eye(7))[None]
    fill(work, torch.Generator().manual_seed(1), sd=0.6)
    start = stack.weights.networks.f.decode2.clone()
    rest = networks.Transformation(*(w.clone() for w in stack.weights.networks.f))
    step.take_step(stack, work)
    d = stack.weights.networks.d
    decode2 = start.requires_grad_()
    change = networks.apply_transformation(rest._replace(decode2=decode2), work.controls, work.z_rows).change
    y = append_ones(work.controls + change.view(1, 5, -1, 7)[:, :, 0]) @ stack.conditioner
    top = networks.apply_perceptron(d, y).top[0]
    torch.nn.functional.cross_entropy(top, torch.ones(5, dtype=torch.long)).backward()
    torch.testing.assert_close(work.grads.networks.f.decode2, decode2.grad, rtol=1e-8, atol=1e-10)


def test_f_is_held_and_then_let_go_gently() -> None:
    group, _, _ = group_of(BRIEF.replace(telling_bar=0))
    f = torch.cat([w.flatten() for w in group.stack.weights.networks.f])
    g = group.stack.weights.networks.g1.weight.clone()
    train.run_steps(group, 30)
    held = torch.cat([w.flatten() for w in group.stack.weights.networks.f])
    assert torch.equal(f, held)
    assert not torch.equal(g, group.stack.weights.networks.g1.weight)
    train.run_steps(group, 1)
    moved = torch.cat([w.flatten() for w in group.stack.weights.networks.f]) - held
    assert 0 < moved.abs().max() <= 3 * BRIEF.learning_rate  # fresh moments would have leapt 16 times the rate


def test_rates_decay_after_the_held_steps() -> None:
    assert [BRIEF.rate_factor(number) for number in (1, 30)] == [1.0, 1.0]
    factors = [BRIEF.rate_factor(number) for number in range(31, 61)]
    assert all(a > b for a, b in pairwise(factors))
    assert 0 < factors[-1] < 0.01 < 0.99 < factors[0] < 1
    assert BRIEF.replace(decay="constant").rate_factor(59) == 1.0


def test_f_learns_its_start() -> None:
    group, starts, made = group_of(BRIEF.replace(start_steps=1500), members=(0,))
    rng = np.random.default_rng(0)
    controls = made.shifts[made.y == 0]
    z = rng.random((len(controls), 2))
    wanted = starts[0].prior.severities(z) @ starts[0].patterns.T
    x = torch.as_tensor(1 + 0.1 * controls, dtype=torch.float32)[None]
    change = networks.apply_transformation(
        group.stack.weights.networks.f, x, append_ones(torch.as_tensor(z, dtype=torch.float32))[None]
    ).change[0]
    error = 10 * change.numpy() - wanted
    assert (error**2).mean() < 0.03 * (wanted**2).mean()


def test_the_judge_stops_members_that_fool_it_and_no_others() -> None:
    terms = LossTerms(*(torch.full((2,), 0.5) for _ in LossTerms._fields))
    fooled = torch.tensor([True, False])
    assert train.decide_outcomes(terms, 20, BRIEF, fooled) == [None, None]  # f is held still
    assert train.decide_outcomes(terms, 30, BRIEF, fooled) == [TrainingOutcome.CONVERGED, None]
    assert train.decide_outcomes(terms, 60, BRIEF, fooled) == [TrainingOutcome.CONVERGED, TrainingOutcome.CONVERGED]
    assert (
        train.decide_outcomes(terms, 60, get_recipe("paper", min_steps=0, max_steps=60))[0]
        is TrainingOutcome.STEP_LIMIT
    )


def test_d_tells_unseen_people_where_f_is_wrong_and_not_where_it_is_right() -> None:
    many = LinearCohort(controls=500, patients=500, regions=24)
    chosen = BRIEF.replace(start_steps=800, held_steps=600, max_steps=700, telling_bar=0)
    made = TrainingData.of(1 + 0.1 * many.people, many.y, 2, chosen)
    seats = warm_seats(made, chosen, np.random.default_rng(0))
    good = made.start(seats, 2, 0)
    bad = good._replace(patterns=np.zeros_like(good.patterns))
    x, y = (torch.as_tensor(made.scale_group(label), dtype=torch.float32) for label in (0, 1))
    group = make_training_state((0, 1), TrainingPlan(2, chosen, members=(0, 1)), x, y, {0: good, 1: bad})
    train.run_steps(group, 600)
    right, wrong = (held_out_discrimination_loss(group) / CHANCE_LOSS).tolist()
    assert right > 0.97 > 0.6 > wrong


def test_default_members_rank_severities_and_bring_evidence() -> None:
    members = train_surreal_members(X, TRUTH.y, 2, (0, 1), 0, recipe_to_dict(BRIEF))
    for member in members:
        assert isinstance(member.head, ContrastiveHead)
        assert member.outcome is TrainingOutcome.CONVERGED
        assert pattern_c_index(TRUTH.z, member.head.infer(X[TRUTH.y == 1])).mean > 0.8
        assert member.evidence is not None
        assert member.evidence[0] > 0.7
        assert member.patterns.shape == (4, 2, 24)
    assert not np.array_equal(members[0].head.weights, members[1].head.weights)  # other people, other member


def test_evidence_is_trained_as_far_as_the_members_were() -> None:
    never = BRIEF.replace(telling_bar=5.0)  # a bar that no D reaches
    stopped, trained = (
        train_surreal_members(X, TRUTH.y, 2, (0,), 0, recipe_to_dict(chosen))
        for chosen in (BRIEF.replace(telling_bar=0.01), never)
    )
    assert (stopped[0].steps, trained[0].steps) == (30, 60)
    assert stopped[0].evidence != trained[0].evidence


def test_warm_members_that_read_by_g_bring_evidence_too() -> None:
    chosen = BRIEF.replace(straighten=False, inverse="g", telling_bar=5.0)
    (member,) = train_surreal_members(X, TRUTH.y, 2, (0,), 0, recipe_to_dict(chosen))
    assert member.head.kind == "surreal"
    assert member.evidence is not None
    assert 0 <= member.evidence[0] <= 1


def test_groups_may_come_interleaved() -> None:
    rng = np.random.default_rng(0)
    mixed = np.empty(250, dtype=int)  # controls and patients among each other, each group in its own order
    places = rng.permutation(250)
    mixed[np.sort(places[:90])], mixed[np.sort(places[90:])] = np.arange(90), 90 + np.arange(160)
    assert not np.array_equal(TRUTH.y[mixed], TRUTH.y)
    first = train_members(room(), TrainingPlan(2, BRIEF, members=(0,)))[0]
    same = train_members(TrainingData.of(X[mixed], TRUTH.y[mixed], 2, BRIEF), TrainingPlan(2, BRIEF, members=(0,)))[0]
    assert np.array_equal(same.head.weights, first.head.weights)


def test_people_in_another_order_give_as_good_a_member() -> None:
    shuffled = np.random.default_rng(0).permutation(250)
    found = train_members(
        TrainingData.of(X[shuffled], TRUTH.y[shuffled], 2, BRIEF), TrainingPlan(2, BRIEF, members=(0,))
    )[0]
    assert pattern_c_index(TRUTH.z, found.head.infer(X[TRUTH.y == 1])).mean > 0.8


@pytest.mark.parametrize("bar", [0.01, 5.0])  # members that stop at their start, and members that train on
def test_threads_of_the_machine_change_no_byte(bar: float) -> None:
    many = LinearCohort(controls=492, patients=900, regions=139)  # enough for a second thread to be used
    values = recipe_to_dict(BRIEF.replace(telling_bar=bar, start_steps=40, held_steps=10, max_steps=20))
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            with threadpool_limits(threads):
                found += train_surreal_members(1 + 0.1 * many.people, many.y, 2, (0,), 0, values)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    one, two = found
    assert np.array_equal(one.head.weights, two.head.weights)
    assert np.array_equal(one.patterns, two.patterns)
    assert one.evidence == two.evidence


def test_an_interrupted_warm_training_resumes_number_for_number(tmp_path: Path) -> None:
    chosen = BRIEF.replace(telling_bar=0)
    made = room(chosen)
    plan = TrainingPlan(2, chosen, members=(0, 1))
    starts = {n: made.start(warm_seats(made, chosen, np.random.default_rng(n)), 2, n) for n in (0, 1)}
    people = made.scale_group(0), made.scale_group(1)
    straight = train.train_stacks(*people, plan, starts=starts)
    path = tmp_path / "members.safetensors"

    def interrupt(_members: tuple[int, ...], steps: int, _terms: LossTerms) -> None:
        if steps == 50:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train.train_stacks(*people, plan, starts=starts, path=path, save_every=20, look=interrupt)
    resumed = train.train_stacks(*people, plan, starts=starts, path=path, save_every=20)
    for a, b in zip(straight, resumed, strict=True):
        assert all(torch.equal(a.weights[name], b.weights[name]) for name in a.weights)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"start": "warm"}, "start is 'warm'"),
        ({"share": 0.0}, "share is 0.0"),
        ({"averaging": 0.9}, "'averaging' was removed"),
        ({"held_steps": 5_000}, "held_steps is 5000"),
        ({"inverse": "g"}, "g reads volumes"),
        ({"start": "ica"}, "conditioning='controls'"),
    ],
)
def test_recipes_that_cannot_be_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        get_recipe("default", **wrong)


def test_every_element_can_be_switched_off_alone() -> None:
    """What the ablation does: each variant trains, infers, and gives numbers of its own."""
    plain = get_recipe("paper", min_steps=0, max_steps=20, check_every=10)
    changes = (
        {},
        {"conditioning": "controls"},
        {"inverse": "refit"},
        {"share": 0.8},
        {"start": "ica", "start_steps": 20},
        {"decay": "cosine"},
    )
    found = []
    for change in changes:
        members = train_members(room(plain.replace(**change)), TrainingPlan(2, plain.replace(**change), members=(0, 1)))
        found.append(members[0].head.infer(X[TRUTH.y == 1]))
    assert all(np.isfinite(r).all() for r in found)
    assert all(np.abs(a - b).max() > 1e-6 for place, a in enumerate(found) for b in found[:place])
