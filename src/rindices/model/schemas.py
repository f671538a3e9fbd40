"""What a model file holds, schema by schema: every one that was ever written is read, for ever.

Nothing is believed before it is checked: metadata make sense, arrays are those that the metadata promise.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rindices._version import __version__
from rindices.errors import ModelError
from rindices.learners.inference import HEADS_BY_KIND, SEVERITY_LEVELS, ContrastiveHead, SurrealHead
from rindices.model.intervals import CalibratedIntervals
from rindices.model.novelty import TrainingDistribution
from rindices.model.records import ModelCard
from rindices.model.safetensors_io import read_arrays, read_metadata
from rindices.preprocess.harmonise import Harmoniser
from rindices.preprocess.pipeline import Preprocessing

SCHEMA_VERSION = 2
"""The schema that is written now."""
_REQUIRED_METADATA = ("kind", "members", "n_patterns", "regions", "covariates", "unit", "orders")
_MODEL_KEYS = frozenset(
    {"regions", "covariates", "harmonise", "schema", "kind", "n_patterns", "members", "orders"}
    | {"sums", "training_distances", "interval_knots"}
)


def read_model_parts(path: Path) -> dict[str, Any]:
    """Return the parts of the model in a file, by the name that `FittedModel` has for them."""
    metadata = read_metadata(path)
    schema = metadata.get("schema")
    if type(schema) is not int or schema not in _READERS:
        newer = type(schema) is int and schema > SCHEMA_VERSION
        cure = "update rindices" if newer else "the file is damaged"
        raise ModelError(f"{path.name} has schema {schema!r}, this is rindices {__version__}: {cure}.")
    return _READERS[schema](path, metadata)


def _read_schema_1(path: Path, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Read the first schema: preprocessing, members, patterns, mean and covariance of the training people."""
    return _read_model(path, metadata, {"training.mean": 1, "training.covariance": 2}, {})


def _read_schema_2(path: Path, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Read the second schema: sums of regions, distances among training people, intervals; the last two may lack."""
    distances, knots = (_read_optional_size(path, metadata, name) for name in ("training_distances", "interval_knots"))
    known = {} if distances is None else {"training.mean": 1, "training.covariance": 2}
    try:
        sums = {region: tuple(parts) for region, parts in metadata["sums"].items()}
        ranges = [(float(low), float(high)) for low, high in metadata.get("covariate_ranges", {}).values()]
        sane = set(sums) <= set(metadata["regions"]) and bool(np.isfinite(ranges).all())
        sane &= all(isinstance(part, str) for parts in sums.values() for part in parts)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"{path.name}: its regions or ranges make no sense ({error!r}); it is damaged.") from error
    if not sane:
        raise ModelError(f"{path.name}: its regions or ranges make no sense; the file is damaged.")
    more: dict[str, tuple[int, ...]] = {} if distances is None else {"training.distances": (distances,)}
    patterns = metadata.get("n_patterns")
    if knots is not None and type(patterns) is int:
        more |= {f"intervals.{name}": shape for name, shape in CalibratedIntervals.shapes(patterns, knots).items()}
    return _read_model(path, metadata, known, more) | {"sums": sums}


_READERS = {1: _read_schema_1, 2: _read_schema_2}


def _read_model(
    path: Path, metadata: Mapping[str, Any], by_region: Mapping[str, int], more: Mapping[str, tuple[int, ...]]
) -> dict[str, Any]:
    """Return the parts of a model by name.

    Parameters
    ----------
    by_region : mapping of str to int
        Arrays that the file must hold, all of whose axes are regions, and how many they have.
    more : mapping of str to tuple of int
        Arrays of these shapes that it must hold.
    """
    absent = [name for name in _REQUIRED_METADATA if name not in metadata]
    if absent:
        raise ModelError(f"{path.name}: its metadata lack {', '.join(absent)}; the file is damaged.")
    try:
        sizes = _read_sizes(metadata)
        kind = HEADS_BY_KIND[metadata["kind"]]
        expected = _list_expected_shapes(kind, metadata, *sizes)
        orders = tuple(tuple(int(place) for place in order) for order in metadata["orders"])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ModelError(f"{path.name}: its metadata make no sense ({error!r}); the file is damaged.") from error
    regions, patterns, members = sizes
    if len(orders) != members or any(sorted(order) != list(range(patterns)) for order in orders):
        raise ModelError(f"{path.name}: the order of its patterns makes no sense; the file is damaged.")
    arrays = read_arrays(path, expected | {name: (regions,) * axes for name, axes in by_region.items()} | dict(more))
    training, intervals = (_select_prefix(f"{name}.", arrays) for name in ("training", "intervals"))
    return {
        "preprocessing": Preprocessing.from_parts(metadata, arrays),
        "heads": tuple(kind.from_arrays(_select_prefix(f"member{place}.", arrays)) for place in range(members)),
        "orders": orders,
        "patterns": arrays["patterns"],
        "patterns_se": arrays.get("patterns_se"),
        "training": TrainingDistribution(**training) if training else None,
        "card": _read_card(path, metadata),
        "intervals": CalibratedIntervals(**intervals) if intervals else None,
    }


def _read_optional_size(path: Path, metadata: Mapping[str, Any], name: str) -> int | None:
    value = metadata.get(name, "nothing")
    if value is not None and (type(value) is not int or not 0 <= value <= 1_000_000):
        raise ModelError(f"{path.name}: its {name} cannot be {value!r:.50}; the file is damaged.")
    return value


def _read_sizes(metadata: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return regions, patterns and members, each a sane number."""
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
    """Return the name and shape of every array that the file must hold."""
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
    if metadata.get("harmonise") is not None:  # models without sites, and files older than harmonisation, have none
        shapes |= Harmoniser.shapes(metadata["harmonise"], columns, regions)
    for place in range(members):
        shapes |= {f"member{place}.{name}": shape for name, shape in kind.shapes(regions, patterns).items()}
    return shapes


def _select_prefix(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _read_card(path: Path, metadata: Mapping[str, Any]) -> ModelCard:
    """Return what the file says beside what is needed to apply the model."""
    try:
        return ModelCard.from_dict({key: value for key, value in metadata.items() if key not in _MODEL_KEYS})
    except ValueError as error:
        raise ModelError(f"{path.name}: its metadata make no sense ({error}); the file is damaged.") from error
