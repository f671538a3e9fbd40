"""Names of regions: from those in tables to structures of the atlases, and to names for
readers.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple

from rindices.tables.layouts import freesurfer, muse

_SIDE_NAMES = {
    "l": "left",
    "r": "right",
    "lh": "left",
    "rh": "right",
    "left": "left",
    "right": "right",
}
_SIDED_NAME = re.compile(r"(?:ctx[-_])?(lh|rh|left|right|l|r)[-_ ](.+)", re.IGNORECASE)
_WORDS: dict[str, dict[str, str]] = tomllib.loads(
    (files("rindices.tables.layouts") / "region_names.toml").read_text("utf-8")
)
_ENIGMA_STRUCTURES, _DESTRIEUX_WORDS = _WORDS["enigma"], _WORDS["destrieux"]
_ENIGMA_NAME = re.compile(rf"([LR])({'|'.join(_ENIGMA_STRUCTURES)})")
_PROGRAM_NAME = re.compile(r"(?:NMM|CAT12|ANTs)_(.+?)(?:_([LR]))?")
_MEASURE_SUFFIX = re.compile(r"_(volume|thickness|thickavg|area|surfavg)$")
_DESTRIEUX_PREFIX = re.compile(r"(G|S|G&S|Lat_Fis|Pole)[_-]")
_DESIKAN_WORD = re.compile(
    r"(caudal|rostral|inferior|superior|middle|lateral|medial|isthmus|anterior|posterior|pars|transverse|frontal|temporal)"
    r"(?=[a-z]{3})"
)
_DIRECTIONS = {
    "anterior",
    "posterior",
    "inferior",
    "superior",
    "middle",
    "medial",
    "lateral",
}
_MEASURE_PRIORITY = (
    "volume",
    "thickness",
    "area",
)  # the first one measured in a structure is drawn


class BrainStructure(NamedTuple):
    """A structure of an atlas.

    Attributes
    ----------
    side : str
        Left, right or middle.
    structure : str
        Its name in lower case, letters and digits only.
    """

    side: str
    structure: str


def _split_side(name: str) -> tuple[str, str]:
    """Return the side of a region (left, right or middle) and its name without side and
    measure.
    """
    if short := _ENIGMA_NAME.fullmatch(name):
        return _SIDE_NAMES[short[1].lower()], _ENIGMA_STRUCTURES[short[2]]
    plain = _MEASURE_SUFFIX.sub("", name)
    if own := _PROGRAM_NAME.fullmatch(plain):
        if own[2]:
            return _SIDE_NAMES[own[2].lower()], own[1]
        plain = own[1]
    sided = _SIDED_NAME.fullmatch(plain)
    return (_SIDE_NAMES[sided[1].lower()], sided[2]) if sided else ("middle", plain)


def parse_region_name(name: str) -> BrainStructure:
    """Return the structure of a region named as in FreeSurfer, FastSurfer, SynthSeg,
    ENIGMA or an atlas.
    """
    side, text = _split_side(name)
    bare = re.sub(r"[^a-z0-9]", "", text.lower().replace("&", "and"))
    return BrainStructure(side, {"thalamusproper": "thalamus"}.get(bare, bare))


def locate_regions(regions: tuple[str, ...]) -> dict[str, BrainStructure]:
    """Return the structure of each region to draw; of several measures of a structure
    only one is drawn.
    """
    regions_by_structure: dict[BrainStructure, str] = {}
    rank = {measure: position for position, measure in enumerate(_MEASURE_PRIORITY)}
    for region in sorted(
        regions,
        key=lambda region: rank.get(freesurfer.infer_measure(region), len(rank)),
    ):
        muse_region = muse.find_muse_region(region)
        structure = (
            make_muse_structure(muse_region.code)
            if muse_region
            else parse_region_name(region)
        )
        regions_by_structure.setdefault(structure, region)
    return {region: structure for structure, region in regions_by_structure.items()}


def make_muse_structure(code: int) -> BrainStructure:
    """Return the structure of a code of the MUSE atlas."""
    region = muse.single_regions().get(code)
    return BrainStructure(region.side if region else "middle", f"muse{code}")


def label_regions(regions: Sequence[str]) -> dict[str, str]:
    """Return a name for readers of each region, with the measure where a structure has
    several.
    """
    names = {region: _format_name_or_sum(region) for region in regions}
    counts = Counter(names.values())
    return {
        region: f"{name} ({freesurfer.infer_measure(region)})"
        if counts[name] > 1
        else name
        for region, name in names.items()
    }


def _format_name_or_sum(region: str) -> str:
    """Return the name for readers of a region or a sum such as ``MUSE_47+MUSE_48``,
    whose two sides are named once: ``hippocampus, both sides``.
    """
    if muse.find_muse_region(region.split("+")[0]) is None:
        return format_region_name(region)
    parts = [format_region_name(part) for part in region.split("+")]
    structures = {split_region_label(part)[0] for part in parts}
    if len(parts) == 2 and len(structures) == 1:
        return f"{structures.pop()}, both sides"
    return " + ".join(parts)


def split_region_label(label: str) -> tuple[str, str]:
    """Return a label of `label_regions` without its side, and the side with the
    measure: ``insula``, ``left``.
    """
    structure, comma, side = label.rpartition(", ")
    return (
        (structure, side)
        if comma and side.split(" ")[0] in ("left", "right")
        else (label, "")
    )


def format_region_name(region: str) -> str:
    """Return a region's name for readers: ``hippocampus, left`` for ``MUSE_48`` and for
    ``Left-Hippocampus``.
    """
    muse_region = muse.find_muse_region(region)
    side, text = _split_side(region)
    if muse_region or region.startswith(("NMM_", "CAT12_")):
        label = muse_region.label if muse_region else text
        side, bare = (
            muse_region.side if muse_region else side,
            re.sub(r"_[LR]$", "", label).replace("_", " "),
        )
        name = _lowercase_words(
            re.sub(
                r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=\d)(?=to)",
                " ",
                bare,
            )
        )
    elif _DESTRIEUX_PREFIX.match(text):
        full = (
            text.replace("G&S", "gyrus and sulcus")
            .replace("Lat_Fis", "lateral fissure")
            .replace("&", " and ")
        )
        words = [
            _DESTRIEUX_WORDS.get(word, word.lower())
            for word in re.split(r"[ _-]", full)
        ]
        n_kinds = (
            3
            if words[1] == "and"
            else 1
            if words[0] in ("gyrus", "sulcus", "pole")
            else 0
        )
        rest = (
            sorted(words[n_kinds:], key=lambda word: word not in _DIRECTIONS)
            if n_kinds
            else words
        )
        name = " ".join(
            filter(None, [*rest, *words[:n_kinds]])
        )  # "inferior frontal sulcus" for "S_front_inf"
    else:
        plain = _DESIKAN_WORD.sub(r"\1 ", text).replace(
            "bankssts", "banks of the superior temporal sulcus"
        )
        name = _lowercase_words(plain.replace("accumbensarea", "accumbens")).replace(
            "_", " "
        )
    return name if side == "middle" else f"{name}, {side}"


def _lowercase_words(text: str) -> str:
    return " ".join(
        word if word.isupper() else word.lower() for word in re.split(r"[ -]", text)
    )
