"""Training (Algorithm 1): members step until they converge, diverge or reach the step limit.

A step updates D on the adversarial loss and then f, g1 and g2 together on the full objective. It allocates nothing
large: all buffers are in a :class:`.gradients.Workspace`, and gradients are those of :mod:`.gradients`.

Members are trained in small stacks. Stacks are independent, so the numbers of a member do not depend on the other
stacks, on their order or on the number of workers.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.adam import adam

from rindices._typing import FloatArray
from rindices.errors import RindicesError
from rindices.learners.ensemble import Member, TrainingOutcome
from rindices.learners.gan import gradients, losses, networks
from rindices.learners.gan.gradients import Workspace
from rindices.learners.gan.losses import LossTerms
from rindices.learners.gan.networks import Transformation, append_ones
from rindices.learners.gan.recipe import Recipe, TrainingPlan
from rindices.learners.gan.state import Checkpoint, MemberStack, TrainedMember, TrainingState
from rindices.learners.inference import LEAKY_RELU_SLOPE, SEVERITY_LEVELS, SurrealHead
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
    RindicesError: if a table is not people x regions or has missing values, or the checkpoint belongs to another
    training.
    """
    dtype = getattr(torch, plan.dtype)
    x, y = (torch.as_tensor(people).to(device, dtype) for people in (controls, patients))
    _validate_inputs(x, y)
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


def _validate_inputs(controls: Tensor, patients: Tensor) -> None:
    for name, people in (("controls", controls), ("patients", patients)):
        if people.dim() != 2 or not len(people):
            raise RindicesError(f"{name} have shape {tuple(people.shape)}; give people x regions.")
        if not torch.isfinite(people).all():
            rows = torch.nonzero(~torch.isfinite(people).all(dim=1)).flatten()[:3].tolist()
            raise RindicesError(f"{name} have missing values, first in rows {rows}; drop or fill them.")
    if controls.shape[1] != patients.shape[1]:
        numbers = f"{controls.shape[1]} and {patients.shape[1]} regions"
        raise RindicesError(f"controls and patients have {numbers}; give the same regions.")


