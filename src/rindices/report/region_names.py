"""Names of regions: from those in tables to structures of the atlases, and to names for readers."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rindices.tables.layout import freesurfer, muse

_SIDE_NAMES = {"l": "left", "r": "right", "lh": "left", "rh": "right", "left": "left", "right": "right"}
_SIDED_NAME = re.compile(r"(?:ctx[-_])?(lh|rh|left|right|l|r)[-_ ](.+)", re.IGNORECASE)
_ENIGMA_STRUCTURES = {
    **{"thal": "thalamus", "caud": "caudate", "put": "putamen", "pal": "pallidum", "hippo": "hippocampus"},
    **{"amyg": "amygdala", "accumb": "accumbensarea"},
}
_ENIGMA_NAME = re.compile(rf"([LR])({'|'.join(_ENIGMA_STRUCTURES)})")
_MEASURE_SUFFIX = re.compile(r"_(volume|thickness|thickavg|area|surfavg)$")
_DESTRIEUX_PREFIX = re.compile(r"(G|S|G&S|Lat_Fis|Pole)[_-]")
_DESIKAN_WORD = re.compile(
    r"(caudal|rostral|inferior|superior|middle|lateral|medial|isthmus|anterior|posterior|pars|transverse|frontal|temporal)"
    r"(?=[a-z]{3})"
)
_DESTRIEUX_WORDS = {
    **{"G": "gyrus", "S": "sulcus", "T": "temporal", "P": "parietal", "Ant": "anterior", "ant": "anterior"},
    **{"post": "posterior", "Post": "posterior", "Mid": "middle", "inf": "inferior", "sup": "superior"},
    **{"med": "medial", "lat": "lateral", "front": "frontal", "temp": "temporal", "pariet": "parietal"},
    **{"oc": "occipital", "transv": "transverse", "trans": "transverse", "cingul": "cingulate"},
    **{"Ins": "insular", "lg": "long", "cent": "central", "collat": "collateral", "fusifor": "fusiform"},
    **{"Parahip": "parahippocampal", "Supramar": "supramarginal", "Triangul": "triangular"},
    **{"Horizont": "horizontal", "Plan": "planum", "polar": "polare", "tempo": "temporale"},
    **{"interm": "intermedius", "prim": "primus", "frontomargin": "frontomarginal", "frontopol": "frontopolar"},
    **{"intrapariet": "intraparietal", "olfact": "olfactory"},
}
_MEASURE_PRIORITY = ("volume", "thickness", "area")  # the first one measured in a structure is drawn


class BrainStructure(NamedTuple):
    """A structure of an atlas: its side (left, right or middle) and its name in lower case, letters and digits only."""

    side: str
    structure: str


def parse_region_name(name: str) -> BrainStructure:
    """Return the structure of a region named as in FreeSurfer, FastSurfer, SynthSeg, ENIGMA or an atlas."""
    if short := _ENIGMA_NAME.fullmatch(name):
        return BrainStructure(_SIDE_NAMES[short[1].lower()], _ENIGMA_STRUCTURES[short[2]])
    plain = _MEASURE_SUFFIX.sub("", name)
    sided = _SIDED_NAME.fullmatch(plain)
    return (
        BrainStructure(_SIDE_NAMES[sided[1].lower()], _normalise_name(sided[2]))
        if sided
        else BrainStructure("middle", _normalise_name(plain))
    )


def _normalise_name(text: str) -> str:
    bare = re.sub(r"[^a-z0-9]", "", text.lower().replace("&", "and"))
    return {"thalamusproper": "thalamus"}.get(bare, bare)


def locate_regions(regions: tuple[str, ...]) -> dict[str, BrainStructure]:
    """Return the structure of each region to draw; of several measures of a structure only one is drawn."""
    regions_by_structure: dict[BrainStructure, str] = {}
    for region in sorted(regions, key=_rank_by_measure):
        regions_by_structure.setdefault(_find_muse_structure(region) or parse_region_name(region), region)
    return {region: structure for structure, region in regions_by_structure.items()}


def _rank_by_measure(region: str) -> int:
    measure = freesurfer.infer_measure(region)
    return _MEASURE_PRIORITY.index(measure) if measure in _MEASURE_PRIORITY else len(_MEASURE_PRIORITY)


def _find_muse_structure(region: str) -> BrainStructure | None:
    muse_region = muse.find_muse_region(region)
    return make_muse_structure(muse_region.code) if muse_region else None


def make_muse_structure(code: int) -> BrainStructure:
    """Return the structure of a code of the MUSE atlas."""
    region = muse.single_regions().get(code)
    return BrainStructure(region.side if region else "middle", f"muse{code}")


def label_regions(regions: Sequence[str]) -> dict[str, str]:
    """Return a name for readers of each region, with the measure where a structure has several."""
    names = {region: format_region_name(region) for region in regions}
    counts = Counter(names.values())
    return {
        region: f"{name} ({freesurfer.infer_measure(region)})" if counts[name] > 1 else name
        for region, name in names.items()
    }


def format_region_name(region: str) -> str:
    """Return a region's name for readers: ``hippocampus, left`` for ``MUSE_48`` and for ``Left-Hippocampus``."""
    muse_region = muse.find_muse_region(region)
    if muse_region:
        bare = re.sub(r"_[LR]$", "", muse_region.label).replace("_", " ")
        text = re.sub(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[A-Z][a-z])", " ", bare)
        return _append_side(_lowercase_words(text), muse_region.side)
    if short := _ENIGMA_NAME.fullmatch(region):
        return _append_side(
            _ENIGMA_STRUCTURES[short[2]].replace("accumbensarea", "accumbens"), _SIDE_NAMES[short[1].lower()]
        )
    plain = _MEASURE_SUFFIX.sub("", region)
    sided = _SIDED_NAME.fullmatch(plain)
    text = sided[2] if sided else plain
    if _DESTRIEUX_PREFIX.match(text):
        name = _expand_destrieux(text)
    else:
        words = _DESIKAN_WORD.sub(r"\1 ", text).replace("bankssts", "banks of the superior temporal sulcus")
        name = _lowercase_words(words)
    return _append_side(name.replace("_", " "), _SIDE_NAMES[sided[1].lower()] if sided else "middle")


def _expand_destrieux(text: str) -> str:
    """Return a name of Destrieux's atlas in full words: ``sulcus frontal inferior`` for ``S_front_inf``."""
    full = text.replace("G&S", "gyrus and sulcus").replace("Lat_Fis", "lateral fissure").replace("&", " and ")
    return " ".join(_DESTRIEUX_WORDS.get(word, word.lower()) for word in re.split(r"[ _-]", full))


def _lowercase_words(text: str) -> str:
    return " ".join(word if word.isupper() else word.lower() for word in re.split(r"[ -]", text))


def _append_side(text: str, side: str) -> str:
    return text if side == "middle" else f"{text}, {side}"
