"""An intracranial volume below what it holds is noticed."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.conftest import muse_volumes
from tests.tables.helpers import STRUCTURES, list_messages, make_table, validate_files, write_table


def make_aseg(supratentorial: float = 1.0e6, icv: float = 1.5e6) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(5000, 500, 30) for name in STRUCTURES}
    sums = {"SupraTentorialVol": supratentorial, "EstimatedTotalIntraCranialVol": icv}
    return pd.DataFrame({"Measure:volume": [f"sub-{k:02d}" for k in range(30)], **columns, **sums})


def test_people_below_their_supratentorial_volume_are_counted(tmp_path: Path) -> None:
    table = make_aseg()
    table.loc[[3, 7], "EstimatedTotalIntraCranialVol"] = 0.9e6
    path = write_table(table, tmp_path / "a.txt", "\t")
    errors = list_messages(validate_files(path), "error")  # a head size that nobody named is not used then
    assert "--covariates SupraTentorialVol, --covariates none or --covariates icv" in errors
    warnings = list_messages(validate_files(path, covariates=["icv"]), "warning")
    assert "2 of 30 people have an ICV below SupraTentorialVol: sub-03, sub-07." in warnings
    assert "--covariates SupraTentorialVol" in warnings


def test_the_sum_of_regions_is_a_part_of_the_head(tmp_path: Path) -> None:
    volumes = muse_volumes()
    volumes.loc[4, "702"] /= 4
    warnings = list_messages(validate_files(write_table(volumes, tmp_path / "v.csv")), "warning")
    assert "1 of 40 people have an ICV below the sum of their regions: sub-004. Look at" in warnings


def test_the_unit_is_doubted_where_it_concerns_everyone(tmp_path: Path) -> None:
    table = make_aseg(icv=1_500.0)
    assert "30 of 30 people" in (text := list_messages(validate_files(write_table(table, tmp_path / "a.txt", "\t"))))
    assert "Check its unit" in text


@pytest.mark.parametrize("covariates", [(), ("icv",)])
def test_good_tables_have_no_such_warning(tmp_path: Path, covariates: tuple[str, ...]) -> None:
    overlapping = make_table(icv=[1e4] * 60)
    for table in (make_aseg(), muse_volumes(), overlapping):
        result = validate_files(write_table(table, tmp_path / "v.csv"), covariates=covariates)
        assert "ICV below" not in list_messages(result)
