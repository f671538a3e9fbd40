"""The training loop: members step until they converge, diverge or reach the step limit.

Members are trained in small stacks. Stacks are independent, so the numbers of a member do not depend on the other
stacks, on their order or on the number of workers.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rindices.errors import RindicesError
from rindices.learners.contrastive.linear_start import LinearStart
from rindices.learners.outcome import TrainingOutcome
from rindices.learners.surreal import latents, networks, step
from rindices.learners.surreal.checkpoint import describe_training, load_checkpoint, save_checkpoint
from rindices.learners.surreal.losses import LossTerms
from rindices.learners.surreal.recipe import Recipe
from rindices.learners.surreal.stopping import discriminator_at_chance
from rindices.learners.surreal.training_state import TrainedMember, TrainingPlan, TrainingState, make_training_state


@torch.inference_mode()
def run_steps(state: TrainingState, steps: int) -> LossTerms:
    """Take a number of steps and return the losses of the last one."""
    work, recipe = state.work, state.work.recipe
    for number in range(state.steps + 1, state.steps + steps + 1):
        work.rate_factor, work.f_frozen = recipe.rate_factor(number), number <= recipe.held_steps
        state.batches.fill(work.people, state.stack.streams)
        terms = step.take_step(state.stack, work, with_losses=number == state.steps + steps)
    state.steps += steps
    assert terms is not None
    return terms


def decide_outcomes(
    terms: LossTerms, steps: int, recipe: Recipe, at_chance: Tensor | None = None
) -> list[TrainingOutcome | None]:
    """Return the outcome of each member that must stop, and None for the others.

    A member with a warm start has converged when D is at chance on held-out people, or at the step limit: it started
    at a solution. Any other member has converged when its losses are below the paper's bars.
    """
    table = torch.stack(terms)
    finite = (torch.isfinite(table) & (table <= recipe.explosion_bar)).all(dim=0)
    if recipe.warm_start:
        converged = torch.zeros_like(finite) if at_chance is None or steps < recipe.held_steps else at_chance
        at_limit = TrainingOutcome.CONVERGED
    else:
        below = (terms.reconstruction < recipe.reconstruction_bar) & (terms.monotonicity < recipe.monotonicity_bar)
        converged, at_limit = below & (steps >= recipe.min_steps), TrainingOutcome.STEP_LIMIT

    def decide(is_finite: bool, has_converged: bool) -> TrainingOutcome | None:
        if not is_finite:
            return TrainingOutcome.DIVERGED
        if has_converged:
            return TrainingOutcome.CONVERGED
        return at_limit if steps >= recipe.max_steps else None

    return [decide(*pair) for pair in zip(finite.tolist(), converged.tolist(), strict=True)]


def release_stopped_members(state: TrainingState, terms: LossTerms, recipe: Recipe) -> None:
    """Record the losses, and move members that must stop to ``state.trained``."""
    for row, member in zip(torch.stack(terms).T.tolist(), state.stack.members, strict=True):
        state.history[member].append([float(state.steps), *row])
    outcomes = decide_outcomes(terms, state.steps, recipe, discriminator_at_chance(state))
    for position, outcome in enumerate(outcomes):
        if outcome is not None:
            state.trained.append(_make_trained_member(state, position, outcome))
    running = [position for position, outcome in enumerate(outcomes) if outcome is None]
    if len(running) < len(outcomes):
        state.select_members(running)


def _make_trained_member(state: TrainingState, position: int, outcome: TrainingOutcome) -> TrainedMember:
    stack, member = state.stack, state.stack.members[position]
    weights = networks.named_weights(stack.weights.networks)
    return TrainedMember(
        member,
        outcome,
        state.steps,
        {name: tensor[position].detach().cpu().clone() for name, tensor in weights.items()},
        latents.copula_correlation(stack.phi)[position].cpu().clone(),
        np.array(state.history.pop(member)),
    )


def train_stack(
    state: TrainingState,
    recipe: Recipe,
    until: int,
    stop: threading.Event | None = None,
) -> None:
    """Train a stack to the first check at or after step ``until``, or until its last member stops.

    Checks are at multiples of ``recipe.check_every`` whatever ``until`` is, so that an interruption changes no number.
    """
    every = recipe.check_every
    while state.running and state.steps < until and not (stop is not None and stop.is_set()):
        next_check = min((state.steps // every + 1) * every, recipe.max_steps)
        terms = run_steps(state, next_check - state.steps)
        release_stopped_members(state, terms, recipe)


def train_stacks(
    controls: NDArray[np.floating] | Tensor,
    patients: NDArray[np.floating] | Tensor,
    plan: TrainingPlan,
    *,
    device: str = "cpu",
    workers: int = 1,
    path: Path | None = None,
    save_every: int = 2_000,
    starts: Mapping[int, LinearStart] | None = None,
) -> list[TrainedMember]:
    """Train all members of a plan.

    Parameters
    ----------
    controls, patients : array
        Regions scaled as 1 + 0.1 x (v - control mean) / control sd, (N, R) each.
    plan : TrainingPlan
        Members, recipe and seed.
    device : str
        Device of the arithmetic; random numbers always come from the CPU.
    workers : int
        Threads, each with one stack at a time. The numbers do not depend on it.
    path : Path, optional
        Checkpoint file. If it exists, training resumes from it with the same numbers.
    save_every : int
        Steps between checkpoints.
    starts : mapping of int to LinearStart, optional
        Start of each member, for recipes that need one.

    Returns
    -------
    list of TrainedMember
        In the order of ``plan.members``.

    Raises
    ------
    RindicesError
        If a table is not people x regions or has missing values, or the checkpoint belongs to another training.
    """
    dtype = getattr(torch, plan.dtype)
    x, y = (torch.as_tensor(people).to(device, dtype) for people in (controls, patients))
    _validate_inputs(x, y)
    identity = describe_training(plan, x, y)
    states = [make_training_state(members, plan, x, y, starts) for members in split_into_stacks(plan)]
    if path is not None and path.exists():
        load_checkpoint(path, states, identity)
    stop = threading.Event()
    with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        while any(state.running for state in states):
            until = min(state.steps for state in states if state.running) + save_every
            train_until = functools.partial(train_stack, recipe=plan.recipe, until=until, stop=stop)
            futures = [pool.submit(train_until, state) for state in states]
            try:
                for future in futures:
                    future.result()
            except KeyboardInterrupt:  # stop at the next check and save what was done
                stop.set()
                wait(futures)
                if path is not None:
                    save_checkpoint(path, states, identity)
                raise
            if path is not None:
                save_checkpoint(path, states, identity)
    trained = {member.member: member for state in states for member in state.trained}
    return [trained[member] for member in plan.members]


def split_into_stacks(plan: TrainingPlan) -> list[tuple[int, ...]]:
    """Return the numbers of the members of each stack."""
    starts = range(0, len(plan.members), plan.stack)
    return [plan.members[start : start + plan.stack] for start in starts]


def _validate_inputs(controls: Tensor, patients: Tensor) -> None:
    for name, people in (("controls", controls), ("patients", patients)):
        if people.dim() != 2 or not len(people):
            raise RindicesError(f"{name} have shape {tuple(people.shape)}; give people x regions.")
        if not torch.isfinite(people).all():
            rows = torch.nonzero(~torch.isfinite(people).all(dim=1)).flatten()[:3].tolist()
            raise RindicesError(f"{name} have missing values, first in rows {rows}; drop or fill them.")
    if controls.shape[1] != patients.shape[1]:
        counts = f"{controls.shape[1]} and {patients.shape[1]}"
        raise RindicesError(f"controls and patients have {counts} regions; give the same regions.")
