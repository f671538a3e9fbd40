"""Regions that are sums of a table's columns, such as left plus right."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from rindices.errors import Problem, ProblemCode, Severity, join_names
from rindices.tables.cohort import Cohort
from rindices.tables.layout.muse import region_label

RegionSums = Mapping[str, Sequence[str]]
"""Columns that each region is the sum of, by the name of the region."""


def add_summed_regions(cohort: Cohort, sums: RegionSums) -> tuple[Cohort, list[Problem]]:
    """Replace columns by their sums.

    A sum that the table has as a column is left as it is. A sum with a missing column is not computed, and is reported
    as a missing region later. The list contains a note if sums were computed.
    """
    volumes = cohort.volumes
    computed = {
        region: parts
        for region, parts in sums.items()
        if region not in volumes and all(part in volumes for part in parts)
    }
    if not computed:
        return cohort, []
    used = {part for parts in computed.values() for part in parts}
    columns = {name: volumes[name].to_numpy() for name in volumes if name not in used}
    columns |= {
        region: np.sum([volumes[part] for part in parts], axis=0, dtype=float) for region, parts in computed.items()
    }
    names = join_names(map(format_region_name, computed), 3)
    note = f"{len(computed)} regions of the model are sums of the table's columns, computed here: {names}"
    problem = Problem(Severity.NOTE, note, code=ProblemCode.SUMMED_REGIONS)
    return replace(cohort, volumes=pd.DataFrame(columns)), [problem]


def format_region_name(region: str) -> str:
    """Return the readable name of a region or sum of regions.

    Examples
    --------
    >>> format_region_name("MUSE_47+MUSE_48")
    'Hippocampus_R+Hippocampus_L'
    """
    return "+".join(region_label(part) for part in region.split("+"))
