"""UK Biobank: which structure a field is, and which of several overlapping atlases and visits is used.

Field numbers and names are those of the public data dictionary of UK Biobank, categories 190 (FreeSurfer aseg), 192
(Desikan-Killiany), 196 (DKT), 1101 (FAST) and 1102 (FIRST).
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

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
"""Reason why a field is not used: it is not a structure of a brain atlas."""
OTHER_VISIT = "other visit"
OTHER_ATLAS = "other atlas"


class FieldColumn(NamedTuple):
    """Field and visit (instance) that a column holds."""

    field: int
    visit: int


class FieldStructure(NamedTuple):
    """Structure of a field, and the atlas that it belongs to."""

    atlas: str
    name: str


@cache
def load_structures() -> dict[int, FieldStructure]:
    """Return the structures of UK Biobank by field; FreeSurfer's have the names that FreeSurfer gives them."""
    text = (files("rindices.tables") / "data" / "ukb_fields.csv").read_text("utf-8")
    rows = [line.split(",") for line in text.splitlines()[1:]]
    return {int(field): FieldStructure(atlas, name) for field, atlas, name in rows}


def parse_field(column: str) -> FieldColumn | None:
    """Return the field and visit of a column such as ``26562-2.0``; None for another name."""
    matches = (regex.fullmatch(column) for regex in _FIELD_REGEXES)
    match = next((match for match in matches if match), None)
    return FieldColumn(int(match[1]), int(match[2])) if match else None


def parse_fields(columns: Iterable[str]) -> dict[str, FieldColumn]:
    """Return the field and visit of each column that has them."""
    fields = {column: parse_field(column) for column in columns}
    return {column: field for column, field in fields.items() if field is not None}


def name_structures(fields: Mapping[str, FieldColumn]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the structure of each column that is used, and the other columns by reason.

    Of several visits, the one with most structures is used. Atlases overlap, so that one is used for the cortex
    (Desikan-Killiany before DKT) and one below it (FreeSurfer aseg before FIRST), or FAST alone if it has more columns.

    Returns names: structure by column; aside: columns that are not used, by reason.
    """
    known = load_structures()
    structures = {column: known[field.field] for column, field in fields.items() if field.field in known}
    visits = Counter(fields[column].visit for column in structures)
    visit = min(visits, key=lambda number: (-visits[number], number), default=0)
    current = {column: structure for column, structure in structures.items() if fields[column].visit == visit}
    atlases = _choose_atlases({structure.atlas for structure in current.values()}, current)
    names = {column: structure.name for column, structure in current.items() if structure.atlas in atlases}
    reasons = {column: _explain(column, structures, current) for column in fields if column not in names}
    aside: dict[str, list[str]] = {}
    for column, reason in reasons.items():
        aside.setdefault(reason, []).append(column)
    return names, aside


def _explain(column: str, structures: Mapping[str, object], current: Mapping[str, object]) -> str:
    if column not in structures:
        return OTHER_FIELD
    return OTHER_ATLAS if column in current else OTHER_VISIT


def _choose_atlases(available: set[str], columns: Mapping[str, FieldStructure]) -> set[str]:
    cortex = next((atlas for atlas in ("desikan", "dkt") if atlas in available), "")
    below = next((atlas for atlas in ("aseg", "first") if atlas in available), "")
    counts = Counter(structure.atlas for structure in columns.values())
    return {"fast"} if counts["fast"] > counts[cortex] + counts[below] else {cortex, below}
