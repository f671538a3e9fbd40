"""Tables of the Schaefer and Glasser atlases: parcels, measures, the medial wall, and
which atlas it is.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rindices as ri
from rindices.analysis.model_columns import ModelInputs, find_used_columns
from rindices.errors import Findings
from rindices.tables.layouts.cortex_atlases import (
    list_parcel_spellings,
    name_atlas_parcels,
)
from rindices.tables.layouts.detect import detect_layout
from rindices.tables.layouts.select import select_columns
from rindices.tables.layouts.sides import pair_sides

# names and numbers of parcels as in Schaefer2018_100Parcels_7Networks_order
SCHAEFER_100 = {
    "LH": (
        "Vis:9 SomMot:6 DorsAttn_Post:6 DorsAttn_FEF:2 SalVentAttn_ParOper:1 SalVentAttn_FrOper:2 "
        "SalVentAttn_PFCl:1 SalVentAttn_Med:3 Limbic_OFC:1 Limbic_TempPole:2 Cont_Par:1 Cont_PFCl:1 "
        "Cont_pCun:1 Cont_Cing:1 Default_Temp:4 Default_PFC:7 Default_PCC:2"
    ),
    "RH": (
        "Vis:8 SomMot:8 DorsAttn_Post:5 DorsAttn_FEF:2 SalVentAttn_TempOccPar:2 SalVentAttn_FrOper:1 "
        "SalVentAttn_Med:2 Limbic_OFC:1 Limbic_TempPole:1 Cont_Par:2 Cont_PFCl:4 Cont_PFCmp:3 "
        "Default_Par:1 Default_Temp:3 Default_PFCv:2 Default_PFCm:3 Default_PCC:2"
    ),
}
GLASSER = "V1 MST V6 4 3b FEF p9-46v 46 OP2-3 PFcm STGa PH A1 IP1 s6-8 TE1a 10d a24 25"
WALL = "Background+FreeSurfer_Defined_Medial_Wall"


def list_schaefer(times: int = 1) -> list[str]:
    """Return the names of 100 parcels, or of a multiple as if each group had more."""
    return [
        f"{side}_{group}_{number + 1}"
        for side, text in SCHAEFER_100.items()
        for group, count in (each.split(":") for each in text.split())
        for number in range(times * int(count))
    ]


def make_table(columns: list[str], mean: float = 2.6, people: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    values = mean * np.exp(rng.normal(0, 0.08, (people, len(columns))))
    table = pd.DataFrame(values, columns=columns)
    table.insert(0, "ID", [f"p{number}" for number in range(people)])
    return table


@pytest.mark.parametrize("times", [1, 2, 3, 4])
@pytest.mark.parametrize("form", ["7Networks_{}", "{}", "aparc"])
def test_parcels_are_named_with_their_atlas(times: int, form: str) -> None:
    names = list_schaefer(times)
    columns = [
        f"{name[:2].lower()}_7Networks_{name}_thickness"
        if form == "aparc"
        else form.format(name)
        for name in names
    ]
    layout = detect_layout(make_table(columns), ["ID"])
    assert layout.format == "schaefer"
    assert list(layout.regions.values()) == [
        f"Schaefer{100 * times}x7_{name}_thickness" for name in names
    ]
    assert set(layout.measures.values()) == {"thickness"}
    for column, region in layout.regions.items():
        assert column in list_parcel_spellings(region)


def test_17_networks_and_one_side_are_told() -> None:
    names = [f"17Networks_RH_DefaultB_PFCv_{k}" for k in range(1, 91)]
    names += [f"17Networks_RH_VisCent_ExStr_{k}" for k in range(1, 11)]
    found = name_atlas_parcels(names)
    assert found is not None
    assert found.names[names[0]] == "Schaefer200x17_RH_DefaultB_PFCv_1"


def test_two_tables_of_aparcstats2table_make_a_cohort(tmp_path: Path) -> None:
    paths = []
    for side in ("LH", "RH"):
        names = [name for name in list_schaefer() if name.startswith(side)]
        hemisphere = side.lower()
        columns = [f"{hemisphere}_7Networks_{name}_thickness" for name in names]
        columns += [f"{hemisphere}_{WALL}_thickness"]
        table = make_table([*columns, f"{hemisphere}_MeanThickness_thickness"])
        table[f"{hemisphere}_{WALL}_thickness"] = 0.0
        table = table.rename(columns={"ID": f"{hemisphere}.Schaefer.thickness"})
        paths.append(tmp_path / f"{hemisphere}.tsv")
        table.to_csv(paths[-1], sep="\t", index=False)
    cohort = ri.read_cohort(paths, measure="thickness")
    assert set(cohort.regions) == {
        f"Schaefer100x7_{name}_thickness" for name in list_schaefer()
    }


def test_left_and_right_parcels_of_one_name_are_no_pair() -> None:
    assert pair_sides([f"Schaefer100x7_{name}" for name in list_schaefer()]) == []
    assert pair_sides(["L_V1_ROI", "R_V1_ROI"]) == [(0, 1)]


@pytest.mark.parametrize(
    "form",
    ["{h}h_{H}_{name}_ROI_thickness", "{H}_{name}_ROI", "{H}_{name}", "{side}_{name}"],
)
def test_glassers_parcels_are_told_by_their_names(form: str) -> None:
    names = GLASSER.split()
    columns = [
        form.format(h=side[0].lower(), H=side[0], side=side, name=name)
        for side in ("Left", "Right")
        for name in names
    ]
    columns += ["lh_???_thickness"]
    layout = detect_layout(make_table(columns), ["ID"])
    assert layout.format == "glasser"
    assert list(layout.regions.values()) == [
        f"{side}_{name}_ROI_thickness" for side in "LR" for name in names
    ]
    assert layout.aside == {"no tissue": ["lh_???_thickness"]}


def test_volumes_stay_volumes_and_structures_beside_parcels_are_kept() -> None:
    columns = [f"{side}_{name}_ROI" for side in "LR" for name in GLASSER.split()]
    table = make_table(columns, mean=2600.0)
    table["Left-Hippocampus"] = table["Right-Hippocampus"] = 4000.0
    table["eTIV"], table["age"] = 1.5e6, 60.0
    layout = detect_layout(table, ["ID"])
    assert layout.regions["Left-Hippocampus"] == "Left-Hippocampus"
    assert layout.regions["L_V1_ROI"] == "L_V1_ROI"
    assert set(layout.measures.values()) == {"volume"}
    assert layout.icv == "eTIV"
    assert layout.participant_columns == ("age",)


def test_desikan_names_are_not_glassers() -> None:
    names = ["insula", "precuneus", "cuneus", "lingual", "fusiform", "bankssts"] * 2
    columns = [f"{side}_{name}" for side in "LR" for name in dict.fromkeys(names)]
    assert detect_layout(make_table(columns), ["ID"]).format == "ggseg"


def test_models_with_the_names_of_the_table_still_find_their_regions() -> None:
    columns = [f"lh_7Networks_{name}_thickness" for name in list_schaefer()[:50]]
    layout = detect_layout(make_table(columns), ["ID"])
    findings = Findings(where="lh.tsv")
    selected = select_columns(layout, (), None, columns, findings)
    assert set(columns) <= set(selected.regions.values())
    assert not findings.problems


def test_a_header_alone_or_empty_columns_tell_no_measure() -> None:
    columns = [f"{side}_{name}_ROI" for side in "LR" for name in GLASSER.split()]
    for table in (make_table(columns).iloc[:0], make_table(columns, np.nan)):
        layout = detect_layout(table, ["ID"])
        assert set(layout.measures.values()) == {"volume"}


def test_the_columns_that_a_model_used_are_found_by_the_header() -> None:
    columns = [f"{side}_{name}_ROI" for side in "LR" for name in GLASSER.split()]
    layout = detect_layout(make_table(columns), ["ID"])
    inputs = ModelInputs(
        regions=tuple(layout.regions.values()), covariates=("age",), n_patterns=2
    )
    assert find_used_columns(["ID", "age", *columns], inputs).regions == tuple(columns)
