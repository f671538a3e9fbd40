"""The example in R applies a model by the command line and reads its results."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import rindices as ri
from tests.cohorts import simulate_few_regions

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "apply.R"


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
def test_the_example_runs(tmp_path: Path) -> None:
    cohort = simulate_few_regions("tiny", seed=0).cohort
    model = ri.fit(cohort, 1, method="contrastive", members=2, workers=1)
    model.save(tmp_path / "model.safetensors")
    table = pd.concat(
        [cohort.people[["participant_id"]], cohort.covariates, cohort.volumes], axis=1
    )
    table.loc[3, "age"] = 101.0
    table.to_csv(tmp_path / "people.csv", index=False)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [
        "Rscript",
        str(EXAMPLE),
        str(tmp_path / "model.safetensors"),
        str(tmp_path / "people.csv"),
    ]
    done = subprocess.run(
        command,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    novel = (
        model.assess(
            ri.read_cohort(tmp_path / "people.csv", covariates=["age", "sex", "icv"])
        )
        .table["outside_training_range"]
        .sum()
    )
    assert (
        f"{len(cohort)} people, {novel} of them unlike the training people"
        in done.stdout
    )
    assert novel >= 1
