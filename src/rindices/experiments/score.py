"""R-indices held against known severities, person by person."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rindices.errors import Findings, InputError, TableError, join_names
from rindices.selection.agreement import pattern_c_index
from rindices.tables.cohort import ID
from rindices.tables.io.text import read_frame


def score_tables(indices: Path, truth: Path) -> dict[str, Any]:
    """Return the pattern-c-index of a table of R-indices, joined to the truth by participant."""
    inferred, severities = _read_columns(indices, "r"), _read_columns(truth, "s")
    together = [name for name in severities.index if name in inferred.index]
    if len(together) < len(severities):
        missing = [name for name in severities.index if name not in inferred.index]
        raise InputError(f"{indices.name} lacks {len(missing)} people of {truth.name}: {join_names(missing)}.")
    found = pattern_c_index(severities.loc[together].to_numpy(), inferred.loc[together].to_numpy())
    matched = zip(severities.columns, inferred.columns[found.matching], found.per_pattern, strict=True)
    per_pattern = [[name, index, float(value)] for name, index, value in matched]
    return {"pattern_c_index": found.mean, "per_pattern": per_pattern, "people": len(together)}


def _read_columns(path: Path, letter: str) -> pd.DataFrame:
    """Return the columns r1, r2, ... or s1, s2, ... by participant."""
    frame, _ = read_frame(path, [ID], Findings())
    columns = [name for name in frame.columns if re.fullmatch(rf"{letter}\d+", name)]
    if ID not in frame or not columns:
        raise TableError(
            f"{path.name} needs the columns {ID} and {letter}1, {letter}2, ...; it has {join_names(frame.columns)}."
        )
    if frame[ID].duplicated().any():
        raise TableError(f"{path.name} has people more than once: {join_names(frame.loc[frame[ID].duplicated(), ID])}.")
    numbers = frame.set_index(ID)[columns].apply(pd.to_numeric, errors="coerce")
    if not np.isfinite(numbers.to_numpy(dtype=float)).all():
        raise TableError(f"{path.name} has cells in {join_names(columns)} that are no numbers: mend them.")
    return numbers.astype(float)
