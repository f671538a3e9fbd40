"""Schema of the metadata of model files, checked before anything in a file is used.

`ModelMetadata` describes what a model needs to be applied. What its card says besides is described by the types of
`rindices.model.records`. `find_unsafe_value` is true of all metadata, also of keys that this version does not know.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from rindices.errors import make_damage_error
from rindices.learners.inference import HEADS_BY_KIND
from rindices.preprocess.harmonise import HARMONISATION_MODES
from rindices.preprocess.measures import ADJUSTMENTS

MAX_DIMENSION = 100_000
"""Of regions, patterns or members."""
_MAX_DEPTH = 50
_MAX_LENGTH = 1_000_000  # of distances or knots
_MAX_INTEGER = 2**63
_UNSAFE_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # control characters and half characters


def _check_name(name: str) -> str:
    if not name.strip() or "\n" in name:
        raise ValueError("should be a name on one line")
    return name


def _check_unique(names: list[str]) -> list[str]:
    if len(set(names)) != len(names):
        raise ValueError("should not hold a name twice")
    return names


def _check_range(bounds: list[float]) -> list[float]:
    if len(bounds) != 2 or bounds[0] > bounds[1]:
        raise ValueError("should be a lowest and a highest value")
    return bounds


def _make_choice_check(choices: Sequence[str]) -> AfterValidator:
    def check(value: str) -> str:
        if value not in choices:
            raise ValueError(f"should be one of {', '.join(choices)}")
        return value

    return AfterValidator(check)


Name = Annotated[str, AfterValidator(_check_name)]
Names = Annotated[list[Name], Field(min_length=1, max_length=MAX_DIMENSION), AfterValidator(_check_unique)]
Size = Annotated[int, Field(ge=1, le=MAX_DIMENSION)]


class _Section(BaseModel):
    """Exact types, finite numbers; keys of later versions are ignored here and kept by the card."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)


class NumericCoding(_Section):
    """A covariate that is a number, with its range in controls, and whether its logarithm is adjusted for."""

    kind: Literal["numeric"]
    name: Name
    low: float
    high: float
    log: bool

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        _check_range([self.low, self.high])
        if self.log and self.low <= 0:
            raise ValueError("should have a positive range, as its logarithm is taken")
        return self

    @property
    def n_columns(self) -> int:
        """Columns of the design."""
        return 1


class CategoricalCoding(_Section):
    """A covariate with categories; the first is the reference."""

    kind: Literal["categorical"]
    name: Name
    levels: Names

    @property
    def n_columns(self) -> int:
        """Columns of the design."""
        return len(self.levels) - 1


class SiteCoding(_Section):
    """Sites whose effects are removed, and the number of people that each effect was estimated from."""

    mode: Annotated[str, _make_choice_check(HARMONISATION_MODES)]
    sites: Names
    counts: list[Annotated[int, Field(ge=1)]]

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        if len(self.counts) != len(self.sites):
            raise ValueError("should have one count for each site")
        return self


class _RecipeValues(_Section):
    """Settings of a recipe that are shown or computed with."""

    package: str = ""
    epoch: int = 0
    share: Annotated[float, Field(gt=0, le=1)] = 1.0


class _Recipe(_Section):
    recipe: Name
    values: _RecipeValues


