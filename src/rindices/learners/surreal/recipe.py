"""Recipes: every hyper-parameter of a training, as one frozen value that checks itself."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

from rindices.errors import InputError, did_you_mean
from rindices.learners.subsampling import SUBSAMPLE_SHARE


def _field_names(cls: type) -> list[str]:
    return [entry.name for entry in dataclasses.fields(cls)]


def _raise_unless(holds: bool, offender: str, cure: str) -> None:
    if not holds:
        raise InputError(f"Recipe: {offender}. {cure}")


def _require_valid_name(name: str, known: list[str], what: str = "recipe field") -> None:
    if name not in known:
        raise InputError(f"there is no {what} '{name}': {did_you_mean(name, known)}")


@dataclass(frozen=True)
class LossWeights:
    """Weights of the seven terms of the objective, equation (11).

    Parameters
    ----------
    adversarial : float
        Weight of the GAN loss of f, 1 in the paper.
    change, decomposition, reconstruction : float
        gamma, kappa and zeta.
    orthogonality : float
        lambda, to be chosen by agreement among 0.1, 0.2, 0.4, 0.6 and 0.8.
    monotonicity, near_zero : float
        mu and eta.
    """

    adversarial: float = 1.0
    change: float = 6.0
    decomposition: float = 80.0
    reconstruction: float = 80.0
    orthogonality: float = 0.2
    monotonicity: float = 500.0
    near_zero: float = 6.0

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            _raise_unless(value >= 0, f"weight {name!r} is {value}", "Weights are 0 or more.")


@dataclass(frozen=True)
class Recipe:
    """How to train; the defaults are the paper's (section 3.3).

    Parameters
    ----------
    name : str
        Where the values come from.
    weights : LossWeights
        Weights of the losses.
    learning_rate : float
        Of f, g1 and g2.
    discriminator_ratio : float
        Learning rate of D as a share of ``learning_rate``.
    beta1, beta2, epsilon : float
        Adam.
    clip : float
        Bound c of every weight of f, g1 and g2 after each step (section 3.2).
    init_sd : float
        Standard deviation of the initial weights; biases start at zero.
    near_zero_bound : float
        Upper bound of the severities of the near-zero loss.
    batch_share : int
        A batch has 1 / ``batch_share`` of the patients, at most all controls.
    max_batch : int or None
        A further bound on the batch, for large studies.
    min_steps, max_steps : int
        Steps before a member may stop, and after which it must.
    reconstruction_bar, monotonicity_bar : float
        A member has converged when both losses are below these.
    explosion_bar : float
        A member has diverged when a loss is above this or not finite.
    check_every : int
        Steps between two looks at the losses: history and stopping.
    correlated : bool
        Learn a Gaussian copula between the severities.
    copula_divergence : float
        Weight of the copula's divergence from independence.
    copula_ratio : float
        Learning rate of the copula as a share of ``learning_rate``.
    copula_after : int
        Steps before the copula moves. While f still mixes the patterns, a wrong
        correlation hides the mixing; hold the copula until f has sorted them.
    share : float
        Share of the people that each member sees; which, is its own draw. The rest judges it (``telling_bar``).
    straighten : bool
        Train on shifts instead of volumes (:mod:`rindices.learners.log_transform`), in which disease is additive.
    start : str
        Of f: "random"; "ica", plain contrastive ICA; "likelihood", the whole linear model (:mod:`..starts`).
    start_steps, start_rate : int, float
        Adam steps that teach f the start, and their first rate.
    conditioning : str
        A fixed linear map before D that makes normal variation white: "none"; "controls", by the covariance of
        controls; "shared", by that of controls and of what the start leaves of patients.
    held_steps : int
        First steps, in which g and D learn and f is held at its start.
    decay : str
        Of the rates after ``held_steps``: "constant", or "cosine" down to zero at ``max_steps``.
    averaging : float
        Weights kept are the mean over about 1 / (1 - ``averaging``) steps; 0 for the last.
    telling_bar : float
        A warm member stops when D's loss on people the member has not seen reaches this share of chance, which means
        that D cannot tell synthesised from real patients. 0 for never; so too where a member sees everyone.
    inverse : str
        Where R-indices come from: "g", the trained networks; "refit", the regression of z on f(x, z) in closed form.
    """

    name: str = "paper"
    weights: LossWeights = field(default_factory=LossWeights)
    learning_rate: float = 2e-4
    discriminator_ratio: float = 1 / 5
    beta1: float = 0.5
    beta2: float = 0.999
    epsilon: float = 1e-8
    clip: float = 0.5
    init_sd: float = 0.1
    near_zero_bound: float = 0.05
    batch_share: int = 8
    max_batch: int | None = None
    min_steps: int = 100_000
    max_steps: int = 200_000
    reconstruction_bar: float = 0.003
    monotonicity_bar: float = 6e-4
    explosion_bar: float = 1e4
    check_every: int = 100
    correlated: bool = False
    copula_divergence: float = 0.02
    copula_ratio: float = 1 / 30
    copula_after: int = 0
    share: float = 1.0
    straighten: bool = False
    start: str = "random"
    start_steps: int = 1_000
    start_rate: float = 3e-3
    conditioning: str = "none"
    held_steps: int = 0
    decay: str = "constant"
    averaging: float = 0.0
    telling_bar: float = 0.0
    inverse: str = "g"

    def __post_init__(self) -> None:
        positive = (
            "learning_rate discriminator_ratio epsilon clip init_sd near_zero_bound batch_share "
            "max_steps reconstruction_bar monotonicity_bar explosion_bar check_every copula_ratio start_rate"
        )
        for name in positive.split():
            value = getattr(self, name)
            _raise_unless(value > 0, f"{name} is {value}", "It must be above 0.")
        for name in ("beta1", "beta2"):
            value = getattr(self, name)
            _raise_unless(0 <= value < 1, f"{name} is {value}", "It must be in [0, 1).")
        _raise_unless(self.near_zero_bound <= 1, "near_zero_bound is above 1", "Severities end at 1.")
        _raise_unless(self.copula_after >= 0, "copula_after is negative", "Use 0 or more.")
        _raise_unless(self.copula_divergence >= 0, "copula_divergence is negative", "Use 0 or more.")
        _raise_unless(self.max_batch is None or self.max_batch > 0, "max_batch is 0", "Leave it out.")
        _raise_unless(
            0 <= self.min_steps <= self.max_steps,
            f"min_steps is {self.min_steps} and max_steps is {self.max_steps}",
            "Raise max_steps or lower min_steps.",
        )

        for name, choices in _FIELD_CHOICES.items():
            value = getattr(self, name)
            _raise_unless(value in choices, f"{name} is {value!r}", f"Use {' or '.join(map(repr, choices))}.")
        for name in ("start_steps", "held_steps", "telling_bar"):
            _raise_unless(getattr(self, name) >= 0, f"{name} is negative", "Use 0 or more.")
        _raise_unless(0 < self.share <= 1, f"share is {self.share}", "It must be in (0, 1].")
        _raise_unless(0 <= self.averaging < 1, f"averaging is {self.averaging}", "It must be in [0, 1).")
        _raise_unless(
            self.held_steps <= self.max_steps,
            f"held_steps is {self.held_steps} and max_steps is {self.max_steps}",
            "Raise max_steps or lower held_steps.",
        )
        _raise_unless(
            self.inverse == "refit" or not self.straighten,
            "straighten is on and inverse is 'g'",
            "g reads volumes: use inverse='refit'.",
        )
        _raise_unless(
            self.start == "likelihood" or self.conditioning != "shared",
            "conditioning is 'shared' without a start that knows it",
            "Use start='likelihood' or conditioning='controls'.",
        )

    @property
    def warm(self) -> bool:
        """Whether f starts at a solution, so that a member is usable whenever it stops."""
        return self.start != "random"

    def pace(self, step: int) -> float:
        """Share of the learning rates at a step."""
        if self.decay == "constant" or step <= self.held_steps:
            return 1.0
        return 0.5 + 0.5 * math.cos(math.pi * (step - self.held_steps) / (self.max_steps - self.held_steps + 1))

    def replace(self, **changes: Any) -> Recipe:
        """The same recipe with other values; loss weights may be given by their own names.

        Examples
        --------
        >>> recipe("paper").replace(orthogonality=0.4, learning_rate=8e-4).weights.orthogonality
        0.4
        """
        own, losses = _field_names(Recipe), _field_names(LossWeights)
        for name in changes:
            _require_valid_name(name, own + losses)
        weights = changes.pop("weights", self.weights)
        chosen = {name: changes.pop(name) for name in losses if name in changes}
        return dataclasses.replace(self, **changes, weights=dataclasses.replace(weights, **chosen))

    def batch_size(self, controls: int, patients: int) -> int:
        """B for so many people: patients / 8, at most all controls, at most ``max_batch``."""
        batch = min(max(1, patients // self.batch_share), controls)
        return batch if self.max_batch is None else min(batch, self.max_batch)


_FIELD_CHOICES = {
    "start": ("random", "ica", "likelihood"),
    "conditioning": ("none", "controls", "shared"),
    "decay": ("constant", "cosine"),
    "inverse": ("g", "refit"),
}

DEFAULT_RECIPE = Recipe(
    name="default",
    learning_rate=8e-4,
    share=SUBSAMPLE_SHARE,
    straighten=True,
    start="likelihood",
    conditioning="shared",
    correlated=True,
    copula_after=10**9,  # at the start's correlation, which needs no learning
    held_steps=400,
    min_steps=0,
    max_steps=1_000,
    decay="cosine",
    telling_bar=0.97,
    inverse="refit",
)
"""What is used unless another recipe is named; ``benchmarks/ablation.py`` measures each of its elements."""

RECIPES = {"default": DEFAULT_RECIPE, "paper": Recipe()}


def get_recipe(name: str = "paper", **changes: Any) -> Recipe:
    """The recipe of that name, with changes.

    Parameters
    ----------
    name : str
        One of ``RECIPES``.
    **changes
        As for :meth:`Recipe.replace`.
    """
    _require_valid_name(name, list(RECIPES), "recipe")
    return RECIPES[name].replace(**changes)


def customise_recipe(base: Recipe, *, learn_copula: bool = False, **changes: Any) -> Recipe:
    """Apply a user's options to a recipe; used by :func:`rindices.fit` and by :class:`.estimator.SurrealGAN`.

    Parameters
    ----------
    base : Recipe
        Recipe to start from.
    learn_copula : bool
        Learn a copula between the severities. A recipe that keeps the copula of its linear start fixed, as ``default``
        does, then learns it as soon as f is trained.
    **changes
        As for :meth:`Recipe.replace`. A ``max_steps`` below the recipe's ``min_steps`` or ``held_steps`` lowers these
        as well, unless they are given.

    Returns
    -------
    Recipe
    """
    if "max_steps" in changes:
        for name in ("min_steps", "held_steps"):
            changes.setdefault(name, min(getattr(base, name), changes["max_steps"]))
    if not learn_copula:
        return base.replace(**changes)
    learning = base.replace(**(changes | {"correlated": True}))
    never_learnt = learning.copula_after >= learning.max_steps
    return learning.replace(copula_after=learning.held_steps) if never_learnt else learning


def recipe_to_dict(chosen: Recipe) -> dict[str, Any]:
    """All values of a recipe as plain ones, for JSON; :func:`recipe_from_dict` undoes it."""
    return dataclasses.asdict(chosen)


def recipe_from_dict(values: dict[str, Any]) -> Recipe:
    """The recipe with these values."""
    return Recipe(**(values | {"weights": LossWeights(**values["weights"])}))
