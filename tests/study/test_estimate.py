"""The estimate of how long a study takes."""

import json
import subprocess
import sys
from pathlib import Path

from tests.study.helpers import run


def test_dry_run_trains_nothing(folder: Path) -> None:
    done = run("fit", folder / "study.toml", "--out", folder / "dry", "--dry-run", "--json")
    told = json.loads(done.stdout)
    assert (told["settings"], told["members"], told["member_sets"], told["finished"]) == (2, 20, 4, 0)
    assert 0 < told["seconds_left"] < 600
    assert not (folder / "dry").exists()
    paper = run("fit", folder / "study.toml", "--out", folder / "dry", "--dry-run", "--json", "--recipe", "paper")
    assert json.loads(paper.stdout)["seconds_left"] > 600  # 100,000 steps and more take their time


def test_the_dry_run_of_the_default_recipe_imports_no_torch(folder: Path) -> None:
    """Training a member to time it took 80 s, importing torch takes seconds."""
    arguments = ["fit", str(folder / "study.toml"), "--out", str(folder / "dry"), "--dry-run", "--recipe", "default"]
    code = f"""
import sys
from typer.testing import CliRunner
from rindices.cli.main import app
assert CliRunner().invoke(app, {arguments!r}).exit_code == 0
sys.exit("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
