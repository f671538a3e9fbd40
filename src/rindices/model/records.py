"""Records that a study writes and reports read: ``selection.json``, ``cohort.json`` and
the card of a model file.

This module alone knows the keys of these files. Everything else reads fields. A record
can also be read like the dictionary in its file: ``model.card["agreement"]``.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, ClassVar, Self, dataclass_transform

import numpy as np
from pydantic import BeforeValidator, ConfigDict, TypeAdapter, ValidationError

from rindices.errors import OffenderKind, Problem, ProblemCode
from rindices.old_names import OLD_METHOD_NAMES, rename_shapes
from rindices.preprocess.pipeline import Preprocessing
from rindices.preprocess.residualise import NumericCovariate, count_columns
from rindices.tables.layouts.freesurfer import infer_measure
from rindices.wording import FEATURE_UNIT

Interval = tuple[float, float]
OptionalInterval = tuple[float | None, float | None]
OMIT_EMPTY = {"omit": True}
"""Metadata of a field that is left out of the file while it is None or empty."""
QUANTILE_RANKS = (0.025, *(round(0.05 * k, 2) for k in range(1, 20)), 0.975)
"""Ranks of the quantiles of R-indices in the card of a model: few enough to tell
nothing of single people.
"""
MIN_SPLIT_HALF = 0.5
"""Rank correlation from which a pattern counts as reproduced in other people."""
_EMPTY_IS_NONE = BeforeValidator(lambda value: None if value == {} else value)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
@dataclass(frozen=True, eq=False)
class Record(Mapping[str, Any]):
    """An object of a JSON file as typed fields; ``extra`` keeps keys that this version
    does not know.

    Every subclass is a frozen dataclass, whose types pydantic checks when it is read.

    Attributes
    ----------
    extra : mapping
    """

    extra: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False)
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    __pydantic_config__ = ConfigDict(strict=True, allow_inf_nan=False, extra="allow")

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, eq=False)(cls)

    def __post_init__(self) -> None:
        unknown = vars(self).keys() - {item.name for item in fields(self)}
        if unknown:  # as attributes, they could take the place of methods
            vars(self)["extra"] = {
                **self.extra,
                **{name: vars(self).pop(name) for name in sorted(unknown)},
            }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read the object of a JSON file; ValueError names the first key that is
        missing or has a wrong value.
        """
        try:
            record: Self = _get_adapter(cls).validate_json(
                json.dumps(rename_shapes(values))
            )  # only JSON has lists for tuples
        except ValidationError as error:
            raise ValueError(_describe_fault(error)) from None
        return record

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without optional fields that are None or empty
        as their default is.
        """
        values: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if "omit" not in item.metadata or (
                value is not None and (item.default is None or value)
            ):
                values[item.name] = _to_plain(value)
        return {**values.pop("extra"), **values}

    def __getitem__(self, key: str) -> Any:
        return self.to_dict()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self.to_dict())


@cache
def _get_adapter(record: type[Record]) -> TypeAdapter[Any]:
    return TypeAdapter(record)


def _describe_fault(error: ValidationError) -> str:
    """Return the first field that is not as it should be, and what is wrong with it, in
    one line.
    """
    fault = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in fault["loc"])
    value = (
        f" (it is {fault['input']!r:.60})"
        if place and fault["type"] != "missing"
        else ""
    )
    message = str(
        fault.get("ctx", {}).get("error", fault["msg"])
    )  # of our own checks: their words alone
    return f"{place}: {message[:1].lower()}{message[1:]}{value}" if place else message


def _to_plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: _to_plain(item) for key, item in value.items()}
    return (
        [_to_plain(item) for item in value]
        if isinstance(value, tuple | list)
        else value
    )


class Reproduction(StrEnum):
    """Whether other people reproduce a pattern, by the interval of its rank correlation
    against `MIN_SPLIT_HALF`.

    Of a pattern that looks like an artefact nothing is said: other people of the same
    table reproduce artefacts, too.
    """

    REPRODUCED = "reproduced"
    NOT_KNOWN = "not_known"
    NOT_REPRODUCED = "not_reproduced"
    ARTEFACT = "artefact"


class ArtefactKind(StrEnum):
    """Sign of an artefact.

    ``UNIFORM_RATIO``: all regions of a block, or its head size, differ from those of
    others by one factor. ``ALL_REGIONS``: most regions separate patients from controls
    almost by themselves. ``ONE_SITE``: an R-index separates patients from controls at
    one site alone. ``SIDES_SWAPPED``: left and right are swapped. ``TABLE``: a block of
    the table looked wrong when it was read.
    """

    UNIFORM_RATIO = "uniform_ratio"
    ALL_REGIONS = "all_regions"
    ONE_SITE = "one_site"
    SIDES_SWAPPED = "sides_swapped"
    TABLE = "table"


class ArtefactRecord(Record):
    """A sign that what a study found is an artefact.

    Attributes
    ----------
    kind : ArtefactKind
        Kind of sign.
    block : str
        The people, for instance 'the patients' or 'site B'.
    patterns : tuple of str
        The R-indices concerned. None means all of them.
    what : str
        A sentence with the block, the numbers and the usual causes.
    figures : mapping
        The numbers of the sentence.
    """

    kind: ArtefactKind = field(kw_only=True)
    block: str = field(kw_only=True)
    patterns: tuple[str, ...] = field(default=(), kw_only=True)
    what: str = field(kw_only=True)
    figures: Mapping[str, float] = field(
        default_factory=dict, metadata=OMIT_EMPTY, kw_only=True
    )


class SettingRecord(Record):
    """A grid point: number of patterns M and weight lambda of orthogonality (None where
    the method has none).

    Attributes
    ----------
    n_patterns : int
    orthogonality : float or None
    """

    n_patterns: int
    orthogonality: float | None


class AgreementRecord(Record):
    """Agreement of ensemble members; None where there are no two.

    Attributes
    ----------
    concordance : float or None
    dimension : float or None
    difference : float or None
    """

    concordance: float | None
    dimension: float | None
    difference: float | None


class MemberCountRecord(Record):
    """Number of members trained, and of those that converged.

    Attributes
    ----------
    trained : int
    converged : int
    """

    trained: int
    converged: int


class HeldOutLikelihoodRecord(Record):
    """Mean log-likelihood of the patients that members have not seen, by the shape of
    the patterns.

    ``shape`` is the shape of the members, 'proportional', 'staged' or 'interacting'.
    ``below_best`` is how far the setting is below the most likely one, with its
    standard error over members. ``visits`` is 'coupled' or 'mean' where there are
    repeat visits, and ``coupling_gain`` the gain in the likelihood of all visits of a
    patient by coupling them. ``staged_gain_se`` is the standard error over members of
    the difference between staged and proportional patterns.

    Attributes
    ----------
    shape : str
    proportional : float or None
    staged : float or None
    below_best : float or None
    below_best_se : float or None
    interacting : float or None
    visits : str or None
    coupling_gain : float or None
    staged_gain_se : float or None
    """

    shape: str
    proportional: float | None
    staged: float | None
    below_best: float | None = None
    below_best_se: float | None = None
    interacting: float | None = field(default=None, metadata=OMIT_EMPTY)
    visits: str | None = field(default=None, metadata=OMIT_EMPTY)
    coupling_gain: float | None = field(default=None, metadata=OMIT_EMPTY)
    staged_gain_se: float | None = field(default=None, metadata=OMIT_EMPTY)


class StartRecord(Record):
    """Where the fits of a setting began, and why.

    Attributes
    ----------
    taken : str
        ``contrastive``, ``whole-cohort`` or ``mixed``.
    contrastive_loss, whole_cohort_loss, mixed_loss : float or None
        How badly held-out patients and controls are distinguished by the patterns
        of each start: mean log-loss of both groups, which count alike. None where
        the starts were not compared.
    why : str
        One sentence.
    """

    taken: str
    contrastive_loss: float | None = None
    whole_cohort_loss: float | None = None
    why: str = ""
    mixed_loss: float | None = field(default=None, metadata=OMIT_EMPTY)


class CandidateRecord(Record):
    """Evaluation of one setting: agreement of its members or of fits on disjoint
    halves, and why it is not stable.

    ``by_member`` is the concordance by which each member is judged, ``pairwise`` that
    of every two members. ``held_out`` and ``start`` are only there for learners with a
    likelihood.

    Attributes
    ----------
    setting : SettingRecord
    agreement : AgreementRecord
    agreement_between : str
    concordance_interval : OptionalInterval
    members : MemberCountRecord
    stable : bool
    why : str
    by_member : tuple of float or None
    pairwise : tuple of tuple of float or None
    held_out : HeldOutLikelihoodRecord or None
    start : StartRecord or None
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
    start: StartRecord | None = field(default=None, metadata=OMIT_EMPTY)

    @property
    def uses_disjoint_halves(self) -> bool:
        """Whether agreement was measured between fits on disjoint halves of
        the people.
        """
        return self.agreement_between == "disjoint halves"


