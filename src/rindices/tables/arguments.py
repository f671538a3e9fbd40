"""Arguments of Python functions that read tables: what is of the wrong type is refused in a sentence about it."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from rindices.errors import Problem, ProblemCode, Severity, TableError


def check_table(table: Any, argument: str) -> None:
    """Refuse what is neither a path nor a DataFrame."""
    if isinstance(table, str | PathLike | pd.DataFrame):
        return
    kind, cure = f"of the type {type(table).__name__}", "Give a path or a pandas DataFrame"
    if isinstance(table, np.ndarray) or _is_nested(table):
        kind = f"an array of shape {np.shape(table)}" if isinstance(table, np.ndarray) else "a list of rows"
        cure = "Give a DataFrame with a column of ids and one of each region, or a path"
        if argument != "participants":
            cure += ". For arrays there are estimators: rindices.DiseaseTrajectories(n_patterns=2).fit(X, y)"
    elif hasattr(table, "to_pandas"):
        cure = f"Give {argument}.to_pandas()"
    elif isinstance(table, Mapping):
        cure = f"Give pandas.DataFrame({argument})"
    elif isinstance(table, pd.Series):
        cure = "Give the DataFrame with the column of ids and all regions"
    elif table is None:
        kind = "None"
    _refuse(f"{argument} is {kind}, not a table", cure, argument)


def check_tables(tables: Any, argument: str) -> None:
    """Refuse what is no table and no sequence of tables."""
    if isinstance(tables, list | tuple) and not _is_nested(tables):
        if not tables:
            _refuse(f"{argument} is empty", "Give a path or a pandas DataFrame", argument)
        for table in tables:
            check_table(table, argument)
    else:
        check_table(tables, argument)


def check_names(**names: Any) -> None:
    """Refuse names of columns that are not text, by the arguments that they were given for."""
    for argument, name in names.items():
        if name is None or isinstance(name, str):
            continue
        cure = f'Give the name of one column: {argument}="NAME"'
        if isinstance(name, Sequence) and len(name) == 1 and isinstance(name[0], str):
            cure = f'Give {argument}="{name[0]}"'
        _refuse(f"{argument} is {name!r}, not the name of a column", cure, argument)


def _is_nested(value: Any) -> bool:
    """Return whether a value is a list of lists or of numbers."""
    return isinstance(value, list | tuple) and any(isinstance(each, list | tuple | int | float) for each in value)


def _refuse(what: str, cure: str, argument: str) -> None:
    raise TableError(Problem(Severity.ERROR, what, "", cure, ProblemCode.WRONG_OPTION, argument))
