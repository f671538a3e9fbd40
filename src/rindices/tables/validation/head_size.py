"""Notice an intracranial volume that is smaller than what it holds."""

import numpy as np
import pandas as pd

from rindices._typing import FloatArray
from rindices.errors import Findings, ProblemCode, format_count
from rindices.tables.layout import freesurfer
from rindices.tables.table import Table

_SUM_OF_REGIONS = "the sum of their regions"
_UNIT_SHARE = 0.5  # of people below, above which the unit is doubted and not single segmentations


def warn_small_head_sizes(icv: pd.Series, table: Table, regions: pd.DataFrame, findings: Findings) -> None:
    """Warn of people whose intracranial volume is below a brain volume of the table, or below the sum of their regions.

    Parameters
    ----------
    icv : (N,) Series
    table : Table
        With columns of whole-brain volumes among those that are not used.
    regions : (N, R) DataFrame
        Columns that measure volumes are summed, unless the layout is unknown: its columns may overlap.
    findings : Findings
        Takes the warning.
    """
    head_sizes = pd.to_numeric(icv, errors="coerce").to_numpy(dtype=float)
    parts = _collect_parts(table, regions)
    with np.errstate(invalid="ignore"):
        below = {name: head_sizes < values for name, values in parts.items()}
    worst = max(below, key=lambda name: int(below[name].sum()), default=None)
    if worst is None or not below[worst].any():
        return
    rows = np.flatnonzero(below[worst])
    cure = "Look at the segmentations of these people"
    if worst != _SUM_OF_REGIONS:
        cure += f", or adjust for another head size: --covariates {worst}"
    if len(rows) > _UNIT_SHARE * len(head_sizes):
        cure = "Check its unit"
    what = f"{len(rows):,} of {format_count(len(head_sizes), 'person has', 'people have')} an ICV below {worst}"
    offenders = [table.ids[int(row)] for row in rows]
    findings.warn(ProblemCode.SMALL_HEAD_SIZES, what, table.where, cure, offenders=offenders)


def _collect_parts(table: Table, regions: pd.DataFrame) -> dict[str, FloatArray]:
    """Return volumes (N,) that no head can be smaller than, by name."""
    layout = table.layout
    composites = layout.aside.get("composite", [])
    columns = [name for name in composites if freesurfer.is_brain_volume(layout.aside_names.get(name, name))]
    columns = [name for name in columns if name in table.frame]  # a column of two tables is kept once
    parts = {name: pd.to_numeric(table.frame[name], errors="coerce").to_numpy(dtype=float) for name in columns}
    volumes = [name for name in regions.columns if layout.measures.get(name, "volume") == "volume"]
    if layout.format != "table" and volumes:
        parts[_SUM_OF_REGIONS] = regions[volumes].to_numpy().sum(axis=1)
    return parts