class RegionChange(Record):
    """Change of a region at full severity of a pattern, in control standard deviations.

    Attributes
    ----------
    region : str
        Its name in tables.
    label : str
        Its name for readers.
    structure : str
        The label without side.
    change : float
    low, high : float or None
        Ends of the 95 % interval. None where it is not known.
    """

    region: str
    label: str
    structure: str
    change: float
    low: float | None = None
    high: float | None = None

    @property
    def direction(self) -> str:
        """``loss`` or ``gain``."""
        return "loss" if self.change < 0 else "gain"

    @property
    def side(self) -> str:
        """``left`` or ``right``, with the measure where structures have several; empty
        for one that has no side.
        """
        return re.sub("[()]", "", self.label.removeprefix(self.structure).lstrip(", "))

    @property
    def is_certain(self) -> bool:
        """Whether the interval is known and excludes 0."""
        return (
            self.low is not None
            and self.high is not None
            and (self.low > 0 or self.high < 0)
        )


class PatternRecord(Record):
    """How well one pattern is reproduced in other people, and how it separates patients
    from controls there.

    The shares and the AUC are of the R-indices that the study writes.

    Attributes
    ----------
    name : str
        Name of the R-index.
    stability : float
        Agreement with the members that did not see the people.
    stability_interval : Interval
        95 % interval of the stability.
    split_half : float
        Rank correlation of R-indices between two sets of people with nobody in common.
    split_half_interval : Interval
        95 % interval of the split-half correlation.
    carriers : float
        Share of patients beyond 95 % of controls, less the share expected by chance.
    carriers_interval : Interval or None
        95 % interval of the share.
    auc : float or None
        Probability that a patient has a higher R-index than a control.
    auc_interval : Interval or None
        95 % interval of the AUC.
    seed_change : float or None
        Change of these R-indices with another seed, as the root mean square over
        people.
    in_sample : bool
        Whether all members were trained on these people.
    regions : tuple of RegionChange
        The largest changes.
    artefact : str
        Why the pattern looks like an artefact.
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
    seed_change: float | None = field(default=None, metadata=OMIT_EMPTY)
    in_sample: bool = field(default=False, metadata=OMIT_EMPTY)
    regions: tuple[RegionChange, ...] = field(default=(), metadata=OMIT_EMPTY)
    artefact: str = field(default="", metadata=OMIT_EMPTY)

    @property
    def reproduction(self) -> Reproduction:
        """Whether other people reproduce the pattern; not known where the interval
        includes the threshold.
        """
        if self.artefact:
            return Reproduction.ARTEFACT
        low, high = self.split_half_interval
        if low >= MIN_SPLIT_HALF:
            return Reproduction.REPRODUCED
        return (
            Reproduction.NOT_REPRODUCED
            if high < MIN_SPLIT_HALF
            else Reproduction.NOT_KNOWN
        )


class DimensionRecord(Record):
    """One step of the permutation test: whether patients still differ after
    ``patterns`` directions are removed.

    ``excess`` and its chance are of one ``statistic``: ``ratio`` or ``added_variance``;
    empty in files of 0.1.0, which had the ratio alone. ``p`` is by both.

    Attributes
    ----------
    patterns : int
    excess : float
    chance_median : float
    chance_95 : float
    p : float
    relabellings : int
    p_error : float
    statistic : str
    """

    patterns: int
    excess: float
    chance_median: float
    chance_95: float
    p: float
    relabellings: int
    p_error: float = field(default=0.0, metadata=OMIT_EMPTY)
    statistic: str = field(default="", metadata=OMIT_EMPTY)


class PermutationTestRecord(Record):
    """Permutation test of the number of patterns, with its level and the overlap of the
    groups in covariates.

    Attributes
    ----------
    n_patterns : int
    level : float
    overlap : float
    curve : tuple of DimensionRecord
    """

    n_patterns: int
    level: float
    overlap: float
    curve: tuple[DimensionRecord, ...]


class PatternCountRecord(Record):
    """Number of patterns by agreement or likelihood and by the test, or ``forced`` by
    the study.

    ``by_agreement`` is the number that the settings' comparison chose, also where it
    was decided by the likelihood of held-out people (``decided_by``). ``why`` says why
    it and the test's number differ.

    Attributes
    ----------
    by_agreement : int or None
    by_test : int
    forced : int or None
    why : str
    test : PermutationTestRecord
    decided_by : str
    """

    by_agreement: int | None
    by_test: int
    forced: int | None
    why: str
    test: PermutationTestRecord
    decided_by: str = field(default="", metadata=OMIT_EMPTY)


class DifferenceRecord(Record):
    """Test whether patients differ from controls in any way, by the smallest p of
    several statistics.

    ``smallest_effect`` is the smallest Cohen's d of one region that a study of this
    size detects with a power of 80 %.

    Attributes
    ----------
    p : float
    permutations : int
    statistics : mapping
    p_values : mapping
    smallest_effect : float
    p_error : float
    """

    p: float
    permutations: int
    statistics: Mapping[str, float]
    p_values: Mapping[str, float]
    smallest_effect: float
    p_error: float = field(default=0.0, metadata=OMIT_EMPTY)

    def is_too_near(self, level: float) -> bool:
        """Whether the 95 % interval of p, given its Monte Carlo error ``p_error``,
        includes the level of the test.
        """
        return abs(self.p - level) <= 1.96 * self.p_error

    def describe_p(self, level: float) -> str:
        """Return p with its Monte Carlo error, and whether it is too near the level to
        tell.
        """
        if (
            self.p * (self.permutations + 1) < 1.5
        ):  # only the true labels reach the difference
            return f"p = {self.p:.3f} (none of {self.permutations:,} permutations of the labels)"
        doubt = f"; too near {level:g} to tell" if self.is_too_near(level) else ""
        return f"p = {self.p:.3f} (Monte Carlo error {self.p_error:.3f}{doubt})"


class ProvenanceRecord(Record):
    """What results depend on: the people, the seed, the versions.

    Attributes
    ----------
    seed : int or None
    fingerprint : str
    rindices_version : str
    versions : mapping
    """

    seed: int | None = None
    fingerprint: str = ""
    rindices_version: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


class AdjustedCovariateRecord(Record):
    """A covariate, the number of regions that it was removed from, and what these
    measure if they are not all.

    Attributes
    ----------
    name : str
    regions : int
    measures : tuple of str
    """

    name: str
    regions: int
    measures: tuple[str, ...] = ()


class AdjustmentRecord(Record):
    """What was removed from the regions before learning.

    ``scale`` is 'log', 'linear' or 'none'. ``head_size`` names the covariates that
    entered as logarithms. ``site_mode`` is 'controls' or 'all', the people from whom
    the effects of ``sites`` sites were estimated, or ''.

    Attributes
    ----------
    scale : str
    regions : int
    covariates : tuple of AdjustedCovariateRecord
    head_size : tuple of str
    sites : int
    site_mode : str
    """

    scale: str
    regions: int
    covariates: tuple[AdjustedCovariateRecord, ...] = ()
    head_size: tuple[str, ...] = ()
    sites: int = 0
    site_mode: str = ""

    @property
    def in_all_regions(self) -> list[str]:
        """Covariates that were removed from all regions."""
        return [each.name for each in self.covariates if each.regions == self.regions]

    @property
    def in_some_regions(self) -> list[AdjustedCovariateRecord]:
        """Covariates that were removed from some regions."""
        return [each for each in self.covariates if 0 < each.regions < self.regions]

    @property
    def without_effect(self) -> list[str]:
        """Covariates that were named and changed nothing, because controls do not
        differ in them.
        """
        return [each.name for each in self.covariates if not each.regions]


def describe_adjustment(preprocessing: Preprocessing, unit: str) -> AdjustmentRecord:
    """Return what a preprocessing removes, by its coefficients: thickness, for one,
    keeps the effect of head size.

    Parameters
    ----------
    unit : str
        Unit of the table. Features of any kind have no measures.
    """
    residualiser, harmoniser = preprocessing.residualiser, preprocessing.harmoniser
    regions = np.array(preprocessing.regions)
    ends = np.cumsum([count_columns(coding) for coding in residualiser.codings])
    covariates = []
    for coding, coefficients in zip(
        residualiser.codings,
        np.split(residualiser.coefficients, ends)[:-1],
        strict=True,
    ):
        adjusted = regions[(coefficients != 0).any(axis=0)]
        is_part = 0 < len(adjusted) < len(regions) and unit != FEATURE_UNIT
        measures = (
            sorted({infer_measure(region) for region in adjusted}) if is_part else ()
        )
        covariates.append(
            AdjustedCovariateRecord(coding.name, len(adjusted), tuple(measures))
        )
    return AdjustmentRecord(
        scale=preprocessing.adjust,
        regions=len(regions),
        covariates=tuple(covariates),
        head_size=tuple(
            each.name
            for each in residualiser.codings
            if isinstance(each, NumericCovariate) and each.log
        ),
        sites=0 if harmoniser is None else len(harmoniser.sites),
        site_mode="" if harmoniser is None else harmoniser.mode,
    )


class SelectionRecord(Record):
    """Content of ``selection.json``: what was compared and chosen.

    ``chosen`` is None where no setting was stable or none was tried. ``made_with`` and
    ``adjustment`` are only in a study without a model; otherwise the model has them.
    ``finding`` is 'no_difference', 'mean_difference' or 'patterns'.

    Attributes
    ----------
    chosen : CandidateRecord or None
    ties : tuple of SettingRecord
    grid : tuple of CandidateRecord
    patterns : tuple of PatternRecord
    number_of_patterns : PatternCountRecord
    made_with : ProvenanceRecord or None
    finding : str
    difference : DifferenceRecord
    adjustment : AdjustmentRecord or None
    """

    chosen: CandidateRecord | None
    ties: tuple[SettingRecord, ...] = ()
    grid: tuple[CandidateRecord, ...] = ()
    patterns: tuple[PatternRecord, ...] = ()
    number_of_patterns: PatternCountRecord = field(kw_only=True)
    made_with: ProvenanceRecord | None = field(default=None, metadata=OMIT_EMPTY)
    finding: str = field(kw_only=True)
    difference: DifferenceRecord = field(kw_only=True)
    adjustment: AdjustmentRecord | None = field(default=None, metadata=OMIT_EMPTY)

    @property
    def is_difference_detected(self) -> bool:
        """Whether the tests detected a difference between patients and controls."""
        return self.difference.p <= self.number_of_patterns.test.level

    @property
    def unstable_candidates(self) -> list[CandidateRecord]:
        """Settings that could not be chosen, with the reason."""
        return [candidate for candidate in self.grid if not candidate.stable]


class FailureRecord(Record):
    """Content of ``failure.json``: why the members of a study failed, and what to
    change.

    ``made_with``, ``adjustment`` and ``difference`` are what a model or
    ``selection.json`` would say.

    Attributes
    ----------
    what : str
    cure : str
    made_with : ProvenanceRecord
    adjustment : AdjustmentRecord
    difference : DifferenceRecord
    """

    what: str
    cure: str
    made_with: ProvenanceRecord
    adjustment: AdjustmentRecord
    difference: DifferenceRecord


class RealismRecord(Record):
    """Content of ``realism.json``: how synthetic patients of a Surreal-GAN differ from
    real ones.

    ``auc`` is the cross-validated AUC of each classifier, mean of the members, without
    any where people are too few. ``mean_error`` and ``sd_error`` are means over regions
    of the absolute difference of means and of standard deviations, in control sd.
    ``is_held_out`` says whether the people are those whom the members have not seen.

    Attributes
    ----------
    auc : mapping
    mean_error : float
    sd_error : float
    is_held_out : bool
    """

    auc: Mapping[str, float]
    mean_error: float
    sd_error: float
    is_held_out: bool


class MethodRecord(Record):
    """Name of a method and its settings.

    Attributes
    ----------
    name : str
    settings : mapping
    """

    name: str
    settings: Mapping[str, Any]


def rename_method(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata of a model file with the method as it is written today.

    Files of rindices 0.1.0 hold it as ``recipe``, with its name as ``recipe`` and its
    settings as ``values``.
    """
    renamed = dict(values)
    method = renamed.pop("recipe", None)
    if isinstance(method, Mapping):
        keys = {"recipe": "name", "values": "settings"}
        method = {keys.get(key, key): value for key, value in method.items()}
        if isinstance(name := method.get("name"), str):
            method["name"] = OLD_METHOD_NAMES.get(name, name)
    return renamed if method is None else {"method": method, **renamed}


