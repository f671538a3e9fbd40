"""``rindices change``: change of R-indices per year from repeat visits."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rindices.cli.console import print_json, print_problems, split_option
from rindices.cli.options import Json, MissingCodes, Participants
from rindices.cli.output import explain_write_errors, make_folder

if TYPE_CHECKING:
    import pandas as pd

EPILOG = "Example: rindices change r_indices.tsv --participants sessions.tsv --time age --out change"


def change(
    indices: Annotated[Path, typer.Argument(metavar="R_INDICES", help="What apply or fit wrote, with sessions.")],
    out: Annotated[Path, typer.Option(help="Folder for change.tsv, change.json and change.png.")],
    time: Annotated[str, typer.Option(help="Column of the time: years (age) or dates (2021-03-31).")] = "age",
    participants: Participants = None,
    missing_codes: MissingCodes = None,
    as_json: Json = False,
) -> None:
    """Write the change of R-indices per year of people with two visits or more, with 90 % intervals."""
    from rindices.analysis.change import change_per_year
    from rindices.analysis.change_figure import plot_change
    from rindices.atomic import atomic_path, write_json
    from rindices.tables.io.spreadsheet import protect_texts

    visits = _read_visits(indices, participants, time)
    result = change_per_year(visits, time, split_option(missing_codes))
    summary = result.summary()
    make_folder(out)
    with explain_write_errors(out):
        with atomic_path(out / "change.tsv") as path:
            protect_texts(result.table).to_csv(path, sep="\t", index=False, lineterminator="\n")
        write_json(out / "change.json", summary)
        plot_change(result, visits, time, out / "change.png")
    print_problems(result.problems)
    if as_json:
        print_json({"out": str(out), **summary})
    else:
        typer.echo(f"change per year of {len(result.table):,} people written to {out}", err=True)


def _read_visits(indices: Path, participants: Path | None, time: str) -> "pd.DataFrame":
    """Return one row per visit, with the R-indices and the time."""
    import pandas as pd

    from rindices.errors import Findings, TableError
    from rindices.tables.cohort import ID, SESSION
    from rindices.tables.participants import join_participants
    from rindices.tables.table import ColumnRoles, read_participants

    findings = Findings()
    table = read_participants(indices, ColumnRoles(), [], findings)
    keys = {ID: table.ids} | ({} if table.sessions is None else {SESSION: table.sessions})
    frame = table.frame.drop(columns=[name for name in (*keys, table.id_column) if name in table.frame])
    frame = pd.concat([pd.DataFrame(keys), frame.reset_index(drop=True)], axis=1)
    if participants is not None:
        people = join_participants(table, participants, ColumnRoles(), findings)
        column = people.find(time)
        if column is not None:
            frame[time] = people.frame[column].to_numpy()
    if findings.errors():
        raise TableError(findings.errors())
    return frame
