"""The model file: what a model consists of, how it is written, and how it is read
without trusting the file.

`ModelMetadata` describes what a model needs to be applied. What its card says besides
is described by `ModelCard`. Metadata are checked before they are used, and arrays must
be those that the metadata announce.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

import numpy as np
import pandas as pd
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from rindices._typing import AnyArray, FloatArray
from rindices._version import __version__
from rindices.array_checks import find_interval_fault
from rindices.errors import (
    ModelError,
    Problem,
    ProblemCode,
    Severity,
    explain_write_errors,
    make_damage_error,
)
from rindices.learners.inference import (
    HEADS_BY_KIND,
    SEVERITY_LEVELS,
    MemberHead,
    TrajectoryHead,
)
from rindices.model.centiles import CentileReference
from rindices.model.intervals import CalibratedIntervals
from rindices.model.records import ModelCard, Record, SelectionRecord, rename_method
from rindices.model.safetensors_io import (
    MAX_DIMENSION,
    read_arrays,
    read_metadata,
    write_safetensors,
)
from rindices.model.unusual import TrainingDistribution
from rindices.preprocess.harmonise import HARMONISATION_MODES, Harmoniser
from rindices.preprocess.measures import ADJUSTMENTS
from rindices.preprocess.pipeline import Preprocessing

if TYPE_CHECKING:
    from rindices.learners.gan.describe import NetworkEnsemble
    from rindices.model.findings import StudyFindings

SCHEMA_VERSION = 1
"""The schema that is written and read."""
_MAX_DEPTH = 50
_MAX_LENGTH = 1_000_000  # of distances or knots
_MAX_INTEGER = 2**63
_MAX_KNOTS = 10
_UNSAFE_TEXT = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"
)  # control characters and half characters


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelContent:
    """What a model consists of; `rindices.FittedModel` describes the attributes.

    Attributes
    ----------
    preprocessing : Preprocessing
    heads : tuple of MemberHead
    orders : tuple of tuple of int
    patterns : ndarray
    training : TrainingDistribution or None
    card : ModelCard
    selection : SelectionRecord or None
    sums : mapping
    intervals : CalibratedIntervals or None
    patterns_se : ndarray or None
    pipelines : tuple of Preprocessing
    indices : pd.DataFrame or None
    visit_indices : pd.DataFrame or None
    findings : StudyFindings or None
    networks : NetworkEnsemble or None
    ending : Problem or None
    centiles : CentileReference or None
    """

    preprocessing: Preprocessing
    heads: tuple[MemberHead, ...]
    orders: tuple[tuple[int, ...], ...]
    patterns: FloatArray
    training: TrainingDistribution | None
    card: ModelCard
    selection: SelectionRecord | None = field(default=None, compare=False)
    sums: Mapping[str, Sequence[str]] = field(default_factory=dict)
    intervals: CalibratedIntervals | None = None
    patterns_se: FloatArray | None = None
    pipelines: tuple[Preprocessing, ...] = ()
    indices: pd.DataFrame | None = field(default=None, compare=False)
    visit_indices: pd.DataFrame | None = field(default=None, compare=False)
    findings: "StudyFindings | None" = field(default=None, compare=False)
    networks: "NetworkEnsemble | None" = field(default=None, compare=False)
    ending: Problem | None = field(default=None, compare=False)
    centiles: CentileReference | None = None

    @property
    def n_patterns(self) -> int:
        """M."""
        return int(self.patterns.shape[1])

    @property
    def index_names(self) -> list[str]:
        """``r1`` to ``rM``, the columns of R-indices."""
        return [f"r{k + 1}" for k in range(self.n_patterns)]

    @property
    def regions(self) -> tuple[str, ...]:
        """The regions that a table must have."""
        return self.preprocessing.regions

    @property
    def has_distances(self) -> bool:
        """Whether distances from the training people can be judged."""
        return self.training is not None and len(self.training.distances) > 0


def _require(is_right: Callable[[Any], bool], message: str) -> AfterValidator:
    """Return a check of a field, with what it should be."""

    def check(value: Any) -> Any:
        if not is_right(value):
            raise ValueError(message)
        return value

    return AfterValidator(check)


def _require_one_of(choices: Collection[str]) -> AfterValidator:
    return _require(
        lambda value: value in choices, f"should be one of {', '.join(choices)}"
    )


Name = Annotated[
    str,
    _require(
        lambda name: name.strip() and "\n" not in name, "should be a name on one line"
    ),
]
_NamesOrNone = Annotated[
    list[Name],
    Field(max_length=MAX_DIMENSION),
    _require(
        lambda names: len(set(names)) == len(names), "should not hold a name twice"
    ),
]
Names = Annotated[_NamesOrNone, Field(min_length=1)]
Range = Annotated[
    list[float],
    _require(
        lambda ends: len(ends) == 2 and ends[0] <= ends[1],
        "should be a lowest and a highest value",
    ),
]
Size = Annotated[int, Field(ge=1, le=MAX_DIMENSION)]
Count = Annotated[int, Field(ge=1, lt=_MAX_INTEGER)]
Adjustment = Annotated[str, _require_one_of(ADJUSTMENTS)]


class NumericCoding(Record):
    """A covariate that is a number, with its range in controls, and whether its
    logarithm is adjusted for.

    Attributes
    ----------
    kind : {'numeric'}
    name : Name
    low : float
    high : float
    log : bool
    knots : tuple of float
        Of a restricted cubic spline. Empty for a straight line.
    """

    kind: Literal["numeric"]
    name: Name
    low: float
    high: float
    log: bool
    knots: Annotated[tuple[float, ...], Field(max_length=_MAX_KNOTS)] = ()

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.low > self.high:
            raise ValueError("should be a lowest and a highest value")
        if self.log and self.low <= 0:
            raise ValueError("should have a positive range, as its logarithm is taken")
        is_rising = all(a < b for a, b in pairwise(self.knots))
        if self.knots and (self.log or len(self.knots) < 3 or not is_rising):
            raise ValueError("should have three rising knots or more, or none")
        return self


class CategoricalCoding(Record):
    """A covariate with categories; the first is the reference.

    Attributes
    ----------
    kind : {'categorical'}
    name : Name
    levels : Names
    """

    kind: Literal["categorical"]
    name: Name
    levels: Names


class SiteCoding(Record):
    """Sites whose effects are removed, and the number of people that each effect was
    estimated from.

    Sites of a study whose totals alone are seen keep their effects to themselves.

    Attributes
    ----------
    mode : str
    sites : _NamesOrNone
    counts : list of Count
    reference : str or None
        Site whose scale is kept.
    """

    mode: Annotated[str, _require_one_of(HARMONISATION_MODES)]
    sites: _NamesOrNone
    counts: list[Count]
    reference: str | None = None

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        if len(self.counts) != len(self.sites):
            raise ValueError("should have one count for each site")
        if self.reference is not None and self.reference not in self.sites:
            raise ValueError("should name a reference among its sites")
        return self


class _MethodSettings(Record):
    """Settings of a method that are shown or computed with.

    Attributes
    ----------
    package : str
    epoch : int
    share : float
    """

    package: str = ""
    epoch: int = 0
    share: Annotated[float, Field(gt=0, le=1)] = 1.0


class _Method(Record):
    """Method of a model, with its settings.

    Attributes
    ----------
    name : Name
        Name of the method.
    settings : _MethodSettings
        Settings of the method.
    """

    name: Name
    settings: _MethodSettings


class ModelMetadata(Record):
    """Metadata that a model needs to be applied.

    Attributes
    ----------
    schema_version : int
        ``schema`` in the file.
    kind : str
        Kind of the heads, a key of `HEADS_BY_KIND`.
    members, n_patterns : Size
        S and M.
    regions : Names
        Names of the R regions.
    covariates : list of NumericCoding or CategoricalCoding
    unit : Name
    orders : list of list of int
        For each member, a permutation of its M patterns.
    sums : dict
        Regions that are sums of columns of a table, and their columns.
    training_distances, interval_knots : int or None
        Number of distances in training and of knots of the intervals. None if the
        file has none.
    adjust : Adjustment
    design_covariance : bool
        Whether the file holds the covariance of the covariates, from which missing
        ones are predicted.
    pipelines : int
        Number of members with a preprocessing of their own: all or none.
    harmonise : SiteCoding or None
    covariate_ranges : dict
    interval_over : str or None
        If not None, the file holds standard errors of the patterns.
    method : _Method or None
    centile_knots : int or None
        Number of knots of the centiles of healthy people. None if the file has none.
    """

    schema_version: Annotated[int, Field(ge=1, le=SCHEMA_VERSION, alias="schema")]
    kind: Annotated[str, _require_one_of(HEADS_BY_KIND)]
    members: Size
    n_patterns: Size
    regions: Names
    covariates: list[
        Annotated[NumericCoding | CategoricalCoding, Field(discriminator="kind")]
    ]
    unit: Name
    orders: list[list[int]]
    sums: dict[Name, Annotated[list[Name], Field(min_length=1)]]
    training_distances: Annotated[int, Field(ge=0, le=_MAX_LENGTH)] | None
    interval_knots: Annotated[int, Field(ge=1, le=_MAX_LENGTH)] | None
    adjust: Adjustment
    design_covariance: bool
    pipelines: Annotated[int, Field(ge=0, le=MAX_DIMENSION)]
    harmonise: SiteCoding | None = None
    covariate_ranges: dict[Name, Range] = Field(default_factory=dict)
    interval_over: str | None = None
    method: Annotated[_Method | None, BeforeValidator(lambda value: value or None)] = (
        None
    )
    centile_knots: Annotated[int, Field(ge=3, le=_MAX_LENGTH)] | None = None

    @model_validator(mode="after")
    def _check_fields_against_each_other(self) -> Self:
        names = [coding.name for coding in self.covariates]
        orders = [sorted(order) for order in self.orders]
        faults = {
            "covariates should not hold a name twice": len(set(names)) != len(names),
            "covariate_ranges should be ranges of the covariates": not set(
                self.covariate_ranges
            )
            <= set(names),
            "orders should be one order of the patterns for each member": len(orders)
            != self.members
            or any(order != [*range(self.n_patterns)] for order in orders),
            "pipelines should be one for each member, or none": self.pipelines
            not in (0, self.members),
            "sums should be sums of the regions": not set(self.sums)
            <= set(self.regions),
            "training_distances should be 0, or at least 3": self.training_distances
            in (1, 2),
        }
        for message, is_fault in faults.items():
            if is_fault:
                raise ValueError(message)
        return self

    def list_array_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the name and shape of every array that a model with these metadata
        has.
        """
        regions, patterns = len(self.regions), self.n_patterns
        columns = sum(
            1 + max(len(each.knots) - 2, 0)
            if isinstance(each, NumericCoding)
            else len(each.levels) - 1
            for each in self.covariates
        )
        shapes: dict[str, tuple[int, ...]] = {
            "residualise.centre": (columns,),
            "residualise.coefficients": (columns, regions),
            "standardise.mean": (regions,),
            "standardise.sd": (regions,),
        }
        if self.design_covariance:
            shapes["residualise.covariance"] = (columns, columns)
        if self.harmonise is not None:
            shapes |= Harmoniser.shapes(len(self.harmonise.sites), columns, regions)
        shapes |= {
            f"pipeline{k}.{name}": shape
            for k in range(self.pipelines)
            for name, shape in shapes.items()
        }
        shapes["patterns"] = (len(SEVERITY_LEVELS), patterns, regions)
        if self.interval_over is not None:
            shapes["patterns_se"] = shapes["patterns"]
        if self.training_distances is not None:
            shapes |= {
                "training.mean": (regions,),
                "training.covariance": (regions, regions),
            }
            shapes |= {
                "training.distances": (self.training_distances,),
                "training.limit": (),
            }
        if self.interval_knots is not None:
            interval_shapes = CalibratedIntervals.shapes(patterns, self.interval_knots)
            shapes |= {
                f"intervals.{name}": shape for name, shape in interval_shapes.items()
            }
        if self.centile_knots is not None:
            centile_shapes = CentileReference.shapes(patterns, self.centile_knots)
            shapes |= {
                f"centiles.{name}": shape for name, shape in centile_shapes.items()
            }
        for name, shape in HEADS_BY_KIND[self.kind].shapes(regions, patterns).items():
            shapes |= {f"member{k}.{name}": shape for k in range(self.members)}
        return shapes


