"""Names that FreeSurfer, FastSurfer, SynthSeg and ENIGMA give to structures, and what each of them is."""

import re

ICV_NAMES = (
    "EstimatedTotalIntraCranialVol",
    "eTIV",
    "IntraCranialVol",
    "total intracranial",
    "ICV",
    "TIV",
    "intracranial volume",
    "intracranial_volume",
)

_SIDED_TEXT = """
    Cerebellum-White-Matter Cerebellum-Cortex Thalamus Thalamus-Proper Caudate Putamen Pallidum Hippocampus Amygdala
    Accumbens-area VentralDC Ventral-DC Cerebral-White-Matter Cerebral-Cortex
"""
_SIDED = _SIDED_TEXT.split()
_TISSUE = {"brain-stem", *(f"{side}-{name}".lower() for side in ("left", "right") for name in _SIDED)}
_ENIGMA = {f"{side}{name}" for side in "lr" for name in ("thal", "caud", "put", "pal", "hippo", "amyg", "accumb")}
_VENTRICLE = re.compile(
    r"((left|right)-)?(lateral-ventricle|inf-lat-vent|inferior-lateral-ventricle|[345](rd|th)-ventricle|csf"
    r"|choroid-plexus)|[lr]latvent|ventricles|ventriclechoroidvol"
)
_COMPOSITE = re.compile(
    r"brainseg\w*(-to-etiv)?|[lr]?h?(cortex|cerebralwhitematter|corticalwhitematter)vol|subcortgrayvol|totalgrayvol"
    r"|supratentorial\w*|maskvol(-to-etiv)?|[lr]?h?surfaceholes|wholebrain"
    r"|[lr]h_(meanthickness_thickness|whitesurfarea_area|totalvolume_volume)|[lr](full_?)?(thickness|surfarea)"
)
_NO_TISSUE = re.compile(r"((left|right)-)?(vessel|(non-)?wm-hypointensities)|optic-chiasm|cc_\w+|wm-hypointensities")
_PARCEL = re.compile(r"(?:(?:wm-)?[lr]h[_-]|ctx-[lr]h-|[lr]_)[\w&.+-]+")
_MEASURE = re.compile(r"_(volume|thickness|thicknessstd|thickavg|area|surfavg|meancurv|gauscurv|foldind|curvind)$")


def plain(column: str) -> str:
    """Return a column name as FreeSurfer would spell it, in lower case: blanks become hyphens."""
    return re.sub(r"\s+", "-", column.strip().lower())


def canonical(column: str) -> str:
    """Return the name that a region has in all versions of FreeSurfer."""
    return column.replace("Thalamus-Proper", "Thalamus")


def measure(column: str) -> str:
    """Return what a cortical column measures: ``volume``, ``thickness`` or another FreeSurfer measure."""
    match = _MEASURE.search(plain(column))
    if not match:
        return "volume"
    return "thickness" if match[1].startswith("thick") else "area" if match[1] == "surfavg" else match[1]


def kind(column: str) -> str | None:
    """Return ``region``, ``ventricle``, ``composite``, ``no tissue``, ``icv``, or None for an unknown name."""
    name = plain(column)
    if name in {plain(icv) for icv in ICV_NAMES}:
        return "icv"
    for label, pattern in (("ventricle", _VENTRICLE), ("composite", _COMPOSITE), ("no tissue", _NO_TISSUE)):
        if pattern.fullmatch(name):
            return label
    known = name in _TISSUE or name in _ENIGMA
    return "region" if known or is_parcel(column) else None


def is_parcel(column: str) -> bool:
    """Return whether a column is one parcel of the cortex."""
    name = plain(column)
    named_so = bool(_MEASURE.search(name)) or name.startswith(("ctx-", "wm-lh-", "wm-rh-"))
    return named_so and bool(_PARCEL.fullmatch(name))


def is_whole_cortex(column: str) -> bool:
    """Return whether a column is the sum of all parcels of a hemisphere."""
    return plain(column) in {"left-cerebral-cortex", "right-cerebral-cortex"}
