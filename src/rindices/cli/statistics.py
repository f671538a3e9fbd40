"""``rindices associate`` and ``compare``: R-indices, clinical variables and regions."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rindices.cli.console import parse_numbers, print_json, print_problems, split_option
from rindices.cli.options import (
    DataValues,
    Indices,
    Json,
    Tables,
    Words,
    get_table_values,
    make_table_request,
    take_table_options,
)
from rindices.errors import (
    Findings,
    ProblemCode,
    Severity,
    format_count,
)

if TYPE_CHECKING:
    import pandas as pd

    from rindices.tables.cohort import Cohort
    from rindices.tables.validate import TableRequest

EXAMPLES = {
    "associate": "results/r_indices.tsv clinical.tsv --covariates age,sex --out associations",
    "compare": "results/r_indices.tsv dlmuse.csv --participants participants.tsv --out compared",
}
_ID_COLUMNS = {"participant_id": "Participant", "session_id": "Session"}


def raise_errors(findings: Findings) -> None:
    """Raise the errors, if there are any, else print all problems."""
    findings.raise_errors()
    print_problems(findings)


def read_indices_and_regions(
    indices: Path, request: "TableRequest"
) -> "tuple[pd.DataFrame, Cohort]":
    """Read R-indices with groups and the regions of the same people, and print
    warnings.

    request: regions of all measures are read, and people who lack a value are left out.
    Groups that it names replace those of the R-indices. Of people with several visits,
    the first is used.
    """
    from rindices.analysis.tidy import add_groups
    from rindices.tables.checks.values import ALL_MEASURES
    from rindices.tables.cohort import GROUP, SESSION, keep_first_scans
    from rindices.tables.readers import read_indices
    from rindices.tables.validate import validate_table

    findings = Findings()
    table = read_indices(indices, findings)
    result = validate_table(
        request.with_options(
            measure=request.options.measure or ALL_MEASURES, on_missing="drop"
        )
    )
    cohort = result.cohort_or_raise()
    if SESSION not in table:
        cohort = keep_first_scans(cohort)[0]
    if GROUP in table and (
        request.options.group or request.options.controls or request.options.patients
    ):
        table = table.drop(columns=GROUP)
    people = add_groups(table, cohort)
    if len(people) < len(table):
        absent = format_count(len(table) - len(people), "person", "people")
        what = f"{absent} not in the tables, or with missing values there; left out"
        findings.at(indices.name).warn(ProblemCode.UNMATCHED_IDS, what)
    warnings = [
        problem for problem in result.problems if problem.severity is Severity.WARNING
    ]
    findings.problems += [
        problem
        for problem in warnings
        if problem.code is not ProblemCode.REPEATED_SCANS
    ]
    (people,) = keep_first_visits(people, findings=findings)
    raise_errors(findings)
    return people, cohort


def keep_first_visits(
    *tables: "pd.DataFrame", findings: Findings
) -> "list[pd.DataFrame]":
    """Return the rows of the first session of each person, with a note if there are
    others.

    tables: R-indices, and others with the same rows. Visits of one person are not
    independent.
    """
    from rindices.tables.cohort import ID, SESSION, find_first_scans

    if SESSION not in tables[0] or not tables[0][ID].duplicated().any():
        return list(tables)
    rows = find_first_scans(tables[0])
    what = f"the first of several sessions is used for {format_count(len(rows), 'person', 'people')}"
    findings.note(ProblemCode.REPEATED_SCANS, what)
    return [table.iloc[rows].reset_index(drop=True) for table in tables]


def read_variables(
    indices: Path, other: Path, data: DataValues, all_visits: bool = False
) -> "list[pd.DataFrame]":
    """Read R-indices and another table of the same people, joined by id, and print
    warnings.

    all_visits: of people with several visits, all are read, and not the first alone.
    """
    from rindices.tables.readers import read_indices_with_variables
    from rindices.tables.table import ColumnRoles

    findings = Findings()
    both = read_indices_with_variables(
        indices,
        other,
        ColumnRoles(id=data.get("id"), session=data.get("session")),
        findings,
    )
    tables = list(both) if all_visits else keep_first_visits(*both, findings=findings)
    raise_errors(findings)
    return tables


def write_results(
    table: "pd.DataFrame",
    path: Path,
    settings: dict[str, Any],
    as_json: bool,
    text: str,
) -> None:
    """Write a table, see `rindices.analysis.tidy.write_table`, and print it as JSON or
    a text about it.
    """
    from rindices.analysis.tidy import as_records, write_table

    write_table(table, path, settings)
    if as_json:
        print_json({"out": str(path), **settings, "results": as_records(table)})
    else:
        typer.echo(text)
        typer.echo(f"written to {path}", err=True)


@take_table_options("id session missing_codes")
def associate(
    context: typer.Context,
    indices: Indices,
    clinical: Annotated[
        Path,
        typer.Argument(metavar="CLINICAL", help="Clinical variables, joined by id."),
    ],
    out: Annotated[Path, typer.Option(help="Folder for associations.tsv and .json.")],
    variables: Annotated[
        Words, typer.Option(help="Columns to correlate; by default all.")
    ] = None,
    covariates: Annotated[
        Words, typer.Option(help="Columns of CLINICAL to adjust for.")
    ] = None,
    people: Annotated[
        str | None,
        typer.Option(
            help="patients, controls or all; by default patients where groups are known."
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            help="Model of the R-indices, whose regions are no findings; by default the one beside them."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Correlate R-indices with clinical variables: Pearson or point-biserial,
    intervals, false discovery rate.
    """
    from rindices.analysis.associate import check_inputs, tabulate_associations
    from rindices.analysis.model_columns import (
        MODEL_FILE,
        ModelInputs,
        find_model_inputs,
        warn_of_unknown_model,
    )
    from rindices.analysis.tidy import find_index_columns
    from rindices.model.fitted import load

    data = get_table_values(context)
    index_table, clinical_table = read_variables(indices, clinical, data)
    people = people or ("patients" if "group" in index_table else "all")
    adjusted, codes = split_option(covariates), tuple(data.get("missing_codes", ()))
    wanted, n_patterns = (
        split_option(variables) or None,
        len(find_index_columns(index_table)),
    )
    inputs = (
        find_model_inputs(indices, n_patterns)
        if model is None
        else ModelInputs.of(load(model))
    )
    used = check_inputs(index_table, clinical_table, inputs, wanted, adjusted)
    table = tabulate_associations(
        index_table, clinical_table, used, wanted, adjusted, people, codes
    )
    if inputs is None and wanted is None:
        what = f"the model of the R-indices is not known ({indices.parent} has no {MODEL_FILE} or patterns.tsv of them)"
        print_problems(
            warn_of_unknown_model(clinical_table.columns, what, clinical.name)
        )
    print_problems(
        used.note(
            clinical.name, wanted is not None, "" if inputs is None else inputs.unit
        )
    )
    significant, counted = int((table["q"] < 0.05).sum()), int(table["q"].notna().sum())
    message = f"{significant} of {counted} associations with a false discovery rate below 0.05 ({people})"
    settings = {"people": people, "covariates": list(adjusted)}
    settings |= {"missing_codes": list(codes)} if codes else {}
    settings |= {
        f"model_{name}": list(columns)
        for name, columns in used._asdict().items()
        if columns
    }
    write_results(table, out / "associations.tsv", settings, as_json, message)


