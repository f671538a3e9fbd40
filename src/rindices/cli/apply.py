"""``rindices apply``: R-indices for new people from a finished model."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rindices.cli.console import print_json, print_problems, split_option
from rindices.cli.options import (
    Controls,
    Group,
    IdColumn,
    ImputeCovariates,
    Json,
    MissingCodes,
    Participants,
    ParticipantsId,
    Patients,
    Session,
    Site,
    Tables,
    Workers,
)
from rindices.errors import ProblemCode, format_count

if TYPE_CHECKING:
    from rindices.model.fitted import FittedModel
    from rindices.model.stream import StreamResult
    from rindices.tables.validation.validate import TableRequest

EPILOG = "Example: rindices apply model.safetensors new_people.csv --participants new_people.tsv --out r_indices.tsv"
_TRAINING_CODES = {
    ProblemCode.NO_GROUPS,
    ProblemCode.SKEWED_FEATURES,
    ProblemCode.GROUP_COLUMN_GUESSED,
    ProblemCode.GROUP_COLUMN_POSSIBLE,
    ProblemCode.SITE_COLUMN_POSSIBLE,
    ProblemCode.REPEATED_SCANS,
}
"""Notes that matter only for training a model."""
_SECONDS_BETWEEN_MESSAGES = 10.0


def apply(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model.safetensors.")],
    tables: Tables,
    out: Annotated[
        Path, typer.Option(help="For the R-indices: a .csv, .tsv or .parquet file, or a folder of parquet files.")
    ],
    participants: Participants = None,
    id_column: IdColumn = None,
    participants_id: ParticipantsId = None,
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
    missing_codes: MissingCodes = None,
    on_missing: Annotated[
        str, typer.Option(help="People who lack regions: model uses the others, drop leaves them out, error stops.")
    ] = "model",
    impute_covariates: ImputeCovariates = False,
    plink: Annotated[
        Path | None,
        typer.Option(metavar="PREFIX", help="Also write PREFIX.phe and PREFIX.cov, for PLINK and REGENIE."),
    ] = None,
    inverse_normal: Annotated[
        bool, typer.Option("--inverse-normal", help="With --plink: R-indices as rank-based inverse normal scores.")
    ] = False,
    workers: Workers = -1,
    as_json: Json = False,
) -> None:
    """Write the R-indices of new people; needs the regions and covariates that the model was trained on.

    One table, or a folder of parquet or csv files that together are one table, is read in chunks: memory does not grow
    with it, people keep their order, and the same command resumes a run that was interrupted.
    """
    from rindices.model.fitted import load
    from rindices.tables.io.chunks import list_table_files
    from rindices.tables.table import ColumnRoles
    from rindices.tables.validation.validate import TableRequest
    from rindices.tables.validation.values import ALL_MEASURES
    from rindices.wording import FEATURE_UNIT

    if on_missing not in ("model", "drop", "error"):
        raise typer.BadParameter("give model, drop or error", param_hint="--on-missing")
    if new_sites not in ("refuse", "controls"):
        raise typer.BadParameter("give refuse or controls", param_hint="--new-sites")
    learn_sites = new_sites == "controls"
    if inverse_normal and plink is None:
        raise typer.BadParameter("--inverse-normal is for the files of --plink", param_hint="--inverse-normal")
    if plink is not None and not plink.absolute().parent.is_dir():
        raise typer.BadParameter("give a prefix in a folder that is there", param_hint="--plink")
    in_chunks = not learn_sites and plink is None and len(tables) == 1 and list_table_files(tables[0]) is not None
    _check_output_path(out, [model, *tables, *([participants] if participants else [])], in_chunks)
    fitted = load(model)
    roles = ColumnRoles(id_column, session, group if learn_sites else None, site, fitted.covariates, participants_id)
    labels = (split_option(controls), split_option(patients)) if learn_sites else ((), ())
    measure = "any" if fitted.card.unit == FEATURE_UNIT else ALL_MEASURES
    request = TableRequest(
        tuple(tables), participants, roles, *labels, split_option(exclude), measure, on_missing, find_groups=learn_sites
    )
    summands = [part for parts in fitted.sums.values() for part in parts]
    codes = split_option(missing_codes)
    request = replace(request, model_regions=(*fitted.regions, *summands), missing_codes=codes)
    request = replace(request, impute_covariates=impute_covariates)
    if in_chunks:
        result = _apply_in_chunks(model, request, out, workers)
    else:
        result = _apply_in_memory(fitted, request, out, least if learn_sites else None, plink, inverse_normal)
    problems = [problem for problem in result.problems if problem.code not in _TRAINING_CODES]
    print_problems(problems)
    rows, novel, _ = result.counted
    if as_json:
        rate = round(result.rows_per_second)
        print_json({"people": result.people, "visits": rows, "novel": novel, "out": str(out), "rows_per_second": rate})
    else:
        again = f" ({result.resumed} of {result.parts} parts were there already)" if result.resumed else ""
        people = format_count(result.people, "person", "people")
        written = people if rows == result.people else f"{rows:,} visits of {people}"
        share = f"{novel:,} ({novel / max(rows, 1):.1%}) of them unlike the training people"
        typer.echo(f"{written} written to {out}, {share}{again}", err=True)


def _check_output_path(out: Path, inputs: list[Path], in_chunks: bool) -> None:
    """Refuse a path for the results that is an input, or that cannot be written."""
    if out.resolve() in [path.resolve() for path in inputs]:
        raise typer.BadParameter(f"{out} is one of the inputs and would be lost; give another", param_hint="--out")
    if any(path.is_dir() and path.resolve() in out.resolve().parents for path in inputs):
        raise typer.BadParameter(f"{out} is inside an input folder; give another place", param_hint="--out")
    suffixes = (".csv", ".tsv", ".parquet", "") if in_chunks else (".csv", ".tsv", ".parquet")
    if out.suffix not in suffixes or not out.absolute().parent.is_dir() or (out.suffix and out.is_dir()):
        raise typer.BadParameter("give a .csv, .tsv or .parquet file in a folder that is there", param_hint="--out")
    if not out.suffix and out.is_file():
        raise typer.BadParameter(f"{out} is a file; give a folder, or a file with a suffix", param_hint="--out")


def _apply_in_chunks(model: Path, request: "TableRequest", out: Path, workers: int) -> "StreamResult":
    """Apply in chunks, with a message about the progress every few seconds."""
    from rindices.model.stream import apply_stream

    last = start = time.monotonic()

    def print_progress(rows: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _SECONDS_BETWEEN_MESSAGES:
            typer.echo(f"{rows:,} rows, {rows / (now - start):,.0f} a second", err=True)
            last = now

    return apply_stream(model, request, out, workers, on_progress=print_progress)


def _apply_in_memory(
    fitted: "FittedModel",
    request: "TableRequest",
    out: Path,
    min_controls: int | None,
    plink: Path | None,
    inverse_normal: bool,
) -> "StreamResult":
    """Apply to all people at once: for tables that are joined, a folder of subjects, new sites, or files for PLINK.

    ``min_controls`` is the number of controls that a new site must have; None where new sites are refused.
    """
    from rindices.analysis.plink_files import write_plink_files
    from rindices.model.index_tables import check_people_count, write_indices
    from rindices.model.stream import StreamResult
    from rindices.tables.cohort import ID
    from rindices.tables.validation.validate import validate_table

    start = time.perf_counter()
    validation = validate_table(request)
    cohort = validation.cohort_or_raise()
    if min_controls is not None:
        fitted = fitted.with_sites(cohort, min_controls)
    indices, problems, counted = fitted.assess(cohort, request.on_missing)
    check_people_count(validation.rows - validation.left_out, len(indices), out)
    write_indices(indices, out, fitted.card.unit)
    if plink is not None:
        codings = fitted.preprocessing.residualiser.codings
        write_plink_files(indices, cohort.covariates, codings, plink, inverse_normal)
    rate = len(indices) / max(time.perf_counter() - start, 1e-9)
    return StreamResult(counted, indices[ID].nunique(), [*problems, *validation.problems], 1, 0, rate)
