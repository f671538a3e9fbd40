"""Views of the brain: sides are not exchanged, and labels on the surface lie where they
should.
"""

import numpy as np
import pytest

pytest.importorskip("nilearn")

from rindices.plot.geometry import load_atlas
from rindices.tables.layouts.muse import single_regions
from rindices.tables.layouts.region_names import BrainStructure


@pytest.mark.parametrize("name", ["muse", "desikan_killiany", "destrieux"])
def test_left_is_left(name: str) -> None:
    atlas = load_atlas(name)
    sides = np.array([structure.side for structure in atlas.structures])
    for view in atlas.cortex:
        seen = np.unique(view.labels[view.labels >= 0])
        assert set(sides[seen]) == {view.name.split()[0]}
    for view in atlas.slices[:5]:
        inside = view.labels >= 0
        columns = np.nonzero(inside)[1]
        side_of_pixel = sides[view.labels[inside]]
        assert (
            columns[side_of_pixel == "left"].max()
            <= columns[side_of_pixel == "right"].min() + 30
        )
        assert (
            columns[side_of_pixel == "left"].mean()
            < columns[side_of_pixel == "right"].mean()
        )


def test_labels_by_nearest_voxel_overlap_with_surface_labels() -> None:
    """MUSE is brought to the surface through its volume; Desikan-Killiany has labels of
    its own there.
    """
    muse, desikan = load_atlas("muse"), load_atlas("desikan_killiany")
    codes = {region.label: code for code, region in single_regions().items()}
    for label, other in (
        ("PrecentralGyrus_L", "precentral"),
        ("CalcarineCortex_L", "pericalcarine"),
    ):
        one = muse.structures.index(BrainStructure("left", f"muse{codes[label]}"))
        two = desikan.structures.index(BrainStructure("left", other))
        first = np.concatenate(
            [(view.labels == one).ravel() for view in muse.cortex[:2]]
        )
        second = np.concatenate(
            [(view.labels == two).ravel() for view in desikan.cortex[:2]]
        )
        assert 2 * (first & second).sum() / (first.sum() + second.sum()) > 0.5  # Dice
