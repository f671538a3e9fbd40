"""The command simulate writes cohorts from tables of healthy people."""

import json
from pathlib import Path

from click.testing import Result
from typer.testing import CliRunner

import rindices
from rindices.cli.main import app
from tests.conftest import muse_volumes, participants_of
from tests.study.helpers import run
from tests.tables.helpers import write_table


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_simulate_keeps_the_sites_of_the_table(tmp_path: Path, shared: Path) -> None:
    table = str(shared / "fcon1000/fcon1000.csv")
    done = invoke(
        "simulate",
        "--controls",
        table,
        "--site",
        "site",
        "--out",
        str(tmp_path),
        "--json",
    )
    value = json.loads(done.stdout)
    assert (value["people"], value["patterns"]) == (1076, 3)
    assert "site" in (tmp_path / "participants.tsv").read_text().splitlines()[0].split(
        "\t"
    )


def test_simulate_names_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("simulate", "--task", "tiny", "--out", tmp_path / "file" / "x")
    assert done.returncode == 1
    assert "cannot write to" in done.stderr
    assert "Traceback" not in done.stderr


def test_simulate_asks_who_is_healthy(tmp_path: Path) -> None:
    frame = participants_of(muse_volumes()).assign(
        diagnosis=["CN", "MCI", "AD", "CN"] * 10
    )
    table, participants = (
        write_table(muse_volumes(), tmp_path / "v.csv"),
        write_table(frame, tmp_path / "p.csv"),
    )
    arguments = [
        "simulate",
        "--controls",
        str(table),
        "--participants",
        str(participants),
        "--out",
        str(tmp_path / "s"),
    ]
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, rindices.RindicesError)
    assert "--label" in str(done.exception)
    done = CliRunner().invoke(
        app, [*arguments, "--group", "diagnosis", "--label", "CN", "--json"]
    )
    assert '"people": 20' in done.stdout
