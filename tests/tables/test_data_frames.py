"""Data frames of other libraries are read as those of pandas."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rindices as ri
from rindices.errors import TableError
from tests.cohorts import simulate_few_regions

OPTIONS: dict[str, Any] = {"group": "group", "controls": "control"}
OPTIONS |= {"patients": "patient", "covariates": ["age", "sex", "icv"]}


def make_tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Volumes, of which some are missing, and participants with a number that is
    missing, text and a category.
    """
    cohort = simulate_few_regions("tiny", seed=2).cohort
    ids = cohort.people["participant_id"]
    volumes = pd.concat([ids, cohort.volumes], axis=1)
    volumes.iloc[3, 4] = np.nan
    people = pd.concat([cohort.people[["participant_id", "group"]]], axis=1)
    people = pd.concat([people, cohort.covariates], axis=1)
    people["group"] = people["group"].astype("category")
    return volumes, people.iloc[::-1].reset_index(drop=True)


def to_pyarrow(frame: pd.DataFrame) -> Any:
    return pytest.importorskip("pyarrow").Table.from_pandas(frame)


def to_polars(frame: pd.DataFrame) -> Any:
    polars = pytest.importorskip("polars")
    columns = {name: frame[name].to_numpy() for name in frame}
    table = polars.DataFrame({k: v.tolist() for k, v in columns.items()}, strict=False)
    return (
        table.with_columns(table["group"].cast(polars.Categorical))
        if ("group" in table.columns)
        else table.with_columns(polars.selectors.float().fill_nan(None))
    )


@pytest.mark.parametrize("convert", [to_pyarrow, to_polars])
def test_frames_of_other_libraries_give_the_same_cohort(
    convert: Callable[[pd.DataFrame], Any],
) -> None:
    volumes, people = make_tables()
    expected = ri.read_cohort(volumes, people, **OPTIONS)
    cohort = ri.read_cohort(convert(volumes), convert(people), **OPTIONS)
    pd.testing.assert_frame_equal(cohort.volumes, expected.volumes)
    pd.testing.assert_frame_equal(
        cohort.covariates, expected.covariates, check_dtype=False
    )
    assert cohort.people["group"].tolist() == expected.people["group"].tolist()
    assert cohort.people["participant_id"].tolist() == (
        expected.people["participant_id"].tolist()
    )
    both = ri.read_cohort([convert(volumes)], people, **OPTIONS)
    pd.testing.assert_frame_equal(both.volumes, expected.volumes)


def test_a_lazy_frame_is_refused_with_what_to_write() -> None:
    polars = pytest.importorskip("polars")
    with pytest.raises(TableError, match=r"Give volumes\.collect\(\)"):
        ri.read_cohort(polars.LazyFrame({"id": ["a"]}))
