"""Methods: one small class for each way to train the members of a study, and the sets
of members that they train.

The study file, the plan, the engines, the report and the model's card all ask
`METHODS`, so that a new method is one more class here. Learners are imported when a
method is used; only `rindices.learners.gan` needs torch.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rindices.errors import (
    Problem,
    ProblemCode,
    Severity,
    StudyError,
    did_you_mean,
    format_count,
    join_names,
)
from rindices.old_names import OLD_METHOD_NAMES

if TYPE_CHECKING:
    from rindices._typing import FloatArray
    from rindices.learners.ensemble import Member, WeightLearner
    from rindices.learners.gan.callbacks import EventCallback
    from rindices.learners.gan.recipe import Recipe
    from rindices.learners.prepared_people import PreparedPeople
    from rindices.selection.choose import GridPoint

MethodValues = Mapping[str, Any]
"""Every value of a method by name, as JSON can hold it."""
MethodSettings = Mapping[str, float | int | bool | str]
"""Values of a method to change, by name."""
DEFAULT_METHOD = "trajectories"
"""Method of a study that names none."""
MEAN_DIFFERENCE = "mean-difference"
"""Method of the index that a study ends with where patients differ from controls but
not from each other.
"""
MAX_TIMED_PEOPLE = 2_000
"""People on whom a member is trained to time it."""
# of method trajectories, in units of a proportional fit: both shapes and the fits to
# halves
_FITS_PER_MEMBER = 3.0
_KEY_VERSION = 4
_NAMES_IN_KEYS = {new: old for old, new in OLD_METHOD_NAMES.items()}
"""Names of methods in the keys of member sets, so that sets of rindices 0.1.0 are
found.
"""
SETTINGS_OF_SOME_METHODS = {
    "orthogonality": ("model", "weights lambda"),
    "correlated": ("model", "a copula that is learnt while training"),
    "reference": ("data", "correlations of regions in other healthy people"),
    "visits": ("data", 'the change between repeat visits (visits = "all")'),
}
"""Settings that not all methods use (`StudyMethod.uses`), with the section of the study
file and what they are.
"""


@dataclass(frozen=True, kw_only=True)
class MemberSet:
    """Members of one grid point that are trained together.

    Attributes
    ----------
    point : GridPoint
    numbers : tuple of int
        The members' numbers within the grid point.
    method : str
        Its name in `METHODS`.
    values : str
        Every value of the method, as JSON.
    seed : int
    data : str
        Key of the training data.
    halves : bool
        Whether the members are trained already, and are compared on disjoint halves
        of the people.
    """

    point: GridPoint
    numbers: tuple[int, ...]
    method: str
    values: str
    seed: int
    data: str
    halves: bool = False

    @property
    def key(self) -> str:
        """Name that changes with everything that could change the result, and with
        nothing else.
        """
        method = _NAMES_IN_KEYS.get(self.method, self.method)
        parts = [
            _KEY_VERSION,
            list(self.point),
            list(self.numbers),
            method,
            self.values,
            self.seed,
            self.data,
        ]
        digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
        weight = (
            ""
            if self.point.orthogonality is None
            else f"-l{self.point.orthogonality:g}"
        )
        halves = "-halves" if self.halves else ""
        return (
            f"m{self.point.n_patterns}{weight}-{self.numbers[0]:03d}{halves}-{digest}"
        )


class StudyMethod:
    """A way to train the members of a study, and what is written about it.

    Attributes
    ----------
    name : str
        What the study file and ``--method`` call it.
    description : str
        What it fits, as a noun phrase for the methods section of the report.
    orthogonality_weights : tuple of float
        Weights lambda to try unless the study names others. Empty for a method without
        that weight.
    leaves_people_out : bool
        Whether each member is trained on all folds of the people but one. If not, the
        R-indices of the study's own people are in-sample.
    uses_measured_cells : bool
        Whether it learns from people with missing measurements. For other methods these
        are filled with what the other regions predict.
    uses : frozenset of str
        The settings of `SETTINGS_OF_SOME_METHODS` that it uses. A study that names
        another one is refused.
    adjust : str or None
        Scale of the adjustment unless the study names one. See
        `rindices.Preprocessing.fit`.
    compares_halves : bool
        Whether fits on disjoint halves of the people are compared after the members are
        trained, for the settings that need it.
    is_refitted : bool
        Whether `learn_weights` learns the index again. Otherwise patterns are projected
        onto the disease space that is learnt again.
    can_be_replaced : bool
        Whether a study without stable patterns ends with the index of the mean
        difference. If not, it ends with an error (`explain_failure`).
    patterns : tuple of int
        Numbers of patterns to try unless the study names others. Empty where the tests
        name them.
    follows_tests : bool
        Whether a study in which the tests detect no difference ends with that finding.
        If not, patterns are trained all the same.
    min_concordance : float or None
        Lowest agreement of members that are used. None means that of all methods.
    number_margin : float
        How much less members may agree on a larger number of patterns that is chosen
        all the same. See `choose_grid_point`.
    uses_one_member : bool
        Whether the model is the member that agrees best with the others. If not, it is
        the mean of the members.
    training_module : str or None
        Module that training imports and that takes long to import, so that processes
        import it before they have a job.
    on_outlier : str or None
        What becomes of outlying measurements unless the study says so. None means what
        the kind of table suggests.
    """

    name: str
    description: str
    orthogonality_weights: tuple[float, ...] = ()
    leaves_people_out: bool = True
    uses_measured_cells: bool = False
    uses: frozenset[str] = frozenset({"reference"})
    adjust: str | None = None
    number_margin: float = 0.0
    training_module: str | None = None
    compares_halves: bool = False
    is_refitted: bool = False
    can_be_replaced: bool = True
    patterns: tuple[int, ...] = ()
    follows_tests: bool = True
    min_concordance: float | None = None
    uses_one_member: bool = False
    on_outlier: str | None = None

    def list_values(self) -> tuple[str, ...]:
        """Return the names of the values that a study may change; here
        there are none.
        """
        return ()

    def check_settings(self, settings: MethodSettings, correlated: bool) -> None:
        """Raise an error if values of the method cannot be changed like that; needs
        nothing that may be missing.
        """
        self.resolve_values(settings, correlated)

    def resolve_values(
        self, settings: MethodSettings, correlated: bool
    ) -> MethodValues:
        """Return all values, some of them changed.

        Here there are none.

        Parameters
        ----------
        correlated : bool
            Whether a copula is learnt.
        """
        if settings:
            raise StudyError(
                f"the method {self.name} has no {join_names(settings)}: leave it out, or change the method."
            )
        return {}

    def train_members(
        self,
        people: Sequence[PreparedPeople],
        work: MemberSet,
        checkpoint: Path | None,
        on_event: EventCallback | None = None,
    ) -> list[Member]:
        """Train a set of members.

        Parameters
        ----------
        people : sequence of PreparedPeople
            Of each member, or of one if members share them.
        checkpoint : Path or None
            File for the state of a long training.
        on_event : EventCallback or None
            Called with where a long training stands.
        """
        raise NotImplementedError

    def follow(self, work: MemberSet, first: Sequence[Member]) -> MemberSet:
        """Return a later set of members, given the members of the first set of the same
        grid point.
        """
        return work

    def shorten(self, work: MemberSet) -> MemberSet | None:
        """Return a shorter training of a set, to choose among grid points by; none for
        methods that are fast.
        """
        return None

    def compare_halves(
        self,
        people: Sequence[PreparedPeople],
        members: Sequence[Member],
        work: MemberSet,
        number: int,
    ) -> Member:
        """Return a member of a set with evidence, for methods that measure it where it
        is needed (`compares_halves`).
        """
        raise NotImplementedError

    def explain_failure(
        self, members: Sequence[Member], reasons: Sequence[str], values: MethodValues
    ) -> Problem:
        """Return why a study has no result, and what to change, for methods that are
        not replaced (`can_be_replaced`).

        Parameters
        ----------
        members : sequence of Member
            Of all settings at full length.
        reasons : sequence of str
            Why each setting is not stable.
        values : MethodValues
            Of the method.
        """
        raise NotImplementedError

    def estimate_seconds(self, people: PreparedPeople, work: MemberSet) -> float:
        """Return the seconds that one member takes: one is trained on at most
        `MAX_TIMED_PEOPLE` and timed.
        """
        few = _take_people(people, MAX_TIMED_PEOPLE)
        start = time.perf_counter()
        self.train_members(
            few.deal_to_members([0], 0), replace(work, numbers=(0,)), None
        )
        return time.perf_counter() - start

    def min_patients(self, n_patterns: int) -> int:
        """Return the fewest patients to train on: for disjoint halves with more
        patients than patterns, and a spare.
        """
        return 2 * (n_patterns + 1) + 1

    def get_subsample_fraction(self, values: MethodValues) -> float:
        """Return the share of controls and of patients that each member is
        trained on.
        """
        from rindices.learners.prepared_people import SUBSAMPLE_FRACTION

        return float(values.get("share", 1.0)) * (
            SUBSAMPLE_FRACTION if self.leaves_people_out else 1.0
        )

    def learn_weights(self, people: PreparedPeople, shifts: FloatArray) -> FloatArray:
        """Return weights (R, M) of patterns (R, M) as learnt from other people, to
        measure their stability.
        """
        from rindices.learners.ensemble import compute_pattern_weights

        return compute_pattern_weights(people, shifts)

    def choose_weight_learner(self, members: Sequence[Member]) -> WeightLearner:
        """Return the function that learns the weights of the patterns of members; see
        `learn_weights`.
        """
        return self.learn_weights


def _take_people(people: PreparedPeople, number: int) -> PreparedPeople:
    """Return about so many of the people, or all."""
    import numpy as np

    return people.take(np.arange(0, len(people.X), max(1, len(people.X) // number)))


class _TrajectoriesMethod(StudyMethod):
    name = DEFAULT_METHOD
    description = (
        "disease patterns along the severity of each, by maximum likelihood, with shape and number chosen by the "
        "likelihood of held-out people"
    )
    uses_measured_cells = True
    uses = frozenset({"reference", "visits"})
    compares_halves = True

    def list_values(self) -> tuple[str, ...]:
        return ("shape", "start")

    def resolve_values(
        self, settings: MethodSettings, correlated: bool
    ) -> MethodValues:
        from rindices.learners.ensemble import SHAPES, STARTS
        from rindices.learners.trajectory.settings import DEFAULT_EM_SETTINGS

        choices = {"shape": ("auto", *SHAPES), "start": ("auto", *STARTS)}
        values = dict.fromkeys(choices, "auto") | dict(settings)
        for name, value in values.items():
            if name not in choices:
                raise StudyError(
                    f"the method {self.name} has no {name}: {did_you_mean(name, list(choices))}"
                )
            if value not in choices[name]:
                raise StudyError(
                    f"{name} is {value!r}: give one of {', '.join(choices[name])}."
                )
        return {**values, "em": DEFAULT_EM_SETTINGS.to_dict()}

    def train_members(
        self,
        people: Sequence[PreparedPeople],
        work: MemberSet,
        checkpoint: Path | None,
        on_event: EventCallback | None = None,
    ) -> list[Member]:
        from rindices.learners.trajectory.members import fit_trajectory_members
        from rindices.learners.trajectory.settings import EMSettings

        values = json.loads(work.values)
        return fit_trajectory_members(
            people,
            work.point.n_patterns,
            work.numbers,
            work.seed,
            shape=values["shape"],
            start=values["start"],
            settings=EMSettings.from_dict(values["em"]),
        )

    def follow(self, work: MemberSet, first: Sequence[Member]) -> MemberSet:
        """Give later sets the shape and the start that the first one chose."""
        held_out = first[0].held_out
        if held_out is None:
            return work
        values = json.loads(work.values)
        values |= {"shape": held_out.shape, "start": held_out.start}
        return replace(work, values=json.dumps(values))

    def choose_weight_learner(self, members: Sequence[Member]) -> WeightLearner:
        from rindices.learners.ensemble import compute_pattern_weights

        held_out = members[0].held_out
        return (
            self.learn_weights
            if held_out is None
            else partial(compute_pattern_weights, start=held_out.start)
        )

    def compare_halves(
        self,
        people: Sequence[PreparedPeople],
        members: Sequence[Member],
        work: MemberSet,
        number: int,
    ) -> Member:
        from rindices.learners.trajectory.members import compare_trajectory_halves
        from rindices.learners.trajectory.settings import EMSettings

        settings = EMSettings.from_dict(json.loads(work.values)["em"])
        (member,) = compare_trajectory_halves(
            people, members, work.seed, settings, [number]
        )
        return member

    def estimate_seconds(self, people: PreparedPeople, work: MemberSet) -> float:
        """Time one proportional fit to a few people; a member has two fits of each
        shape, on other numbers of people.
        """
        from rindices.learners.trajectory.members import fit_trajectory_members

        start, few = time.perf_counter(), _take_people(people, 400)
        one = few.deal_to_members([0], 0)
        fit_trajectory_members(
            one, work.point.n_patterns, [0], 0, "proportional", start="contrastive"
        )
        size = max(1.0, len(people.X) / len(few.X))
        return (time.perf_counter() - start) * _FITS_PER_MEMBER * (1.0 + size) / 2.0


class _ContrastiveMethod(StudyMethod):
    name = "contrastive"
    description = "the patterns of variation that patients show beyond controls, by maximum likelihood"

    def train_members(
        self,
        people: Sequence[PreparedPeople],
        work: MemberSet,
        checkpoint: Path | None,
        on_event: EventCallback | None = None,
    ) -> list[Member]:
        from rindices.learners.ensemble import fit_linear_members

        return fit_linear_members(
            people, work.point.n_patterns, work.numbers, work.seed
        )


class _MeanDifferenceMethod(StudyMethod):
    name = MEAN_DIFFERENCE
    description = (
        "the position along the mean difference between patients and controls, averaged over several shrinkages of the "
        "covariance"
    )
    is_refitted = True

    def train_members(
        self,
        people: Sequence[PreparedPeople],
        work: MemberSet,
        checkpoint: Path | None,
        on_event: EventCallback | None = None,
    ) -> list[Member]:
        from rindices.learners.contrastive.estimator import MeanDifference
        from rindices.learners.ensemble import fit_linear_members

        return fit_linear_members(
            people,
            work.point.n_patterns,
            work.numbers,
            work.seed,
            learner=MeanDifference,
        )

    def learn_weights(self, people: PreparedPeople, shifts: FloatArray) -> FloatArray:
        from rindices.learners.contrastive.estimator import compute_difference_weights

        return compute_difference_weights(
            people.X, people.y, people.reference, people.kinds
        )


class _SurrealGANMethod(StudyMethod):
    name = "surreal-gan"
    description = "the networks of Surreal-GAN, trained from a linear start"
    orthogonality_weights = (0.1, 0.2, 0.4, 0.6, 0.8)
    uses = frozenset({"orthogonality", "correlated"})
    can_be_replaced = False
    number_margin = 0.05
    training_module = "rindices.learners.gan.train"

    def make_recipe(self) -> Recipe:
        """Return the training unless the study changes it."""
        from rindices.learners.gan.recipe import SURREAL_GAN

        return SURREAL_GAN.replace(
            share=1.0
        )  # members are given their share of the people

    def list_values(self) -> tuple[str, ...]:
        from rindices.learners.gan.recipe import LossWeights, Recipe

        return (
            *(each.name for each in fields(Recipe)),
            *(each.name for each in fields(LossWeights)),
            "device",
        )

    def check_settings(self, settings: MethodSettings, correlated: bool) -> None:
        self._customise(settings, correlated)

    def resolve_values(
        self, settings: MethodSettings, correlated: bool
    ) -> MethodValues:
        from rindices.learners.gan.recipe import require_torch

        require_torch(f"the method {self.name}", StudyError)
        return self._customise(settings, correlated)

    def _customise(self, settings: MethodSettings, correlated: bool) -> MethodValues:
        from rindices.learners.gan.recipe import customise_recipe

        if "orthogonality" in settings:
            raise StudyError(
                "orthogonality is part of the grid: set it as model.orthogonality, not in method_settings."
            )
        changes = dict(settings)
        device = changes.pop("device", "cpu")
        values = asdict(
            customise_recipe(self.make_recipe(), learn_copula=correlated, **changes)
        )
        # another device rounds in another way, so that it is part of the result
        return values if device == "cpu" else values | {"device": device}

    def shorten(self, work: MemberSet) -> MemberSet | None:
        recipe, device = _read_training(work)
        values = asdict(recipe.shorten()) | device
        return replace(work, values=json.dumps(values, sort_keys=True))

    def train_members(
        self,
        people: Sequence[PreparedPeople],
        work: MemberSet,
        checkpoint: Path | None,
        on_event: EventCallback | None = None,
    ) -> list[Member]:
        """Train a set of members; sets that differ in lambda alone share a file of
        their starts.
        """
        from rindices.learners.gan.callbacks import Forwarder
        from rindices.learners.gan.recipe import TrainingPlan, check_device
        from rindices.learners.gan.train import train_surreal_members

        (recipe, device), numbers = _read_training(work), tuple(work.numbers)
        check_device(device.get("device", "cpu"))
        plan = TrainingPlan(
            patterns=work.point.n_patterns,
            recipe=recipe,
            seed=work.seed,
            members=numbers,
            stack=len(numbers),
        )
        starts = None
        if checkpoint is not None and recipe.start == "linear":
            values = json.dumps(
                asdict(recipe.forget_training()) | device, sort_keys=True
            )
            start = replace(
                work, point=work.point._replace(orthogonality=None), values=values
            )
            starts = checkpoint.with_name(f"{start.key}.starts")
        import numpy as np

        own = [
            each if each.seen is None else each.take(np.flatnonzero(each.seen))
            for each in people
        ]
        callbacks = () if on_event is None else (Forwarder(on_event),)
        return train_surreal_members(
            [each.complete() for each in own],
            plan,
            checkpoint,
            starts=starts,
            callbacks=callbacks,
            device=device.get("device", "cpu"),
        )

    def explain_failure(
        self, members: Sequence[Member], reasons: Sequence[str], values: MethodValues
    ) -> Problem:
        from rindices.learners.ensemble import TrainingOutcome

        number = format_count(len(members), "member")
        outcomes = {member.outcome for member in members}
        usual, steps = self.make_recipe().max_steps, int(values["max_steps"])
        cure = f"Raise the number of steps: --max-steps {usual if steps < usual else 2 * steps}"
        if outcomes == {TrainingOutcome.DIVERGED}:
            what, rate = (
                f"the training of {number} of {self.name} diverged",
                float(values["learning_rate"]) / 4,
            )
            cure = f"Give method_settings = {{ learning_rate = {rate:g} }} in a study file, below [model]"
        elif TrainingOutcome.CONVERGED not in outcomes:
            what = f"none of {number} of {self.name} converged in {steps:,} steps"
        else:
            what = f"no setting of {self.name} is stable: {join_names(reasons)}"
        return Problem(
            severity=Severity.ERROR,
            what=f"{what}, so there is no model",
            cure=cure,
            code=ProblemCode.TRAINING_FAILED,
        )

    def estimate_seconds(self, people: PreparedPeople, work: MemberSet) -> float:
        """Time a few steps of one member; a step of the start takes about a third of
        the time of the others.
        """
        import rindices.learners.gan.train  # noqa: F401  its import is not part of a step

        values, steps = json.loads(work.values), 20
        changes = {
            "min_steps": steps,
            "max_steps": steps,
            "start": "random",
            "draw_controls": "people",
        }
        changes["instance_noise"] = 0.0
        brief = replace(work, values=json.dumps(values | changes))
        start_steps = (
            values["start_steps"] + values["warm_steps"]
            if values["start"] == "linear"
            else 0
        )
        return (
            super().estimate_seconds(people, brief)
            * float(values["max_steps"] + start_steps / 3)
            / steps
        )


def _read_training(work: MemberSet) -> tuple[Recipe, dict[str, str]]:
    """Return the recipe of a member set, and its device unless that is the CPU."""
    from rindices.learners.gan.recipe import recipe_from_dict

    values = json.loads(work.values)
    device = {"device": values.pop("device")} if "device" in values else {}
    return recipe_from_dict(values), device


class _PublishedSurrealGANMethod(_SurrealGANMethod):
    """Section 3 of the paper to the letter; `docs/surreal_gan.md` lists how
    `surreal-gan` differs from it.
    """

    name = "surreal-gan-published"
    description = "Surreal-GAN as it was published"
    leaves_people_out = False
    patterns = (2, 3, 4)
    follows_tests = False
    min_concordance = 0.0
    number_margin = 0.0
    uses_one_member = True
    on_outlier = "keep"
    adjust = "linear"

    def make_recipe(self) -> Recipe:
        from rindices.learners.gan.recipe import PUBLISHED

        return PUBLISHED

    def shorten(self, work: MemberSet) -> MemberSet | None:
        """All settings are trained at full length."""
        return None

    def min_patients(self, n_patterns: int) -> int:
        return 2


METHODS: dict[str, StudyMethod] = {
    method.name: method
    for method in (
        _TrajectoriesMethod(),
        _SurrealGANMethod(),
        _PublishedSurrealGANMethod(),
        _ContrastiveMethod(),
        _MeanDifferenceMethod(),
    )
}


def get_study_method(name: str) -> StudyMethod:
    """Return the method with this name, or suggest another name in an error."""
    if name not in METHODS:
        raise StudyError(
            f"there is no method '{name}': {did_you_mean(name, list(METHODS))}"
        )
    return METHODS[name]


def list_shortened_sets(plan: Sequence[MemberSet]) -> list[MemberSet]:
    """Return a shorter training of the first set of each grid point; none if there is
    nothing to choose, or to save.

    Sets of different numbers of patterns follow each other, so that workers do not
    compute the same starts.
    """
    first = [work for work in plan if work.numbers[0] == 0]
    first.sort(
        key=lambda work: (work.point.orthogonality or 0.0, work.point.n_patterns)
    )
    shorten = get_study_method(plan[0].method).shorten
    return [
        short
        for work in first
        if len(first) > 1 and (short := shorten(work)) is not None
    ]