MODEL_KEYS = frozenset(
    field.alias or name for name, field in ModelMetadata.model_fields.items()
) - set(ModelCard.model_fields)
"""Keys of the metadata that are not of the card."""
AnyRecord = TypeVar("AnyRecord", bound=Record)
AnyModel = TypeVar("AnyModel", bound=ModelContent)


def collect_arrays(model: ModelContent) -> dict[str, AnyArray]:
    """Return all arrays of a model by their names in the file."""
    parts: dict[str, Mapping[str, AnyArray]] = {
        f"member{k}": head.to_arrays() for k, head in enumerate(model.heads)
    }
    parts |= {
        f"pipeline{k}": pipeline.to_arrays()
        for k, pipeline in enumerate(model.pipelines)
    }
    optional = {
        "training": model.training,
        "intervals": model.intervals,
        "centiles": model.centiles,
    }
    for name, part in optional.items():
        if part is not None:
            parts[name] = {each.name: getattr(part, each.name) for each in fields(part)}
    arrays = {**model.preprocessing.to_arrays(), "patterns": model.patterns}
    if model.patterns_se is not None:
        arrays["patterns_se"] = model.patterns_se
    return arrays | {
        f"{prefix}.{name}": array
        for prefix, part in parts.items()
        for name, array in part.items()
    }


