"""``rindices apply``: R-indices for new people from a finished model."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rindices.cli.console import print_problems, print_result, split_option
from rindices.cli.options import (
    Json,
    Model,
    Tables,
    Workers,
    get_table_values,
    make_table_request,
    take_table_options,
)
from rindices.errors import (
    ModelError,
    Problem,
    ProblemCode,
    Severity,
    format_count,
    parse_codes,
)

if TYPE_CHECKING:
    from rindices.apply.chunks import StreamResult
    from rindices.engine.tasks import Engine
    from rindices.model.fitted import FittedModel
    from rindices.tables.validate import TableRequest

EXAMPLES = {
    "apply": "model.safetensors new_people.csv --participants new_people.tsv --out r_indices.tsv"
}
_TRAINING_CODES = parse_codes(
    "no_groups skewed_features group_column_guessed group_column_possible repeated_scans"
)
"""Notes that matter only for training a model."""
_SECONDS_BETWEEN_MESSAGES = 10.0
_ROWS_OF_IDS = 500_000  # read at a time


@take_table_options(
    "participants id participants_id session site group controls patients missing_codes on_outlier impute_covariates"
)
def apply(
    context: typer.Context,
    model: Model,
    tables: Tables,
    out: Annotated[
        Path,
        typer.Option(
            help="For the R-indices: a .csv, .tsv or .parquet file, or a folder of parquet files."
        ),
    ],
    new_sites: Annotated[
        str,
        typer.Option(
            help="refuse sites unseen in training, or learn them from their own controls."
        ),
    ] = "refuse",
    least: Annotated[
        int, typer.Option(min=2, help="Controls that a new site must have.")
    ] = 10,
    exclude: Annotated[
        list[str] | None,
        typer.Option(help="Columns that are not regions of the model."),
    ] = None,
    on_missing: Annotated[
        str,
        typer.Option(
            help="People who lack regions: model uses the others, drop leaves them out, error stops."
        ),
    ] = "model",
    centiles: Annotated[
        bool,
        typer.Option(
            "--centiles",
            help="Add the centile of each R-index among healthy people of that age and sex.",
        ),
    ] = False,
    layout: Annotated[
        str | None,
        typer.Option(
            help="nichart: --out is the folder of a NiChart study, which gets the scores that its viewer reads."
        ),
    ] = None,
    workers: Workers = -1,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Dask scheduler whose workers compute; they must see all files under the same paths.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the R-indices of new people; needs the regions and covariates that the
    model was trained on.

    One table, or a folder of parquet or csv files that together are one table, is read
    in chunks: memory does not grow with it, people keep their order, and the same
    command resumes a run that was interrupted.
    """
    from rindices.apply.nichart import DETAILS, note_viewer, write_scores
    from rindices.model.centiles import describe_centiles
    from rindices.model.fitted import load
    from rindices.model.scale import describe_scale
    from rindices.tables.sources.frames import list_table_files

    data = get_table_values(context)
    on_outlier = data.get("on_outlier") or "model"
    _check_choice("--on-missing", on_missing, "model", "drop", "error")
    _check_choice("--on-outlier", on_outlier, "model", "keep", "error")
    _check_choice("--new-sites", new_sites, "refuse", "controls")
    scores = _locate_scores(layout, out)
    out = out if scores is None else scores.with_name(DETAILS)
    learn_sites = new_sites == "controls"
    in_chunks = (
        not learn_sites and len(tables) == 1 and list_table_files(tables[0]) is not None
    )
    if scheduler is not None and not in_chunks:
        raise typer.BadParameter(
            "leave it out: only one table, or a folder of csv or parquet files, is read in chunks",
            param_hint="--scheduler",
        )
    listed = Path(data["participants"]) if "participants" in data else None
    inputs = [model, *tables, *([] if listed is None else [listed])]
    for path in (out,) if scores is None else (out, scores):
        _check_output_path(path, inputs, in_chunks)
    fitted = load(model)
    data |= {"exclude": split_option(exclude), "on_missing": on_missing}
    data["covariates"] = _list_covariates(fitted, centiles)
    request = _make_request(fitted, tables, data, learn_sites)
    scale = describe_scale(fitted)
    if in_chunks:
        result = _apply_in_chunks(
            model,
            request,
            out,
            _make_engine(workers, scheduler),
            scale,
            centiles,
            fitted.card.compared_with,
        )
    else:
        least_controls = least if learn_sites else None
        result = _apply_in_memory(fitted, request, out, least_controls, centiles)
    problems = _list_problems(result.problems, model, out)
    if scores is not None:
        number = write_scores(out, scores, listed)
        problems += note_viewer(fitted.card.name, number)
    print_problems(problems)
    values = _collect_values(result, out, scores) | {"scale": scale}
    private = f"{out} holds values of single people and is not readable by others"
    read = "" if scores is None else f"{scores} is what the viewer of NiChart reads\n"
    text = f"{_describe_result(result, out, fitted.card.compared_with)}\n{read}{private}\n{scale}"
    if centiles and fitted.card.healthy is not None:
        meaning = describe_centiles(fitted.card.healthy)
        text, values = f"{text}\n{meaning}", values | {"centiles": meaning}
    print_result(as_json, values, text, err=True)


