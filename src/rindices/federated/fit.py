"""Fit a study across sites that answer requests, and write its files.

It is the default recipe, with every access to people replaced by a sum over them. Where the pooled recipe does
something that is not a sum, a sum takes its place; ``docs/federated.md`` lists these places.

Shape letters: R regions, M patterns, S members.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rindices.atomic import write_json
from rindices.errors import RindicesError, StudyError, join_names
from rindices.federated import build, ensemble, kinds
from rindices.federated.adjustment import AdjustedSums, ask_for_adjustment, ask_for_tests, ask_for_transform
from rindices.federated.messages import COMPUTE_ERRORS, ExchangeError, unpack_symmetric
from rindices.federated.privacy import FEWEST_PEOPLE
from rindices.federated.rounds import InMemoryTransport, PreparedRounds, RoundRecord, Rounds, Transport
from rindices.federated.site import Site
from rindices.federated.subsets import GROUPS, MAX_PEOPLE, SubsetPlan, name_half, name_member
from rindices.learners.conversation import HALVES, Conversation, PeopleSet, join_conversations, run_conversation
from rindices.learners.ensemble import SHAPES, Member, select_usable_members
from rindices.learners.prepared_people import N_FOLDS
from rindices.learners.trajectory.expectation_maximisation import TrajectoryFit, TrajectoryModel
from rindices.learners.trajectory.members import (
    fit_and_choose,
    fit_half,
    get_held_out,
    make_generator,
    make_member,
    pose_problems,
)
from rindices.model.fitted import FittedModel
from rindices.model.records import CandidateRecord, RecipeRecord, SelectionRecord, describe_adjustment
from rindices.selection.agreement import IndexMoments
from rindices.selection.choose import (
    Candidate,
    ConsensusMembers,
    GridPoint,
    choose_and_measure,
    choose_grid_point,
)
from rindices.selection.group_difference import MIN_POWER
from rindices.study.build import collect_likelihoods, make_candidate_records
from rindices.study.config import ModelConfig, make_study
from rindices.study.exceptions import NoPatternError
from rindices.study.group_tests import Finding, GroupTests, make_number_record
from rindices.study.outputs import clear_outputs, write_effects, write_patterns, write_selection
from rindices.study.recipes import MEAN_DIFFERENCE, get_study_recipe
from rindices.tables.cohort import Cohort
from rindices.threads import limit_blas_threads

RECIPE = "default"
_SetFits = tuple[str, list[dict[str, TrajectoryFit]]]
"""Shape that a set of members chooses, and the fits of each member by shape."""


@dataclass(frozen=True)
class FederatedSettings:
    """What decides the numbers of a federated study, besides its people.

    model: numbers of patterns, members and recipe (``default`` or ``mean-difference``); adjust: scale of the
    adjustment; harmonise: whether effects of sites are estimated from their controls (ComBat) and removed;
    with_distances: whether the model gets distances of the training people, for `unusual`; max_people: largest number
    of people of a group, about, that a member is drawn from; masked: whether sites mask their sums; left: first round
    without a site, of those that left.
    """

    model: ModelConfig
    seed: int = 0
    adjust: str | None = None
    harmonise: bool = False
    with_distances: bool = True
    max_people: int = MAX_PEOPLE
    masked: bool = False
    left: Mapping[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return what all sites must agree on, as plain values."""
        names = ("seed", "adjust", "harmonise", "with_distances", "max_people", "masked")
        return {"model": self.model.model_dump(mode="json"), **{name: getattr(self, name) for name in names}}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], left: Mapping[str, int]) -> "FederatedSettings":
        """Return the settings of `to_dict`.

        Raises StudyError: if they are none.
        """
        model = make_study({"data": {"volumes": "sites"}, "model": values.get("model", {})}, "the run").model
        try:
            return cls(**{**values, "model": model}, left=left)
        except TypeError as error:
            raise ExchangeError("the run has other settings than this version: update rindices everywhere.") from error


