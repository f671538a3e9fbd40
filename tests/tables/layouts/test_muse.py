"""MUSE regions are recognised by code or label."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rindices.tables.layouts.muse import paper_codes, region_label, single_regions
from tests.tables.helpers import (
    validate_files,
    write_table,
)


def test_the_atlas_has_139_regions_and_six_ventricles() -> None:
    regions = single_regions()
    assert len(regions) == 145
    assert len(paper_codes()) == 139
    assert {code for code, region in regions.items() if region.is_ventricle} == {
        4,
        11,
        49,
        50,
        51,
        52,
    }
    # odd is not always left: the basal forebrain is the exception
    assert (regions[75].side, regions[76].side, regions[47].side) == (
        "left",
        "right",
        "right",
    )
    assert region_label("MUSE_47") == "Hippocampus_R"
    assert region_label("lh_insula_volume") == "lh_insula_volume"


@pytest.mark.parametrize(
    "prefix", ["", "DL_MUSE_Volume_", "MUSE_Volume_", "H_MUSE_Volume_", "muse_"]
)
def test_columns_are_recognised_by_their_code(
    tmp_path: Path, volumes: pd.DataFrame, prefix: str
) -> None:
    renamed = volumes.rename(columns={c: prefix + c for c in volumes.columns[1:]})
    result = validate_files(write_table(renamed, tmp_path / "v.csv"))
    assert (result.format, result.regions, result.icv) == (
        "dlmuse",
        139,
        prefix + "702",
    )
    assert result.cohort is not None
    np.testing.assert_allclose(result.cohort.volumes["MUSE_47"], volumes["47"])


def test_columns_are_recognised_by_their_label(
    tmp_path: Path, volumes: pd.DataFrame
) -> None:
    names = {str(code): region.label for code, region in single_regions().items()}
    result = validate_files(
        write_table(volumes.rename(columns=names), tmp_path / "v.csv")
    )
    assert (result.format, result.regions) == ("dlmuse", 139)


@pytest.mark.parametrize("style", ["ROI_{}", "X{}", "{}.0"])
def test_other_spellings_of_muse_codes(
    tmp_path: Path, volumes: pd.DataFrame, style: str
) -> None:
    renamed = volumes.rename(columns={c: style.format(c) for c in volumes.columns[1:]})
    result = validate_files(write_table(renamed, tmp_path / "v.csv"))
    assert (result.format, result.regions) == ("dlmuse", 139)
