"""The program ``rindices``: commands, error messages and exit codes."""

import sys
from typing import Annotated

import typer

from rindices._version import __version__
from rindices.cli import (
    apply,
    change,
    check,
    classify,
    figures,
    fit,
    model,
    planning,
    replicate,
    statistics,
)
from rindices.cli.console import print_json, print_problems
from rindices.cli.options import TableCommand
from rindices.errors import (
    Problem,
    ProblemCode,
    RindicesError,
    Severity,
    describe_os_error,
    speak_options,
)

app = typer.Typer(
    name="rindices",
    help="R-indices: a few continuous disease-severity numbers per person from regional brain volumes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
_COMMANDS = {
    "Study": {
        "check": check,
        "fit": fit,
        "apply": apply,
        "report": fit,
        "figures": figures,
    },
    "Statistics": {
        **{"associate": statistics, "compare": statistics, "classify": classify},
        **{
            "reproduce": classify,
            "replicate": replicate,
            "change": change,
            "predict": change,
        },
    },
    "Planning and simulation": dict.fromkeys(
        ("power", "simulate", "score", "reference"), planning
    ),
}
for _panel, _modules in _COMMANDS.items():
    for _name, _module in _modules.items():
        _example = f"Example: rindices {_name} {_module.EXAMPLES[_name]}"
        app.command(_name, cls=TableCommand, epilog=_example, rich_help_panel=_panel)(
            getattr(_module, _name)
        )
app.add_typer(model.app, name="model", rich_help_panel="Study")

_INTERRUPT_EXIT_CODE = 130  # of typer after Ctrl-C


def _print_version(is_set: bool) -> None:
    if is_set:
        typer.echo(f"rindices {__version__}")
        raise typer.Exit


@app.callback()
def _accept_global_options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and leave.",
        ),
    ] = False,
) -> None:
    """Accept options before a command; messages name options while it runs."""
    context.with_resource(speak_options())


def run() -> None:
    """Run the program ``rindices``; see `run_program`."""
    run_program(app)


def run_program(program: typer.Typer) -> None:
    """Run a program.

    Exit codes: 0 done, 1 a problem in the input, 2 wrong usage, 3 interrupted.
    """
    try:
        program()
    except RindicesError as error:
        print_problems(error.problems)
        if (
            "--json" in sys.argv
        ):  # messages list the first offenders, the object lists all
            print_json({"problems": [problem.as_dict() for problem in error.problems]})
        sys.exit(1)
    except (
        OSError
    ) as error:  # of a file that no command speaks of, or that failed after its checks
        name = f" {error.filename}" if error.filename else ""
        what = f"the system could not read or write{name} ({describe_os_error(error)})"
        cure = "Look at the disk, then run the same command again"
        print_problems(
            [
                Problem(
                    severity=Severity.ERROR,
                    what=what,
                    where="",
                    cure=cure,
                    code=ProblemCode.FILE_UNREADABLE,
                )
            ]
        )
        sys.exit(1)
    except SystemExit as exit_request:
        if exit_request.code != _INTERRUPT_EXIT_CODE:
            raise
        typer.echo("interrupted; run the same command again", err=True)
        sys.exit(3)
