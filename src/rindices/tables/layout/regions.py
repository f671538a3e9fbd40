"""The regions of a table as numbers, in an order of their own, and the intracranial volume beside them."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd

from rindices.errors import Findings, OffenderKind, ProblemCode, capitalise_first, did_you_mean, format_count
from rindices.tables.layout import formats, freesurfer
from rindices.tables.layout.muse import find_muse_region
from rindices.tables.participants import JoinedParticipants
from rindices.tables.table import Table
from rindices.tables.validation.values import as_numbers


def read_region_values(table: Table, exclude: Sequence[str], findings: Findings) -> pd.DataFrame:
    """Return the regions (N, R) as numbers in their canonical order, absent ones as missing."""
    names = exclude_regions(table.layout.regions, exclude)
    for name in exclude:
        if _find_excluded_column(name, table.layout.regions) is None:
            cure = capitalise_first(did_you_mean(name, list(table.layout.regions)))
            what = f"there is no region '{name}' to exclude"
            findings.error(ProblemCode.UNKNOWN_REGION, what, table.where, cure, subject=name)
    if len(names) < 2:
        found = "only one region was found" if names else "no regions were found"
        findings.fatal(ProblemCode.NO_REGIONS, found, table.where, "Give a table with one column of numbers a region")
    twice = [region for region, times in Counter(names.values()).items() if times > 1]
    if twice:
        columns = [column for column, region in names.items() if region == twice[0]]
        findings.fatal(
            ProblemCode.DUPLICATE_REGIONS,
            f"{format_count(len(twice), 'region stands', 'regions stand')} in two columns",
            table.where,
            "Keep one of each (raw or harmonised): remove the others or --exclude them",
            offenders=columns,
            offender_kind=OffenderKind.COLUMN,
        )
    ordered = sorted(names, key=lambda column: region_sort_key(names[column]))
    first = table.frame.columns.get_loc(ordered[0])
    beside = table.frame.iloc[:, first : first + len(ordered)]  # as they lie in pieces of a table: no copy
    chosen = beside if list(beside.columns) == ordered else table.frame[ordered]
    numbers = as_numbers(chosen, table.ids, table.where, findings).reset_index(drop=True)
    numbers.columns = pd.Index([names[column] for column in ordered])
    return numbers.where(numbers != 0) if table.layout.zero_is_missing else numbers


def exclude_regions(regions: Mapping[str, str], exclude: Sequence[str]) -> dict[str, str]:
    """Return the columns of regions that are left when some are excluded."""
    left = dict(regions)
    for name in exclude:
        left.pop(_find_excluded_column(name, left) or "", None)
    return left


def _find_excluded_column(name: str, columns: Mapping[str, str]) -> str | None:
    """Return the column meant by a header name, a region name or a MUSE label, in any case."""
    for column, region in columns.items():
        known = find_muse_region(region)
        if name.lower() in {column.lower(), region.lower(), known.label.lower() if known else ""}:
            return column
    return None


def region_sort_key(region: str) -> tuple[int, str]:
    """Return what regions are sorted by: MUSE by code, others by name."""
    known = find_muse_region(region)
    return (known.code if known else 0, region)


def select_icv(table: Table, people: JoinedParticipants) -> pd.Series | None:
    """Return the intracranial volume of each person, from the table itself or from the participants."""
    if table.layout.icv is not None:
        values = table.frame[table.layout.icv]
        return values.where(values != 0) if table.layout.zero_is_missing else values
    column = formats.find_column(people.frame.columns, freesurfer.ICV_NAMES)
    return people.frame[column] if column else None
