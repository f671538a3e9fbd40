"""Made-up tables in the layouts of studies and packages, and the command
check on them.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from rindices.cli.main import app
from tests.tables.helpers import write_table

N = 40
LABELS = ["CN"] * (N // 2) + ["AD"] * (N // 2)


def draw_values(name: str, rng: np.random.Generator) -> np.ndarray:
    """Return values of a structure as its name suggests: thickness, intracranial volume
    or another volume.
    """
    if name.endswith("_thickness"):
        return rng.normal(2.5, 0.2, N)
    return (
        rng.normal(1.5e6, 1e5, N)
        if "IntraCranial" in name
        else rng.normal(3000, 300, N)
    )


def check_table(
    frame: pd.DataFrame, folder: Path, *options: str
) -> tuple[int, dict[str, object], str]:
    """Run the command check on a table; return its exit code, its JSON and all problems
    as one text.
    """
    path = write_table(frame, folder / "table.csv")
    outcome = CliRunner().invoke(app, ["check", str(path), *options, "--json"])
    values = json.loads(outcome.stdout)
    return (
        outcome.exit_code,
        values,
        "\n".join(f"{p['what']}. {p['cure']}" for p in values["problems"]),
    )
