"""What the commands of statistics share: reading tables, writing results, printing them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rindices.cli.console import print_json, say_problems

if TYPE_CHECKING:
    import pandas as pd

    from rindices.errors import Findings


def settle(findings: "Findings") -> None:
    """Stop at errors, say everything else."""
    from rindices.errors import TableError

    if findings.errors():
        raise TableError(findings.errors())
    say_problems(findings)


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
