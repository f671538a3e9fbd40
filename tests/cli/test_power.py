"""The command power."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from rindices.cli.main import app


def test_json_has_one_row_per_size_and_wrong_sizes_exit_2() -> None:
    arguments = ["power", "--people", "80+100", "--rates", "0.3", "--patterns", "1", "--cohorts", "1", "--json"]
    done = CliRunner().invoke(app, [*arguments, "--workers", "1"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"][0]["controls"] == 80
    assert CliRunner().invoke(app, ["power", "--people", "80,100"]).exit_code == 2


def test_effects_are_given_in_d_of_the_users_table(tmp_path: Path) -> None:
    """10 % of a thickness is more than a standard deviation: the table says what it is in d."""
    rng = np.random.default_rng(0)
    regions = {f"lh_parcel{k}_thickness": 2.5 * np.exp(rng.normal(0, 0.04, 60)) for k in range(24)}
    pd.DataFrame({"participant_id": [f"s{k}" for k in range(60)], **regions}).to_csv(tmp_path / "t.csv", index=False)
    how = ["power", "--controls", str(tmp_path / "t.csv"), "--people", "40+50", "--patterns", "1", "--cohorts", "1"]
    done = CliRunner().invoke(app, [*how, "--effect-d", "0.5", "--rates", "0.1", "--workers", "1", "--json"])
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    in_d, as_share = value["rows"]
    assert (in_d["d"], in_d["rate"]) == (0.5, pytest.approx(0.04, rel=0.3))
    assert (as_share["d"], as_share["rate"]) == (pytest.approx(1.25, rel=0.3), 0.1)
    assert value["d_of_tenth"][1] == pytest.approx(as_share["d"])
    text = CliRunner().invoke(app, [*how, "--effect-d", "0.5", "--workers", "1"]).stdout
    assert "| 0.50 |" in text
    assert "In these people a loss of 10 % is d = " in text


def test_effects_are_in_d_by_default_and_wrong_ones_are_refused() -> None:
    assert CliRunner().invoke(app, ["power", "--effect-d", "big"]).exit_code == 2
    done = CliRunner().invoke(app, ["power", "--effect-d", "50"])
    assert "effects in d between 0 and 5" in str(done.exception)
