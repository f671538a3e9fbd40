"""Fit a study from sums over people, whoever holds them, and write its files.

It is the default method, with every access to people replaced by a sum over them. Where the method in memory does
something that is not a sum, a sum takes its place. ``docs/scale.md`` lists these places.

Shape letters: R regions, M patterns, S members.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
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
from rindices.learners.trajectory.expectation_maximisation import TrajectoryModel
from rindices.learners.trajectory.members import (
    MemberFits,
    fit_from_best_start,
    fit_half,
    make_generator,
    make_member,
    prepare_for_reading,
)
from rindices.model.findings import CountedPeople, GroupCounts, collect_findings
from rindices.model.fitted import FittedModel
from rindices.model.records import MethodRecord
from rindices.selection.agreement import IndexMoments
from rindices.selection.choose import Candidate, GridPoint, choose_grid_point
from rindices.study.build import make_candidate_records
from rindices.study.conclude import attach_findings
from rindices.study.config import ModelConfig, make_study
from rindices.study.decide import Records, SettingsTraining, StudyEnd
from rindices.study.exceptions import NoPatternError
from rindices.study.group_tests import Finding, GroupTests
from rindices.study.methods import MEAN_DIFFERENCE, MemberSet
from rindices.study.outputs import clear_outputs, write_effects, write_findings, write_patterns, write_selection
from rindices.study.study import find_largest_number, make_plan
from rindices.sums import build, kinds, questions
from rindices.sums.adjustment import AdjustedSums, ask_for_adjustment, ask_for_tests, ask_for_transform
from rindices.sums.messages import COMPUTE_ERRORS, SumsError, number_arrays, unpack_symmetric
from rindices.sums.questions import PeopleInParts
from rindices.sums.rounds import PreparedRounds, RoundRecord, Rounds, Transport
from rindices.sums.subsets import GROUPS, MAX_PEOPLE, SubsetPlan, name_set
from rindices.threads import limit_blas_threads

METHOD = "trajectories"
OnStage = Callable[[str], None]


@dataclass(frozen=True)
class SumsSettings:
    """What decides the numbers of a study from sums, besides its people.

    Parameters
    ----------
    model : ModelConfig
        Numbers of patterns, members and method, ``trajectories`` or ``mean-difference``.
    seed : int
    adjust : {'log', 'linear', 'none'}, optional
        Scale of the adjustment; by default logarithmic where all values are positive.
    by_site : bool
        Whether the parts are sites, whose small groups are dealt evenly to the folds of members.
    harmonise : bool
        Whether effects of sites are estimated from their controls (ComBat) and removed.
    with_effects : bool
        Whether the model gets the effects of sites; not where their totals alone are seen.
    with_distances : bool
        Whether the model gets distances of the training people, for `unusual`.
    max_people : int
        Largest number of people of a group, about, that a member is drawn from.
    """

    model: ModelConfig
    seed: int = 0
    adjust: str | None = None
    by_site: bool = False
    harmonise: bool = False
    with_effects: bool = True
    with_distances: bool = True
    max_people: int = MAX_PEOPLE

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return values | {"model": self.model.model_dump(mode="json")}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "SumsSettings":
        """Return the settings of `to_dict`.

        Raises StudyError: if they are none.
        """
        model = make_study({"data": {"volumes": "parts"}, "model": values.get("model", {})}, "the settings").model
        try:
            return cls(**{**values, "model": model})
        except TypeError as error:
            raise SumsError("the study has other settings than this version: update rindices everywhere.") from error


class SumsTraining(SettingsTraining):
    """Trains members by asking for sums.

    splits: members both of whose halves have enough people; models: fitted curves by grid point and people.
    """

    def __init__(
        self, plan: Sequence[MemberSet], source: PeopleInParts, splits: Sequence[int], on_stage: OnStage
    ) -> None:
        super().__init__(plan)
        self._source, self._splits, self._on_stage = source, splits, on_stage
        self.models: dict[tuple[GridPoint, PeopleSet], TrajectoryModel] = {}

    def train_sets(self, works: Sequence[MemberSet]) -> list[list[Member]]:
        """Fit all sets in the same rounds."""
        return self._compare_halves(works) if works[0].halves else self._fit_members(works)

    def _fit_members(self, works: Sequence[MemberSet]) -> list[list[Member]]:
        self._on_stage("members" if works[0].numbers[0] == 0 else "later members")

        def fit(work: MemberSet) -> MemberFits:
            settings = json.loads(work.values)
            return fit_from_best_start(self._source, work.numbers, work.point.n_patterns, work.seed, **settings)

        trained = []
        results = self._source.run_together([partial(fit, work) for work in works])
        for work, fitted in zip(works, results, strict=True):
            members = []
            for k, (number, model) in enumerate(zip(work.numbers, fitted.models, strict=True)):
                head, held_out = self._source.rounds.preparations[number].head, fitted.describe_held_out(k)
                self.models[work.point, PeopleSet(number, "seen")] = prepare_for_reading(model, held_out.start)
                members.append(make_member(number, head, model, fitted.steps[k], held_out))
            trained.append(members)
        return trained

    def _compare_halves(self, works: Sequence[MemberSet]) -> list[list[Member]]:
        self._on_stage(f"halves of {join_names(str(work.point.n_patterns) for work in works)} patterns")
        by_work = [
            [each for each in self.gathered[work.point] if each.number in work.numbers and each.number in self._splits]
            for work in works
        ]
        halves, fits = list[tuple[GridPoint, PeopleSet]](), []
        for work, members in zip(works, by_work, strict=True):
            for member, half in product(members, HALVES):
                assert member.held_out is not None
                rng = make_generator(work.seed, member.number, work.point.n_patterns, half)
                halves.append((work.point, PeopleSet(member.number, half)))
                settings = (work.point.n_patterns, member.held_out, member.steps, rng)
                fits.append(partial(fit_half, self._source, halves[-1][1], *settings))
        models = self._source.run_together(fits)
        self.models |= dict(zip(halves, models, strict=True))
        return [self._add_evidence(work.point, members) for work, members in zip(works, by_work, strict=True)]

    def _add_evidence(self, point: GridPoint, members: Sequence[Member]) -> list[Member]:
        """Return members with the agreement of the fits on their halves."""
        if not members:
            return []
        moments = self.compare(point, [PeopleSet(each.number, half) for each in members for half in HALVES])
        return [each._replace(evidence=moments.compare(2 * k, 2 * k + 1)[:3]) for k, each in enumerate(members)]

    def infer_indices(self, point: GridPoint, members: Sequence[Member]) -> IndexMoments:
        """Ask for the moments of the R-indices by members."""
        return self.compare(point, [PeopleSet(member.number, "seen") for member in members])

    def compare(self, point: GridPoint, sets: Sequence[PeopleSet]) -> IndexMoments:
        """Ask for the moments of the R-indices of all patients by the fits to several sets of people."""
        numbers, models = [each.member for each in sets], [self.models[point, each] for each in sets]
        arrays = number_arrays([questions.pack_model(model) for model in models])
        total = self._source.rounds.ask(kinds.AGREEMENT, numbers, {"members": numbers}, arrays)
        products = unpack_symmetric(total.arrays["products"][0])
        return IndexMoments.from_sums(total.arrays["sum"][0], products, total.numbers[0], point.n_patterns)


@dataclass
class SumsFit:
    """Fits a study from sums.

    rounds: asks for sums; on_stage: called with one line at the beginning of each stage; sums, tests, prepared,
    moments: what the first rounds told; end: what the study says at its end.
    """

    rounds: Rounds
    settings: SumsSettings
    on_stage: OnStage = lambda text: None
    sums: AdjustedSums = field(init=False)
    tests: GroupTests = field(init=False)
    prepared: PreparedRounds = field(init=False)
    moments: questions.MomentsBySet = field(init=False)
    end: StudyEnd = field(init=False)

    @limit_blas_threads()
    def run(self) -> FittedModel:
        """Return the model of the study; see `StudyEnd.conclude`.

        Raises StudyError: if the study cannot be run on these people.
        """
        settings, model = self.settings, self.settings.model
        if model.method not in (METHOD, MEAN_DIFFERENCE):
            raise StudyError(f"the method {model.method} cannot be fitted from sums: use {METHOD}.")
        if model.members < 2:
            raise StudyError("a study from sums needs at least 2 members: raise members.")
        model.resolve_values()  # a shape that there is not is an error before the first round
        self.on_stage("adjustment")

        def plan_subsets(counts: Mapping[str, int]) -> SubsetPlan:
            plan = SubsetPlan(settings.seed, model.n_members, by_site=settings.by_site)
            return plan.limit_people(counts, settings.max_people)

        self.sums, members, plan = ask_for_adjustment(
            self.rounds, settings.adjust, settings.harmonise, plan_subsets, settings.with_effects
        )
        n_controls, n_patients = (self.sums.groups[group].number for group in GROUPS)
        if not n_controls or not n_patients:
            raise StudyError("there are no controls or no patients who have all covariates: name the groups.")
        self.prepared = ask_for_transform(self.rounds, self.sums, members, plan)
        self.on_stage("tests")
        self.tests = ask_for_tests(self.rounds, self.sums, plan)
        self.moments = questions.ask_for_moments(self.prepared)
        made_with = build.collect_provenance(self.sums, settings.seed)
        self.end = StudyEnd(model, self.tests, self.sums.unit, made_with, self.prepared.everyone.preprocessing)
        return self.end.conclude(self._fit_patterns, self._fit_difference)

    def _list_splits(self, least: int) -> list[int]:
        """Return the members both of whose halves have enough people.

        Members, or all first halves, that have too few are refused.
        """

        def has_enough(member: int, *parts: str) -> bool:
            sets = [self.moments[PeopleSet(member, part), group] for part in parts for group in GROUPS]
            return min(moments.number for moments in sets) >= least

        members = range(self.settings.model.n_members)
        splits = [k for k in members if has_enough(k, *HALVES)]
        small = [name_set(PeopleSet(k, "seen")) for k in members if not has_enough(k, "seen")]
        if small or not splits or splits[0] >= N_FOLDS:
            raise StudyError(
                f"{[*small, 'a half'][0]} has too few controls or patients: ask for fewer patterns, or add people."
            )
        return splits

    def _fit_patterns(self) -> tuple[FittedModel | None, Records]:
        """Fit all numbers of patterns and build the simplest of the likely ones that is stable."""
        settings, model = self.settings, self.settings.model
        largest = find_largest_number(self.sums.counts["patients"], len(self.sums.regions), METHOD)
        numbers = model.patterns or self.tests.list_numbers_to_try(largest)
        plan = make_plan(model.model_copy(update={"patterns": numbers}), settings.seed, "")
        splits, source = self._list_splits(2 * max(numbers) + 2), PeopleInParts(self.prepared, self.moments)
        training = SumsTraining(plan, source, splits, self.on_stage)
        choice = training.choose()
        evaluated = make_candidate_records(training.gathered, choice)
        if choice.best is None:
            return None, evaluated
        self.on_stage("model")
        point = choice.evaluations[choice.best].point
        usable = select_usable_members(training.gathered[point])
        sets = [PeopleSet(member.number, "seen") for member in usable]
        halves = [people for each, people in training.models if each == point and people.part in HALVES]
        stability = questions.correlate_with_consensus(training.compare(point, [*sets, *halves]), choice, len(sets))
        held_out, behind = usable[0].held_out, [usable[k].number for k in choice.agreeing]
        assert held_out is not None
        selection = self.end.record_choice(Finding.PATTERNS, choice, evaluated)
        method = MethodRecord(METHOD, {"shape": held_out.shape, "start": held_out.start})
        draft = build.ModelDraft(self.prepared, self.sums, choice, stability, selection, method, behind)
        models = [training.models[point, sets[k]] for k in choice.agreeing]
        return build.build_curve_model(draft, models, settings.with_distances), ()

    def _fit_difference(self, failed: Records) -> FittedModel:
        """Build the index of the mean difference, which needs no further round."""
        self.on_stage("mean difference")
        number = self.settings.model.n_members
        halves = [PeopleSet(k, half) for k in self._list_splits(3) if k < N_FOLDS for half in HALVES]
        sets = [PeopleSet(k, "seen") for k in range(number)]
        members = build.fit_difference_members([*sets, *halves], self.moments)
        indices = members.indices
        evidence = np.array([indices.compare(first, first + 1)[:3] for first in range(number, indices.n_members, 2)])
        candidate = Candidate(GridPoint(1), indices.take(0, number), tuple(range(number)), number, evidence)
        choice = choose_grid_point([candidate], self.settings.seed, min_concordance=0.0)
        stability = questions.correlate_with_consensus(indices, choice, number)
        evaluated = make_candidate_records({}, choice)
        selection = self.end.record_choice(Finding.MEAN_DIFFERENCE, choice, evaluated, failed)
        method = MethodRecord(MEAN_DIFFERENCE, {})
        draft = build.ModelDraft(self.prepared, self.sums, choice, stability, selection, method, choice.agreeing)
        return build.build_difference_model(draft, members, self.moments)


@dataclass(frozen=True)
class SumsResult:
    """End of a study from sums.

    model: none if no difference between patients and controls was detected; ending: why there is no model; empty if
    there is one; finding: ``patterns``, ``mean_difference`` or ``no_difference``; counts: all controls and
    patients.
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

    transport: takes requests to those who hold people. out: folder for ``model.safetensors``, ``selection.json``,
    ``patterns.tsv``, ``effects.tsv`` and ``rounds.json``. on_stage, on_round: called at the beginning of a stage and
    after a round. clear: removes the files of an earlier study from the folder.
    """
    rounds = Rounds(transport, on_round)
    fit = SumsFit(rounds, settings, on_stage)
    try:
        fitted, ending = fit.run(), ""
        selection = fitted.selection
    except NoPatternError as error:
        fitted, ending, selection = None, str(error), error.selection
    except RindicesError:
        raise
    except COMPUTE_ERRORS as error:
        last = f"round {len(rounds.records)} ({rounds.records[-1].kind})" if rounds.records else "the first round"
        raise SumsError(
            f"nothing can be computed from the sums of {join_names(rounds.parts)} after {last}: {error}. One of them "
            "may have wrong sums: leave out one after the other."
        ) from error
    assert selection is not None
    counts = GroupCounts(controls=fit.sums.counts["controls"], patients=fit.sums.counts["patients"])
    findings = collect_findings(fitted, selection, people=CountedPeople(counts))
    if fitted is not None:
        fitted = attach_findings(fitted, findings)
        selection = fitted.selection
        assert selection is not None
    result = SumsResult(fitted, ending, selection.finding, fit.sums.counts, tuple(rounds.records))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        clear(out)
        write_effects(out, fit.tests.effects, fit.sums.regions, fit.sums.unit)
        write_selection(out, selection)
        write_findings(out, findings)
        write_json(out / "rounds.json", result.to_dict())
        if fitted is not None:
            write_patterns(out, fitted, fit.sums.unit)
            fitted.save(out / "model.safetensors")
    return result
