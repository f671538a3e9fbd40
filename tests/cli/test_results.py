"""Results of statistics are written with their data dictionary and printed."""

import json
from pathlib import Path

import pandas as pd
import pytest

from rindices.cli.results import raise_errors, read_images, write_results
from rindices.errors import Findings, ProblemCode, TableError

TABLE = pd.DataFrame({"index": ["r1"], "effect": [0.5]})
DESCRIPTIONS = {"index": "The R-index.", "effect": "The effect."}


def test_errors_are_raised_and_other_problems_printed(capsys: pytest.CaptureFixture[str]) -> None:
    findings = Findings()
    findings.note(ProblemCode.UNIT_UNKNOWN, "the unit is unknown")
    raise_errors(findings)
    assert "note: the unit is unknown." in capsys.readouterr().err
    findings.error(ProblemCode.FILE_EMPTY, "the file is empty")
    with pytest.raises(TableError, match="the file is empty"):
        raise_errors(findings)


@pytest.mark.parametrize("as_json", [True, False])
def test_a_table_is_written_and_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    write_results(TABLE, tmp_path / "t.tsv", DESCRIPTIONS, {"seed": 1}, as_json, "one effect")
    assert (tmp_path / "t.tsv").read_text() == "index\teffect\nr1\t0.5\n"
    assert (tmp_path / "t.json").is_file()
    output = capsys.readouterr().out
    if as_json:
        expected = {"out": str(tmp_path / "t.tsv"), "seed": 1, "results": [{"index": "r1", "effect": 0.5}]}
        assert json.loads(output) == expected
    else:
        assert output == "one effect\n"


def test_paths_of_images_are_relative_to_their_table(tmp_path: Path) -> None:
    images = pd.DataFrame({"participant_id": ["a", "b"], "path": ["a.nii", None]})
    images.to_csv(tmp_path / "images.csv", index=False)
    people = pd.DataFrame({"participant_id": ["a", "b"]})
    read = read_images(people, tmp_path / "images.csv", "path")
    assert read["image"].fillna("missing").tolist() == [str(tmp_path / "a.nii"), "missing"]
    with pytest.raises(TableError, match="did you mean 'path'"):
        read_images(people, tmp_path / "images.csv", "paths")
