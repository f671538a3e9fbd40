"""Encoding, separator and decimal mark are detected from the first lines."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.conftest import muse_volumes
from tests.tables.helpers import (
    N,
    list_messages,
    make_people,
    make_table,
    validate_files,
    write_table,
)


def test_semicolons_with_decimal_commas(tmp_path: Path, volumes: pd.DataFrame) -> None:
    path = tmp_path / "german.csv"
    volumes.to_csv(path, sep=";", decimal=",", index=False)
    result = validate_files(path)
    assert result.cohort is not None
    np.testing.assert_allclose(result.cohort.volumes["MUSE_47"], volumes["47"])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_encodings_of_excel_are_detected(tmp_path: Path, encoding: str) -> None:
    frame = muse_volumes().assign(ID=[f"Zoë{k}" for k in range(40)])
    path = tmp_path / "v.csv"
    path.write_bytes(frame.to_csv(index=False).encode(encoding))
    result = validate_files(path)
    assert result.cohort is not None
    assert sorted(result.cohort.people["participant_id"]) == sorted(frame["ID"])


@pytest.mark.parametrize(("sep", "mark"), [(";", "{:,.1f}"), ("\t", "{:,.0f}"), (",", "{:,.1f}")])
def test_thousands_separators_are_refused(tmp_path: Path, sep: str, mark: str) -> None:
    frame = make_table()
    for name in frame.columns[1:]:
        frame[name] = [mark.format(value) for value in frame[name]]
        if sep == ";":  # European: 1.234,5
            frame[name] = frame[name].str.translate(str.maketrans(",.", ".,"))
    result = validate_files(write_table(frame, tmp_path / "v.csv", sep))
    assert "text where a number should be" in list_messages(result, "error")
    assert "thousands separators" in list_messages(result, "error")


def test_decimal_commas_that_begin_late_are_detected(tmp_path: Path) -> None:
    participants = make_people()
    participants["age"] = [str(60 + k) if k < 5 else f"{60 + k / 4:.2f}".replace(".", ",") for k in range(N)]
    paths = write_table(make_table(), tmp_path / "v.csv"), write_table(participants, tmp_path / "p.csv", ";")
    result = validate_files(*paths, covariates=["age"])
    assert result.kinds == {"age": "number"}
    assert result.cohort is not None
    assert result.cohort.covariates["age"].max() == pytest.approx(60 + 59 / 4)
