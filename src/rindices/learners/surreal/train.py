"""The training loop: members step until they converge, diverge or run out of steps.

Members are trained in small stacks. Stacks never meet, so a member's numbers do not
depend on the other stacks, on their order or on the number of workers.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rindices.errors import RindicesError
from rindices.learners.contrastive.linear_start import LinearStart
from rindices.learners.outcome import TrainingOutcome
from rindices.learners.surreal import checkpoint, latents, networks, step
from rindices.learners.surreal.losses import LossTerms
from rindices.learners.surreal.recipe import Recipe
from rindices.learners.surreal.stopping import discriminator_at_chance
from rindices.learners.surreal.training_state import (
    TrainedMember,
    TrainingPlan,
    TrainingState,
    make_training_state,
    select_members,
)

LossCallback = Callable[[tuple[int, ...], int, LossTerms], None]
"""Told at every look: the members of a stack, the steps they took, their losses."""


@torch.inference_mode()
def run_steps(group: TrainingState, steps: int) -> LossTerms:
    """Take so many steps; the losses of the last."""
    for ahead in reversed(range(steps)):
        number = group.steps + steps - ahead
        group.work.pace, group.work.f_frozen = (
            group.work.recipe.rate_factor(number),
            number <= group.work.recipe.held_steps,
        )
        group.batches.fill(group.work.people, group.stack.streams)
        terms = step.take_step(group.stack, group.work, look=not ahead)
    group.steps += steps
    assert terms is not None
    return terms


def decide_outcomes(
    terms: LossTerms, steps: int, recipe: Recipe, fooled: Tensor | None = None
) -> list[TrainingOutcome | None]:
    """Which members are to stop, and why; one entry per member.

    A warm member starts at a solution: it has converged when D is at chance, or when its steps are spent.
    """
    table = torch.stack(terms)
    sound = (torch.isfinite(table) & (table <= recipe.explosion_bar)).all(dim=0)
    if recipe.warm_start:
        ready = torch.zeros_like(sound) if fooled is None or steps < recipe.held_steps else fooled
        at_the_end = TrainingOutcome.CONVERGED
    else:
        ready, at_the_end = _below_bars(terms, steps, recipe), TrainingOutcome.STEP_LIMIT

    def outcome(is_sound: bool, is_ready: bool) -> TrainingOutcome | None:
        if not is_sound:
            return TrainingOutcome.DIVERGED
        if is_ready:
            return TrainingOutcome.CONVERGED
        return at_the_end if steps >= recipe.max_steps else None

    return [outcome(*pair) for pair in zip(sound.tolist(), ready.tolist(), strict=True)]


def _below_bars(terms: LossTerms, steps: int, recipe: Recipe) -> Tensor:
    """The paper's rule of stopping, (S,)."""
    below = (terms.reconstruction < recipe.reconstruction_bar) & (terms.monotonicity < recipe.monotonicity_bar)
    return below & (steps >= recipe.min_steps)


def release_stopped_members(group: TrainingState, terms: LossTerms, recipe: Recipe) -> None:
    """Record the losses and let go of the members that are to stop."""
    for row, member in zip(torch.stack(terms).T.tolist(), group.stack.members, strict=True):
        group.seen[member].append([float(group.steps), *row])
    outcomes = decide_outcomes(terms, group.steps, recipe, discriminator_at_chance(group))
    for place, outcome in enumerate(outcomes):
        if outcome is not None:
            group.trained.append(_make_trained_member(group, place, outcome))
    staying = [place for place, outcome in enumerate(outcomes) if outcome is None]
    if len(staying) < len(outcomes):
        select_members(group, staying)


def _make_trained_member(group: TrainingState, place: int, outcome: TrainingOutcome) -> TrainedMember:
    stack, member = group.stack, group.stack.members[place]
    weights = networks.named_weights(stack.weights.networks)
    return TrainedMember(
        member,
        outcome,
        group.steps,
        {name: tensor[place].detach().cpu().clone() for name, tensor in weights.items()},
        latents.copula_correlation(stack.phi)[place].cpu().clone(),
        np.array(group.seen.pop(member)),
    )


def train_stack(
    group: TrainingState,
    recipe: Recipe,
    until: int,
    look: LossCallback | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Train a stack to the first look at or after step ``until``, or till its last member stops.

    Looks fall on multiples of ``recipe.check_every`` whatever ``until`` is, so that
    interruptions leave no trace.
    """
    every = recipe.check_every
    while group.running and group.steps < until and not (stop is not None and stop.is_set()):
        members = group.stack.members
        next_look = min((group.steps // every + 1) * every, recipe.max_steps)
        terms = run_steps(group, next_look - group.steps)
        release_stopped_members(group, terms, recipe)
        if look is not None:
            look(members, group.steps, terms)


def train_stacks(
    controls: NDArray[np.floating] | Tensor,
    patients: NDArray[np.floating] | Tensor,
    plan: TrainingPlan,
    *,
    device: str = "cpu",
    workers: int = 1,
    path: Path | None = None,
    save_every: int = 2_000,
    look: LossCallback | None = None,
    starts: Mapping[int, LinearStart] | None = None,
) -> list[TrainedMember]:
    """Train all members of a plan.

    Parameters
    ----------
    controls, patients : array
        Regions scaled as 1 + 0.1 x (v - control mean) / control sd, (N, R) each.
    plan : Plan
        What to train.
    device : str
        Of the arithmetic; random numbers always come from the CPU.
    workers : int
        Threads, each with one stack at a time. The numbers do not depend on it.
    path : Path, optional
        File for checkpoints. If it exists training resumes from it, number for number.
    save_every : int
        Steps between checkpoints.
    look : callable, optional
        See ``LossCallback``; called from the worker threads.
    starts : mapping of int to Start, optional
        Where each member starts, for recipes that need it.

    Returns
    -------
    list of Trained
        In the order of ``plan.members``.
    """
    dtype = getattr(torch, plan.dtype)
    x, y = (torch.as_tensor(people).to(device, dtype) for people in (controls, patients))
    _validate_inputs(x, y)
    identity = checkpoint.describe_training(plan, x, y)
    groups = [make_training_state(members, plan, x, y, starts) for members in split_into_stacks(plan)]
    if path is not None and path.exists():
        checkpoint.load(path, groups, identity)
    stop = threading.Event()
    with ThreadPoolExecutor(workers, initializer=_limit_to_one_thread) as pool:
        while any(group.running for group in groups):
            until = min(group.steps for group in groups if group.running) + save_every
            train_until = functools.partial(train_stack, recipe=plan.recipe, until=until, look=look, stop=stop)
            running = [pool.submit(train_until, group) for group in groups]
            try:
                for future in running:
                    future.result()
            except KeyboardInterrupt:  # stop at the next look, keep what was done
                stop.set()
                wait(running)
                if path is not None:
                    checkpoint.save(path, groups, identity)
                raise
            if path is not None:
                checkpoint.save(path, groups, identity)
    done = {member.member: member for group in groups for member in group.trained}
    return [done[member] for member in plan.members]


def split_into_stacks(plan: TrainingPlan) -> list[tuple[int, ...]]:
    """The members of each stack."""
    starts = range(0, len(plan.members), plan.stack)
    return [plan.members[start : start + plan.stack] for start in starts]


def _limit_to_one_thread() -> None:
    """One thread a stack: sums come out the same on any machine, and workers do not compete for cores."""
    torch.set_num_threads(1)


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
