"""Regions of patients with low, middle and high severity, against controls (section 4.3
of the paper).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np
import pandas as pd
from scipy import special

import rindices.analysis.tidy as tidy
from rindices._typing import AnyArray, BoolArray, FloatArray
from rindices.errors import AnalysisError, join_names, name_arguments
from rindices.one_line import ShownInOneLine
from rindices.tables.checks.groups import CONTROL
from rindices.tables.cohort import GROUP, ID, SESSION
from rindices.wording import load_columns

SEVERITY_CUTS = (0.4, 0.7)
COLUMN_DESCRIPTIONS = load_columns("regions")
_SUBGROUP_NAMES = {1: ("low", "high"), 2: ("low", "middle", "high")}


@dataclass(frozen=True, kw_only=True, repr=False)
class Subgroup(ShownInOneLine):
    """Patients by severity of one pattern, with low severity of the others.

    Attributes
    ----------
    index : str
        Name of the R-index.
    name : str
        ``low``, ``middle`` or ``high``. With more than two cuts, a number from 1.
    range : str
        Range of the R-index in words.
    rows : ndarray of shape (N,)
        True for the people in the subgroup.
    """

    index: str
    name: str
    range: str
    rows: BoolArray

    @property
    def labels(self) -> dict[str, object]:
        """Columns of a table that name the subgroup."""
        return {"index": self.index, "subgroup": self.name, "range": self.range}


@dataclass(frozen=True, kw_only=True)
class GroupEffects:
    """Difference between two groups in each of R regions.

    `COLUMN_DESCRIPTIONS` describes these columns.

    Attributes
    ----------
    difference : ndarray of shape (R,)
        Difference of the adjusted means.
    effect : ndarray of shape (R,)
        Hedges' g.
    low, high : ndarray of shape (R,)
        95 % confidence interval of the effect.
    t : ndarray of shape (R,)
        t statistic.
    p : ndarray of shape (R,)
        Two-sided p-value.
    """

    difference: FloatArray
    effect: FloatArray
    low: FloatArray
    high: FloatArray
    t: FloatArray
    p: FloatArray


def make_subgroups(
    indices: pd.DataFrame, cuts: Sequence[float] = SEVERITY_CUTS
) -> list[Subgroup]:
    """Return the paper's subgroups of patients, in order for each index.

    Parameters
    ----------
    indices : DataFrame
        ``participant_id``, ``group``, ``r1`` to ``rM``.
    cuts : sequence of float
        Limits between subgroups, ascending. The paper: 0.4 and 0.7. All other indices
        must be below the first.

    Returns
    -------
    list of Subgroup
        The subgroups.

    Examples
    --------
    >>> import rindices as ri
    >>> simulated = ri.simulate_cohort("tiny", seed=0)
    >>> names = {"s1": "r1", "s2": "r2", "s3": "r3"}
    >>> people = simulated.cohort.people[["participant_id", "group"]]
    >>> indices = people.merge(simulated.severities.rename(columns=names), how="left")
    >>> indices = indices.fillna(0.0)  # true severities, 0 in controls
    >>> for subgroup in ri.analysis.make_subgroups(indices)[:3]:
    ...     print(subgroup.index, subgroup.name, subgroup.range)
    r1 low below 0.4
    r1 middle 0.4 to 0.7
    r1 high above 0.7
    """
    names = tidy.find_index_columns(indices)
    if not len(cuts) or list(cuts) != sorted(set(cuts)) or not np.isfinite(cuts).all():
        raise AnalysisError(
            f"cuts must be different numbers in ascending order, not {join_names(cuts)}."
        )
    patient = ~find_controls(indices)
    labels = _SUBGROUP_NAMES.get(
        len(cuts), tuple(str(number + 1) for number in range(len(cuts) + 1))
    )
    between = [f"{low:g} to {high:g}" for low, high in pairwise(cuts)]
    ranges = [f"below {cuts[0]:g}", *between, f"above {cuts[-1]:g}"]
    subgroups = []
    for name in names:
        others = indices[[other for other in names if other != name]].to_numpy(
            dtype=float
        )
        eligible = patient & (others < cuts[0]).all(axis=1)
        # as in the paper: below the first cut, above the last, and between
        level = (
            np.searchsorted(cuts[1:], indices[name], side="left")
            + (indices[name] >= cuts[0]).to_numpy()
        )
        for number, (label, text) in enumerate(zip(labels, ranges, strict=True)):
            subgroups.append(
                Subgroup(
                    index=name,
                    name=label,
                    range=text,
                    rows=eligible & (level == number),
                )
            )
    return subgroups


@name_arguments()
def compare_subgroups(
    indices: pd.DataFrame,
    regions: pd.DataFrame,
    *,
    cuts: Sequence[float] = SEVERITY_CUTS,
    covariates: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Compare each region between each subgroup of patients and all controls.

    Parameters
    ----------
    indices : DataFrame
        ``participant_id``, ``group``, ``r1`` to ``rM``.
    regions : DataFrame
        ``participant_id`` and one column per region. Rows are joined by participant
        (and session).
    cuts : sequence of float
        See `make_subgroups`.
    covariates : DataFrame, optional
        ``participant_id`` and columns to adjust for, in the same linear model as the
        difference.

    Returns
    -------
    DataFrame
        One row per index, subgroup and region, with the columns of
        `COLUMN_DESCRIPTIONS`. The numbers are NaN if a subgroup has fewer than two
        people.

    Examples
    --------
    >>> import rindices as ri
    >>> simulated = ri.simulate_cohort("tiny", seed=0)
    >>> names = {"s1": "r1", "s2": "r2", "s3": "r3"}
    >>> people = simulated.cohort.people[["participant_id", "group"]]
    >>> indices = people.merge(simulated.severities.rename(columns=names), how="left")
    >>> indices = indices.fillna(0.0)  # true severities, 0 in controls
    >>> regions = simulated.cohort.volumes.assign(
    ...     participant_id=people["participant_id"]
    ... )
    >>> table = ri.analysis.compare_subgroups(indices, regions)
    >>> len(table) == 3 * 3 * simulated.cohort.volumes.shape[1]
    True
    """
    joined = tidy.join_values(indices, regions)
    design = make_covariate_design(indices, covariates)
    values = joined.to_numpy(dtype=float)
    complete = np.isfinite(values).all(axis=1) & np.isfinite(design).all(axis=1)
    control = find_controls(indices) & complete
    tables = []
    for group in make_subgroups(indices, cuts):
        rows = group.rows & complete
        effects = estimate_group_effects(values, rows, control, design)
        labels, (n, n_controls) = (
            group.labels | {"region": list(joined.columns)},
            (int(rows.sum()), int(control.sum())),
        )
        numbers = {"n": n, "n_controls": n_controls, **vars(effects)}
        tables.append(
            pd.DataFrame(
                labels
                | numbers
                | {"q": np.nan, "note": note_small_groups(n, n_controls)}
            )
        )
    table = pd.concat(tables, ignore_index=True)
    return table.assign(q=tidy.false_discovery_rate(table["p"]))


