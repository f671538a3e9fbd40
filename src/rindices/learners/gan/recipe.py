"""Recipe and plan of a training: frozen values that check themselves.

Nothing here needs torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from rindices.errors import (
    InputError,
    Problem,
    ProblemCode,
    RindicesError,
    Severity,
    did_you_mean,
    make_install_command,
)

ORTHOGONALITY_WEIGHTS = (0.1, 0.2, 0.4, 0.6, 0.8)
"""Weights lambda that the paper tries."""
_CHOICES = {"start": ("random", "linear"), "draw_controls": ("people", "normal")}
_OPTIONAL_FIELDS = ("max_batch", "reconstruction_bar")
_SWITCHES = ("standardised_d", "detached_inversion", "correlated")
_POSITIVE_FIELDS = (
    *(
        "learning_rate",
        "discriminator_ratio",
        "epsilon",
        "clip",
        "init_sd",
        "near_zero_bound",
        "batch_share",
    ),
    *(
        "max_steps",
        "reconstruction_bar",
        "monotonicity_bar",
        "explosion_bar",
        "check_every",
        "copula_ratio",
    ),
    *("start_rate", "max_batch"),
)
_NONNEGATIVE_FIELDS = (
    "instance_noise",
    "copula_after",
    "copula_divergence",
    "f_ratio",
    "min_steps",
    "start_steps",
    "warm_steps",
)
_COPULA_FIELDS = ("copula_divergence", "copula_ratio", "copula_after")
"""Fields that have an effect with correlated severities only."""
_START_FIELDS = ("start_steps", "start_rate", "warm_steps")
"""Fields that have an effect with a linear start only."""
_FIELDS_AFTER_START = (
    *(
        "f_ratio",
        "last_rate",
        "min_steps",
        "max_steps",
        "reconstruction_bar",
        "monotonicity_bar",
        "explosion_bar",
    ),
    *("check_every", "detached_inversion", "correlated", *_COPULA_FIELDS),
)


def require_torch(what: str, error: type[RindicesError]) -> None:
    """Raise an error of this type if torch is not installed, without importing it."""
    if find_spec("torch") is None:
        text = f"{what} needs torch: {make_install_command('gan')}"
        raise error(
            Problem(
                severity=Severity.ERROR, what=text, code=ProblemCode.MISSING_PACKAGE
            )
        )


def check_device(device: str = "cpu") -> None:
    """Refuse a device that torch does not know, or that this machine does not have."""
    if device == "cpu":
        return
    import torch

    try:
        known = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InputError(
            f"device is {device!r}, which torch does not know: give 'cpu', or 'cuda' or 'mps'."
        ) from error
    try:
        torch.zeros(1, device=known)
    except Exception as error:  # each kind of device raises errors of its own
        raise InputError(
            f"device is {device!r}, which torch cannot use on this machine: leave it out, or give 'cpu'."
        ) from error


def _raise_unless(valid: bool, problem: str, cure: str) -> None:
    if not valid:
        raise InputError(f"Recipe: {problem}. {cure}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(
        value, bool
    )


@dataclass(frozen=True, kw_only=True)
class LossWeights:
    """Weights of the seven terms of the objective, equation (11).

    Parameters
    ----------
    adversarial : float, default=1
        Weight of the GAN loss of f.
    change : float, default=6
        gamma, of the mean absolute change.
    decomposition : float, default=80
        kappa, of g1 against the changes of single patterns.
    reconstruction : float, default=80
        zeta, of g2 against the severities.
    orthogonality : float, default=0.2
        lambda, of the overlap between patterns; one of `ORTHOGONALITY_WEIGHTS`, by
        agreement.
    monotonicity : float, default=500
        mu, of changes that are smaller at a higher severity.
    near_zero : float, default=6
        eta, of the change at severities near zero.
    """

    adversarial: float = 1.0
    change: float = 6.0
    decomposition: float = 80.0
    reconstruction: float = 80.0
    orthogonality: float = 0.2
    monotonicity: float = 500.0
    near_zero: float = 6.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            _raise_unless(
                _is_number(value), f"weight {name!r} is {value!r}", "Give one number."
            )
            _raise_unless(
                value >= 0, f"weight {name!r} is {value}", "Weights are 0 or more."
            )


LOSS_NAMES = ("discrimination", *(each.name for each in fields(LossWeights)))
"""Names of the losses in a history: that of D, and the seven terms of the objective."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Hyper-parameters of a training. The defaults are the paper's, section 3.3.

    Parameters
    ----------
    weights : LossWeights
        Weights of the losses.
    learning_rate : float, default=2e-4
        Learning rate of g1 and g2. Rate times steps is how far a training goes.
    f_ratio : float, default=1
        Learning rate of f as a share of ``learning_rate``.
    discriminator_ratio : float, default=1/5
        Learning rate of D as a share of ``learning_rate``.
    last_rate : float, default=1
        Rates at the last step as a share of those at the first. Below 1 they fall along
        a cosine, and members train to ``max_steps``.
    beta1, beta2, epsilon : float
        Parameters of Adam.
    clip : float, default=0.5
        Bound c of every weight of f, g1 and g2 after each step, section 3.2.
    init_sd : float, default=0.1
        Standard deviation of the initial weights. Biases start at zero.
    near_zero_bound : float, default=0.05
        Upper bound of the severities of the near-zero loss.
    batch_share : int, default=8
        A batch has 1 / ``batch_share`` of the patients, at most all controls.
    max_batch : int, optional
        Largest batch, for large studies.
    min_steps : int, default=100,000
        Fewest steps after which a member can have converged.
    max_steps : int, default=120,000
        Steps after which a member stops in any case.
    reconstruction_bar : float, optional, default=0.003
        A member meets the bars when the mean reconstruction loss since the last check
        is below this, and monotonicity is, too. None: below 0.9 / (12 M), so that g
        reads at least a tenth of the variance of the severities. With
        ``detached_inversion`` f does not make itself readable, and how well g can read
        depends on the disease.
    monotonicity_bar : float, default=6e-4
        The same for the monotonicity loss.
    explosion_bar : float, default=1e4
        A member has diverged when a loss is above this or not finite.
    check_every : int, default=100
        Steps between two checks of the losses.
    start : {'random', 'linear'}, default='random'
        ``linear``: f is first regressed on a linear solution of the member's people,
        see `.start`.
    start_steps : int, default=4,000
        Steps of that regression.
    start_rate : float, default=3e-3
        Learning rate at the first step of that regression, from which it falls linearly
        to zero.
    warm_steps : int, default=800
        Steps after that regression in which g and D train alone.
    draw_controls : {'people', 'normal'}, default='people'
        ``people``: the controls of a step are controls of the study. ``normal``: they
        are drawn from N(mu, C).
    instance_noise : float, default=0
        Standard deviation, in units of the normal variation N(0, C), of noise that is
        added to everyone whom D reads, so that D cannot learn single patients by heart.
        It needs ``draw_controls='normal'``.
    standardised_d : bool, default=False
        D reads a person's deviations from the controls, in control standard deviations,
        instead of the regions.
    detached_inversion : bool, default=False
        The losses of decomposition and reconstruction train g alone, not f.
    correlated : bool, default=False
        Draw the severities from a Gaussian copula that is learnt, instead of
        independently.
    copula_divergence : float, default=0.02
        Weight of the copula's divergence from independence.
    copula_ratio : float, default=1/30
        Learning rate of the copula as a share of ``learning_rate``.
    copula_after : int, default=0
        Steps before the copula is trained. While f still mixes the patterns, a wrong
        correlation would hide the mixing.
    share : float, default=1
        Share of the people that each member is trained on, drawn by the member.
    """

    weights: LossWeights = LossWeights()
    learning_rate: float = 2e-4
    f_ratio: float = 1.0
    discriminator_ratio: float = 1 / 5
    last_rate: float = 1.0
    beta1: float = 0.5
    beta2: float = 0.999
    epsilon: float = 1e-8
    clip: float = 0.5
    init_sd: float = 0.1
    near_zero_bound: float = 0.05
    batch_share: int = 8
    max_batch: int | None = None
    min_steps: int = 100_000
    max_steps: int = 120_000
    reconstruction_bar: float | None = 0.003
    monotonicity_bar: float = 6e-4
    explosion_bar: float = 1e4
    check_every: int = 100
    start: str = "random"
    start_steps: int = 4_000
    start_rate: float = 3e-3
    warm_steps: int = 800
    draw_controls: str = "people"
    instance_noise: float = 0.0
    standardised_d: bool = False
    detached_inversion: bool = False
    correlated: bool = False
    copula_divergence: float = 0.02
    copula_ratio: float = 1 / 30
    copula_after: int = 0
    share: float = 1.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            is_other = name in ("weights", *_CHOICES, *_SWITCHES) or (
                name in _OPTIONAL_FIELDS and value is None
            )
            _raise_unless(
                is_other or _is_number(value),
                f"{name} is {value!r}",
                "Give one number.",
            )
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            _raise_unless(
                value in choices,
                f"{name} is {value!r}",
                f"Give one of {', '.join(choices)}.",
            )
        for name in _SWITCHES:
            value = getattr(self, name)
            _raise_unless(
                isinstance(value, bool), f"{name} is {value!r}", "Give True or False."
            )
        for name in _POSITIVE_FIELDS:
            value = getattr(self, name)
            _raise_unless(
                value is None or value > 0, f"{name} is {value}", "It must be above 0."
            )
        for name in _NONNEGATIVE_FIELDS:
            _raise_unless(
                getattr(self, name) >= 0, f"{name} is negative", "Use 0 or more."
            )
        for name in ("beta1", "beta2"):
            value = getattr(self, name)
            _raise_unless(0 <= value < 1, f"{name} is {value}", "It must be in [0, 1).")
        _raise_unless(
            self.near_zero_bound <= 1,
            "near_zero_bound is above 1",
            "Severities end at 1.",
        )
        has_noise = self.instance_noise > 0 and self.draw_controls != "normal"
        _raise_unless(
            not has_noise,
            "instance_noise has no C to be drawn from",
            "Give draw_controls='normal'.",
        )
        for name in ("share", "last_rate"):
            value = getattr(self, name)
            _raise_unless(0 < value <= 1, f"{name} is {value}", "It must be in (0, 1].")

    def replace(self, **changes: Any) -> Recipe:
        """Return a copy with other values; weights of losses may be given by their own
        names.

        Examples
        --------
        >>> Recipe().replace(orthogonality=0.4).weights.orthogonality
        0.4
        """
        names, loss_names = (
            [field.name for field in fields(cls)] for cls in (Recipe, LossWeights)
        )
        for name in changes:
            if name not in names + loss_names:
                raise InputError(
                    f"there is no recipe field '{name}': {did_you_mean(name, names + loss_names)}"
                )
        weights = changes.pop("weights", self.weights)
        weight_changes = {
            name: changes.pop(name) for name in loss_names if name in changes
        }
        return replace(self, **changes, weights=replace(weights, **weight_changes))

    def shorten(self) -> Recipe:
        """Return a training of a quarter of the steps that ends there, to compare
        weights lambda by agreement.
        """
        steps, bar = (
            max(1, min(self.min_steps, self.max_steps) // 4),
            self.explosion_bar,
        )
        return replace(
            self,
            min_steps=steps,
            max_steps=steps,
            reconstruction_bar=bar,
            monotonicity_bar=bar,
        )

    def batch_size(self, controls: int, patients: int) -> int:
        """Return B for these numbers of people: patients / 8, at most all controls, at
        most ``max_batch``.
        """
        batch = min(max(1, patients // self.batch_share), controls)
        return batch if self.max_batch is None else min(batch, self.max_batch)

    def compute_rate(self, step: int) -> float:
        """Return the learning rate of a step, from 1, see ``last_rate``."""
        progress = min((step - 1) / self.max_steps, 1.0)
        return self.learning_rate * (
            self.last_rate
            + (1 - self.last_rate) * (1 + math.cos(math.pi * progress)) / 2
        )

    def get_reconstruction_bar(self, n_patterns: int) -> float:
        """Return the bar of the reconstruction loss; 1 / (12 M) is the loss of a g that
        always says 1/2.
        """
        return (
            0.9 / (12 * n_patterns)
            if self.reconstruction_bar is None
            else self.reconstruction_bar
        )

    @property
    def first_stop(self) -> int:
        """Steps after which a member may stop because it has converged."""
        return (
            self.min_steps
            if self.last_rate == 1
            else max(self.min_steps, self.max_steps)
        )

    def forget_training(self) -> Recipe:
        """Return the recipe with the paper's value of all that the start of a member
        does not depend on.

        Trainings whose recipes differ in these values alone share their starts: those
        at the weights lambda, above all.
        """
        published = Recipe()
        values = {name: getattr(published, name) for name in _FIELDS_AFTER_START}
        kept = {
            name: getattr(self.weights, name)
            for name in ("decomposition", "reconstruction")
        }
        return replace(self, **values, weights=LossWeights(**kept))


PUBLISHED = Recipe()
"""The training of the paper to the letter: 2e-4, at least 100,000 iterations, batches
of an eighth of the patients.
"""
SURREAL_GAN = Recipe(
    learning_rate=8e-4,
    f_ratio=0.1,
    discriminator_ratio=0.5,
    last_rate=0.05,
    min_steps=3_000,
    max_steps=3_000,
    reconstruction_bar=None,
    start="linear",
    draw_controls="normal",
    instance_noise=1.0,
    standardised_d=True,
    detached_inversion=True,
    share=0.8,
)
"""The training that this package ships: from a linear start, in 3,000 steps."""


def customise_recipe(
    base: Recipe, *, learn_copula: bool = False, **changes: Any
) -> Recipe:
    """Apply a user's options to a recipe; used by :func:`rindices.fit` and by
    :class:`.estimator.SurrealGAN`.

    Parameters
    ----------
    base : Recipe
        Recipe to start from.
    learn_copula : bool
        Learn a copula between the severities.
    changes : Any
        As for :meth:`Recipe.replace`. A ``max_steps`` below ``min_steps`` is
        obeyed, but then no member counts as converged.
    """
    recipe = base.replace(**(changes | ({"correlated": True} if learn_copula else {})))
    for name in _COPULA_FIELDS:
        _raise_unless(
            name not in changes or recipe.correlated,
            f"{name} has no effect",
            "It needs correlated=True.",
        )
    for name in _START_FIELDS:
        has_effect = name not in changes or recipe.start == "linear"
        _raise_unless(has_effect, f"{name} has no effect", "It needs start='linear'.")
    return recipe


def recipe_from_dict(values: Mapping[str, Any]) -> Recipe:
    """Return the recipe with these values, the inverse of ``dataclasses.asdict``."""
    return Recipe(**(dict(values) | {"weights": LossWeights(**values["weights"])}))


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """All that decides the numbers of a training, besides the data.

    Attributes
    ----------
    patterns : int
        M.
    recipe : Recipe
        Hyper-parameters.
    seed : int
        Seed of the run. Each member derives its own stream from it.
    members : tuple of int
        Numbers of the members to train.
    stack : int
        Members per stack, trained by the same matrix products. Five keep a CPU core
        busy and fit into its cache. On a GPU use all.
    dtype : str
        "float32" or "float64".
    """

    patterns: int
    recipe: Recipe = Recipe()
    seed: int = 0
    members: tuple[int, ...] = (0,)
    stack: int = 5
    dtype: str = "float32"

    @property
    def stacks(self) -> list[tuple[int, ...]]:
        """Numbers of the members of each stack."""
        return [
            self.members[start : start + self.stack]
            for start in range(0, len(self.members), self.stack)
        ]
