"""Records that a study writes and reports read: ``selection.json``, ``cohort.json`` and the card of a model file.

This module alone knows the keys of these files. Everything else reads fields. A record can also be read like the
dictionary in its file: ``model.card["agreement"]``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from rindices.errors import Problem, ProblemCode
from rindices.model.record_base import OMIT_EMPTY, Record

Interval = tuple[float, float]
OptionalInterval = tuple[float | None, float | None]


@dataclass(frozen=True, eq=False)
class SettingRecord(Record):
    """A grid point: number of patterns M and weight lambda of orthogonality (None where the recipe has none)."""

    n_patterns: int
    orthogonality: float | None


@dataclass(frozen=True, eq=False)
class AgreementRecord(Record):
    """Agreement of ensemble members; None where there are no two."""

    concordance: float | None
    dimension: float | None
    difference: float | None


@dataclass(frozen=True, eq=False)
class MemberCountRecord(Record):
    """Number of members trained, and of those that converged."""

    trained: int
    converged: int


@dataclass(frozen=True, eq=False)
class HeldOutLikelihoodRecord(Record):
    """Mean log-likelihood of the patients that members have not seen, by the shape of the patterns.

    ``shape`` is the shape of the members, 'straight', 'curved' or 'interacting'. ``below_best`` is how far the setting
    is below the most likely one, with its standard error over members. ``visits`` is 'coupled' or 'mean' where there
    are repeat visits, and ``coupling_gain`` the gain in the likelihood of all visits of a patient by coupling them.
    ``curved_gain_se`` is the standard error over members of the difference between curved and straight patterns.
    """

    shape: str
    straight: float | None
    curved: float | None
    below_best: float | None = None
    below_best_se: float | None = None
    interacting: float | None = field(default=None, metadata=OMIT_EMPTY)
    visits: str | None = field(default=None, metadata=OMIT_EMPTY)
    coupling_gain: float | None = field(default=None, metadata=OMIT_EMPTY)
    curved_gain_se: float | None = field(default=None, metadata=OMIT_EMPTY)


@dataclass(frozen=True, eq=False)
class CandidateRecord(Record):
    """Evaluation of one setting: agreement of its members or of fits on disjoint halves, and why it is not stable.

    ``by_member`` is the concordance by which each member is judged, ``pairwise`` that of every two members.
    ``held_out`` is only there for learners with a likelihood.
    """

    setting: SettingRecord
    agreement: AgreementRecord
    agreement_between: str = "members"
    concordance_interval: OptionalInterval = (None, None)
    members: MemberCountRecord = field(default_factory=lambda: MemberCountRecord(0, 0))
    stable: bool = True
    why: str = ""
    by_member: tuple[float | None, ...] = ()
    pairwise: tuple[tuple[float | None, ...], ...] = ()
    held_out: HeldOutLikelihoodRecord | None = field(default=None, metadata=OMIT_EMPTY)

    @property
    def uses_disjoint_halves(self) -> bool:
        """Whether agreement was measured between fits on disjoint halves of the people."""
        return self.agreement_between == "disjoint halves"


@dataclass(frozen=True, eq=False)
class PatternRecord(Record):
    """How well one pattern is reproduced in other people, and how it separates patients from controls there.

    ``carriers`` is the share of patients beyond 95 % of controls, ``auc`` the probability that a patient has a higher
    R-index than a control.
    """

    name: str
    stability: float
    stability_interval: Interval
    split_half: float
    split_half_interval: Interval
    carriers: float
    carriers_interval: Interval | None = field(default=None, metadata=OMIT_EMPTY)
    auc: float | None = field(default=None, metadata=OMIT_EMPTY)
    auc_interval: Interval | None = field(default=None, metadata=OMIT_EMPTY)


@dataclass(frozen=True, eq=False)
class DimensionRecord(Record):
    """One step of the permutation test: whether patients still differ after ``patterns`` directions are removed."""

    patterns: int
    excess: float
    chance_median: float
    chance_95: float
    p: float
    relabellings: int


@dataclass(frozen=True, eq=False)
class PermutationTestRecord(Record):
    """Permutation test of the number of patterns, with its level and the overlap of the groups in covariates."""

    n_patterns: int
    level: float
    overlap: float
    curve: tuple[DimensionRecord, ...]


@dataclass(frozen=True, eq=False)
class PatternCountRecord(Record):
    """Number of patterns by agreement or likelihood and by the test, or ``forced`` by the study.

    ``by_agreement`` is the number that the settings' comparison chose, also where it was decided by the likelihood of
    held-out people (``decided_by``; empty in earlier files, which were decided by agreement). ``why`` says why it and
    the test's number differ.
    """

    by_agreement: int | None
    by_test: int
    forced: int | None
    why: str
    test: PermutationTestRecord
    decided_by: str = field(default="", metadata=OMIT_EMPTY)


@dataclass(frozen=True, eq=False)
class DifferenceRecord(Record):
    """Test whether patients differ from controls in any way, by the smallest p of several statistics.

    ``smallest_effect`` is the smallest Cohen's d of one region that a study of this size detects with a power of 80 %.
    """

    p: float
    permutations: int
    statistics: Mapping[str, float]
    p_values: Mapping[str, float]
    smallest_effect: float


@dataclass(frozen=True, eq=False)
class ProvenanceRecord(Record):
    """What results depend on: the people, the seed, the versions."""

    seed: int | None = None
    fingerprint: str = ""
    rindices_version: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class SelectionRecord(Record):
    """Content of ``selection.json``: what was compared and chosen.

    ``chosen`` is None where no setting was stable or none was tried. ``number_of_patterns``, ``finding`` and
    ``difference`` are empty in files that are older than the tests. ``made_with`` is only in a study without a model;
    otherwise the model has it, and ``adjust``, the scale of the adjustment. ``finding`` is 'no_difference',
    'mean_difference' or 'patterns'.
    """

    chosen: CandidateRecord | None
    ties: tuple[SettingRecord, ...] = ()
    grid: tuple[CandidateRecord, ...] = ()
    patterns: tuple[PatternRecord, ...] = ()
    number_of_patterns: PatternCountRecord | None = field(default=None, metadata=OMIT_EMPTY)
    made_with: ProvenanceRecord | None = field(default=None, metadata=OMIT_EMPTY)
    finding: str = field(default="", metadata=OMIT_EMPTY)
    difference: DifferenceRecord | None = field(default=None, metadata=OMIT_EMPTY)
    adjust: str = field(default="", metadata=OMIT_EMPTY)

    @property
    def is_difference_detected(self) -> bool:
        """Whether the tests detected a difference between patients and controls; True in files older than the tests."""
        number = self.number_of_patterns
        if number is None:
            return True
        return number.by_test > 0 if self.difference is None else self.difference.p <= number.test.level

    @property
    def unstable_settings(self) -> list[SettingRecord]:
        """Settings that could not be chosen."""
        return [candidate.setting for candidate in self.grid if not candidate.stable]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; a study without a pattern has its keys in another order."""
        values = super().to_dict()
        moved = ("patterns", "made_with") if self.made_with is not None else ()
        return {key: value for key, value in values.items() if key not in moved} | {key: values[key] for key in moved}


