"""Read model files.

Metadata are checked before they are used, and arrays must be those that the metadata announce.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from rindices._typing import AnyArray, FloatArray
from rindices._version import __version__
from rindices.array_checks import find_interval_fault
from rindices.errors import ModelError, Problem, ProblemCode, Severity, make_damage_error
from rindices.learners.inference import HEADS_BY_KIND, SEVERITY_LEVELS, MemberHead, TrajectoryHead
from rindices.model.intervals import CalibratedIntervals
from rindices.model.metadata import (
    ModelMetadata,
    find_unsafe_value,
    validate_metadata,
)
from rindices.model.records import ModelCard
from rindices.model.safetensors_io import read_arrays, read_metadata
from rindices.model.summed_regions import RegionSums
from rindices.model.unusual import TrainingDistribution
from rindices.preprocess.harmonise import Harmoniser
from rindices.preprocess.normal_scores import SCORES
from rindices.preprocess.pipeline import Preprocessing

SCHEMA_VERSION = 1
"""The schema that is written and read."""
_MODEL_KEYS = frozenset(
    {"regions", "covariates", "adjust", "harmonise", "schema", "kind", "n_patterns", "members", "orders"}
    | {"sums", "training_distances", "interval_knots", "design_covariance", "pipelines"}
)


class ModelParts(TypedDict):
    """Attributes of a `FittedModel` by name."""

    preprocessing: Preprocessing
    heads: tuple[MemberHead, ...]
    orders: tuple[tuple[int, ...], ...]
    patterns: FloatArray
    patterns_se: FloatArray | None
    training: TrainingDistribution | None
    card: ModelCard
    intervals: CalibratedIntervals | None
    sums: RegionSums
    pipelines: tuple[Preprocessing, ...]


def read_model_parts(path: Path) -> ModelParts:
    """Return the attributes of the model in a file."""
    content = read_metadata(path)
    schema = content.get("schema")
    if type(schema) is not int or schema != SCHEMA_VERSION:
        raise _refuse_schema(path, schema)
    if (fault := find_unsafe_value(content)) is not None:
        raise make_damage_error(path.name, " ".join(fault), fault[0])
    metadata = validate_metadata(path.name, content, ModelMetadata)
    arrays = read_arrays(path, list_array_shapes(metadata))
    training, intervals = (_select_prefix(f"{name}.", arrays) for name in ("training", "intervals"))
    if intervals and (what := find_interval_fault(intervals["low"], intervals["middle"], intervals["high"])):
        raise make_damage_error(path.name, f"intervals.middle {what}", "intervals.middle")
    kind = HEADS_BY_KIND[metadata.kind]
    heads = tuple(kind.from_arrays(_select_prefix(f"member{k}.", arrays)) for k in range(metadata.members))
    _check_curves(path.name, heads, metadata.orders, arrays["patterns"])
    return {
        "preprocessing": Preprocessing.from_parts(content, arrays),
        "heads": heads,
        "orders": tuple(tuple(order) for order in metadata.orders),
        "patterns": arrays["patterns"],
        "patterns_se": arrays.get("patterns_se"),
        "training": TrainingDistribution(**training) if training else None,
        "card": _read_card(path, content),
        "intervals": CalibratedIntervals(**intervals) if intervals else None,
        "sums": {region: tuple(parts) for region, parts in metadata.sums.items()},
        "pipelines": tuple(
            Preprocessing.from_parts(content, _select_prefix(f"pipeline{k}.", arrays))
            for k in range(metadata.pipelines)
        ),
    }


def _check_curves(
    file: str, heads: Sequence[MemberHead], orders: Sequence[Sequence[int]], patterns: FloatArray
) -> None:
    """Refuse members with curves whose arrays contradict each other, or whose mean is not ``patterns`` (Q, M, R)."""
    curves = []
    for number, (head, order) in enumerate(zip(heads, orders, strict=True)):
        if not isinstance(head, TrajectoryHead):
            return
        if fault := head.find_fault():
            raise make_damage_error(file, f"member{number}.{fault}", f"member{number}")
        curves.append(head.compute_curves(np.array(SEVERITY_LEVELS))[:, order])
    mean = np.mean(curves, axis=0)
    if not np.allclose(patterns, mean, rtol=0.0, atol=1e-6 * np.abs(mean).max()):
        raise make_damage_error(file, "patterns should be the mean of the members' curves", "patterns")


def _refuse_schema(path: Path, schema: Any) -> ModelError:
    """Return the error about a schema that this version does not read."""
    if type(schema) is not int or schema < 1:
        return make_damage_error(path.name, f"schema should be {SCHEMA_VERSION}", "schema")
    what = f"schema {schema} is newer than what rindices {__version__} reads"
    return ModelError(Problem(Severity.ERROR, what, path.name, "Update rindices", ProblemCode.NEWER_FILE, "schema"))


def list_array_shapes(metadata: ModelMetadata) -> dict[str, tuple[int, ...]]:
    """Return the name and shape of every array that a model with these metadata has."""
    regions, patterns, columns = len(metadata.regions), metadata.n_patterns, metadata.n_columns
    shapes: dict[str, tuple[int, ...]] = {
        "residualise.centre": (columns,),
        "residualise.coefficients": (columns, regions),
        "standardise.mean": (regions,),
        "standardise.sd": (regions,),
    }
    if metadata.design_covariance:
        shapes["residualise.covariance"] = (columns, columns)
    if metadata.adjust == "rank":
        shapes["normal_scores.quantiles"] = (len(SCORES), regions)
    if metadata.harmonise is not None:
        shapes |= Harmoniser.shapes(len(metadata.harmonise.sites), columns, regions)
    shapes |= {f"pipeline{k}.{name}": shape for k in range(metadata.pipelines) for name, shape in shapes.items()}
    shapes["patterns"] = (len(SEVERITY_LEVELS), patterns, regions)
    if metadata.interval_over is not None:
        shapes["patterns_se"] = shapes["patterns"]
    if metadata.training_distances is not None:
        shapes |= {"training.mean": (regions,), "training.covariance": (regions, regions)}
        shapes |= {"training.distances": (metadata.training_distances,), "training.limit": ()}
    if metadata.interval_knots is not None:
        interval_shapes = CalibratedIntervals.shapes(patterns, metadata.interval_knots)
        shapes |= {f"intervals.{name}": shape for name, shape in interval_shapes.items()}
    for name, shape in HEADS_BY_KIND[metadata.kind].shapes(regions, patterns).items():
        shapes |= {f"member{index}.{name}": shape for index in range(metadata.members)}
    return shapes


def _select_prefix(prefix: str, arrays: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _read_card(path: Path, metadata: Mapping[str, Any]) -> ModelCard:
    """Return the metadata that are not needed to apply the model."""
    try:
        return ModelCard.from_dict({key: value for key, value in metadata.items() if key not in _MODEL_KEYS})
    except ValueError as error:
        raise make_damage_error(path.name, str(error)) from None
