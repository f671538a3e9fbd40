"""Read model files of every schema that was ever written.

Metadata are checked before they are used, and arrays must be those that the metadata announce.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from rindices._typing import AnyArray, FloatArray
from rindices._version import __version__
from rindices.errors import ModelError
from rindices.learners.inference import HEADS_BY_KIND, SEVERITY_LEVELS, ContrastiveHead, SurrealHead
from rindices.model.intervals import CalibratedIntervals
from rindices.model.novelty import TrainingDistribution
from rindices.model.records import ModelCard
from rindices.model.safetensors_io import read_arrays, read_metadata
from rindices.model.summed_regions import RegionSums
from rindices.preprocess.harmonise import Harmoniser
from rindices.preprocess.pipeline import Preprocessing

SCHEMA_VERSION = 2
"""The schema that is written now."""
_REQUIRED_METADATA = ("kind", "members", "n_patterns", "regions", "covariates", "unit", "orders")
_MODEL_KEYS = frozenset(
    {"regions", "covariates", "harmonise", "schema", "kind", "n_patterns", "members", "orders"}
    | {"sums", "training_distances", "interval_knots"}
)


class ModelParts(TypedDict):
    """Attributes of a `FittedModel` by name."""

    preprocessing: Preprocessing
    heads: tuple[ContrastiveHead | SurrealHead, ...]
    orders: tuple[tuple[int, ...], ...]
    patterns: FloatArray
    patterns_se: FloatArray | None
    training: TrainingDistribution | None
    card: ModelCard
    intervals: CalibratedIntervals | None
    sums: RegionSums


def read_model_parts(path: Path) -> ModelParts:
    """Return the attributes of the model in a file."""
    metadata = read_metadata(path)
    schema = metadata.get("schema")
    if type(schema) is not int or schema not in _READERS:
        newer = type(schema) is int and schema > SCHEMA_VERSION
        cure = "update rindices" if newer else "the file is damaged"
        raise ModelError(f"{path.name} has schema {schema!r}, this is rindices {__version__}: {cure}.")
    return _READERS[schema](path, metadata)


def _read_schema_1(path: Path, metadata: Mapping[str, Any]) -> ModelParts:
    """Read the first schema: preprocessing, members, patterns, mean and covariance of the training people."""
    return _read_model(path, metadata, {"training.mean": 1, "training.covariance": 2}, {})


def _read_schema_2(path: Path, metadata: Mapping[str, Any]) -> ModelParts:
    """Read the second schema, with sums of regions and, optionally, distances of training people and intervals."""
    distances, knots = (_read_optional_size(path, metadata, name) for name in ("training_distances", "interval_knots"))
    training = {} if distances is None else {"training.mean": 1, "training.covariance": 2}
    try:
        sums = {region: tuple(parts) for region, parts in metadata["sums"].items()}
        ranges = [(float(low), float(high)) for low, high in metadata.get("covariate_ranges", {}).values()]
        is_valid = set(sums) <= set(metadata["regions"]) and bool(np.isfinite(ranges).all())
        is_valid &= all(isinstance(part, str) for parts in sums.values() for part in parts)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"{path.name}: its regions or ranges make no sense ({error!r}); it is damaged.") from error
    if not is_valid:
        raise ModelError(f"{path.name}: its regions or ranges make no sense; the file is damaged.")
    shapes: dict[str, tuple[int, ...]] = {} if distances is None else {"training.distances": (distances,)}
    patterns = metadata.get("n_patterns")
    if knots is not None and type(patterns) is int:
        shapes |= {f"intervals.{name}": shape for name, shape in CalibratedIntervals.shapes(patterns, knots).items()}
    return {**_read_model(path, metadata, training, shapes), "sums": sums}


_READERS = {1: _read_schema_1, 2: _read_schema_2}


def _read_model(
    path: Path, metadata: Mapping[str, Any], by_region: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]
) -> ModelParts:
    """Return the attributes that all schemas have.

    Parameters
    ----------
    by_region : mapping of str to int
        Further arrays whose axes are all regions, and the number of their axes.
    shapes : mapping of str to tuple of int
        Further arrays and their shapes.
    """
    missing = [name for name in _REQUIRED_METADATA if name not in metadata]
    if missing:
        raise ModelError(f"{path.name}: its metadata lack {', '.join(missing)}; the file is damaged.")
    try:
        sizes = _read_sizes(metadata)
        kind = HEADS_BY_KIND[metadata["kind"]]
        expected = _list_expected_shapes(kind, metadata, *sizes)
        orders = tuple(tuple(int(column) for column in order) for order in metadata["orders"])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ModelError(f"{path.name}: its metadata make no sense ({error!r}); the file is damaged.") from error
    regions, patterns, members = sizes
    if len(orders) != members or any(sorted(order) != list(range(patterns)) for order in orders):
        raise ModelError(f"{path.name}: the order of its patterns makes no sense; the file is damaged.")
    arrays = read_arrays(path, expected | {name: (regions,) * axes for name, axes in by_region.items()} | dict(shapes))
    training, intervals = (_select_prefix(f"{name}.", arrays) for name in ("training", "intervals"))
    return {
        "preprocessing": Preprocessing.from_parts(metadata, arrays),
        "heads": tuple(kind.from_arrays(_select_prefix(f"member{index}.", arrays)) for index in range(members)),
        "orders": orders,
        "patterns": arrays["patterns"],
        "patterns_se": arrays.get("patterns_se"),
        "training": TrainingDistribution(**training) if training else None,
        "card": _read_card(path, metadata),
        "intervals": CalibratedIntervals(**intervals) if intervals else None,
        "sums": {},
    }


def _read_optional_size(path: Path, metadata: Mapping[str, Any], name: str) -> int | None:
    value = metadata.get(name, "nothing")
    if value is not None and (type(value) is not int or not 0 <= value <= 1_000_000):
        raise ModelError(f"{path.name}: its {name} cannot be {value!r:.50}; the file is damaged.")
    return value


def _read_sizes(metadata: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return the numbers of regions, patterns and members, after checking them."""
    regions = metadata["regions"]
    if not isinstance(regions, list) or not all(isinstance(name, str) for name in regions):
        raise ValueError("regions")
    sizes = (len(regions), metadata["n_patterns"], metadata["members"])
    if len(set(regions)) != len(regions) or not all(type(s) is int and 0 < s <= 100_000 for s in sizes):
        raise ValueError("sizes")
    return sizes