@dataclass(frozen=True, eq=False)
class RecipeRecord(Record):
    """Name of a recipe and its settings."""

    name: str = field(metadata={"key": "recipe"})
    settings: Mapping[str, Any] = field(metadata={"key": "values"})


@dataclass(frozen=True, eq=False)
class ReferenceRecord(Record):
    """Reference population whose correlations of regions were used, and the weight that they got (0 to 1)."""

    name: str
    people: int
    sites: int
    weight: float


@dataclass(frozen=True, eq=False)
class ModelCard(Record):
    """What a model file says about its model beside what it needs to be applied.

    Every field may be empty: an imported model knows little about its training.

    Attributes
    ----------
    covariate_ranges : mapping
        Lowest and highest value of each numeric covariate among the training people.
    trained_on : mapping
        Number of people, controls and patients.
    pattern_scale : tuple of float
        Scale of each consensus pattern against that of single members.
    interval_over : {'people', 'trainings', ''}
        What the standard errors of the patterns vary over.
    severity_correlation : tuple of tuple or None
        Of an imported model.
    """

    unit: str = "unknown"
    source: str = field(default="", metadata=OMIT_EMPTY)
    covariate_ranges: Mapping[str, Interval] = field(default_factory=dict, metadata=OMIT_EMPTY)
    trained_on: Mapping[str, int] = field(default_factory=dict)
    orthogonality: float | None = field(default=None, metadata=OMIT_EMPTY)
    agreement: AgreementRecord | None = field(default=None, metadata=OMIT_EMPTY)
    agreement_between: str = field(default="", metadata=OMIT_EMPTY)
    pattern_scale: tuple[float, ...] = field(default=(), metadata=OMIT_EMPTY)
    concordance_interval: OptionalInterval | None = field(default=None, metadata=OMIT_EMPTY)
    member_steps: tuple[int, ...] = field(default=(), metadata=OMIT_EMPTY)
    members_trained: MemberCountRecord | None = field(default=None, metadata=OMIT_EMPTY)
    recipe: RecipeRecord | None = field(default=None, metadata=OMIT_EMPTY)
    seed: int | None = field(default=None, metadata=OMIT_EMPTY)
    fingerprint: str = field(default="", metadata=OMIT_EMPTY)
    rindices_version: str = field(default="", metadata=OMIT_EMPTY)
    versions: Mapping[str, str] = field(default_factory=dict, metadata=OMIT_EMPTY)
    citation: str = field(default="", metadata=OMIT_EMPTY)
    interval_over: str = field(default="", metadata=OMIT_EMPTY)
    number_of_patterns: PatternCountRecord | None = field(default=None, metadata=OMIT_EMPTY)
    finding: str = field(default="", metadata=OMIT_EMPTY)
    pattern_evidence: tuple[PatternRecord, ...] = field(default=(), metadata=OMIT_EMPTY)
    reference: ReferenceRecord | None = field(default=None, metadata=OMIT_EMPTY)
    severity_correlation: tuple[tuple[float, ...], ...] | None = field(default=None, metadata=OMIT_EMPTY)
    name: str = field(default="", metadata=OMIT_EMPTY)
    licence: str = field(default="", metadata=OMIT_EMPTY)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; some keys are written even while they are empty."""
        if self.members_trained is None:
            return {"agreement": {}, "severity_correlation": None} | super().to_dict()
        return {"agreement": {}, "covariate_ranges": {}, "orthogonality": None} | super().to_dict()


@dataclass(frozen=True, eq=False)
class GroupSummary(Record):
    """A covariate in one group: mean, spread and range of numbers, or the number of people in each category."""

    mean: float | None = field(default=None, metadata=OMIT_EMPTY)
    sd: float | None = field(default=None, metadata=OMIT_EMPTY)
    min: float | None = field(default=None, metadata=OMIT_EMPTY)
    max: float | None = field(default=None, metadata=OMIT_EMPTY)
    counts: Mapping[str, int] | None = field(default=None, metadata=OMIT_EMPTY)


@dataclass(frozen=True, eq=False)
class CovariateGroups(Record):
    """A covariate in all people, in controls and in patients."""

    all: GroupSummary
    control: GroupSummary
    patient: GroupSummary


@dataclass(frozen=True, eq=False)
class CovariateSummary(Record):
    """A covariate and its summary in each group."""

    name: str
    groups: CovariateGroups


@dataclass(frozen=True, eq=False)
class ProblemRecord(Record):
    """A warning or note that the user was given, see `rindices.errors.Problem`; early files have no code."""

    severity: str
    what: str
    where: str = ""
    cure: str = ""
    code: str = ProblemCode.ERROR
    summary: str = ""
    offenders: tuple[str, ...] = ()
    offender_kind: str = ""


@dataclass(frozen=True, eq=False)
class CohortRecord(Record):
    """Content of ``cohort.json``: counts and summaries of the people, and problems of the table."""

    source: str
    unit: str
    people: int
    controls: int
    patients: int
    regions: int
    covariates: tuple[CovariateSummary, ...] = ()
    sites: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    problems: tuple[ProblemRecord, ...] = ()

    @classmethod
    def of(cls, summary: Mapping[str, Any], problems: Iterable[Problem]) -> Self:
        """Return the record of a cohort's summary (see `describe_cohort`) and of the problems found."""
        return cls.from_dict({**summary, "problems": [problem.as_dict() for problem in problems]})

    @property
    def covariate_names(self) -> list[str]:
        """Names of the covariates in their order."""
        return [covariate.name for covariate in self.covariates]
