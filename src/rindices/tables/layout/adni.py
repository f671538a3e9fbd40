"""ADNI: structures of the UCSF FreeSurfer tables (UCSFFSX, UCSFFSL), whose columns are codes such as ``ST24CV``.

Codes are those of the public data dictionary of ADNI. The letters after the number name the measure: CV and SV are
volumes, TA is thickness, SA surface area, TS the standard deviation of thickness, HS a hippocampal subfield.
"""

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

_COLUMN_REGEX = re.compile(r"ST(\d+)(CV|SV|TA|SA|TS|HS)(_UCSFFS\w+)?", re.IGNORECASE)
_MEASURE_SUFFIXES = {"CV": "_volume", "TA": "_thickness", "SA": "_area"}
_WHOLE_SURFACES = ("lh_WhiteSurfArea", "rh_WhiteSurfArea")
NO_STRUCTURE = "no structure"
OTHER_VERSION = "other version"


@cache
def load_structures() -> dict[int, str]:
    """Return the FreeSurfer name of each code: a structure, or a parcel of the cortex without its measure."""
    text = (files("rindices.tables") / "data" / "adni_structures.csv").read_text("utf-8")
    rows = [line.split(",") for line in text.splitlines()[1:]]
    return {int(code): name for code, name in rows}


def name_structures(columns: Iterable[str]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the FreeSurfer name of each column that is a structure, and the other columns of ADNI by reason.

    Of several versions of the pipeline in one table (``ST24CV_UCSFFSX_...``, ``ST24CV_UCSFFSL_...``), the first with
    most columns is used.
    """
    matches = {column: match for column in columns if (match := _COLUMN_REGEX.fullmatch(column))}
    versions = Counter((match[3] or "").upper() for match in matches.values())
    version = versions.most_common(1)[0][0] if versions else ""
    names: dict[str, str] = {}
    aside: dict[str, list[str]] = {}
    for column, match in matches.items():
        name = _name_structure(int(match[1]), match[2].upper())
        if (match[3] or "").upper() != version:
            aside.setdefault(OTHER_VERSION, []).append(column)
        elif name is None:
            aside.setdefault(NO_STRUCTURE, []).append(column)
        else:
            names[column] = name
    return names, aside


def _name_structure(code: int, measure: str) -> str | None:
    """Return the FreeSurfer name of a code and measure; None if it is not a measure of a structure."""
    structure = load_structures().get(code)
    if structure is None or (structure in _WHOLE_SURFACES and measure != "SA"):
        return None
    if structure.startswith(("lh_", "rh_")):
        return structure + _MEASURE_SUFFIXES[measure] if measure in _MEASURE_SUFFIXES else None
    return structure if measure in ("CV", "SV") else None
