"""Parcels of the Desikan-Killiany and DKT atlases under the names that ggseg, neuromaps and abagen use.

ggseg labels parcels ``lh_bankssts``; abagen and neuromaps list a label and a hemisphere, which users join to
``bankssts_L`` or ``L_bankssts``. Such names do not tell the measure.
"""

import re
from collections.abc import Iterable

_PARCELS_TEXT = """
    bankssts caudalanteriorcingulate caudalmiddlefrontal cuneus entorhinal fusiform inferiorparietal inferiortemporal
    isthmuscingulate lateraloccipital lateralorbitofrontal lingual medialorbitofrontal middletemporal parahippocampal
    paracentral parsopercularis parsorbitalis parstriangularis pericalcarine postcentral posteriorcingulate precentral
    precuneus rostralanteriorcingulate rostralmiddlefrontal superiorfrontal superiorparietal superiortemporal
    supramarginal frontalpole temporalpole transversetemporal insula
"""
PARCELS = frozenset(_PARCELS_TEXT.split())
_STRUCTURES = {
    **{"thalamusproper": "Thalamus", "thalamus": "Thalamus", "caudate": "Caudate", "putamen": "Putamen"},
    **{"pallidum": "Pallidum", "hippocampus": "Hippocampus", "amygdala": "Amygdala"},
    **{"accumbensarea": "Accumbens-area", "ventraldc": "VentralDC"},
}
_NOT_CORTEX = ("unknown", "corpuscallosum", "medialwall")
_SIDES = {"l": "lh", "lh": "lh", "left": "lh", "r": "rh", "rh": "rh", "right": "rh"}
_FIRST_REGEX = re.compile(r"(lh|rh|left|right|l|r)[-_. ](.+)", re.IGNORECASE)
_LAST_REGEX = re.compile(r"(.+)[-_. ](lh|rh|left|right|l|r)", re.IGNORECASE)
NO_TISSUE = "no tissue"


def name_parcels(columns: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Return the name of each column that is a parcel or a structure below the cortex, and columns without cortex.

    Parcels are named as ggseg does (``lh_bankssts``), structures as FreeSurfer does (``Left-Hippocampus``).
    """
    names: dict[str, str] = {}
    without_cortex = []
    for column in columns:
        side, structure = _split_side(column)
        if not side:
            continue
        if structure in PARCELS:
            names[column] = f"{side}_{structure}"
        elif structure in _STRUCTURES:
            names[column] = f"{'Left' if side == 'lh' else 'Right'}-{_STRUCTURES[structure]}"
        elif structure in _NOT_CORTEX:
            without_cortex.append(column)
    return names, without_cortex


def _split_side(column: str) -> tuple[str, str]:
    """Return the hemisphere (``lh``, ``rh`` or nothing) and the structure in small letters without blanks."""
    if first := _FIRST_REGEX.fullmatch(column.strip()):
        side, structure = first[1], first[2]
    elif last := _LAST_REGEX.fullmatch(column.strip()):
        side, structure = last[2], last[1]
    else:
        return "", ""
    return _SIDES[side.lower()], re.sub(r"[-_. ]", "", structure.lower())
