"""A small study, and how to run it as users do."""

import subprocess
import sys
from pathlib import Path

STUDY = """
[data]
volumes = "volumes.csv"
participants = "participants.tsv"
group = "group"
covariates = ["age", "sex", "icv"]

[model]
patterns = [2, 3]
members = 10
recipe = "contrastive"

[run]
seed = 3
"""


def command(*arguments: object, report: bool = False) -> list[str]:
    if arguments[0] == "fit" and not report:  # studies are run many times here; their page is tested elsewhere
        arguments = (*arguments, "--no-report")
    return [sys.executable, "-c", "from rindices.cli.main import run; run()", *map(str, arguments)]


def run(*arguments: object, report: bool = False) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments, report=report), capture_output=True, text=True, check=False)


def outputs(path: Path) -> tuple[bytes, ...]:
    names = ("r_indices.tsv", "r_indices.json", "model.safetensors", "selection.json")
    return tuple((path / name).read_bytes() for name in names)
