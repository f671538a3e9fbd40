"""The command ``python -m benchmarks suite``."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from rindices.cli.main import run_program

ARGUMENTS = "suite --suite stress --tasks tiny --learners nmf --cohorts 2 --folds 0 --workers 1 --json --out"


def test_json_has_the_documented_keys_and_files_are_written(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, [*ARGUMENTS.split(), str(tmp_path)])
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    assert set(value) == {"results", "summary"}
    expected = {
        "task",
        "learner",
        "cohort_seed",
        "pattern_c_index",
        "per_pattern",
        "agreement",
        "seconds",
    }
    assert expected <= set(value["results"][0])
    assert {"task", "learner", "mean", "se", "n"} <= set(value["summary"][0])
    assert json.loads((tmp_path / "results.json").read_text()) == value
    assert {path.name for path in tmp_path.iterdir()} == {
        "results.json",
        "table.md",
        "figure.png",
        "runs",
    }


@pytest.mark.parametrize(
    ("kind", "code"),
    [("a file", 2), ("below a file", 1), ("file name taken by a folder", 1)],
)
def test_unwritable_out_is_one_line(
    kind: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("")
    out = {"a file": tmp_path / "file", "below a file": tmp_path / "file" / "x"}.get(
        kind, tmp_path / "out"
    )
    (tmp_path / "out" / "figure.png").mkdir(parents=True)
    monkeypatch.setattr("sys.argv", ["benchmarks", *ARGUMENTS.split(), str(out)])
    with pytest.raises(SystemExit) as ended:
        run_program(app)
    assert ended.value.code == code
    if code == 1:
        (error,) = (
            line
            for line in capsys.readouterr().err.splitlines()
            if line.startswith("error:")
        )
        assert str(out) in error
        assert "--out" in error
