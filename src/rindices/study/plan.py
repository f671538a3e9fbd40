"""The plan: which member sets a study consists of. The plan, not the machine, decides what is computed together."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from rindices.errors import StudyError, named
from rindices.selection.choose import GridPoint
from rindices.study.config import Model

STACK = 5
"""Members of one set: they share products and stay in a core's cache. A constant, so that results never move."""
_FORMAT = 1


@dataclass(frozen=True)
class MemberSet:
    """Members of one grid point that are trained together.

    Attributes
    ----------
    point : GridPoint
    numbers : tuple of int
        The members' numbers within the grid point.
    recipe : str
        ``contrastive`` or ``paper``.
    values : str
        Every value of the recipe, as JSON.
    seed : int
    data : str
        Fingerprint of the cohort.
    """

    point: GridPoint
    numbers: tuple[int, ...]
    recipe: str
    values: str
    seed: int
    data: str

    @property
    def key(self) -> str:
        """A name that changes with anything that could change the result, and with nothing else."""
        parts = [_FORMAT, list(self.point), list(self.numbers), self.recipe, self.values, self.seed, self.data]
        digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
        weight = "" if self.point.orthogonality is None else f"-l{self.point.orthogonality:g}"
        return f"m{self.point.n_patterns}{weight}-{self.numbers[0]:03d}-{digest}"


def resolve_recipe(model: Model) -> tuple[str, dict[str, Any]]:
    """Return the recipe's name and all its values; ``default`` is the contrastive learner until training beats it."""
    if model.recipe in ("default", "contrastive"):
        if model.recipe_changes or model.correlated:
            raise_unused(model)
        return "contrastive", {}
    from rindices.learners.surreal.recipe import as_values, recipe

    changes: dict[str, Any] = dict(model.recipe_changes)
    if "orthogonality" in changes:
        raise StudyError("orthogonality is part of the grid: set it as model.orthogonality, not in recipe_changes.")
    if "max_steps" in changes:  # a cap below the usual minimum lowers the minimum with it
        changes.setdefault("min_steps", min(recipe("paper").min_steps, changes["max_steps"]))
    return "paper", as_values(recipe("paper", correlated=model.correlated, **changes))


def raise_unused(model: Model) -> None:
    """Refuse settings that the contrastive recipe has no use for."""
    unused = [*model.recipe_changes, *(["correlated"] if model.correlated else [])]
    raise StudyError(f"the recipe {model.recipe} has no {named(unused)}: set recipe = 'paper' or leave it out.")


def make_plan(model: Model, seed: int, data: str) -> list[MemberSet]:
    """Return the member sets of a study, in a fixed order.

    Parameters
    ----------
    model : Model
    seed : int
    data : str
        Fingerprint of the cohort.
    """
    recipe, values = resolve_recipe(model)
    weights: tuple[float | None, ...] = (
        (None,) if recipe == "contrastive" else tuple(dict.fromkeys(model.orthogonality))
    )
    points = [GridPoint(patterns, weight) for patterns in dict.fromkeys(model.patterns) for weight in weights]
    starts = range(0, model.members, STACK)
    sets = [tuple(range(start, min(start + STACK, model.members))) for start in starts]
    return [MemberSet(p, numbers, recipe, _values_at(values, p), seed, data) for p in points for numbers in sets]


def _values_at(values: dict[str, Any], point: GridPoint) -> str:
    """Return the recipe's values at a grid point, its lambda among the weights."""
    if point.orthogonality is not None:
        values = values | {"weights": values["weights"] | {"orthogonality": point.orthogonality}}
    return json.dumps(values, sort_keys=True)
