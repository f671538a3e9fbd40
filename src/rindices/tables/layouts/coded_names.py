"""Columns that code a structure: ADNI, UK Biobank, parcels of ggseg, neuromaps and
abagen, labels of SPM, CAT12, ANTs.

ADNI: codes of the UCSF FreeSurfer tables (UCSFFSX, UCSFFSL) such as ``ST24CV``, as in
the public data dictionary. The letters after the number name the measure: CV and SV are
volumes, TA is thickness, SA surface area, TS the standard deviation of thickness, HS a
hippocampal subfield.

UK Biobank: fields and names of the public data dictionary, categories 190 (FreeSurfer
aseg), 192 (Desikan-Killiany), 196 (DKT), 1101 (FAST) and 1102 (FIRST).

Desikan-Killiany and DKT: ggseg labels parcels ``lh_bankssts``; abagen and neuromaps
list a label and a hemisphere, which users join to ``bankssts_L`` or ``L_bankssts``.
Such names do not tell the measure.

Neuromorphometrics: SPM12 labels regions ``Left ACgG anterior cingulate gyrus``, the
Medical Informatics Platform writes the same without blanks, CAT12 abbreviates to
``lAntCinGy``, with a tissue in some tables (``lAntCinGy_GM_Vol``). ANTs labels the
parcels of DKT ``left caudal anterior cingulate``, with a measure in some tables
(``thickness.left...``).
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

from rindices.tables.layouts import NAMES, read_data_rows

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
OTHER_FIELD = "other field"
"""Reason why a field of UK Biobank is not used: it is not a structure of a brain atlas.
"""


_LABEL_REGEX = re.compile(
    r"(?:(volume|thickness)[._ ])?(.+?)(?:_([GW]M|CSF)_Vol)?", re.IGNORECASE
)
_PROGRAM_PREFIXES = {"spm": "NMM_", "cat12": "CAT12_", "ants": "ANTs_"}
# labels of the cortex by which a program is recognised: other labels are those of
# several programs
_MIN_CORTEX = 5


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


@cache
def load_codes(name: str) -> dict[int, tuple[str, ...]]:
    """Return what each code of a data dictionary means.

    In ``adni_structures`` it is a FreeSurfer name, of a parcel without its measure; in
    ``ukb_fields`` an atlas and the name of a structure in it.
    """
    return {int(code): tuple(values) for code, *values in read_data_rows(name)}


def name_adni_structures(
    columns: Iterable[str],
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the FreeSurfer name of each column that is a structure, and the other
    columns of ADNI by reason.

    Of several versions of the pipeline in one table (``ST24CV_UCSFFSX_...``,
    ``ST24CV_UCSFFSL_...``), the first with most columns is used.
    """
    matches = {
        column: match for column in columns if (match := _ADNI_REGEX.fullmatch(column))
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
        return (
            structure + _ADNI_SUFFIXES[measure] if measure in _ADNI_SUFFIXES else None
        )
    return structure if measure in ("CV", "SV") else None


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


@cache
def load_labels() -> dict[str, dict[str, tuple[str, str]]]:
    """Return the region and the tissue of each label of SPM12, CAT12 and ANTs, by its
    letters and digits.

    In the file ``*``, ``@`` and ``#`` stand for a side; fluid and vessels have the
    names of FreeSurfer.
    """
    labels: dict[str, dict[str, tuple[str, str]]] = {
        program: {} for program in _PROGRAM_PREFIXES
    }
    for program, label, region, tissue in read_data_rows("atlas_labels"):
        prefix = (
            "" if tissue in ("ventricle", "no tissue") else _PROGRAM_PREFIXES[program]
        )
        for word, hemisphere in (("Left", "lh"), ("Right", "rh")):
            spelling = label.replace("*", word[0] if program == "cat12" else word)
            name = (
                region.replace("*", word[0]).replace("@", word).replace("#", hemisphere)
            )
            labels[program][_normalise_label(spelling)] = (prefix + name, tissue)
    return labels


def _normalise_label(label: str) -> str:
    return re.sub(r"[^a-z0-9]", "", label.lower())


def name_labels(
    columns: Iterable[str],
) -> tuple[str, dict[str, str], dict[str, list[str]]]:
    """Return the program whose labels columns are, the region of each column, and
    columns of other tissues.

    The program is that with most labels of the cortex, or empty. ANTs separates the
    words of a label; names that do not are those of other programs. CAT12 has volumes
    of grey matter, white matter and fluid in each region.
    """
    names, program, most = dict[str, str](), "", _MIN_CORTEX - 1
    aside: dict[str, list[str]] = {}
    matches = {
        column: match
        for column in columns
        if (match := _LABEL_REGEX.fullmatch(column.strip()))
    }
    for candidate, labels in load_labels().items():
        found = {
            c: (m, *labels[key])
            for c, m in matches.items()
            if (key := _normalise_label(m[2])) in labels
        }
        n_cortex = sum(tissue == "cortex" for _, _, tissue in found.values())
        has_words = candidate != "ants" or any(
            re.search(r"caudal[-._ ]", column, re.IGNORECASE) for column in found
        )
        if n_cortex <= most or not has_words:
            continue
        names, program, most, aside = {}, candidate, n_cortex, {}
        for column, (match, region, tissue) in found.items():
            if tissue == "other tissue" or (match[3] or "GM").upper() != "GM":
                aside.setdefault("other tissue", []).append(column)
            else:
                names[column] = region + (f"_{match[1].lower()}" if match[1] else "")
    return program, names, aside


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
