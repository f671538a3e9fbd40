"""Missing covariates stop a study, unless the user asks to impute them."""

from pathlib import Path

import numpy as np
import pytest

from rindices.errors import ProblemCode, Severity
from tests.tables.helpers import (
    N,
    list_messages,
    make_people,
    make_table,
    validate_files,
    write_table,
)

OPTIONS = {"group": "diagnosis", "covariates": ["age", "sex"]}


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    """Two people without age, one without sex, and one whom the participants lack."""
    participants = make_people()
    participants.loc[[3, 8], "age"] = np.nan
    participants.loc[8, "sex"] = None
    participants = participants.drop(index=12)
    return write_table(make_table(), tmp_path / "v.csv"), write_table(
        participants, tmp_path / "p.csv"
    )


def test_the_error_names_people_and_the_option(paths: tuple[Path, Path]) -> None:
    errors = list_messages(
        validate_files(*paths, **OPTIONS, on_missing="model"), "error"
    )
    assert "2 people have no age" in errors
    assert "1 person has no sex" in errors
    assert "or impute them (--impute-covariates)" in errors


def test_imputed_people_stay_and_are_named(paths: tuple[Path, Path]) -> None:
    result = validate_files(
        *paths, **OPTIONS, on_missing="drop", impute_covariates=True
    )
    assert result.ok, list_messages(result)
    assert result.cohort is not None
    assert (
        len(result.cohort) == N - 1
    )  # a person without a row among the participants is not imputed
    assert result.cohort.covariates.isna().sum().to_dict() == {"age": 2, "sex": 1}
    named = [
        problem for problem in result.problems if problem.severity is Severity.WARNING
    ]
    assert [
        (problem.code, problem.subject, len(problem.offenders)) for problem in named
    ] == [
        (ProblemCode.MISSING_VALUES, "age", 2),
        (ProblemCode.MISSING_VALUES, "sex", 1),
    ]
    ids = make_people()["participant_id"]
    assert named[0].offenders == (ids[3], ids[8])
    assert str(named[0]).endswith("; it is imputed from controls.")
