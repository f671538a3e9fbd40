"""Training (Algorithm 1): members step until they converge, diverge or reach the step
limit.

A step updates D on the adversarial loss and then f, g1 and g2 together on the full
objective.

Members are trained in small stacks. Stacks are independent, so the numbers of a member
do not depend on the other stacks, on their order or on the number of workers.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rindices._typing import FloatArray
from rindices.learners.ensemble import Member, NetworkTraining, TrainingOutcome
from rindices.learners.gan import losses
from rindices.learners.gan.callbacks import Callback, StackProgress, Watch
from rindices.learners.gan.losses import LossTerms
from rindices.learners.gan.networks import SurrealNetworks
from rindices.learners.gan.recipe import LOSS_NAMES, Recipe, TrainingPlan
from rindices.learners.gan.start import continue_stack, start_stack
from rindices.learners.gan.state import (
    Checkpoint,
    MemberStack,
    TrainedMember,
    TrainingState,
)
from rindices.learners.inference import SEVERITY_LEVELS, SurrealHead
from rindices.learners.prepared_people import PreparedPeople
from rindices.preprocess.standardise import CONTROL_SD
from rindices.threads import limit_blas_threads

People = NDArray[np.floating] | Tensor
StepReport = Callable[[TrainingState, Tensor, int, bool], None]
"""Takes a stack, sums of its losses (8, S) over a number of steps, this number, and
whether the stack is at a check.
"""
# the first optimiser would import torch's compiler, and the first line of progress
# would wait for it
torch.compiler.disable(lambda: None)  # type: ignore[no-untyped-call]


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch and numpy's linear algebra to one thread; also works as a
    decorator.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with limit_blas_threads():
            yield
    finally:
        torch.set_num_threads(before)


@one_thread()
def train_surreal_members(
    people: Sequence[PreparedPeople],
    plan: TrainingPlan,
    checkpoint: Path | None = None,
    workers: int = 1,
    device: str = "cpu",
    *,
    starts: Path | Checkpoint | None = None,
    earlier: Sequence[Member] = (),
    callbacks: Sequence[Callback] = (),
) -> list[Member]:
    """Train the members of a plan.

    Parameters
    ----------
    people : sequence of PreparedPeople
        Those of each member, or one if members share them. Controls have mean 1 and
        standard deviation 0.1. Where a group is larger for some members than for
        others, its first people are used.
    plan : TrainingPlan
        Members, recipe and seed.
    checkpoint : Path, optional
        File to save the state to while training, and to resume from.
    workers, device, callbacks
        See `train_stacks`.
    starts : Path or Checkpoint, optional
        Result of `prepare_starts`, or its file, which is written if it does not exist.
    earlier : sequence of Member
        The same members after fewer steps, which go on instead of starting.

    Returns
    -------
    list of Member
    """
    controls, patients = (_stack_group(people, label) for label in (0, 1))
    if isinstance(starts, Path):
        starts = prepare_starts(
            controls,
            patients,
            plan,
            device=device,
            workers=workers,
            path=starts,
            callbacks=callbacks,
        )
    trained = train_stacks(
        controls,
        patients,
        plan,
        device=device,
        workers=workers,
        path=checkpoint,
        starts=starts,
        earlier={
            each.number: each.training for each in earlier if each.training is not None
        },
        callbacks=callbacks,
    )
    shared = controls.ndim == 2
    return [
        make_member(each, controls if shared else controls[k])
        for k, each in enumerate(trained)
    ]


def _stack_group(people: Sequence[PreparedPeople], label: int) -> FloatArray:
    """Return the people of a group that members are trained on: (N, R) if they share
    them, else (K, N, R).
    """
    groups = [
        each.X[(each.y == label) & (True if each.seen is None else each.seen)]
        for each in people
    ]
    size = min(map(len, groups))
    return (
        groups[0] if len(groups) == 1 else np.stack([group[:size] for group in groups])
    )


def make_member(trained: TrainedMember, controls: FloatArray) -> Member:
    """Return a trained member as studies take it.

    Parameters
    ----------
    controls : ndarray of shape (N, R)
    """
    training = NetworkTraining(
        met_bars=trained.met_bars,
        checks=trained.checks.numpy(),
        losses=trained.losses.numpy(),
        weights={name: weight.numpy() for name, weight in trained.weights.items()},
    )
    return Member(
        number=trained.member,
        outcome=trained.outcome,
        steps=trained.steps,
        head=extract_head(trained.weights),
        patterns=_compute_shift_curves(trained, controls),
        training=training,
    )


def prepare_starts(
    controls: People,
    patients: People,
    plan: TrainingPlan,
    *,
    device: str = "cpu",
    workers: int = 1,
    path: Path | None = None,
    callbacks: Sequence[Callback] = (),
) -> Checkpoint:
    """Compute the starts of the members of a plan, see `.start`, for trainings that
    differ in lambda alone.

    Parameters
    ----------
    path : Path or None
        File of the starts. If it exists they are read from it. The other arguments
        are those of :func:`train_stacks`, whose argument ``starts`` takes the
        result.
    """
    x, y = _move_people(controls, patients, plan, device)
    neutral = replace(plan, recipe=plan.recipe.forget_training())
    checkpoint = Checkpoint.begin(path, neutral, x, y)
    if not all(state.has_started for state in checkpoint.states):
        _run_stacks(checkpoint, neutral, (x, y), workers, None, callbacks)
    return checkpoint


def train_stacks(
    controls: People,
    patients: People,
    plan: TrainingPlan,
    *,
    device: str = "cpu",
    workers: int = 1,
    path: Path | None = None,
    save_every: int = 500,
    starts: Checkpoint | None = None,
    earlier: Mapping[int, NetworkTraining] | None = None,
    callbacks: Sequence[Callback] = (),
    label: str = "",
) -> list[TrainedMember]:
    """Train all members of a plan.

    Parameters
    ----------
    controls, patients : array of shape (N, R) or (K, N, R)
        Regions scaled as 1 + 0.1 x (v - control mean) / control sd, of people whom
        members share, or of each of the K members.
    plan : TrainingPlan
        Members, recipe and seed.
    device : str
        Device of the arithmetic. Random numbers always come from the CPU.
    workers : int
        Threads, each with one stack at a time. The numbers do not depend on it.
    path : Path, optional
        Checkpoint file. If it exists, training resumes from it with the same numbers.
    save_every : int
        Steps between checkpoints.
    starts : Checkpoint, optional
        Result of `prepare_starts`. Without it the starts are computed here, with the
        same numbers.
    earlier : mapping of int to NetworkTraining, optional
        Training of each member, by its number, from which it goes on instead of
        starting.
    callbacks : sequence of Callback
        See `.callbacks`.
    label : str
        Which of several trainings it is, for the callbacks.

    Returns
    -------
    list of TrainedMember
        In the order of ``plan.members``.

    Raises
    ------
    RindicesError
        If the checkpoint or the starts belong to another training.
    """
    x, y = _move_people(controls, patients, plan, device)
    checkpoint = Checkpoint.begin(path, plan, x, y)
    if starts is not None:
        checkpoint.adopt_starts(starts, plan, x, y)
    for state in checkpoint.states:
        if earlier and not state.steps and not state.trained:
            numbers = state.stack.members
            state.adopt(
                continue_stack(
                    numbers, plan, x, y, [earlier[number] for number in numbers]
                )
            )
    if any(state.running for state in checkpoint.states):
        _run_stacks(checkpoint, plan, (x, y), workers, save_every, callbacks, label)
    trained = {
        member.member: member for state in checkpoint.states for member in state.trained
    }
    return [trained[member] for member in plan.members]


def _move_people(
    controls: People, patients: People, plan: TrainingPlan, device: str
) -> tuple[Tensor, Tensor]:
    x, y = (
        torch.as_tensor(people).to(device, getattr(torch, plan.dtype))
        for people in (controls, patients)
    )
    return x, y


def _run_stacks(
    checkpoint: Checkpoint,
    plan: TrainingPlan,
    people: tuple[Tensor, Tensor],
    workers: int,
    save_every: int | None,
    callbacks: Sequence[Callback],
    label: str = "",
) -> None:
    """Compute the starts that are missing, and train all stacks to the end unless
    ``save_every`` is None.
    """
    states, stop = checkpoint.states, threading.Event()
    watch = make_watch(states, plan, callbacks, save_every is not None, label)

    def begin(number: int) -> None:
        if not states[number].has_started:
            follow = functools.partial(_report_start, watch, number)
            states[number].adopt(
                start_stack(states[number].stack.members, plan, *people, follow, stop)
            )
            watch.finish_start(number)

    def go_on(number: int, until: int) -> None:
        train_stack(
            states[number],
            plan.recipe,
            until,
            stop,
            functools.partial(_report_step, watch, number),
        )

    watch.begin()
    with ThreadPoolExecutor(
        workers, initializer=torch.set_num_threads, initargs=(1,)
    ) as pool:

        def run_all(work: Callable[[int], None]) -> None:
            futures = [pool.submit(work, number) for number in range(len(states))]
            try:
                for future in futures:
                    future.result()
            except BaseException as error:  # the others stop at their next check
                stop.set()
                wait(futures)
                if isinstance(error, KeyboardInterrupt):
                    checkpoint.save()
                raise
            checkpoint.save()

        if not all(state.has_started for state in states):
            run_all(begin)
        while save_every is not None and any(state.running for state in states):
            begun = min(each.steps for each in states if each.running)
            run_all(functools.partial(go_on, until=begun + save_every))
    watch.end()


def make_watch(
    states: Sequence[TrainingState],
    plan: TrainingPlan,
    callbacks: Sequence[Callback],
    with_training: bool = True,
    label: str = "",
) -> Watch:
    """Return the watch of the stacks of a plan."""
    recipe = plan.recipe
    start_steps = (
        recipe.start_steps + recipe.warm_steps if recipe.start == "linear" else 0
    )
    return Watch(
        callbacks,
        start_steps=start_steps,
        max_steps=recipe.max_steps if with_training else 0,
        stacks=[
            StackProgress(
                members=len(state.stack.members) + len(state.trained),
                running=len(state.stack.members),
                step=state.steps,
                start_step=start_steps if state.has_started else 0,
            )
            for state in states
        ],
        label=label,
    )


def _report_start(
    watch: Watch, number: int, step: int, terms: Mapping[str, Tensor]
) -> None:
    if watch.is_due:
        watch.report_start(
            number, step, {name: float(term.mean()) for name, term in terms.items()}
        )


def _report_step(
    watch: Watch,
    number: int,
    state: TrainingState,
    sums: Tensor,
    steps: int,
    is_check: bool,
) -> None:
    if is_check or watch.is_due:
        means = dict(zip(LOSS_NAMES, (sums.mean(dim=1) / steps).tolist(), strict=True))
        watch.report_step(number, state.steps, len(state.stack.members), means)


def train_stack(
    state: TrainingState,
    recipe: Recipe,
    until: int,
    stop: threading.Event | None = None,
    report: StepReport | None = None,
) -> None:
    """Train a stack to the first check at or after step ``until``, or until its last
    member stops.

    Checks are at multiples of ``recipe.check_every`` whatever ``until`` is, so that an
    interruption changes no number.
    """
    every = recipe.check_every
    while (
        state.running
        and state.steps < until
        and not (stop is not None and stop.is_set())
    ):
        next_check = min((state.steps // every + 1) * every, recipe.max_steps)
        terms = run_steps(state, next_check - state.steps, report)
        state.stack.history = state.stack.history.append(state.steps, terms)
        release_stopped_members(state, terms, recipe)
        if report is not None:
            report(state, terms.stack(), 1, True)


def run_steps(
    state: TrainingState, steps: int, report: StepReport | None = None
) -> LossTerms:
    """Take a number of steps and return the mean of each loss over them."""
    total = torch.zeros(())
    for taken in range(steps):
        if taken and report is not None:
            report(state, total, taken, False)
        people = state.batches.draw(state.stack.streams)
        noise = state.batches.draw_noise(
            state.stack.recipe.instance_noise, state.stack.streams
        )
        terms = take_step(state.stack, *people, noise).stack()
        total = terms if taken == 0 else total + terms
    return LossTerms.unstack(total / steps)


def take_step(
    stack: MemberStack, x: Tensor, y: Tensor, noise: Tensor | None = None
) -> LossTerms:
    """Update all networks on controls x and patients y, (S, B, R) each; return the
    losses before the updates.

    noise (S, 2 B, R) is added to the synthesised and the real patients whom D reads.
    """
    networks, recipe, phi = stack.networks, stack.recipe, stack.networks.copula.phi
    stack.steps += 1
    rate = recipe.compute_rate(stack.steps)
    z = losses.draw_severities(
        stack.streams, x.shape[1], recipe.near_zero_bound, phi, recipe.correlated
    )
    code = networks.f.encode(x)
    change = z.apply(functools.partial(networks.f.decode, code))
    synthetic = x + change.drawn  # y' = f(x, z)
    # theta_D: l_c(D(y), e_1) + l_c(D(y'), e_0)
    everyone = torch.cat([synthetic.detach(), y], dim=1)
    logits = networks.judge(everyone if noise is None else everyone + noise)
    discrimination = losses.discrimination_loss(*logits.chunk(2, dim=1))
    stack.update({"d": recipe.discriminator_ratio}, discrimination, rate)
    # theta_f, theta_g1 and theta_g2: the weighted sum of all other losses, with g1 and
    # g2 applied to y'
    fake = networks.judge(
        synthetic if noise is None else synthetic + noise[:, : synthetic.shape[1]]
    )
    inverted, singles = synthetic, change.singles
    if recipe.detached_inversion:
        inverted, singles = inverted.detach(), singles.detach()
    shares = networks.g1(inverted)
    terms = LossTerms(
        discrimination=discrimination,
        adversarial=losses.adversarial_loss(fake),
        change=losses.change_loss(change.drawn),
        decomposition=losses.decomposition_loss(shares, singles),
        reconstruction=losses.reconstruction_loss(
            networks.reconstruct(shares), z.singles
        ),
        orthogonality=losses.orthogonality_loss(change.singles),
        monotonicity=losses.monotonicity_loss(change.drawn, change.higher),
        near_zero=losses.near_zero_loss(change.near_zero),
    )
    if recipe.correlated and stack.steps > recipe.copula_after:
        divergence = losses.copula_loss(fake, phi, recipe.copula_divergence)
        stack.update({"copula": recipe.copula_ratio}, divergence, rate)
    objective = torch.stack(
        [
            weight * getattr(terms, name)
            for name, weight in asdict(recipe.weights).items()
        ]
    )
    stack.update({"f": recipe.f_ratio, "g": 1.0}, objective, rate)
    return LossTerms.unstack(terms.stack().detach())


def release_stopped_members(
    state: TrainingState, terms: LossTerms, recipe: Recipe
) -> None:
    """Move members that must stop to ``state.trained``, given their losses since the
    last check.

    A member has converged when its losses are below the bars and it has taken the
    recipe's least number of steps.
    """
    table, members = terms.stack(), state.stack.members
    finite = (torch.isfinite(table) & (table <= recipe.explosion_bar)).all(dim=0)
    bar = recipe.get_reconstruction_bar(state.stack.networks.n_patterns)
    below = (terms.reconstruction < bar) & (
        terms.monotonicity < recipe.monotonicity_bar
    )
    last = TrainingOutcome.STEP_LIMIT if state.steps >= recipe.max_steps else None
    running = []
    for position, (is_finite, met_bars) in enumerate(
        zip(finite.tolist(), below.tolist(), strict=True)
    ):
        outcome = (
            TrainingOutcome.CONVERGED
            if met_bars and state.steps >= recipe.first_stop
            else last
        )
        outcome = outcome if is_finite else TrainingOutcome.DIVERGED
        if outcome is None:
            running.append(position)
        else:
            state.trained.append(
                _make_trained_member(state, position, outcome, met_bars)
            )
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
    return SurrealHead(
        g1=torch.cat([weights["g1.weight"], weights["g1.bias"]]).numpy(), **g2
    )


@torch.inference_mode()
def _compute_shift_curves(trained: TrainedMember, controls: FloatArray) -> FloatArray:
    """Return the mean change of controls (N, R) under each pattern alone, (Q, M, R), in
    control sd.
    """
    f = SurrealNetworks.from_members([trained.weights]).double().f
    code = f.encode(torch.as_tensor(controls, dtype=torch.float64)[None])
    singles = torch.eye(f.gate.shape[1], dtype=torch.float64).expand(
        1, len(controls), -1, -1
    )
    changes = [f.decode(code, severity * singles) for severity in SEVERITY_LEVELS]
    return np.stack([change[0].mean(dim=0).numpy() / CONTROL_SD for change in changes])
