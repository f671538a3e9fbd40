"""``rindices score``."""

import json
from pathlib import Path

from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from rindices.experiments.simulate import write_cohort
from tests.cohorts import simulate_few_regions


def test_score_compares_r_indices_with_the_truth(tmp_path: Path) -> None:
    simulated = simulate_few_regions("tiny", seed=1)
    write_cohort(simulated, tmp_path)
    ri.fit(simulated.cohort, 3, members=4, recipe="contrastive", workers=1, out=tmp_path / "out")
    arguments = ["score", str(tmp_path / "out" / "r_indices.tsv"), str(tmp_path / "truth.tsv"), "--json"]
    result = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert result["people"] == 100
    assert result["pattern_c_index"] > 0.8
