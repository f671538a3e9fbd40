"""``rindices classify``: classification of patients and controls by R-indices and by all regions."""

from pathlib import Path
from typing import Annotated

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
from rindices.cli.output import make_folder
from rindices.cli.results import read_indices_and_regions, write_results

EPILOG = (
    "Example: rindices classify half/r_indices_unseen.tsv dlmuse.csv --participants participants.tsv --out classified"
)


def classify(
    indices: Annotated[Path, typer.Argument(metavar="R_INDICES", help="R-indices of held-out people, with group.")],
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
    """Classify patients and controls with support vector machines: repeated 80/20 splits, grid search inside."""
    from rindices.analysis.classify import (
        COLUMN_DESCRIPTIONS,
        SUMMARY_COLUMN_DESCRIPTIONS,
        classify_patients,
        summarise_auc,
    )
    from rindices.analysis.tidy import add_ids
    from rindices.analysis.write import write_table
    from rindices.tables.table import ColumnRoles

    labels = (split_option(controls), split_option(patients), split_option(exclude))
    roles = ColumnRoles(id_column, session, group)
    people, cohort = read_indices_and_regions(indices, tables, participants, roles, labels)
    regions = add_ids(cohort, cohort.volumes)
    make_folder(out)
    results = classify_patients(people, regions, repeats=repeats, seed=seed, workers=workers)
    settings = {"repeats": repeats, "seed": seed, "test_size": 0.2}
    write_table(results, out / "classification.tsv", COLUMN_DESCRIPTIONS, settings)
    summary = summarise_auc(results, people)
    lines = [f"{row.features}: AUC {row.auc:.3f} ({row.low:.3f} to {row.high:.3f})" for row in summary.itertuples()]
    lines.append(
        "The AUC is too high for people that the model was fitted on: use held-out people (rindices reproduce)"
    )
    write_results(summary, out / "summary.tsv", SUMMARY_COLUMN_DESCRIPTIONS, settings, as_json, "\n".join(lines))
