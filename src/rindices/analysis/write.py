"""Tidy tables on disk: TSV, with what each column means and how it was made beside it, as in BIDS."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rindices._version import __version__
from rindices.atomic import write_atomically, write_json
from rindices.errors import AnalysisError, describe_os_error


def write_table(table: pd.DataFrame, path: Path, meaning: dict[str, str], how: dict[str, Any]) -> None:
    """Write ``path`` (a .tsv) and its data dictionary, the same name with .json; folders are made."""
    columns = {name: {"Description": meaning[name]} for name in table.columns}
    beside = {**columns, "GeneratedBy": {"Name": "rindices", "Version": __version__, **how}}
    text = table.to_csv(None, sep="\t", index=False, na_rep="n/a", lineterminator="\n")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
        write_json(path.with_suffix(".json"), beside)
    except OSError as error:
        raise AnalysisError(
            f"cannot write {path} ({describe_os_error(error)}): give another place with --out."
        ) from error


def as_records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as plain values for JSON; what is missing or not finite is null."""
    return [{str(name): _to_json_value(value) for name, value in row.items()} for row in table.to_dict("records")]


def _to_json_value(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    if isinstance(value, np.generic):
        return value.item()
    return None if value is None or value is pd.NA else value
