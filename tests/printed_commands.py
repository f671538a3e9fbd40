"""Commands and options in messages, and whether the command line knows them."""

import re
import shlex
from functools import cache
from html import unescape

import click
import typer

from rindices.cli.main import app

COMMAND = re.compile(r"(?<![\w/.])rindices ([a-z]+(?: [^\n`]*)?)")
"""A command in a text: it is the last thing on its line, or in quotes of code."""
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]+)")
CODE = re.compile(r"<code>(rindices .*?)</code>", re.DOTALL)


@cache
def get_program() -> click.Group:
    """Return the program with all its commands."""
    program = typer.main.get_command(app)
    assert isinstance(program, click.Group) or hasattr(program, "commands")
    return program  # type: ignore[return-value]


@cache
def list_options() -> frozenset[str]:
    """Return the long options of all commands."""
    commands = [*get_program().commands.values()]
    for command in list(commands):
        commands += getattr(command, "commands", {}).values()
    options = [
        *get_program().params,
        *(
            each
            for command in commands
            for each in command.get_params(typer.Context(command))
        ),
    ]
    return frozenset(
        name for option in options for name in (*option.opts, *option.secondary_opts)
    ) | {"--help"}


def list_faults(message: str) -> list[str]:
    """Return what the command line does not know in a message: unknown options, and
    commands that do not parse.
    """
    others = r"(?:pip|docker|git|sbatch|aparcstats2table|python -m) [^\n)]*"
    own = re.sub(others, "", message)  # without options of other programs
    faults = [
        f"no command has {name}"
        for name in OPTION.findall(own)
        if name not in list_options()
    ]
    for line in message.splitlines():
        for found in COMMAND.finditer(line):
            faults += parse_command(found[1])
    return faults


def list_page_faults(page: str) -> list[str]:
    """Return the commands of a page that do not parse."""
    return [
        fault
        for code in CODE.findall(page)
        for fault in parse_command(unescape(code).removeprefix("rindices "))
    ]


def parse_command(text: str) -> list[str]:
    """Return why a command cannot be parsed; nothing for a word that follows the name
    of the package in a sentence.
    """
    program, words = get_program(), shlex.split(text)
    name = words[0]
    if name not in program.commands:
        return (
            [f"there is no command in: rindices {text}"]
            if any(word.startswith("-") for word in words)
            else []
        )
    command, words = program.commands[name], words[1:]
    if hasattr(command, "commands"):
        if not words or words[0] not in command.commands:
            return [f"there is no command in: rindices {text}"]
        command, words = command.commands[words[0]], words[1:]
    if not words:  # the name of a command, not a command to paste
        return []
    try:
        command.make_context(name, words, resilient_parsing=False)
    except click.ClickException as error:
        return [f"rindices {text}: {error.format_message()}"]
    except Exception as error:
        return [f"rindices {text}: {error}"]
    return []