def write_model(model: ModelContent, path: Path) -> None:
    """Write a model to one ``.safetensors`` file.

    Raises
    ------
    ModelError
        If the file cannot be written.
    """
    metadata = {
        **model.card.to_dict(),
        **model.preprocessing.to_dict(),
        "schema": SCHEMA_VERSION,
        "kind": model.heads[0].kind,
        "n_patterns": model.n_patterns,
        "members": len(model.heads),
        "orders": [list(order) for order in model.orders],
        "pipelines": len(model.pipelines),
        "sums": {region: list(columns) for region, columns in model.sums.items()},
        "training_distances": None
        if model.training is None
        else len(model.training.distances),
        "interval_knots": None
        if model.intervals is None
        else model.intervals.knots.shape[1],
    }
    if model.centiles is not None:
        metadata["centile_knots"] = model.centiles.knots.shape[1]
    with explain_write_errors(str(path), ModelError, "check the folder"):
        write_safetensors(path, collect_arrays(model), metadata)


def read_model(path: Path, kind: type[AnyModel]) -> AnyModel:
    """Return the model in a file."""
    content = rename_method(read_metadata(path))
    _check_schema(path.name, content.get("schema"))
    metadata = parse_metadata(path, content, ModelMetadata)
    card = parse_metadata(
        path, {key: content[key] for key in content if key not in MODEL_KEYS}, ModelCard
    )
    arrays = read_arrays(path, metadata.list_array_shapes())
    parts: dict[str, dict[str, AnyArray]] = defaultdict(dict)
    for name, array in arrays.items():
        prefix, _, rest = name.partition(".")
        parts[prefix][rest] = array
    training = parts.get("training")
    head_kind = HEADS_BY_KIND[metadata.kind]
    model = kind(
        preprocessing=Preprocessing.from_parts(content, arrays),
        heads=tuple(
            head_kind.from_arrays(parts[f"member{k}"]) for k in range(metadata.members)
        ),
        orders=tuple(tuple(order) for order in metadata.orders),
        patterns=arrays["patterns"],
        patterns_se=arrays.get("patterns_se"),
        training=TrainingDistribution(**training) if training else None,
        card=card,
        intervals=_read_intervals(path.name, parts.get("intervals")),
        centiles=_read_centiles(path.name, parts.get("centiles"), card),
        sums={region: tuple(columns) for region, columns in metadata.sums.items()},
        pipelines=tuple(
            Preprocessing.from_parts(content, parts[f"pipeline{k}"])
            for k in range(metadata.pipelines)
        ),
    )
    _check_curves(path.name, model)
    return model


