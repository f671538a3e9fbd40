"""R-indices as a file, with a data dictionary of its columns as in BIDS."""

import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from rindices.atomic import atomic_path, write_json
from rindices.errors import ModelError, describe_os_error
from rindices.tables.cohort import GROUP, ID, SESSION
from rindices.tables.io.spreadsheet import protect_texts
from rindices.wording import get_wording

SEPARATORS = {".csv": ",", ".tsv": "\t"}
_INTERVAL_DESCRIPTION = "{} end of the 90 % interval of {}: of what it would be if severity alone decided it"


def write_indices(indices: pd.DataFrame, path: Path, unit: str = "") -> None:
    """Write R-indices as csv, tsv or parquet.

    path: its suffix decides the format. A text table gets a data dictionary in a .json file of the same name; unit:
    unit of the model, for the words of the data dictionary. Raises ModelError: for another suffix, or if the file
    cannot be written.
    """
    try:
        if path.suffix == ".parquet":
            _write_parquet(indices, path)
            return
        separator = SEPARATORS.get(path.suffix)
        if separator is None:
            raise ModelError(f"{path.name}: results are written as .csv, .tsv or .parquet; give one of these suffixes.")
        with atomic_path(path) as temporary_path:
            protect_texts(indices).to_csv(temporary_path, sep=separator, index=False, lineterminator="\n")
            check_people_count(len(indices), count_rows(temporary_path), path)
        write_data_dictionary(path, list(indices.columns), unit)
    except OSError as error:
        raise ModelError(f"cannot write {path} ({describe_os_error(error)}): give another place with --out.") from error


def count_rows(path: Path, header: bool = True) -> int:
    """Return the number of rows in a file of R-indices: lines of text, or what parquet says."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        return int(pq.read_metadata(path).num_rows)
    with path.open("rb") as file:
        return sum(content.count(b"\n") for content in iter(lambda: file.read(1_000_000), b"")) - header


def check_people_count(expected: int, written: int, out: Path) -> None:
    """Raise an error if a file holds another number of people than it should."""
    if expected != written:
        raise ModelError(
            f"{expected:,} people should be in {out} and {written:,} are: it is not complete. Run the command again."
        )


def write_data_dictionary(path: Path, columns: Sequence[str], unit: str = "") -> None:
    """Write the data dictionary of a text table, unless there is a file of this name with other content."""
    dictionary = path.with_suffix(".json")
    if _may_write_dictionary(dictionary):
        write_json(dictionary, describe_columns(columns, unit))


def _may_write_dictionary(path: Path) -> bool:
    """Return whether there is no such file, or a data dictionary of R-indices."""
    try:
        return not path.exists() or "r1" in json.loads(path.read_text("utf-8"))
    except (ValueError, TypeError):
        return False


def describe_columns(columns: Sequence[str], unit: str = "") -> dict[str, dict[str, object]]:
    """Return the data dictionary of columns of R-indices, in the words for the unit of a model."""
    reasons = get_wording(unit)("Why: regions with their distance, covariates out of range, another unit")
    fixed: dict[str, dict[str, object]] = {
        ID: {"Description": "Participant"},
        SESSION: {"Description": "Session"},
        GROUP: {"Description": "Group in training", "Levels": {"control": "reference group", "patient": "patient"}},
        "unusual": {
            "Description": "Share of training people who are less unusual, from 0 (ordinary) to 1 (never seen)"
        },
        "novel": {
            "Description": "Whether the model was not made for such people: unusual well above 0.95, or another reason"
        },
        "novel_because": {"Description": reasons},
        "members_behind": {
            "Description": "Number of ensemble members, of those that were not trained on this person, whose mean the "
            "R-indices are; without any, R-indices are empty"
        },
    }
    severity = (
        "Severity of disease pattern {}; 0 is none, 1 the most severe patients. The posterior mean of the severity in "
        "models of recipe default; in others 0 is the average control, and values below 0 or above 1 occur"
    )
    if GROUP in columns and "members_behind" not in columns:
        severity += ". In-sample: all ensemble members were trained on these people, which flatters them"
    ends = {"low": "Lower", "high": "Upper"}
    descriptions: dict[str, dict[str, object]] = {}
    for name in columns:
        index, _, end = name.partition("_")
        if name in fixed:
            descriptions[name] = fixed[name]
        elif end in ends:
            descriptions[name] = {"Description": _INTERVAL_DESCRIPTION.format(ends[end], index), "Units": "arbitrary"}
        else:
            descriptions[name] = {"Description": severity.format(name.removeprefix("r")), "Units": "arbitrary"}
    return descriptions


def _write_parquet(indices: pd.DataFrame, path: Path) -> None:
    try:
        with atomic_path(path) as temporary_path:
            indices.to_parquet(temporary_path, index=False)
            check_people_count(len(indices), count_rows(temporary_path), path)
    except ImportError as error:
        raise ModelError("writing parquet needs pyarrow: pip install 'rindices[parquet]'.") from error
