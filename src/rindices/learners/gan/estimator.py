"""``SurrealGAN``: the paper's model as a scikit-learn estimator."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from rindices._typing import AnyArray, BoolArray, FloatArray, IntArray
from rindices.errors import InputError, join_names
from rindices.learners.base import (
    Learner,
    RandomState,
    is_whole_number,
    validate_labels,
)
from rindices.learners.ensemble import Member, TrainingOutcome
from rindices.learners.gan.callbacks import Callback
from rindices.learners.gan.recipe import (
    LOSS_NAMES,
    ORTHOGONALITY_WEIGHTS,
    SURREAL_GAN,
    Recipe,
    TrainingPlan,
    check_device,
    customise_recipe,
    require_torch,
)
from rindices.learners.prepared_people import PreparedPeople
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD
from rindices.selection.agreement import align_columns, members_agreement
from rindices.wording import CONTROL_WORDS

if TYPE_CHECKING:
    import pandas as pd
    import torch

    from rindices.learners.gan.networks import SurrealNetworks

_NESTED = "training__"
_MEMBERS_TO_COMPARE = 5  # members that are trained at each lambda


class SurrealGAN(Learner):
    """R-indices by the GAN of Yang, Wen and Davatzikos (ICLR 2022).

    Members are trained at each lambda for a quarter of the steps, and then all of them
    at the lambda where they agree best. The R-indices r are the mean over the members
    that converged, after their patterns are brought into the same order. To choose M by
    agreement too, use :func:`rindices.fit`.

    Parameters
    ----------
    n_patterns : int, default=3
        Number of patterns M.
    random_state : int, RandomState or None, default=None
        The same number gives the same result.
    members : int, default=10
        Number of ensemble members, that is repetitions of the training.
    training : Recipe, optional
        Hyper-parameters, by default :data:`.recipe.SURREAL_GAN`.
        :data:`.recipe.PUBLISHED` follows the paper to the letter. Single ones can be
        set as ``training__learning_rate`` or ``training__orthogonality``, also in a
        grid search.
    orthogonality : float, optional
        Weight lambda of the orthogonality loss. Default: that of ``training`` if given,
        otherwise the one of 0.1, 0.2, 0.4, 0.6 and 0.8 at which up to five members
        agree best. A single member uses 0.2.
    correlated : bool, default=False
        Learn a Gaussian copula between the severities.
    max_steps : int, optional
        Largest number of training steps. Default: the recipe's. Below the recipe's
        ``min_steps`` no member converges.
    device : str, default='cpu'
        Torch device of the arithmetic. Only 'cpu' has been tested.
    controls : label, optional
        Label of the controls in ``y``. Default: 0 of 0 and 1, -1 of -1 and 1, or a word
        such as CN or control.
    warm_start : bool, default=False
        Let ``fit`` go on with the members of the last ``fit``, up to ``max_steps``,
        instead of starting anew.
    checkpoint : path, optional
        File to which the state of the last training is saved, and from which an
        interrupted ``fit`` goes on with the same numbers. It needs a fixed
        ``random_state``.
    callbacks : sequence of Callback, optional
        Watch the training, for instance ``[ProgressLine()]`` of :mod:`.callbacks`.

    Attributes
    ----------
    patterns_ : ndarray of shape (M, R)
        Mean change of controls at severity 1, in control standard deviations. Atrophy
        is negative.
    members_ : list of Member
        All members, with their outcome. ``training.weights`` has the networks of a
        member by name, as ``state_dict()``.
    heads_ : list
        Inference of each member that is used.
    orders_ : list of ndarray of shape (M,)
        Order of each used member's patterns that matches ``patterns_``.
    orthogonality_ : float
        Weight lambda that was used.
    agreement_ : float or None
        Mean concordance among the used members. None if there are fewer than two.
    n_iter_ : int
        Largest number of training steps of a member.
    met_bars_ : ndarray of shape (members,)
        Whether the losses of each member were below the bars of the recipe at its last
        check.
    converged_ : bool
        Whether every member met the bars after at least the recipe's ``min_steps``.
    history_ : DataFrame
        Losses of each member at each check: means over the steps since the check
        before.
    correlation_ : ndarray of shape (M, M)
        Correlation of the Gaussian copula of the severities. The identity if it was not
        learnt.
    n_features_in_ : int
        Number of regions R.

    Examples
    --------
    >>> learner = SurrealGAN(n_patterns=3, random_state=0)
    >>> r = learner.fit(X, y).transform(X)  # doctest: +SKIP
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
        controls: object = None,
        warm_start: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        callbacks: Sequence[Callback] | None = None,
    ) -> None:
        super().__init__(n_patterns, random_state)
        self.members = members
        self.training = training
        self.orthogonality = orthogonality
        self.correlated = correlated
        self.max_steps = max_steps
        self.device = device
        self.controls = controls
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.callbacks = callbacks

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with ``deep``, also those of ``training``, as
        ``training__learning_rate``.

        Parameters
        ----------
        deep : bool, default=True
            Whether to return the values of ``training``, too.

        Returns
        -------
        dict
            Values by name.
        """
        parameters: dict[str, Any] = super().get_params(deep=False)
        if not deep or not isinstance(self.training, Recipe | None):
            return parameters
        values = asdict(self.training or SURREAL_GAN)
        return parameters | {
            f"{_NESTED}{name}": value
            for name, value in (values | values.pop("weights")).items()
        }

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``training__learning_rate`` changes one value of
        ``training``.

        Parameters
        ----------
        **params
            Values by name.

        Returns
        -------
        SurrealGAN
            The learner itself.
        """
        nested = {
            name.removeprefix(_NESTED): params.pop(name)
            for name in list(params)
            if name.startswith(_NESTED)
        }
        super().set_params(**params)
        if nested:
            self.training = (self.training or SURREAL_GAN).replace(**nested)
        return self

    def _find_patients(self, labels: IntArray) -> BoolArray:
        return validate_labels(recode_labels(np.asarray(labels), self.controls))

    def _choose_weight(
        self,
        groups: tuple[FloatArray, FloatArray],
        plan: TrainingPlan,
        starts: Any,
        options: dict[str, Any],
    ) -> float:
        """Return the weight lambda with which shortened trainings agree best."""
        from rindices.learners.gan.train import extract_head, train_stacks

        short = replace(plan, members=plan.members[:_MEMBERS_TO_COMPARE])

        def measure_agreement(weight: float) -> float:
            recipe = plan.recipe.shorten().replace(orthogonality=weight)
            trained = train_stacks(
                *groups,
                replace(short, recipe=recipe),
                path=self._get_path(f".lambda-{weight:g}"),
                starts=starts,
                label=f"lambda {weight:g}",
                **options,
            )
            heads = [extract_head(each.weights) for each in trained]
            return members_agreement(
                np.stack([head.infer(groups[1]) for head in heads])
            ).concordance

        return max(ORTHOGONALITY_WEIGHTS, key=measure_agreement)

    def _learn(self, regions: FloatArray, patient: BoolArray) -> None:
        require_torch("SurrealGAN", InputError)
        from rindices.learners.gan.train import prepare_starts, train_surreal_members

        self._check_parameters()
        prepared, numbers = self._prepare(regions), tuple(range(int(self.members)))
        people = PreparedPeople(X=prepared, y=patient.astype(np.intp))
        recipe, earlier = self._make_recipe(), self._get_earlier_members()
        plan = TrainingPlan(
            patterns=int(self.n_patterns),
            recipe=recipe,
            seed=self._draw_seed(),
            members=numbers,
        )
        options: dict[str, Any] = {
            "workers": min(len(plan.stacks), os.cpu_count() or 1),
            "device": self.device,
            "callbacks": tuple(self.callbacks or ()),
        }
        groups = prepared[~patient], prepared[patient]
        starts = None
        if not earlier:
            path = self._get_path(".starts")
            starts = prepare_starts(*groups, plan, path=path, **options)
        if self._chooses_orthogonality() and not earlier:
            weight = self._choose_weight(groups, plan, starts, options)
            recipe = recipe.replace(orthogonality=weight)
        self.orthogonality_ = recipe.weights.orthogonality
        self.members_ = train_surreal_members(
            [people],
            replace(plan, recipe=recipe),
            self._get_path(),
            starts=starts,
            earlier=earlier,
            **options,
        )
        self._recipe = recipe
        self.n_iter_ = max(member.steps for member in self.members_)
        trainings = map(_get_training, self.members_)
        self.met_bars_ = np.array([training.met_bars for training in trainings])
        self.converged_ = all(
            member.outcome is TrainingOutcome.CONVERGED for member in self.members_
        )
        self._used = _select_usable_members(self.members_, recipe)
        self.heads_ = [member.head for member in self._used]
        self.orders_, self.agreement_ = _align_members(self._used, prepared[patient])
        aligned = [
            member.patterns[-1][order]
            for member, order in zip(self._used, self.orders_, strict=True)
        ]
        self.patterns_ = np.mean(aligned, axis=0)

    def _make_recipe(self) -> Recipe:
        """Return the recipe with the options of the estimator; ``warm_start`` keeps the
        lambda that was chosen.
        """
        options = {"orthogonality": self.orthogonality, "max_steps": self.max_steps}
        if (
            self.orthogonality is None
            and self._get_earlier_members()
            and self._chooses_orthogonality()
        ):
            options["orthogonality"] = self.orthogonality_
        changes = {name: value for name, value in options.items() if value is not None}
        return customise_recipe(
            self.training or SURREAL_GAN, learn_copula=bool(self.correlated), **changes
        )

    def _chooses_orthogonality(self) -> bool:
        return (
            self.training is None
            and self.orthogonality is None
            and int(self.members) > 1
        )

    def _get_earlier_members(self) -> list[Member]:
        """Return the members to go on with; none unless ``warm_start`` is set and there
        was a fit.
        """
        earlier: list[Member] = getattr(self, "members_", []) if self.warm_start else []
        if earlier and (len(earlier), *earlier[0].patterns.shape[1:]) != (
            int(self.members),
            int(self.n_patterns),
            self.n_features_in_,
        ):
            cure = "set warm_start=False to start anew"
            raise InputError(
                f"warm_start needs the members, n_patterns and regions of the last fit: {cure}."
            )
        steps = self.n_iter_ if earlier else 0
        most = self.max_steps or (self.training or SURREAL_GAN).max_steps
        if earlier and steps >= most:
            raise InputError(
                f"the members have taken {steps:,} steps already: set max_steps={2 * steps} to go on."
            )
        return earlier

    def _get_path(self, suffix: str = "") -> Path | None:
        return (
            None
            if self.checkpoint is None
            else Path(f"{os.fspath(self.checkpoint)}{suffix}")
        )

    def _check_parameters(self) -> None:
        """Refuse parameters of another type."""
        if self.training is not None and not isinstance(self.training, Recipe):
            given = dict(self.training) if isinstance(self.training, Mapping) else {}
            values = ", ".join(f"{name}={value!r}" for name, value in given.items())
            cure = f"from {Recipe.__module__} import SURREAL_GAN, and training=SURREAL_GAN.replace({values})"
            raise InputError(
                f"training is a {type(self.training).__name__}; give a recipe: {cure}."
            )
        if not is_whole_number(self.members) or self.members < 1:
            raise InputError(
                f"members is {self.members!r}; give a whole number from 1."
            )
        for name in ("correlated", "warm_start"):
            value = getattr(self, name)
            if not isinstance(value, bool | np.bool_):
                raise InputError(f"{name} is {value!r}; give True or False.")
        if self.checkpoint is not None and not is_whole_number(self.random_state):
            cure = "give a whole number, for instance random_state=0"
            raise InputError(
                f"checkpoint needs the same random numbers in each fit; random_state is None: {cure}."
            )
        others = [
            type(each).__name__
            for each in self.callbacks or ()
            if not isinstance(each, Callback)
        ]
        if others:
            raise InputError(
                f"callbacks has a {others[0]}: give instances of {Callback.__module__}.Callback."
            )
        check_device(self.device)

    def _prepare(self, regions: FloatArray) -> FloatArray:
        return np.asarray(CONTROL_MEAN + CONTROL_SD * self._z_scores(regions))

    def _infer(self, prepared: FloatArray) -> FloatArray:
        r_indices = [
            head.infer(prepared)[:, order]
            for head, order in zip(self.heads_, self.orders_, strict=True)
        ]
        return np.asarray(np.mean(r_indices, axis=0))

    def synthesise(
        self, X: ArrayLike, z: ArrayLike, member: int | None = None
    ) -> FloatArray:
        """Turn people into patients of given severities: f(x, z).

        Parameters
        ----------
        X : array-like of shape (N, R)
            Regional volumes of controls, in the columns of ``fit``.
        z : float or array-like of shape (M,) or (N, M)
            Severities between 0 and 1, in the order of ``patterns_``.
        member : int, optional
            Number of one member. Default: the mean over the members that are used.

        Returns
        -------
        ndarray of shape (N, R)
            Regional volumes, in the units of ``X``.
        """
        regions, prepared = self._validate_people(X)
        severities = _check_severities(z, len(regions), len(self.patterns_))
        import torch

        changes = []
        for networks, order in self._iterate_networks(member):
            own = np.empty_like(severities)
            own[:, order] = severities  # column order[k] of the member is pattern k
            f = networks.f
            with torch.inference_mode():
                code = f.encode(torch.as_tensor(prepared)[None])
                changes.append(f.decode(code, torch.as_tensor(own)[None])[0].numpy())
        return np.asarray(regions + self._to_units(np.mean(changes, axis=0)))

    def decompose(self, X: ArrayLike, member: int | None = None) -> FloatArray:
        """Return the part of each pattern in people: g1(y).

        Parameters
        ----------
        X : array-like of shape (N, R)
            Regional volumes of patients, in the columns of ``fit``.
        member : int, optional
            Number of one member. Default: the mean over the members that are used.

        Returns
        -------
        ndarray of shape (N, M, R)
            Change of each region by each pattern, in the units of ``X``; atrophy is
            negative.
        """
        _, prepared = self._validate_people(X)
        import torch

        parts = []
        for networks, order in self._iterate_networks(member):
            with torch.inference_mode():
                parts.append(
                    networks.g1(torch.as_tensor(prepared)[None])[0].numpy()[:, order]
                )
        return np.asarray(self._to_units(np.mean(parts, axis=0)))

    @property
    def history_(self) -> pd.DataFrame:
        """Losses of each member at each check, with columns ``member``, ``step`` and
        `LOSS_NAMES`.
        """
        check_is_fitted(self)
        import pandas as pd

        tables = []
        for member in self.members_:
            training = _get_training(member)
            columns = dict(zip(LOSS_NAMES, training.losses.T, strict=True))
            tables.append(
                pd.DataFrame(
                    {"member": member.number, "step": training.checks} | columns
                )
            )
        return pd.concat(tables, ignore_index=True)

    @property
    def correlation_(self) -> FloatArray:
        """Correlation of the Gaussian copula of the severities, the mean over the used
        members: (M, M).
        """
        check_is_fitted(self)
        import torch

        from rindices.learners.gan.losses import copula_factor

        correlations = []
        for member, order in zip(self._used, self.orders_, strict=True):
            factor = copula_factor(
                torch.as_tensor(_get_training(member).weights["copula.phi"]).double()[
                    None
                ]
            )[0].numpy()
            correlations.append((factor @ factor.T)[np.ix_(order, order)])
        return np.asarray(np.mean(correlations, axis=0))

    def make_networks(self) -> SurrealNetworks:
        """Return the networks of all members as a module of torch, in the order of
        ``members_``.

        Returns
        -------
        SurrealNetworks
            The networks.
        """
        check_is_fitted(self)
        from rindices.learners.gan.networks import SurrealNetworks

        weights = [_to_tensors(member) for member in self.members_]
        return SurrealNetworks.from_members(weights, self._recipe.standardised_d)

    def save_networks(self, path: str | os.PathLike[str]) -> None:
        """Write f, D, g1 and g2 of all members to one safetensors file, see
        `load_networks`.

        Parameters
        ----------
        path : path
            The file to write.
        """
        networks = self.make_networks()
        from rindices.learners.gan.networks import save_networks

        save_networks(networks, Path(path))

    @staticmethod
    def load_networks(path: str | os.PathLike[str]) -> SurrealNetworks:
        """Return networks as a module of torch.

        Parameters
        ----------
        path : path
            File of `save_networks`, ``networks.safetensors`` of a study, or a
            checkpoint of the authors' package SurrealGAN 0.1.1 (``.saved_model``),
            which is read without executing anything in it. D is not read from such a
            checkpoint.

        Returns
        -------
        SurrealNetworks
            ``f(x, z)`` and ``g1(y)`` take people of shape (S, N, R), prepared as 1 +
            0.1 (v - control mean) / control sd, and severities of shape (S, N, M), for
            S members.
        """
        require_torch("load_networks", InputError)
        from rindices.learners.gan.networks import load_networks
        from rindices.learners.gan.upstream_checkpoint import (
            make_upstream_networks,
            read_upstream_checkpoint,
        )

        if Path(path).suffix == ".saved_model":
            return make_upstream_networks(read_upstream_checkpoint(Path(path)))
        return load_networks(Path(path))

    def _validate_people(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return people in their units and as they are prepared, (N, R) each."""
        check_is_fitted(self)
        regions = validate_data(self, X, dtype=np.float64, reset=False)
        return regions, self._prepare(regions)

    def _to_units(self, change: FloatArray) -> FloatArray:
        """Return changes (..., R) of prepared people in the units of the regions."""
        return np.asarray(change / CONTROL_SD * self.control_scale_)

    def _iterate_networks(
        self, member: int | None
    ) -> list[tuple[SurrealNetworks, IntArray]]:
        """Return the networks of one member or of all that are used, and the order of
        each one's patterns.
        """
        from rindices.learners.gan.networks import SurrealNetworks

        numbers = [each.number for each in self._used]
        if member is not None and member not in numbers:
            raise InputError(
                f"member {member!r} is none of those that are used: give one of {join_names(numbers, 12)}."
            )
        return [
            (
                SurrealNetworks.from_members(
                    [_to_tensors(each)], self._recipe.standardised_d
                ).double(),
                order,
            )
            for each, order in zip(self._used, self.orders_, strict=True)
            if member in (None, each.number)
        ]


def recode_labels(labels: AnyArray, controls: object = None) -> IntArray:
    """Return 0 for controls and 1 for patients, given any two labels (N,).

    Parameters
    ----------
    controls : object
        Label of the controls. Without it they are 0, False, -1 beside 1, or a word
        such as CN or control.
    """
    if labels.dtype.kind == "O" and all(
        isinstance(label, int | float | np.number) for label in labels
    ):
        labels = labels.astype(np.float64)
    values = list(np.unique(labels))
    if controls is not None:
        if controls not in values:
            raise InputError(
                f"controls is {controls!r}, which is not in y: give one of {_show(values)}."
            )
        control = controls
    elif labels.dtype.kind in "OUS":
        words = [
            value for value in values if str(value).strip().lower() in CONTROL_WORDS
        ]
        if len(words) != 1:
            example = f"controls={str(values[0])!r}"
            raise InputError(
                f"y holds {_show(values)}: say which are the controls, for instance {example}."
            )
        (control,) = words
    elif set(values) <= {0, 1}:
        control = 0
    elif set(values) <= {-1, 1}:
        control = -1
    else:
        cure = f"give two labels and say which are the controls, for instance controls={values[0]}"
        raise InputError(
            f"y holds {_show(values)}: recode it to 0 for controls and 1 for patients, or {cure}."
        )
    if len(values) > 2:
        raise InputError(
            f"y holds {_show(values)}: keep the controls and one group of patients."
        )
    return np.asarray(labels != control, dtype=np.intp)


def _show(values: Sequence[object]) -> str:
    return join_names(values, 5)


def _check_severities(z: ArrayLike, n_people: int, n_patterns: int) -> FloatArray:
    """Return severities (N, M) of a number, one for each pattern, or one for each
    person and pattern.
    """
    values = np.asarray(z, dtype=np.float64)
    if values.shape not in ((), (n_patterns,), (n_people, n_patterns)):
        cure = f"give one number, {n_patterns} numbers, or an array of shape {(n_people, n_patterns)}"
        raise InputError(f"z has shape {values.shape}: {cure}.")
    if not ((values >= 0) & (values <= 1)).all():
        raise InputError(
            "z has values below 0 or above 1: severities are between 0 and 1."
        )
    return np.broadcast_to(values, (n_people, n_patterns)).copy()


def _get_training(member: Member) -> Any:
    assert member.training is not None
    return member.training


def _to_tensors(member: Member) -> dict[str, torch.Tensor]:
    import torch

    return {
        name: torch.as_tensor(weight)
        for name, weight in _get_training(member).weights.items()
    }


def _select_usable_members(members: list[Member], recipe: Recipe) -> list[Member]:
    """Return the members that converged; if none did, all that did not diverge, with a
    warning.
    """
    converged = [
        member for member in members if member.outcome is TrainingOutcome.CONVERGED
    ]
    if converged:
        return converged
    finite = [
        member for member in members if member.outcome is not TrainingOutcome.DIVERGED
    ]
    if not finite:
        raise InputError(
            "every member diverged: lower the learning rate, or check the input for outliers."
        )
    steps, most = max(member.steps for member in finite), recipe.max_steps
    if recipe.min_steps > most:
        why = f"they were to take at most {most:,} steps, and convergence is judged from {recipe.min_steps:,} on"
    else:
        why = (
            f"their losses were not below the bars of the recipe within {steps:,} steps"
        )
    warnings.warn(
        f"none of {len(members)} members converged: {why}. Their mean is used. Train longer (max_steps).",
        ConvergenceWarning,
        stacklevel=5,
    )
    return finite


def _align_members(
    members: list[Member], patients: FloatArray
) -> tuple[list[IntArray], float | None]:
    """Return the order of each member's patterns that matches the best member's, and
    the members' agreement.
    """
    r_indices = [member.head.infer(patients) for member in members]
    if len(members) == 1:
        return [np.arange(r_indices[0].shape[1])], None
    agreement = members_agreement(np.stack(r_indices))
    best = r_indices[int(np.argmax(agreement.per_member))]
    return [align_columns(r, best) for r in r_indices], agreement.concordance
