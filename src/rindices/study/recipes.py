"""Registry of recipes: one record for each way to train the members of a study.

The study file, the plan, the engines, the report and the model's card all ask this registry, so that a new recipe is
one more record here. Learners are imported when a recipe is used; only `rindices.learners.gan` needs torch.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
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
_N_TIMED_PEOPLE = 400
_FITS_PER_MEMBER = 6.0  # in units of a straight fit, both shapes and the fits to halves
MEAN_DIFFERENCE = "mean-difference"
"""Recipe of the index that a study ends with where patients differ from controls but not from each other."""


def _require_patients_for_halves(n_patterns: int) -> int:
    """Return the fewest patients for fits on disjoint halves: one more than there are patterns in each, and a spare."""
    return 2 * (n_patterns + 1) + 1


def _get_share_of_all(values: RecipeValues) -> float:
    return float(values.get("share", 1.0))


def _get_contrastive_share(values: RecipeValues) -> float:
    from rindices.learners.prepared_people import SUBSAMPLE_SHARE

    return SUBSAMPLE_SHARE


@dataclass(frozen=True)
class StudyRecipe:
    """A way to train the members of a study, and what is written about it.

    name: what the study file and ``--recipe`` call it; description: what the methods section of the report says it is,
    as a noun phrase; resolve_values: takes the values to change by name and whether severities are correlated; returns
    all values; train_members: takes the people of each member (of one, if members share them), a member set and a file
    for the state of a long training; returns the set's members; estimate_seconds: takes people and a member set;
    returns the seconds that one member takes. Left out, one member is trained on at most 2,000 people and timed;
    orthogonality_weights: weights lambda to try unless the study names others; empty for a recipe without that weight;
    min_patients: takes the number of patterns; returns the fewest patients that it can be trained on;
    leaves_people_out: whether each member is trained on all folds of the people but one. If not, the R-indices of the
    study's own people are in-sample; get_subsample_share: takes the values; returns the share of controls and of
    patients that each member is trained on; uses_measured_cells: whether it learns from people with missing cells. For
    other recipes they are filled by what the others predict; uses: the settings of `RECIPE_SETTINGS` that it uses; a
    study that names another one is refused; adjust: scale of the adjustment unless the study names one; see
    `rindices.Preprocessing.fit`; learn_weights: how the stability of its patterns is measured; see
    `rindices.learners.pattern_stability`.
    """

    name: str
    description: str
    resolve_values: Callable[[RecipeChanges, bool], RecipeValues]
    train_members: Callable[[Sequence[PreparedPeople], MemberSet, Path | None], list[Member]]
    estimate_seconds: Callable[[PreparedPeople, MemberSet], float] | None = None
    orthogonality_weights: tuple[float, ...] = ()
    min_patients: Callable[[int], int] = _require_patients_for_halves
    leaves_people_out: bool = True
    get_subsample_share: Callable[[RecipeValues], float] = _get_contrastive_share
    uses_measured_cells: bool = False
    uses: frozenset[str] = frozenset({"reference"})
    adjust: str | None = None
    learn_weights: WeightLearner | None = None


RECIPES: dict[str, StudyRecipe] = {}
RECIPE_SETTINGS = {
    "orthogonality": ("model", "weights lambda"),
    "correlated": ("model", "a copula that is learnt while training"),
    "reference": ("data", "correlations of regions in other healthy people"),
    "visits": ("data", 'the change between repeat visits (visits = "all")'),
}
"""Settings that not all recipes use (`StudyRecipe.uses`), with the section of the study file and what they are."""


def register_recipe(recipe: StudyRecipe) -> None:
    """Make a recipe known under its name."""
    RECIPES[recipe.name] = recipe


def get_study_recipe(name: str) -> StudyRecipe:
    """Return the recipe of a name; an unknown one is an error that suggests another."""
    if name not in RECIPES:
        raise StudyError(f"there is no recipe '{name}': {did_you_mean(name, list(RECIPES))}")
    return RECIPES[name]


def refuse_changes(name: str, changes: RecipeChanges) -> RecipeValues:
    """Return the values of a recipe that has none, and refuse to change any."""
    if changes:
        raise StudyError(f"the recipe {name} has no {join_names(changes)}: leave it out, or change the recipe.")
    return {}


def _resolve_gan(changes: RecipeChanges, correlated: bool) -> RecipeValues:
    from rindices.learners.gan.recipe import Recipe, customise_recipe, require_torch

    require_torch("the recipe paper", StudyError)
    if "orthogonality" in changes:
        raise StudyError("orthogonality is part of the grid: set it as model.orthogonality, not in recipe_changes.")
    return asdict(customise_recipe(Recipe(), learn_copula=correlated, **changes))


def _train_gan(people: Sequence[PreparedPeople], work: MemberSet, checkpoint: Path | None) -> list[Member]:
    from rindices.learners.gan.recipe import TrainingPlan, recipe_from_dict
    from rindices.learners.gan.train import train_surreal_members

    recipe, numbers = recipe_from_dict(json.loads(work.values)), tuple(work.numbers)
    plan = TrainingPlan(work.point.n_patterns, recipe, work.seed, numbers, stack=len(numbers))
    return train_surreal_members(people[0].complete(), plan, checkpoint)


def _estimate_gan_seconds(people: PreparedPeople, work: MemberSet) -> float:
    from rindices.learners.gan.recipe import estimate_step_seconds, measure_speed

    step_seconds = estimate_step_seconds(people.X.shape[1], work.point.n_patterns)
    return float(json.loads(work.values)["max_steps"]) * step_seconds * measure_speed()


def _resolve_trajectory(changes: RecipeChanges, correlated: bool) -> RecipeValues:
    from rindices.learners.ensemble import SHAPES

    choices = ("auto", *SHAPES)
    values = {"shape": "auto"} | dict(changes)
    if unknown := [name for name in values if name != "shape"]:
        raise StudyError(f"the recipe default has no {unknown[0]}: {did_you_mean(unknown[0], ['shape'])}")
    if values["shape"] not in choices:
        raise StudyError(f"shape is {values['shape']!r}: give one of {', '.join(choices)}.")
    return values


def _train_trajectory(people: Sequence[PreparedPeople], work: MemberSet, checkpoint: Path | None) -> list[Member]:
    from rindices.learners.trajectory.members import fit_trajectory_members

    shape = json.loads(work.values)["shape"]
    return fit_trajectory_members(people, work.point.n_patterns, work.numbers, work.seed, shape)


def _estimate_trajectory_seconds(people: PreparedPeople, work: MemberSet) -> float:
    """Time one straight fit to a few people; a member has two fits of each shape, on other numbers of people."""
    import numpy as np

    from rindices.learners.trajectory.members import fit_trajectory_members

    rows = range(0, len(people.X), max(1, len(people.X) // _N_TIMED_PEOPLE))
    start = time.perf_counter()
    few = people.take(np.array(rows)).deal_to_members([0], 0)
    fit_trajectory_members(few, work.point.n_patterns, [0], 0, "straight", evidence=False)
    size = max(1.0, len(people.X) / len(rows))
    return (time.perf_counter() - start) * _FITS_PER_MEMBER * (1.0 + size) / 2.0


def _train_contrastive(people: Sequence[PreparedPeople], work: MemberSet, checkpoint: Path | None) -> list[Member]:
    from rindices.learners.ensemble import fit_linear_members

    return fit_linear_members(people, work.point.n_patterns, work.numbers, work.seed)


def _train_mean_difference(people: Sequence[PreparedPeople], work: MemberSet, checkpoint: Path | None) -> list[Member]:
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


register_recipe(
    StudyRecipe(
        name="default",
        description="disease patterns along which each region changes at its own stage, by maximum likelihood, with "
        "shape and number chosen by the likelihood of people left out",
        resolve_values=_resolve_trajectory,
        train_members=_train_trajectory,
        estimate_seconds=_estimate_trajectory_seconds,
        uses_measured_cells=True,
        uses=frozenset({"reference", "visits"}),
    )
)
register_recipe(
    StudyRecipe(
        name="contrastive",
        description="the patterns of variation that patients show beyond controls, by maximum likelihood",
        resolve_values=lambda changes, correlated: refuse_changes("contrastive", changes),
        train_members=_train_contrastive,
    )
)
register_recipe(
    StudyRecipe(
        name=MEAN_DIFFERENCE,
        description="the position along the mean difference between patients and controls, averaged over several "
        "shrinkages of the covariance",
        resolve_values=lambda changes, correlated: refuse_changes(MEAN_DIFFERENCE, changes),
        train_members=_train_mean_difference,
        learn_weights=_learn_mean_difference_weights,
    )
)
register_recipe(
    StudyRecipe(
        name="paper",
        description="the published training of Surreal-GAN",
        resolve_values=_resolve_gan,
        train_members=_train_gan,
        estimate_seconds=_estimate_gan_seconds,
        orthogonality_weights=PAPER_WEIGHTS,
        uses=frozenset({"orthogonality", "correlated"}),
        leaves_people_out=False,  # as published
        get_subsample_share=_get_share_of_all,
        min_patients=lambda n_patterns: 2,
        adjust="linear",  # as published
    )
)
