"""Read tables, and write and print results, for the commands of statistics."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rindices.cli.console import print_json, print_problems

if TYPE_CHECKING:
    import pandas as pd

    from rindices.errors import Findings
    from rindices.tables.cohort import Cohort
    from rindices.tables.validate import TableRequest


def raise_errors(findings: "Findings") -> None:
    """Raise the errors, if there are any, else print all problems."""
    from rindices.errors import TableError

    if findings.errors():
        raise TableError(findings.errors())
    print_problems(findings)


def read_indices_and_regions(indices: Path, request: "TableRequest") -> "tuple[pd.DataFrame, Cohort]":
    """Read R-indices with groups and the regions of the same people, and print warnings.

    request: regions of all measures are read, and people who lack a value are left out.
    """
    from rindices.analysis.tidy import add_groups
    from rindices.errors import Findings, ProblemCode, Severity, format_count
    from rindices.tables.readers import read_indices
    from rindices.tables.validate import validate_table
    from rindices.tables.validation.values import ALL_MEASURES

    findings = Findings()
    table = read_indices(indices, findings)
    result = validate_table(replace(request, measure=request.measure or ALL_MEASURES, on_missing="drop"))
    cohort = result.cohort_or_raise()
    people = add_groups(table, cohort)
    if len(people) < len(table):
        absent = format_count(len(table) - len(people), "person is", "people are")
        what = f"{absent} not in the tables, or lack a value there; left out"
        findings.at(indices.name).warn(ProblemCode.UNMATCHED_IDS, what)
    findings.problems += [problem for problem in result.problems if problem.severity is Severity.WARNING]
    raise_errors(findings)
    return people, cohort


def read_images(people: "pd.DataFrame", source: Path, column: str) -> "pd.DataFrame":
    """Read ``participant_id`` and ``image`` from a table; paths are relative to the folder of the table."""
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
    table: "pd.DataFrame",
    path: Path,
    descriptions: dict[str, str],
    settings: dict[str, Any],
    as_json: bool,
    summary: str,
) -> None:
    """Write a table and its data dictionary, and print it as JSON or as a summary.

    descriptions: description of each column; settings: options and versions that led to the table.
    """
    from rindices.analysis.write import as_records, write_table

    write_table(table, path, descriptions, settings)
    if as_json:
        print_json({"out": str(path), **settings, "results": as_records(table)})
    else:
        typer.echo(summary)
        typer.echo(f"written to {path}", err=True)
