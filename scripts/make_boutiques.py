"""Write the descriptors for Boutiques from the commands.

python scripts/make_boutiques.py
"""

import json
from pathlib import Path
from typing import Any

import typer

from rindices._version import __version__
from rindices.cli.main import app

FOLDER = Path(__file__).parents[1] / "integrations" / "boutiques"
EXIT_CODES = {
    1: "A problem with the input; one line names it and says how to correct it.",
    2: "Wrong usage.",
    3: "Interrupted; run the same command again to resume.",
}


DESCRIBED: dict[str, dict[str, Any]] = {
    "apply": {
        "description": "R-indices (severities of disease patterns) of new people, from "
        "a table of regional brain volumes and a fitted model.",
        "parameters": ("model", "tables", "out", "participants", "site", "on_missing"),
        "output-files": [
            ("r_indices", "R-indices", "One row per person.", "[OUT]", False)
        ],
    },
    "fit": {
        "description": "Learns disease patterns from regional brain volumes of controls "
        "and patients, and gives each person a severity for each pattern (R-indices).",
        "parameters": (
            *("source", "out", "participants", "group", "controls", "patients"),
            *("covariates", "site", "patterns", "method", "members", "seed"),
        ),
        "output-files": [
            (
                "report",
                "Report",
                "The result as one page.",
                "[OUT]/report.html",
                False,
            ),
            (
                "model",
                "Model",
                "The fitted model; absent where no difference was detected.",
                "[OUT]/model.safetensors",
                True,
            ),
            (
                "r_indices",
                "R-indices",
                "One row per person.",
                "[OUT]/r_indices.tsv",
                True,
            ),
        ],
    },
}
_FILES, _NUMBERS = {"model", "table", "participants"}, {"members", "seed"}


def make_descriptor(name: str) -> dict[str, Any]:
    """Return the descriptor of a command for Boutiques."""
    described = DESCRIBED[name]
    command = _find_command(name)
    shown = command.get_params(typer.Context(command))
    parameters = {each.name: each for each in shown}
    inputs = [_describe_input(parameters[each]) for each in described["parameters"]]
    keys = " ".join(each["value-key"] for each in inputs)
    outputs = [
        dict(zip(("id", "name", "description", "path-template"), words, strict=True))
        | ({"optional": True} if is_optional else {})
        for *words, is_optional in described["output-files"]
    ]
    return {
        "name": f"rindices-{name}",
        "description": described["description"],
        "command-line": f"rindices {name} {keys} --workers 1",
        "tool-version": __version__,
        "schema-version": "0.5",
        "author": "The rindices developers",
        "container-image": {
            "type": "docker",
            "image": f"rindices/rindices:{__version__}",
        },
        "tags": {"domain": ["neuroinformatics", "mri"]},
        "error-codes": [
            {"code": code, "description": text} for code, text in EXIT_CODES.items()
        ],
        "inputs": inputs,
        "output-files": outputs,
    }


def _find_command(name: str) -> Any:
    """Return a command of the program."""
    program: Any = typer.main.get_command(app)
    return program.commands[name]


def _describe_input(parameter: Any) -> dict[str, Any]:
    """Return an input of a descriptor from an argument or option of a command."""
    name = "table" if parameter.name in ("source", "tables") else parameter.name
    described: dict[str, Any] = {
        "id": name,
        "name": name.replace("_", " ").capitalize(),
        "type": "File" if name in _FILES else "String",
        "description": " ".join(parameter.help.split()),
        "value-key": f"[{name.upper()}]",
    }
    if name in _NUMBERS:
        described |= {"type": "Number", "integer": True}
    if not parameter.required:
        described["optional"] = True
    if parameter.param_type_name == "option":
        described["command-line-flag"] = parameter.opts[0]
    return described


def list_files() -> dict[Path, str]:
    """Return the text of each descriptor."""
    return {
        FOLDER / f"rindices_{name}.json": json.dumps(make_descriptor(name), indent=2)
        + "\n"
        for name in DESCRIBED
    }


def main() -> None:
    """Write the descriptors."""
    for path, text in list_files().items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
