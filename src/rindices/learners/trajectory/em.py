"""The loop of expectation maximisation, and when it ends.

E steps (`expectation`) and M steps (`maximisation`) alternate until held-out patients
do not become more likely any more (`StepRule`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from rindices.learners.normal_variation import ReferenceTarget
from rindices.learners.people_source import PeopleSet, PeopleSource
from rindices.learners.trajectory.expectation import CurveQuestion
from rindices.learners.trajectory.maximisation import (
    FitState,
    initialise_variances,
    update_model,
)
from rindices.learners.trajectory.model import TrajectoryModel
from rindices.learners.trajectory.settings import (
    DEFAULT_EM_SETTINGS,
    INTERACTING,
    EMSettings,
)

Model = TypeVar("Model")


@dataclass(frozen=True, eq=False, kw_only=True)
class TrajectoryProblem:
    """People of one member, and where EM begins.

    Attributes
    ----------
    people : PeopleSet
        The people, given as shifts from the controls' mean, in control standard
        deviations.
    start : TrajectoryModel
        First model.
    target : ReferenceTarget or None
        Correlations of a reference population, for normal variation C.
    held_out : PeopleSet or None
        Other people, whose patients tell when EM ends.
    """

    people: PeopleSet
    start: TrajectoryModel
    target: ReferenceTarget | None = None
    held_out: PeopleSet | None = None


class TrajectoryFit(NamedTuple):
    """Result of `fit_trajectories`.

    Attributes
    ----------
    model : TrajectoryModel
        The fitted model.
    n_iterations : int
        Number of M steps.
    held_out : float
        Mean log-likelihood of the held-out patients; NaN without any.
    """

    model: TrajectoryModel
    n_iterations: int
    held_out: float = float("nan")


@dataclass
class StepRule(Generic[Model]):
    """Ends a fit after the step at which held-out patients are most likely.

    Further steps would fit chance in small samples. The number of steps is the same for
    all members, so it hardly depends on the people that a single member has not seen.
    Without held-out patients all steps are taken.

    Attributes
    ----------
    max_steps : int
        Largest number of steps.
    min_gain : float
        Smallest gain in the mean log-likelihood that counts as progress.
    n_best : int
        Number of steps after which held-out patients were most likely.
    n_steps : int
        Number of steps taken.
    best : list of tuple
        Model and mean log-likelihood of each member after ``n_best`` steps.
    """

    max_steps: int
    min_gain: float
    n_best: int = field(default=0, kw_only=True)
    n_steps: int = field(default=-1, kw_only=True)
    best: list[tuple[Model, float]] = field(default_factory=list, kw_only=True)

    def ends(self, states: list[tuple[Model, float]], patience: int) -> bool:
        """Take the states after the next step, and say whether it was the last one.

        Parameters
        ----------
        states : list of tuple
            Model and mean log-likelihood of each member; first those of the start.
        patience : int
            Number of steps without progress after which to end.

        Returns
        -------
        bool
            Whether the fit ends here.
        """
        self.n_steps += 1
        if (
            not self.best
            or not _average_likelihood(states)
            < _average_likelihood(self.best) + self.min_gain
        ):
            self.best, self.n_best = states, self.n_steps
        return self.n_steps >= self.max_steps or self.n_steps - self.n_best >= patience


def fit_trajectories(
    people: PeopleSource,
    problems: Sequence[TrajectoryProblem],
    shape: str,
    n_iterations: int | None = None,
    settings: EMSettings = DEFAULT_EM_SETTINGS,
) -> list[TrajectoryFit]:
    """Maximise the likelihood of the people of each member, from its start.

    All members take as many steps as make their held-out patients most likely on
    average (`StepRule`).

    Parameters
    ----------
    people : PeopleSource
        Answers questions by sums over people.
    problems : sequence of TrajectoryProblem
        One per member.
    shape : {'proportional', 'staged', 'interacting'}
        Shape of the patterns.
    n_iterations : int or None
        Number of M steps; the largest number if there are held-out patients. By default
        that of the settings.
    settings : EMSettings
        Settings of EM.

    Returns
    -------
    list of TrajectoryFit
        The fit of each member.
    """
    models = [problem.start for problem in problems]
    if shape == INTERACTING:
        none = np.zeros_like(models[0].correlation)
        models = [
            model if model.interaction is not None else replace(model, interaction=none)
            for model in models
        ]
    states = [FitState(model, initialise_variances(model)) for model in models]
    rule: StepRule[TrajectoryModel] = StepRule(
        n_iterations or settings.get_max_steps(shape), settings.min_gain
    )
    rho = settings.get_step_correlation(shape)
    while True:
        # E step: the sums over people that the M step needs
        models = [state.model for state in states]
        questions = [
            CurveQuestion(each.people, each.held_out, own)
            for each, own in zip(problems, models, strict=True)
        ]
        sums = people.sum_each(questions)

        patience = max(_get_patience(model, settings) for model in models)
        likelihoods = [each.likelihood for each in sums]
        if rule.ends(list(zip(models, likelihoods, strict=True)), patience):
            break

        # M step, with the momentum (t - 1) / (t + 2) of Nesterov at step t
        momentum = min(settings.max_momentum, rule.n_steps / (rule.n_steps + 3.0))
        states = [
            update_model(state, own, rho, momentum, problem.target, settings)
            for state, own, problem in zip(states, sums, problems, strict=True)
        ]
    return [
        TrajectoryFit(model, rule.n_best, held_out) for model, held_out in rule.best
    ]


def _average_likelihood(states: Sequence[tuple[object, float]]) -> float:
    """Return the mean over members that have held-out patients."""
    values = [value for _, value in states if not np.isnan(value)]
    return float(np.mean(values)) if values else float("nan")


def _get_patience(model: TrajectoryModel, settings: EMSettings) -> int:
    """Return the number of M steps without progress after which EM ends."""
    has_interactions = (
        model.interaction is not None
        and np.abs(model.interaction).max() >= settings.min_interaction
    )
    return settings.interacting_patience if has_interactions else settings.patience