@take_table_options(
    "participants group controls patients covariates id session exclude include missing_codes"
)
def compare(
    context: typer.Context,
    indices: Annotated[
        Path,
        typer.Argument(
            metavar="R_INDICES", help="participant_id, group and r1, r2, ..."
        ),
    ],
    tables: Tables,
    out: Annotated[
        Path, typer.Option(help="Folder for regions.tsv and subgroups.tsv.")
    ],
    cuts: Annotated[
        str,
        typer.Option(
            help="Limits between subgroups; other indices are below the first."
        ),
    ] = "0.4,0.7",
    as_json: Json = False,
) -> None:
    """Compare regions of subgroups of patients with controls: effect sizes, intervals,
    false discovery rate.
    """
    from rindices.analysis.compare import (
        COLUMN_DESCRIPTIONS,
        compare_subgroups,
        make_subgroups,
        tabulate_subgroups,
    )
    from rindices.analysis.tidy import add_ids, write_table

    data = get_table_values(context)
    limits = parse_numbers([cuts], "--cuts", "give numbers such as 0.4,0.7")
    request = make_table_request(
        tables, {"covariates": ["none"], "site": "none", **data}
    )
    people, cohort = read_indices_and_regions(indices, request)
    adjusted = (
        add_ids(cohort, cohort.covariates) if len(cohort.covariates.columns) else None
    )
    table = compare_subgroups(
        people, add_ids(cohort, cohort.volumes), covariates=adjusted, cuts=limits
    )
    settings: dict[str, Any] = {
        "cuts": limits,
        "covariates": list(cohort.covariates.columns),
    }
    subgroups = tabulate_subgroups(people, make_subgroups(people, limits))
    write_table(
        subgroups, out / "subgroups.tsv", settings, _ID_COLUMNS | COLUMN_DESCRIPTIONS
    )
    significant = int((table["q"] < 0.05).sum())
    message = f"{significant} of {len(table)} differences with a false discovery rate below 0.05"
    write_results(table, out / "regions.tsv", settings, as_json, message)