class ReferenceRecord(Record):
    """Reference population whose correlations of regions were used.

    Attributes
    ----------
    name : str
        Name of the reference.
    people : int
        Number of people.
    sites : int
        Number of sites.
    weight : float
        Weight that its correlations got, from 0 to 1.
    """

    name: str
    people: int
    sites: int
    weight: float


class HealthyRecord(Record):
    """Healthy people with whom new people are compared, where they are not the training
    people.

    Attributes
    ----------
    name : str
        Of the data set.
    people : int
        Number of healthy people.
    ages : tuple of float
        Their lowest and highest age, in whole years.
    sexes : tuple of str
        How the sexes are called in a table: women, men.
    licence : str
        Of the figures of these people that the model file holds.
    """

    name: str
    people: int
    ages: Interval
    sexes: tuple[str, str] = ("F", "M")
    licence: str = field(default="", metadata=OMIT_EMPTY)

    @property
    def text(self) -> str:
        """Who they are, in a few words."""
        low, high = self.ages
        of = f" of {self.name}" if self.name else ""
        return f"{self.people:,} healthy people{of}, {low:g} to {high:g} years old"


class MembershipRecord(Record):
    """How well a published file tells who took part: the area under the curve of an
    attack on it, 0.5 for chance.

    Attributes
    ----------
    auc : float
    """

    auc: float


