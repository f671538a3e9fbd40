"""Suites of the benchmark: cohorts with known severities."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.suites.paper import PAPER_TASKS
from rindices._typing import FloatArray, IntArray
from rindices.errors import SimulationError, did_you_mean
from rindices.experiments.reference import list_features
from rindices.experiments.simulate import SimulatedCohort, simulate_cohort
from rindices.experiments.tasks import TASKS, SimulationTask
from rindices.preprocess.pipeline import Preprocessing
from rindices.tables.cohort import SITE, Cohort
from rindices.tables.readers import read_cohort

SUITES = ("paper", "stress", "real")
STRESS_TASKS = tuple(name for name in TASKS if name not in (*PAPER_TASKS, "null"))
# people per site of fcon1000; smaller sites may be left without a control to adjust by
_MIN_SITE_SIZE = 20


@dataclass(frozen=True)
class BenchmarkCase:
    """One cohort: standardised regions X (N, R), y (N,) with 1 for patients, true
    severities (patients, M).
    """

    X: FloatArray
    y: IntArray
    truth: FloatArray


CaseFactory = Callable[[int], BenchmarkCase]


def get_suite_tasks(
    suite: str, data: Path | None = None, adjusted: bool = False
) -> dict[str, CaseFactory]:
    """Return the tasks of a suite by name; each is a function from a seed to a case.

    Parameters
    ----------
    suite : {'paper', 'stress', 'real'}
        The five tasks of the paper; thirteen further tasks; simulated patterns in real
        people.
    data : Path, optional
        Folder with the real tables (``ixi``, ``fcon1000``, ``upstream``), for ``real``.
    adjusted : bool
        Whether simulated cohorts are adjusted for age, sex and head size, as users do.
        Otherwise they are standardised only, as in the paper. Real people are always
        adjusted.
    """
    if suite in {"paper", "stress"}:
        tasks = PAPER_TASKS if suite == "paper" else STRESS_TASKS
        return {name: partial(_simulate_case, name, adjusted) for name in tasks}
    if suite != "real":
        raise SimulationError(
            f"there is no suite '{suite}': {did_you_mean(suite, SUITES)}"
        )
    folder = _check_data_folder(data)
    basic = TASKS["basic"]
    return {
        "fcon-30": partial(_simulate_on_table, _read_fcon, folder, basic),
        "fcon-20": partial(
            _simulate_on_table, _read_fcon, folder, replace(basic, rate=0.2)
        ),
        "fcon-15": partial(
            _simulate_on_table, _read_fcon, folder, replace(basic, rate=0.15)
        ),
        "ixi-basic": partial(_simulate_on_table, _read_ixi, folder, basic),
        "ixi-mild": partial(_simulate_on_table, _read_ixi, folder, TASKS["mild"]),
        "upstream": partial(_read_upstream_case, folder),
    }


def _check_data_folder(data: Path | None) -> Path:
    if data is None or not data.is_dir():
        raise SimulationError(
            f"the suite real needs real tables, and {data or 'no folder'} does not exist: "
            "python -m benchmarks suite --suite real --data FOLDER"
        )
    return data


def _make_case(
    cohort: Cohort, truth: FloatArray, adjust: str | None = None
) -> BenchmarkCase:
    X = Preprocessing.fit(cohort, adjust=adjust).transform(cohort)
    return BenchmarkCase(X, cohort.is_patient.astype(np.intp), truth)


def simulate_transformed(task: str, seed: int) -> SimulatedCohort:
    """Return a simulated cohort; in the task ``organs``, skewed features are
    logarithms, as a user would take them.
    """
    simulated = simulate_cohort(task, seed)
    if not TASKS[task].organs:
        return simulated
    volumes = simulated.cohort.volumes.copy()
    skewed = [feature.name for feature in list_features() if feature.is_skewed]
    volumes[skewed] = np.log(volumes[skewed])
    return replace(simulated, cohort=replace(simulated.cohort, volumes=volumes))


def _simulate_case(task: str, adjusted: bool, seed: int) -> BenchmarkCase:
    simulated = simulate_transformed(task, seed)
    return _make_case(simulated.cohort, simulated.truth, None if adjusted else "none")


@cache
def _read_fcon(folder: Path) -> Cohort:
    cohort = read_cohort(
        folder / "fcon1000" / "fcon1000.csv",
        covariates=["age", "sex", "icv"],
        site="site",
        on_missing="drop",
    )
    sites = cohort.people[SITE]
    cohort = cohort.take((sites.map(sites.value_counts()) >= _MIN_SITE_SIZE).to_numpy())
    return replace(
        cohort, covariates=cohort.covariates.assign(site=cohort.people[SITE])
    )


@cache
def _read_ixi(folder: Path) -> Cohort:
    ixi = folder / "ixi"
    return read_cohort(
        ixi / "volumes.csv", ixi / "demographics.csv", covariates=["Age", "Sex", "icv"]
    )


def _simulate_on_table(
    read: Callable[[Path], Cohort], folder: Path, task: SimulationTask, seed: int
) -> BenchmarkCase:
    simulated = simulate_cohort(task, seed, healthy=read(folder))
    return _make_case(simulated.cohort, simulated.truth)


def _read_upstream_case(folder: Path, seed: int) -> BenchmarkCase:
    """Read the sample of the original implementation; the seed changes only the learner
    and the folds.
    """
    cohort = read_cohort(folder / "upstream" / "sample_roi.csv", group="diagnosis")
    truth = pd.read_csv(folder / "upstream" / "sample_truth.csv", index_col=0)
    patients = cohort.people.loc[cohort.is_patient, "participant_id"]
    return _make_case(cohort, truth.loc[patients].to_numpy(dtype=float))
