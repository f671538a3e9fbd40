"""People who lack values: what is done with them, and what is said about them."""

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
import pandas as pd

from rindices._typing import BoolArray
from rindices.errors import Findings, ProblemCode, format_count, join_names
from rindices.tables.validation.unfiltered import UnfilteredCohort

MAX_MISSING_SHARE = 0.3
"""Largest share of missing cells in the table of a study whose measured cells are used."""
MIN_MEASURED_SHARE = 0.5
"""Share of the regions that a person of a study must have."""
_DROP_HINT = 'Mend them or set on_missing = "drop" (--on-missing drop)'
_N_NAMED_REGIONS = 3


class OnMissing(StrEnum):
    """What to do with people who lack a value.

    ``model``: use the regions that they have; a missing covariate is an error. ``error``: stop. ``drop``: leave them
    out. ``report`` (of ``check``): as ``model``, but errors are only reported.
    """

    MODEL = "model"
    ERROR = "error"
    DROP = "drop"
    REPORT = "report"

    @property
    def uses_measured_cells(self) -> bool:
        """Whether people who lack a region are kept."""
        return self in (OnMissing.MODEL, OnMissing.REPORT)


def find_incomplete_rows(
    parts: UnfilteredCohort, policy: OnMissing, findings: Findings, is_first: bool
) -> tuple[BoolArray, BoolArray]:
    """Report people who lack a value; return those who cannot be used (N,), and those of them with too few regions.

    Regions without any value are reported apart, once for the table, and left out of this for the first chunk.
    """
    people, where = parts.people, parts.people.where
    gaps: list[tuple[str, BoolArray, str]] = []
    lacking, unusable = people.unmatched.copy(), np.zeros(len(people.ids), dtype=bool)
    if parts.ranges.not_finite.any():
        missing = parts.regions.isna()
        missing = missing.loc[:, ~(missing.all() & is_first)]
        if policy.uses_measured_cells:
            if parts.groups is not None:  # of a study; when a model is applied, it decides who has enough regions
                unusable = _find_unusable_rows(missing, people.ids, parts.table.where, findings)
            others = [name for name, left_out in zip(people.ids, unusable, strict=True) if not left_out]
            _report_missing_cells(missing[~unusable], others, parts.table.where, findings)
        else:
            gap = f"a missing region ({_describe_worst_regions(missing)})"
            gaps.append((gap, missing.any(axis=1).to_numpy(), parts.table.where))
    gaps += [(f"no {name}", parts.covariates[name].isna().to_numpy(), where) for name in parts.covariates]
    if parts.sites is not None:
        gaps.append(("no site", parts.sites.isna().to_numpy(), where))
    if parts.groups is not None:
        gaps.append(("no group", parts.groups.unlabelled, where))
    _report_missing(people.unmatched, people.ids, "no row among the participants", where, policy, findings)
    for gap, rows, file in gaps:
        _report_missing(rows & ~people.unmatched, people.ids, gap, file, policy, findings)
        lacking |= rows
    return lacking | unusable, unusable


def _report_missing(
    lacking: BoolArray, ids: Sequence[str], gap: str, where: str, policy: OnMissing, findings: Findings
) -> None:
    """Report people (N,) who have a ``gap``, such as "no age", as an error or a note."""
    if not lacking.any():
        return
    offenders = _take_people(ids, lacking)
    code, text = ProblemCode.MISSING_VALUES, f"{format_count(len(offenders), 'person has', 'people have')} {gap}"
    if policy in (OnMissing.ERROR, OnMissing.MODEL):
        findings.error(code, text, where, _DROP_HINT, offenders=offenders)
    elif policy is OnMissing.DROP:
        findings.note(code, text, where, offenders=offenders, ending="; left out")
    else:
        ending = "; fit stops here unless told to leave them out"
        findings.note(code, text, where, _DROP_HINT, offenders=offenders, ending=ending)


def _describe_worst_regions(missing: pd.DataFrame) -> str:
    """Return the regions that are missing most often, from a mask of missing cells (N, R)."""
    counts = missing.sum().sort_values(ascending=False, kind="stable").head(_N_NAMED_REGIONS)
    return join_names(f"{region} {count:,} times" for region, count in counts.items() if count)


def _report_missing_cells(missing: pd.DataFrame, ids: Sequence[str], where: str, findings: Findings) -> None:
    """Report people whose other regions are used, from a mask of missing cells (N, R)."""
    lacking = missing.any(axis=1).to_numpy()
    if lacking.any():
        cells = f"{int(missing.to_numpy().sum()):,} of {missing.size:,} cells are missing"
        people = f"{format_count(int(lacking.sum()), 'person has', 'people have')} a missing region"
        findings.note(
            ProblemCode.MISSING_VALUES,
            f"{people}, {cells} ({_describe_worst_regions(missing)})",
            where,
            offenders=_take_people(ids, lacking),
            ending="; their other regions are used",
        )


def _find_unusable_rows(missing: pd.DataFrame, ids: Sequence[str], where: str, findings: Findings) -> BoolArray:
    """Report the people of a study who have too few regions, and return them (N,); a table with too few is an error.

    Parameters
    ----------
    missing : (N, R) DataFrame
        Mask of missing cells.
    ids : sequence of str
    where : str
        The file, for messages.
    findings : Findings
        Takes the problems.
    """
    cells = missing.to_numpy()
    unusable = np.asarray(cells.mean(axis=1) > 1.0 - MIN_MEASURED_SHARE)
    if unusable.any():
        people = _take_people(ids, unusable)
        what = f"{format_count(len(people), 'person has', 'people have')} fewer than half of the regions"
        findings.warn(ProblemCode.MISSING_VALUES, what, where, offenders=people, ending="; left out")
    if not unusable.all() and cells[~unusable].mean() > MAX_MISSING_SHARE:
        what = f"{cells[~unusable].mean():.0%} of the cells are missing ({_describe_worst_regions(missing)})"
        cure = f"At most {MAX_MISSING_SHARE:.0%} may be: leave out regions (--exclude) or people"
        findings.error(ProblemCode.MISSING_VALUES, what, where, cure)
    return unusable


def _take_people(ids: Sequence[str], mask: BoolArray) -> list[str]:
    return [ids[row] for row in np.flatnonzero(mask).tolist()]
