"""``SurrealGAN``: the paper's model with scikit-learn manners."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import InputError
from rindices.learners.base import Learner, RandomState
from rindices.learners.ensemble import Member
from rindices.learners.outcome import TrainingOutcome
from rindices.learners.surreal.ensemble_training import TrainingData, train_members
from rindices.learners.surreal.recipe import Recipe, customise_recipe, get_recipe
from rindices.learners.surreal.train import split_into_stacks
from rindices.learners.surreal.training_state import TrainingPlan
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD
from rindices.selection.agreement import align_columns, members_agreement


class SurrealGAN(Learner):
    """R-indices by the GAN of Yang, Wen and Davatzikos (ICLR 2022).

    Several members are trained; the R-indices are the mean of those that converged, their patterns aligned. To choose
    the number of patterns and lambda by agreement use :func:`rindices.fit`.

    Parameters
    ----------
    n_patterns : int, default=3
        M.
    random_state : int, RandomState or None, default=None
        The same number gives the same result.
    members : int, default=10
        Repetitions of the training.
    training : str or Recipe, default='default'
        The recipe: 'default' starts at the solution of a linear model, 'paper' is the published training.
    orthogonality : float, optional
        lambda; the recipe's where it is left out.
    correlated : bool, default=False
        Learn a Gaussian copula between the severities. Recipe 'default' starts with the correlation that its linear
        model estimates and keeps it fixed; with True it goes on learning it in the steps in which f is trained. A
        member that stops before these steps keeps the estimate.
    max_steps : int, optional
        Cap on the training steps; the recipe's where it is left out. A cap below the recipe's minimum lowers the
        minimum as well.
    device : str, default='cpu'
        Of the arithmetic. Only 'cpu' has been tested.

    Attributes
    ----------
    patterns_ : ndarray of shape (M, R)
        Mean change of controls at severity 1, in control standard deviations; atrophy is negative.
    members_ : list of Member
        All members, with their outcome.
    agreement_ : float or None
        Mean concordance among the members that converged; None for fewer than two.
    n_features_in_ : int
        R.

    Examples
    --------
    >>> r = SurrealGAN(n_patterns=3, random_state=0).fit(X, y).transform(X)  # doctest: +SKIP
    """

    def __init__(
        self,
        n_patterns: int = 3,
        random_state: RandomState = None,
        members: int = 10,
        training: str | Recipe = "default",
        orthogonality: float | None = None,
        correlated: bool = False,
        max_steps: int | None = None,
        device: str = "cpu",
    ) -> None:
        super().__init__(n_patterns, random_state)
        self.members = members
        self.training = training
        self.orthogonality = orthogonality
        self.correlated = correlated
        self.max_steps = max_steps
        self.device = device

    def _learn(self, regions: FloatArray, patient: BoolArray) -> None:
        if not isinstance(self.members, int | np.integer) or self.members < 1:
            raise InputError(f"members is {self.members!r}; give a whole number from 1.")
        prepared = self._prepare(regions)
        plan = TrainingPlan(
            int(self.n_patterns), self._resolve_recipe(), self._draw_seed(), tuple(range(int(self.members)))
        )
        workers = min(len(split_into_stacks(plan)), os.cpu_count() or 1)
        room = TrainingData.of(prepared, patient.astype(np.intp), plan.patterns, plan.recipe)
        self.members_ = train_members(room, plan, workers=workers, device=self.device)
        kept = _select_usable_members(self.members_)
        self.heads_, orders, self.agreement_ = _align_members(kept, prepared[patient])
        self.orders_ = orders
        aligned = [member.patterns[-1][order] for member, order in zip(kept, orders, strict=True)]
        self.patterns_ = np.mean(aligned, axis=0)

    def _resolve_recipe(self) -> Recipe:
        chosen = self.training if isinstance(self.training, Recipe) else get_recipe(self.training)
        options = {"orthogonality": self.orthogonality, "max_steps": self.max_steps}
        changes = {name: value for name, value in options.items() if value is not None}
        return customise_recipe(chosen, learn_copula=self.correlated, **changes)

    def _prepare(self, regions: FloatArray) -> FloatArray:
        return np.asarray(CONTROL_MEAN + CONTROL_SD * self._z_scores(regions))

    def _infer(self, prepared: FloatArray) -> FloatArray:
        found = [head.infer(prepared)[:, order] for head, order in zip(self.heads_, self.orders_, strict=True)]
        return np.asarray(np.mean(found, axis=0))


def _select_usable_members(members: list[Member]) -> list[Member]:
    """The members that converged; all that did not diverge where none did, with a warning."""
    converged = [member for member in members if member.outcome is TrainingOutcome.CONVERGED]
    if converged:
        return converged
    rest = [member for member in members if member.outcome is not TrainingOutcome.DIVERGED]
    if not rest:
        raise InputError("every member diverged: lower the learning rate, or check the input for outliers.")
    warnings.warn(
        f"none of {len(members)} members met the stopping bars within {rest[0].steps:,} steps; their mean is used. "
        "Train longer (max_steps).",
        ConvergenceWarning,
        stacklevel=5,
    )
    return rest


def _align_members(members: list[Member], patients: FloatArray) -> tuple[list[Any], list[IntArray], float | None]:
    """Heads, the order of each one's columns that runs parallel to the best member's, and their agreement."""
    found = [member.head.infer(patients) for member in members]
    if len(members) == 1:
        return [members[0].head], [np.arange(found[0].shape[1])], None
    among = members_agreement(np.stack(found))
    best = found[int(np.argmax(among.per_member))]
    return [member.head for member in members], [align_columns(r, best) for r in found], among.concordance
