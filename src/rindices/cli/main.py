"""The program ``rindices``: commands, error messages and exit codes."""

import sys
from typing import Annotated

import typer

from rindices._version import __version__
from rindices.cli import (
    apply,
    associate,
    benchmark,
    change,
    check,
    classify,
    compare,
    federate,
    fit,
    model,
    power,
    predict,
    reference,
    report,
    reproduce,
    score,
    simulate,
    site,
)
from rindices.cli.console import print_json, print_problems
from rindices.errors import Problem, ProblemCode, RindicesError, Severity, describe_os_error

app = typer.Typer(
    name="rindices",
    help="R-indices: a few continuous disease-severity numbers per person from regional brain volumes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("check", epilog=check.EPILOG)(check.check)
app.command("fit", epilog=fit.EPILOG)(fit.fit)
app.command("apply", epilog=apply.EPILOG)(apply.apply)
app.command("associate", epilog=associate.EPILOG)(associate.associate)
app.command("compare", epilog=compare.EPILOG)(compare.compare)
app.command("classify", epilog=classify.EPILOG)(classify.classify)
app.command("reproduce", epilog=reproduce.EPILOG)(reproduce.reproduce)
app.command("change", epilog=change.EPILOG)(change.change)
app.command("predict", epilog=predict.EPILOG)(predict.predict)
app.command("site", epilog=site.EPILOG)(site.site)
app.command("federate", epilog=federate.EPILOG)(federate.federate)
app.add_typer(model.app, name="model")
app.command("reference", epilog=reference.EPILOG)(reference.reference)
app.command("report", epilog=report.EPILOG)(report.report)
app.command("benchmark", epilog=benchmark.EPILOG)(benchmark.benchmark)
app.command("power", epilog=power.EPILOG)(power.power)
app.command("score", epilog=score.EPILOG)(score.score)
app.command("simulate", epilog=simulate.EPILOG)(simulate.simulate)

_INTERRUPT_EXIT_CODE = 130  # of typer after Ctrl-C


def _print_version(is_set: bool) -> None:
    if is_set:
        typer.echo(f"rindices {__version__}")
        raise typer.Exit


@app.callback()
def _accept_global_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Accept options before a command."""


def run() -> None:
    """Run the program. Exit codes: 0 done, 1 a problem in the input, 2 wrong usage, 3 interrupted."""
    try:
        app()
    except RindicesError as error:
        print_problems(error.problems)
        if "--json" in sys.argv:  # messages list the first offenders, the object lists all
            print_json({"problems": [problem.as_dict() for problem in error.problems]})
        sys.exit(1)
    except OSError as error:  # of a file that no command speaks of, or that failed after its checks
        name = f" {error.filename}" if error.filename else ""
        what = f"the system could not read or write{name} ({describe_os_error(error)})"
        print_problems(
            [
                Problem(
                    Severity.ERROR,
                    what,
                    "",
                    "Look at the disk, then run the same command again",
                    ProblemCode.FILE_UNREADABLE,
                )
            ]
        )
        sys.exit(1)
    except SystemExit as exit_request:
        if exit_request.code != _INTERRUPT_EXIT_CODE:
            raise
        typer.echo("interrupted; run the same command again", err=True)
        sys.exit(3)