def parse_metadata(
    path: Path, content: Mapping[str, Any], kind: type[AnyRecord]
) -> AnyRecord:
    """Return checked metadata of a file; ModelError names the first value that is not
    as it should be.
    """
    if (fault := find_unsafe_value(content)) is not None:
        raise make_damage_error(path.name, " ".join(fault))
    try:
        return kind.from_dict(content)
    except ValueError as error:
        raise make_damage_error(path.name, str(error)) from None


def _check_schema(file: str, schema: Any) -> None:
    """Refuse a file that a later version wrote."""
    if type(schema) is int and schema > SCHEMA_VERSION:
        what = f"schema {schema} is newer than what rindices {__version__} reads"
        raise ModelError(
            Problem(
                severity=Severity.ERROR,
                what=what,
                where=file,
                cure="Update rindices",
                code=ProblemCode.NEWER_FILE,
            )
        )


def _read_intervals(
    file: str, arrays: dict[str, AnyArray] | None
) -> CalibratedIntervals | None:
    """Return the intervals of a model, if it has any."""
    if not arrays:
        return None
    fault = find_interval_fault(arrays["low"], arrays["middle"], arrays["high"])
    if fault:
        raise make_damage_error(file, f"intervals.middle {fault}")
    return CalibratedIntervals(**arrays)


