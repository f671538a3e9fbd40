"""Decisions of a study, whoever holds its people: what is trained, which setting is chosen, and how the study ends.

A study ends with patterns, with one index of the mean difference, or without a detected difference (`Finding`).
Patterns that are not stable are reported as a mean difference, together with their figures.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from rindices.errors import format_count, join_names
from rindices.learners.ensemble import Member, TrainingOutcome, select_usable_members
from rindices.model.fitted import FittedModel
from rindices.model.records import CandidateRecord, ProvenanceRecord, SelectionRecord, describe_adjustment
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.agreement import IndexMoments, IndexRows
from rindices.selection.choose import (
    MIN_STABLE_CONCORDANCE,
    Candidate,
    GridPoint,
    SelectionResult,
    choose_and_measure,
    choose_grid_point,
    compute_candidate_agreement,
    is_clearly_judged,
)
from rindices.selection.group_difference import MIN_POWER
from rindices.study.build import collect_group_losses, collect_likelihoods, is_diffuse
from rindices.study.config import ModelConfig
from rindices.study.engines import NO_OBSERVER, StudyObserver
from rindices.study.exceptions import NoPatternError
from rindices.study.group_tests import Finding, GroupTests, make_number_record
from rindices.study.methods import MEAN_DIFFERENCE, MemberSet, get_study_method, list_shortened_sets
from rindices.wording import get_wording

Records = tuple[CandidateRecord, ...]


class StudyEnd(NamedTuple):
    """What a study that ends without patterns says: its settings, its tests, and what its numbers depend on."""

    model: ModelConfig
    tests: GroupTests
    unit: str
    made_with: ProvenanceRecord
    preprocessing: Preprocessing

    def conclude(
        self,
        fit_patterns: Callable[[], tuple[FittedModel | None, Records]],
        fit_difference: Callable[[Records], FittedModel],
    ) -> FittedModel:
        """Return the model of the patterns, or of the mean difference where there are none that are stable.

        ``fit_patterns`` returns a model, or the records of what was tried, which ``fit_difference`` takes. Raises
        NoPatternError: if no difference between patients and controls was detected, and no stable patterns were asked
        for.
        """
        failed: Records = ()
        finding, method = self.tests.finding, self.model.get_method()
        is_forced = self.model.forced is not None or not method.follows_tests
        # a method that cannot be replaced has one pattern where patients do not differ from each other
        is_found = finding is Finding.PATTERNS or (finding is Finding.MEAN_DIFFERENCE and not method.can_be_replaced)
        has_patterns = self.model.method != MEAN_DIFFERENCE and (is_forced or is_found)
        if has_patterns:
            fitted, failed = fit_patterns()
            if fitted is not None:
                return fitted
        if finding is Finding.NO_DIFFERENCE and (has_patterns or not is_forced):
            raise self._make_no_pattern_error(failed)
        return fit_difference(failed)

    def record_choice(
        self, finding: Finding, choice: SelectionResult, evaluated: Records, failed: Records = ()
    ) -> SelectionRecord:
        """Return the record of a choice among evaluated settings; ``failed``: patterns that were tried before."""
        assert choice.best is not None
        best, has_patterns = evaluated[choice.best], finding is Finding.PATTERNS
        return self._make_selection(
            finding,
            best.setting.n_patterns if has_patterns else None,
            _name_criterion(evaluated, best),
            chosen=best,
            ties=tuple(evaluated[index].setting for index in choice.ties),
            grid=evaluated if has_patterns else failed,
        )

    def _make_selection(
        self, finding: Finding, n_patterns: int | None, decided_by: str = "agreement", **fields: Any
    ) -> SelectionRecord:
        """Return the record of the tests and of what was chosen."""
        number = make_number_record(self.tests, self.model.forced, n_patterns, decided_by)
        difference = self.tests.make_difference_record()
        return SelectionRecord(number_of_patterns=number, finding=str(finding), difference=difference, **fields)

    def _make_no_pattern_error(self, failed: Records) -> NoPatternError:
        what = (
            f"no difference between patients and controls was detected ({self.tests.describe_p()}); an effect of "
            f"d = {self.tests.smallest_effect:.2f} in one {get_wording(self.unit)('region')} would have been found "
            f"with a power of {MIN_POWER:.0%}"
        )
        adjustment = describe_adjustment(self.preprocessing, self.unit)
        fields: dict[str, Any] = {"chosen": None, "grid": failed, "made_with": self.made_with, "adjustment": adjustment}
        cure = "To train all the same, name one number of patterns (--patterns 2)."
        if failed:
            patterns = join_names(format_count(candidate.setting.n_patterns, "pattern") for candidate in failed)
            cure = f"{patterns}, as asked, gave no stable result, so there is no model."
        return NoPatternError(f"{what}. {cure}", self._make_selection(Finding.NO_DIFFERENCE, None, **fields))


def _name_criterion(evaluated: Records, best: CandidateRecord) -> str:
    """Return what decided among settings, see `rindices.selection.choose`."""
    if best.held_out is None:
        return "agreement"
    is_diffuse = any(each.start is not None and each.start.taken == "whole-cohort" for each in evaluated)
    return "group loss" if is_diffuse else "likelihood"


@dataclass
class SettingsTraining(ABC):
    """Trains what the choice among settings needs: first sets of members, fits to halves, later sets.

    plan: all member sets; min_concordance: see `choose_grid_point`; trained: member sets that were trained; gathered:
    all members by grid point; measured: candidates whose halves were compared. A subclass holds the people, or asks for
    sums over them.
    """

    plan: Sequence[MemberSet]
    observer: StudyObserver = NO_OBSERVER
    min_concordance: float = MIN_STABLE_CONCORDANCE
    trained: list[MemberSet] = field(default_factory=list)
    gathered: dict[GridPoint, list[Member]] = field(default_factory=dict)
    measured: dict[GridPoint, Candidate] = field(default_factory=dict)

    @abstractmethod
    def train_sets(self, works: Sequence[MemberSet]) -> list[list[Member]]:
        """Return the members of sets, or those of `gathered` with evidence, for sets of halves."""

    @abstractmethod
    def infer_indices(self, point: GridPoint, members: Sequence[Member]) -> IndexRows | IndexMoments:
        """Return the R-indices of all patients by members of a grid point."""

    @property
    def compares_halves(self) -> bool:
        """Whether fits on disjoint halves of the people are compared."""
        return get_study_method(self.plan[0].method).compares_halves

    def choose(self) -> SelectionResult:
        """Train all settings and choose among them."""
        if self.compares_halves:
            self.train([work for work in self.plan if work.numbers[0] == 0])
            candidates = [self.make_candidate(point, is_measured=False) for point in self.gathered]
            seed = self.plan[0].seed
            return choose_and_measure(candidates, self.measure, self.complete, seed, self.min_concordance)
        shortened = list_shortened_sets(self.plan)
        if not shortened:
            return self._choose_by_agreement(self.plan, self.min_concordance)
        choice = self._choose_by_agreement(shortened, min_concordance=0.0)
        if choice.best is None:
            return choice
        best, evaluations = choice.best, list(choice.evaluations)
        works = [work for work in self.plan if work.point == evaluations[best].point]
        whole = self._choose_by_agreement(works, self.min_concordance)
        evaluations[best : best + 1] = whole.evaluations
        position = None if whole.best is None else best
        return whole._replace(evaluations=tuple(evaluations), best=position, ties=choice.ties)

    def _choose_by_agreement(self, works: Sequence[MemberSet], min_concordance: float) -> SelectionResult:
        """Train member sets and choose the setting whose members agree best."""
        self.gathered |= {work.point: [] for work in works}
        self.train(works)
        candidates = [self.make_candidate(point) for point in dict.fromkeys(work.point for work in works)]
        for candidate in candidates:
            if (agreement := compute_candidate_agreement(candidate)) is not None:
                self.observer.on_setting(candidate.point, agreement.concordance)
        margin = get_study_method(self.plan[0].method).number_margin
        return choose_grid_point(candidates, self.plan[0].seed, min_concordance, margin)

    def train(self, works: Sequence[MemberSet]) -> list[list[Member]]:
        """Train member sets and return their members."""
        self.trained += works
        trained = self.train_sets(works) if works else []
        for work, members in zip(works, trained, strict=True):
            if not work.halves:
                self.gathered.setdefault(work.point, []).extend(members)
        return trained

    def list_sets(self, point: GridPoint) -> list[MemberSet]:
        """Return the member sets of a grid point; later ones follow the first."""
        first, *later = (work for work in self.plan if work.point == point)
        method = get_study_method(first.method)
        return [first, *(method.follow(work, self.gathered[point]) for work in later)]

    def make_candidate(self, point: GridPoint, is_measured: bool = True) -> Candidate:
        """Return the usable members of a grid point, with what its choice needs; without R-indices at first."""
        members = self.gathered[point]
        usable = select_usable_members(members)
        indices: IndexRows | IndexMoments = IndexRows(np.zeros((0, 0, point.n_patterns)))
        if is_measured and usable:
            indices = self.infer_indices(point, usable)
        split_halves = [member.evidence for member in usable if member.evidence is not None]
        evidence = np.array(split_halves) if split_halves else None
        numbers = tuple(member.number for member in usable)
        converged = sum(member.outcome is TrainingOutcome.CONVERGED for member in members)
        return Candidate(
            point,
            indices,
            numbers,
            trained=len(members),
            evidence=evidence,
            held_out=collect_likelihoods(members),
            converged=converged,
            group_loss=collect_group_losses(members),
            is_diffuse=is_diffuse(members),
        )

    def measure(self, points: Sequence[GridPoint]) -> list[Candidate]:
        """Compare fits on disjoint halves, for as many sets of members of a setting as are needed to judge it."""
        open_sets = {point: self.list_sets(point) for point in points}
        while any(open_sets.values()):
            works = [sets.pop(0) for sets in open_sets.values() if sets]
            self.train([work for work in works if work not in self.trained])
            for work, members in zip(works, self.train([replace(work, halves=True) for work in works]), strict=True):
                evidence = {member.number: member.evidence for member in members}
                self.gathered[work.point] = [
                    each._replace(evidence=evidence.get(each.number, each.evidence))
                    for each in self.gathered[work.point]
                ]
                values = [each.evidence[0] for each in self.gathered[work.point] if each.evidence is not None]
                if is_clearly_judged(values, self.min_concordance):
                    open_sets[work.point] = []
        candidates = [self.make_candidate(point) for point in points]
        for candidate in candidates:
            if candidate.evidence is not None and candidate.indices.n_members > 1:
                self.observer.on_setting(candidate.point, float(candidate.evidence[:, 0].mean()))
            self.measured[candidate.point] = candidate
        return candidates

    def complete(self, point: GridPoint) -> Candidate:
        """Train all sets of members of a grid point."""
        later = [work for work in self.list_sets(point) if work not in self.trained]
        self.train(later)
        return self.make_candidate(point) if later else self.measured[point]
