"""Fit a study from sums over people, whoever holds them, and write its files.

It is the default method, with every access to people replaced by a sum over them. Where
the method in memory does something that is not a sum, a sum takes its place.
``docs/scale.md`` lists these places.

Shape letters: R regions, M patterns, S members.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from rindices.atomic import write_json
from rindices.errors import RindicesError, StudyError, join_names
from rindices.learners.ensemble import Member, select_usable_members
from rindices.learners.people_source import HALVES, PeopleSet
from rindices.learners.prepared_people import N_FOLDS
from rindices.learners.trajectory.members import fit_half, make_member
from rindices.learners.trajectory.model import TrajectoryModel
from rindices.learners.trajectory.settings import EMSettings
from rindices.learners.trajectory.starts import (
    MemberFits,
    fit_from_best_start,
    make_generator,
    prepare_for_reading,
)
from rindices.model.findings import CountedPeople, GroupCounts, collect_findings
from rindices.model.fitted import FittedModel
from rindices.model.records import MethodRecord, SelectionRecord
from rindices.selection.agreement import IndexMoments
from rindices.selection.choose import (
    Candidate,
    GridPoint,
    SelectionResult,
    choose_grid_point,
)
from rindices.study.candidates import TrainedSettings, TrainedStudy
from rindices.study.conclude import add_findings
from rindices.study.config import ModelConfig, make_study
from rindices.study.decide import Decision, StudyEnd
from rindices.study.group_tests import Finding, GroupTests
from rindices.study.methods import MEAN_DIFFERENCE, MemberSet
from rindices.study.study import find_largest_number, make_plan
from rindices.study.train import SettingsTraining
from rindices.study.write import (
    clear_outputs,
    write_effects,
    write_findings,
    write_patterns,
    write_selection,
)
from rindices.sums import build, kinds, questions
from rindices.sums.adjustment import (
    AdjustedSums,
    ask_for_adjustment,
    ask_for_tests,
    ask_for_transform,
)
from rindices.sums.messages import (
    COMPUTE_ERRORS,
    SumsError,
    number_arrays,
    unpack_symmetric,
)
from rindices.sums.questions import PeopleInParts
from rindices.sums.rounds import PreparedRounds, RoundRecord, Rounds, Transport
from rindices.sums.subsets import GROUPS, MAX_PEOPLE, SubsetPlan, name_set
from rindices.threads import limit_blas_threads

METHOD = "trajectories"
OnStage = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class SumsSettings:
    """What decides the numbers of a study from sums, besides its people.

    Parameters
    ----------
    model : ModelConfig
        Numbers of patterns, members and method, ``trajectories`` or
        ``mean-difference``.
    seed : int
    adjust : {'log', 'linear', 'none'}, optional
        Scale of the adjustment. By default, logarithmic where all values are positive.
    by_site : bool
        Whether the parts are sites, whose small groups are dealt evenly to the folds of
        members.
    harmonise : bool
        Whether effects of sites are estimated from their controls (ComBat) and removed.
    with_effects : bool
        Whether the model gets the effects of sites. False where only their totals are
        seen.
    with_distances : bool
        Whether the model gets distances of the training people, for `outlier_score`.
    max_people : int
        Largest number of people of a group, about, that a member is drawn from.
    age_curve : {'linear', 'auto'}
        Whether age may be a spline, as held-out controls say.
    """

    model: ModelConfig
    seed: int = 0
    adjust: str | None = None
    by_site: bool = False
    harmonise: bool = False
    with_effects: bool = True
    with_distances: bool = True
    max_people: int = MAX_PEOPLE
    age_curve: str = "linear"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return values | {"model": self.model.model_dump(mode="json")}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "SumsSettings":
        """Return the settings of `to_dict`.

        Raises StudyError: if they are those of another version.
        """
        model = make_study(
            {"data": {"volumes": "parts"}, "model": values.get("model", {})},
            "the settings",
        ).model
        try:
            return cls(**{**values, "model": model})
        except TypeError as error:
            raise SumsError(
                "the study has other settings than this version: update rindices everywhere."
            ) from error


class SumsTraining(SettingsTraining):
    """Trains members by asking for sums.

    Parameters
    ----------
    plan : sequence of MemberSet
    source : PeopleInParts
    splits : sequence of int
        Members both of whose halves have enough people.
    on_stage : callable
        Called with one line at the beginning of each stage.

    Attributes
    ----------
    models : dict
        Fitted models by grid point and set of people.
    """

    def __init__(
        self,
        plan: Sequence[MemberSet],
        source: PeopleInParts,
        splits: Sequence[int],
        on_stage: OnStage,
    ) -> None:
        super().__init__(plan=plan)
        self._source, self._splits, self._on_stage = source, splits, on_stage
        self.models: dict[tuple[GridPoint, PeopleSet], TrajectoryModel] = {}

    def train_sets(self, works: Sequence[MemberSet]) -> list[list[Member]]:
        """Fit all sets in the same rounds."""
        return (
            self._compare_halves(works) if works[0].halves else self._fit_members(works)
        )

    def _fit_members(self, works: Sequence[MemberSet]) -> list[list[Member]]:
        self._on_stage("members" if works[0].numbers[0] == 0 else "later members")

        def fit(work: MemberSet) -> MemberFits:
            values = json.loads(work.values)
            return fit_from_best_start(
                self._source,
                work.numbers,
                work.point.n_patterns,
                work.seed,
                shape=values["shape"],
                start=values["start"],
                settings=EMSettings.from_dict(values["em"]),
            )

        trained = []
        results = self._source.run_together([partial(fit, work) for work in works])
        for work, fitted in zip(works, results, strict=True):
            members = []
            for k, (number, model) in enumerate(
                zip(work.numbers, fitted.models, strict=True)
            ):
                head, held_out = (
                    self._source.rounds.preparations[number].head,
                    fitted.describe_held_out(k),
                )
                self.models[work.point, PeopleSet(number, "seen")] = (
                    prepare_for_reading(model, held_out.start)
                )
                members.append(
                    make_member(number, head, model, fitted.steps[k], held_out)
                )
            trained.append(members)
        return trained

    def _compare_halves(self, works: Sequence[MemberSet]) -> list[list[Member]]:
        self._on_stage(
            f"halves of {join_names(str(work.point.n_patterns) for work in works)} patterns"
        )
        by_work = [
            [
                each
                for each in self.gathered[work.point]
                if each.number in work.numbers and each.number in self._splits
            ]
            for work in works
        ]
        halves, fits = list[tuple[GridPoint, PeopleSet]](), []
        for work, members in zip(works, by_work, strict=True):
            em = EMSettings.from_dict(json.loads(work.values)["em"])
            for member, half in product(members, HALVES):
                assert member.held_out is not None
                rng = make_generator(
                    work.seed, member.number, work.point.n_patterns, half
                )
                halves.append((work.point, PeopleSet(member.number, half)))
                settings = (
                    work.point.n_patterns,
                    member.held_out,
                    member.steps,
                    rng,
                    em,
                )
                fits.append(partial(fit_half, self._source, halves[-1][1], *settings))
        models = self._source.run_together(fits)
        self.models |= dict(zip(halves, models, strict=True))
        return [
            self._add_evidence(work.point, members)
            for work, members in zip(works, by_work, strict=True)
        ]

    def _add_evidence(
        self, point: GridPoint, members: Sequence[Member]
    ) -> list[Member]:
        """Return members with the agreement of the fits on their halves."""
        if not members:
            return []
        moments = self.compare(
            point, [PeopleSet(each.number, half) for each in members for half in HALVES]
        )
        return [
            replace(each, evidence=moments.compare(2 * k, 2 * k + 1).numbers)
            for k, each in enumerate(members)
        ]

    def infer_indices(
        self, point: GridPoint, members: Sequence[Member]
    ) -> IndexMoments:
        """Ask for the moments of the R-indices by members."""
        return self.compare(
            point, [PeopleSet(member.number, "seen") for member in members]
        )

    def compare(self, point: GridPoint, sets: Sequence[PeopleSet]) -> IndexMoments:
        """Ask for the moments of the R-indices of all patients by the fits to several
        sets of people.
        """
        numbers, models = (
            [each.member for each in sets],
            [self.models[point, each] for each in sets],
        )
        arrays = number_arrays([questions.pack_model(model) for model in models])
        total = self._source.rounds.ask(
            kinds.AGREEMENT, numbers, {"members": numbers}, arrays
        )
        products = unpack_symmetric(total.arrays["products"][0])
        return IndexMoments.from_sums(
            total.arrays["sum"][0], products, total.numbers[0], point.n_patterns
        )


@dataclass
class SumsFit:
    """Fits a study from sums.

    Parameters
    ----------
    rounds : Rounds
        Asks for sums.
    settings : SumsSettings
    on_stage : callable
        Called with one line at the beginning of each stage.

    Attributes
    ----------
    sums : AdjustedSums
        Sums of everyone.
    tests : GroupTests
    prepared : PreparedRounds
        Rounds after the adjustment.
    moments : mapping
        Moments by set of people and group.
    end : StudyEnd
        What decides how the study ends.
    training : SumsTraining
        Trains the patterns, if any are tried.
    members : DifferenceMembers
        Members of the mean difference, if it is trained.
    """

    rounds: Rounds
    settings: SumsSettings
    on_stage: OnStage = lambda text: None
    sums: AdjustedSums = field(init=False)
    tests: GroupTests = field(init=False)
    prepared: PreparedRounds = field(init=False)
    moments: questions.MomentsBySet = field(init=False)
    end: StudyEnd = field(init=False)
    training: SumsTraining = field(init=False)
    members: build.DifferenceMembers = field(init=False)

    @limit_blas_threads()
    def run(self) -> tuple[Decision, FittedModel | None]:
        """Plan, train, decide, and build the model; None without R-indices.

        Raises StudyError: if the study cannot be run on these people.
        """
        self._plan()
        trained = self._train()
        decision = self.end.decide(trained)
        return decision, self._build(decision)

    def _plan(self) -> None:
        """Ask for the adjustment, the tests, and the moments of members."""
        settings, model = self.settings, self.settings.model
        check_model(model)
        self.on_stage("adjustment")

        def plan_subsets(counts: Mapping[str, int]) -> SubsetPlan:
            plan = SubsetPlan(
                seed=settings.seed, members=model.n_members, by_site=settings.by_site
            )
            return plan.limit_people(counts, settings.max_people)

        self.sums, members, plan = ask_for_adjustment(
            self.rounds,
            settings.adjust,
            settings.harmonise,
            plan_subsets,
            settings.with_effects,
            settings.age_curve != "linear",
        )
        n_controls, n_patients = (self.sums.groups[group].number for group in GROUPS)
        if not n_controls or not n_patients:
            raise StudyError(
                "there are no controls or no patients who have all covariates: name the groups."
            )
        self.prepared = ask_for_transform(self.rounds, self.sums, members, plan)
        self.on_stage("tests")
        self.tests = ask_for_tests(self.rounds, self.sums, plan)
        self.moments = questions.ask_for_moments(self.prepared)
        self.end = StudyEnd(
            model=model,
            tests=self.tests,
            unit=self.sums.unit,
            made_with=build.collect_provenance(self.sums, settings.seed),
            preprocessing=self.prepared.everyone.preprocessing,
        )

    def _train(self) -> TrainedStudy:
        """Train the patterns, and the mean difference where none are stable."""
        patterns, difference = None, None
        if self.end.tries_patterns:
            self.training = self._plan_patterns()
            choice = self.training.choose()
            patterns = TrainedSettings(choice=choice, gathered=self.training.gathered)
        if self.end.find_ending(patterns) is Finding.MEAN_DIFFERENCE:
            self.members = self._fit_difference()
            choice = self._choose_difference(self.members.indices)
            difference = TrainedSettings(choice=choice, gathered={})
        return TrainedStudy(patterns=patterns, difference=difference)

    def _build(self, decision: Decision) -> FittedModel | None:
        """Build the model of the settings that were chosen."""
        if decision.trained is None:
            return None
        if decision.finding is Finding.PATTERNS:
            self.on_stage("model")
            return self._build_patterns(decision.trained, decision.selection)
        return self._build_difference(decision.trained, decision.selection)

    def _list_splits(self, least: int) -> list[int]:
        """Return the members both of whose halves have enough people.

        Members, or all first halves, that have too few are refused.
        """

        def has_enough(member: int, *parts: str) -> bool:
            sets = [
                self.moments[PeopleSet(member, part), group]
                for part in parts
                for group in GROUPS
            ]
            return min(moments.number for moments in sets) >= least

        members = range(self.settings.model.n_members)
        splits = [k for k in members if has_enough(k, *HALVES)]
        small = [
            name_set(PeopleSet(k, "seen")) for k in members if not has_enough(k, "seen")
        ]
        if small or not splits or splits[0] >= N_FOLDS:
            raise StudyError(
                f"{next(iter(small), 'a half')} has too few controls or patients: ask for fewer patterns, or add people."
            )
        return splits

    def _plan_patterns(self) -> SumsTraining:
        """Return the training of all numbers of patterns to try."""
        settings, model = self.settings, self.settings.model
        largest = find_largest_number(
            self.sums.counts["patients"], len(self.sums.regions), METHOD
        )
        numbers = model.patterns or self.tests.list_numbers_to_try(largest)
        plan = make_plan(
            model.model_copy(update={"patterns": numbers}), settings.seed, ""
        )
        splits = self._list_splits(2 * max(numbers) + 2)
        source = PeopleInParts(self.prepared, self.moments)
        return SumsTraining(plan, source, splits, self.on_stage)

    def _build_patterns(
        self, trained: TrainedSettings, selection: SelectionRecord
    ) -> FittedModel:
        """Build the consensus of the members of the chosen number of patterns."""
        training, choice = self.training, trained.choice
        assert choice.best is not None
        point = choice.evaluations[choice.best].point
        usable = select_usable_members(trained.chosen_members)
        sets = [PeopleSet(member.number, "seen") for member in usable]
        halves = [
            people
            for each, people in training.models
            if each == point and people.part in HALVES
        ]
        stability = questions.correlate_with_consensus(
            training.compare(point, [*sets, *halves]), choice, len(sets)
        )
        held_out = usable[0].held_out
        assert held_out is not None
        chosen = {"shape": held_out.shape, "start": held_out.start}
        values = {**self.settings.model.resolve_values(), **chosen}
        draft = build.ModelDraft(
            rounds=self.prepared,
            sums=self.sums,
            choice=choice,
            stability=stability,
            selection=selection,
            method=MethodRecord(name=METHOD, settings=values),
            numbers=[usable[k].number for k in choice.agreeing],
        )
        models = [training.models[point, sets[k]] for k in choice.agreeing]
        return build.build_curve_model(draft, models, self.settings.with_distances)

    def _fit_difference(self) -> build.DifferenceMembers:
        """Fit the index of the mean difference to all sets of people, which needs no
        further round.
        """
        self.on_stage("mean difference")
        halves = [
            PeopleSet(k, half)
            for k in self._list_splits(3)
            if k < N_FOLDS
            for half in HALVES
        ]
        members = range(self.settings.model.n_members)
        sets = [PeopleSet(k, "seen") for k in members]
        return build.fit_difference_members([*sets, *halves], self.moments)

    def _choose_difference(self, indices: IndexMoments) -> SelectionResult:
        """Return the agreeing members, given the indices of all members, then of both
        halves of some.
        """
        number = self.settings.model.n_members
        evidence = np.array(
            [
                indices.compare(first, first + 1).numbers
                for first in range(number, indices.n_members, 2)
            ]
        )
        candidate = Candidate(
            point=GridPoint(1),
            indices=indices.take(0, number),
            numbers=tuple(range(number)),
            trained=number,
            evidence=evidence,
        )
        return choose_grid_point([candidate], self.settings.seed, min_concordance=0.0)

    def _build_difference(
        self, trained: TrainedSettings, selection: SelectionRecord
    ) -> FittedModel:
        """Build the index of the mean difference."""
        choice, number = trained.choice, self.settings.model.n_members
        draft = build.ModelDraft(
            rounds=self.prepared,
            sums=self.sums,
            choice=choice,
            stability=questions.correlate_with_consensus(
                self.members.indices, choice, number
            ),
            selection=selection,
            method=MethodRecord(name=MEAN_DIFFERENCE, settings={}),
            numbers=choice.agreeing,
        )
        return build.build_difference_model(draft, self.members, self.moments)


def check_model(model: ModelConfig) -> None:
    """Refuse a method that cannot be fitted from sums, before the first round."""
    if model.method not in (METHOD, MEAN_DIFFERENCE):
        raise StudyError(
            f"the method {model.method} cannot be fitted from sums: use {METHOD}."
        )
    if model.members < 2:
        raise StudyError("a study from sums needs at least 2 members: raise members.")
    model.resolve_values()


@dataclass(frozen=True, kw_only=True)
class SumsResult:
    """End of a study from sums.

    Parameters
    ----------
    model : FittedModel or None
        None if no difference between patients and controls was detected.
    ending : str
        Why there is no model; empty if there is one.
    finding : {'patterns', 'mean_difference', 'no_difference'}
    counts : mapping of str to int
        All controls and patients.
    rounds : tuple of RoundRecord
    """

    model: FittedModel | None
    ending: str
    finding: str
    counts: Mapping[str, int]
    rounds: tuple[RoundRecord, ...]

    @property
    def received(self) -> int:
        """Bytes that a part received."""
        return sum(record.sent for record in self.rounds)

    @property
    def sent(self) -> int:
        """Bytes that a part sent, at most."""
        return sum(record.received for record in self.rounds)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``rounds.json``."""
        return {
            "finding": self.finding,
            "n_patterns": 0 if self.model is None else self.model.n_patterns,
            **self.counts,
            "rounds": len(self.rounds),
            "bytes_received_by_a_part": self.received,
            "bytes_sent_by_a_part": self.sent,
        }


