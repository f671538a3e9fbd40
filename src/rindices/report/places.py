"""Where regions are: the names that tables use, brought to those of the atlases."""

import re
from typing import NamedTuple

from rindices.tables import freesurfer, muse

_SIDES = {"l": "left", "r": "right", "lh": "left", "rh": "right", "left": "left", "right": "right"}
_SIDED = re.compile(r"(?:ctx[-_])?(lh|rh|left|right|l|r)[-_ ](.+)", re.IGNORECASE)
_ENIGMA = {
    **{"thal": "thalamus", "caud": "caudate", "put": "putamen", "pal": "pallidum", "hippo": "hippocampus"},
    **{"amyg": "amygdala", "accumb": "accumbensarea"},
}
_ENIGMA_NAME = re.compile(rf"([LR])({'|'.join(_ENIGMA)})")
_MEASURES = ("volume", "thickness", "area")  # where several are measured at one place, the first is drawn


class Place(NamedTuple):
    """A structure of an atlas: its side (left, right or middle) and its name without signs, in lower case."""

    side: str
    structure: str


def place(name: str) -> Place:
    """Return the place of a region named as FreeSurfer, FastSurfer, SynthSeg or ENIGMA does, or as an atlas does."""
    if short := _ENIGMA_NAME.fullmatch(name):
        return Place(_SIDES[short[1].lower()], _ENIGMA[short[2]])
    plain = re.sub(r"_(volume|thickness|thickavg|area|surfavg)$", "", name)
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


def readable(region: str) -> str:
    """Return a region's name for readers: ``hippocampus, left`` for ``MUSE_48`` and for ``Left-Hippocampus``."""
    known = muse.by_name(region)
    if known:
        bare = re.sub(r"_[LR]$", "", known.label).replace("_", " ")
        text, side = re.sub(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[A-Z][a-z])", " ", bare), known.side
        return _with_side(" ".join(w if w.isupper() else w.lower() for w in text.split()), side)
    if short := _ENIGMA_NAME.fullmatch(region):
        return _with_side(_ENIGMA[short[2]], _SIDES[short[1].lower()])
    measure = freesurfer.measure(region)
    plain = re.sub(r"_(volume|thickness|thickavg|area|surfavg)$", "", region)
    sided = _SIDED.fullmatch(plain)
    text = sided[2] if sided else plain
    said = _with_side(text.replace("_", " "), _SIDES[sided[1].lower()] if sided else "middle")
    return f"{said} ({measure})" if plain != region and measure != "volume" else said


def _with_side(text: str, side: str) -> str:
    return text if side == "middle" else f"{text}, {side}"
