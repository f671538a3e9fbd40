"""Arguments of Python functions that read tables: what is of the wrong type is refused
in a sentence about it.
"""

from collections.abc import Mapping
from os import PathLike
from typing import Any, NoReturn, Protocol

import numpy as np
import pandas as pd

from rindices.errors import Problem, ProblemCode, Severity, TableError


class DataFrameOfArrow(Protocol):
    """A data frame that can be read through Arrow, as those of polars and pyarrow."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the data as a stream of Arrow."""


def check_table(table: Any, argument: str) -> None:
    """Refuse what is neither a path nor a data frame."""
    if isinstance(table, str | PathLike) or is_frame(table):
        return
    kind, cure = (
        f"of the type {type(table).__name__}",
        "Give a path or a pandas DataFrame",
    )
    if isinstance(table, np.ndarray) or _is_nested(table):
        kind = (
            f"an array of shape {np.shape(table)}"
            if isinstance(table, np.ndarray)
            else "a list of rows"
        )
        cure = "Give a DataFrame with a column of ids and one of each region, or a path"
        if argument != "participants":
            cure += ". For arrays there are estimators: rindices.DiseaseTrajectories(n_patterns=2).fit(X, y)"
    elif hasattr(table, "collect"):
        cure = f"Give {argument}.collect()"
    elif hasattr(table, "to_pandas"):
        cure = f"Give {argument}.to_pandas()"
    elif isinstance(table, Mapping):
        cure = f"Give pandas.DataFrame({argument})"
    elif isinstance(table, pd.Series):
        cure = "Give the DataFrame with the column of ids and all regions"
    elif table is None:
        kind = "None"
    _refuse(f"{argument} is {kind}, not a table", cure, argument)


def is_frame(table: Any) -> bool:
    """Return whether a value is a data frame in memory: of pandas, polars, pyarrow or
    another library that narwhals knows.
    """
    if isinstance(table, pd.DataFrame):
        return True
    if isinstance(table, pd.Series | np.ndarray | Mapping | list | tuple):
        return False
    from narwhals.dependencies import is_into_dataframe

    return bool(is_into_dataframe(table))


def to_pandas(table: Any, argument: str) -> pd.DataFrame:
    """Return a data frame as one of pandas, column by column, so that neither library
    needs a third one for it.
    """
    if isinstance(table, pd.DataFrame):
        return table
    import narwhals

    try:
        frame = narwhals.from_native(table, eager_only=True)
        columns = {name: frame[name].to_numpy() for name in frame.columns}
    except (TypeError, ValueError, narwhals.exceptions.NarwhalsError) as error:
        reason = (str(error).splitlines() or [""])[0]
        _refuse(
            f"{argument} cannot be read as a table ({reason})",
            "Give a pandas DataFrame",
            argument,
        )
    return pd.DataFrame(columns)


def check_tables(tables: Any, argument: str) -> None:
    """Refuse what is no table and no sequence of tables."""
    if isinstance(tables, list | tuple) and not _is_nested(tables):
        if not tables:
            _refuse(
                f"{argument} is empty", "Give a path or a pandas DataFrame", argument
            )
        for table in tables:
            check_table(table, argument)
    else:
        check_table(tables, argument)


def _is_nested(value: Any) -> bool:
    """Return whether a value is a list of lists or of numbers."""
    return isinstance(value, list | tuple) and any(
        isinstance(each, list | tuple | int | float) for each in value
    )


def _refuse(what: str, cure: str, argument: str) -> NoReturn:
    raise TableError(
        Problem(
            severity=Severity.ERROR,
            what=what,
            where="",
            cure=cure,
            code=ProblemCode.WRONG_OPTION,
            subject=argument,
        )
    )
