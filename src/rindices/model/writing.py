"""Write a model to its file; `rindices.model.schemas` reads it."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from rindices._typing import FloatArray
from rindices.errors import ModelError, describe_os_error
from rindices.model.intervals import CalibratedIntervals
from rindices.model.safetensors_io import write_safetensors
from rindices.model.schemas import SCHEMA_VERSION
from rindices.model.unusual import TrainingDistribution

if TYPE_CHECKING:
    from rindices.model.fitted import FittedModel


def write_model(model: FittedModel, path: Path) -> None:
    """Write a model to one ``.safetensors`` file.

    Raises ModelError: if the file cannot be written.
    """
    arrays = {**model.preprocessing.to_arrays(), "patterns": model.patterns}
    for index, head in enumerate(model.heads):
        arrays |= {f"member{index}.{name}": array for name, array in head.to_arrays().items()}
    for index, pipeline in enumerate(model.pipelines):
        arrays |= {f"pipeline{index}.{name}": array for name, array in pipeline.to_arrays().items()}
    if model.patterns_se is not None:
        arrays |= {"patterns_se": model.patterns_se}
    for name, part in (("training", model.training), ("intervals", model.intervals)):
        arrays |= {} if part is None else {f"{name}.{key}": array for key, array in _collect_arrays(part).items()}
    metadata = model.card.to_dict() | model.preprocessing.to_dict()
    metadata |= {"schema": SCHEMA_VERSION, "kind": model.heads[0].kind, "n_patterns": model.n_patterns}
    metadata |= {"members": len(model.heads), "orders": [list(order) for order in model.orders]}
    metadata |= {"pipelines": len(model.pipelines)}
    metadata |= {"sums": {region: list(parts) for region, parts in model.sums.items()}}
    metadata |= {"training_distances": None if model.training is None else len(model.training.distances)}
    metadata |= {"interval_knots": None if model.intervals is None else model.intervals.knots.shape[1]}
    try:
        write_safetensors(path, arrays, metadata)
    except OSError as error:
        raise ModelError(f"cannot write {path} ({describe_os_error(error)}): check the folder.") from error


def _collect_arrays(part: TrainingDistribution | CalibratedIntervals) -> dict[str, FloatArray]:
    return {field.name: getattr(part, field.name) for field in fields(part)}
