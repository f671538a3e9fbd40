"""Pairs of regions that measure the same structure on the left and on the right."""

import re
from collections.abc import Sequence

from rindices.tables.layouts.cortex_atlases import has_counterpart
from rindices.tables.layouts.muse import region_label

_OTHER_SIDE = {"l": "r", "lh": "rh", "left": "right"}
_LEFT_REGEX = re.compile(
    r"(?<![A-Za-z])(left|lh|l)(?![A-Za-z])|^(l)(?=[a-z]{3})", re.IGNORECASE
)


def pair_sides(regions: Sequence[str]) -> list[tuple[int, int]]:
    """Return the positions of the left and the right region of each pair, of any atlas
    that names its sides.

    Parameters
    ----------
    regions : sequence of str
        Names of regions, such as ``Left-Hippocampus``, ``lh_insula_thickness``,
        ``MUSE_48`` or ``Lhippo``.

    Returns
    -------
    list of tuple of int
        Left and right position, in the order of the left regions; empty where names
        tell no sides, or where parcels of one name are no counterparts.
    """
    labels = [region_label(region) for region in regions]
    positions = {label: position for position, label in enumerate(labels)}
    pairs = []
    for position, label in enumerate(labels):
        if not has_counterpart(label):
            continue
        for match in _LEFT_REGEX.finditer(label):
            mirrored = (
                label[: match.start()]
                + _name_other_side(match[0])
                + label[match.end() :]
            )
            if mirrored in positions:
                pairs.append((position, positions[mirrored]))
                break
    return pairs


def _name_other_side(left: str) -> str:
    """Return the word for the right side, in capitals as the word for the
    left side is.
    """
    right = _OTHER_SIDE[left.lower()]
    return (
        right.upper()
        if left.isupper()
        else right.capitalize()
        if left[0].isupper()
        else right
    )
