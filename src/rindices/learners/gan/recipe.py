"""Recipe and plan of a training: frozen values that check themselves. Nothing here needs torch."""

from __future__ import annotations

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


def require_torch(what: str, error: type[RindicesError]) -> None:
    """Raise an error of this type if torch is not installed, without importing it."""
    if find_spec("torch") is None:
        text = f"{what} needs torch: {make_install_command('gan')}"
        raise error(Problem(Severity.ERROR, text, code=ProblemCode.MISSING_PACKAGE))


def check_device(device: str) -> None:
    """Refuse a device that torch does not know."""
    import torch

    try:
        torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InputError(f"device is {device!r}, which torch does not know: give 'cpu', or 'cuda' or 'mps'.") from error


def _raise_unless(valid: bool, problem: str, cure: str) -> None:
    if not valid:
        raise InputError(f"Recipe: {problem}. {cure}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


@dataclass(frozen=True)
class LossWeights:
    """Weights of the seven terms of the objective, equation (11).

    adversarial: weight of the GAN loss of f, 1 in the paper; change, decomposition, reconstruction: gamma, kappa and
    zeta; orthogonality: lambda, one of `ORTHOGONALITY_WEIGHTS`, by agreement; monotonicity, near_zero: mu and eta.
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
            _raise_unless(_is_number(value), f"weight {name!r} is {value!r}", "Give one number.")
            _raise_unless(value >= 0, f"weight {name!r} is {value}", "Weights are 0 or more.")


@dataclass(frozen=True)
class Recipe:
    """Hyper-parameters of a training; the defaults are the paper's (section 3.3), except the learning rate.

    weights: weights of the losses; learning_rate: learning rate of f, g1 and g2, 2e-4 in the paper. Rate times steps is
    how far a training goes; discriminator_ratio: learning rate of D as a share of ``learning_rate``; beta1, beta2,
    epsilon: parameters of Adam; clip: bound c of every weight of f, g1 and g2 after each step (section 3.2); init_sd:
    standard deviation of the initial weights; biases start at zero;
    near_zero_bound: upper bound of the severities of the near-zero loss; batch_share: a batch has 1 / ``batch_share``
    of the patients, at most all controls; max_batch: largest batch, for large studies; min_steps, max_steps: steps
    before a member may stop, and after which it must; reconstruction_bar, monotonicity_bar: a member has converged when
    both losses are below these; explosion_bar: a member has diverged when a loss is above this or not finite;
    check_every: steps between two checks of the losses, for stopping; correlated: draw the
    severities from a Gaussian copula instead of independently; copula_divergence: weight of the copula's divergence
    from independence; copula_ratio: learning rate of the copula as a share of ``learning_rate``; copula_after: steps
    before the copula is trained. While f still mixes the patterns, a wrong correlation hides the mixing; share: share
    of the people that each member is trained on, drawn by the member.
    """

    weights: LossWeights = LossWeights()
    learning_rate: float = 8e-4
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
    max_steps: int = 120_000
    reconstruction_bar: float = 0.003
    monotonicity_bar: float = 6e-4
    explosion_bar: float = 1e4
    check_every: int = 100
    correlated: bool = False
    copula_divergence: float = 0.02
    copula_ratio: float = 1 / 30
    copula_after: int = 0
    share: float = 1.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            is_other = name in ("weights", "correlated") or (name == "max_batch" and value is None)
            _raise_unless(is_other or _is_number(value), f"{name} is {value!r}", "Give one number.")
        for name in _POSITIVE_FIELDS:
            value = getattr(self, name)
            _raise_unless(value > 0, f"{name} is {value}", "It must be above 0.")
        for name in ("copula_after", "copula_divergence"):
            _raise_unless(getattr(self, name) >= 0, f"{name} is negative", "Use 0 or more.")
        for name in ("beta1", "beta2"):
            value = getattr(self, name)
            _raise_unless(0 <= value < 1, f"{name} is {value}", "It must be in [0, 1).")
        problem = f"min_steps is {self.min_steps} and max_steps is {self.max_steps}"
        _raise_unless(0 <= self.min_steps <= self.max_steps, problem, "Raise max_steps or lower min_steps.")
        _raise_unless(self.near_zero_bound <= 1, "near_zero_bound is above 1", "Severities end at 1.")
        _raise_unless(self.max_batch is None or self.max_batch > 0, "max_batch is 0", "Leave it out.")
        _raise_unless(0 < self.share <= 1, f"share is {self.share}", "It must be in (0, 1].")

    def replace(self, **changes: Any) -> Recipe:
        """Return a copy with other values; weights of losses may be given by their own names.

        Examples
        --------
        >>> Recipe().replace(orthogonality=0.4, learning_rate=8e-4).weights.orthogonality
        0.4
        """
        names, loss_names = ([field.name for field in fields(cls)] for cls in (Recipe, LossWeights))
        for name in changes:
            if name not in names + loss_names:
                raise InputError(f"there is no recipe field '{name}': {did_you_mean(name, names + loss_names)}")
        weights = changes.pop("weights", self.weights)
        weight_changes = {name: changes.pop(name) for name in loss_names if name in changes}
        return replace(self, **changes, weights=replace(weights, **weight_changes))

    def shorten(self) -> Recipe:
        """Return a training of a quarter of the steps that ends there, to compare weights lambda by agreement."""
        steps, bar = max(1, self.min_steps // 4), self.explosion_bar
        return replace(self, min_steps=steps, max_steps=steps, reconstruction_bar=bar, monotonicity_bar=bar)

    def batch_size(self, controls: int, patients: int) -> int:
        """Return B for these numbers of people: patients / 8, at most all controls, at most ``max_batch``."""
        batch = min(max(1, patients // self.batch_share), controls)
        return batch if self.max_batch is None else min(batch, self.max_batch)


_POSITIVE_FIELDS = (
    *("learning_rate", "discriminator_ratio", "epsilon", "clip", "init_sd", "near_zero_bound", "batch_share"),
    *("max_steps", "reconstruction_bar", "monotonicity_bar", "explosion_bar", "check_every", "copula_ratio"),
)
_COPULA_FIELDS = ("copula_divergence", "copula_ratio", "copula_after")
"""Fields that have an effect with correlated severities only."""


def customise_recipe(base: Recipe, *, learn_copula: bool = False, **changes: Any) -> Recipe:
    """Apply a user's options to a recipe; used by :func:`rindices.fit` and by :class:`.estimator.SurrealGAN`.

    base: recipe to start from; learn_copula: learn a copula between the severities; **changes: as for
    :meth:`Recipe.replace`. A ``max_steps`` below the recipe's ``min_steps`` lowers it as well, unless it is given.
    """
    if _is_number(changes.get("max_steps")):
        changes.setdefault("min_steps", min(base.min_steps, changes["max_steps"]))
    recipe = base.replace(**(changes | ({"correlated": True} if learn_copula else {})))
    for name in _COPULA_FIELDS:
        _raise_unless(name not in changes or recipe.correlated, f"{name} has no effect", "It needs correlated=True.")
    return recipe


def recipe_from_dict(values: Mapping[str, Any]) -> Recipe:
    """Return the recipe with these values, the inverse of ``dataclasses.asdict``."""
    return Recipe(**(dict(values) | {"weights": LossWeights(**values["weights"])}))


@dataclass(frozen=True)
class TrainingPlan:
    """All that decides the numbers of a training, besides the data.

    patterns: M; recipe: hyper-parameters; seed: seed of the run; each member derives its own stream from it; members:
    numbers of the members to train; stack: members per stack, trained by the same matrix products. Five keep a CPU core
    busy and fit into its cache; on a GPU use all; dtype: "float32" or "float64".
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
        return [self.members[start : start + self.stack] for start in range(0, len(self.members), self.stack)]
