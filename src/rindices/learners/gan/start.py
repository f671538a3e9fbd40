"""The start of a training: f begins as a linear solution, and g and D learn it before
the game begins.

A random start takes tens of thousands of steps to separate the patterns. A linear start
takes the separation from contrastive ICA, in four parts:

1. Each member has a contrastive solution of its own subsample of the people,
   `LinearTeacher`.
2. f is regressed on that solution, `regress_transformation`.
3. The normal variation N(mu, C) of people without disease is estimated,
   `estimate_normal_variation`: the controls of a step can then be drawn from it, so
   that g sees more than the few hundred backgrounds of the study's controls.
4. g1, g2 and D are trained alone while f is frozen, `train_inversion`.

The regression and the training of g and D run for all members of a stack at once.
Nothing here depends on lambda.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats.qmc import Sobol
from sklearn.covariance import ledoit_wolf
from torch import Tensor

from rindices._typing import FloatArray
from rindices.errors import InputError
from rindices.learners.contrastive.estimator import ContrastiveICA
from rindices.learners.ensemble import NetworkTraining
from rindices.learners.gan import losses
from rindices.learners.gan.losses import make_member_generator
from rindices.learners.gan.networks import SurrealNetworks, Transformation
from rindices.learners.gan.recipe import TrainingPlan
from rindices.learners.gan.state import (
    History,
    NormalVariation,
    TrainingState,
    make_training_state,
)
from rindices.preprocess.standardise import CONTROL_SD

Report = Callable[[int, Mapping[str, Tensor]], None]
"""Takes the steps of the start that were taken, and losses (S,) by name; called after
each step.
"""
MIN_LOG_CONSTANT = 1e-3
"""Smallest c of the log transform; below it the transform is the identity in float32.
"""
N_POINTS = 512
"""Severities among which the posterior of a patient is computed."""
N_ROUNDS = 2
"""Rounds of stochastic EM for the normal variation."""
MAX_PATIENTS = 1_000
"""Patients whose residuals are used for the normal variation."""
MIN_SCALE = 0.2
"""Smallest standard deviation of a region at a severity, relative to that of controls.
"""
_FIRST_RATE, _LAST_RATE = 2e-3, 1e-4  # of g while f is frozen
_LAST_START_RATE = 1e-5


@dataclass(frozen=True, kw_only=True)
class LinearTeacher:
    """Contrastive solutions of S members, as changes of controls.

    A region of relative size 1 + c t, where t is its deviation in control standard
    deviations, is multiplied by exp(z @ rates).

    Attributes
    ----------
    mean, scale : Tensor
        Of the controls.
    log_constant : Tensor
        c.
    rates : Tensor
    """

    mean: Tensor
    scale: Tensor
    log_constant: Tensor
    rates: Tensor

    @classmethod
    def fit(
        cls,
        people: Sequence[tuple[FloatArray, FloatArray]],
        n_patterns: int,
        seeds: Sequence[int],
    ) -> LinearTeacher:
        """Return the solutions of the controls and patients, (N, R) each, of all
        members.
        """
        parts = [
            _fit_rates(*each, n_patterns, seed)
            for each, seed in zip(people, seeds, strict=True)
        ]
        mean, scale, log_constant, rates = (
            torch.as_tensor(np.stack(part)) for part in zip(*parts, strict=True)
        )
        return cls(
            mean=mean[:, None],
            scale=scale[:, None],
            log_constant=log_constant[:, None, None],
            rates=rates,
        )

    def to(self, like: Tensor) -> LinearTeacher:
        """Return the solutions with the dtype and device of a tensor."""
        return LinearTeacher(
            mean=self.mean.to(like),
            scale=self.scale.to(like),
            log_constant=self.log_constant.to(like),
            rates=self.rates.to(like),
        )

    def compute_change(self, x: Tensor, z: Tensor) -> Tensor:
        """Return the change of controls x (S, B, R) at severities z (S, B, M): (S, B,
        R).
        """
        size = (x - self.mean + self.scale / self.log_constant).clamp_min(0)
        return size * torch.expm1(torch.bmm(z, self.rates))


def _fit_rates(
    controls: FloatArray, patients: FloatArray, n_patterns: int, seed: int
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return mean, scale (R,), log constant () and rates (M, R) of the contrastive
    solution of a member's people.

    The mean severity of patients is 1/2, as that of z.
    """
    people, y = (
        np.concatenate([controls, patients]),
        np.repeat([0, 1], [len(controls), len(patients)]),
    )
    try:
        fitted = ContrastiveICA(n_patterns, random_state=seed).fit(people, y)
    except np.linalg.LinAlgError as error:
        what = f"{n_patterns} patterns cannot be told apart in {len(y)} people"
        raise InputError(f"{what}: ask for fewer, or use start='random'.") from error
    unit, head = 2 * fitted.transform(patients).mean(axis=0), fitted.head_
    log_constant = max(fitted.log_constant_, MIN_LOG_CONSTANT)
    rates = fitted.shifts_ * unit[:, None] * head.shift_scale * log_constant
    return head.control_mean, head.control_scale, np.array(log_constant), rates


