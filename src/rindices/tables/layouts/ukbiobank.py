"""Tables of UK Biobank: columns are fields of the public data dictionary, categories
190 (FreeSurfer aseg), 192 (Desikan-Killiany), 196 (DKT), 1101 (FAST) and 1102 (FIRST).
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from rindices.tables.layouts.coded import (
    MIN_CODED_REGIONS,
    build_coded_layout,
    load_codes,
)
from rindices.tables.layouts.column_names import is_mostly_numeric
from rindices.tables.layouts.layout import Layout

_FIELD_REGEXES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(\d+)-(\d+)\.\d+",  # 26562-2.0
        r"(?:f\.|x)(\d+)\.(\d+)\.\d+",  # f.26562.2.0 (ukbconv), X26562.2.0 (R)
        r"[xfn]_?(\d+)_(\d+)_\d+",  # x26562_2_0, n_26562_2_0
        r"p(\d+)_i(\d+)(?:_a\d+)?",  # p26562_i2 (research analysis platform)
    )
)
OTHER_FIELD = "other field"
"""Reason why a field of UK Biobank is not used: it is not a structure of a brain atlas.
"""
_PARTICIPANT_FIELDS = {
    31,
    34,
    52,
    53,
    54,
    21003,
    21022,
}  # sex, birth, date and centre of visits, age
NON_REGION_FIELDS = {
    *_PARTICIPANT_FIELDS,
    *range(25000, 25011),
    *range(25756, 25760),
}


class FieldColumn(NamedTuple):
    """What a column of UK Biobank holds.

    Attributes
    ----------
    field : int
        Number of the field.
    visit : int
        Number of the visit (instance).
    """

    field: int
    visit: int


def parse_field(column: str) -> FieldColumn | None:
    """Return the field and visit of a column such as ``26562-2.0``; None for another
    name.
    """
    match = next(
        (match for regex in _FIELD_REGEXES if (match := regex.fullmatch(column))), None
    )
    return FieldColumn(int(match[1]), int(match[2])) if match else None


def name_field_structures(
    fields: Mapping[str, FieldColumn],
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the structure of each column of UK Biobank that is used, and the other
    columns by reason.

    Of several visits, the one with most structures is used. Atlases overlap, so that
    one is used for the cortex (Desikan-Killiany before DKT) and one below it
    (FreeSurfer aseg before FIRST), or FAST alone if it has more columns.
    """
    known = load_codes("ukb_fields")
    structures = {
        column: known[field.field]
        for column, field in fields.items()
        if field.field in known
    }
    visits = Counter(fields[column].visit for column in structures)
    visit = min(visits, key=lambda number: (-visits[number], number), default=0)
    current = {
        column: structure
        for column, structure in structures.items()
        if fields[column].visit == visit
    }
    counts = Counter(atlas for atlas, _ in current.values())
    atlases = (("desikan", "dkt"), ("aseg", "first"))
    cortex, below = (
        next((atlas for atlas in each if counts[atlas]), "") for each in atlases
    )
    used = (
        {"fast"} if counts["fast"] > counts[cortex] + counts[below] else {cortex, below}
    )
    names = {column: name for column, (atlas, name) in current.items() if atlas in used}
    aside: dict[str, list[str]] = {}
    for column in fields:
        if column not in structures:
            aside.setdefault(OTHER_FIELD, []).append(column)
        elif column not in names:
            aside.setdefault(
                "other atlas" if column in current else "other visit", []
            ).append(column)
    return names, aside


def detect_ukbiobank(columns: list[str], frame: pd.DataFrame) -> Layout | None:
    """Detect tables of UK Biobank fields; without any structure of the brain, all
    fields are set aside.
    """
    fields = {column: parsed for column in columns if (parsed := parse_field(column))}
    names, aside = name_field_structures(fields)
    is_all_fields = len(fields) >= max(MIN_CODED_REGIONS, len(columns) / 2)
    if len(names) < MIN_CODED_REGIONS and not is_all_fields:
        return None
    numeric = [
        column
        for column in aside.get(OTHER_FIELD, [])
        if is_mostly_numeric(frame[column])
    ]
    people = [
        column for column in numeric if fields[column].field in _PARTICIPANT_FIELDS
    ]
    aside[OTHER_FIELD] = [column for column in numeric if column not in people]
    return build_coded_layout("ukbiobank", names, aside, columns, frame)
