"""The command fit prints the agreement of members."""

import re
from pathlib import Path

from click.testing import Result
from typer.testing import CliRunner

from rindices.cli.main import app


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_fit_with_two_members_has_an_agreement_without_interval(tmp_path: Path) -> None:
    assert invoke("simulate", "--task", "tiny", "--out", str(tmp_path)).exit_code == 0
    tables = [str(tmp_path / "volumes.csv"), "--participants", str(tmp_path / "participants.tsv"), "--group", "group"]
    how = ["--patterns", "3", "--members", "2", "--recipe", "contrastive", "--workers", "1"]
    done = invoke("fit", *tables, *how, "--out", str(tmp_path / "out"))
    assert done.exit_code == 0
    agreement = next(line for line in done.stdout.splitlines() if line.startswith("agreement"))
    assert re.fullmatch(r"agreement +0\.\d{3}, disjoint halves", agreement)
