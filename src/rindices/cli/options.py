"""Options of several commands; those of tables are declared once, in `_TABLE_OPTIONS`."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rindices.cli.console import split_option
from rindices.errors import UNUSUAL_OPTIONS

if TYPE_CHECKING:
    from rindices.study.config import StudyConfig
    from rindices.tables.validate import TableRequest

TABLE, ADJUSTMENT, TRAINING, RUN = "Table", "Adjustment and sites", "Training", "Run and output"
"""Panels of the help; options that most people need are in none of them and come first."""

Words = list[str] | None
"""Words of an option that can be repeated and can hold commas, see `split_option`."""
Tables = Annotated[list[Path], typer.Argument(metavar="TABLE...", help="Volumes; several are joined by id.")]
Json = Annotated[bool, typer.Option("--json", rich_help_panel=RUN, help="Print one JSON object.")]
Workers = Annotated[int, typer.Option(metavar="N", rich_help_panel=RUN, help="Processes; -1 for all cores.")]
Indices = Annotated[Path, typer.Argument(metavar="R_INDICES", help="participant_id and r1, r2, ...")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model.safetensors.")]
OldMethod = Annotated[str | None, typer.Option("--recipe", hidden=True)]
"""The method by the name that the option had in rindices 0.1.0."""
NewModel = Annotated[Path, typer.Option(help="The model to write, .safetensors.")]
DataOptions = dict[str, Any]
"""Values of the section ``data`` of a study, from the options of `_TABLE_OPTIONS` that were given."""


def describe_option(
    help: str, metavar: str | None = None, panel: str | None = None, *names: str, min: int | None = None
) -> Any:
    """Return an option with its help, the word for its value and its panel."""
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel, min=min)


_TABLE_OPTIONS: dict[str, tuple[Any, str, str | None, str | None]] = {
    "participants": (Path, "Who the people are, joined by id.", "TABLE", None),
    "group": (str, "Column that tells controls from patients.", "COLUMN", None),
    "controls": (list[str], "Label(s) of the controls.", "LABELS", None),
    "patients": (list[str], "Label(s) of the patients; * for everyone else.", "LABELS", None),
    "covariates": (list[str], "To adjust for; none for none; by default age, sex and icv.", "COLUMNS", None),
    "site": (str, "Site or scanner; none for none; by default a usual one.", "COLUMN", None),
    "id": (str, "Ids, if unusual, or several to join: a,b.", "COLUMN", TABLE),
    "participants_id": (str, "Ids in the participants, if unusual.", "COLUMN", TABLE),
    "session": (str, "Session, if unusual.", "COLUMN", TABLE),
    "exclude": (list[str], "Regions to leave out.", "COLUMNS", TABLE),
    "exclude_people": (list[str], "People to leave out, or a .txt file with an ID a line.", "IDS", TABLE),
    "include": (list[str], "ventricles, or columns that are left out otherwise.", "COLUMNS", TABLE),
    "measure": (str, "volume, thickness or area alone; any for other features.", "KIND", TABLE),
    "missing_codes": (list[str], "Values for missing, e.g. -9999,-4; none for none.", "CODES", TABLE),
    "on_missing": (str, "Who lacks regions: model uses the others, drop, or error.", "HOW", TABLE),
    "on_outlier": (str, "Cells that do not fit a person's others: model, keep, error.", "HOW", TABLE),
    "on_suspect": (str, "Sites or rows that look wrong as a whole: error, or keep.", "HOW", TABLE),
    "impute_covariates": (bool, "Impute missing covariates from controls.", None, TABLE),
    "leave_out_sites": (list[str], "Site(s) whose people are left out.", "NAME", ADJUSTMENT),
    "harmonise": (str, "Learn what sites do from controls, all or none.", "WHO", ADJUSTMENT),
    "adjust": (str, "Adjust on the log or linear scale, or none.", "SCALE", ADJUSTMENT),
    "icv_for": (str, "Measures adjusted for head size beside thickness.", "volume|all", ADJUSTMENT),
    "reference": (str, "Healthy people of the same program.", "TABLE|FILE|muse", ADJUSTMENT),
    "visits": (str, "Learn from first visits, mean, or all with change.", "first|mean|all", ADJUSTMENT),
}
"""Options of the section ``data`` of a study, by their names there: type, help, word for the value, and panel."""
_OPTION_NAMES = {"impute_covariates": "--impute-covariates", **UNUSUAL_OPTIONS}


def _make_parameter(name: str) -> inspect.Parameter:
    """Return an option of tables as a parameter of a command."""
    kind, help, metavar, panel = _TABLE_OPTIONS[name]
    names = [_OPTION_NAMES[name]] if name in _OPTION_NAMES else []
    option, values = describe_option(help, metavar, panel, *names), kind if kind is bool else kind | None
    default, annotation = False if kind is bool else None, Annotated[values, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def take_table_options(names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command options of `_TABLE_OPTIONS` as its argument ``data``.

    names: the names of the options, separated by blanks; after ``-``, those that are left out.
    """
    listed = names.split()
    options = [name for name in _TABLE_OPTIONS if (name in listed) != (listed[:1] == ["-"])]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**values: object) -> None:
            given = {name: values.pop(name) for name in options}
            command(**values, data={name: _to_data_value(value) for name, value in given.items() if value})

        own = inspect.signature(command, eval_str=True).parameters.values()
        position = [parameter.name for parameter in own].index("data")
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters = [parameter.replace(kind=kind) for parameter in own if parameter.name != "data"]
        parameters[position:position] = map(_make_parameter, options)
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def make_table_request(tables: list[Path], data: DataOptions) -> "TableRequest":
    """Return the request to read tables with the options of a command."""
    from rindices.study.config import DataConfig

    return DataConfig(volumes=tuple(map(str, tables)), **data).request(Path())