def _list_expected_shapes(
    kind: type[ContrastiveHead] | type[SurrealHead],
    metadata: Mapping[str, Any],
    regions: int,
    patterns: int,
    members: int,
) -> dict[str, tuple[int, ...]]:
    """Return the name and shape of every array of a model."""
    columns = sum(1 if coding["kind"] == "numeric" else len(coding["levels"]) - 1 for coding in metadata["covariates"])
    shapes: dict[str, tuple[int, ...]] = {
        "residualise.centre": (columns,),
        "residualise.coefficients": (columns, regions),
        "standardise.mean": (regions,),
        "standardise.sd": (regions,),
        "patterns": (len(SEVERITY_LEVELS), patterns, regions),
    }
    if metadata.get("interval_over") is not None:
        shapes["patterns_se"] = shapes["patterns"]
    if metadata.get("harmonise") is not None:  # absent in older files
        shapes |= Harmoniser.shapes(metadata["harmonise"], columns, regions)
    for index in range(members):
        shapes |= {f"member{index}.{name}": shape for name, shape in kind.shapes(regions, patterns).items()}
    return shapes


def _select_prefix(prefix: str, arrays: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _read_card(path: Path, metadata: Mapping[str, Any]) -> ModelCard:
    """Return the metadata that are not needed to apply the model."""
    try:
        return ModelCard.from_dict({key: value for key, value in metadata.items() if key not in _MODEL_KEYS})
    except ValueError as error:
        raise ModelError(f"{path.name}: its metadata make no sense ({error}); the file is damaged.") from error
