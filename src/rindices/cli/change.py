"""``rindices change``: change of R-indices per year from repeat visits."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rindices.cli.console import print_json, print_problems, split_option
from rindices.cli.options import DataOptions, Json, take_table_options
from rindices.cli.output import explain_write_errors, make_folder

if TYPE_CHECKING:
    import pandas as pd

    from rindices.analysis.change_models import ChangeModels
    from rindices.errors import Findings

EPILOG = "Example: rindices change r_indices.tsv --participants sessions.tsv --time age --group group --out change"


@take_table_options("participants controls patients missing_codes")
def change(
    indices: Annotated[Path, typer.Argument(metavar="R_INDICES", help="What apply or fit wrote, with sessions.")],
    out: Annotated[Path, typer.Option(help="Folder for change.tsv, change.json, change.png and tables of groups.")],
    data: DataOptions,
    time: Annotated[str, typer.Option(help="Column of the time: years (age) or dates (2021-03-31).")] = "age",
    group: Annotated[str | None, typer.Option(help="Column of groups, to compare controls and patients.")] = None,
    covariates: Annotated[
        list[str] | None, typer.Option(help="Columns to adjust the comparison of groups for, as at the first visit.")
    ] = None,
    slowing: Annotated[float, typer.Option(help="Share of the change that a trial's treatment prevents.")] = 0.3,
    power: Annotated[float, typer.Option(help="Power of the trial.")] = 0.8,
    trial_years: Annotated[float, typer.Option(help="Duration of the trial.")] = 2.0,
    trial_visits: Annotated[int, typer.Option(min=2, help="Visits of each person in the trial.")] = 5,
    as_json: Json = False,
) -> None:
    """Write the change of R-indices per year of people with two visits or more, with 90 % intervals.

    Slopes are also shrunken by a mixed model. With --group, the slopes of patients and controls are compared, and the
    retest error comes from controls.
    """
    from rindices.analysis.change import change_per_year
    from rindices.analysis.change_figures import plot_change
    from rindices.analysis.change_models import TrialDesign, describe_models, describe_people_columns, model_change
    from rindices.atomic import atomic_path, write_json
    from rindices.errors import Findings
    from rindices.tables.io.spreadsheet import protect_texts

    findings, adjusted, codes = Findings(), split_option(covariates), tuple(data.get("missing_codes", ()))
    visits = _read_visits(indices, data.get("participants"), [time, *([group] if group else []), *adjusted], findings)
    visits = _assign_groups(visits, group, tuple(data.get("controls", ())), tuple(data.get("patients", ())), findings)
    result = change_per_year(visits, time, codes)
    trial = TrialDesign(slowing, power, trial_years, trial_visits)
    models = model_change(visits, time, covariates=adjusted, trial=trial, missing_codes=codes)
    table = result.table.merge(models.people, on="participant_id", validate="one_to_one")
    descriptions = describe_people_columns(result.names)
    summary = result.summary() | describe_models(models)
    columns = {"columns": {name: descriptions[name] for name in table.columns}}
    make_folder(out)
    with explain_write_errors(out):
        with atomic_path(out / "change.tsv") as path:
            protect_texts(table).to_csv(path, sep="\t", index=False, na_rep="n/a", lineterminator="\n")
        write_json(out / "change.json", summary | columns)
        plot_change(result, visits, time, out / "change.png")
        _write_models(models, visits, time, out, {"covariates": list(adjusted)})
    findings.problems += [*result.problems, *models.problems]
    print_problems(findings)
    if as_json:
        print_json({"out": str(out), **summary})
    else:
        typer.echo(f"change per year of {len(result.table):,} people written to {out}", err=True)


def _write_models(
    models: "ChangeModels", visits: "pd.DataFrame", time: str, out: Path, settings: dict[str, list[str]]
) -> None:
    """Write the tables of groups, trial and retest error, and the figure of groups; remove those of earlier runs."""
    from rindices.analysis.change_figures import plot_group_change
    from rindices.analysis.change_models import GROUP_COLUMNS, RETEST_COLUMNS, TRIAL_COLUMNS
    from rindices.analysis.write import write_table

    for name, table, descriptions in (
        ("groups", models.groups, GROUP_COLUMNS),
        ("trial", models.trial, TRIAL_COLUMNS),
        ("retest", models.retest, RETEST_COLUMNS),
    ):
        path = out / f"change_{name}.tsv"
        if table is None:
            path.unlink(missing_ok=True)
            path.with_suffix(".json").unlink(missing_ok=True)
        else:
            write_table(table, path, descriptions, settings)
    figure = out / "change_groups.png"
    if models.groups is None:
        figure.unlink(missing_ok=True)
    else:
        plot_group_change(models, visits, time, figure)


def _assign_groups(
    visits: "pd.DataFrame",
    group: str | None,
    controls: tuple[str, ...],
    patients: tuple[str, ...],
    findings: "Findings",
) -> "pd.DataFrame":
    """Return the visits of controls and patients with the column ``group``; all visits without it if none is named."""
    from rindices.analysis.tidy import check_columns
    from rindices.errors import TableError
    from rindices.tables.cohort import GROUP
    from rindices.tables.validation import groups

    if group is None:
        return visits.drop(columns=[GROUP], errors="ignore")
    check_columns(visits, [group], "groups")
    labels = groups.assign_groups(visits[group], controls, patients, findings.at(group))
    if findings.errors() or labels is None:
        raise TableError(findings.errors())
    return visits.assign(**{GROUP: labels})[[label is not None for label in labels]].reset_index(drop=True)


def _read_visits(indices: Path, participants: str | None, columns: list[str], findings: "Findings") -> "pd.DataFrame":
    """Return one row per visit, with the R-indices and the columns of time, group and covariates."""
    import pandas as pd

    from rindices.errors import TableError
    from rindices.tables.cohort import ID, SESSION
    from rindices.tables.participants import join_participants
    from rindices.tables.table import ColumnRoles, read_participants

    problems = type(findings)()  # notes on ids are not repeated here: apply gave them
    table = read_participants(indices, ColumnRoles(), [], problems)
    keys = {ID: table.ids} | ({} if table.sessions is None else {SESSION: table.sessions})
    frame = table.frame.drop(columns=[name for name in (*keys, table.id_column) if name in table.frame])
    frame = pd.concat([pd.DataFrame(keys), frame.reset_index(drop=True)], axis=1)
    if participants is not None:
        people = join_participants(table, Path(participants), ColumnRoles(), problems)
        for name in columns:
            column = people.find(name)
            if column is not None:
                frame[name] = people.frame[column].to_numpy()
    if problems.errors():
        raise TableError(problems.errors())
    return frame