@dataclass
class FederatedFit:
    """Fits a study across sites.

    rounds: asks the sites; on_stage: called with one line at the beginning of each stage; sums, tests, prepared,
    moments: what the first rounds told.
    """

    rounds: Rounds
    settings: FederatedSettings
    on_stage: Callable[[str], None] = lambda text: None
    sums: AdjustedSums = field(init=False)
    tests: GroupTests = field(init=False)
    prepared: PreparedRounds = field(init=False)
    moments: ensemble.MomentsBySet = field(init=False)

    @limit_blas_threads()
    def run(self) -> FittedModel:
        """Return the model of the patterns, or of the mean difference where there are none that are stable.

        Raises NoPatternError: if no difference between patients and controls was detected, and no stable patterns were
        asked for. Raises StudyError: if the study cannot be run on these people.
        """
        settings, model = self.settings, self.settings.model
        self._check_model()
        self.on_stage("adjustment")

        def make_plan(counts: Mapping[str, int]) -> SubsetPlan:
            sizes = tuple(counts[group] for group in GROUPS) if settings.masked else ()
            return SubsetPlan(settings.seed, model.n_members, sizes=sizes).limit_people(counts, settings.max_people)

        self.sums, members, plan = ask_for_adjustment(self.rounds, settings.adjust, settings.harmonise, make_plan)
        n_controls, n_patients = (self.sums.groups[group].number for group in GROUPS)
        if not n_controls or not n_patients:
            raise StudyError("the sites have no controls or no patients that can be adjusted: name the groups.")
        self.prepared = ask_for_transform(self.rounds, self.sums, members, plan)
        self.on_stage("tests")
        self.tests = ask_for_tests(self.rounds, self.sums, plan)
        self.moments = ensemble.ask_for_moments(self.prepared)
        failed: tuple[CandidateRecord, ...] = ()
        is_forced = model.forced is not None
        has_patterns = model.recipe != MEAN_DIFFERENCE and (is_forced or self.tests.finding is Finding.PATTERNS)
        if has_patterns:
            fitted, failed = self._fit_patterns()
            if fitted is not None:
                return fitted
        if self.tests.finding is Finding.NO_DIFFERENCE and (has_patterns or not is_forced):
            raise self._make_no_pattern_error(failed)
        return self._fit_difference(failed)

    def _check_model(self) -> None:
        model = self.settings.model
        if model.recipe not in (RECIPE, MEAN_DIFFERENCE):
            raise StudyError(f"the recipe {model.recipe} cannot run across sites: use {RECIPE}.")
        if model.members < 2:
            raise StudyError("a federated study needs at least 2 members: raise members.")
        shape = model.recipe_changes.get("shape", "auto")
        if shape not in ("auto", *SHAPES):
            raise StudyError(f"the shape {shape!r} cannot be fitted across sites: give auto, {' or '.join(SHAPES)}.")

    def _list_splits(self, least: int) -> list[int]:
        """Return the members, of the first `N_FOLDS`, both of whose halves have enough people.

        As several small sites can have sets with too few people, members or all halves that have too few are refused.
        """

        def has_enough(name: str) -> bool:
            return min(self.moments[name, group].number for group in GROUPS) >= least

        members = range(self.settings.model.n_members)
        splits = [k for k in members[:N_FOLDS] if has_enough(name_half(k, 0)) and has_enough(name_half(k, 1))]
        small = [name_member(k) for k in members if not has_enough(name_member(k))] or ([] if splits else ["a half"])
        if small:
            raise StudyError(
                f"{small[0]} has too few controls or patients: groups of fewer than 50 at a site are not split. Ask "
                "for fewer patterns or members, take another seed, or let small sites join their tables."
            )
        return splits

    def _list_numbers(self) -> tuple[int, ...]:
        """Return the numbers of patterns to try."""
        if self.settings.model.patterns is not None:
            return tuple(dict.fromkeys(self.settings.model.patterns))
        min_patients = get_study_recipe(RECIPE).min_patients
        candidates = range(1, len(self.sums.regions) + 1)
        largest = max((n for n in candidates if min_patients(n) <= self.sums.counts["patients"]), default=0)
        return self.tests.list_numbers_to_try(largest)

    def _fit_patterns(self) -> tuple[FittedModel | None, tuple[CandidateRecord, ...]]:
        """Fit all numbers of patterns and build the simplest of the likely ones that is stable.

        Numbers are compared by the first set of members of each; later sets are fitted for the chosen one.
        """
        numbers = self._list_numbers()
        splits = self._list_splits(2 * max(numbers) + 2)
        self.on_stage("members")
        source, members = ensemble.SiteSums(self.prepared, self.moments), range(self.settings.model.n_members)
        shape = str(self.settings.model.recipe_changes.get("shape", "auto"))
        fitted = self._fit_sets([(number, members[:N_FOLDS], shape) for number in numbers], source)
        halves: dict[GridPoint, list[TrajectoryModel]] = {}
        joint: dict[GridPoint, IndexMoments] = {}

        def make(point: GridPoint) -> Candidate:
            usable = _select_usable(fitted[point])
            numbers = [*(member.number for member, _ in usable), *(k for k in splits for _ in HALVES)]
            joint[point] = self._compare(point, [*(model for _, model in usable), *halves[point]], numbers)
            return _make_candidate(point, fitted[point], usable, joint[point])

        def measure(points: Sequence[GridPoint]) -> list[Candidate]:
            self.on_stage(f"halves of {join_names(str(point.n_patterns) for point in points)} patterns")
            conversations = [self._fit_halves(point, _select_usable(fitted[point]), splits) for point in points]
            halves.update(zip(points, run_conversation(join_conversations(conversations), source.answer), strict=True))
            return [make(point) for point in points]

        def complete(point: GridPoint) -> Candidate:
            held_out = fitted[point][0][0].held_out
            later = [members[start : start + N_FOLDS] for start in members[N_FOLDS::N_FOLDS]]
            if later and held_out is not None:
                self.on_stage("later members")
                sets = [(point.n_patterns, own, held_out.shape) for own in later]
                fitted[point] += self._fit_sets(sets, source)[point]
            return make(point)

        candidates = [_make_candidate(point, own, _select_usable(own)) for point, own in fitted.items()]
        choice = choose_and_measure(candidates, measure, complete, self.settings.seed)
        grid = make_candidate_records({point: [member for member, _ in own] for point, own in fitted.items()}, choice)
        if choice.best is None:
            return None, grid
        self.on_stage("model")
        chosen, point = grid[choice.best], candidates[choice.best].point
        usable = _select_usable(fitted[point])
        consensus = ConsensusMembers(choice.member, choice.agreeing, choice.orders)
        held_out = usable[0][0].held_out
        assert held_out is not None
        stability = ensemble.correlate_with_consensus(joint[point], consensus, len(usable))
        comparison = ensemble.MemberComparison(consensus, stability)
        behind = [usable[k][0].number for k in consensus.agreeing]
        draft = self._draft(comparison, chosen, grid, point.n_patterns, {"shape": held_out.shape}, behind)
        return build.build_curve_model(draft, [model for _, model in usable], self.settings.with_distances), ()

    def _fit_sets(
        self, sets: Sequence[tuple[int, Sequence[int], str]], source: ensemble.SiteSums
    ) -> dict[GridPoint, list[tuple[Member, TrajectoryModel]]]:
        """Fit sets of members in the same rounds, and return the members with their models.

        sets: number of patterns, numbers of the members and shape of each.
        """

        def fit(number: int, own: Sequence[int], shape: str) -> Conversation[_SetFits]:
            problems = yield from pose_problems(own, number, self.settings.seed)
            return (yield from fit_and_choose(problems, shape, number))

        results = run_conversation(join_conversations([fit(*each) for each in sets]), source.answer)
        models: dict[GridPoint, list[tuple[Member, TrajectoryModel]]] = {}
        for (number, own, _), (shape, fits) in zip(sets, results, strict=True):
            for member, each in zip(own, fits, strict=True):
                fitted, held_out = each[shape], get_held_out(each, shape)
                head = self.prepared.preparations[member].head
                made = make_member(member, head, fitted.model, fitted.n_iterations, held_out)
                models.setdefault(GridPoint(number), []).append((made, fitted.model))
        return models

    def _fit_halves(
        self, point: GridPoint, usable: Sequence[tuple[Member, TrajectoryModel]], splits: Sequence[int]
    ) -> Conversation[list[TrajectoryModel]]:
        """Fit both halves of some splits of the people."""
        conversations, member = [], usable[0][0]
        assert member.held_out is not None
        for k in splits:
            for half in HALVES:
                rng = make_generator(self.settings.seed, k, point.n_patterns, half)
                shape, name = member.held_out.shape, PeopleSet(k, half)
                conversations.append(fit_half(name, point.n_patterns, shape, member.steps, rng))
        return (yield from join_conversations(conversations))

    def _compare(self, point: GridPoint, models: Sequence[TrajectoryModel], numbers: Sequence[int]) -> IndexMoments:
        """Ask for the moments of the R-indices of all patients by several models; numbers: of their members."""
        settings = {"n_patterns": point.n_patterns, "members": list(numbers)}
        total = self.prepared.ask(kinds.AGREEMENT, numbers, settings, ensemble.collect_heads(models))
        products = unpack_symmetric(total.arrays["products"])
        return IndexMoments.from_sums(total.arrays["sum"], products, total.counts["patients"], point.n_patterns)

    def _fit_difference(self, failed: tuple[CandidateRecord, ...]) -> FittedModel:
        """Build the index of the mean difference, which needs no further round."""
        self.on_stage("mean difference")
        number = self.settings.model.n_members
        halves = [name_half(k, half) for k in self._list_splits(3) for half in (0, 1)]
        members = build.fit_difference_members([*map(name_member, range(number)), *halves], self.moments)
        indices = members.indices
        evidence = ensemble.compare_halves(indices, number)
        numbers = tuple(range(number))
        candidate = Candidate(GridPoint(1), indices.take(0, number), numbers, number, evidence)
        choice = choose_grid_point([candidate], self.settings.seed, min_concordance=0.0)
        consensus = ConsensusMembers(choice.member, choice.agreeing, choice.orders)
        comparison = ensemble.MemberComparison(consensus, ensemble.correlate_with_consensus(indices, consensus, number))
        (chosen,) = make_candidate_records({}, choice)
        draft = self._draft(comparison, chosen, failed, None, {}, consensus.agreeing)
        return build.build_difference_model(draft, members, self.moments)

    def _draft(
        self,
        comparison: ensemble.MemberComparison,
        chosen: CandidateRecord,
        grid: tuple[CandidateRecord, ...],
        number: int | None,
        values: Mapping[str, str],
        numbers: Sequence[int],
    ) -> build.ModelDraft:
        """Return what is known of a model.

        number: of its patterns, None for the mean difference; numbers: numbers of its members.
        """
        selection = SelectionRecord(
            chosen,
            grid=grid,
            number_of_patterns=make_number_record(self.tests, self.settings.model.forced, number, "likelihood"),
            finding=str(Finding.MEAN_DIFFERENCE if number is None else Finding.PATTERNS),
            difference=self.tests.make_difference_record(),
        )
        # by plan and numbers, a site knows which members have not seen each of its people
        plan = {"federated": True, "plan": self.prepared.plan.to_dict(), "numbers": list(numbers)}
        recipe = RecipeRecord(MEAN_DIFFERENCE if number is None else RECIPE, {**values, **plan})
        return build.ModelDraft(self.prepared, self.sums, comparison, selection, recipe, numbers)

    def _make_no_pattern_error(self, failed: tuple[CandidateRecord, ...]) -> NoPatternError:
        tests = self.tests
        what = (
            f"no difference between patients and controls was detected ({tests.describe_p()}); an effect of "
            f"d = {tests.smallest_effect:.2f} in one region would have been found with a power of {MIN_POWER:.0%}"
        )
        selection = SelectionRecord(
            None,
            grid=failed,
            number_of_patterns=make_number_record(tests, self.settings.model.forced, None),
            made_with=build.collect_provenance(self.sums, self.settings.seed),
            finding=str(Finding.NO_DIFFERENCE),
            difference=tests.make_difference_record(),
            adjustment=describe_adjustment(self.prepared.everyone.preprocessing, self.sums.unit),
        )
        return NoPatternError(f"{what}.", selection)