class ModelCard(Record):
    """What a model file says about its model beside what it needs to be applied.

    Every field may be empty: an imported model knows little about its training.

    Attributes
    ----------
    unit : str
    source : str
    covariate_ranges : mapping
        Lowest and highest value of each numeric covariate among the training
        people.
    trained_on : mapping
        Number of people, controls and patients, and of scans if these are more.
    shape : str
        Of the patterns, empty for methods without shapes and in files of rindices
        0.1.0.
    orthogonality : float or None
    agreement : AgreementRecord or None
    agreement_between : str
    pattern_scale : tuple of float
        Scale of each consensus pattern against that of single members.
    concordance_interval : OptionalInterval or None
    member_steps : tuple of int
    members_trained : MemberCountRecord or None
    method : MethodRecord or None
    seed : int or None
    fingerprint : str
    rindices_version : str
    versions : mapping
    citation : str
    interval_over : str
        What the standard errors of the patterns vary over.
    number_of_patterns : PatternCountRecord or None
    finding : str
    pattern_evidence : tuple of PatternRecord
    reference : ReferenceRecord or None
    severity_correlation : tuple of tuple of float or None
        Of an imported model.
    name : str
    licence : str
    membership : MembershipRecord or None
        Of a file that ``rindices model publish`` wrote.
    index_quantiles : mapping
        Of each group of the study and each R-index, at `QUANTILE_RANKS`.
    healthy : HealthyRecord or None
        Who new people are compared with, where they are not the training people: for
        centiles, and in a model without training people for intervals and outliers.
    """

    unit: str = "unknown"
    source: str = field(default="", metadata=OMIT_EMPTY)
    covariate_ranges: Mapping[str, Interval] = field(
        default_factory=dict, metadata=OMIT_EMPTY
    )
    trained_on: Mapping[str, int] = field(default_factory=dict)
    shape: str = field(default="", metadata=OMIT_EMPTY)
    orthogonality: float | None = field(default=None, metadata=OMIT_EMPTY)
    agreement: Annotated[AgreementRecord | None, _EMPTY_IS_NONE] = field(
        default=None, metadata=OMIT_EMPTY
    )
    agreement_between: str = field(default="", metadata=OMIT_EMPTY)
    pattern_scale: tuple[float, ...] = field(default=(), metadata=OMIT_EMPTY)
    concordance_interval: OptionalInterval | None = field(
        default=None, metadata=OMIT_EMPTY
    )
    member_steps: tuple[int, ...] = field(default=(), metadata=OMIT_EMPTY)
    members_trained: MemberCountRecord | None = field(default=None, metadata=OMIT_EMPTY)
    method: Annotated[MethodRecord | None, _EMPTY_IS_NONE] = field(
        default=None, metadata=OMIT_EMPTY
    )
    seed: int | None = field(default=None, metadata=OMIT_EMPTY)
    fingerprint: str = field(default="", metadata=OMIT_EMPTY)
    rindices_version: str = field(default="", metadata=OMIT_EMPTY)
    versions: Mapping[str, str] = field(default_factory=dict, metadata=OMIT_EMPTY)
    citation: str = field(default="", metadata=OMIT_EMPTY)
    interval_over: str = field(default="", metadata=OMIT_EMPTY)
    number_of_patterns: PatternCountRecord | None = field(
        default=None, metadata=OMIT_EMPTY
    )
    finding: str = field(default="", metadata=OMIT_EMPTY)
    pattern_evidence: tuple[PatternRecord, ...] = field(default=(), metadata=OMIT_EMPTY)
    reference: ReferenceRecord | None = field(default=None, metadata=OMIT_EMPTY)
    severity_correlation: tuple[tuple[float, ...], ...] | None = field(
        default=None, metadata=OMIT_EMPTY
    )
    name: str = field(default="", metadata=OMIT_EMPTY)
    licence: str = field(default="", metadata=OMIT_EMPTY)
    membership: MembershipRecord | None = field(default=None, metadata=OMIT_EMPTY)
    index_quantiles: Mapping[str, tuple[tuple[float, ...], ...]] = field(
        default_factory=dict, metadata=OMIT_EMPTY
    )
    healthy: HealthyRecord | None = field(default=None, metadata=OMIT_EMPTY)

    @property
    def compared_with(self) -> str:
        """Whom new people are compared with, to find those who are unlike them."""
        return (
            "the training people"
            if self.healthy is None or self.trained_on
            else "the healthy people of the reference"
        )

    @property
    def can_be_published(self) -> bool:
        """Whether ``rindices model publish`` takes the model: patterns of method
        trajectories.
        """
        return (
            self.finding == "patterns"
            and self.method is not None
            and self.method.name == "trajectories"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; some keys are written even while they are
        empty.
        """
        if self.members_trained is None:
            return {"agreement": {}, "severity_correlation": None} | super().to_dict()
        return {
            "agreement": {},
            "covariate_ranges": {},
            "orthogonality": None,
        } | super().to_dict()


class GroupSummary(Record):
    """A covariate in one group: mean, spread and bounds of numbers, or the number of
    people in each category.

    Attributes
    ----------
    mean : float or None
    sd : float or None
    low, high : float or None
        Bounds outside which 5 % of people are on each side, and at least five. None
        for less than twenty people.
    counts : mapping or None
    """

    mean: float | None = field(default=None, metadata=OMIT_EMPTY)
    sd: float | None = field(default=None, metadata=OMIT_EMPTY)
    low: float | None = field(default=None, metadata=OMIT_EMPTY)
    high: float | None = field(default=None, metadata=OMIT_EMPTY)
    counts: Mapping[str, int] | None = field(default=None, metadata=OMIT_EMPTY)


class CovariateGroups(Record):
    """A covariate in all people, in controls and in patients.

    Attributes
    ----------
    all : GroupSummary
    control : GroupSummary
    patient : GroupSummary
    """

    all: GroupSummary
    control: GroupSummary
    patient: GroupSummary


class CovariateSummary(Record):
    """A covariate and its summary in each group.

    Attributes
    ----------
    name : str
    groups : CovariateGroups
    """

    name: str
    groups: CovariateGroups


class ProblemRecord(Record):
    """A warning or note that the user was given, see `rindices.errors.Problem`.

    Attributes
    ----------
    severity : str
    what : str
    where : str
    cure : str
    code : str
    summary : str
    offenders : tuple of str
    offender_kind : str
    """

    severity: str
    what: str
    where: str = ""
    cure: str = ""
    code: str = ProblemCode.ERROR
    summary: str = ""
    offenders: tuple[str, ...] = ()
    offender_kind: str = ""


class CohortRecord(Record):
    """Content of ``cohort.json``: counts and summaries of the people, and problems of
    the table, without names of participants.

    ``scans`` is the number of scans, if people have several visits.

    Attributes
    ----------
    source : str
    unit : str
    people : int
    controls : int
    patients : int
    regions : int
    covariates : tuple of CovariateSummary
    sites : mapping
    problems : tuple of ProblemRecord
    scans : int or None
    """

    source: str
    unit: str
    people: int
    controls: int
    patients: int
    regions: int
    covariates: tuple[CovariateSummary, ...] = ()
    sites: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    problems: tuple[ProblemRecord, ...] = ()
    scans: int | None = field(default=None, metadata=OMIT_EMPTY)

    @classmethod
    def of(cls, summary: Mapping[str, Any], problems: Iterable[Problem]) -> Self:
        """Return the record of a cohort's summary (see `describe_cohort`) and of the
        problems found.
        """
        described = [_leave_out_people(problem) for problem in problems]
        return cls.from_dict({**summary, "problems": described})

    @property
    def covariate_names(self) -> list[str]:
        """Names of the covariates in their order."""
        return [covariate.name for covariate in self.covariates]


def _leave_out_people(problem: Problem) -> dict[str, Any]:
    """Return a problem for JSON, without the names of participants."""
    values = problem.as_dict()
    if problem.offender_kind is OffenderKind.PARTICIPANT:
        values |= {"what": problem.summary, "offenders": []}
    return values
