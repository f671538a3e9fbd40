"""``rindices classify``: how well R-indices, and all regions, tell patients from controls."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rindices.cli.console import split_option
from rindices.cli.options import (
    Controls,
    Exclude,
    Group,
    IdColumn,
    Json,
    Participants,
    Patients,
    Session,
    Tables,
    Workers,
)
from rindices.cli.results import read_indices_and_regions, write_results

EPILOG = (
    "Example: rindices classify half/r_indices_unseen.tsv dlmuse.csv --participants participants.tsv --out classified"
)


def classify(
    indices: Annotated[Path, typer.Argument(metavar="R_INDICES", help="Of people the model has not seen, with group.")],
    tables: Tables,
    out: Annotated[Path, typer.Option(help="Folder for classification.tsv and summary.tsv.")],
    participants: Participants = None,
    group: Group = None,
    controls: Controls = None,
    patients: Patients = None,
    repeats: Annotated[int, typer.Option(min=1, help="Random splits.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same splits.")] = 0,
    id_column: IdColumn = None,
    session: Session = None,
    exclude: Exclude = None,
    workers: Workers = -1,
    as_json: Json = False,
) -> None:
    """Tell patients from controls by support vector machines: repeated 80/20 splits, grid search inside."""
    from rindices.analysis.classify import COLUMN_DESCRIPTIONS, SUMMARY_COLUMN_DESCRIPTIONS, summarise_auc
    from rindices.analysis.classify import classify_patients as run
    from rindices.analysis.tidy import add_ids
    from rindices.analysis.write import write_table
    from rindices.tables.table import ColumnRoles

    labels = (split_option(controls), split_option(patients), split_option(exclude))
    roles = ColumnRoles(id_column, session, group)
    people, cohort = read_indices_and_regions(indices, tables, participants, roles, labels)
    results = run(people, add_ids(cohort, cohort.volumes), repeats=repeats, seed=seed, workers=workers)
    how: dict[str, Any] = {"repeats": repeats, "seed": seed, "test_size": 0.2}
    write_table(results, out / "classification.tsv", COLUMN_DESCRIPTIONS, how)
    summary = summarise_auc(results, people)
    told = "\n".join(
        f"{row.features}: AUC {row.auc:.3f} ({row.low:.3f} to {row.high:.3f})" for row in summary.itertuples()
    )
    told += (
        "\nR-indices of people that the model was fitted on flatter: use people it has not seen (rindices reproduce)"
    )
    write_results(summary, out / "summary.tsv", SUMMARY_COLUMN_DESCRIPTIONS, how, as_json, told)
