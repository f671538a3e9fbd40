"""Regions that are sums of a table's own, such as left plus right: made here, so that the table can stay as it is."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from rindices.errors import Problem, Severity, join_names
from rindices.tables.cohort import Cohort
from rindices.tables.layout.muse import region_label

RegionSums = Mapping[str, Sequence[str]]
"""Name of a region to the columns that it is the sum of."""


def add_summed_regions(cohort: Cohort, sums: RegionSums) -> tuple[Cohort, list[Problem]]:
    """Return the cohort with the sums in place of their parts, and a note that says so.

    A sum that the table has already, under its own name, is taken as it is; one whose parts are not all there is left
    to be reported as missing.
    """
    volumes = cohort.volumes
    made = {
        region: parts
        for region, parts in sums.items()
        if region not in volumes and all(part in volumes for part in parts)
    }
    if not made:
        return cohort, []
    used = {part for parts in made.values() for part in parts}
    columns = {name: volumes[name].to_numpy() for name in volumes if name not in used}
    columns |= {
        region: np.sum([volumes[part] for part in parts], axis=0, dtype=float) for region, parts in made.items()
    }
    what = f"{len(made)} regions of the model are sums of the table's columns, made here: {join_names(map(format_region_name, made), 3)}"
    return replace(cohort, volumes=pd.DataFrame(columns)), [Problem(Severity.NOTE, what)]


def format_region_name(region: str) -> str:
    """Return a region's name for people: MUSE codes by their labels, sums by their parts.

    Examples
    --------
    >>> readable("MUSE_47+MUSE_48")
    'Hippocampus_R+Hippocampus_L'
    """
    return "+".join(region_label(part) for part in region.split("+"))
