"""The card of a model file."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from rindices.model.records.base import OMIT_EMPTY, Interval, OptionalInterval, Record
from rindices.model.records.evidence import PatternRecord
from rindices.model.records.permutation import PatternCountRecord
from rindices.model.records.selection import AgreementRecord, MemberCountRecord
from rindices.old_names import OLD_METHOD_NAMES

QUANTILE_RANKS = (0.025, *(round(0.05 * k, 2) for k in range(1, 20)), 0.975)
"""Ranks of the quantiles of R-indices in the card of a model: few enough to tell
nothing of single people.
"""
_EMPTY_IS_NONE = BeforeValidator(lambda value: None if value == {} else value)


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
    licence: Annotated[str, OMIT_EMPTY] = ""

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
    source: Annotated[str, OMIT_EMPTY] = ""
    covariate_ranges: Annotated[Mapping[str, Interval], OMIT_EMPTY] = Field(
        default_factory=dict
    )
    trained_on: Mapping[str, int] = Field(default_factory=dict)
    shape: Annotated[str, OMIT_EMPTY] = ""
    orthogonality: Annotated[float | None, OMIT_EMPTY] = None
    agreement: Annotated[AgreementRecord | None, _EMPTY_IS_NONE, OMIT_EMPTY] = None
    agreement_between: Annotated[str, OMIT_EMPTY] = ""
    pattern_scale: Annotated[tuple[float, ...], OMIT_EMPTY] = ()
    concordance_interval: Annotated[OptionalInterval | None, OMIT_EMPTY] = None
    member_steps: Annotated[tuple[int, ...], OMIT_EMPTY] = ()
    members_trained: Annotated[MemberCountRecord | None, OMIT_EMPTY] = None
    method: Annotated[MethodRecord | None, _EMPTY_IS_NONE, OMIT_EMPTY] = None
    seed: Annotated[int | None, OMIT_EMPTY] = None
    fingerprint: Annotated[str, OMIT_EMPTY] = ""
    rindices_version: Annotated[str, OMIT_EMPTY] = ""
    versions: Annotated[Mapping[str, str], OMIT_EMPTY] = Field(default_factory=dict)
    citation: Annotated[str, OMIT_EMPTY] = ""
    interval_over: Annotated[str, OMIT_EMPTY] = ""
    number_of_patterns: Annotated[PatternCountRecord | None, OMIT_EMPTY] = None
    finding: Annotated[str, OMIT_EMPTY] = ""
    pattern_evidence: Annotated[tuple[PatternRecord, ...], OMIT_EMPTY] = ()
    reference: Annotated[ReferenceRecord | None, OMIT_EMPTY] = None
    severity_correlation: Annotated[
        tuple[tuple[float, ...], ...] | None, OMIT_EMPTY
    ] = None
    name: Annotated[str, OMIT_EMPTY] = ""
    licence: Annotated[str, OMIT_EMPTY] = ""
    membership: Annotated[MembershipRecord | None, OMIT_EMPTY] = None
    index_quantiles: Annotated[
        Mapping[str, tuple[tuple[float, ...], ...]], OMIT_EMPTY
    ] = Field(default_factory=dict)
    healthy: Annotated[HealthyRecord | None, OMIT_EMPTY] = None

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
