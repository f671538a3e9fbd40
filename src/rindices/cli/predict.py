"""``rindices predict``: what R-indices predict, by Cox or logistic regression."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rindices.cli.console import print_json, print_problems, split_option
from rindices.cli.options import DataOptions, Json, take_table_options
from rindices.cli.output import explain_write_errors, make_folder
from rindices.cli.results import raise_errors

if TYPE_CHECKING:
    import pandas as pd


EPILOG = (
    "Example: rindices predict results/r_indices.tsv outcomes.tsv --time years --event converted "
    "--covariates age,sex --out outcome"
)


@take_table_options("id missing_codes")
def predict(
    indices: Annotated[Path, typer.Argument(metavar="R_INDICES", help="participant_id and r1, r2, ...")],
    outcomes: Annotated[Path, typer.Argument(metavar="OUTCOMES", help="Event, time and covariates, joined by id.")],
    event: Annotated[str, typer.Option(help="Column of the event: 0 and 1, or no and yes.")],
    out: Annotated[Path, typer.Option(help="Folder for the tables outcome_*.tsv and outcome.png.")],
    data: DataOptions,
    time: Annotated[
        str | None, typer.Option(help="Column of the time to the event or to the end of observation.")
    ] = None,
    event_label: Annotated[str | None, typer.Option(help="Label of an observed event, if it is not 1 or yes.")] = None,
    covariates: Annotated[list[str] | None, typer.Option(help="Columns of OUTCOMES to adjust for.")] = None,
    regions: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="Raw regions of the same people, to compare with.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the folds of held-out people.")] = 0,
    as_json: Json = False,
) -> None:
    """Predict an outcome by R-indices: Cox regression with --time, logistic regression without.

    Ratios are per standard deviation and adjusted for covariates. Concordance is that of held-out people.
    """
    from rindices.analysis.held_out_outcomes import COLUMN_DESCRIPTIONS
    from rindices.analysis.outcome_figure import plot_outcome
    from rindices.analysis.predict import EFFECT_COLUMNS, SURVIVAL_COLUMNS, predict_outcome
    from rindices.analysis.write import as_records, write_table
    from rindices.errors import Findings
    from rindices.tables.readers import read_indices_with_variables
    from rindices.tables.table import ColumnRoles

    findings, adjusted, codes = Findings(), split_option(covariates), tuple(data.get("missing_codes", ()))
    table, values = read_indices_with_variables(indices, outcomes, ColumnRoles(data.get("id"), None), findings)
    raise_errors(findings)
    table, values = _keep_first_visits(table, values)
    measured = None if regions is None else _read_regions(regions, table)
    result = predict_outcome(
        table,
        values,
        event=event,
        time=time,
        event_label=event_label,
        covariates=adjusted,
        regions=measured,
        missing_codes=codes,
        seed=seed,
    )
    make_folder(out)
    settings = {"event": event, "time": time, "covariates": list(adjusted), "seed": seed}
    with explain_write_errors(out):
        write_table(result.effects, out / "outcome_effects.tsv", EFFECT_COLUMNS, settings)
        write_table(result.concordance, out / "outcome_concordance.tsv", COLUMN_DESCRIPTIONS, settings)
        survival = out / "outcome_survival.tsv"
        if result.survival is None:
            survival.unlink(missing_ok=True)
            survival.with_suffix(".json").unlink(missing_ok=True)
        else:
            write_table(result.survival, survival, SURVIVAL_COLUMNS, settings)
        plot_outcome(result, out / "outcome.png")
    print_problems(result.problems)
    if as_json:
        records = {"effects": as_records(result.effects), "concordance": as_records(result.concordance)}
        print_json({"out": str(out), **settings, **records})
    else:
        single = result.effects[result.effects["model"] == "single"]
        significant = int((single["q"] < 0.05).sum())
        typer.echo(f"{significant} of {len(single)} R-indices predict {event} with a false discovery rate below 0.05")
        typer.echo(f"written to {out}", err=True)


def _keep_first_visits(indices: "pd.DataFrame", values: "pd.DataFrame") -> "tuple[pd.DataFrame, pd.DataFrame]":
    """Return the rows of each person's first session, with a note if there are others."""
    from rindices.errors import Findings, ProblemCode, format_count
    from rindices.tables.cohort import ID, SESSION, make_session_key

    if SESSION not in indices or not indices[ID].duplicated().any():
        return indices, values
    order = sorted(range(len(indices)), key=lambda row: make_session_key(str(indices[SESSION].iloc[row])))
    ordered = indices[ID].iloc[order]
    rows = sorted(ordered.index[~ordered.duplicated()])
    findings = Findings()
    people = format_count(len(rows), "person", "people")
    findings.note(ProblemCode.REPEATED_SCANS, f"the first of several sessions is used for {people}")
    print_problems(findings)
    return indices.loc[rows].reset_index(drop=True), values.loc[rows].reset_index(drop=True)


def _read_regions(path: Path, indices: "pd.DataFrame") -> "pd.DataFrame":
    """Return the regions of the people of a table of R-indices, in its order; NaN for people without."""
    from rindices.analysis.tidy import add_ids, join_by_id
    from rindices.tables.table import ColumnRoles
    from rindices.tables.validate import TableRequest, validate_table
    from rindices.tables.validation.values import ALL_MEASURES

    request = TableRequest((path,), None, ColumnRoles(), measure=ALL_MEASURES, on_missing="drop", find_groups=False)
    cohort = validate_table(request).cohort_or_raise()
    return join_by_id(indices, add_ids(cohort, cohort.volumes))[list(cohort.volumes.columns)]
