"""The command power."""

import json

from typer.testing import CliRunner

from rindices.cli.main import app


def test_json_has_one_row_per_size_and_wrong_sizes_exit_2() -> None:
    arguments = ["power", "--people", "80+100", "--rates", "0.3", "--patterns", "1", "--cohorts", "1", "--json"]
    done = CliRunner().invoke(app, [*arguments, "--workers", "1"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"][0]["controls"] == 80
    assert CliRunner().invoke(app, ["power", "--people", "80,100"]).exit_code == 2
