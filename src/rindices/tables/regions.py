"""Read the regions of a table as numbers in a fixed order, and its intracranial volume."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from rindices._typing import FloatArray
from rindices.errors import Findings, OffenderKind, ProblemCode, capitalise_first, did_you_mean, format_count
from rindices.tables.io.text import find_duplicates
from rindices.tables.layout import formats, freesurfer
from rindices.tables.layout.muse import find_muse_region, region_label
from rindices.tables.participants import JoinedParticipants
from rindices.tables.table import Table
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
    return _empty_zeros(numbers, table, findings) if table.layout.zero_is_missing else numbers


def _empty_zeros(numbers: pd.DataFrame, table: Table, findings: Findings) -> pd.DataFrame:
    """Return regions (N, R) in which zeros are missing, with a note; lesions and vessels may be 0."""
    zero = (numbers == 0) & [not freesurfer.may_be_zero(name) for name in numbers.columns]
    n_zeros = int(zero.to_numpy().sum())
    if not n_zeros:
        return numbers
    count = f"{format_count(n_zeros, 'cell')} of 0 in {format_count(int(zero.any().sum()), 'region')}"
    what = f"{count} {'is' if n_zeros == 1 else 'are'} missing: FreeSurfer writes 0 for what it did not find"
    people = [table.ids[row] for row in zero.any(axis=1).to_numpy().nonzero()[0].tolist()]
    findings.note(ProblemCode.ZERO_VOLUMES, what, table.where, offenders=people)
    return numbers.mask(zero)


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


_SUM_OF_REGIONS = "the sum of their regions"
_DOUBTFUL_SHARE = 0.05  # of people below, above which a head size is not used unless it is named
_UNIT_SHARE = 0.5  # of people below, above which the unit is doubted and not single segmentations


def check_head_sizes(
    icv: pd.Series, table: Table, regions: pd.DataFrame, findings: Findings, others: Sequence[str] | None
) -> None:
    """Warn of people whose intracranial volume is below a brain volume of the table, or below the sum of their regions.

    icv (N,); table: with columns of whole-brain volumes among those that are not used; regions (N, R): columns that
    measure volumes are summed, unless the layout is unknown: its columns may overlap; findings: takes the warning;
    others: the other covariates, if the head size was recognised and not named. Many people are then an error.
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
    report = findings.warn
    if others is not None and len(rows) > _DOUBTFUL_SHARE * len(head_sizes):
        report = findings.error
        doubt = "Check its unit" if len(rows) > _UNIT_SHARE * len(head_sizes) else "Look at the segmentations"
        another = f"--covariates {','.join([*others, worst])}, " if worst != _SUM_OF_REGIONS else ""
        without = f"--covariates {','.join(others) or 'none'}"
        cure = f"{doubt}, and say which head size to adjust for: {another}{without} "
        cure += f"or --covariates {','.join([*others, 'icv'])}"
    report(ProblemCode.SMALL_HEAD_SIZES, what, table.where, cure, offenders=[table.ids[int(row)] for row in rows])


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
