"""``rindices associate``: correlations of R-indices with clinical variables."""

from pathlib import Path
from typing import Annotated

import typer

from rindices.cli.console import split_option
from rindices.cli.options import DataOptions, Json, take_table_options
from rindices.cli.results import raise_errors, write_results

EPILOG = "Example: rindices associate results/r_indices.tsv clinical.tsv --covariates age,sex --out associations"


@take_table_options("id session missing_codes")
def associate(
    indices: Annotated[Path, typer.Argument(metavar="R_INDICES", help="participant_id and r1, r2, ...")],
    clinical: Annotated[Path, typer.Argument(metavar="CLINICAL", help="Clinical variables, joined by id.")],
    out: Annotated[Path, typer.Option(help="Folder for associations.tsv and .json.")],
    data: DataOptions,
    variables: Annotated[list[str] | None, typer.Option(help="Columns to correlate; by default all.")] = None,
    covariates: Annotated[list[str] | None, typer.Option(help="Columns of CLINICAL to adjust for.")] = None,
    people: Annotated[str, typer.Option(help="patients, controls or all.")] = "patients",
    as_json: Json = False,
) -> None:
    """Correlate R-indices with clinical variables: Pearson or point-biserial, intervals, false discovery rate."""
    from rindices.analysis.associate import COLUMN_DESCRIPTIONS, associate_indices
    from rindices.errors import Findings
    from rindices.tables.readers import read_indices_with_variables
    from rindices.tables.table import ColumnRoles

    findings = Findings()
    index_table, clinical_table = read_indices_with_variables(
        indices, clinical, ColumnRoles(data.get("id"), data.get("session")), findings
    )
    raise_errors(findings)
    adjusted, codes = split_option(covariates), tuple(data.get("missing_codes", ()))
    table = associate_indices(
        index_table,
        clinical_table,
        variables=split_option(variables) or None,
        covariates=adjusted,
        people=people,
        missing_codes=codes,
    )
    significant = int((table["q"] < 0.05).sum())
    message = f"{significant} of {len(table)} associations with a false discovery rate below 0.05"
    settings = {"people": people, "covariates": list(adjusted)}
    settings |= {"missing_codes": list(codes)} if codes else {}
    write_results(table, out / "associations.tsv", COLUMN_DESCRIPTIONS, settings, as_json, message)
