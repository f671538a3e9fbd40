"""Lobes of regions, by the words in their names, for figures that group regions."""

import re

_LOBES = (
    ("ventricles", ("ventric", "csf", "choroid")),
    ("cerebellum", ("cerebell", "vermis", "vermal")),
    ("brain stem", ("brain stem", "brainstem", "ventral dc", "midbrain", "pons")),
    (
        "white matter",
        ("wm", "white matter", "internal capsule", "callosum", "fornix", "capsule"),
    ),
    (
        "deep grey matter",
        ("thalamus", "caudate", "putamen", "pallid", "accumbens", "basal forebrain"),
    ),
    ("insula", ("insula",)),
    ("cingulate", ("cingul", "subcallosal")),
    (
        "medial temporal",
        ("hippocamp", "amygdala", "entorhinal", "parahippocampal"),
    ),
    (
        "temporal",
        ("temporal", "fusiform", "planum", "transverse temporal", "heschl", "sts"),
    ),
    (
        "occipital",
        ("occipital", "calcarine", "cuneus", "lingual", "pericalcarine"),
    ),
    (
        "parietal",
        ("parietal", "postcentral", "supramarginal", "angular", "precuneus"),
    ),
    (
        "frontal",
        (
            *("frontal", "precentral", "orbital", "rectus", "motor", "pars"),
            *("operculum", "paracentral", "rolandic", "olfactory"),
        ),
    ),
)
_ORDER = (
    *("frontal", "parietal", "temporal", "occipital", "cingulate", "insula"),
    *("medial temporal", "deep grey matter", "white matter", "brain stem"),
    *("cerebellum", "ventricles", "other"),
)


def find_lobe(label: str) -> str:
    """Return the lobe of a region, from its name for readers."""
    name = label.lower()
    if "precuneus" in name:
        return "parietal"
    if "superior temporal sulcus" in name:
        return "temporal"
    if "occipital fusiform" in name:
        return "occipital"
    found = (
        lobe
        for lobe, words in _LOBES
        if any(re.search(rf"\b{word}", name) for word in words)
    )
    return next(found, "other")


def rank_lobe(lobe: str) -> int:
    """Return the position of a lobe in figures."""
    return _ORDER.index(lobe)
