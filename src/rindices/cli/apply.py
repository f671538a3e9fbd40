"""``rindices apply``: R-indices for new people from a finished model."""

import time
from pathlib import Path
from typing import Annotated

import typer

from rindices.cli.console import print_json, say_problems, split
from rindices.cli.options import Controls, Group, IdColumn, Json, Participants, Patients, Session, Site, Tables

EPILOG = "Example: rindices apply model.safetensors new_people.csv --participants new_people.tsv --out r_indices.tsv"


def apply(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model.safetensors.")],
    tables: Tables,
    out: Annotated[Path, typer.Option(help="File for the R-indices: .csv, .tsv or .parquet.")],
    participants: Participants = None,
    id_column: IdColumn = None,
    session: Session = None,
    site: Site = None,
    new_sites: Annotated[
        str, typer.Option(help="refuse sites unseen in training, or learn them from their own controls.")
    ] = "refuse",
    least: Annotated[int, typer.Option(min=2, help="Controls that a new site must have.")] = 10,
    group: Group = None,
    controls: Controls = None,
    patients: Patients = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Columns that are not regions of the model.")] = None,
    on_missing: Annotated[str, typer.Option(help="error, or drop people who lack a value.")] = "error",
    as_json: Json = False,
) -> None:
    """Write the R-indices of new people; needs the regions and covariates that the model was trained on."""
    from rindices.errors import Severity, TableError
    from rindices.model.fitted import load
    from rindices.model.indices import write_indices
    from rindices.tables.door import Request, examine
    from rindices.tables.sources import Roles

    if on_missing not in ("error", "drop"):
        raise typer.BadParameter("give error or drop", param_hint="--on-missing")
    if new_sites not in ("refuse", "controls"):
        raise typer.BadParameter("give refuse or controls", param_hint="--new-sites")
    inputs = [path.resolve() for path in (model, *tables, *([participants] if participants else []))]
    if out.resolve() in inputs:
        raise typer.BadParameter(f"{out} is one of the inputs and would be lost; give another", param_hint="--out")
    if out.suffix not in (".csv", ".tsv", ".parquet") or not out.absolute().parent.is_dir():
        raise typer.BadParameter("give a .csv, .tsv or .parquet file in a folder that is there", param_hint="--out")
    fitted = load(model)
    roles = Roles(id_column, session, group, site, fitted.covariates)
    start = time.perf_counter()
    labels = (split(controls), split(patients), split(exclude))
    asked = Request(tuple(tables), participants, roles, *labels, measure="any", on_missing=on_missing)
    result = examine(asked)
    if result.cohort is None:
        raise TableError(problem for problem in result.problems if problem.severity is Severity.ERROR)
    problems = [problem for problem in result.problems if not _is_about_training(problem.what)]
    if new_sites == "controls":
        fitted = fitted.with_sites(result.cohort, least)
    indices, found = fitted.assess(result.cohort)
    say_problems([*found, *problems])
    write_indices(indices, out)
    rate = len(indices) / max(time.perf_counter() - start, 1e-9)
    if as_json:
        print_json(
            {
                "people": len(indices),
                "novel": int(indices["novel"].sum()),
                "out": str(out),
                "rows_per_second": round(rate),
            }
        )
    else:
        novel = int(indices["novel"].sum())
        typer.echo(f"{len(indices):,} people written to {out}, {novel:,} of them unlike the training people", err=True)


def _is_about_training(what: str) -> bool:
    """Return whether a note matters only to those who train: groups, sites and repeated scans."""
    words = (
        "no groups are known",
        "groups are read",
        "may hold the groups",
        "may hold the site",
        "are not independent",
    )
    return any(word in what for word in words)
