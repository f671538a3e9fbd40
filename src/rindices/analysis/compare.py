"""Regions of people with a little, some or much of one pattern, against controls (section 4.3 of the paper)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from rindices._typing import AnyArray, BoolArray, FloatArray
from rindices.analysis.tidy import (
    SMALL_GROUP_SIZE,
    check_columns,
    false_discovery_rate,
    find_index_columns,
    join_by_id,
    standardise_columns,
)
from rindices.errors import AnalysisError, join_names
from rindices.preprocess.residualise import build_design_matrix, derive_codings
from rindices.tables.cohort import GROUP, ID, SESSION
from rindices.tables.validation.groups import CONTROL

SEVERITY_CUTS = (0.4, 0.7)
COLUMN_DESCRIPTIONS = {
    "index": "R-index",
    "subgroup": "Patients by their value of this index, the other indices being low",
    "range": "The values of the index in the subgroup",
    "region": "Region",
    "n": "Patients in the subgroup",
    "n_controls": "Controls they are compared with",
    "difference": "Subgroup minus controls, in the unit of the table; adjusted where covariates were named",
    "effect": "Difference in standard deviations (Hedges' g)",
    "low": "Lower end of the confidence interval of the effect",
    "high": "Upper end of the confidence interval of the effect",
    "t": "t of the difference, equal variances",
    "p": "Two-sided p of no difference",
    "q": "False discovery rate over the whole table (Benjamini and Hochberg)",
    "note": "What makes a number weak or absent",
}
_SUBGROUP_NAMES = {1: ("low", "high"), 2: ("low", "middle", "high")}


@dataclass(frozen=True)
class Subgroup:
    """Patients with some of one pattern and little of the others.

    Attributes
    ----------
    index : str
    name : str
        ``low``, ``middle``, ``high``; numbers from 1 where there are more cuts than two.
    range : str
        In words.
    rows : (N,)
        Who is in it.
    """

    index: str
    name: str
    range: str
    rows: BoolArray


class GroupEffects(NamedTuple):
    """A difference between two groups, for each of R regions or voxels; see `COLUMN_DESCRIPTIONS`."""

    difference: FloatArray
    effect: FloatArray
    low: FloatArray
    high: FloatArray
    t: FloatArray
    p: FloatArray


def make_subgroups(
    indices: pd.DataFrame, cuts: Sequence[float] = SEVERITY_CUTS, others_below: float | None = None
) -> list[Subgroup]:
    """Return the paper's subgroups of patients, one after the other for each index.

    Parameters
    ----------
    indices : DataFrame
        ``participant_id``, ``group``, ``r1`` to ``rM``.
    cuts : sequence of float
        Where one subgroup ends and the next begins, ascending. The paper: 0.4 and 0.7.
    others_below : float, optional
        All other indices must be below this; the first cut, where left out.
    """
    names = find_index_columns(indices)
    if not len(cuts) or list(cuts) != sorted(set(cuts)) or not np.isfinite(cuts).all():
        raise AnalysisError(f"cuts must be different numbers in ascending order, not {join_names(cuts)}.")
    ceiling = cuts[0] if others_below is None else others_below
    patient = ~find_controls(indices)
    labels = _SUBGROUP_NAMES.get(len(cuts), tuple(str(place + 1) for place in range(len(cuts) + 1)))
    found = []
    for name in names:
        others = indices[[other for other in names if other != name]].to_numpy(dtype=float)
        quiet = patient & (others < ceiling).all(axis=1)
        # as in the paper: below the first cut, above the last, and what is between
        place = np.searchsorted(cuts[1:], indices[name], side="left") + (indices[name] >= cuts[0]).to_numpy()
        for number, label in enumerate(labels):
            found.append(Subgroup(name, label, _format_range(cuts, number), quiet & (place == number)))
    return found


def compare_subgroups(
    indices: pd.DataFrame,
    regions: pd.DataFrame,
    *,
    cuts: Sequence[float] = SEVERITY_CUTS,
    others_below: float | None = None,
    covariates: pd.DataFrame | None = None,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Compare each region between each subgroup of patients and all controls.

    Parameters
    ----------
    indices : DataFrame
        ``participant_id``, ``group``, ``r1`` to ``rM``.
    regions : DataFrame
        ``participant_id`` and one column a region; joined by participant (and session).
    cuts, others_below
        See `make_subgroups`.
    covariates : DataFrame, optional
        ``participant_id`` and columns to adjust for, in the same linear model as the difference.
    confidence : float
        Of the intervals.

    Returns
    -------
    DataFrame
        A row per index, subgroup and region; the columns are those of `COLUMN_DESCRIPTIONS`. A subgroup of fewer than two people
        has empty numbers. ``note`` says where people are few.
    """
    beside = join_by_id(indices, regions).drop(columns=[ID, SESSION], errors="ignore")
    design = make_covariate_design(indices, covariates)
    values = beside.to_numpy(dtype=float)
    known = np.isfinite(values).all(axis=1) & np.isfinite(design).all(axis=1)
    control = find_controls(indices) & known
    tables = []
    for group in make_subgroups(indices, cuts, others_below):
        rows = group.rows & known
        found = estimate_group_effects(values, rows, control, design, confidence)
        who = {"index": group.index, "subgroup": group.name, "range": group.range, "region": list(beside.columns)}
        sizes = {"n": int(rows.sum()), "n_controls": int(control.sum())}
        note = note_small_groups(int(rows.sum()), int(control.sum()))
        tables.append(pd.DataFrame(who | sizes | found._asdict() | {"q": np.nan, "note": note}))
    table = pd.concat(tables, ignore_index=True)
    return table.assign(q=false_discovery_rate(table["p"]))


