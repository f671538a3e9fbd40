"""Scores of R-indices against known severities."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from rindices.errors import Findings, InputError, TableError, join_names
from rindices.selection.agreement import pattern_c_index
from rindices.tables.cohort import ID, SESSION
from rindices.tables.io.frames import read_frame


@dataclass(frozen=True)
class IndexScore:
    """Pattern-c-index of R-indices: the mean, and severity, matched R-index and score of each pattern."""

    pattern_c_index: float
    per_pattern: list[tuple[str, str, float]]
    people: int


def score_tables(indices: Path, truth: Path) -> IndexScore:
    """Return the pattern-c-index of a table of R-indices, joined to the true severities by participant.

    If both tables have sessions, visits are joined, and visits without R-indices are left out.
    """
    frames = [read_frame(path, [ID, SESSION], Findings())[0] for path in (indices, truth)]
    keys = [ID, SESSION] if all(SESSION in frame for frame in frames) else [ID]
    inferred, severities = (
        _select_columns(frame, path, letter, keys)
        for frame, path, letter in zip(frames, (indices, truth), "rs", strict=True)
    )
    missing = severities.index.get_level_values(ID).difference(inferred.index.get_level_values(ID))
    if len(missing):
        raise InputError(f"{indices.name} lacks {len(missing)} people of {truth.name}: {join_names(missing)}.")
    severities = severities[severities.index.isin(inferred.index)]
    score = pattern_c_index(severities.to_numpy(), inferred.loc[severities.index].to_numpy())
    matched = zip(severities.columns, inferred.columns[score.matching], map(float, score.per_pattern), strict=True)
    return IndexScore(score.mean, list(matched), len(severities))


def _select_columns(frame: pd.DataFrame, path: Path, letter: str, keys: list[str]) -> pd.DataFrame:
    """Return the columns r1, r2, ... or s1, s2, ... by participant, or by participant and session."""
    columns = [name for name in frame.columns if re.fullmatch(rf"{letter}\d+", name)]
    if ID not in frame or not columns:
        raise TableError(
            f"{path.name} needs the columns {ID} and {letter}1, {letter}2, ...; it has {join_names(frame.columns)}."
        )
    duplicates = frame.loc[frame.duplicated(keys), ID]
    if len(duplicates):
        raise TableError(f"people appear more than once in {path.name}: {join_names(duplicates)}.")
    numbers = frame.set_index(keys)[columns].apply(pd.to_numeric, errors="coerce")
    if not np.isfinite(numbers.to_numpy(dtype=float)).all():
        raise TableError(f"{path.name} has cells in {join_names(columns)} that are not numbers: correct them.")
    return numbers.astype(float)
