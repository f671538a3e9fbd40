"""Names of structures in FreeSurfer, FastSurfer, SynthSeg and ENIGMA, and their classification."""

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

_EARLIER_NAMES = {"Thalamus": "Thalamus-Proper"}
_PAIRED_STRUCTURES_TEXT = """
    Cerebellum-White-Matter Cerebellum-Cortex Thalamus Thalamus-Proper Caudate Putamen Pallidum Hippocampus Amygdala
    Accumbens-area VentralDC Ventral-DC Cerebral-White-Matter Cerebral-Cortex
"""
_PAIRED_STRUCTURES = _PAIRED_STRUCTURES_TEXT.split()
_TISSUE_NAMES = {"brain-stem", *(f"{side}-{name}".lower() for side in ("left", "right") for name in _PAIRED_STRUCTURES)}
_ENIGMA_NAMES = {f"{side}{name}" for side in "lr" for name in ("thal", "caud", "put", "pal", "hippo", "amyg", "accumb")}
_VENTRICLE_REGEX = re.compile(
    r"((left|right)-)?(lateral-ventricle|inf-lat-vent|inferior-lateral-ventricle|[345](rd|th)-ventricle|csf"
    r"|choroid-plexus)|[lr]latvent|ventricles|ventriclechoroidvol"
)
_INCLUDABLE_VENTRICLE_REGEX = re.compile(
    r"((left|right)-)?(lateral-ventricle|inf-lat-vent|inferior-lateral-ventricle|[34](rd|th)-ventricle)"
    r"|[lr]latvent|ventricles"
)
_COMPOSITE_REGEX = re.compile(
    r"brainseg\w*(-to-etiv)?|[lr]?h?(cortex|cerebralwhitematter|corticalwhitematter)vol|subcortgrayvol|totalgrayvol"
    r"|supratentorial\w*|maskvol(-to-etiv)?|[lr]?h?surfaceholes|wholebrain"
    r"|[lr]h_(meanthickness_thickness|whitesurfarea_area|totalvolume_volume)|[lr](full_?)?(thickness|surfarea)"
)
_BRAIN_VOLUME_REGEX = re.compile(r"supratentorialvol\w*|brainsegvol\w*|totalgrayvol|wholebrain")
_NO_TISSUE_REGEX = re.compile(
    r"((left|right)-)?(vessel|(non-)?wm-hypointensities)|optic-chiasm|cc_\w+|wm-hypointensities"
)
_MAY_BE_ZERO_REGEX = re.compile(r"vessel|hypointensit|hyperintensit|\bwmh|lesion|5th-ventricle")
_PARCEL_REGEX = re.compile(r"(?:(?:wm-)?[lr]h[_-]|ctx-[lr]h-|[lr]_)[\w&.+-]+")
_MEASURE_REGEX = re.compile(
    r"_(volume|thickness|thicknessstd|thickavg|area|surfavg|meancurv|gauscurv|foldind|curvind)$"
)


def normalise_structure_name(column: str) -> str:
    """Return a column name in lower case with hyphens for blanks, as FreeSurfer spells it."""
    return re.sub(r"\s+", "-", column.strip().lower())


def canonicalise_region_name(column: str) -> str:
    """Return the name that a region has in all versions of FreeSurfer."""
    for name, earlier in _EARLIER_NAMES.items():
        column = column.replace(earlier, name)
    return column


def list_region_spellings(region: str) -> list[str]:
    """Return the names that a region has in earlier versions of FreeSurfer; see `canonicalise_region_name`."""
    return [region.replace(name, earlier) for name, earlier in _EARLIER_NAMES.items() if name in region]


def infer_measure(column: str) -> str:
    """Return what a cortical column measures: ``volume``, ``thickness`` or another FreeSurfer measure."""
    match = _MEASURE_REGEX.search(normalise_structure_name(column))
    if not match:
        return "volume"
    return "thickness" if match[1] in {"thickness", "thickavg"} else "area" if match[1] == "surfavg" else match[1]


def classify_column(column: str) -> str | None:
    """Return the class of a column: region, ventricle, composite, no tissue or icv; None for an unknown name."""
    name = normalise_structure_name(column)
    if name in {normalise_structure_name(icv) for icv in ICV_NAMES}:
        return "icv"
    for label, pattern in (
        ("ventricle", _VENTRICLE_REGEX),
        ("composite", _COMPOSITE_REGEX),
        ("no tissue", _NO_TISSUE_REGEX),
    ):
        if pattern.fullmatch(name):
            return label
    return "region" if name in _TISSUE_NAMES or name in _ENIGMA_NAMES or is_parcel(column) else None


def is_ventricle(column: str) -> bool:
    """Return whether a column is a ventricle that every brain has; CSF, plexus and the fifth ventricle are not."""
    return bool(_INCLUDABLE_VENTRICLE_REGEX.fullmatch(normalise_structure_name(column)))


def may_be_zero(column: str) -> bool:
    """Return whether a structure has no volume in many healthy people: lesions, vessels, the fifth ventricle."""
    return bool(_MAY_BE_ZERO_REGEX.search(normalise_structure_name(column)))


def is_brain_volume(column: str) -> bool:
    """Return whether a column is the volume of the brain, or of most of it, which every skull exceeds."""
    return bool(_BRAIN_VOLUME_REGEX.fullmatch(normalise_structure_name(column)))


def is_parcel(column: str) -> bool:
    """Return whether a column is a parcel of the cortex."""
    name = normalise_structure_name(column)
    has_affix = bool(_MEASURE_REGEX.search(name)) or name.startswith(("ctx-", "wm-lh-", "wm-rh-"))
    return has_affix and bool(_PARCEL_REGEX.fullmatch(name))


def is_whole_cortex(column: str) -> bool:
    """Return whether a column is the sum of all parcels of a hemisphere."""
    return normalise_structure_name(column) in {"left-cerebral-cortex", "right-cerebral-cortex"}
