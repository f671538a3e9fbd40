"""Content of tables before people are left out."""

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from rindices._typing import BoolArray
from rindices.tables.participants import GroupLabels, JoinedParticipants
from rindices.tables.table import Table
from rindices.tables.validation.values import ColumnRanges, compute_column_ranges


@dataclass(frozen=True)
class UnfilteredCohort:
    """Content of the tables before people are left out; all parts have the N rows of the table of regions."""

    table: Table
    people: JoinedParticipants
    regions: pd.DataFrame
    covariates: pd.DataFrame
    groups: GroupLabels | None
    sites: pd.Series | None
    icv: pd.Series | None

    @cached_property
    def ranges(self) -> ColumnRanges:
        """Ranges of the regions."""
        return compute_column_ranges(self.regions)

    def take(self, rows: BoolArray) -> "UnfilteredCohort":
        """Select people by a mask (N,)."""
        if rows.all():
            return self
        return UnfilteredCohort(
            self.table.take(rows),
            self.people.take(rows),
            self.regions[rows].reset_index(drop=True),
            self.covariates[rows].reset_index(drop=True),
            None if self.groups is None else self.groups.take(rows),
            None if self.sites is None else self.sites[rows].reset_index(drop=True),
            None if self.icv is None else self.icv[rows].reset_index(drop=True),
        )