class ModelMetadata(_Section):
    """Metadata that a model needs to be applied.

    kind: kind of the heads, a key of `HEADS_BY_KIND`; members, n_patterns: S and M; regions: names of the R regions;
    orders: for each member, a permutation of its M patterns; interval_over: if not None, the file holds standard errors
    of the patterns; design_covariance: whether the file holds the covariance of the covariates, from which missing ones
    are predicted; sums: regions that are sums of columns of a table, and their columns; training_distances,
    interval_knots: number of distances in training and of knots of the intervals; None if the file has none; pipelines:
    number of members with a preprocessing of their own: all or none.
    """

    kind: Annotated[str, _make_choice_check(tuple(HEADS_BY_KIND))]
    members: Size
    n_patterns: Size
    regions: Names
    covariates: list[Annotated[NumericCoding | CategoricalCoding, Field(discriminator="kind")]]
    unit: Name
    orders: list[list[int]]
    sums: dict[Name, Annotated[list[Name], Field(min_length=1)]]
    training_distances: Annotated[int, Field(ge=0, le=_MAX_LENGTH)] | None
    interval_knots: Annotated[int, Field(ge=1, le=_MAX_LENGTH)] | None
    harmonise: SiteCoding | None = None
    adjust: Annotated[str, _make_choice_check(ADJUSTMENTS)]
    covariate_ranges: dict[Name, Annotated[list[float], AfterValidator(_check_range)]] = {}
    interval_over: str | None = None
    design_covariance: bool
    pipelines: Annotated[int, Field(ge=0, le=MAX_DIMENSION)]
    recipe: Annotated[_Recipe | None, BeforeValidator(lambda value: value or None)] = None

    @property
    def n_columns(self) -> int:
        """P, the columns of the design."""
        return sum(coding.n_columns for coding in self.covariates)

    @model_validator(mode="after")
    def _check_fields_against_each_other(self) -> Self:
        names = [coding.name for coding in self.covariates]
        if len(set(names)) != len(names):
            raise ValueError("covariates should not hold a name twice")
        if not set(self.covariate_ranges) <= set(names):
            raise ValueError("covariate_ranges should be ranges of the covariates")
        if len(self.orders) != self.members or any(sorted(order) != [*range(self.n_patterns)] for order in self.orders):
            raise ValueError("orders should be one order of the patterns for each member")
        if self.pipelines not in (0, self.members):
            raise ValueError("pipelines should be one for each member, or none")
        if not set(self.sums) <= set(self.regions):
            raise ValueError("sums should be sums of the regions")
        if self.training_distances in (1, 2):
            raise ValueError("training_distances should be 0, or at least 3")
        return self


class ReferenceMetadata(_Section):
    """Metadata of a file with the correlations of a reference population, see `NormalReference`."""

    regions: Names
    people: Annotated[int, Field(ge=1, le=_MAX_INTEGER)]
    sites: Annotated[int, Field(ge=1, le=_MAX_INTEGER)]
    name: str
    adjust: Annotated[str, _make_choice_check(ADJUSTMENTS)]
    covariates: list[Name]


_AnySection = TypeVar("_AnySection", bound=_Section)


def validate_metadata(file: str, metadata: Mapping[str, Any], kind: type[_AnySection]) -> _AnySection:
    """Check the metadata of a model or of a reference.

    file: name of the file, for the message; metadata: as read from JSON; kind: `ModelMetadata` or `ReferenceMetadata`.
    Raises ModelError: that names the first field that is not as it should be.
    """
    try:
        return kind.model_validate(metadata)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        subject = ".".join(str(part) for part in fault["loc"])
        place = f"{subject}: " if subject else ""
        value = "" if fault["type"] == "missing" or not subject else f" (it is {fault['input']!r:.60})"
        message = str(fault.get("ctx", {}).get("error", fault["msg"]))  # of our own checks: their words alone
        raise make_damage_error(file, f"{place}{message[:1].lower()}{message[1:]}{value}", subject) from None


def find_unsafe_value(value: Any, place: str = "", depth: int = 0) -> tuple[str, str] | None:
    """Find a value that no metadata may hold: numbers that are not finite or endless, control characters, deep nesting.

    value: as read from JSON; place: keys that lead to it, joined by dots; depth: number of these keys. Returns the
    place of the first such value, and what is wrong with it.
    """
    if isinstance(value, dict | list):
        if depth >= _MAX_DEPTH:
            return place, "is nested too deeply"
        keys = [(place, key) for key in value] if isinstance(value, dict) else []
        items = value.items() if isinstance(value, dict) else enumerate(value)
        inner = [(f"{place}.{key}" if place else str(key), item) for key, item in items]
        faults = (find_unsafe_value(item, path, depth + 1) for path, item in (*keys, *inner))
        return next((fault for fault in faults if fault is not None), None)
    if isinstance(value, str):
        return (place, "holds control characters") if _UNSAFE_TEXT.search(value) else None
    if isinstance(value, float):
        return None if math.isfinite(value) else (place, "is not finite")
    return (place, "is too large") if isinstance(value, int) and abs(value) >= _MAX_INTEGER else None