def find_controls(indices: pd.DataFrame) -> BoolArray:
    """Return the mask of controls, (N,); refuse fewer than two."""
    if GROUP not in indices:
        raise AnalysisError(
            f"the table of R-indices needs the column {GROUP} to identify the controls."
        )
    control = np.asarray(indices[GROUP] == CONTROL, dtype=bool)
    if control.sum() < 2:
        raise AnalysisError(
            f"{control.sum()} controls are too few to compare with: at least 2 are needed."
        )
    return control


def make_covariate_design(
    indices: pd.DataFrame, covariates: pd.DataFrame | None
) -> FloatArray:
    """Return the covariates of the people of ``indices`` as a design (N, P); rows with
    missing values are NaN.
    """
    if covariates is None:
        return np.zeros((len(indices), 0))
    return tidy.encode_covariates(tidy.join_values(indices, covariates))


def estimate_group_effects(
    values: AnyArray, group: BoolArray, control: BoolArray, design: FloatArray
) -> GroupEffects:
    """Return the difference between two groups of people in each column of values.

    The model is linear in the group and the covariates, with equal variances. Without
    covariates it is Student's t-test. Hedges' g has its usual large-sample variance.

    Parameters
    ----------
    values : ndarray of shape (N, R)
        Regions.
    group : ndarray of shape (N,)
        People of the first group.
    control : ndarray of shape (N,)
        People of the second group. All others are ignored.
    design : ndarray of shape (N, P)
        Covariates.

    Returns
    -------
    GroupEffects
        NaN if there are too few people, or if the covariates determine the group.
    """
    rows = group | control
    member = group[rows].astype(float)
    covariates = tidy.standardise_columns(design[rows])
    contrast = member - member.mean() if rows.any() else member
    rank = 0
    if covariates.size:
        rank = int(np.linalg.matrix_rank(covariates))
        contrast = (
            contrast - covariates @ np.linalg.lstsq(covariates, contrast, rcond=None)[0]
        )
    freedom = int(rows.sum()) - 2 - rank
    if min(group.sum(), control.sum()) < 2 or freedom < 2 or contrast @ contrast < 1e-9:
        unknown = np.full(values.shape[1], np.nan)
        return GroupEffects(**{each.name: unknown for each in fields(GroupEffects)})
    return _estimate_effects(values[rows], member, contrast, covariates, freedom)