def _collect_values(
    result: "StreamResult", out: Path, scores: Path | None
) -> dict[str, Any]:
    """Return the numbers and files of a run, for ``--json``."""
    n_people, n_outside = result.counted[:2]
    files = {"out": str(out)} | ({} if scores is None else {"scores": str(scores)})
    speed = {"rows_per_second": round(result.rows_per_second)}
    return (
        {
            "people": result.people,
            "visits": n_people,
            "outside_training_range": n_outside,
        }
        | files
        | speed
    )


def _check_choice(option: str, value: str, *choices: str) -> None:
    """Refuse a value of an option that is none of its choices."""
    if value not in choices:
        *first, last = choices
        cure = f"give {', '.join(first)} or {last}"
        raise typer.BadParameter(cure, param_hint=option)


def _list_covariates(fitted: "FittedModel", centiles: bool) -> tuple[str, ...]:
    """Return the covariates that a table must have."""
    from rindices.model.centiles import AGE, SEX, explain_missing_healthy_people

    if not centiles:
        return fitted.covariates
    if fitted.centiles is None:
        raise ModelError(explain_missing_healthy_people())
    return tuple(dict.fromkeys([*fitted.covariates, AGE, SEX]))


def _locate_scores(layout: str | None, out: Path) -> Path | None:
    """Return the file of scores that a layout asks for; None without a layout."""
    from rindices.apply.nichart import LAYOUT, locate_scores

    if layout is None:
        return None
    if layout != LAYOUT:
        raise typer.BadParameter(f"give {LAYOUT}", param_hint="--layout")
    try:
        scores = locate_scores(out)
    except ModelError as error:
        raise typer.BadParameter(str(error), param_hint="--out") from error
    scores.parent.mkdir(exist_ok=True)
    return scores


def _make_request(
    model: "FittedModel", tables: list[Path], data: dict[str, Any], learn_sites: bool
) -> "TableRequest":
    """Return how tables are read for a model: its sites and its regions; groups only
    where sites are learnt from their controls.
    """
    from rindices.tables.checks.values import ALL_MEASURES
    from rindices.tables.table import NO_COLUMN
    from rindices.wording import FEATURE_UNIT

    data = data | {"covariates": data["covariates"] or (NO_COLUMN,)}
    if model.preprocessing.harmoniser is None:
        data.setdefault("site", NO_COLUMN)
    if not learn_sites:
        data |= {"group": None, "controls": (), "patients": ()}
    data["measure"] = "any" if model.card.unit == FEATURE_UNIT else ALL_MEASURES
    summed = [part for parts in model.sums.values() for part in parts]
    return replace(
        make_table_request(tables, data),
        find_groups=learn_sites,
        searches_blocks=False,
        model_regions=(*model.regions, *summed),
    )


def _list_problems(
    problems: Iterable[Problem], model: Path, out: Path
) -> list[Problem]:
    """Return the problems to print; IDs of training people say more than averages like
    theirs.
    """
    known = _find_training_people(model, out)
    omitted = {*_TRAINING_CODES, *([ProblemCode.TRAINING_PEOPLE] if known else [])}
    return [problem for problem in problems if problem.code not in omitted] + known


def _describe_result(result: "StreamResult", out: Path, compared_with: str) -> str:
    """Return how many people and visits were written, and how many are novel."""
    rows, novel, _ = result.counted
    people = format_count(result.people, "person", "people")
    written = people if rows == result.people else f"{rows:,} visits of {people}"
    fraction = f"{novel:,} ({novel / max(rows, 1):.1%}) of them unlike {compared_with}"
    again = ""
    if result.resumed:
        again = f" ({result.resumed} of {result.parts} parts were there already)"
    return f"{written} written to {out}, {fraction}{again}"


