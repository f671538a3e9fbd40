"""Pairs of left and right regions, in the names of several programs."""

import pytest

from rindices.tables.layouts.sides import pair_sides


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Left-Hippocampus", "Right-Hippocampus"),
        ("lh_G&S_cingul-Ant_thickness", "rh_G&S_cingul-Ant_thickness"),
        ("ctx-lh-insula", "ctx-rh-insula"),
        ("L_bankssts_thickavg", "R_bankssts_thickavg"),
        ("Lhippo", "Rhippo"),
        ("MUSE_48", "MUSE_47"),
        ("ANTs_lh_cuneus", "ANTs_rh_cuneus"),
        ("insula_L", "insula_R"),
    ],
)
def test_a_region_is_paired_with_that_of_the_other_side(left: str, right: str) -> None:
    assert pair_sides([right, "Brain-Stem", left]) == [(2, 0)]


def test_regions_without_the_other_side_have_no_pair() -> None:
    assert (
        pair_sides(
            ["Left-Hippocampus", "Brain-Stem", "leptin", "l_selectin", "glucose"]
        )
        == []
    )
