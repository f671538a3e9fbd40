"""Results replace older files atomically, and an --out that cannot be written gives one
line and an exit code.
"""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from rindices.cli.main import run
from rindices.experiments.simulate import write_cohort
from tests.analysis.helpers import make_visits
from tests.cohorts import simulate_few_regions

FILES = {
    "simulate": ["volumes.csv", "participants.tsv", "truth.tsv", "patterns.tsv"],
    "associate": ["associations.tsv", "associations.json"],
    "compare": ["subgroups.tsv", "regions.tsv"],
    "classify": ["classification.tsv", "summary.tsv"],
    "change": ["change.tsv", "change.json", "change.png"],
    "power": ["power.json", "power.md", "power.png"],
}


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return the arguments of each command on small tables, without --out."""
    folder = tmp_path_factory.mktemp("tables")
    simulated = simulate_few_regions("tiny", 0)
    cohort = replace(simulated.cohort, volumes=simulated.cohort.volumes.iloc[:, :8])
    write_cohort(replace(simulated, cohort=cohort), folder)
    cohort.people.assign(r1=cohort.volumes.iloc[:, 0] / 4e3).to_csv(
        folder / "r.tsv", sep="\t", index=False
    )
    make_visits(6, 3)[0].to_csv(folder / "visits.tsv", sep="\t", index=False)
    tables = [
        str(folder / "r.tsv"),
        str(folder / "volumes.csv"),
        "--participants",
        str(folder / "participants.tsv"),
    ]
    return {
        "simulate": ["simulate", "--task", "tiny"],
        "associate": [
            "associate",
            str(folder / "r.tsv"),
            str(folder / "participants.tsv"),
        ],
        "compare": ["compare", *tables],
        "classify": ["classify", *tables, "--repeats", "1", "--workers", "1"],
        "change": ["change", str(folder / "visits.tsv")],
        "power": [
            "power",
            "--people",
            "40+40",
            "--rates",
            "0.3",
            "--patterns",
            "1",
            "--cohorts",
            "1",
            "--workers",
            "1",
        ],
    }


def call(monkeypatch: pytest.MonkeyPatch, arguments: list[str], out: Path) -> int:
    """Run the program as a user would, and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["rindices", *arguments, "--out", str(out)])
    with pytest.raises(SystemExit) as ended:
        run()
    return int(ended.value.code or 0)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "kind", ["a file", "below a file", "file name taken by a folder"]
)
def test_unwritable_out_is_one_line(
    name: str,
    kind: str,
    commands: dict[str, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("")
    out = {"a file": tmp_path / "file", "below a file": tmp_path / "file" / "x"}.get(
        kind, tmp_path / "out"
    )
    if kind.startswith("file name"):
        (out / FILES[name][-1]).mkdir(parents=True)
    code = call(monkeypatch, commands[name], out)
    errors = [
        line
        for line in capsys.readouterr().err.splitlines()
        if line.startswith("error:")
    ]
    assert code == 1
    assert len(errors) == 1
    assert str(out) in errors[0]
    assert "--out" in errors[0]
    assert not [path for path in tmp_path.rglob("*") if ".part" in path.name]


@pytest.mark.parametrize("name", FILES)
def test_older_results_are_replaced_and_not_overwritten(
    name: str,
    commands: dict[str, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second name of an older file keeps the old content if the file is replaced by
    renaming.
    """
    out = tmp_path / "out"
    out.mkdir()
    for file in FILES[name]:
        (out / file).write_text("old")
        os.link(out / file, tmp_path / file)
    assert call(monkeypatch, commands[name], out) == 0
    for file in FILES[name]:
        assert (out / file).read_bytes() != b"old"
        assert (tmp_path / file).read_text() == "old", file


def test_a_failed_figure_leaves_the_older_one(
    commands: dict[str, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(self: object, target: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "change.png").write_text("old")
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fail)
    assert call(monkeypatch, commands["change"], tmp_path) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert (tmp_path / "change.png").read_text() == "old"
    assert pd.read_csv(tmp_path / "change.tsv", sep="\t").shape[0] == 6
