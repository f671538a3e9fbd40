"""Parcels of the Desikan-Killiany and DKT atlases as ggseg, neuromaps and abagen name
them.

ggseg labels parcels ``lh_bankssts``. abagen and neuromaps list a label and a
hemisphere, which users join to ``bankssts_L`` or ``L_bankssts``. Such names do not tell
the measure.
"""

import re
from collections.abc import Iterable

import pandas as pd

from rindices.tables.layouts import NAMES, freesurfer
from rindices.tables.layouts.coded import MIN_CODED_REGIONS, build_coded_layout
from rindices.tables.layouts.column_names import is_mostly_numeric
from rindices.tables.layouts.layout import Layout

PARCELS = frozenset(NAMES["structures"]["parcels"].split())
_STRUCTURES_TEXT = (
    "Thalamus Caudate Putamen Pallidum Hippocampus Amygdala Accumbens-area VentralDC"
)
_STRUCTURES = {name.replace("-", "").lower(): name for name in _STRUCTURES_TEXT.split()}
_STRUCTURES["thalamusproper"] = "Thalamus"
_NOT_CORTEX = ("unknown", "corpuscallosum", "medialwall")
_SIDES = {"l": "lh", "lh": "lh", "left": "lh", "r": "rh", "rh": "rh", "right": "rh"}
_SIDE = "lh|rh|left|right|l|r"
_SIDE_REGEX = re.compile(
    rf"(?:({_SIDE})[-_. ](.+))|(?:(.+)[-_. ]({_SIDE}))", re.IGNORECASE
)


def _parse_side(column: str) -> tuple[str, str] | None:
    """Return the side, ``lh`` or ``rh``, and the structure of a column that names both;
    None for another one.
    """
    match = _SIDE_REGEX.fullmatch(column.strip())
    if not match:
        return None
    side = _SIDES[(match[1] or match[4]).lower()]
    return side, re.sub(r"[-_. ]", "", (match[2] or match[3]).lower())


def find_pairs(columns: Iterable[str]) -> list[str]:
    """Return the columns of structures that are there for both sides."""
    parsed = {
        column: side for column in columns if (side := _parse_side(column)) is not None
    }
    sides = set(parsed.values())
    other = {"lh": "rh", "rh": "lh"}
    return [
        column
        for column, (side, structure) in parsed.items()
        if (other[side], structure) in sides
    ]


def name_parcels(columns: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Return the name of each column that is a parcel or a structure below the cortex,
    and columns without cortex.

    Parcels are named as ggseg does (``lh_bankssts``), structures as FreeSurfer does
    (``Left-Hippocampus``).
    """
    names: dict[str, str] = {}
    without_cortex = []
    for column in columns:
        parsed = _parse_side(column)
        if parsed is None:
            continue
        side, structure = parsed
        if structure in PARCELS:
            names[column] = f"{side}_{structure}"
        elif structure in _STRUCTURES:
            names[column] = (
                f"{'Left' if side == 'lh' else 'Right'}-{_STRUCTURES[structure]}"
            )
        elif structure in _NOT_CORTEX:
            without_cortex.append(column)
    return names, without_cortex


def detect_ggseg(columns: list[str], frame: pd.DataFrame) -> Layout | None:
    """Detect tables of parcels for both sides, without those of another atlas."""
    names, without_cortex = name_parcels(columns)
    n_parcels = sum(name.startswith(("lh_", "rh_")) for name in names.values())
    if n_parcels < MIN_CODED_REGIONS:
        return None
    others = [
        column
        for column in columns
        if column not in names and freesurfer.classify_column(column)
    ]
    names |= {column: freesurfer.canonicalise_region_name(column) for column in others}
    known = {*names, *without_cortex}
    unknown = find_pairs(name for name in columns if name not in known)
    if any(is_mostly_numeric(frame[column]) for column in unknown):
        return None  # another atlas, which shares some names with this one
    return build_coded_layout(
        "ggseg", names, {"no tissue": without_cortex}, columns, frame
    )