def _select_usable(
    fitted: Sequence[tuple[Member, TrajectoryModel]],
) -> list[tuple[Member, TrajectoryModel]]:
    """Return the members of the shape that most have, with their models."""
    numbers = {member.number for member in select_usable_members([member for member, _ in fitted])}
    return [(member, model) for member, model in fitted if member.number in numbers]


def _make_candidate(
    point: GridPoint,
    fitted: Sequence[tuple[Member, TrajectoryModel]],
    usable: Sequence[tuple[Member, TrajectoryModel]],
    joint: IndexMoments | None = None,
) -> Candidate:
    """Return what the choice of a number of patterns needs; ``joint`` are moments of members and halves, if known."""
    members, numbers = [member for member, _ in fitted], tuple(member.number for member, _ in usable)
    n_members = len(usable)
    indices, evidence = IndexMoments(np.zeros(0), np.zeros((0, 0)), point.n_patterns), None
    if joint is not None:
        indices, evidence = joint.take(0, n_members), ensemble.compare_halves(joint, n_members)
    return Candidate(point, indices, numbers, len(members), evidence, collect_likelihoods(members), len(members))


@dataclass(frozen=True)
class FederatedResult:
    """End of a federated study.

    model: none if no difference between patients and controls was detected; ending: why there is no model; empty if
    there is one; finding: ``patterns``, ``mean_difference`` or ``no_difference``; counts: controls and patients of all
    sites.
    """

    model: FittedModel | None
    ending: str
    finding: str
    counts: Mapping[str, int]
    rounds: tuple[RoundRecord, ...]

    @property
    def received(self) -> int:
        """Bytes that a site received."""
        return sum(record.sent for record in self.rounds)

    @property
    def sent(self) -> int:
        """Bytes that a site sent, at most."""
        return sum(record.received for record in self.rounds)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``federation.json``."""
        by_kind: dict[str, dict[str, int]] = {}
        for record in self.rounds:
            kind = by_kind.setdefault(record.kind, {"rounds": 0, "received": 0, "sent": 0})
            for name, value in zip(kind, (1, record.sent, record.received), strict=True):
                kind[name] += value
        return {
            "finding": self.finding,
            "n_patterns": 0 if self.model is None else self.model.n_patterns,
            **self.counts,
            "rounds": len(self.rounds),
            "bytes_received_by_a_site": self.received,
            "bytes_sent_by_a_site": self.sent,
            "by_kind": by_kind,
        }


def run_federated_study(
    transport: Transport,
    settings: FederatedSettings,
    out: Path | None = None,
    on_stage: Callable[[str], None] = lambda text: None,
    on_round: Callable[[int, RoundRecord], None] | None = None,
) -> FederatedResult:
    """Fit the model of a study across sites and write its files.

    transport: takes requests to the sites; out: folder for ``model.safetensors``, ``selection.json``, ``patterns.tsv``,
    ``effects.tsv``, ``federation.json``; on_stage, on_round: called at the beginning of a stage and after a round.
    """
    rounds = Rounds(transport, on_round, settings.masked, settings.left)
    fit = FederatedFit(rounds, settings, on_stage)
    try:
        fitted, ending = fit.run(), ""
        selection = fitted.selection
    except NoPatternError as error:
        fitted, ending, selection = None, str(error), error.selection
    except RindicesError:
        raise
    except COMPUTE_ERRORS as error:
        last = f"round {len(rounds.records)} ({rounds.records[-1].kind})" if rounds.records else "the first round"
        raise ExchangeError(
            f"nothing can be computed from the sums of {join_names(rounds.sites)} after {last}: {error}. One of them "
            "sends wrong sums: leave out one after the other (--leave-out)."
        ) from error
    assert selection is not None
    result = FederatedResult(fitted, ending, selection.finding, fit.sums.counts, tuple(rounds.records))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        clear_outputs(out)
        write_effects(out, fit.tests.effects, fit.sums.regions, fit.sums.unit)
        write_selection(out, selection)
        write_json(out / "federation.json", result.to_dict())
        if fitted is not None:
            write_patterns(out, fitted, fit.sums.unit)
            fitted.save(out / "model.safetensors")
    return result


def fit_federated(
    sites: Mapping[str, Cohort] | Sequence[Cohort],
    patterns: int | Sequence[int] | None = None,
    *,
    members: int = 10,
    adjust: str | None = None,
    seed: int = 0,
    fewest: int = FEWEST_PEOPLE,
    distances: bool = True,
    harmonise: bool | None = None,
) -> FittedModel:
    """Learn R-indices from sites that give sums over their people, all in this process.

    With one site it is the fit of people who may be pooled, by the same arithmetic; ``rindices site`` and
    ``rindices federate`` run it where they may not.

    Parameters
    ----------
    sites : mapping of str to Cohort, or sequence of Cohort
        Each site's people.
    patterns : int or sequence of int, optional
        Numbers of patterns M to try. Left out, the numbers next to the one that the test finds.
    members : int
        Number of ensemble members.
    adjust : {'log', 'linear', 'none'}, optional
        Scale on which measures are adjusted for covariates.
    seed : int
    fewest : int
        Fewest people of a sum.
    distances : bool
        Whether the model gets distances of the training people, for `unusual`.
    harmonise : bool, optional
        Whether effects of sites are estimated from their controls (ComBat) and removed. Left out, they are if there is
        more than one site, as `fit` does it.

    Returns
    -------
    FittedModel

    Raises
    ------
    StudyError
        If the study cannot be run, or ends without a model.
    """
    named = sites if isinstance(sites, Mapping) else {f"site-{k + 1}": cohort for k, cohort in enumerate(sites)}
    transport = InMemoryTransport([Site(name, named[name], fewest) for name in sorted(named)])
    values = {"patterns": None if patterns is None else np.atleast_1d(patterns).tolist(), "members": members}
    study = make_study({"data": {"volumes": "memory"}, "model": values}, "fit_federated")
    harmonise = len(named) > 1 if harmonise is None else harmonise
    result = run_federated_study(transport, FederatedSettings(study.model, seed, adjust, harmonise, distances))
    if result.model is None:
        raise StudyError(result.ending)
    return result.model
