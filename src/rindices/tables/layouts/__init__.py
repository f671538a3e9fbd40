"""Layouts of tables: which program wrote a table and what its columns are."""

import tomllib
from importlib.resources import files

NAMES: dict[str, dict[str, str]] = tomllib.loads(
    (files("rindices.tables") / "data" / "names.toml").read_text("utf-8")
)
"""Names of columns and of structures, separated by blanks, and reasons why columns are
not used.
"""


def read_data_rows(name: str) -> list[list[str]]:
    """Return the cells of a table of the package, row by row, without its header."""
    text = (files("rindices.tables") / "data" / f"{name}.csv").read_text("utf-8")
    return [line.split(",") for line in text.splitlines()[1:]]