def tabulate_subgroups(
    indices: pd.DataFrame, groups: Sequence[Subgroup]
) -> pd.DataFrame:
    """Return one row per person and subgroup: ids, ``index``, ``subgroup`` and
    ``range``.
    """
    keys = [name for name in (ID, SESSION) if name in indices]
    return pd.concat(
        [indices.loc[group.rows, keys].assign(**group.labels) for group in groups],
        ignore_index=True,
    )


def note_small_groups(people: int, controls: int) -> str:
    """Return a note about small groups; empty if both are large enough."""
    if people < 2:
        return f"too few people: {people}"
    sizes = {"patients": people, "controls": controls}
    small = [
        f"{size} {name}" for name, size in sizes.items() if size < tidy.SMALL_GROUP_SIZE
    ]
    return f"few people: {', '.join(small)}" if small else ""


def _estimate_effects(
    values: AnyArray,
    member: FloatArray,
    contrast: FloatArray,
    covariates: FloatArray,
    freedom: int,
) -> GroupEffects:
    """Return the effects in each column; ``contrast`` (N,) is the group adjusted
    for the covariates (N, P).
    """
    centred = values.astype(float) - values.mean(axis=0, dtype=float)
    slope = contrast @ centred / (contrast @ contrast)
    residual = centred - np.outer(member - member.mean(), slope)
    if covariates.size:
        residual = (
            residual - covariates @ np.linalg.lstsq(covariates, residual, rcond=None)[0]
        )
    sigma = np.sqrt((residual**2).sum(axis=0) / freedom)
    sigma = np.where(
        sigma > 1e-12 * np.abs(values).max(axis=0), sigma, np.nan
    )  # no test of a constant column
    spread = 1 / (contrast @ contrast)  # without covariates 1/n + 1/m
    t = slope / (sigma * np.sqrt(spread))
    g = slope / sigma * (1 - 3 / (4 * freedom - 1))
    width = special.ndtri(0.975) * np.sqrt(spread + g**2 / (2 * (freedom - 1.94)))
    return GroupEffects(
        difference=slope,
        effect=g,
        low=g - width,
        high=g + width,
        t=t,
        p=2 * special.stdtr(freedom, -np.abs(t)),
    )
