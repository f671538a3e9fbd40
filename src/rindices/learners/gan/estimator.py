"""``SurrealGAN``: the paper's model as a scikit-learn estimator."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import InputError
from rindices.learners.base import Learner, RandomState, is_whole_number
from rindices.learners.ensemble import Member, TrainingOutcome
from rindices.learners.gan.recipe import (
    ORTHOGONALITY_WEIGHTS,
    Recipe,
    TrainingPlan,
    check_device,
    customise_recipe,
    require_torch,
)
from rindices.learners.prepared_people import PreparedPeople
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD
from rindices.selection.agreement import align_columns, members_agreement


class SurrealGAN(Learner):
    """R-indices by the GAN of Yang, Wen and Davatzikos (ICLR 2022).

    Recipe ``paper`` on prepared people. Members are trained at each lambda for a quarter of the steps, and then all of
    them at the lambda where they agree best. The R-indices r are the mean over the members that met the stopping bars,
    after their patterns are brought into the same order. To choose M by agreement too, use :func:`rindices.fit`.

    Parameters
    ----------
    n_patterns : int, default=3
        Number of patterns M.
    random_state : int, RandomState or None, default=None
        The same number gives the same result.
    members : int, default=10
        Number of ensemble members, that is repetitions of the training.
    training : Recipe, optional
        Hyper-parameters: gamma, kappa, zeta, mu, eta (:class:`LossWeights`), rate, length. Default: recipe ``paper``.
    orthogonality : float, optional
        Weight lambda of the orthogonality loss. Default: that of ``training`` if given, otherwise the one of 0.1, 0.2,
        0.4, 0.6 and 0.8 at which up to five members agree best; 0.2 for a single member.
    correlated : bool, default=False
        Learn a Gaussian copula between the severities.
    max_steps : int, optional
        Largest number of training steps. Default: the recipe's. A value below the recipe's minimum lowers the minimum
        as well.
    device : str, default='cpu'
        Torch device of the arithmetic. Only 'cpu' has been tested.

    Attributes
    ----------
    patterns_ : ndarray of shape (M, R)
        Mean change of controls at severity 1, in control standard deviations; atrophy is negative.
    members_ : list of Member
        All members, with their outcome.
    heads_ : list
        Inference of each member that is used.
    orders_ : list of ndarray of shape (M,)
        Order of each used member's patterns that matches ``patterns_``.
    orthogonality_ : float
        Weight lambda that was used.
    agreement_ : float or None
        Mean concordance among the used members; None for fewer than two.
    n_iter_ : int
        Largest number of training steps of a member.
    converged_ : bool
        Whether every member met the stopping bars.
    n_features_in_ : int
        Number of regions R.

    Examples
    --------
    >>> r = SurrealGAN(n_patterns=3, random_state=0).fit(X, y).transform(X)  # doctest: +SKIP
    """

    def __init__(
        self,
        n_patterns: int = 3,
        random_state: RandomState = None,
        members: int = 10,
        training: Recipe | None = None,
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
        require_torch("SurrealGAN", InputError)
        from rindices.learners.gan.train import train_surreal_members

        self._check_parameters()
        prepared, numbers = self._prepare(regions), tuple(range(int(self.members)))
        options = {"orthogonality": self.orthogonality, "max_steps": self.max_steps}
        changes = {name: value for name, value in options.items() if value is not None}
        recipe = customise_recipe(self.training or Recipe(learning_rate=8e-4), learn_copula=self.correlated, **changes)
        plan = TrainingPlan(int(self.n_patterns), recipe, self._draw_seed(), numbers)
        workers = min(len(plan.stacks), os.cpu_count() or 1)
        people = PreparedPeople(prepared, patient.astype(np.intp))
        train = partial(train_surreal_members, people, workers=workers, device=self.device)

        def measure_agreement(weight: float) -> float:
            short = replace(plan, recipe=recipe.shorten().replace(orthogonality=weight), members=numbers[:5])
            return members_agreement(
                np.stack([each.head.infer(prepared[patient]) for each in train(short)])
            ).concordance

        if self.training is None and self.orthogonality is None and len(numbers) > 1:
            recipe = recipe.replace(orthogonality=max(ORTHOGONALITY_WEIGHTS, key=measure_agreement))
        self.orthogonality_ = recipe.weights.orthogonality
        self.members_ = train(replace(plan, recipe=recipe))
        self.n_iter_ = max(member.steps for member in self.members_)
        self.converged_ = all(member.outcome is TrainingOutcome.CONVERGED for member in self.members_)
        usable = _select_usable_members(self.members_)
        self.heads_ = [member.head for member in usable]
        self.orders_, self.agreement_ = _align_members(usable, prepared[patient])
        aligned = [member.patterns[-1][order] for member, order in zip(usable, self.orders_, strict=True)]
        self.patterns_ = np.mean(aligned, axis=0)

    def _check_parameters(self) -> None:
        """Refuse parameters of another type."""
        if self.training is not None and not isinstance(self.training, Recipe):
            given = dict(self.training) if isinstance(self.training, Mapping) else {}
            values = ", ".join(f"{name}={value!r}" for name, value in given.items())
            cure = f"from {Recipe.__module__} import Recipe, and training=Recipe().replace({values})"
            raise InputError(f"training is a {type(self.training).__name__}; give a recipe: {cure}.")
        if not is_whole_number(self.members) or self.members < 1:
            raise InputError(f"members is {self.members!r}; give a whole number from 1.")
        if not isinstance(self.correlated, bool | np.bool_):
            raise InputError(f"correlated is {self.correlated!r}; give True or False.")
        check_device(self.device)

    def _prepare(self, regions: FloatArray) -> FloatArray:
        return np.asarray(CONTROL_MEAN + CONTROL_SD * self._z_scores(regions))

    def _infer(self, prepared: FloatArray) -> FloatArray:
        r_indices = [head.infer(prepared)[:, order] for head, order in zip(self.heads_, self.orders_, strict=True)]
        return np.asarray(np.mean(r_indices, axis=0))


def _select_usable_members(members: list[Member]) -> list[Member]:
    """Return the members that converged; if none did, all that did not diverge, with a warning."""
    converged = [member for member in members if member.outcome is TrainingOutcome.CONVERGED]
    if converged:
        return converged
    finite = [member for member in members if member.outcome is not TrainingOutcome.DIVERGED]
    if not finite:
        raise InputError("every member diverged: lower the learning rate, or check the input for outliers.")
    warnings.warn(
        f"none of {len(members)} members met the stopping bars within {finite[0].steps:,} steps; their mean is used. "
        "Train longer (max_steps).",
        ConvergenceWarning,
        stacklevel=5,
    )
    return finite


def _align_members(members: list[Member], patients: FloatArray) -> tuple[list[IntArray], float | None]:
    """Return the order of each member's patterns that matches the best member's, and the members' agreement."""
    r_indices = [member.head.infer(patients) for member in members]
    if len(members) == 1:
        return [np.arange(r_indices[0].shape[1])], None
    agreement = members_agreement(np.stack(r_indices))
    best = r_indices[int(np.argmax(agreement.per_member))]
    return [align_columns(r, best) for r in r_indices], agreement.concordance
