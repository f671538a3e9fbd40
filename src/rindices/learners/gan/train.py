"""Training (Algorithm 1): members step until they converge, diverge or reach the step limit.

A step updates D on the adversarial loss and then f, g1 and g2 together on the full objective.

Members are trained in small stacks. Stacks are independent, so the numbers of a member do not depend on the other
stacks, on their order or on the number of workers.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rindices._typing import FloatArray
from rindices.learners.ensemble import Member, TrainingOutcome
from rindices.learners.gan import losses
from rindices.learners.gan.losses import LossTerms
from rindices.learners.gan.networks import SurrealNetworks
from rindices.learners.gan.recipe import Recipe, TrainingPlan
from rindices.learners.gan.state import Checkpoint, MemberStack, TrainedMember, TrainingState
from rindices.learners.inference import SEVERITY_LEVELS, SurrealHead
from rindices.learners.prepared_people import PreparedPeople
from rindices.preprocess.standardise import CONTROL_SD
from rindices.threads import limit_blas_threads


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch and numpy's linear algebra to one thread; also works as a decorator."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with limit_blas_threads():
            yield
    finally:
        torch.set_num_threads(before)


@one_thread()
def train_surreal_members(
    people: PreparedPeople, plan: TrainingPlan, checkpoint: Path | None = None, workers: int = 1, device: str = "cpu"
) -> list[Member]:
    """Train the members of a plan.

    people: controls have mean 1 and standard deviation 0.1; plan: members, recipe and seed; checkpoint: file to save
    the state to while training, and to resume from; workers, device: see :func:`train_stacks`.
    """
    controls, patients = people.X[people.y == 0], people.X[people.y == 1]
    trained = train_stacks(controls, patients, plan, path=checkpoint, workers=workers, device=device)
    return [
        Member(each.member, each.outcome, each.steps, extract_head(each.weights), _compute_shift_curves(each, controls))
        for each in trained
    ]


def train_stacks(
    controls: NDArray[np.floating] | Tensor,
    patients: NDArray[np.floating] | Tensor,
    plan: TrainingPlan,
    *,
    device: str = "cpu",
    workers: int = 1,
    path: Path | None = None,
    save_every: int = 2_000,
) -> list[TrainedMember]:
    """Train all members of a plan.

    controls, patients: regions scaled as 1 + 0.1 x (v - control mean) / control sd, (N, R) each; plan: members, recipe
    and seed; device: device of the arithmetic; random numbers always come from the CPU; workers: threads, each with one
    stack at a time. The numbers do not depend on it; path: checkpoint file. If it exists, training resumes from it with
    the same numbers; save_every: steps between checkpoints. Returns in the order of ``plan.members``. Raises
    RindicesError: if the checkpoint belongs to another training.
    """
    dtype = getattr(torch, plan.dtype)
    x, y = (torch.as_tensor(people).to(device, dtype) for people in (controls, patients))
    checkpoint = Checkpoint.begin(path, plan, x, y)
    stop = threading.Event()
    with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        while any(state.running for state in checkpoint.states):
            until = min(state.steps for state in checkpoint.states if state.running) + save_every
            train_until = functools.partial(train_stack, recipe=plan.recipe, until=until, stop=stop)
            futures = [pool.submit(train_until, state) for state in checkpoint.states]
            try:
                for future in futures:
                    future.result()
            except KeyboardInterrupt:  # stop at the next check and save what was done
                stop.set()
                wait(futures)
                checkpoint.save()
                raise
            checkpoint.save()
    trained = {member.member: member for state in checkpoint.states for member in state.trained}
    return [trained[member] for member in plan.members]


def train_stack(state: TrainingState, recipe: Recipe, until: int, stop: threading.Event | None = None) -> None:
    """Train a stack to the first check at or after step ``until``, or until its last member stops.

    Checks are at multiples of ``recipe.check_every`` whatever ``until`` is, so that an interruption changes no number.
    """
    every = recipe.check_every
    while state.running and state.steps < until and not (stop is not None and stop.is_set()):
        next_check = min((state.steps // every + 1) * every, recipe.max_steps)
        terms = run_steps(state, next_check - state.steps)
        state.stack.history = state.stack.history.append(state.steps, terms)
        release_stopped_members(state, terms, recipe)


def run_steps(state: TrainingState, steps: int) -> LossTerms:
    """Take a number of steps and return the mean of each loss over them."""
    total = torch.stack(take_step(state.stack, *state.batches.draw(state.stack.streams)))
    for _ in range(steps - 1):
        total += torch.stack(take_step(state.stack, *state.batches.draw(state.stack.streams)))
    return LossTerms(*(total / steps))


def take_step(stack: MemberStack, x: Tensor, y: Tensor) -> LossTerms:
    """Update all networks on controls x and patients y, (S, B, R) each; return the losses before the updates."""
    networks, recipe, phi = stack.networks, stack.recipe, stack.networks.copula.phi
    stack.steps += 1
    rate = recipe.compute_rate(stack.steps)
    z = losses.draw_severities(stack.streams, x.shape[1], recipe.near_zero_bound, phi, recipe.correlated)
    code = networks.f.encode(x)
    change = losses.ByRole(*(networks.f.decode(code, severities) for severities in z))
    synthetic = x + change.drawn  # y' = f(x, z)
    # theta_D: l_c(D(y), e_1) + l_c(D(y'), e_0)
    logits = networks.judge(torch.cat([synthetic.detach(), y], dim=1))
    discrimination = losses.discrimination_loss(*logits.chunk(2, dim=1))
    update_networks(stack, {"d": recipe.discriminator_ratio}, discrimination, rate)
    # theta_f, theta_g1 and theta_g2: the weighted sum of all other losses, with g1 and g2 applied to y'
    fake = networks.judge(synthetic)
    inverted, singles = synthetic, change.singles
    if recipe.detached_inversion:
        inverted, singles = inverted.detach(), singles.detach()
    shares = networks.g1(inverted)
    terms = LossTerms(
        discrimination=discrimination,
        adversarial=losses.adversarial_loss(fake),
        change=losses.change_loss(change.drawn),
        decomposition=losses.decomposition_loss(shares, singles),
        reconstruction=losses.reconstruction_loss(networks.reconstruct(shares), z.singles),
        orthogonality=losses.orthogonality_loss(change.singles),
        monotonicity=losses.monotonicity_loss(change.drawn, change.higher),
        near_zero=losses.near_zero_loss(change.near_zero),
    )
    if recipe.correlated and stack.steps > recipe.copula_after:
        divergence = losses.copula_loss(fake, phi, recipe.copula_divergence)
        update_networks(stack, {"copula": recipe.copula_ratio}, divergence, rate)
    objective = torch.stack([weight * getattr(terms, name) for name, weight in asdict(recipe.weights).items()])
    update_networks(stack, {"f": recipe.f_ratio, "g": 1.0}, objective, rate)
    return LossTerms(*(term.detach() for term in terms))


def update_networks(stack: MemberStack, ratios: Mapping[str, float], loss: Tensor, rate: float) -> None:
    """Take a step of Adam on the sum of a loss, and clip the weights of f and g.

    ratios: learning rate of each network of `NETWORKS_OF` that is updated, as a share of ``rate``.
    """
    optimisers, clip = {name: stack.optimisers[name] for name in ratios}, stack.recipe.clip
    parameters = [each for optimiser in optimisers.values() for each in optimiser.param_groups[0]["params"]]
    torch.autograd.backward(loss.sum(), inputs=parameters, retain_graph="copula" in ratios)
    for name, optimiser in optimisers.items():
        (group,) = optimiser.param_groups
        group["lr"] = rate * ratios[name]
        optimiser.step()
        optimiser.zero_grad()
        if name in ("f", "g"):
            for parameter in group["params"]:
                parameter.detach().clamp_(-clip, clip)


def release_stopped_members(state: TrainingState, terms: LossTerms, recipe: Recipe) -> None:
    """Move members that must stop to ``state.trained``, given their losses since the last check.

    A member has converged when its losses are below the bars and it has taken the recipe's least number of steps.
    """
    table, members = torch.stack(terms), state.stack.members
    finite = (torch.isfinite(table) & (table <= recipe.explosion_bar)).all(dim=0)
    below = (terms.reconstruction < recipe.reconstruction_bar) & (terms.monotonicity < recipe.monotonicity_bar)
    last = TrainingOutcome.STEP_LIMIT if state.steps >= recipe.max_steps else None
    running = []
    for position, (is_finite, met_bars) in enumerate(zip(finite.tolist(), below.tolist(), strict=True)):
        outcome = TrainingOutcome.CONVERGED if met_bars and state.steps >= recipe.first_stop else last
        outcome = outcome if is_finite else TrainingOutcome.DIVERGED
        if outcome is None:
            running.append(position)
        else:
            state.trained.append(_make_trained_member(state, position, outcome, met_bars))
    if len(running) < len(members):
        state.select_members(running)


def _make_trained_member(
    state: TrainingState, position: int, outcome: TrainingOutcome, met_bars: bool
) -> TrainedMember:
    stack = state.stack
    return TrainedMember(
        member=stack.members[position],
        outcome=outcome,
        met_bars=met_bars,
        steps=state.steps,
        weights=stack.networks.get_member(position),
        checks=torch.tensor(stack.history.steps),
        losses=stack.history.losses[position].clone(),
    )


def extract_head(weights: Mapping[str, Tensor]) -> SurrealHead:
    """Return g of one member from its named weights."""
    layers = (f"{kind}{layer}" for kind in ("weight", "bias") for layer in (1, 2, 3))
    g2 = {f"g2_{name}": weights[f"g2.{name}"].numpy() for name in layers}
    return SurrealHead(g1=torch.cat([weights["g1.weight"], weights["g1.bias"]]).numpy(), **g2)


@torch.inference_mode()
def _compute_shift_curves(trained: TrainedMember, controls: FloatArray) -> FloatArray:
    """Return the mean change of controls (N, R) under each pattern alone, (Q, M, R), in control sd."""
    f = SurrealNetworks.from_members([trained.weights]).double().f
    code = f.encode(torch.as_tensor(controls, dtype=torch.float64)[None])
    singles = torch.eye(f.gate.shape[1], dtype=torch.float64).expand(1, len(controls), -1, -1)
    changes = [f.decode(code, severity * singles) for severity in SEVERITY_LEVELS]
    return np.stack([change[0].mean(dim=0).numpy() / CONTROL_SD for change in changes])
