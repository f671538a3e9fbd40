"""Tables of ADNI: columns are codes of the UCSF FreeSurfer tables (UCSFFSX, UCSFFSL)
such as ``ST24CV``, as in the public data dictionary.

The letters after the number name the measure: CV and SV are volumes, TA is thickness,
SA surface area, TS the standard deviation of thickness, HS a hippocampal subfield.
"""

import re
from collections import Counter
from collections.abc import Iterable

import pandas as pd

from rindices.tables.layouts.coded import (
    MIN_CODED_REGIONS,
    build_coded_layout,
    load_codes,
)
from rindices.tables.layouts.layout import Layout

_CODE_REGEX = re.compile(r"ST(\d+)(CV|SV|TA|SA|TS|HS)(_UCSFFS\w+)?", re.IGNORECASE)
_SUFFIXES = {"CV": "_volume", "TA": "_thickness", "SA": "_area"}
_WHOLE_SURFACES = ("lh_WhiteSurfArea", "rh_WhiteSurfArea")


def name_adni_structures(
    columns: Iterable[str],
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the FreeSurfer name of each column that is a structure, and the other
    columns of ADNI by reason.

    Of several versions of the pipeline in one table (``ST24CV_UCSFFSX_...``,
    ``ST24CV_UCSFFSL_...``), the first with most columns is used.
    """
    matches = {
        column: match for column in columns if (match := _CODE_REGEX.fullmatch(column))
    }
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
    """Return the FreeSurfer name of a code and measure; None if it is not a measure of
    a structure.
    """
    (structure,) = load_codes("adni_structures").get(code, ("",))
    if not structure or (structure in _WHOLE_SURFACES and measure != "SA"):
        return None
    if structure.startswith(("lh_", "rh_")):
        return structure + _SUFFIXES[measure] if measure in _SUFFIXES else None
    return structure if measure in ("CV", "SV") else None


def detect_adni(columns: list[str], frame: pd.DataFrame) -> Layout | None:
    """Detect tables of ADNI."""
    names, aside = name_adni_structures(columns)
    return (
        None
        if len(names) < MIN_CODED_REGIONS
        else build_coded_layout("adni", names, aside, columns, frame)
    )
