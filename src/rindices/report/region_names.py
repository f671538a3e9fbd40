"""Where regions are: the names that tables use, brought to those of the atlases."""

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
_MEASURE_PRIORITY = ("volume", "thickness", "area")  # where several are measured at one place, the first is drawn


class BrainStructure(NamedTuple):
    """A structure of an atlas: its side (left, right or middle) and its name without signs, in lower case."""

    side: str
    structure: str


def parse_region_name(name: str) -> BrainStructure:
    """Return the place of a region named as FreeSurfer, FastSurfer, SynthSeg or ENIGMA does, or as an atlas does."""
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
    """Return the place of each region that is to be drawn; of several measures of one place only one is."""
    taken: dict[BrainStructure, str] = {}
    for region in sorted(regions, key=_rank_by_measure):
        taken.setdefault(_find_muse_structure(region) or parse_region_name(region), region)
    return {region: where for where, region in taken.items()}


def _rank_by_measure(region: str) -> int:
    measure = freesurfer.infer_measure(region)
    return _MEASURE_PRIORITY.index(measure) if measure in _MEASURE_PRIORITY else len(_MEASURE_PRIORITY)


def _find_muse_structure(region: str) -> BrainStructure | None:
    known = muse.find_muse_region(region)
    return make_muse_structure(known.code) if known else None


def make_muse_structure(code: int) -> BrainStructure:
    """Return the place of a code of the MUSE atlas."""
    known = muse.single_regions().get(code)
    return BrainStructure(known.side if known else "middle", f"muse{code}")


def label_regions(regions: Sequence[str]) -> dict[str, str]:
    """Return a name for readers of each region; the measure is said only where one place is measured twice."""
    plain = {region: format_region_name(region) for region in regions}
    often = Counter(plain.values())
    return {
        region: f"{name} ({freesurfer.infer_measure(region)})" if often[name] > 1 else name
        for region, name in plain.items()
    }


def format_region_name(region: str) -> str:
    """Return a region's name for readers: ``hippocampus, left`` for ``MUSE_48`` and for ``Left-Hippocampus``."""
    known = muse.find_muse_region(region)
    if known:
        bare = re.sub(r"_[LR]$", "", known.label).replace("_", " ")
        text = re.sub(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[A-Z][a-z])", " ", bare)
        return _append_side(_lowercase_words(text), known.side)
    if short := _ENIGMA_NAME.fullmatch(region):
        return _append_side(
            _ENIGMA_STRUCTURES[short[2]].replace("accumbensarea", "accumbens"), _SIDE_NAMES[short[1].lower()]
        )
    plain = _MEASURE_SUFFIX.sub("", region)
    sided = _SIDED_NAME.fullmatch(plain)
    text = sided[2] if sided else plain
    if _DESTRIEUX_PREFIX.match(text):
        said = _expand_destrieux(text)
    else:
        said = _lowercase_words(
            _DESIKAN_WORD.sub(r"\1 ", text).replace("bankssts", "banks of the superior temporal sulcus")
        )
    return _append_side(said.replace("_", " "), _SIDE_NAMES[sided[1].lower()] if sided else "middle")


def _expand_destrieux(text: str) -> str:
    """Return a name of Destrieux's atlas in whole words: ``sulcus frontal inferior`` for ``S_front_inf``."""
    said = text.replace("G&S", "gyrus and sulcus").replace("Lat_Fis", "lateral fissure").replace("&", " and ")
    return " ".join(_DESTRIEUX_WORDS.get(word, word.lower()) for word in re.split(r"[ _-]", said))


def _lowercase_words(text: str) -> str:
    return " ".join(word if word.isupper() else word.lower() for word in re.split(r"[ -]", text))


def _append_side(text: str, side: str) -> str:
    return text if side == "middle" else f"{text}, {side}"
