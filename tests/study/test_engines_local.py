"""The engine of one machine."""

from pathlib import Path

import numpy as np
import pytest

import rindices as ri
from rindices.engine.local import LocalEngine
from rindices.learners.prepared_people import PreparedPeople
from rindices.study.config import ModelConfig
from rindices.study.engines import run_plan
from rindices.study.store import RunStore
from rindices.study.study import make_plan
from tests.cohorts import simulate_few_regions
from tests.study.helpers import BRIEF, BRIEF_START, outputs, run


@pytest.mark.slow  # tests/study/test_run.py has two workers, too
def test_the_number_of_workers_changes_no_byte(folder: Path, undisturbed: Path) -> None:
    done = run("fit", folder / "study.toml", "--out", folder / "two", "--workers", 2)
    assert done.returncode == 0, done.stderr
    assert outputs(folder / "two") == outputs(undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
def test_worker_processes_change_no_byte_of_a_training(
    tmp_path: Path, workers: int
) -> None:
    cohort = simulate_few_regions("tiny", seed=1).cohort
    X = ri.Preprocessing.fit(cohort).transform(cohort)
    model = ModelConfig(
        method="surreal-gan",
        patterns=(2, 3),
        orthogonality=(0.2,),
        members=6,
        method_settings=BRIEF | BRIEF_START,
    )
    plan = make_plan(model, 0, cohort.fingerprint())
    written = []
    for number in (1, workers):
        store = RunStore(tmp_path / str(number))
        run_plan(
            plan,
            lambda _: [PreparedPeople(X=X, y=cohort.is_patient.astype(np.intp))],
            store,
            LocalEngine(number),
        )
        written.append(
            {
                path.name: path.read_bytes()
                for path in store.folder.glob("[!.]*.safetensors")
            }
        )
    assert len(written[0]) == 4
    assert written[0] == written[1]
