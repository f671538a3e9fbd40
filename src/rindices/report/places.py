"""Where regions are: the names that tables use, brought to those of the atlases."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rindices.tables import freesurfer, muse

_SIDES = {"l": "left", "r": "right", "lh": "left", "rh": "right", "left": "left", "right": "right"}
_SIDED = re.compile(r"(?:ctx[-_])?(lh|rh|left|right|l|r)[-_ ](.+)", re.IGNORECASE)
_ENIGMA = {
    **{"thal": "thalamus", "caud": "caudate", "put": "putamen", "pal": "pallidum", "hippo": "hippocampus"},
    **{"amyg": "amygdala", "accumb": "accumbensarea"},
}
_ENIGMA_NAME = re.compile(rf"([LR])({'|'.join(_ENIGMA)})")
_MEASURE = re.compile(r"_(volume|thickness|thickavg|area|surfavg)$")
_DESTRIEUX = re.compile(r"(G|S|G&S|Lat_Fis|Pole)[_-]")
_DESIKAN = re.compile(
    r"(caudal|rostral|inferior|superior|middle|lateral|medial|isthmus|anterior|posterior|pars|transverse|frontal|temporal)"
    r"(?=[a-z]{3})"
)
_WORDS = {
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
_MEASURES = ("volume", "thickness", "area")  # where several are measured at one place, the first is drawn


class Place(NamedTuple):
    """A structure of an atlas: its side (left, right or middle) and its name without signs, in lower case."""

    side: str
    structure: str


def place(name: str) -> Place:
    """Return the place of a region named as FreeSurfer, FastSurfer, SynthSeg or ENIGMA does, or as an atlas does."""
    if short := _ENIGMA_NAME.fullmatch(name):
        return Place(_SIDES[short[1].lower()], _ENIGMA[short[2]])
    plain = _MEASURE.sub("", name)
    sided = _SIDED.fullmatch(plain)
    return Place(_SIDES[sided[1].lower()], _squeezed(sided[2])) if sided else Place("middle", _squeezed(plain))


def _squeezed(text: str) -> str:
    bare = re.sub(r"[^a-z0-9]", "", text.lower().replace("&", "and"))
    return {"thalamusproper": "thalamus"}.get(bare, bare)


def drawn(regions: tuple[str, ...]) -> dict[str, Place]:
    """Return the place of each region that is to be drawn; of several measures of one place only one is."""
    taken: dict[Place, str] = {}
    for region in sorted(regions, key=_rank):
        taken.setdefault(_muse_place(region) or place(region), region)
    return {region: where for where, region in taken.items()}


def _rank(region: str) -> int:
    measure = freesurfer.measure(region)
    return _MEASURES.index(measure) if measure in _MEASURES else len(_MEASURES)


def _muse_place(region: str) -> Place | None:
    known = muse.by_name(region)
    return muse_place(known.code) if known else None


def muse_place(code: int) -> Place:
    """Return the place of a code of the MUSE atlas."""
    known = muse.single_regions().get(code)
    return Place(known.side if known else "middle", f"muse{code}")


def labels(regions: Sequence[str]) -> dict[str, str]:
    """Return a name for readers of each region; the measure is said only where one place is measured twice."""
    plain = {region: readable(region) for region in regions}
    often = Counter(plain.values())
    return {
        region: f"{name} ({freesurfer.measure(region)})" if often[name] > 1 else name for region, name in plain.items()
    }


def readable(region: str) -> str:
    """Return a region's name for readers: ``hippocampus, left`` for ``MUSE_48`` and for ``Left-Hippocampus``."""
    known = muse.by_name(region)
    if known:
        bare = re.sub(r"_[LR]$", "", known.label).replace("_", " ")
        text = re.sub(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[A-Z][a-z])", " ", bare)
        return _with_side(_lower(text), known.side)
    if short := _ENIGMA_NAME.fullmatch(region):
        return _with_side(_ENIGMA[short[2]].replace("accumbensarea", "accumbens"), _SIDES[short[1].lower()])
    plain = _MEASURE.sub("", region)
    sided = _SIDED.fullmatch(plain)
    text = sided[2] if sided else plain
    if _DESTRIEUX.match(text):
        said = _destrieux(text)
    else:
        said = _lower(_DESIKAN.sub(r"\1 ", text).replace("bankssts", "banks of the superior temporal sulcus"))
    return _with_side(said.replace("_", " "), _SIDES[sided[1].lower()] if sided else "middle")


def _destrieux(text: str) -> str:
    """Return a name of Destrieux's atlas in whole words: ``sulcus frontal inferior`` for ``S_front_inf``."""
    said = text.replace("G&S", "gyrus and sulcus").replace("Lat_Fis", "lateral fissure").replace("&", " and ")
    return " ".join(_WORDS.get(word, word.lower()) for word in re.split(r"[ _-]", said))


def _lower(text: str) -> str:
    return " ".join(word if word.isupper() else word.lower() for word in re.split(r"[ -]", text))


def _with_side(text: str, side: str) -> str:
    return text if side == "middle" else f"{text}, {side}"
