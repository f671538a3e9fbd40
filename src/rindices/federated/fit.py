"""``FederatedFit``: from sites that answer requests to a selected model.

It is the default recipe, with every access to people replaced by a sum over them. Where the pooled recipe does
something that is not a sum, a sum takes its place; ``docs/federated.md`` lists these places.

Shape letters: R regions, M patterns, S members.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from rindices.errors import StudyError
from rindices.federated import kinds
from rindices.federated.adjustment import AdjustedSums, ask_for_adjustment, ask_for_transform
from rindices.federated.build import build_curve_model, build_difference_model, collect_provenance, make_card
from rindices.federated.comparison import MemberComparison, NumberFits, compare_fits, make_grid_records
from rindices.federated.consensus import IndexMoments
from rindices.federated.curves import SHAPES, CurveTask, collect_heads, fit_curves
from rindices.federated.group_tests import ask_for_tests
from rindices.federated.mean_difference import fit_difference_members
from rindices.federated.messages import unpack_symmetric
from rindices.federated.preparation import Preparation
from rindices.federated.rounds import Rounds
from rindices.federated.set_moments import MomentsBySet, ask_for_moments, find_too_small
from rindices.federated.starts import fit_starts
from rindices.federated.subsets import MAX_PEOPLE, SubsetPlan, name_half, name_held_out, name_member
from rindices.learners.ensemble import HeldOutLikelihood, choose_shape
from rindices.learners.trajectory.expectation_maximisation import TrajectoryModel
from rindices.model.fitted import FittedModel
from rindices.model.records import CandidateRecord, ModelCard, SelectionRecord, describe_adjustment
from rindices.selection.choose import choose_simplest_setting
from rindices.selection.group_difference import MIN_POWER
from rindices.study.build import make_candidate_record
from rindices.study.config import ModelConfig
from rindices.study.exceptions import NoPatternError
from rindices.study.group_tests import Finding, GroupTests, make_number_record
from rindices.study.recipes import MEAN_DIFFERENCE, get_study_recipe
from rindices.threads import limit_blas_threads

RECIPE = "default"


@dataclass
class FederatedFit:
    """Fits a study across sites.

    rounds: asks the sites; model: numbers of patterns, members and recipe (``default`` or ``mean-difference``); adjust:
    scale of the adjustment; with_distances: whether the model gets distances of the training people, for `unusual`;
    on_stage: called with one line at the beginning of each stage; max_people: largest number of people of a group,
    about, that a member is drawn from; harmonise: whether effects of sites are estimated from their controls and
    removed.
    """

    rounds: Rounds
    model: ModelConfig
    seed: int
    adjust: str | None = None
    with_distances: bool = True
    on_stage: Callable[[str], None] = lambda text: None
    max_people: int = MAX_PEOPLE
    harmonise: bool = False
    notes: list[str] = field(default_factory=list)
    tests: GroupTests = field(init=False)
    sums: AdjustedSums = field(init=False)

    @limit_blas_threads()
    def run(self) -> FittedModel:
        """Return the model of the patterns, or of the mean difference where there are none that are stable.

        Raises NoPatternError: if no difference between patients and controls was detected, and no stable patterns were
        asked for. Raises StudyError: if the study cannot be run on these people.
        """
        self._check_model()
        self.on_stage("adjustment")
        self.sums = ask_for_adjustment(self.rounds, self.adjust, self.harmonise)
        self._check_groups()
        plan = SubsetPlan(self.seed, self.model.members).limit_people(self.sums.counts, self.max_people)
        preprocessing = self.sums.fit_preprocessing()
        preparation = ask_for_transform(self.rounds, preprocessing, self.sums.groups["controls"].number, plan)
        self.on_stage("tests")
        self.tests = ask_for_tests(self.rounds, self.sums, plan)
        moments = ask_for_moments(self.rounds, preparation, plan)
        failed: tuple[CandidateRecord, ...] = ()
        is_forced = self.model.forced is not None
        has_patterns = self.model.recipe != MEAN_DIFFERENCE and (is_forced or self.tests.finding is Finding.PATTERNS)
        if has_patterns:
            fitted, failed = self._fit_patterns(preparation, plan, moments)
            if fitted is not None:
                return fitted
        if self.tests.finding is Finding.NO_DIFFERENCE and (has_patterns or not is_forced):
            raise self._make_no_pattern_error(failed)
        return self._fit_difference(preparation, plan, moments, failed)

    def _check_model(self) -> None:
        if self.model.recipe not in (RECIPE, MEAN_DIFFERENCE):
            raise StudyError(f"the recipe {self.model.recipe} cannot run across sites: use {RECIPE}.")
        if self.model.members < 2:
            raise StudyError("a federated study needs at least 2 members: raise members.")
        shape = self.model.recipe_changes.get("shape", "auto")
        if shape not in ("auto", *SHAPES):
            raise StudyError(f"the shape {shape!r} cannot be fitted across sites: give auto, {' or '.join(SHAPES)}.")

    def _check_groups(self) -> None:
        if not all(self.sums.counts.values()) or not all(group.number for group in self.sums.groups.values()):
            raise StudyError("the sites have no controls or no patients that can be adjusted: name the groups.")

    def _check_sets(self, moments: MomentsBySet, plan: SubsetPlan, least: int) -> None:
        """Refuse members and halves with too few people, as several small sites can have them."""
        names = [name_member(k) for k in range(plan.members)]
        names += [name_half(k, half) for k in range(plan.members) for half in (0, 1)]
        if small := find_too_small(moments, names, least):
            raise StudyError(
                f"{small[0]} has too few controls or patients: groups of fewer than 50 at a site are not split. Ask "
                "for fewer patterns or members, take another seed, or let small sites join their tables."
            )

    def _list_numbers(self) -> tuple[int, ...]:
        """Return the numbers of patterns to try."""
        if self.model.patterns is not None:
            return tuple(dict.fromkeys(self.model.patterns))
        min_patients = get_study_recipe(RECIPE).min_patients
        candidates = range(1, len(self.sums.regions) + 1)
        largest = max((n for n in candidates if min_patients(n) <= self.sums.counts["patients"]), default=0)
        return self.tests.list_numbers_to_try(largest)

    def _fit_patterns(
        self, preparation: Preparation, plan: SubsetPlan, moments: MomentsBySet
    ) -> tuple[FittedModel | None, tuple[CandidateRecord, ...]]:
        """Fit all numbers of patterns and build the simplest of the likely ones that is stable."""
        numbers, members = self._list_numbers(), range(plan.members)
        halves = [name_half(k, half) for k in members for half in (0, 1)]
        sets = [*(name_member(k) for k in members), *halves]
        self._check_sets(moments, plan, 2 * max(numbers) + 2)
        self.on_stage("starts")
        starts = fit_starts(self.rounds, preparation, plan, moments, sets, numbers)
        self.on_stage("curves")
        fits = self._fit_numbers(preparation, plan, moments, starts, numbers)
        comparisons: dict[int, MemberComparison] = {}
        remaining = sorted(fits)
        while remaining:
            number = remaining[choose_simplest_setting([fits[n].likelihoods for n in remaining])]
            self.on_stage(f"halves of {number} patterns")
            comparisons[number] = self._compare_halves(preparation, plan, moments, starts, fits[number])
            if comparisons[number].evaluation.stable:
                break
            remaining.remove(number)
        grid = make_grid_records(fits, comparisons)
        if not remaining:
            return None, tuple(record for record in grid if not record.stable)
        self.on_stage("model")
        return self._build_patterns(preparation, plan, fits[number], comparisons[number], grid), ()

    def _fit_numbers(
        self,
        preparation: Preparation,
        plan: SubsetPlan,
        moments: MomentsBySet,
        starts: dict[tuple[str, int], TrajectoryModel],
        numbers: Sequence[int],
    ) -> dict[int, NumberFits]:
        """Fit all members with all shapes and numbers of patterns in the same rounds."""
        wanted = str(self.model.recipe_changes.get("shape", "auto"))
        shapes = SHAPES if wanted == "auto" else (wanted,)
        tasks = {
            (number, shape): [
                CurveTask.begin(
                    name_member(k), shape, starts[name_member(k), number], moments, held_out_name=name_held_out(k)
                )
                for k in range(plan.members)
            ]
            for number in numbers
            for shape in shapes
        }
        fit_curves(self.rounds, preparation, plan, [task for each in tasks.values() for task in each])
        fits = {}
        for number in numbers:
            by_shape = {shape: tasks[number, shape] for shape in shapes}
            held_out = [
                HeldOutLikelihood.from_values(shapes[0], {s: _get_likelihood(by_shape, s, k) for s in SHAPES})
                for k in range(plan.members)
            ]
            fits[number] = NumberFits(number, choose_shape(held_out) if wanted == "auto" else wanted, by_shape)
        return fits

    def _compare_halves(
        self,
        preparation: Preparation,
        plan: SubsetPlan,
        moments: MomentsBySet,
        starts: dict[tuple[str, int], TrajectoryModel],
        fits: NumberFits,
    ) -> MemberComparison:
        """Fit disjoint halves and compare their R-indices, and those of the members, in all patients."""
        tasks = []
        for k, member in enumerate(fits.tasks[fits.shape]):
            for half in (0, 1):
                name = name_half(k, half)
                n_iterations = max(1, member.best_iteration)
                tasks.append(
                    CurveTask.begin(name, fits.shape, starts[name, fits.n_patterns], moments, n_iterations=n_iterations)
                )
        fit_curves(self.rounds, preparation, plan, tasks)
        models = [*fits.models, *(task.result for task in tasks)]
        settings = {"n_patterns": fits.n_patterns, "plan": plan.to_dict(), **preparation.to_settings()}
        total = self.rounds.ask(kinds.AGREEMENT, settings, preparation.to_arrays() | collect_heads(models))
        products = unpack_symmetric(total.arrays["products"])
        indices = IndexMoments.from_sums(total.arrays["sum"], products, total.counts["patients"], fits.n_patterns)
        return compare_fits(indices, plan.members, fits.n_patterns, fits.likelihoods, self.seed)

    def _build_patterns(
        self,
        preparation: Preparation,
        plan: SubsetPlan,
        fits: NumberFits,
        comparison: MemberComparison,
        grid: tuple[CandidateRecord, ...],
    ) -> FittedModel:
        chosen = next(record for record in grid if record.setting.n_patterns == fits.n_patterns)
        selection = self._make_selection(chosen, grid, Finding.PATTERNS, fits.n_patterns)
        card = self._make_card(RECIPE, {"shape": fits.shape}, selection)
        return build_curve_model(
            self.rounds,
            self.sums,
            preparation,
            plan,
            fits.models,
            comparison.consensus,
            comparison.correlations,
            selection,
            card,
            self.seed,
            self.with_distances,
        )

    def _fit_difference(
        self,
        preparation: Preparation,
        plan: SubsetPlan,
        moments: MomentsBySet,
        failed: tuple[CandidateRecord, ...],
    ) -> FittedModel:
        """Build the index of the mean difference, which needs no further round."""
        self.on_stage("mean difference")
        self._check_sets(moments, plan, 3)
        members = fit_difference_members(preparation, plan, moments)
        comparison = compare_fits(members.indices, plan.members, 1, None, self.seed, min_concordance=0.0)
        chosen = make_candidate_record(comparison.evaluation, None)
        selection = self._make_selection(chosen, failed, Finding.MEAN_DIFFERENCE, None)
        heads, curves, records = members.build_consensus(comparison.consensus, comparison.correlations)
        card = self._make_card(MEAN_DIFFERENCE, {}, selection)
        return build_difference_model(
            self.sums, preparation, heads, curves, comparison.consensus, records, selection, card
        )

    def _make_selection(
        self, chosen: CandidateRecord, grid: tuple[CandidateRecord, ...], finding: Finding, number: int | None
    ) -> SelectionRecord:
        return SelectionRecord(
            chosen,
            grid=grid,
            number_of_patterns=make_number_record(self.tests, self.model.forced, number, "likelihood"),
            finding=str(finding),
            difference=self.tests.make_difference_record(),
        )

    def _make_card(self, recipe: str, settings: dict[str, str], selection: SelectionRecord) -> ModelCard:
        card = make_card(self.sums, self.seed, recipe, {**settings, "federated": True})
        assert selection.chosen is not None
        return replace(
            card,
            agreement=selection.chosen.agreement,
            agreement_between=selection.chosen.agreement_between,
            concordance_interval=selection.chosen.concordance_interval,
            members_trained=selection.chosen.members,
            number_of_patterns=selection.number_of_patterns,
            finding=selection.finding,
        )

    def _make_no_pattern_error(self, failed: tuple[CandidateRecord, ...]) -> NoPatternError:
        tests = self.tests
        what = (
            f"no difference between patients and controls was detected ({tests.describe_p()}); an effect of "
            f"d = {tests.smallest_effect:.2f} in one region would have been found with a power of {MIN_POWER:.0%}"
        )
        selection = SelectionRecord(
            None,
            grid=failed,
            number_of_patterns=make_number_record(tests, self.model.forced, None),
            made_with=collect_provenance(self.sums, self.seed),
            finding=str(Finding.NO_DIFFERENCE),
            difference=tests.make_difference_record(),
            adjustment=describe_adjustment(self.sums.fit_preprocessing(), self.sums.unit),
        )
        return NoPatternError(f"{what}.", selection)


def _get_likelihood(tasks: dict[str, list[CurveTask]], shape: str, member: int) -> float | None:
    return tasks[shape][member].best_likelihood if shape in tasks else None
