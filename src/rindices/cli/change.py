"""``rindices change`` and ``predict``: R-indices over time and later outcomes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rindices.cli.console import (
    make_folder,
    print_json,
    print_problems,
    print_result,
    split_option,
)
from rindices.cli.options import (
    DataValues,
    Indices,
    Json,
    Words,
    get_table_values,
    take_table_options,
)
from rindices.cli.statistics import raise_errors, read_variables
from rindices.errors import Findings, ProblemCode, explain_write_errors, format_count

if TYPE_CHECKING:
    import pandas as pd


EXAMPLES = {
    "change": "r_indices.tsv --participants sessions.tsv --time age --group group --out change",
    "predict": "results/r_indices.tsv outcomes.tsv --time years --event converted --covariates age,sex --out outcome",
}


@take_table_options("participants controls patients missing_codes")
def change(
    context: typer.Context,
    indices: Annotated[
        Path,
        typer.Argument(
            metavar="R_INDICES", help="What apply or fit wrote, with sessions."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="Folder for change.tsv, change.json, change.png and tables of groups."
        ),
    ],
    time: Annotated[
        str, typer.Option(help="Column of the time: years (age) or dates (2021-03-31).")
    ] = "age",
    group: Annotated[
        str | None,
        typer.Option(help="Column of groups, to compare controls and patients."),
    ] = None,
    covariates: Annotated[
        Words,
        typer.Option(
            help="Columns to adjust the comparison of groups for, as at the first visit."
        ),
    ] = None,
    scanner: Annotated[
        str | None,
        typer.Option(help="Column of scanners, whose effects are removed."),
    ] = None,
    slowing: Annotated[
        float,
        typer.Option(help="Share of the change that a trial's treatment prevents."),
    ] = 0.3,
    power: Annotated[float, typer.Option(help="Power of the trial.")] = 0.8,
    trial_years: Annotated[float, typer.Option(help="Duration of the trial.")] = 2.0,
    trial_visits: Annotated[
        int, typer.Option(min=2, help="Visits of each person in the trial.")
    ] = 5,
    show_people: Annotated[
        bool,
        typer.Option(
            "--show-people", help="Draw visits of single people in change.png."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Write the change of R-indices per year of people with two visits or more, with 90
    % intervals.

    Slopes are also shrunken by a mixed model. With --group, the slopes of patients and
    controls are compared, and the retest error comes from controls.
    """
    from rindices import plot
    from rindices.analysis.change import TrialDesign, change_per_year
    from rindices.analysis.tidy import as_records, write_table
    from rindices.plot import files
    from rindices.plot.style import COLUMN_MM
    from rindices.wording import load_columns

    data = get_table_values(context)
    findings, adjusted, codes = (
        Findings(),
        split_option(covariates),
        tuple(data.get("missing_codes", ())),
    )
    named = [each for each in (group, scanner) if each]
    visits = _read_visits(indices, data, [time, *named, *adjusted])
    visits = _assign_groups(visits, group, data, findings)
    trial = TrialDesign(
        slowing=slowing, power=power, years=trial_years, visits=trial_visits
    )
    result = change_per_year(
        visits,
        time,
        covariates=adjusted,
        scanner=scanner,
        trial=trial,
        missing_codes=codes,
    )
    names = ("groups", "trial", "retest", "scanners")
    tables = {name: getattr(result, name) for name in names}
    summary, settings = result.summary(), {"covariates": list(adjusted)}
    descriptions = {
        column.format(index=name): text.format(index=name)
        for column, text in load_columns("change").items()
        for name in result.names
    }
    make_folder(out)
    with explain_write_errors(f"to {out}"):
        write_table(result.table, out / "change.tsv", settings | summary, descriptions)
        for name, table in tables.items():
            write_table(table, out / f"change_{name}.tsv", settings)
        files.write_png(
            out / "change.png", lambda: plot.visits(result, people=show_people)
        )
        if result.groups is None:
            (out / "change_groups.png").unlink(missing_ok=True)
        else:
            files.write_png(
                out / "change_groups.png", lambda: plot.change(result), COLUMN_MM
            )
    print_problems([*findings, *result.problems])
    summary |= {
        name: as_records(table) for name, table in tables.items() if table is not None
    }
    text = f"change per year of {len(result.table):,} people written to {out}"
    print_result(as_json, {"out": str(out), **summary}, text, err=True)


