"""Records that a study writes and reports read: ``selection.json``, ``cohort.json`` and the card of a model file.

This module alone knows the keys of these files. Everything else reads fields. A record can also be read like the
dictionary in its file: ``model.card["agreement"]``.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from types import UnionType
from typing import Any, Self, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from rindices.errors import Problem, ProblemCode

Interval = tuple[float, float]
OptionalInterval = tuple[float | None, float | None]


_TYPE_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
_OMIT = {"omit": True}
"""Metadata of a field that is left out of the file while it is None or empty; earlier files may lack it."""


@dataclass(frozen=True, eq=False)
class Record(Mapping[str, Any]):
    """An object of a JSON file as typed fields; ``extra`` keeps keys that this version does not know."""

    extra: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read the object of a JSON file; a missing key or a value of the wrong form raises ValueError."""
        if not isinstance(values, Mapping):
            raise ValueError(f"{cls.__name__} should be an object, not {values!r:.50}")
        items = _list_keys(cls)
        required = [key for key, (item, _) in items.items() if item.default is item.default_factory is MISSING]
        if missing := [key for key in required if key not in values]:
            raise ValueError(f"{cls.__name__} lacks {', '.join(missing)}")
        arguments = {item.name: _parse(hint, values[key], key) for key, (item, hint) in items.items() if key in values}
        return cls(**arguments, extra={key: value for key, value in values.items() if key not in items})

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        values = {
            key: getattr(self, item.name)
            for key, (item, _) in _list_keys(type(self)).items()
            if not _is_omitted(item, getattr(self, item.name))
        }
        return {key: _to_plain(value) for key, value in (values | dict(self.extra)).items()}

    def __getitem__(self, key: str) -> Any:
        return self.to_dict()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self.to_dict())


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
class CandidateRecord(Record):
    """Evaluation of one setting: agreement of its members or of fits on disjoint halves, and why it is not stable.

    ``by_member`` is the concordance by which each member is judged, ``pairwise`` that of every two members.
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
    carriers_interval: Interval | None = field(default=None, metadata=_OMIT)
    auc: float | None = field(default=None, metadata=_OMIT)
    auc_interval: Interval | None = field(default=None, metadata=_OMIT)


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
    """Number of patterns by agreement and by the test, or ``forced`` by the study; ``why`` the numbers differ."""

    by_agreement: int | None
    by_test: int
    forced: int | None
    why: str
    test: PermutationTestRecord


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
    number_of_patterns: PatternCountRecord | None = field(default=None, metadata=_OMIT)
    made_with: ProvenanceRecord | None = field(default=None, metadata=_OMIT)
    finding: str = field(default="", metadata=_OMIT)
    difference: DifferenceRecord | None = field(default=None, metadata=_OMIT)
    adjust: str = field(default="", metadata=_OMIT)

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
    source: str = field(default="", metadata=_OMIT)
    covariate_ranges: Mapping[str, Interval] = field(default_factory=dict, metadata=_OMIT)
    trained_on: Mapping[str, int] = field(default_factory=dict)
    orthogonality: float | None = field(default=None, metadata=_OMIT)
    agreement: AgreementRecord | None = field(default=None, metadata=_OMIT)
    agreement_between: str = field(default="", metadata=_OMIT)
    pattern_scale: tuple[float, ...] = field(default=(), metadata=_OMIT)
    concordance_interval: OptionalInterval | None = field(default=None, metadata=_OMIT)
    member_steps: tuple[int, ...] = field(default=(), metadata=_OMIT)
    members_trained: MemberCountRecord | None = field(default=None, metadata=_OMIT)
    recipe: RecipeRecord | None = field(default=None, metadata=_OMIT)
    seed: int | None = field(default=None, metadata=_OMIT)
    fingerprint: str = field(default="", metadata=_OMIT)
    rindices_version: str = field(default="", metadata=_OMIT)
    versions: Mapping[str, str] = field(default_factory=dict, metadata=_OMIT)
    citation: str = field(default="", metadata=_OMIT)
    interval_over: str = field(default="", metadata=_OMIT)
    number_of_patterns: PatternCountRecord | None = field(default=None, metadata=_OMIT)
    finding: str = field(default="", metadata=_OMIT)
    pattern_evidence: tuple[PatternRecord, ...] = field(default=(), metadata=_OMIT)
    severity_correlation: tuple[tuple[float, ...], ...] | None = field(default=None, metadata=_OMIT)
    name: str = field(default="", metadata=_OMIT)
    licence: str = field(default="", metadata=_OMIT)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; some keys are written even while they are empty."""
        if self.members_trained is None:
            return {"agreement": {}, "severity_correlation": None} | super().to_dict()
        return {"agreement": {}, "covariate_ranges": {}, "orthogonality": None} | super().to_dict()


