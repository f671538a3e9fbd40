"""``rindices report``: write the report of a finished study again."""

from pathlib import Path
from typing import Annotated

import typer

from rindices.cli.console import print_result
from rindices.cli.options import Json

EPILOG = "Example: rindices report results"


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a finished study.")],
    with_ids: Annotated[
        bool,
        typer.Option(help="Write report_with_ids.html, in which people are found by their id; it must stay at home."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Write report.html again, for instance with associations (associate --out DIR) or brain pictures."""
    from rindices.report.page import write_report

    path = write_report(folder, with_ids)
    print_result(as_json, {"report": str(path), "bytes": path.stat().st_size}, f"written: {path}")
