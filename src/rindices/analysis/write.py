"""Result tables as TSV files, each with a JSON data dictionary of the same name, as in BIDS."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rindices._version import __version__
from rindices.atomic import write_atomically, write_json
from rindices.errors import AnalysisError, describe_os_error
from rindices.tables.io.spreadsheet import protect_texts


def write_table(table: pd.DataFrame, path: Path, descriptions: dict[str, str], settings: dict[str, Any]) -> None:
    """Write a table and its data dictionary; missing folders are created.

    path: a .tsv file. The dictionary has the same name with .json; descriptions: description of each column; settings:
    options that the table was computed with.
    """
    columns = {name: {"Description": descriptions[name]} for name in table.columns}
    dictionary = {**columns, "GeneratedBy": {"Name": "rindices", "Version": __version__, **settings}}
    text = protect_texts(table).to_csv(None, sep="\t", index=False, na_rep="n/a", lineterminator="\n")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
        write_json(path.with_suffix(".json"), dictionary)
    except OSError as error:
        raise AnalysisError(
            f"cannot write {path} ({describe_os_error(error)}): give another folder with --out."
        ) from error


def as_records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as plain values for JSON; missing and infinite numbers become null."""
    return [{str(name): _to_json_value(value) for name, value in row.items()} for row in table.to_dict("records")]


def _to_json_value(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    if isinstance(value, np.generic):
        return value.item()
    return None if value is None or value is pd.NA else value