@dataclass(frozen=True, eq=False)
class GroupSummary(Record):
    """A covariate in one group: mean, spread and range of numbers, or the number of people in each category."""

    mean: float | None = field(default=None, metadata=_OMIT)
    sd: float | None = field(default=None, metadata=_OMIT)
    min: float | None = field(default=None, metadata=_OMIT)
    max: float | None = field(default=None, metadata=_OMIT)
    counts: Mapping[str, int] | None = field(default=None, metadata=_OMIT)


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


@cache
def _list_keys(record: type[Record]) -> dict[str, tuple[Field[Any], Any]]:
    """Return field and type of each key of a record's file."""
    hints = get_type_hints(record)
    items = [item for item in fields(record) if item.name != "extra"]
    return {item.metadata.get("key", item.name): (item, hints[item.name]) for item in items}


def _is_omitted(item: Field[Any], value: Any) -> bool:
    """Return whether a field is left out of the file: optional, and None or empty as its default is."""
    return "omit" in item.metadata and (value is None or (item.default is not None and not value))


def _parse(hint: Any, value: Any, key: str) -> Any:
    """Return a value of a JSON file as its field has it: objects become records, lists tuples."""
    arguments = get_args(hint)
    if get_origin(hint) is UnionType:
        record = next((part for part in arguments if _is_record(part)), None)
        if value is None or (record is not None and value == {}):
            return None
        return _parse(next(part for part in arguments if part is not type(None)), value, key)
    if _is_record(hint):
        try:
            return hint.from_dict(value)
        except ValueError as error:
            raise ValueError(f"{key!r}: {error}") from None
    if get_origin(hint) is tuple:
        if not isinstance(value, list | tuple) or (arguments[-1] is not Ellipsis and len(value) != len(arguments)):
            length = "" if arguments[-1] is Ellipsis else f" of {len(arguments)}"
            raise ValueError(f"{key!r} should be a list{length}, not {value!r:.50}")
        return tuple(_parse(arguments[0], item, key) for item in value)
    if get_origin(hint) is Mapping:
        if not isinstance(value, Mapping):
            raise ValueError(f"{key!r} should be an object, not {value!r:.50}")
        return {name: _parse(arguments[1], item, f"{key}.{name}") for name, item in value.items()}
    if not _is_valid(hint, value):
        raise ValueError(f"{key!r} should be {_TYPE_NAMES.get(hint, hint)}, not {value!r:.50}")
    return value


@cache
def _make_adapter(hint: Any) -> TypeAdapter[Any]:
    return TypeAdapter(hint, config=ConfigDict(strict=True, allow_inf_nan=False))


def _is_valid(hint: Any, value: Any) -> bool:
    """Return whether a single value has its exact type and is finite."""
    try:
        _make_adapter(hint).validate_python(value)
    except ValidationError:
        return False
    return True


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Record)


def _to_plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: _to_plain(item) for key, item in value.items()}
    return [_to_plain(item) for item in value] if isinstance(value, tuple | list) else value
