"""Options of several commands; those of tables are declared once, in `TableOptions`."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rindices.cli.console import split_option

if TYPE_CHECKING:
    from rindices.tables.validate import TableRequest

TABLE, ADJUSTMENT, TRAINING, RUN = "Table", "Adjustment and sites", "Training", "Run and output"
"""Panels of the help; options that most people need are in none of them and come first."""

_Word = str | None
_Words = list[str] | None
Tables = Annotated[list[Path], typer.Argument(metavar="TABLE...", help="Volumes; several are joined by id.")]
Json = Annotated[bool, typer.Option("--json", rich_help_panel=RUN, help="Print one JSON object.")]
Workers = Annotated[int, typer.Option(metavar="N", rich_help_panel=RUN, help="Processes; -1 for all cores.")]
DataOptions = dict[str, Any]
"""Values of the section ``data`` of a study, from the options of `TableOptions` that were given."""


def describe_option(
    help: str, metavar: str | None = None, panel: str | None = None, *names: str, min: int | None = None
) -> Any:
    """Return an option with its help, the word for its value and its panel."""
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel, min=min)


@dataclass(frozen=True)
class TableOptions:
    """Options of the section ``data`` of a study, by their names there."""

    participants: Annotated[Path | None, describe_option("Who the people are, joined by id.", "TABLE")] = None
    group: Annotated[_Word, describe_option("Column that tells controls from patients.", "COLUMN")] = None
    controls: Annotated[_Words, describe_option("Label(s) of the controls.", "LABELS")] = None
    patients: Annotated[_Words, describe_option("Label(s) of the patients; * for everyone else.", "LABELS")] = None
    covariates: Annotated[
        _Words, describe_option("To adjust for; none for none; by default age, sex and icv.", "COLUMNS")
    ] = None
    site: Annotated[_Word, describe_option("Site or scanner; none for none; by default a usual one.", "COLUMN")] = None
    id: Annotated[_Word, describe_option("Ids, if unusual, or several to join: a,b.", "COLUMN", TABLE)] = None
    participants_id: Annotated[_Word, describe_option("Ids in the participants, if unusual.", "COLUMN", TABLE)] = None
    session: Annotated[_Word, describe_option("Session, if unusual.", "COLUMN", TABLE)] = None
    exclude: Annotated[_Words, describe_option("Regions to leave out.", "COLUMNS", TABLE)] = None
    include: Annotated[
        _Words, describe_option("ventricles, or columns that are left out otherwise.", "COLUMNS", TABLE)
    ] = None
    measure: Annotated[
        _Word, describe_option("volume, thickness or area alone; any for other features.", "KIND", TABLE)
    ] = None
    missing_codes: Annotated[
        _Words, describe_option("Values for missing, e.g. -9999,-4; none for none.", "CODES", TABLE)
    ] = None
    on_missing: Annotated[
        _Word, describe_option("Who lacks regions: model uses the others, drop, or error.", "HOW", TABLE)
    ] = None
    impute_covariates: Annotated[
        bool, describe_option("Impute missing covariates from controls.", None, TABLE, "--impute-covariates")
    ] = False
    leave_out_sites: Annotated[
        _Words, describe_option("Site(s) whose people are left out.", "NAME", ADJUSTMENT, "--leave-out-site")
    ] = None
    harmonise: Annotated[
        _Word, describe_option("Learn what sites do from controls, all or none.", "WHO", ADJUSTMENT)
    ] = None
    adjust: Annotated[
        _Word, describe_option("Adjust on the log, linear or rank scale, or none.", "SCALE", ADJUSTMENT)
    ] = None
    icv_for: Annotated[
        _Word, describe_option("Measures adjusted for head size beside thickness.", "volume|all", ADJUSTMENT)
    ] = None
    reference: Annotated[
        _Word, describe_option("Healthy people of the same program.", "TABLE|FILE|muse", ADJUSTMENT)
    ] = None
    visits: Annotated[
        _Word, describe_option("Learn from first visits, mean, or all with change.", "first|mean|all", ADJUSTMENT)
    ] = None


def take_table_options(names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command options of `TableOptions` as its argument ``data``.

    names: the names of the options, separated by blanks; after ``-``, those that are left out.
    """
    listed = names.split()
    options = [each for each in fields(TableOptions) if (each.name in listed) != (listed[:1] == ["-"])]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**values: object) -> None:
            given = {option.name: values.pop(option.name) for option in options}
            command(**values, data={name: _to_data_value(value) for name, value in given.items() if value})

        kind = inspect.Parameter.KEYWORD_ONLY
        added = [inspect.Parameter(each.name, kind, default=each.default, annotation=each.type) for each in options]
        own = inspect.signature(command, eval_str=True).parameters.values()
        position = [parameter.name for parameter in own].index("data")
        parameters = [parameter.replace(kind=kind) for parameter in own if parameter.name != "data"]
        parameters[position:position] = added
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def make_table_request(tables: list[Path], data: DataOptions) -> "TableRequest":
    """Return the request to read tables with the options of a command."""
    from rindices.study.config import DataConfig

    return DataConfig(volumes=tuple(map(str, tables)), **data).request(Path())


def _to_data_value(value: object) -> object:
    """Return the value of an option as a study file holds it: lists without commas, paths as text."""
    if isinstance(value, list):
        return list(split_option(value))
    return str(value) if isinstance(value, Path) else value
