"""What a study leaves behind: the model, the R-indices with their data dictionary, how they were chosen."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from rindices.atomic import write_atomically
from rindices.errors import ModelError, StudyError, reason
from rindices.model.fitted import FittedModel
from rindices.tables.cohort import GROUP, ID, SESSION, Cohort


def write_study(folder: Path, model: FittedModel, cohort: Cohort) -> None:
    """Write ``model.safetensors``, ``r_indices.tsv`` with its ``.json``, and ``selection.json``."""
    indices = model.apply(cohort)
    indices.insert(indices.columns.get_loc("r1"), GROUP, cohort.people[GROUP].to_numpy())
    write_indices(indices, folder / "r_indices.tsv")
    write_selection(folder, dict(model.selection or {}))
    model.save(folder / "model.safetensors")  # last: where it stands, all stands


def write_selection(folder: Path, selection: dict[str, Any]) -> None:
    """Write ``selection.json``: what was compared, what was chosen."""
    _write_json(folder / "selection.json", selection)


def clear_outputs(folder: Path) -> None:
    """Remove an earlier answer, so that a study that fails or is interrupted leaves none that is not its own."""
    for name in ("model.safetensors", "r_indices.tsv", "r_indices.json", "selection.json"):
        (folder / name).unlink(missing_ok=True)


def write_indices(indices: pd.DataFrame, path: Path) -> None:
    """Write R-indices as csv, tsv or parquet by suffix; a text table gets a data dictionary beside it, as in BIDS."""
    try:
        if path.suffix == ".parquet":
            _write_parquet(indices, path)
            return
        separator = {".csv": ",", ".tsv": "\t"}.get(path.suffix)
        if separator is None:
            raise ModelError(f"{path.name}: results are written as .csv, .tsv or .parquet; give one of these suffixes.")
        text = indices.to_csv(None, sep=separator, index=False, lineterminator="\n")
        write_atomically(path, text.encode())
        beside = path.with_suffix(".json")
        if _is_ours(beside):
            _write_json(beside, dictionary(indices))
    except OSError as error:
        raise StudyError(f"cannot write {path} ({reason(error)}): give another place with --out.") from error


def _is_ours(path: Path) -> bool:
    """Return whether a data dictionary may be written: there is none, or one of R-indices."""
    try:
        return not path.exists() or "r1" in json.loads(path.read_text("utf-8"))
    except (ValueError, TypeError):
        return False


def dictionary(indices: pd.DataFrame) -> dict[str, Any]:
    """Return what each column means."""
    known = {
        ID: {"Description": "Participant"},
        SESSION: {"Description": "Session"},
        GROUP: {"Description": "Group in training", "Levels": {"control": "reference group", "patient": "patient"}},
    }
    severity = "Severity of disease pattern {}; 0 is the average control, 1 the most severe patients; not cut there"
    found = {name: known[name] for name in indices.columns if name in known}
    for name in indices.columns:
        if name not in known:
            found[name] = {"Description": severity.format(name.removeprefix("r")), "Units": "arbitrary"}
    return found


def _write_parquet(indices: pd.DataFrame, path: Path) -> None:
    try:
        indices.to_parquet(path, index=False)
    except ImportError as error:
        raise ModelError("writing parquet needs pyarrow: pip install 'rindices[parquet]'.") from error


def _write_json(path: Path, value: dict[str, Any]) -> None:
    write_atomically(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())
