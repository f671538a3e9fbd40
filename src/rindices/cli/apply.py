"""``rindices apply``: R-indices for new people from a finished model."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rindices.cli.console import print_problems, print_result, split_option
from rindices.cli.options import DataOptions, Json, Model, Tables, Workers, make_table_request, take_table_options
from rindices.errors import Problem, ProblemCode, Severity, format_count, parse_codes

if TYPE_CHECKING:
    from rindices.apply.chunks import StreamResult
    from rindices.model.fitted import FittedModel
    from rindices.tables.validate import TableRequest

EXAMPLES = {"apply": "model.safetensors new_people.csv --participants new_people.tsv --out r_indices.tsv"}
_TRAINING_CODES = parse_codes("no_groups skewed_features group_column_guessed group_column_possible repeated_scans")
"""Notes that matter only for training a model."""
_SECONDS_BETWEEN_MESSAGES = 10.0


@take_table_options(
    "participants id participants_id session site group controls patients missing_codes on_outlier impute_covariates"
)
def apply(
    model: Model,
    tables: Tables,
    out: Annotated[
        Path, typer.Option(help="For the R-indices: a .csv, .tsv or .parquet file, or a folder of parquet files.")
    ],
    data: DataOptions,
    new_sites: Annotated[
        str, typer.Option(help="refuse sites unseen in training, or learn them from their own controls.")
    ] = "refuse",
    least: Annotated[int, typer.Option(min=2, help="Controls that a new site must have.")] = 10,
    exclude: Annotated[list[str] | None, typer.Option(help="Columns that are not regions of the model.")] = None,
    on_missing: Annotated[
        str, typer.Option(help="People who lack regions: model uses the others, drop leaves them out, error stops.")
    ] = "model",
    plink: Annotated[
        Path | None, typer.Option(metavar="PREFIX", help="Also write PREFIX.phe and PREFIX.cov, for PLINK and REGENIE.")
    ] = None,
    workers: Workers = -1,
    as_json: Json = False,
) -> None:
    """Write the R-indices of new people; needs the regions and covariates that the model was trained on.

    One table, or a folder of parquet or csv files that together are one table, is read in chunks: memory does not grow
    with it, people keep their order, and the same command resumes a run that was interrupted.
    """
    from rindices.model.fitted import load
    from rindices.model.scale import describe_scale
    from rindices.tables.io.frames import list_table_files
    from rindices.tables.table import NO_COLUMN
    from rindices.tables.validation.values import ALL_MEASURES
    from rindices.wording import FEATURE_UNIT

    if on_missing not in ("model", "drop", "error"):
        raise typer.BadParameter("give model, drop or error", param_hint="--on-missing")
    if data.get("on_outlier") not in (None, "model", "keep", "error"):
        raise typer.BadParameter("give model, keep or error", param_hint="--on-outlier")
    if new_sites not in ("refuse", "controls"):
        raise typer.BadParameter("give refuse or controls", param_hint="--new-sites")
    learn_sites = new_sites == "controls"
    if plink is not None and not plink.absolute().parent.is_dir():
        raise typer.BadParameter("give a prefix in a folder that is there", param_hint="--plink")
    in_chunks = not learn_sites and plink is None and len(tables) == 1 and list_table_files(tables[0]) is not None
    inputs = [model, *tables, *([Path(data["participants"])] if "participants" in data else [])]
    _check_output_path(out, inputs, in_chunks)
    fitted = load(model)
    data |= {"covariates": fitted.covariates or (NO_COLUMN,), "exclude": split_option(exclude)}
    if fitted.preprocessing.harmoniser is None:
        data.setdefault("site", NO_COLUMN)
    if not learn_sites:
        data |= {"group": None, "controls": (), "patients": ()}
    request = replace(
        make_table_request(tables, data),
        measure="any" if fitted.card.unit == FEATURE_UNIT else ALL_MEASURES,
        on_missing=on_missing,
        find_groups=learn_sites,
        on_suspect=None,
        model_regions=(*fitted.regions, *(part for parts in fitted.sums.values() for part in parts)),
    )
    scale = describe_scale(fitted)
    if in_chunks:
        result = _apply_in_chunks(model, request, out, workers, scale)
    else:
        result = _apply_in_memory(fitted, request, out, least if learn_sites else None, plink)
    problems = [problem for problem in result.problems if problem.code not in _TRAINING_CODES]
    if known := _find_training_people(model, out):  # by their ids, which says more than their averages
        problems = [problem for problem in problems if problem.code is not ProblemCode.TRAINING_PEOPLE] + known
    print_problems(problems)
    rows, novel, _ = result.counted
    values = {"people": result.people, "visits": rows, "novel": novel, "out": str(out)}
    again = f" ({result.resumed} of {result.parts} parts were there already)" if result.resumed else ""
    people = format_count(result.people, "person", "people")
    written = people if rows == result.people else f"{rows:,} visits of {people}"
    share = f"{novel:,} ({novel / max(rows, 1):.1%}) of them unlike the training people"
    text = f"{written} written to {out}, {share}{again}\n{scale}"
    values |= {"rows_per_second": round(result.rows_per_second), "scale": scale}
    print_result(as_json, values, text, err=True)


def _find_training_people(model: Path, out: Path) -> list[Problem]:
    """Return a warning that names the people of a table whom the model was trained on, as its study tells."""
    import pandas as pd

    from rindices.apply.tables import SEPARATORS
    from rindices.tables.cohort import ID

    own = model.parent / "r_indices.tsv"
    if not own.is_file() or own.resolve() == out.resolve():
        return []
    trained = pd.read_csv(own, sep="\t", usecols=[ID], dtype=str)[ID]
    if out.suffix in SEPARATORS:
        applied = pd.read_csv(out, sep=SEPARATORS[out.suffix], usecols=[ID], dtype=str)[ID]
    else:
        applied = pd.read_parquet(out, columns=[ID])[ID].astype(str)
    known = sorted(set(trained) & set(applied))
    if not known:
        return []
    people = format_count(len(known), "person of this table was", "people of this table were")
    cure = f"Use their cross-fitted R-indices in {own.name} beside the model"
    what = f"{people} in the study that the model was fitted to, so their R-indices here are in-sample"
    return [Problem(Severity.WARNING, what, "", cure, ProblemCode.TRAINING_PEOPLE, offenders=tuple(known))]


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


def _apply_in_chunks(model: Path, request: "TableRequest", out: Path, workers: int, scale: str) -> "StreamResult":
    """Apply in chunks, with a message about the progress every few seconds."""
    from rindices.apply.chunks import apply_stream

    last = start = time.monotonic()

    def print_progress(rows: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _SECONDS_BETWEEN_MESSAGES:
            typer.echo(f"{rows:,} rows, {rows / (now - start):,.0f} a second", err=True)
            last = now

    return apply_stream(model, request, out, workers, on_progress=print_progress, scale=scale)


def _apply_in_memory(
    fitted: "FittedModel", request: "TableRequest", out: Path, min_controls: int | None, plink: Path | None
) -> "StreamResult":
    """Apply to all people at once: for tables that are joined, a folder of subjects, new sites, or files for PLINK.

    ``min_controls`` is the number of controls that a new site must have; None where new sites are refused.
    """
    from rindices.analysis.plink_files import write_plink_files
    from rindices.apply.chunks import StreamResult
    from rindices.apply.tables import write_indices
    from rindices.model.scale import describe_scale
    from rindices.tables.cohort import ID
    from rindices.tables.validate import validate_table

    start = time.perf_counter()
    validation = validate_table(request)
    cohort = validation.cohort_or_raise()
    if min_controls is not None:
        fitted = fitted.with_sites(cohort, min_controls)
    indices, problems, counted = fitted.assess(cohort, request.on_missing, on_outlier=request.on_outlier)
    write_indices(indices, out, fitted.card.unit, describe_scale(fitted))
    if plink is not None:
        first = indices[~indices[ID].duplicated()]
        if len(first) < len(indices):
            what = f"{plink}.phe has the first session of each person; for others, leave the first out of the table"
            problems.append(Problem(Severity.NOTE, what, code=ProblemCode.SESSION_UNCLEAR))
        codings = fitted.preprocessing.residualiser.codings
        write_plink_files(first, cohort.covariates.loc[first.index], codings, plink)
    rate = len(indices) / max(time.perf_counter() - start, 1e-9)
    return StreamResult(counted, indices[ID].nunique(), [*problems, *validation.problems], 1, 0, rate)