def find_controls(indices: pd.DataFrame) -> BoolArray:
    """Return (N,) who is a control; fewer than two cannot be compared with."""
    if GROUP not in indices:
        raise AnalysisError(f"R-indices need the column {GROUP} to know the controls.")
    control = np.asarray(indices[GROUP] == CONTROL, dtype=bool)
    if control.sum() < 2:
        raise AnalysisError(f"{control.sum()} controls are too few to compare with: at least 2 are needed.")
    return control


def make_covariate_design(indices: pd.DataFrame, covariates: pd.DataFrame | None) -> FloatArray:
    """Return the covariates of the people of ``indices`` as a design (N, P); NaN where something is missing."""
    if covariates is None:
        return np.zeros((len(indices), 0))
    beside = join_by_id(indices, covariates).drop(columns=[ID, SESSION], errors="ignore")
    names = check_columns(beside, list(beside.columns), "covariates")
    known = beside[names].notna().all(axis=1).to_numpy()
    coded = build_design_matrix(derive_codings(beside.loc[known, names]), beside.loc[known, names])
    design = np.full((len(indices), coded.shape[1]), np.nan)
    design[known] = coded
    return design


def estimate_group_effects(
    values: AnyArray,
    group: BoolArray,
    control: BoolArray,
    design: FloatArray,
    confidence: float = 0.95,
    block: int = 10_000,
) -> GroupEffects:
    """Return the difference between two groups of people in each column of values.

    A linear model of the group and the covariates, equal variances. Without covariates it is Student's t. Hedges' g
    has its usual large-sample variance.

    Parameters
    ----------
    values : (N, R)
    group, control : (N,)
        Who is in which; others are not looked at.
    design : (N, P)
        Covariates.
    block : int
        Columns to work on at once, which bounds the memory for voxels.
    """
    rows = group | control
    member = group[rows].astype(float)
    covariates = standardise_columns(design[rows])
    apart = member - member.mean() if rows.any() else member
    rank = 0
    if covariates.size:
        rank = int(np.linalg.matrix_rank(covariates))
        apart = apart - covariates @ np.linalg.lstsq(covariates, apart, rcond=None)[0]
    freedom = int(rows.sum()) - 2 - rank
    if min(group.sum(), control.sum()) < 2 or freedom < 2 or apart @ apart < 1e-9:
        return GroupEffects(*np.full((6, values.shape[1]), np.nan))
    parts = [
        _estimate_effects(values[rows, start : start + block], member, apart, covariates, freedom, confidence)
        for start in range(0, values.shape[1], block)
    ]
    return GroupEffects(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def tabulate_subgroups(indices: pd.DataFrame, groups: Sequence[Subgroup]) -> pd.DataFrame:
    """Return who is in which subgroup: ``participant_id`` (and ``session_id``), ``index``, ``subgroup``, ``range``."""
    keys = [name for name in (ID, SESSION) if name in indices]
    tables = [indices.loc[g.rows, keys].assign(index=g.index, subgroup=g.name, range=g.range) for g in groups]
    return pd.concat(tables, ignore_index=True)


def note_small_groups(people: int, controls: int) -> str:
    """Say that a group is small."""
    if people < 2:
        return f"too few people: {people}"
    small = [
        f"{number} {who}" for number, who in ((people, "patients"), (controls, "controls")) if number < SMALL_GROUP_SIZE
    ]
    return f"few people: {', '.join(small)}" if small else ""


def _estimate_effects(
    values: AnyArray, member: FloatArray, apart: FloatArray, covariates: FloatArray, freedom: int, confidence: float
) -> GroupEffects:
    """Return the effects of a block of columns: values (N, R), the group free of covariates (N,), covariates (N, P)."""
    centred = values.astype(float) - values.mean(axis=0, dtype=float)
    slope = apart @ centred / (apart @ apart)
    residual = centred - np.outer(member - member.mean(), slope)
    if covariates.size:
        residual = residual - covariates @ np.linalg.lstsq(covariates, residual, rcond=None)[0]
    sigma = np.sqrt((residual**2).sum(axis=0) / freedom)
    sigma = np.where(sigma > 1e-12 * np.abs(values).max(axis=0), sigma, np.nan)  # a constant column says nothing
    spread = 1 / (apart @ apart)  # without covariates 1/n + 1/m
    t = slope / (sigma * np.sqrt(spread))
    g = slope / sigma * (1 - 3 / (4 * freedom - 1))
    width = special.ndtri((1 + confidence) / 2) * np.sqrt(spread + g**2 / (2 * (freedom - 1.94)))
    return GroupEffects(slope, g, g - width, g + width, t, 2 * special.stdtr(freedom, -np.abs(t)))


def _format_range(cuts: Sequence[float], number: int) -> str:
    if number == 0:
        return f"below {cuts[0]:g}"
    if number == len(cuts):
        return f"above {cuts[-1]:g}"
    return f"{cuts[number - 1]:g} to {cuts[number]:g}"
