"""Recipes: all hyper-parameters of a training as one frozen value that checks itself."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from rindices.errors import InputError, did_you_mean
from rindices.learners.subsampling import SUBSAMPLE_SHARE


def _raise_unless(valid: bool, problem: str, cure: str) -> None:
    if not valid:
        raise InputError(f"Recipe: {problem}. {cure}")


def _require_valid_name(name: str, valid_names: list[str], kind: str = "recipe field") -> None:
    if name in REMOVED_FIELDS:
        raise InputError(f"the recipe field '{name}' was removed ({REMOVED_FIELDS[name].reason}): leave it out.")
    if name not in valid_names:
        raise InputError(f"there is no {kind} '{name}': {did_you_mean(name, valid_names)}")


class _RemovedField(NamedTuple):
    value: float  # the only value that still has a meaning
    reason: str


REMOVED_FIELDS = {"averaging": _RemovedField(0.0, "averaging the weights changed no result")}
"""Fields of earlier versions. They are still written, so that names of runs and checkpoints stay the same."""


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
    """Hyper-parameters of a training; the defaults are the paper's (section 3.3).

    Parameters
    ----------
    name : str
        Name of the recipe that the values come from.
    weights : LossWeights
        Weights of the losses.
    learning_rate : float
        Learning rate of f, g1 and g2.
    discriminator_ratio : float
        Learning rate of D as a share of ``learning_rate``.
    beta1, beta2, epsilon : float
        Parameters of Adam.
    clip : float
        Bound c of every weight of f, g1 and g2 after each step (section 3.2).
    init_sd : float
        Standard deviation of the initial weights; biases start at zero.
    near_zero_bound : float
        Upper bound of the severities of the near-zero loss.
    batch_share : int
        A batch has 1 / ``batch_share`` of the patients, at most all controls.
    max_batch : int or None
        Largest batch, for large studies.
    min_steps, max_steps : int
        Steps before a member may stop, and after which it must.
    reconstruction_bar, monotonicity_bar : float
        A member has converged when both losses are below these.
    explosion_bar : float
        A member has diverged when a loss is above this or not finite.
    check_every : int
        Steps between two checks of the losses, for the history and for stopping.
    correlated : bool
        Draw the severities from a Gaussian copula instead of independently.
    copula_divergence : float
        Weight of the copula's divergence from independence.
    copula_ratio : float
        Learning rate of the copula as a share of ``learning_rate``.
    copula_after : int
        Steps before the copula is trained. While f still mixes the patterns, a wrong correlation hides the mixing.
    share : float
        Share of the people that each member is trained on, drawn by the member. The others are held out for
        ``telling_bar``.
    straighten : bool
        Train on shifts instead of volumes (:mod:`rindices.learners.log_transform`), in which disease is additive.
    start : str
        Start of f: "random"; "ica", plain contrastive ICA; "likelihood", the full linear model
        (:mod:`rindices.learners.contrastive.linear_start`).
    start_steps, start_rate : int, float
        Adam steps that fit f to the start, and their first learning rate.
    conditioning : str
        Fixed linear map before D that whitens normal variation: "none"; "controls", by the covariance of controls;
        "shared", by the covariance of controls and of the residuals of patients.
    held_steps : int
        First steps, in which g and D are trained while f is frozen.
    decay : str
        Learning rates after ``held_steps``: "constant", or "cosine" down to zero at ``max_steps``.
    telling_bar : float
        A member with a warm start stops when D's loss on held-out people reaches this share of the loss at chance:
        D then cannot tell synthesised from real patients. 0 never stops a member; nor does a share of 1.
    inverse : str
        Source of the R-indices: "g", the trained networks; "refit", the regression of z on f(x, z) in closed form.
    """

    name: str = "paper"
    weights: LossWeights = LossWeights()
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
    telling_bar: float = 0.0
    inverse: str = "g"

    def __post_init__(self) -> None:
        for name in _POSITIVE_FIELDS:
            value = getattr(self, name)
            _raise_unless(value > 0, f"{name} is {value}", "It must be above 0.")
        for name in ("copula_after", "copula_divergence", "start_steps", "held_steps", "telling_bar"):
            _raise_unless(getattr(self, name) >= 0, f"{name} is negative", "Use 0 or more.")
        for name in ("beta1", "beta2"):
            value = getattr(self, name)
            _raise_unless(0 <= value < 1, f"{name} is {value}", "It must be in [0, 1).")
        for name, choices in _FIELD_CHOICES.items():
            value = getattr(self, name)
            _raise_unless(value in choices, f"{name} is {value!r}", f"Use {' or '.join(map(repr, choices))}.")
        for name in ("min_steps", "held_steps"):
            value, limit = getattr(self, name), self.max_steps
            problem = f"{name} is {value} and max_steps is {limit}"
            _raise_unless(0 <= value <= limit, problem, f"Raise max_steps or lower {name}.")
        _raise_unless(self.near_zero_bound <= 1, "near_zero_bound is above 1", "Severities end at 1.")
        _raise_unless(self.max_batch is None or self.max_batch > 0, "max_batch is 0", "Leave it out.")
        _raise_unless(0 < self.share <= 1, f"share is {self.share}", "It must be in (0, 1].")
        _raise_unless(
            self.inverse == "refit" or not self.straighten,
            "straighten is on and inverse is 'g'",
            "g reads volumes: use inverse='refit'.",
        )
        _raise_unless(
            self.start == "likelihood" or self.conditioning != "shared",
            "conditioning is 'shared' and the start does not estimate it",
            "Use start='likelihood' or conditioning='controls'.",
        )

    @property
    def warm_start(self) -> bool:
        """Whether f starts at a solution, so that a member is usable whenever it stops."""
        return self.start != "random"

    def rate_factor(self, step: int) -> float:
        """Return the factor of the learning rates at a step."""
        if self.decay == "constant" or step <= self.held_steps:
            return 1.0
        return 0.5 + 0.5 * math.cos(math.pi * (step - self.held_steps) / (self.max_steps - self.held_steps + 1))

    def replace(self, **changes: Any) -> Recipe:
        """Return a copy with other values; weights of losses may be given by their own names.

        Examples
        --------
        >>> get_recipe("paper").replace(orthogonality=0.4, learning_rate=8e-4).weights.orthogonality
        0.4
        """
        names, loss_names = ([field.name for field in dataclasses.fields(cls)] for cls in (Recipe, LossWeights))
        for name in changes:
            _require_valid_name(name, names + loss_names)
        weights = changes.pop("weights", self.weights)
        weight_changes = {name: changes.pop(name) for name in loss_names if name in changes}
        return dataclasses.replace(self, **changes, weights=dataclasses.replace(weights, **weight_changes))

    def batch_size(self, controls: int, patients: int) -> int:
        """Return B for these numbers of people: patients / 8, at most all controls, at most ``max_batch``."""
        batch = min(max(1, patients // self.batch_share), controls)
        return batch if self.max_batch is None else min(batch, self.max_batch)


_POSITIVE_FIELDS = (
    *("learning_rate", "discriminator_ratio", "epsilon", "clip", "init_sd", "near_zero_bound", "batch_share"),
    *("max_steps", "reconstruction_bar", "monotonicity_bar", "explosion_bar", "check_every", "copula_ratio"),
    "start_rate",
)
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
    copula_after=10**9,  # never: the linear start estimates the correlation
    held_steps=400,
    min_steps=0,
    max_steps=1_000,
    decay="cosine",
    telling_bar=0.97,
    inverse="refit",
)
"""Used unless another recipe is named; ``benchmarks/ablation.py`` measures its elements one by one."""

RECIPES = {"default": DEFAULT_RECIPE, "paper": Recipe()}


def get_recipe(name: str = "paper", **changes: Any) -> Recipe:
    """Return a recipe by name, with changes.

    Parameters
    ----------
    name : str
        One of ``RECIPES``.
    **changes
        As for :meth:`Recipe.replace`.

    Returns
    -------
    Recipe

    Raises
    ------
    InputError
        If there is no such recipe or field, or a value is not possible.
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
    """
    if "max_steps" in changes:
        for name in ("min_steps", "held_steps"):
            changes.setdefault(name, min(getattr(base, name), changes["max_steps"]))
    if not learn_copula:
        return base.replace(**changes)
    learning = base.replace(**(changes | {"correlated": True}))
    never_learnt = learning.copula_after >= learning.max_steps
    return learning.replace(copula_after=learning.held_steps) if never_learnt else learning


def recipe_to_dict(recipe: Recipe) -> dict[str, Any]:
    """Return all values of a recipe for JSON; :func:`recipe_from_dict` is the inverse."""
    return dataclasses.asdict(recipe) | {name: removed.value for name, removed in REMOVED_FIELDS.items()}


def recipe_from_dict(values: Mapping[str, Any]) -> Recipe:
    """Return the recipe with these values, also if an earlier version wrote them."""
    for name, removed in REMOVED_FIELDS.items():
        if values.get(name, removed.value) != removed.value:
            _require_valid_name(name, [])
    fields = {name: value for name, value in values.items() if name not in REMOVED_FIELDS}
    return Recipe(**(fields | {"weights": LossWeights(**values["weights"])}))