def _read_centiles(
    file: str, arrays: dict[str, AnyArray] | None, card: ModelCard
) -> CentileReference | None:
    """Return the centiles of healthy people, if a model has any."""
    if arrays is None:
        return None
    if card.healthy is None:
        raise make_damage_error(file, "centiles need the record healthy")
    centiles = CentileReference(**arrays)
    if fault := centiles.find_fault():
        raise make_damage_error(file, f"centiles.{fault}")
    return centiles


def _check_curves(file: str, model: ModelContent) -> None:
    """Refuse members with curves whose arrays contradict each other, or whose mean is
    not ``patterns``.
    """
    curves = []
    for number, (head, order) in enumerate(zip(model.heads, model.orders, strict=True)):
        if not isinstance(head, TrajectoryHead):
            return
        if fault := head.find_fault():
            raise make_damage_error(file, f"member{number}.{fault}")
        curves.append(head.compute_curves(np.array(SEVERITY_LEVELS))[:, order])
    mean = np.mean(curves, axis=0)
    if not np.allclose(model.patterns, mean, rtol=0.0, atol=1e-6 * np.abs(mean).max()):
        raise make_damage_error(
            file, "patterns should be the mean of the members' curves"
        )


def find_unsafe_value(
    value: Any, place: str = "", depth: int = 0
) -> tuple[str, str] | None:
    """Find a value that no metadata may hold: numbers that are not finite or endless,
    control characters, deep nesting.

    Parameters
    ----------
    value : Any
        As read from JSON.
    place : str
        Keys that lead to it, joined by dots.
    depth : int
        Number of these keys.

    Returns
    -------
    tuple of str or None
        The place of the first such value, and what is wrong with it.
    """
    if isinstance(value, dict | list):
        if depth >= _MAX_DEPTH:
            return place, "is nested too deeply"
        keys = [(place, key) for key in value] if isinstance(value, dict) else []
        items = value.items() if isinstance(value, dict) else enumerate(value)
        inner = [(f"{place}.{key}" if place else str(key), item) for key, item in items]
        faults = (
            find_unsafe_value(item, path, depth + 1) for path, item in (*keys, *inner)
        )
        return next((fault for fault in faults if fault is not None), None)
    if isinstance(value, str):
        return (
            (place, "holds control characters") if _UNSAFE_TEXT.search(value) else None
        )
    if isinstance(value, float):
        return None if math.isfinite(value) else (place, "is not finite")
    return (
        (place, "is too large")
        if isinstance(value, int) and abs(value) >= _MAX_INTEGER
        else None
    )
