"""The paper's tasks: lambda is chosen by agreement, and a run goes on where it was stopped."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks.paper import full_length
from benchmarks.paper.common import TrainedTask
from rindices.learners.gan.recipe import Recipe, TrainingPlan


def test_a_run_of_the_paper_chooses_lambda_by_agreement_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full_length, "RESULTS", tmp_path)
    monkeypatch.setattr(full_length, "PATH", tmp_path / "rows.json")
    monkeypatch.setattr(full_length, "ORTHOGONALITY_WEIGHTS", (0.1, 0.8))
    options = ["--tasks", "scarce", "--members", "2", "--steps", "400", "--keep", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["full_length", *options])
    full_length.main()
    rows = json.loads((tmp_path / "rows.json").read_text("utf-8"))
    assert [row["orthogonality"] for row in rows] == [0.1, 0.8]
    assert [point["steps"] for row in rows for point in row["curve"][:1]] == [100] * 2
    (chosen,) = (row for row in rows if len(row["curve"]) > 1)
    assert chosen["curve"][0]["agreement"] == max(row["curve"][0]["agreement"] for row in rows)
    assert [point["steps"] for point in chosen["curve"]] == [100, 200, 300, 480]
    assert "| scarce | no | **" in (tmp_path / "full_length.md").read_text("utf-8")
    recipe = Recipe().replace(orthogonality=chosen["orthogonality"], min_steps=400, max_steps=480)
    whole = TrainedTask.begin("scarce", 0, False, TrainingPlan(3, recipe, 0, (0, 1))).train_until(300)
    assert whole["members"] == chosen["curve"][2]["members"]
    full_length.main()
    assert json.loads((tmp_path / "rows.json").read_text("utf-8")) == rows