def _assign_groups(
    visits: "pd.DataFrame", group: str | None, data: DataValues, findings: Findings
) -> "pd.DataFrame":
    """Return the visits of controls and patients with the column ``group``; all visits
    without it if none is named.

    The group of a person is that of the first visit that has one.
    """
    from rindices.analysis.tidy import check_columns
    from rindices.tables.checks.groups import assign_groups
    from rindices.tables.cohort import GROUP, ID, SESSION, find_first_scans

    if group is None:
        return visits.drop(columns=[GROUP], errors="ignore")
    check_columns(visits, [group], "groups")
    labelled = visits[visits[group].notna()]
    first = (
        labelled.iloc[find_first_scans(labelled)]
        if SESSION in visits
        else labelled.drop_duplicates(ID)
    )
    labels = assign_groups(
        first[group],
        data.get("controls", ()),
        data.get("patients", ()),
        findings.at(group),
    )
    findings.raise_errors()
    assert labels is not None  # without an error
    own = visits[ID].map(dict(zip(first[ID], labels, strict=True)))
    if n_unknown := visits.loc[~visits[ID].isin(first[ID]), ID].nunique():
        what = (
            f"{format_count(n_unknown, 'person has', 'people have')} no group; left out"
        )
        findings.at(group).note(ProblemCode.OTHER_LABELS, what)
    return visits.assign(**{GROUP: own})[own.notna()].reset_index(drop=True)


def _read_visits(indices: Path, data: DataValues, columns: list[str]) -> "pd.DataFrame":
    """Return one row per visit, with the R-indices and the columns of time, group and
    covariates.
    """
    from rindices.tables.readers import read_indices

    if "participants" not in data:
        findings = Findings()
        frame = read_indices(indices, findings)
        raise_errors(findings)
        return frame
    frame, people = read_variables(
        indices, Path(data["participants"]), data, all_visits=True
    )
    found = {name.lower(): name for name in people}
    return frame.assign(
        **{
            name: people[found[name.lower()]]
            for name in columns
            if name.lower() in found
        }
    )


@take_table_options("id missing_codes")
def predict(
    context: typer.Context,
    indices: Indices,
    outcomes: Annotated[
        Path,
        typer.Argument(
            metavar="OUTCOMES", help="Event, time and covariates, joined by id."
        ),
    ],
    event: Annotated[
        str, typer.Option(help="Column of the event: 0 and 1, or no and yes.")
    ],
    out: Annotated[
        Path, typer.Option(help="Folder for the tables outcome_*.tsv and outcome.png.")
    ],
    time: Annotated[
        str | None,
        typer.Option(
            help="Column of the time to the event or to the end of observation."
        ),
    ] = None,
    event_label: Annotated[
        str | None,
        typer.Option(help="Label of an observed event, if it is not 1 or yes."),
    ] = None,
    covariates: Annotated[
        Words, typer.Option(help="Columns of OUTCOMES to adjust for.")
    ] = None,
    regions: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE", help="Raw regions of the same people, to compare with."
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Of the folds of held-out people.")
    ] = 0,
    show_people: Annotated[
        bool,
        typer.Option("--show-people", help="Draw curves that step at each event."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Predict an outcome by R-indices: Cox regression with --time, logistic regression
    without.

    Ratios are per standard deviation and adjusted for covariates. Concordance is that
    of held-out people.
    """
    from rindices import plot
    from rindices.analysis.predict import predict_outcome
    from rindices.analysis.tidy import as_records, write_table
    from rindices.plot import files

    data = get_table_values(context)
    adjusted, codes = split_option(covariates), tuple(data.get("missing_codes", ()))
    table, values = read_variables(indices, outcomes, data)
    measured = None if regions is None else _read_regions(regions, table)
    result = predict_outcome(
        table,
        values,
        event=event if event_label is None else (event, event_label),
        time=time,
        covariates=adjusted,
        regions=measured,
        missing_codes=codes,
        seed=seed,
    )
    make_folder(out)
    settings = {
        "event": event,
        "time": time,
        "covariates": list(adjusted),
        "seed": seed,
    }
    with explain_write_errors(f"to {out}"):
        for name in ("effects", "concordance", "survival"):
            write_table(getattr(result, name), out / f"outcome_{name}.tsv", settings)
        files.write_png(
            out / "outcome.png", lambda: plot.outcome(result, people=show_people)
        )
    print_problems(result.problems)
    if as_json:
        records = {
            "effects": as_records(result.effects),
            "concordance": as_records(result.concordance),
        }
        print_json({"out": str(out), **settings, **records})
    else:
        single = result.effects[result.effects["model"] == "single"]
        significant = int((single["q"] < 0.05).sum())
        typer.echo(
            f"{significant} of {len(single)} R-indices predict {event} with a false discovery rate below 0.05"
        )
        typer.echo(f"written to {out}", err=True)


def _read_regions(path: Path, indices: "pd.DataFrame") -> "pd.DataFrame":
    """Return the regions of the people of a table of R-indices, in its order; NaN for
    people without.
    """
    from rindices.analysis.tidy import add_ids, join_by_id
    from rindices.tables.checks.values import ALL_MEASURES
    from rindices.tables.options import TableOptions
    from rindices.tables.table import NO_COLUMN
    from rindices.tables.validate import TableRequest, validate_table

    options = TableOptions(
        covariates=(), site=NO_COLUMN, measure=ALL_MEASURES, on_missing="drop"
    )
    request = TableRequest(volumes=(path,), options=options, find_groups=False)
    cohort = validate_table(request).cohort_or_raise()
    return join_by_id(indices, add_ids(cohort, cohort.volumes))[
        list(cohort.volumes.columns)
    ]
