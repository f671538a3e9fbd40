"""The estimate of how long a study takes."""

import json
from pathlib import Path

from tests.study.helpers import run


def test_dry_run_trains_nothing(folder: Path) -> None:
    done = run(
        "fit", folder / "study.toml", "--out", folder / "dry", "--dry-run", "--json"
    )
    told = json.loads(done.stdout)
    assert (
        told["settings"],
        told["members"],
        told["member_sets"],
        told["finished"],
    ) == (2, 20, 4, 0)
    assert 0 < told["seconds_left"] < 600
    assert not (folder / "dry").exists()
    paper = run(
        "fit",
        folder / "study.toml",
        "--out",
        folder / "dry",
        "--dry-run",
        "--json",
        "--method",
        "surreal-gan-published",
    )
    assert (
        json.loads(paper.stdout)["seconds_left"] > 600
    )  # 100,000 steps and more take their time
