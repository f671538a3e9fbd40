"""What the commands of statistics share: reading tables, writing results, printing them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rindices.cli.console import print_json, print_problems

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from rindices.errors import Findings
    from rindices.tables.cohort import Cohort
    from rindices.tables.table import ColumnRoles


def raise_errors(findings: "Findings") -> None:
    """Stop at errors, say everything else."""
    from rindices.errors import TableError

    if findings.errors():
        raise TableError(findings.errors())
    print_problems(findings)


def read_indices_and_regions(
    indices: Path,
    tables: "Sequence[Path]",
    participants: Path | None,
    roles: "ColumnRoles",
    labels: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]],
) -> "tuple[pd.DataFrame, Cohort]":
    """Read R-indices and the regions of the same people; warnings are said.

    Parameters
    ----------
    labels : tuple of tuple of str
        Labels of controls and of patients, regions to leave out.
    """
    from rindices.analysis.tidy import add_groups
    from rindices.errors import Findings, ProblemCode, Severity, format_count
    from rindices.tables.io.indices import read_indices
    from rindices.tables.validation.validate import TableRequest, validate_table

    findings = Findings()
    found = read_indices(indices, findings)
    result = validate_table(TableRequest(tuple(tables), participants, roles, *labels, measure="any", on_missing="drop"))
    cohort = result.cohort_or_raise()
    people = add_groups(found, cohort)
    if len(people) < len(found):
        absent = format_count(len(found) - len(people), "person is", "people are")
        what = f"{absent} not in the tables, or lack a value there; left out"
        findings.warn(ProblemCode.UNMATCHED_IDS, what, indices.name)
    findings.problems += [problem for problem in result.problems if problem.severity is Severity.WARNING]
    raise_errors(findings)
    return people, cohort


def read_images(people: "pd.DataFrame", source: Path, column: str) -> "pd.DataFrame":
    """Read a column of image paths, taken from the folder of its table: ``participant_id`` and ``image``."""
    import pandas as pd

    from rindices.errors import Findings, TableError, did_you_mean
    from rindices.tables.table import ColumnRoles, read_participants

    findings = Findings()
    table = read_participants(source, ColumnRoles(), list(people["participant_id"]), findings)
    raise_errors(findings)
    if column not in table.frame:
        raise TableError(f"{source.name} has no column '{column}' of images: {did_you_mean(column, list(table.frame))}")
    paths = [str(source.parent / path) if isinstance(path, str) else None for path in table.frame[column]]
    frame = pd.DataFrame({"participant_id": table.ids, "image": paths})
    return frame if table.sessions is None else frame.assign(session_id=table.sessions)


def write_results(
    table: "pd.DataFrame", path: Path, meaning: dict[str, str], how: dict[str, Any], as_json: bool, told: str
) -> None:
    """Write a tidy table with its data dictionary beside it; print it as JSON, or one line about it.

    Parameters
    ----------
    meaning : dict
        What each column is.
    how : dict
        How the table was made: options, versions.
    told : str
        What there is to say to someone who did not ask for JSON.
    """
    from rindices.analysis.write import as_records, write_table

    write_table(table, path, meaning, how)
    if as_json:
        print_json({"out": str(path), **how, "results": as_records(table)})
    else:
        typer.echo(told)
        typer.echo(f"written to {path}", err=True)
