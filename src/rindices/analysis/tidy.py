"""What all statistics share: who is joined to whom, false discoveries, and when a group is small."""

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from rindices._typing import FloatArray
from rindices.errors import AnalysisError, did_you_mean, join_names
from rindices.tables.cohort import GROUP, ID, SESSION, Cohort
from rindices.tables.validation.groups import CONTROL, PATIENT

SMALL_GROUP_SIZE = 20
"""A group smaller than this is said to be small."""
GROUP_CHOICES = {"patients": PATIENT, "controls": CONTROL, "all": None}


def find_index_columns(indices: pd.DataFrame) -> list[str]:
    """Return the columns r1, r2, ... of a table of R-indices."""
    names = [str(name) for name in indices.columns if re.fullmatch(r"r\d+", str(name))]
    if not names or ID not in indices:
        raise AnalysisError(
            f"R-indices need the columns {ID} and r1, r2, ...; there is {join_names(indices.columns, 12)}."
        )
    return names


def select_people(indices: pd.DataFrame, who: str) -> pd.DataFrame:
    """Return the patients, the controls or all; where the table has no groups all are taken.

    Parameters
    ----------
    who : {'patients', 'controls', 'all'}
    """
    if who not in GROUP_CHOICES:
        raise AnalysisError(f"there are no people '{who}': {did_you_mean(who, list(GROUP_CHOICES))}")
    if GROUP not in indices or GROUP_CHOICES[who] is None:
        return indices
    chosen = indices[indices[GROUP] == GROUP_CHOICES[who]]
    if chosen.empty:
        raise AnalysisError(f"the table of R-indices has no {who}: take all people.")
    return chosen


def join_by_id(indices: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of ``other`` that belong to the people of ``indices``, in their order; missing where none does.

    Joined by participant, and by session where both tables have it.
    """
    keys = [name for name in (ID, SESSION) if name in indices and name in other]
    if ID not in keys:
        raise AnalysisError(f"both tables need the column {ID}.")
    for table, what in ((indices, "R-indices"), (other, "the other table")):
        twice = table.loc[table.duplicated(keys), ID]
        if len(twice):
            raise AnalysisError(f"people stand more than once in {what}: {join_names(twice)}. Keep one row a person.")
    if not indices[ID].isin(other[ID]).any():
        raise AnalysisError(
            f"no one of the R-indices ({join_names(indices[ID], 2)}) is in the other table ({join_names(other[ID], 2)})."
        )
    return indices[keys].merge(other, on=keys, how="left", validate="one_to_one")


def add_ids(cohort: Cohort, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of a cohort's people, such as its volumes, with their ids (and sessions) in front."""
    keys = [name for name in (ID, SESSION) if name in cohort.people]
    return pd.concat([cohort.people[keys], frame], axis=1)


def add_groups(indices: pd.DataFrame, cohort: Cohort) -> pd.DataFrame:
    """Return R-indices of those who are in the cohort, with ``group``: the table's own, else the cohort's."""
    keys = [name for name in (ID, SESSION) if name in indices and name in cohort.people]
    known = [*keys, *([GROUP] if GROUP in cohort.people and GROUP not in indices else [])]
    both = indices.merge(cohort.people[known], on=keys, how="inner", validate="one_to_one")
    if both.empty:
        raise AnalysisError(
            f"no one of the R-indices ({join_names(indices[ID], 2)}) is in the table ({join_names(cohort.people[ID], 2)})."
        )
    if GROUP not in both:
        raise AnalysisError("who is a control is not known: name the column of groups (--group).")
    return both


def standardise_columns(design: FloatArray) -> FloatArray:
    """Return a design (N, P) with mean 0 and spread 1, so that units do not matter; a constant column becomes 0."""
    centred = design - design.mean(axis=0) if len(design) else design
    spread = centred.std(axis=0) if len(design) else np.ones(design.shape[1])
    return np.asarray(centred / np.where(spread > 0, spread, 1.0))


def false_discovery_rate(p: ArrayLike) -> FloatArray:
    """Return q of each p (Benjamini and Hochberg), over all that are known: (K,) -> (K,)."""
    values = np.asarray(p, dtype=float)
    q = np.full(values.shape, np.nan)
    known = np.isfinite(values)
    if known.any():
        q[known] = stats.false_discovery_control(values[known])
    return q


def check_columns(frame: pd.DataFrame, names: Sequence[str], role: str) -> list[str]:
    """Return the names if all are columns; a name that is none is refused with a suggestion."""
    for name in names:
        if name not in frame:
            raise AnalysisError(
                f"there is no column '{name}' for the {role}: {did_you_mean(name, list(frame.columns))}"
            )
    return list(names)
