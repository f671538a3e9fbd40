"""Decisions of a study, whoever holds its people: whether patterns are trained, and how
the study ends.

A study ends with patterns, with one index of the mean difference, or without a detected
difference (`Finding`). Patterns that are not stable are reported as a mean difference,
together with their figures.
"""

from dataclasses import dataclass
from typing import Any

from rindices.errors import (
    Problem,
    ProblemCode,
    Severity,
    format_count,
    join_names,
)
from rindices.learners.ensemble import DIFFUSE_STARTS
from rindices.model.records import (
    CandidateRecord,
    ProvenanceRecord,
    SelectionRecord,
    describe_adjustment,
)
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.group_difference import MIN_POWER
from rindices.study.candidates import (
    TrainedSettings,
    TrainedStudy,
    make_candidate_records,
)
from rindices.study.config import ModelConfig
from rindices.study.group_tests import Finding, GroupTests, make_number_record
from rindices.study.methods import MEAN_DIFFERENCE
from rindices.wording import get_nouns

Records = tuple[CandidateRecord, ...]


@dataclass(frozen=True, kw_only=True)
class Decision:
    """How a study ends.

    Attributes
    ----------
    finding : Finding
    selection : SelectionRecord
        The tests, what was compared, and what was chosen.
    trained : TrainedSettings or None
        The settings that the model is built of; None without R-indices.
    ending : Problem or None
        Why there are no R-indices: what was not found, and what could be tried.
    """

    finding: Finding
    selection: SelectionRecord
    trained: TrainedSettings | None = None
    ending: Problem | None = None


@dataclass(frozen=True, kw_only=True)
class StudyEnd:
    """What decides how a study ends.

    Attributes
    ----------
    model : ModelConfig
        Settings of the study.
    tests : GroupTests
        Tests of the groups.
    unit : str
        Unit of the table.
    made_with : ProvenanceRecord
        Versions, seed and fingerprint of the people.
    preprocessing : Preprocessing
        Adjustment learnt from everyone.
    """

    model: ModelConfig
    tests: GroupTests
    unit: str
    made_with: ProvenanceRecord
    preprocessing: Preprocessing

    @property
    def tries_patterns(self) -> bool:
        """Whether patterns are trained: they were asked for, or the tests found some.

        A method that the mean difference cannot replace has one pattern where patients
        do not differ from each other.
        """
        finding, method = self.tests.finding, self.model.get_method()
        is_found = finding is Finding.PATTERNS or (
            finding is Finding.MEAN_DIFFERENCE and not method.can_be_replaced
        )
        return self.model.method != MEAN_DIFFERENCE and (self._is_forced or is_found)

    @property
    def _is_forced(self) -> bool:
        """Whether a model is trained whatever the tests find."""
        return (
            self.model.forced is not None or not self.model.get_method().follows_tests
        )

    def find_ending(self, patterns: TrainedSettings | None) -> Finding:
        """Return how the study ends, given the trained patterns, if any were tried.

        Without stable patterns, it is the mean difference. If the tests detected no
        difference, it is that, unless the method of the mean difference was asked for
        its index.
        """
        if patterns is not None and patterns.choice.best is not None:
            return Finding.PATTERNS
        has_tried = patterns is not None
        if self.tests.finding is Finding.NO_DIFFERENCE and (
            has_tried or not self._is_forced
        ):
            return Finding.NO_DIFFERENCE
        return Finding.MEAN_DIFFERENCE

    def decide(self, trained: TrainedStudy) -> Decision:
        """Return the decision about a study, given what it has trained."""
        finding = self.find_ending(trained.patterns)
        failed: Records = ()
        if trained.patterns is not None:
            evaluated = make_candidate_records(trained.patterns)
            if finding is Finding.PATTERNS:
                return self._choose(finding, trained.patterns, evaluated)
            failed = evaluated
        if finding is Finding.NO_DIFFERENCE:
            return self._make_null_result(failed)
        assert trained.difference is not None
        evaluated = make_candidate_records(trained.difference)
        return self._choose(finding, trained.difference, evaluated, failed)

    def _choose(
        self,
        finding: Finding,
        trained: TrainedSettings,
        evaluated: Records,
        failed: Records = (),
    ) -> Decision:
        """Return the decision for the chosen one of evaluated settings; ``failed``:
        patterns that were tried before.
        """
        choice, has_patterns = trained.choice, finding is Finding.PATTERNS
        assert choice.best is not None
        best = evaluated[choice.best]
        selection = self._make_selection(
            finding,
            best.setting.n_patterns if has_patterns else None,
            _name_criterion(evaluated, best),
            chosen=best,
            ties=tuple(evaluated[index].setting for index in choice.ties),
            grid=evaluated if has_patterns else failed,
        )
        return Decision(finding=finding, selection=selection, trained=trained)

    def _make_selection(
        self,
        finding: Finding,
        n_patterns: int | None,
        decided_by: str = "agreement",
        **fields: Any,
    ) -> SelectionRecord:
        """Return the record of the tests and of what was chosen."""
        number = make_number_record(
            self.tests, self.model.forced, n_patterns, decided_by
        )
        difference = self.tests.make_difference_record()
        return SelectionRecord(
            number_of_patterns=number,
            finding=str(finding),
            difference=difference,
            **fields,
        )

    def _make_null_result(self, failed: Records) -> Decision:
        """Return the tests, and what could have been found."""
        what = (
            f"no difference between patients and controls was detected ({self.tests.describe_p()}); an effect of "
            f"d = {self.tests.smallest_effect:.2f} in one {get_nouns(self.unit).region} would have been found "
            f"with a power of {MIN_POWER:.0%}"
        )
        adjustment = describe_adjustment(self.preprocessing, self.unit)
        fields: dict[str, Any] = {
            "chosen": None,
            "grid": failed,
            "made_with": self.made_with,
            "adjustment": adjustment,
        }
        cure = "To train all the same, name one number of patterns (--patterns 2)"
        if failed:
            patterns = join_names(
                format_count(candidate.setting.n_patterns, "pattern")
                for candidate in failed
            )
            cure = f"{patterns}, as asked, gave no stable result, so there is no model"
        selection = self._make_selection(Finding.NO_DIFFERENCE, None, **fields)
        ending = Problem(
            severity=Severity.NOTE, what=what, cure=cure, code=ProblemCode.NO_DIFFERENCE
        )
        return Decision(
            finding=Finding.NO_DIFFERENCE, selection=selection, ending=ending
        )


def _name_criterion(evaluated: Records, best: CandidateRecord) -> str:
    """Return what decided among settings, see `rindices.selection.choose`."""
    if best.held_out is None:
        return "agreement"
    starts = [each.start for each in evaluated if each.start is not None]
    is_diffuse = any(each.taken in DIFFUSE_STARTS for each in starts)
    is_known = all(each.whole_cohort_loss is not None for each in starts)
    return "group loss" if is_diffuse and is_known else "likelihood"
