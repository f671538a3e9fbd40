"""Labels of Neuromorphometrics (SPM12, CAT12, Medical Informatics Platform) and of DKT
by ANTs.
"""

import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rindices.plot.brain import match_atlas
from rindices.tables.layouts.atlas_labels import name_labels
from rindices.tables.layouts.muse import find_muse_region
from rindices.tables.layouts.region_names import format_region_name
from tests.tables.layouts.helpers import LABELS, N, check_table

OPTIONS = ["--group", "group", "--covariates", "age,icv"]
EXPECTED = {
    "spm": ("neuromorphometrics", 126),
    "mip": ("neuromorphometrics", 126),
    "cat12": ("cat12", 122),
}
EXPECTED |= {"openbhb": ("cat12", 122), "ants": ("ants", 90)}


def list_labels(program: str) -> list[str]:
    """Return all labels of a program, as it writes them."""
    rows = (
        (files("rindices.tables") / "data" / "atlas_labels.csv")
        .read_text("utf-8")
        .splitlines()[1:]
    )
    sides = (
        ("l", "r")
        if program == "cat12"
        else ("left", "right")
        if program == "ants"
        else ("Left", "Right")
    )
    labels = [row.split(",")[1] for row in rows if row.split(",")[0] == program]
    return [
        label.replace("*", side)
        for label in labels
        for side in (sides if "*" in label else sides[:1])
    ]


def make_table(style: str) -> pd.DataFrame:
    """Return a made-up table; volumes of Neuromorphometrics are about those of adults,
    in millilitres or mm3.
    """
    labels = list_labels({"mip": "spm", "openbhb": "cat12"}.get(style, style))
    rng = np.random.default_rng(0)
    unit = 1.0 if style in ("spm", "ants") else 1e-3
    columns: dict[str, object] = {}
    for label in labels:
        name = next(iter(name_labels([label, *labels])[1].get(label, "").split("+")))
        region = find_muse_region(name)
        values = (
            unit
            * (region.typical_mm3 if region else 3000.0)
            * rng.lognormal(0.0, 0.1, N)
        )
        if style == "mip":
            columns[re.sub(r"[^a-z0-9]", "", label.lower())] = values
        elif style == "openbhb":
            columns |= {f"{label}_GM_Vol": values, f"{label}_CSF_Vol": 0.3 * values}
        else:
            columns[label] = values
    people = {
        "participant_id": [f"s{k}" for k in range(N)],
        "group": LABELS,
        "age": np.linspace(50, 80, N),
    }
    return pd.DataFrame(
        {**people, "TIV": unit * np.linspace(1.4e6, 1.6e6, N), **columns}
    )


@pytest.mark.parametrize("style", list(EXPECTED))
def test_a_table_is_read_at_the_first_try_and_can_be_drawn(
    style: str, tmp_path: Path
) -> None:
    code, values, problems = check_table(make_table(style), tmp_path, *OPTIONS)
    assert code == 0, problems
    assert (values["format"], values["regions"]) == EXPECTED[style]
    assert (values["icv"], values["unit"]) == (
        "TIV",
        "mm3" if style in ("spm", "ants") else "ml",
    )
    match = match_atlas(tuple(values["region_names"]))  # type: ignore[arg-type]
    assert match.atlas is not None
    assert len(match.undrawn_regions) <= 6
    names = [format_region_name(region) for region in values["region_names"]]  # type: ignore[attr-defined]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("column", "region", "name"),
    [
        (
            "Left ACgG anterior cingulate gyrus",
            "NMM_AnteriorCingulateGyrus_L",
            "anterior cingulate gyrus, left",
        ),
        ("righthippocampus", "NMM_Hippocampus_R", "hippocampus, right"),
        ("rThaPro_GM_Vol", "CAT12_ThalamusProper_R", "thalamus proper, right"),
        ("lInfFroAngGy", "CAT12_TriangularPartInferiorFrontalGyrus_L", None),
        (
            "thickness.left.caudal.anterior.cingulate",
            "ANTs_lh_caudalanteriorcingulate_thickness",
            None,
        ),
        ("left thalamus proper", "ANTs_Left-Thalamus", "thalamus, left"),
    ],
)
def test_names(column: str, region: str, name: str | None) -> None:
    program = {"N": "spm", "C": "cat12", "A": "ants"}[region[0]]
    assert name_labels([column, *list_labels(program)])[1][column] == region
    assert format_region_name(region) == (name or format_region_name(region))
    assert ", left" in format_region_name(region) or ", right" in format_region_name(
        region
    )


def test_volumes_are_used_before_thickness_unless_thickness_is_requested(
    tmp_path: Path,
) -> None:
    table = make_table("ants")
    cortex = [
        label
        for label in list_labels("ants")
        if label in table and "ventricle" not in label
    ][:62]
    both = table.rename(
        columns={label: f"volume.{label.replace(' ', '.')}" for label in cortex}
    )
    both = both.assign(
        **{
            f"thickness.{label.replace(' ', '.')}": np.linspace(2, 3, N)
            for label in cortex
        }
    )
    _, values, _ = check_table(both, tmp_path, *OPTIONS)
    assert (values["regions"], values["aside"]["thickness"]) == (90, 62)  # type: ignore[index]
    _, values, _ = check_table(both, tmp_path, *OPTIONS, "--measure", "thickness")
    assert (values["regions"], values["unit"]) == (62, "mm")
    _, values, _ = check_table(table, tmp_path, *OPTIONS, "--include", "ventricles")
    assert "Left-Lateral-Ventricle" in values["region_names"]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("style", "factor"),
    [("spm", 100.0), ("mip", 30.0), ("cat12", 30.0), ("openbhb", 30.0)],
)
def test_another_unit_is_refused(style: str, factor: float, tmp_path: Path) -> None:
    table = make_table(style)
    volumes = table.columns[4:]
    code, _, problems = check_table(
        table.assign(**factor * table[volumes]), tmp_path, *OPTIONS
    )
    assert code == 1
    assert "times the usual adult volume" in problems


def test_thickness_of_ants_without_its_measure_is_refused(tmp_path: Path) -> None:
    cortex = list_labels("ants")[:62]
    table = pd.DataFrame(
        {label: np.linspace(2.2, 2.8, N) + 0.01 * k for k, label in enumerate(cortex)}
    )
    table.insert(0, "participant_id", [f"s{k}" for k in range(N)])
    code, _, problems = check_table(
        table.assign(group=LABELS), tmp_path, "--group", "group"
    )
    assert code == 1
    assert "say --measure thickness" in problems


def test_other_programs_are_not_taken_for_these() -> None:
    synthseg = [
        "left hippocampus",
        "left cerebral white matter",
        "left thalamus",
        "ctx-lh-cuneus",
        "csf",
    ]
    assert name_labels(synthseg)[0] == ""
    assert (
        name_labels(
            [
                f"left_{name}"
                for name in ("cuneus", "insula", "lingual", "precuneus", "fusiform")
            ]
        )[0]
        == ""
    )
