"""What a study leaves behind: the model, the R-indices with their data dictionary, how they were chosen."""

from pathlib import Path
from typing import Any

from rindices.model.fitted import FittedModel
from rindices.model.indices import write_indices, write_json
from rindices.tables.cohort import GROUP, Cohort


def write_study(folder: Path, model: FittedModel, cohort: Cohort) -> None:
    """Write ``model.safetensors``, ``r_indices.tsv`` with its ``.json``, and ``selection.json``."""
    indices = model.apply(cohort)
    indices.insert(indices.columns.get_loc("r1"), GROUP, cohort.people[GROUP].to_numpy())
    write_indices(indices, folder / "r_indices.tsv")
    write_selection(folder, dict(model.selection or {}))
    model.save(folder / "model.safetensors")  # last: where it stands, all stands


def write_selection(folder: Path, selection: dict[str, Any]) -> None:
    """Write ``selection.json``: what was compared, what was chosen."""
    write_json(folder / "selection.json", selection)


def clear_outputs(folder: Path) -> None:
    """Remove an earlier answer, so that a study that fails or is interrupted leaves none that is not its own."""
    for name in ("model.safetensors", "r_indices.tsv", "r_indices.json", "selection.json"):
        (folder / name).unlink(missing_ok=True)
