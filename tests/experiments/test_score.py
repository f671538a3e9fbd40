"""R-indices are scored against the truth by id, and wrong tables are refused."""

from pathlib import Path

import pandas as pd
import pytest

from rindices.errors import InputError, TableError
from rindices.experiments.simulate import score_tables

TRUTH = pd.DataFrame(
    {
        "participant_id": list("abcd"),
        "s1": [0.1, 0.2, 0.3, 0.4],
        "s2": [0.4, 0.1, 0.3, 0.2],
    }
)
INDICES = pd.DataFrame(
    {"participant_id": list("dcbax"), "r1": [2, 3, 1, 4, 0], "r2": [4, 3, 2, 1, 9]}
)


def score(folder: Path, indices: pd.DataFrame, truth: pd.DataFrame = TRUTH) -> object:
    indices.to_csv(folder / "r.tsv", sep="\t", index=False)
    truth.to_csv(folder / "t.tsv", sep="\t", index=False)
    return score_tables(folder / "r.tsv", folder / "t.tsv")


def test_patterns_are_matched_and_people_joined_by_id(tmp_path: Path) -> None:
    result = score(tmp_path, INDICES)
    assert (result.pattern_c_index, result.people) == (1.0, 4)  # type: ignore[attr-defined]
    assert result.per_pattern == [("s1", "r2", 1.0), ("s2", "r1", 1.0)]  # type: ignore[attr-defined]


def test_wrong_tables_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"r\.tsv lacks 1 people of t\.tsv: a"):
        score(tmp_path, INDICES[INDICES["participant_id"] != "a"])
    with pytest.raises(TableError, match=r"more than once in r\.tsv: d"):
        score(tmp_path, pd.concat([INDICES, INDICES.iloc[:1]]))
    with pytest.raises(TableError, match=r"not numbers: correct them"):
        score(tmp_path, INDICES.assign(r1="x"))
    with pytest.raises(TableError, match=r"needs the columns participant_id and r1"):
        score(tmp_path, INDICES.rename(columns={"r1": "a", "r2": "b"}))


def test_visits_are_joined_by_session(tmp_path: Path) -> None:
    visits = pd.DataFrame(
        {
            "participant_id": list("aabb"),
            "session_id": ["ses-1", "ses-2"] * 2,
            "s1": [0.1, 0.2, 0.3, 0.4],
        }
    )
    indices = visits.rename(columns={"s1": "r1"}).iloc[
        [3, 1, 0]
    ]  # a visit without an R-index
    result = score(tmp_path, indices, visits)
    assert (result.pattern_c_index, result.people) == (1.0, 3)  # type: ignore[attr-defined]
    with pytest.raises(TableError, match=r"more than once in t\.tsv: a, b"):
        score(
            tmp_path,
            indices.drop(columns="session_id").drop_duplicates("participant_id"),
            visits,
        )
