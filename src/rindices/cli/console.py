"""Print results to standard output and messages to standard error, and write to the
folder of ``--out``.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import typer

from rindices.errors import Problem, ProblemCode, Severity, explain_write_errors

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def print_problems(problems: Iterable[Problem], with_untested: bool = False) -> None:
    """Print each problem on one line of standard error, errors first.

    with_untested: also what could not be tested about a table, which ``check`` says
    alone.
    """
    order = list(reversed(Severity))
    said = [
        each
        for each in problems
        if with_untested or each.code is not ProblemCode.BLOCKS_NOT_TESTED
    ]
    for problem in sorted(said, key=lambda problem: order.index(problem.severity)):
        label = typer.style(
            f"{problem.severity}:", fg=_COLOURS[problem.severity], bold=True
        )
        typer.echo(f"{label} {problem}", err=True)


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object to standard output."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def print_result(
    as_json: bool,
    values: dict[str, Any],
    text: str | Sequence[tuple[str, str]],
    err: bool = False,
) -> None:
    """Print a result as one JSON object, or a text or facts about it; ``err`` sends a
    text to standard error.
    """
    if as_json:
        print_json(values)
    elif isinstance(text, str):
        typer.echo(text, err=err)
    else:
        print_facts(text)


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print aligned pairs of name and value without those that have no value; a line
    without a name goes on.
    """
    filled = [(name, value) for name, value in facts if value]
    width = max(len(name) for name, _ in filled)
    for name, value in filled:
        typer.echo(f"{typer.style(name.ljust(width), bold=True)}  {value}")


def split_option(values: Sequence[str] | None) -> tuple[str, ...]:
    """Return the values of an option that can be repeated and can hold commas."""
    return tuple(
        word.strip()
        for value in values or ()
        for word in value.split(",")
        if word.strip()
    )


def make_folder(out: Path) -> None:
    """Create the folder; called before a long computation, so that a wrong --out fails
    at once.
    """
    with explain_write_errors(f"to {out}"):
        out.mkdir(parents=True, exist_ok=True)


def write_json_and_table(
    out: Path, names: tuple[str, str], values: dict[str, Any], table: str
) -> None:
    """Write a result as JSON and as a markdown table, atomically; ``names`` are those
    of the two files.
    """
    from rindices.atomic import write_atomically

    write_atomically(out / names[0], (json.dumps(values, indent=1) + "\n").encode())
    write_atomically(out / names[1], table.encode())


def parse_numbers(
    values: Sequence[str] | None, option: str, message: str
) -> tuple[float, ...]:
    """Return the numbers of an option; the message about other words may name them as
    ``{words}``.
    """
    words = split_option(values)
    try:
        return tuple(float(word) for word in words)
    except ValueError:
        raise typer.BadParameter(
            message.format(words=", ".join(words)), param_hint=option
        ) from None
