"""The plan of a study: its member sets. It does not depend on the machine, so results do not either."""

import hashlib
import json
from dataclasses import dataclass

from rindices.learners.prepared_people import N_FOLDS
from rindices.model.normal_reference import NormalReference
from rindices.preprocess.harmonise import resolve_harmonise_mode
from rindices.preprocess.measures import encode_measures, resolve_adjustment
from rindices.selection.choose import GridPoint
from rindices.study.config import ModelConfig, StudyConfig
from rindices.study.recipes import RecipeValues, get_study_recipe
from rindices.tables.cohort import Cohort

STACK_SIZE = N_FOLDS
"""Members per set: those of one partition into folds, or five that share matrix products and fit a core's cache."""
_KEY_VERSION = 3


@dataclass(frozen=True)
class MemberSet:
    """Members of one grid point that are trained together.

    numbers: the members' numbers within the grid point; recipe: its name in the registry (`rindices.study.recipes`);
    values: every value of the recipe, as JSON; data: fingerprint of the cohort.
    """

    point: GridPoint
    numbers: tuple[int, ...]
    recipe: str
    values: str
    seed: int
    data: str

    @property
    def key(self) -> str:
        """Name that changes with everything that could change the result, and with nothing else."""
        parts = [_KEY_VERSION, list(self.point), list(self.numbers), self.recipe, self.values, self.seed, self.data]
        digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
        weight = "" if self.point.orthogonality is None else f"-l{self.point.orthogonality:g}"
        return f"m{self.point.n_patterns}{weight}-{self.numbers[0]:03d}-{digest}"


def resolve_recipe(model: ModelConfig) -> tuple[str, RecipeValues]:
    """Return the recipe's name and all its values."""
    return model.recipe, get_study_recipe(model.recipe).resolve_values(model.recipe_changes, model.correlated)


def list_grid_weights(model: ModelConfig) -> tuple[float | None, ...]:
    """Return the weights lambda of the grid: those of the study, else those of the recipe."""
    weights = get_study_recipe(model.recipe).orthogonality_weights
    if not weights:
        return (None,)
    return weights if model.orthogonality is None else tuple(dict.fromkeys(model.orthogonality))


def make_data_key(cohort: Cohort, study: StudyConfig, reference: NormalReference | None, visits: str) -> str:
    """Return the key of the training data: the cohort, its harmonisation, adjustment and visits, and the reference."""
    mode, scale = resolve_harmonise_mode(cohort, study.data.harmonise), resolve_adjustment(cohort, study.adjust)
    sites = "" if mode == "none" else f"-{mode}"
    scale = "" if scale == "linear" else f"-{scale}"
    measures = "" if encode_measures(cohort) is None else f"-measures-{study.data.icv_for}"
    measures += "" if visits == "first" else f"-visits-{visits}"
    return cohort.fingerprint() + sites + scale + measures + ("" if reference is None else f"-{reference.digest}")


def make_plan(model: ModelConfig, seed: int, data: str) -> list[MemberSet]:
    """Return the member sets of a study, in a fixed order.

    data: key of the training data (`make_data_key`).
    """
    recipe, values = resolve_recipe(model)
    points = [
        GridPoint(n_patterns, weight)
        for n_patterns in dict.fromkeys(model.patterns or ())
        for weight in list_grid_weights(model)
    ]
    starts = range(0, model.n_members, STACK_SIZE)
    sets = [tuple(range(start, min(start + STACK_SIZE, model.n_members))) for start in starts]
    return [
        MemberSet(point, numbers, recipe, _encode_recipe_values(values, point), seed, data)
        for point in points
        for numbers in sets
    ]


def _encode_recipe_values(values: RecipeValues, point: GridPoint) -> str:
    """Return the values of a recipe with the lambda of a grid point, as JSON."""
    if point.orthogonality is not None:
        values = {**values, "weights": values.get("weights", {}) | {"orthogonality": point.orthogonality}}
    return json.dumps(values, sort_keys=True)