def run_study_from_sums(
    transport: Transport,
    settings: SumsSettings,
    out: Path | None = None,
    on_stage: Callable[[str], None] = lambda text: None,
    on_round: Callable[[int, RoundRecord], None] | None = None,
    clear: Callable[[Path], None] = clear_outputs,
) -> SumsResult:
    """Fit the model of a study from sums and write its files.

    Parameters
    ----------
    transport : Transport
        Takes requests to those who hold people.
    settings : SumsSettings
    out : Path, optional
        Folder for ``model.safetensors``, ``selection.json``, ``findings.json``,
        ``patterns.tsv``, ``effects.tsv`` and ``rounds.json``.
    on_stage : callable
        Called with one line at the beginning of each stage.
    on_round : callable, optional
        Called with the number of each round and its `RoundRecord`.
    clear : callable
        Removes the files of an earlier study from the folder.

    Returns
    -------
    SumsResult

    Raises
    ------
    StudyError
        If the study cannot be run on these people, or a part has impossible sums.
    """
    rounds = Rounds(transport=transport, on_round=on_round)
    fit = SumsFit(rounds, settings, on_stage)
    with _explain_wrong_sums(rounds):
        decision, model = fit.run()
    selection, counts = decision.selection, fit.sums.counts
    groups = GroupCounts(controls=counts["controls"], patients=counts["patients"])
    selection = selection if model is None else model.selection or selection
    findings = collect_findings(model, selection, people=CountedPeople(groups))
    if model is not None:
        patterns = add_findings(selection.patterns, findings)
        selection = selection.model_copy(update={"patterns": patterns})
        card = model.card.model_copy(update={"pattern_evidence": patterns})
        model = replace(model, card=card, selection=selection, findings=findings)
    result = SumsResult(
        model=model,
        ending="" if decision.ending is None else str(decision.ending),
        finding=selection.finding,
        counts=counts,
        rounds=tuple(rounds.records),
    )
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        clear(out)
        write_effects(out, fit.tests.effects, fit.sums.regions, fit.sums.unit)
        write_selection(out, selection)
        write_findings(out, findings)
        write_json(out / "rounds.json", result.to_dict())
        if model is not None:
            write_patterns(out, model, fit.sums.unit)
            model.save(out / "model.safetensors")
    return result


@contextmanager
def _explain_wrong_sums(rounds: Rounds) -> Iterator[None]:
    """Explain errors of computing with sums by the parts that sent them."""
    try:
        yield
    except RindicesError:
        raise
    except COMPUTE_ERRORS as error:
        last = (
            f"round {len(rounds.records)} ({rounds.records[-1].kind})"
            if rounds.records
            else "the first round"
        )
        raise SumsError(
            f"nothing can be computed from the sums of {join_names(rounds.parts)} after {last}: {error}. One of them "
            "may have wrong sums: leave out one after the other."
        ) from error
