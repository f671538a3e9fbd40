"""Names of regions: from any table to the structures of the atlases, and to names for
readers.
"""

import pytest

from rindices.tables.layouts.region_names import (
    BrainStructure,
    format_region_name,
    label_regions,
    locate_regions,
    parse_region_name,
)


@pytest.mark.parametrize(
    ("name", "structure"),
    [
        ("lh_bankssts_volume", BrainStructure("left", "bankssts")),
        ("ctx-rh-bankssts", BrainStructure("right", "bankssts")),
        ("R_bankssts_thickavg", BrainStructure("right", "bankssts")),
        ("Left-Thalamus-Proper", BrainStructure("left", "thalamus")),
        ("left thalamus", BrainStructure("left", "thalamus")),
        ("Rthal", BrainStructure("right", "thalamus")),
        ("Brain-Stem", BrainStructure("middle", "brainstem")),
        ("lh_G&S_cingul-Ant_thickness", parse_region_name("ctx_lh_G_and_S_cingul-Ant")),
    ],
)
def test_names_of_all_tables_lead_to_one_structure(
    name: str, structure: BrainStructure
) -> None:
    assert parse_region_name(name) == structure


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("MUSE_48", "hippocampus, left"),
        ("MUSE_81", "frontal WM, right"),
        ("Left-Hippocampus", "hippocampus, left"),
        ("rh_caudalanteriorcingulate_volume", "caudal anterior cingulate, right"),
        ("lh_S_front_inf_thickness", "inferior frontal sulcus, left"),
        ("lh_S_precentral-inf-part_thickness", "inferior precentral sulcus, left"),
        ("rh_S_orbital-H_Shaped_thickness", "orbital H-shaped sulcus, right"),
        (
            "rh_G&S_cingul-Mid-Post_thickness",
            "middle posterior cingulate gyrus and sulcus, right",
        ),
        ("lh_Pole_occipital_thickness", "occipital pole, left"),
        ("lh_Lat_Fis-post_thickness", "lateral fissure posterior, left"),
        ("Lhippo", "hippocampus, left"),
        ("region7", "region7"),
    ],
)
def test_names_for_readers(name: str, text: str) -> None:
    assert format_region_name(name) == text


def test_a_structure_measured_twice_is_drawn_once_and_labelled_by_measure() -> None:
    both = ("lh_insula_thickness", "lh_insula_volume")
    assert locate_regions(both) == {
        "lh_insula_volume": BrainStructure("left", "insula")
    }
    assert label_regions(both) == {
        both[0]: "insula, left (thickness)",
        both[1]: "insula, left (volume)",
    }


def test_a_sum_of_two_sides_has_one_name() -> None:
    labels = label_regions(["MUSE_47+MUSE_48", "MUSE_47+MUSE_60", "MUSE_35", "a+b"])
    assert labels["MUSE_47+MUSE_48"] == "hippocampus, both sides"
    assert labels["MUSE_47+MUSE_60"].startswith("hippocampus, right + ")
    assert labels["a+b"] == "a+b"