def _find_training_people(model: Path, out: Path) -> list[Problem]:
    """Return a warning that names the people of a table whom the model was trained on,
    as its study tells.
    """
    import pandas as pd

    from rindices.tables.cohort import ID

    own = model.parent / "r_indices.tsv"
    if not own.is_file() or own.resolve() == out.resolve():
        return []
    trained = set(pd.read_csv(own, sep="\t", usecols=[ID], dtype=str)[ID])
    known = sorted({each for ids in _read_ids(out) for each in trained & set(ids)})
    if not known:
        return []
    people = format_count(
        len(known), "person of this table was", "people of this table were"
    )
    cure = f"Use their cross-fitted R-indices in {own.name} beside the model"
    what = f"{people} in the study that the model was fitted to, so their R-indices here are in-sample"
    return [
        Problem(
            severity=Severity.WARNING,
            what=what,
            where="",
            cure=cure,
            code=ProblemCode.TRAINING_PEOPLE,
            offenders=tuple(known),
        )
    ]


def _read_ids(out: Path) -> Iterator[list[str]]:
    """Yield the ids of a table of R-indices, some rows at a time."""
    import pandas as pd

    from rindices.apply.tables import SEPARATORS
    from rindices.tables.cohort import ID

    if out.suffix in SEPARATORS:
        rows = {"usecols": [ID], "dtype": str, "chunksize": _ROWS_OF_IDS}
        for table in pd.read_csv(out, sep=SEPARATORS[out.suffix], **rows):
            yield table[ID].tolist()
        return
    import pyarrow.dataset  # written by it, so that it is installed

    for batch in pyarrow.dataset.dataset(out).to_batches(columns=[ID]):
        yield [str(each) for each in batch.column(0).to_pylist()]


def _check_output_path(out: Path, inputs: list[Path], in_chunks: bool) -> None:
    """Refuse a path for the results that is an input, or that cannot be written."""
    if out.resolve() in [path.resolve() for path in inputs]:
        raise typer.BadParameter(
            f"{out} is one of the inputs and would be lost; give another",
            param_hint="--out",
        )
    if any(
        path.is_dir() and path.resolve() in out.resolve().parents for path in inputs
    ):
        raise typer.BadParameter(
            f"{out} is inside an input folder; give another place", param_hint="--out"
        )
    suffixes = (
        (".csv", ".tsv", ".parquet", "") if in_chunks else (".csv", ".tsv", ".parquet")
    )
    if (
        out.suffix not in suffixes
        or not out.absolute().parent.is_dir()
        or (out.suffix and out.is_dir())
    ):
        raise typer.BadParameter(
            "give a .csv, .tsv or .parquet file in a folder that is there",
            param_hint="--out",
        )
    if not out.suffix and out.is_file():
        raise typer.BadParameter(
            f"{out} is a file; give a folder, or a file with a suffix",
            param_hint="--out",
        )


def _apply_in_chunks(
    model: Path,
    request: "TableRequest",
    out: Path,
    engine: "Engine",
    scale: str,
    centiles: bool,
    compared_with: str,
) -> "StreamResult":
    """Apply in chunks, with a message about the progress every few seconds."""
    from rindices.apply.chunks import apply_stream
    from rindices.engine.tasks import StoppedError

    last = start = time.monotonic()

    def print_progress(rows: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _SECONDS_BETWEEN_MESSAGES:
            typer.echo(f"{rows:,} rows, {rows / (now - start):,.0f} a second", err=True)
            last = now

    try:
        return apply_stream(
            model,
            request,
            out,
            engine=engine,
            on_progress=print_progress,
            scale=scale,
            centiles=centiles,
            compared_with=compared_with,
        )
    except StoppedError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(3) from None


def _make_engine(workers: int, scheduler: str | None) -> "Engine":
    """Return processes of this machine, or the workers of a scheduler."""
    from rindices.engine.local import LocalEngine

    if scheduler is None:
        return LocalEngine(workers)
    from rindices.engine.cluster import DaskEngine

    return DaskEngine(scheduler=scheduler)


def _apply_in_memory(
    fitted: "FittedModel",
    request: "TableRequest",
    out: Path,
    min_controls: int | None,
    centiles: bool,
) -> "StreamResult":
    """Apply to all people at once: for tables that are joined, a folder of subjects,
    or new sites.

    ``min_controls`` is the number of controls that a new site must have; None where new
    sites are refused.
    """
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
    indices, problems, counted = fitted.assess(
        cohort,
        request.options.on_missing,
        on_outlier=request.options.on_outlier,
        centiles=centiles,
    )
    write_indices(indices, out, fitted.card.unit, describe_scale(fitted))
    rate = len(indices) / max(time.perf_counter() - start, 1e-9)
    return StreamResult(
        counted=counted,
        people=indices[ID].nunique(),
        problems=[*problems, *validation.problems],
        parts=1,
        resumed=0,
        rows_per_second=rate,
    )
