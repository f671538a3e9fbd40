"""Labels of SPM12, CAT12 and ANTs.

SPM12 labels regions of Neuromorphometrics ``Left ACgG anterior cingulate gyrus``, the
Medical Informatics Platform writes the same without blanks, CAT12 abbreviates to
``lAntCinGy``, with a tissue in some tables (``lAntCinGy_GM_Vol``). ANTs labels the
parcels of DKT ``left caudal anterior cingulate``, with a measure in some tables
(``thickness.left...``).
"""

import re
from collections.abc import Iterable
from functools import cache

import pandas as pd

from rindices.tables.layouts import read_data_rows
from rindices.tables.layouts.coded import build_coded_layout
from rindices.tables.layouts.layout import Layout

_LABEL_REGEX = re.compile(
    r"(?:(volume|thickness)[._ ])?(.+?)(?:_([GW]M|CSF)_Vol)?", re.IGNORECASE
)
_PROGRAM_PREFIXES = {"spm": "NMM_", "cat12": "CAT12_", "ants": "ANTs_"}
# labels of the cortex by which a program is recognised: other labels are those of
# several programs
_MIN_CORTEX = 5


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


def detect_labels(columns: list[str], frame: pd.DataFrame) -> Layout | None:
    """Detect tables of SPM12, CAT12 and ANTs."""
    program, names, aside = name_labels(columns)
    format_name = "neuromorphometrics" if program == "spm" else program
    return (
        build_coded_layout(format_name, names, aside, columns, frame)
        if program
        else None
    )
