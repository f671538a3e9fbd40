"""Options of several commands; those of tables are made from
`rindices.tables.options.DataOptions`.
"""

from collections.abc import Callable, Mapping
from dataclasses import field, make_dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from rindices.cli.console import split_option
from rindices.errors import UNUSUAL_OPTIONS

if TYPE_CHECKING:
    from rindices.study.config import StudyConfig
    from rindices.tables.validate import TableRequest

TABLE, ADJUSTMENT, TRAINING, RUN = (
    "Table",
    "Adjustment and sites",
    "Training",
    "Run and output",
)
"""Panels of the help; options that most people need are in none of them and come first.
"""

Words = list[str] | None
"""Words of an option that can be repeated and can hold commas, see `split_option`."""
Tables = Annotated[
    list[Path],
    typer.Argument(metavar="TABLE...", help="Volumes; several are joined by id."),
]
Json = Annotated[
    bool, typer.Option("--json", rich_help_panel=RUN, help="Print one JSON object.")
]
Workers = Annotated[
    int,
    typer.Option(metavar="N", rich_help_panel=RUN, help="Processes; -1 for all cores."),
]
Indices = Annotated[
    Path, typer.Argument(metavar="R_INDICES", help="participant_id and r1, r2, ...")
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model.safetensors.")]
OldMethod = Annotated[str | None, typer.Option("--recipe", hidden=True)]
"""The method by the name that the option had in rindices 0.1.0."""
NewModel = Annotated[Path, typer.Option(help="The model to write, .safetensors.")]
DataValues = dict[str, Any]
"""Values of the section ``data`` of a study, of the options that were given."""
Command = TypeVar("Command", bound=Callable[..., None])
_COMMAND_OPTIONS = {"impute_covariates": "--impute-covariates", **UNUSUAL_OPTIONS}
"""Options that typer would call otherwise, by their keys in a study file."""


def describe_option(
    help: str,
    metavar: str | None = None,
    panel: str | None = None,
    *names: str,
    min: int | None = None,
) -> Any:
    """Return an option with its help, the word for its value and its panel."""
    return typer.Option(
        *names, help=help, metavar=metavar, rich_help_panel=panel, min=min
    )


def take_table_options(names: str) -> Callable[[Command], Command]:
    """Return a decorator that gives a command options of tables, by their names,
    separated by blanks; the command gets their values by `get_table_values`.
    """

    def decorate(command: Command) -> Command:
        command.table_options = names.split()  # type: ignore[attr-defined]
        return command

    return decorate


class TableCommand(TyperCommand):
    """A command that has, beside the options of its function, options of tables.

    They are made when they are needed, so that the program starts without them.
    """

    @cached_property
    def table_options(self) -> list[Any]:
        """The options of tables, in the order of `list_options`."""
        wanted = getattr(self.callback, "table_options", [])
        return _make_table_options(wanted) if wanted else []

    def get_params(self, ctx: Any) -> list[Any]:
        """Return all options, those of tables after what is required."""
        own = super().get_params(ctx)
        optional = (
            position
            for position, each in enumerate(own)
            if each.param_type_name == "option" and not each.required
        )
        position = next(optional)
        return [*own[:position], *self.table_options, *own[position:]]

    def invoke(self, ctx: Any) -> Any:
        """Call the function of the command with its own options."""
        names = {each.name for each in self.table_options}
        own = {name: value for name, value in ctx.params.items() if name not in names}
        return ctx.invoke(self.callback, **own)


def get_table_values(context: typer.Context) -> DataValues:
    """Return the options of tables that were given to a command, as a study file holds
    them: lists without commas.
    """
    command = context.command
    assert isinstance(command, TableCommand)
    names = [str(each.name) for each in command.table_options]
    given = {name: context.params[name] for name in names if context.params[name]}
    return {
        name: list(split_option(value)) if isinstance(value, list) else value
        for name, value in given.items()
    }


def _make_table_options(names: list[str]) -> list[Any]:
    """Return options of tables as typer makes them for a function; all but those after
    a ``-``, if that comes first.
    """
    from rindices.tables.options import DataOptions, list_options, takes_several

    fields = []
    for name, option in list_options().items():
        if (name in names) == (names[0] == "-"):
            continue
        default = DataOptions.model_fields[name].default
        kind: Any = list[str] | None if takes_several(name) else str | None
        kind = bool if isinstance(default, bool) else kind
        flags = [_COMMAND_OPTIONS[name]] if name in _COMMAND_OPTIONS else []
        shown = describe_option(option.help, option.word, option.panel, *flags)
        unset = False if kind is bool else None
        fields.append((name, Annotated[kind, shown], field(default=unset)))
    program = typer.Typer(add_completion=False)
    program.command()(make_dataclass("TableValues", fields, kw_only=True))
    return list(typer.main.get_command(program).params)


def make_table_request(tables: list[Path], data: DataValues) -> "TableRequest":
    """Return the request to read tables with the options of a command."""
    from rindices.errors import StudyError
    from rindices.study.config import make_study
    from rindices.study.settings import SettingSource

    values = {"data": {**data, "volumes": [str(path) for path in tables]}}
    try:
        study = make_study(values, SettingSource("", frozenset(data)))
    except StudyError as error:
        raise typer.BadParameter(str(error)) from error
    return study.data.request(Path())


def load_study(
    source: list[Path], *sections: Mapping[str, object]
) -> "tuple[StudyConfig, Path]":
    """Return the study of a file with the options on top, or of options alone."""
    from rindices.errors import StudyError
    from rindices.model.normal_reference import MUSE_REFERENCE
    from rindices.study.config import make_study, merge_options
    from rindices.study.settings import SettingSource, rename_old_settings
    from rindices.tables.readers import locate_people_files
    from rindices.tables.sources.frames import locate

    options = [
        {name: value for name, value in section.items() if value not in (None, ())}
        for section in sections
    ]
    values: dict[str, dict[str, Any]] = dict(
        zip(("data", "model", "run"), options, strict=True)
    )
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
        return make_study(
            merge_options(source[0], values, say), SettingSource(source[0].name, given)
        ), source[0].parent
    values["data"]["volumes"] = [str(locate(Path.cwd(), path)) for path in source]
    try:
        return make_study(values, command), Path()
    except StudyError as error:
        raise typer.BadParameter(str(error)) from error
