"""Read the regions of a table as numbers in a fixed order, and its intracranial volume."""

from collections.abc import Mapping, Sequence

import pandas as pd

from rindices.errors import Findings, OffenderKind, ProblemCode, capitalise_first, did_you_mean, format_count
from rindices.tables.layout import formats, freesurfer
from rindices.tables.layout.muse import find_muse_region, region_label
from rindices.tables.participants import JoinedParticipants
from rindices.tables.table import Table
from rindices.tables.validation.ids import find_duplicates
from rindices.tables.validation.values import as_numbers


def read_region_values(table: Table, exclude: Sequence[str], findings: Findings) -> pd.DataFrame:
    """Return the regions (N, R) as numbers, sorted by `region_sort_key`; FreeSurfer's zeros become missing."""
    names = exclude_regions(table.layout.regions, exclude)
    for name in exclude:
        if _find_excluded_column(name, table.layout.regions) is None:
            cure = capitalise_first(did_you_mean(name, list(table.layout.regions)))
            what = f"there is no region '{name}' to exclude"
            findings.error(ProblemCode.UNKNOWN_REGION, what, table.where, cure, subject=name)
    if len(names) < 2:
        what = "only one region was found" if names else "no regions were found"
        findings.fatal(ProblemCode.NO_REGIONS, what, table.where, _suggest_regions(table))
    duplicates = find_duplicates(names.values())
    if duplicates:
        columns = [column for column, region in names.items() if region == duplicates[0]]
        what = f"{format_count(len(duplicates), 'region stands', 'regions stand')} in two columns"
        cure = "Keep one of each (raw or harmonised): remove the others or --exclude them"
        kind = OffenderKind.COLUMN
        findings.fatal(ProblemCode.DUPLICATE_REGIONS, what, table.where, cure, offenders=columns, offender_kind=kind)
    ordered = sorted(names, key=lambda column: region_sort_key(names[column]))
    first = table.frame.columns.get_loc(ordered[0])
    adjacent = table.frame.iloc[:, first : first + len(ordered)]  # columns of a chunk are in order: no copy
    values = adjacent if adjacent.columns.tolist() == ordered else table.frame[ordered]
    numbers = as_numbers(values, table.ids, table.where, findings).reset_index(drop=True)
    numbers.columns = pd.Index([names[column] for column in ordered])
    return numbers.where(numbers != 0) if table.layout.zero_is_missing else numbers


def _suggest_regions(table: Table) -> str:
    """Return what to do about a table without regions."""
    if table.layout.format == "ukbiobank":
        fields = "26514 to 26598 and 26789 to 26922, or 25782 to 25920"
        return f"Give fields of brain structures ({fields}), or say --measure any if other fields are meant"
    if formats.find_column(table.frame.columns, (*formats.GROUP_NAMES, *formats.AGE_SEX_NAMES)):
        return "If it describes participants, give it with --participants and a table of regions before it"
    return "Give a table with one column of numbers a region"


def exclude_regions(regions: Mapping[str, str], exclude: Sequence[str]) -> dict[str, str]:
    """Return the columns of regions without the excluded ones."""
    remaining = dict(regions)
    for name in exclude:
        remaining.pop(_find_excluded_column(name, remaining) or "", None)
    return remaining


def _find_excluded_column(name: str, columns: Mapping[str, str]) -> str | None:
    """Return the column that a column name, region name or MUSE label means, in upper or lower case."""
    for column, region in columns.items():
        if name.lower() in {column.lower(), region.lower(), region_label(region).lower()}:
            return column
    return None


def region_sort_key(region: str) -> tuple[int, str]:
    """Return the sort key of a region: MUSE regions are sorted by code, others by name."""
    muse_region = find_muse_region(region)
    return (muse_region.code if muse_region else 0, region)


def select_icv(table: Table, people: JoinedParticipants) -> pd.Series | None:
    """Return the intracranial volume of each person from the table of regions, else from the participants."""
    if table.layout.icv is not None:
        values = table.frame[table.layout.icv]
        return values.where(values != 0) if table.layout.zero_is_missing else values
    column = formats.find_column(people.frame.columns, freesurfer.ICV_NAMES)
    return people.frame[column] if column else None
