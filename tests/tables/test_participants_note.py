"""Participants and scans that the other table does not have are counted apart."""

from pathlib import Path

import pandas as pd
from typer.testing import CliRunner

from rindices.cli.main import app
from tests.conftest import muse_volumes, participants_of


def test_other_scans_are_not_counted_as_participants(tmp_path: Path) -> None:
    muse_volumes(20).assign(session="1").to_csv(tmp_path / "v.csv", index=False)
    people = participants_of(muse_volumes(22)).assign(session="1")
    later = people.iloc[:5].assign(session="2")
    pd.concat([people, later]).to_csv(tmp_path / "p.tsv", sep="\t", index=False)
    tables = [
        str(tmp_path / "v.csv"),
        "--participants",
        str(tmp_path / "p.tsv"),
        "--session",
        "session",
    ]
    done = CliRunner().invoke(app, ["check", *tables])
    assert (
        "2 participants and 5 other scans of participants are not in v.csv"
        in " ".join(done.output.split())
    )
