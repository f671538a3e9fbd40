"""Registry of recipes: one record for each way to train the members of a study.

The study file, the plan, the engines, the report and the model's card all ask this registry, so that a new recipe is
one more record here. Learners are imported when a recipe is used; only `rindices.learners.surreal` needs torch.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rindices.errors import StudyError, did_you_mean, join_names

if TYPE_CHECKING:
    from rindices._typing import FloatArray, IntArray
    from rindices.learners.ensemble import Member
    from rindices.learners.pattern_stability import WeightLearner
    from rindices.learners.prepared_people import PreparedPeople
    from rindices.study.plan import MemberSet

RecipeValues = Mapping[str, Any]
"""Every value of a recipe by name, as JSON can hold it."""
RecipeChanges = Mapping[str, float | int | bool | str]
"""Values of a recipe to change, by name."""
PAPER_WEIGHTS = (0.1, 0.2, 0.4, 0.6, 0.8)
DEFAULT_WEIGHT = 0.2
_N_TIMED_PEOPLE = 400
_FITS_PER_MEMBER = 6.0  # in units of a straight fit, both shapes and the fits to halves
MEAN_DIFFERENCE = "mean-difference"
"""Recipe of the index that a study ends with where patients differ from controls but not from each other."""


def _require_patients_for_halves(n_patterns: int) -> int:
    """Return the fewest patients for fits on disjoint halves: one more than there are patterns in each, and a spare."""
    return 2 * (n_patterns + 1) + 1


def _get_share_of_all(values: RecipeValues) -> float:
    return float(values.get("share", 1.0))


def _describe_nothing(values: RecipeValues, member_steps: Sequence[int]) -> str:
    return ""


@dataclass(frozen=True)
class StudyRecipe:
    """A way to train the members of a study, and what is written about it.

    Attributes
    ----------
    name : str
        What the study file and ``--recipe`` call it.
    description : str
        What the methods section of the report says it is, as a noun phrase.
    resolve_values : callable
        Takes the values to change by name and whether severities are correlated; returns all values.
    train_members : callable
        Takes `PreparedPeople`, a member set and a file for the state of a long training; returns the set's members.
    estimate_seconds : callable, optional
        Takes people and a member set; returns the seconds that one member takes. Left out, one member is
        trained on at most 2,000 people and timed.
    orthogonality_weights : tuple of float
        Weights lambda to try unless the study names others; empty for a recipe without that weight.
    min_patients : callable
        Takes the number of patterns; returns the fewest patients that it can be trained on.
    get_subsample_share : callable
        Takes the values; returns the share of controls and of patients that each member is trained on.
    advice : str
        What to try where no setting is stable.
    uses_measured_cells : bool
        Whether it learns from people with missing cells. For other recipes they are filled by what the others predict.
    couples_visits : bool
        Whether it learns from the change between repeat visits. Other recipes take the mean of visits.
    adjust : {'log', 'linear', 'rank', 'none'}, optional
        Scale of the adjustment unless the study names one; see `rindices.Preprocessing.fit`.
    learn_weights : callable, optional
        How the stability of its patterns is measured; see `rindices.learners.pattern_stability`.
    summarise_training, describe_training : callable
        Take the values and the steps of each member; return how the training went, for ``model show`` and as a
        sentence for the report. Empty where there is nothing to say.
    """

    name: str
    description: str
    resolve_values: Callable[[RecipeChanges, bool], RecipeValues]
    train_members: Callable[[PreparedPeople, MemberSet, Path | None], list[Member]]
    estimate_seconds: Callable[[PreparedPeople, MemberSet], float] | None = None
    orthogonality_weights: tuple[float, ...] = ()
    min_patients: Callable[[int], int] = _require_patients_for_halves
    get_subsample_share: Callable[[RecipeValues], float] = _get_share_of_all
    advice: str = "Try fewer patterns, or more people."
    uses_measured_cells: bool = False
    couples_visits: bool = False
    adjust: str | None = None
    learn_weights: WeightLearner | None = None
    summarise_training: Callable[[RecipeValues, Sequence[int]], str] = _describe_nothing
    describe_training: Callable[[RecipeValues, Sequence[int]], str] = _describe_nothing


RECIPES: dict[str, StudyRecipe] = {}


def register_recipe(recipe: StudyRecipe) -> None:
    """Make a recipe known under its name."""
    RECIPES[recipe.name] = recipe


def get_study_recipe(name: str) -> StudyRecipe:
    """Return the recipe of a name; an unknown one is an error that suggests another."""
    if name not in RECIPES:
        raise StudyError(f"there is no recipe '{name}': {did_you_mean(name, list(RECIPES))}")
    return RECIPES[name]


def refuse_changes(name: str, changes: RecipeChanges, correlated: bool) -> RecipeValues:
    """Return the values of a recipe that has none, and refuse to change any."""
    unused = [*changes, *(["correlated"] if correlated else [])]
    if unused:
        raise StudyError(f"the recipe {name} has no {join_names(unused)}: leave it out, or change the recipe.")
    return {}


def _resolve_surreal(name: str, changes: RecipeChanges, correlated: bool) -> RecipeValues:
    from rindices.learners.surreal.recipe import customise_recipe, get_recipe, recipe_to_dict

    if "orthogonality" in changes:
        raise StudyError("orthogonality is part of the grid: set it as model.orthogonality, not in recipe_changes.")
    return recipe_to_dict(customise_recipe(get_recipe(name), learn_copula=correlated, **changes))


def _train_surreal(people: PreparedPeople, work: MemberSet, checkpoint: Path | None) -> list[Member]:
    from rindices.learners.surreal.ensemble_training import train_surreal_members
    from rindices.learners.surreal.recipe import recipe_from_dict

    recipe = recipe_from_dict(json.loads(work.values))
    return train_surreal_members(people, work.point.n_patterns, work.numbers, work.seed, recipe, checkpoint)


def _estimate_surreal_seconds(people: PreparedPeople, work: MemberSet) -> float:
    from rindices.learners.surreal.cost import estimate_training_seconds, measure_speed
    from rindices.learners.surreal.recipe import recipe_from_dict

    recipe = recipe_from_dict(json.loads(work.values))
    seconds = estimate_training_seconds(
        people.X.shape[1],
        work.point.n_patterns,
        warm_start=recipe.warm_start,
        start_steps=recipe.start_steps,
        held_steps=recipe.held_steps,
        max_steps=recipe.max_steps,
    )
    return seconds * measure_speed()


def _resolve_trajectory(changes: RecipeChanges, correlated: bool) -> RecipeValues:
    from rindices.learners.ensemble import SHAPES

    choices = ("auto", *SHAPES)
    values = {"shape": "auto"} | dict(changes)
    if unknown := [name for name in values if name != "shape"]:
        raise StudyError(f"the recipe default has no {unknown[0]}: {did_you_mean(unknown[0], ['shape'])}")
    if values["shape"] not in choices:
        raise StudyError(f"shape is {values['shape']!r}: give one of {', '.join(choices)}.")
    return values


def _train_trajectory(people: PreparedPeople, work: MemberSet, checkpoint: Path | None) -> list[Member]:
    from rindices.learners.trajectory.members import fit_trajectory_members

    shape = json.loads(work.values)["shape"]
    return fit_trajectory_members(people, work.point.n_patterns, work.numbers, work.seed, shape)


def _estimate_trajectory_seconds(people: PreparedPeople, work: MemberSet) -> float:
    """Time one straight fit to a few people; a member has two fits of each shape, on other numbers of people."""
    import numpy as np

    from rindices.learners.trajectory.members import fit_trajectory_members

    rows = range(0, len(people.X), max(1, len(people.X) // _N_TIMED_PEOPLE))
    start = time.perf_counter()
    fit_trajectory_members(people.take(np.array(rows)), work.point.n_patterns, [0], 0, "straight", evidence=False)
    size = max(1.0, len(people.X) / len(rows))
    return (time.perf_counter() - start) * _FITS_PER_MEMBER * (1.0 + size) / 2.0


def _train_contrastive(people: PreparedPeople, work: MemberSet, checkpoint: Path | None) -> list[Member]:
    from rindices.learners.ensemble import fit_linear_members

    return fit_linear_members(people, work.point.n_patterns, work.numbers, work.seed)


def _train_mean_difference(people: PreparedPeople, work: MemberSet, checkpoint: Path | None) -> list[Member]:
    from rindices.learners.ensemble import fit_linear_members
    from rindices.learners.mean_difference import MeanDifference

    return fit_linear_members(people, work.point.n_patterns, work.numbers, work.seed, learner=MeanDifference)


def _learn_mean_difference_weights(
    people: FloatArray,
    y: IntArray,
    patterns: FloatArray,
    reference: FloatArray | None,
    kinds: IntArray | None = None,
) -> FloatArray:
    from rindices.learners.mean_difference import compute_difference_weights

    return compute_difference_weights(people, y, reference, kinds)


def _get_contrastive_share(values: RecipeValues) -> float:
    from rindices.learners.subsampling import SUBSAMPLE_SHARE

    return SUBSAMPLE_SHARE


def _count_members_trained_on(values: RecipeValues, member_steps: Sequence[int]) -> int:
    """Return how many members took steps after those in which f is held at its start."""
    return sum(steps > values.get("held_steps", 0) for steps in member_steps)


def _summarise_warm_training(values: RecipeValues, member_steps: Sequence[int]) -> str:
    if not member_steps:
        return ""
    trained_on = _count_members_trained_on(values, member_steps)
    return (
        f"{len(member_steps) - trained_on} members needed no training after their start (the discriminator was at "
        f"chance), {trained_on} were trained further"
    )


def _describe_warm_training(values: RecipeValues, member_steps: Sequence[int]) -> str:
    if _count_members_trained_on(values, member_steps):
        return ""
    return "The discriminator found nothing left to learn, so no adversarial step was taken."


register_recipe(
    StudyRecipe(
        name="default",
        description="disease patterns along which each region changes at its own stage, by maximum likelihood, with "
        "shape and number chosen by the likelihood of people left out",
        resolve_values=_resolve_trajectory,
        train_members=_train_trajectory,
        estimate_seconds=_estimate_trajectory_seconds,
        get_subsample_share=_get_contrastive_share,
        uses_measured_cells=True,
        couples_visits=True,
    )
)
register_recipe(
    StudyRecipe(
        name="adversarial",
        description="Surreal-GAN's transformation, inverse and discriminator, started at the solution of a linear "
        "model of disease patterns and judged by the discriminator on people left out",
        resolve_values=lambda changes, correlated: _resolve_surreal("default", changes, correlated),
        train_members=_train_surreal,
        estimate_seconds=_estimate_surreal_seconds,
        orthogonality_weights=(DEFAULT_WEIGHT,),  # members rarely get to where lambda matters
        summarise_training=_summarise_warm_training,
        describe_training=_describe_warm_training,
    )
)
register_recipe(
    StudyRecipe(
        name="contrastive",
        description="the patterns of variation that patients show beyond controls, by maximum likelihood",
        resolve_values=lambda changes, correlated: refuse_changes("contrastive", changes, correlated),
        train_members=_train_contrastive,
        get_subsample_share=_get_contrastive_share,
    )
)
register_recipe(
    StudyRecipe(
        name=MEAN_DIFFERENCE,
        description="the position along the mean difference between patients and controls, averaged over several "
        "shrinkages of the covariance",
        resolve_values=lambda changes, correlated: refuse_changes(MEAN_DIFFERENCE, changes, correlated),
        train_members=_train_mean_difference,
        get_subsample_share=_get_contrastive_share,
        learn_weights=_learn_mean_difference_weights,
    )
)
register_recipe(
    StudyRecipe(
        name="paper",
        description="the published training of Surreal-GAN",
        resolve_values=lambda changes, correlated: _resolve_surreal("paper", changes, correlated),
        train_members=_train_surreal,
        estimate_seconds=_estimate_surreal_seconds,
        orthogonality_weights=PAPER_WEIGHTS,
        min_patients=lambda n_patterns: 2,
        advice="Train longer (max_steps), with fewer patterns, or use more people.",
        adjust="linear",  # as published
    )
)
