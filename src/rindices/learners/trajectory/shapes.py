"""Which shape the patterns have: proportional, staged or interacting.

Each shape is fitted, and the likelihood of held-out patients decides. The choice is the
same for all members of a set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from rindices.learners.ensemble import (
    MIN_INTERACTION_GAIN,
    SHAPES,
    HeldOutLikelihood,
    choose_shape,
)
from rindices.learners.people_source import PeopleSource
from rindices.learners.trajectory.em import (
    TrajectoryFit,
    TrajectoryProblem,
    fit_trajectories,
)
from rindices.learners.trajectory.settings import DEFAULT_EM_SETTINGS, EMSettings

MAX_INTERACTING_PATTERNS = 4
"""Largest number of patterns for which interactions are tried."""


PATH_BY_SHAPE = {
    "proportional": ("proportional",),
    "staged": ("staged",),
    "interacting": ("staged", "interacting"),
}


_MIN_FIRST_GAIN = 0.5 * MIN_INTERACTION_GAIN
"""Gain of the first member from which interactions are tried in all members."""


def list_shapes(shape: str, n_patterns: int) -> tuple[str, ...]:
    """Return the shapes to fit; interactions need at least two patterns, and points
    that are few.
    """
    if shape != "auto":
        return PATH_BY_SHAPE[shape]
    return SHAPES if 1 < n_patterns <= MAX_INTERACTING_PATTERNS else SHAPES[:2]


def fit_shapes(
    people: PeopleSource,
    problems: Sequence[TrajectoryProblem],
    shapes: Sequence[str],
    proportional: Sequence[TrajectoryFit] | None = None,
    settings: EMSettings = DEFAULT_EM_SETTINGS,
) -> list[dict[str, TrajectoryFit]]:
    """Return the fit of each shape to the people of each member; interacting patterns
    start from staged ones.

    Where all shapes are compared, interactions are given up if the held-out patients of
    the first member do not gain by them. ``proportional`` are proportional patterns, if
    they are fitted already, as those of coupled visits. In patterns that unfold, the
    regions that change between two visits depend on the severity, so these are fitted
    to the mean of visits.
    """
    additive = [
        shape
        for shape in shapes
        if shape != "interacting" and (shape != "proportional" or proportional is None)
    ]
    results = people.run_together(
        [
            partial(fit_trajectories, people, problems, shape, settings=settings)
            for shape in additive
        ]
    )
    by_shape = dict(zip(additive, results, strict=True))
    if proportional is not None and "proportional" in shapes:
        by_shape["proportional"] = list(proportional)
    if "interacting" in shapes:
        problems = [
            replace(each, start=fit.model)
            for each, fit in zip(problems, by_shape["staged"], strict=True)
        ]
        gain = np.inf
        if len(shapes) == len(SHAPES) and len(problems) > 1:
            (trial,) = fit_trajectories(
                people, problems[:1], "interacting", settings=settings
            )
            gain = trial.held_out - max(
                by_shape[other][0].held_out for other in SHAPES[:2]
            )
        if gain > _MIN_FIRST_GAIN:
            by_shape["interacting"] = fit_trajectories(
                people, problems, "interacting", settings=settings
            )
    return [
        {shape: by_shape[shape][k] for shape in shapes if shape in by_shape}
        for k in range(len(problems))
    ]


def fit_and_choose(
    people: PeopleSource,
    problems: Sequence[TrajectoryProblem],
    shape: str,
    n_patterns: int,
    proportional: Sequence[TrajectoryFit] | None = None,
    settings: EMSettings = DEFAULT_EM_SETTINGS,
) -> tuple[str, list[dict[str, TrajectoryFit]]]:
    """Return the shape that a set of members has, and the fits of each member; see
    `fit_shapes`.
    """
    fits = fit_shapes(
        people, problems, list_shapes(shape, n_patterns), proportional, settings
    )
    chosen = (
        choose_shape([get_held_out(fit, SHAPES[0]) for fit in fits])
        if shape == "auto"
        else shape
    )
    return chosen, fits


def get_held_out(fit: Mapping[str, TrajectoryFit], shape: str) -> HeldOutLikelihood:
    """Return the likelihood of held-out patients of a member of a shape, by each shape
    that was fitted.
    """
    return HeldOutLikelihood.from_values(
        shape, {name: each.held_out for name, each in fit.items()}
    )
