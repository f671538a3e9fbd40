"""Parcels are recognised under the names of ggseg, neuromaps and abagen."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rindices.tables.layout.desikan import PARCELS, name_parcels
from tests.tables.layout.helpers import LABELS, N, check_table, draw_values


@pytest.mark.parametrize(
    "column",
    ["lh_superiorfrontal", "superiorfrontal_L", "L_superiorfrontal", "left superior frontal", "lh.superiorfrontal"],
)
def test_each_spelling_of_a_parcel(column: str) -> None:
    assert name_parcels([column])[0] == {column: "lh_superiorfrontal"}


def test_structures_below_the_cortex_have_the_names_of_freesurfer() -> None:
    names, without_cortex = name_parcels(
        ["thalamusproper_L", "R_hippocampus", "lh_unknown", "rh_corpuscallosum", "l_x"]
    )
    assert names == {"thalamusproper_L": "Left-Thalamus", "R_hippocampus": "Right-Hippocampus"}
    assert without_cortex == ["lh_unknown", "rh_corpuscallosum"]


def make_parcels(style: str, measure: str = "volume") -> pd.DataFrame:
    rng = np.random.default_rng(0)
    sides = (("lh", "L"), ("rh", "R"))
    names = [style.format(p=p, lh=lh, L=letter) for lh, letter in sides for p in sorted(PARCELS)]
    columns = {name: draw_values(f"x_{measure}", rng) for name in names}
    return pd.DataFrame({"subject": [f"s{k}" for k in range(N)], "group": LABELS, **columns})


@pytest.mark.parametrize("style", ["{lh}_{p}", "{p}_{L}", "{L}_{p}"])
def test_tables_of_ggseg_and_neuromaps_are_read_at_the_first_try(tmp_path: Path, style: str) -> None:
    extra = {"Left-Hippocampus": np.linspace(3000, 4000, N), "Left-Lateral-Ventricle": np.linspace(9e3, 2e4, N)}
    frame = make_parcels(style).assign(lh_unknown=1.0, eTIV=np.linspace(1.4e6, 1.6e6, N), **extra)
    code, values, problems = check_table(frame, tmp_path, "--group", "group", "--covariates", "icv")
    assert code == 0, problems
    assert (values["format"], values["regions"], values["icv"]) == ("ggseg", 69, "eTIV")
    assert values["aside"] == {"no tissue": 1, "ventricle": 1}
    assert {"lh_insula", "rh_insula"} <= set(values["region_names"])  # type: ignore[call-overload]


def test_thickness_under_names_without_a_measure_is_refused_with_a_cure(tmp_path: Path) -> None:
    frame = make_parcels("{p}_{L}", "thickness")
    code, _, problems = check_table(frame, tmp_path, "--group", "group")
    assert code == 1
    assert "say --measure thickness" in problems
    assert check_table(frame, tmp_path, "--group", "group", "--measure", "thickness")[0] == 0
