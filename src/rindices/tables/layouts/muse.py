"""The MUSE atlas: 145 single regions, 139 of which the paper uses."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache

import pandas as pd

from rindices.tables.layouts import read_data_rows
from rindices.tables.layouts.coded import MIN_CODED_REGIONS
from rindices.tables.layouts.column_names import ICV_NAMES, find_column
from rindices.tables.layouts.layout import Layout, drop_empty_lists

ICV_CODE = 702
_COMPOSITE_CODES = range(300, 1000)
_MUSE_PREFIX_REGEX = re.compile(r"\w*muse_(?:volumes?_)?", re.IGNORECASE)
_MUSE_COLUMN_REGEX = re.compile(
    r"(?:X|ROI_|\w*muse_(?:volumes?_)?)?(\d{1,3})(?:\.0)?", re.IGNORECASE
)
_MIN_MUSE_REGIONS = 10


@dataclass(frozen=True, kw_only=True)
class MuseRegion:
    """A single region of the MUSE atlas.

    Attributes
    ----------
    code : int
        Number of the region.
    label : str
        Name of the region.
    side : str
        Left, right or middle.
    tissue : str
        Kind of tissue.
    typical_mm3 : float
        Volume of a typical person.
    """

    code: int
    label: str
    side: str
    tissue: str
    typical_mm3: float

    @property
    def name(self) -> str:
        """Name of the region in a cohort: ``MUSE_47``."""
        return region_name(self.code)

    @property
    def is_ventricle(self) -> bool:
        """Whether the paper leaves the region out."""
        return self.tissue == "ventricle"


def region_name(code: int) -> str:
    """Return the name of a region in a cohort."""
    return f"MUSE_{code}"


@cache
def single_regions() -> dict[int, MuseRegion]:
    """Return the 145 single regions by code."""
    rows = read_data_rows("muse_regions")
    return {
        int(row[0]): MuseRegion(
            code=int(row[0]),
            label=row[1],
            side=row[2],
            tissue=row[3],
            typical_mm3=float(row[4]),
        )
        for row in rows
    }


@cache
def paper_codes() -> tuple[int, ...]:
    """Return the codes of the paper's 139 regions, in ascending order."""
    return tuple(
        code
        for code, region in sorted(single_regions().items())
        if not region.is_ventricle
    )


@lru_cache(maxsize=1_000)
def find_muse_region(name: str) -> MuseRegion | None:
    """Return the region of a name such as ``MUSE_47``; None for a name of another
    atlas.

    Regions of Neuromorphometrics, from which MUSE was made, are called
    ``NMM_Hippocampus_R``, by CAT12 ``CAT12_...``.
    """
    match = re.fullmatch(r"MUSE_(\d{1,3})|(?:NMM|CAT12)_(\w+)", name)
    if not match:
        return None
    code = int(match[1]) if match[1] else parse_muse_codes([match[2]]).get(match[2], 0)
    return single_regions().get(code)


def region_label(name: str) -> str:
    """Return the label of a MUSE region, ``Hippocampus_R`` for ``MUSE_47``; other names
    are returned as they are.
    """
    region = find_muse_region(name)
    return region.label if region else name


def parse_muse_codes(header: Iterable[str]) -> dict[str, int]:
    """Return the MUSE code, single or composite, of each column that has one.

    Headers differ between versions: ``702``, ``DL_MUSE_Volume_702``, ``X702``,
    ``Hippocampus_R``.
    """
    labels = {region.label.lower(): code for code, region in single_regions().items()}
    labels["icv"] = ICV_CODE
    codes = {}
    for column in header:
        match = _MUSE_COLUMN_REGEX.fullmatch(column)
        code = (
            int(match[1])
            if match
            else labels.get(_MUSE_PREFIX_REGEX.sub("", column).lower())
        )
        if code is not None and (code in single_regions() or code in _COMPOSITE_CODES):
            codes[column] = code
    return codes


def has_code_number(column: str) -> bool:
    """Return whether a column has a number in the place of a MUSE code."""
    return bool(_MUSE_COLUMN_REGEX.fullmatch(column))


def detect_dlmuse(columns: list[str], _frame: pd.DataFrame) -> Layout | None:
    """Detect tables of DLMUSE and MUSE by the codes of their columns."""
    codes = parse_muse_codes(columns)
    singles = single_regions()
    single = {
        column: singles[code] for column, code in codes.items() if code in singles
    }
    numbered = [column for column in columns if has_code_number(column)]
    share_coded = sum(column in codes for column in numbered) / max(1, len(numbered))
    is_marked = any(
        "muse" in column.lower() or codes.get(column) == ICV_CODE for column in numbered
    )
    is_small_table = (
        share_coded == 1
        and single
        and (is_marked or len(numbered) >= MIN_CODED_REGIONS)
    )
    if not is_small_table and (len(single) < _MIN_MUSE_REGIONS or share_coded < 0.9):
        return None
    regions = {
        column: region.name
        for column, region in single.items()
        if not region.is_ventricle
    }
    aside = {
        "ventricle": [
            column for column, region in single.items() if region.is_ventricle
        ],
        "composite": [
            column
            for column, code in codes.items()
            if code not in singles and code != ICV_CODE
        ],
    }
    icv = next((column for column, code in codes.items() if code == ICV_CODE), None)
    others = tuple(column for column in columns if column not in codes)
    icv = icv or find_column(others, ICV_NAMES)
    return Layout(
        format="dlmuse",
        regions=regions,
        icv=icv,
        aside=drop_empty_lists(aside),
        participant_columns=others,
        measures=dict.fromkeys(regions.values(), "volume"),
    )
