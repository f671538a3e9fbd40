"""R-indices are read, and joined with other variables of the same people."""

from pathlib import Path

import pandas as pd

from rindices.errors import Findings, ProblemCode, Severity
from rindices.tables.indices import read_indices, read_indices_with_variables
from rindices.tables.table import ColumnRoles
from tests.tables.helpers import write_table

INDICES = pd.DataFrame({"participant_id": ["sub-01", "sub-02"], "r1": [0.1, 0.2]})


def test_ids_come_first_with_their_usual_name(tmp_path: Path) -> None:
    path = write_table(INDICES.rename(columns={"participant_id": "subject"})[["r1", "subject"]], tmp_path / "r.csv")
    pd.testing.assert_frame_equal(read_indices(path, Findings()), INDICES)


def test_variables_are_joined_in_the_order_of_the_indices(tmp_path: Path) -> None:
    clinical = pd.DataFrame({"code": [2, 1], "mmse": ["30", "severe"], "apoe": ["e3", "e4"]})
    paths = write_table(INDICES, tmp_path / "r.csv"), write_table(clinical, tmp_path / "c.csv")
    findings = Findings()
    indices, variables = read_indices_with_variables(*paths, ColumnRoles(id="code"), findings)
    assert indices["participant_id"].tolist() == variables["participant_id"].tolist() == ["sub-01", "sub-02"]
    assert list(variables) == ["participant_id", "mmse", "apoe"]
    assert variables["mmse"].isna().tolist() == [True, False]
    problem = next(problem for problem in findings if problem.code is ProblemCode.NOT_A_NUMBER)
    assert (problem.severity, problem.offenders) == (Severity.WARNING, ("sub-01",))
