"""NVIDIA FLARE as transport: its simulator gives the result of sites in memory."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rindices as ri
from rindices.federated.run import run_federated_study
from rindices.study.config import ModelConfig
from tests.federated.sites import make_transport, simulate_people, split_cohort

pytest.importorskip("nvflare", reason="the extra federated is not installed")
SETTINGS = {"recipe": "mean-difference", "members": 2}


def write_site(folder: Path, name: str) -> None:
    cohort = split_cohort(simulate_people(), 3)[f"site-{int(name[-1]) - 1}"]
    volumes = cohort.volumes.copy()
    volumes.insert(0, "participant_id", cohort.people["participant_id"])
    volumes.to_csv(folder / f"{name}.csv", index=False)
    pd.concat([cohort.people, cohort.covariates], axis=1).to_csv(folder / f"{name}.tsv", sep="\t", index=False)
    text = f'[data]\nvolumes = "{name}.csv"\nparticipants = "{name}.tsv"\ngroup = "group"\n'
    (folder / f"{name}.toml").write_text(text + 'covariates = ["age", "icv", "sex"]\n')


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_simulator_gives_the_result_of_memory(tmp_path: Path) -> None:
    from nvflare.job_config.api import FedJob

    from rindices.federated.nvflare import SiteExecutor, StudyController

    names = [f"site-{k}" for k in (1, 2, 3)]
    job = FedJob(name="study", min_clients=3)
    job.to_server(StudyController(str(tmp_path / "out"), 3, SETTINGS))
    for name in names:
        write_site(tmp_path, name)
        job.to(SiteExecutor(str(tmp_path / "{client}.toml")), name, tasks=["train"])
    job.simulator_run(str(tmp_path / "workspace"), threads=3)
    model = ri.load(tmp_path / "out" / "model.safetensors")
    expected = run_federated_study(make_transport(split_cohort(simulate_people(), 3)), ModelConfig(**SETTINGS)).model
    assert expected is not None
    np.testing.assert_allclose(model.patterns, expected.patterns, atol=1e-9)
