"""R-indices as a table on disk, with what each column means beside it, as in BIDS."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from rindices.atomic import write_atomically
from rindices.errors import ModelError, reason
from rindices.tables.cohort import GROUP, ID, SESSION


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
            write_json(beside, dictionary(indices))
    except OSError as error:
        raise ModelError(f"cannot write {path} ({reason(error)}): give another place with --out.") from error


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


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write plain values, readable and whole or not at all."""
    write_atomically(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())