def continue_stack(
    members: Sequence[int],
    plan: TrainingPlan,
    controls: Tensor,
    patients: Tensor,
    earlier: Sequence[NetworkTraining],
) -> TrainingState:
    """Return a stack that goes on from the networks of an earlier training, with new
    moments and random numbers.

    Parameters
    ----------
    members : sequence of int
        Their numbers.
    controls, patients : Tensor
        (N_cn, R) and (N_pt, R).
    earlier : sequence of NetworkTraining
        Training of each of the members. Those that have taken more steps than
        others of the stack forget them.
    """
    state = make_training_state(members, plan, controls, patients)
    stack, step = state.stack, min(int(each.checks[-1]) for each in earlier)
    weights = [
        {name: torch.as_tensor(weight) for name, weight in each.weights.items()}
        for each in earlier
    ]
    stack.networks.load_state_dict(SurrealNetworks.from_members(weights).state_dict())
    stack.streams = [
        make_member_generator(plan.seed + step, member) for member in members
    ]
    checks = [int(check) for check in earlier[0].checks if check <= step]
    losses_before = np.stack([each.losses[: len(checks)] for each in earlier])
    stack.history, stack.steps = (
        History(checks, torch.as_tensor(losses_before).to(controls.device)),
        step,
    )
    if plan.recipe.draw_controls == "normal":
        state.batches.normal = estimate_normal_variation(state)
    state.has_started = True
    return state


class StartInterrupted(Exception):  # noqa: N818
    """The start was told to stop; it begins anew next time, with the same numbers."""


def start_stack(
    members: Sequence[int],
    plan: TrainingPlan,
    controls: Tensor,
    patients: Tensor,
    report: Report | None = None,
    stop: threading.Event | None = None,
) -> TrainingState:
    """Return a stack after its start and before the first step of its training.

    Parameters
    ----------
    members : sequence of int
        Their numbers.
    controls, patients : Tensor
        (N_cn, R) and (N_pt, R).
    report : Report or None
        Called after each step.
    stop : threading.Event or None
        When it is set, `StartInterrupted` is raised.
    """

    def follow(step: int, terms: Mapping[str, Tensor]) -> None:
        if stop is not None and stop.is_set():
            raise StartInterrupted
        if report is not None:
            report(step, terms)

    state, recipe = make_training_state(members, plan, controls, patients), plan.recipe
    if recipe.start == "linear":
        seeds = [
            int(np.random.default_rng([plan.seed, member, 1]).integers(2**31 - 1))
            for member in members
        ]
        people = [_get_people(state, position) for position in range(len(members))]
        teacher = LinearTeacher.fit(people, plan.patterns, seeds).to(controls)
        regress_transformation(state, teacher, follow)
    if recipe.draw_controls == "normal":
        state.batches.normal = estimate_normal_variation(state)
    if recipe.start == "linear":
        train_inversion(state, follow)
    state.has_started = True
    return state


def _get_people(state: TrainingState, position: int) -> tuple[FloatArray, FloatArray]:
    """Return the controls and patients of a member, (N, R) each."""
    table, (controls, patients) = (
        state.batches.table,
        (order[position] for order in state.batches.orders),
    )
    return table[controls.sort().values].cpu().double().numpy(), table[
        patients.sort().values
    ].cpu().double().numpy()


def regress_transformation(
    state: TrainingState, teacher: LinearTeacher, report: Report
) -> None:
    """Regress f on the changes of a linear solution: mean squares of f(x, z) - x -
    change, in control sd.
    """
    stack, recipe = state.stack, state.stack.recipe
    f, phi, steps = stack.networks.f, stack.networks.copula.phi, recipe.start_steps
    for step in range(steps):
        x, _ = state.batches.draw(stack.streams)
        z = losses.draw_severities(
            stack.streams, x.shape[1], recipe.near_zero_bound, phi
        ).drawn
        difference = f.decode(f.encode(x), z) - teacher.compute_change(x, z)
        error = (difference / CONTROL_SD).square().mean(dim=(1, 2))
        stack.update(
            {"f": 1.0}, error, recipe.start_rate * (1 - step / steps) + _LAST_START_RATE
        )
        report(step + 1, {"regression": error.detach()})
    stack.optimisers["f"].state.clear()  # the game is another loss