def train_stack(state: TrainingState, recipe: Recipe, until: int, stop: threading.Event | None = None) -> None:
    """Train a stack to the first check at or after step ``until``, or until its last member stops.

    Checks are at multiples of ``recipe.check_every`` whatever ``until`` is, so that an interruption changes no number.
    """
    every = recipe.check_every
    while state.running and state.steps < until and not (stop is not None and stop.is_set()):
        next_check = min((state.steps // every + 1) * every, recipe.max_steps)
        terms = run_steps(state, next_check - state.steps)
        release_stopped_members(state, terms, recipe)


@torch.inference_mode()
def run_steps(state: TrainingState, steps: int) -> LossTerms:
    """Take a number of steps and return the losses of the last one."""
    for number in range(1, steps + 1):
        state.batches.fill(state.work.people, state.stack.streams)
        terms = take_step(state.stack, state.work, with_losses=number == steps)
    state.steps += steps
    assert terms is not None
    return terms


def take_step(stack: MemberStack, work: Workspace, with_losses: bool = False) -> LossTerms | None:
    """Draw severities and update D, then f, g1 and g2, on the people in ``work``.

    stack: members, changed in place; work: ``work.people`` holds the batch, ``work.recipe`` the learning rates;
    with_losses: whether to compute the losses; training needs only their gradients. Returns losses of the batch, with
    the weights for which the gradients were taken.
    """
    nets, recipe = stack.weights.networks, work.recipe
    stack.step_count += 1
    # z, z' and z_cn; all changes in one pass of f, and y' = f(x, z)
    factor = losses.copula_factor(stack.weights.phi) if recipe.correlated else None
    losses.draw_severities(work.z, work.draws, stack.streams, recipe.near_zero_bound, factor)
    networks.apply_transformation(nets.f, work.controls, work.z_rows, work.f)
    work.fake_and_real.copy_(work.people)
    work.synthetic.add_(work.change.drawn)
    # theta_D: l_c(D(y), e_1) + l_c(D(y'), e_0)
    discrimination = _update_discriminator(stack, work, with_losses)
    # theta_f, theta_g1 and theta_g2: the weighted sum of all other losses, with g1 and g2 applied to y'
    gradients.adversarial_gradient(nets, work)
    torch.ops.aten.leaky_relu.out(work.synthetic_with_one, LEAKY_RELU_SLOPE, out=work.y_leaky)
    networks.apply_linear(work.y_leaky, nets.g1.weight, None, work.share_blocks)
    networks.apply_perceptron(nets.g2, work.share_rows, work.g2)
    terms = None if discrimination is None else _compute_losses(work, discrimination)
    gradients.reconstruction_gradient(nets, work)
    gradients.penalty_gradient(work)
    gradients.synthetic_gradient(nets, work)
    if recipe.correlated and stack.step_count > recipe.copula_after:
        _update_copula(stack, work)
    _update_generator(stack, work)
    return terms


def _update_discriminator(stack: MemberStack, work: Workspace, with_losses: bool) -> Tensor | None:
    """Train D to tell y' from y; return its loss if asked for."""
    d, b = stack.weights.networks.d, work.batch
    trace = networks.apply_perceptron(d, work.fake_and_real, work.d)
    loss = losses.discrimination_loss(trace.top[:, :b], trace.top[:, b:]) if with_losses else None
    gradients.cross_entropy_backward(trace.top, work.targets, 1 / b, work.d_d.top)
    gradients.perceptron_backward(d, trace, work.d_d)
    gradients.perceptron_weight_gradients(work.fake_and_real, trace, work.d_d, work.grads.networks.d)
    rate = work.recipe.learning_rate * work.recipe.discriminator_ratio
    adam_step_(stack, "discriminator", work.grads.discriminator, rate, work.recipe)
    return loss


def _compute_losses(work: Workspace, discrimination: Tensor) -> LossTerms:
    """Return the losses of the step whose activations are in ``work``."""
    change, z = work.change, work.z
    return LossTerms(
        discrimination=discrimination,
        adversarial=losses.adversarial_loss(work.fake.top),
        change=losses.change_loss(change.drawn),
        decomposition=losses.decomposition_loss(work.shares, change.singles),
        reconstruction=losses.reconstruction_loss(work.r, z.drawn),
        orthogonality=losses.orthogonality_loss(change.singles),
        monotonicity=losses.monotonicity_loss(change.drawn, change.higher),
        near_zero=losses.near_zero_loss(change.near_zero),
    )


def _update_generator(stack: MemberStack, work: Workspace) -> None:
    """Compute the gradient of f, then apply Adam and the clipping to f, g1 and g2."""
    recipe, f, grads = work.recipe, stack.weights.networks.f, work.grads.networks.f
    gradients.transformation_backward(f, work.controls, work.z_rows, work.f, work.d_f, grads)
    adam_step_(stack, "generator", work.grads.generator, recipe.learning_rate, recipe)
    stack.weights.generator.clamp_(-recipe.clip, recipe.clip)


def _update_copula(stack: MemberStack, work: Workspace) -> None:
    """Train the copula to raise D's log-odds that y' is real.

    This is the gradient of KL(synthesised || real) under the best D. The adversarial loss of f would not do: it is
    convex in the log-odds, so while f's mean change is slightly wrong it rewards a smaller spread, and drives the
    severities apart whatever the data.
    """
    nets, recipe = stack.weights.networks, work.recipe
    for logit, sign in ((1 - losses.REAL_LOGIT, 1), (losses.REAL_LOGIT, -1)):
        work.d_fake.top[..., logit] = sign / work.batch
    gradients.perceptron_backward(nets.d, work.fake, work.d_fake)
    d_y = torch.bmm(work.d_fake.hidden1, nets.d.weight1[:, :-1].mT)
    d_z = gradients.severity_gradient(nets.f, work.f, d_y)
    normals = work.draws[:, 0].to(d_z.device)
    gradient = losses.copula_gradient(stack.weights.phi, normals, d_z, recipe.copula_divergence)
    adam_step_(stack, "phi", gradient, recipe.learning_rate * recipe.copula_ratio, recipe, recipe.copula_after)


_adam = functools.partial(adam, fused=True, weight_decay=0.0, amsgrad=False, maximize=False)


def adam_step_(
    stack: MemberStack, buffer: str, grad: Tensor, rate: float, recipe: Recipe, steps_without: int = 0
) -> None:
    """Take one step of Adam on a flat buffer of all weights, in one pass.

    ``stack.step_count`` already includes this step; in the first ``steps_without`` steps the buffer was not trained.
    """
    w, m, v = (getattr(each, buffer) for each in (stack.weights, stack.first_moments, stack.second_moments))
    count = stack.step_count - steps_without - 1  # a new tensor, to which torch adds the step
    _adam([w], [grad], [m], [v], [], [count], lr=rate, beta1=recipe.beta1, beta2=recipe.beta2, eps=recipe.epsilon)


def release_stopped_members(state: TrainingState, terms: LossTerms, recipe: Recipe) -> None:
    """Record the losses, and move members that must stop to ``state.trained``.

    A member has converged when its losses are below the paper's bars.
    """
    table, members = torch.stack(terms), state.stack.members
    for row, member in zip(table.T.tolist(), members, strict=True):
        state.history[member].append([float(state.steps), *row])
    finite = (torch.isfinite(table) & (table <= recipe.explosion_bar)).all(dim=0)
    below = (terms.reconstruction < recipe.reconstruction_bar) & (terms.monotonicity < recipe.monotonicity_bar)
    converged, running = below & (state.steps >= recipe.min_steps), []
    last = TrainingOutcome.STEP_LIMIT if state.steps >= recipe.max_steps else None
    for position, (is_finite, has_converged) in enumerate(zip(finite.tolist(), converged.tolist(), strict=True)):
        outcome = TrainingOutcome.CONVERGED if has_converged else last
        outcome = outcome if is_finite else TrainingOutcome.DIVERGED
        if outcome is None:
            running.append(position)
        else:
            state.trained.append(_make_trained_member(state, position, outcome))
    if len(running) < len(members):
        state.select_members(running)


def _make_trained_member(state: TrainingState, position: int, outcome: TrainingOutcome) -> TrainedMember:
    stack, member = state.stack, state.stack.members[position]
    weights = networks.named_weights(stack.weights.networks)
    return TrainedMember(
        member,
        outcome,
        state.steps,
        {name: tensor[position].detach().cpu().clone() for name, tensor in weights.items()},
        losses.copula_correlation(stack.weights.phi)[position].cpu().clone(),
        np.array(state.history.pop(member)),
    )


def extract_head(weights: Mapping[str, Tensor]) -> SurrealHead:
    """Return g of one member from its named weights."""
    layers = (f"{kind}{layer}" for kind in ("weight", "bias") for layer in (1, 2, 3))
    g2 = {f"g2_{name}": weights[f"g2.{name}"].numpy() for name in layers}
    return SurrealHead(g1=weights["g1.weight"].numpy(), **g2)


@torch.inference_mode()
def _compute_shift_curves(trained: TrainedMember, controls: FloatArray) -> FloatArray:
    """Return the mean change of controls (N, R) under each pattern alone, (Q, M, R), in control sd."""
    f = Transformation(*(trained.weights[f"f.{name}"].double()[None] for name in Transformation._fields))
    n_patterns = f.gate.shape[1] - 1
    x = torch.as_tensor(controls, dtype=torch.float64)[None]
    curves = []
    for severity in SEVERITY_LEVELS:
        singles = append_ones(severity * torch.eye(n_patterns, dtype=torch.float64)).repeat(len(controls), 1)[None]
        change = networks.apply_transformation(f, x, singles).change.view(len(controls), n_patterns, -1)
        curves.append(change.mean(dim=0).numpy() / CONTROL_SD)
    return np.stack(curves)