def load_study(source: list[Path], *sections: Mapping[str, object]) -> "tuple[StudyConfig, Path]":
    """Return the study of a file with the options on top, or of options alone."""
    from rindices.errors import StudyError
    from rindices.model.normal_reference import MUSE_REFERENCE
    from rindices.study.config import make_study, merge_options
    from rindices.study.settings import SettingSource, rename_old_settings
    from rindices.tables.io.frames import locate
    from rindices.tables.readers import locate_people_files

    options = [{name: value for name, value in section.items() if value not in (None, ())} for section in sections]
    values: dict[str, dict[str, Any]] = dict(zip(("data", "model", "run"), options, strict=True))
    changed = values["model"].get("method_settings", {})
    given = frozenset([*changed, *(name for section in options for name in section)])
    command, say = SettingSource("", given), partial(typer.echo, err=True)
    try:
        values["model"] = rename_old_settings(values["model"], command, say)
    except StudyError as error:
        raise typer.BadParameter(str(error)) from error
    for name in ("participants", "reference"):
        if values["data"].get(name, MUSE_REFERENCE) != MUSE_REFERENCE:
            values["data"][name] = str(locate(Path.cwd(), values["data"][name]))
    if people := values["data"].get("exclude_people"):
        values["data"]["exclude_people"] = locate_people_files(Path.cwd(), people)
    if source[0].suffix == ".toml":
        if len(source) > 1:
            raise StudyError("give one study file, or tables, not both.")
        return make_study(merge_options(source[0], values, say), SettingSource(source[0].name, given)), source[0].parent
    values["data"]["volumes"] = [str(locate(Path.cwd(), path)) for path in source]
    try:
        return make_study(values, command), Path()
    except StudyError as error:
        raise typer.BadParameter(str(error)) from error


def _to_data_value(value: object) -> object:
    """Return the value of an option as a study file holds it: lists without commas, paths as text."""
    if isinstance(value, list):
        return list(split_option(value))
    return str(value) if isinstance(value, Path) else value