def train_inversion(state: TrainingState, report: Report) -> None:
    """Train g1, g2 and D on synthesised patients of the frozen f."""
    stack, recipe = state.stack, state.stack.recipe
    networks, steps = stack.networks, recipe.warm_steps
    for step in range(steps):
        x, y = state.batches.draw(stack.streams)
        z = losses.draw_severities(
            stack.streams, x.shape[1], recipe.near_zero_bound, networks.copula.phi
        )
        with torch.no_grad():
            code = networks.f.encode(x)
            synthetic, singles = (
                x + networks.f.decode(code, z.drawn),
                networks.f.decode(code, z.singles),
            )
        shares = networks.g1(synthetic)
        decomposition = losses.decomposition_loss(shares, singles)
        reconstruction = losses.reconstruction_loss(
            networks.reconstruct(shares), z.singles
        )
        objective = (
            recipe.weights.decomposition * decomposition
            + recipe.weights.reconstruction * reconstruction
        )
        stack.update(
            {"g": 1.0}, objective, _FIRST_RATE * (1 - step / steps) + _LAST_RATE
        )
        everyone = torch.cat([synthetic, y], dim=1)
        noise = state.batches.draw_noise(recipe.instance_noise, stack.streams)
        logits = networks.judge(everyone if noise is None else everyone + noise)
        discrimination = losses.discrimination_loss(*logits.chunk(2, dim=1))
        stack.update(
            {"d": recipe.discriminator_ratio}, discrimination, recipe.learning_rate
        )
        terms = {
            "discrimination": discrimination,
            "decomposition": decomposition,
            "reconstruction": reconstruction,
        }
        report(
            recipe.start_steps + step + 1,
            {name: term.detach() for name, term in terms.items()},
        )
    stack.optimisers["g"].state.clear()


def estimate_normal_variation(state: TrainingState) -> NormalVariation:
    """Return mu and C of people without disease for each member.

    After a linear start C is that of the controls and of what remains of patients under
    the member's f, by a few rounds of stochastic EM. A random f says nothing about
    patients, so that C is that of the controls.
    """
    like, means, roots = state.batches.table, [], []
    for position in range(len(state.stack.members)):
        controls, patients = _get_people(state, position)
        if state.stack.recipe.start == "linear":
            f = state.stack.networks.select([position]).float().cpu().f
            covariance = estimate_covariance(
                f, controls, patients[:: -(-len(patients) // MAX_PATIENTS)]
            )
        else:
            covariance = ledoit_wolf(controls)[0]
        values, vectors = np.linalg.eigh(covariance)
        means.append(controls.mean(axis=0)[None])
        roots.append((vectors * np.sqrt(values.clip(0))).T)
    return NormalVariation(
        *(torch.as_tensor(np.stack(part)).to(like) for part in (means, roots))
    )


@torch.no_grad()
def estimate_covariance(
    f: Transformation, controls: FloatArray, patients: FloatArray
) -> FloatArray:
    """Return the covariance C (R, R) of normal variation e, given the f of one member.

    Patients are modelled as y = mu + h(z) + (1 + b(z)) e with e ~ N(0, C). h(z) is the
    mean change of the controls, and b(z) the slope of a region's change over that
    region in controls. Each round draws z of every patient from its posterior among
    `N_POINTS` severities, and adds e of the patients to those of the controls.
    """
    x, y = (
        torch.as_tensor(people, dtype=torch.float32) for people in (controls, patients)
    )
    mean, centred = x.mean(dim=0), x - x.mean(dim=0)
    code, n_patterns = f.encode(x[None]), f.gate.shape[1]
    points = torch.as_tensor(
        Sobol(n_patterns, seed=0).random(N_POINTS), dtype=torch.float32
    )
    centres, scales = [], []
    for point in points:
        change = f.decode(code, point.expand(1, len(x), -1))[0]
        slope = (change * centred).mean(dim=0) / centred.square().mean(dim=0).clamp_min(
            1e-12
        )
        centres.append(mean + change.mean(dim=0))
        scales.append((1 + slope).clamp_min(MIN_SCALE))
    generator, residuals = torch.Generator().manual_seed(0), centred
    for number in range(N_ROUNDS):
        values, vectors = np.linalg.eigh(
            ledoit_wolf(residuals.double().numpy(), assume_centered=number > 0)[0]
        )
        root = torch.as_tensor(
            vectors / np.sqrt(values.clip(max(values[-1] * 1e-8, 1e-12))),
            dtype=torch.float32,
        )
        log_density = [
            -0.5 * (((y - centre) / scale) @ root).square().sum(dim=1)
            - scale.log().sum()
            for centre, scale in zip(centres, scales, strict=True)
        ]
        drawn = torch.multinomial(
            torch.softmax(torch.stack(log_density, dim=1), dim=1),
            1,
            generator=generator,
        )[:, 0]
        of_patients = (y - torch.stack(centres)[drawn]) / torch.stack(scales)[drawn]
        residuals = torch.cat([centred, of_patients])
    return np.asarray(ledoit_wolf(residuals.double().numpy(), assume_centered=True)[0])
