"""Suites of cohorts with known truth that learners are measured on."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd

from rindices._typing import FloatArray, IntArray
from rindices.errors import SimulationError, did_you_mean
from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import PAPER_TASKS, STRESS_TASKS, TASKS, SimulationTask
from rindices.preprocess.pipeline import Preprocessing
from rindices.tables.cohort import SITE, Cohort
from rindices.tables.readers import read_cohort

SUITES = ("paper", "stress", "real")
_SMALLEST_SITE = 20  # of fcon1000: smaller sites may end up without a control to adjust by


@dataclass(frozen=True)
class BenchmarkCase:
    """One cohort as learners see it.

    Attributes
    ----------
    X : (N, R)
        Regions, adjusted and standardised to controls.
    y : (N,)
        0 control, 1 patient.
    truth : (patients, M)
        True severities, in the order of the patients in X.
    """

    X: FloatArray
    y: IntArray
    truth: FloatArray


CaseFactory = Callable[[int], BenchmarkCase]


def get_suite_tasks(suite: str, data: Path | None = None) -> dict[str, CaseFactory]:
    """Return the tasks of a suite by name; each makes the case of a seed.

    Parameters
    ----------
    suite : {'paper', 'stress', 'real'}
        The paper's five tasks; the ten that the paper never tried; patterns on real people.
    data : Path, optional
        Folder with the real tables (``ixi``, ``fcon1000``, ``upstream``), for ``real``.
    """
    if suite in {"paper", "stress"}:
        return {name: partial(_simulate_case, name) for name in (PAPER_TASKS if suite == "paper" else STRESS_TASKS)}
    if suite != "real":
        raise SimulationError(f"there is no suite '{suite}': {did_you_mean(suite, SUITES)}")
    folder = _check_data_folder(data)
    basic = TASKS["basic"]
    return {
        "fcon-30": partial(_simulate_on_fcon, folder, basic),
        "fcon-20": partial(_simulate_on_fcon, folder, replace(basic, rate=0.2)),
        "fcon-15": partial(_simulate_on_fcon, folder, replace(basic, rate=0.15)),
        "ixi-basic": partial(_simulate_on_ixi, folder, basic),
        "ixi-mild": partial(_simulate_on_ixi, folder, TASKS["mild"]),
        "upstream": partial(_read_upstream_case, folder),
    }


def _check_data_folder(data: Path | None) -> Path:
    if data is None or not data.is_dir():
        raise SimulationError(f"the suite real needs real tables, and {data or 'no folder'} is not there: give --data.")
    return data


def _make_case(cohort: Cohort, truth: FloatArray) -> BenchmarkCase:
    return BenchmarkCase(Preprocessing.fit(cohort).transform(cohort), cohort.is_patient.astype(np.intp), truth)


def _simulate_case(task: str, seed: int) -> BenchmarkCase:
    """As in the paper, without adjustment: normal variation with age, sex and head size stays in."""
    made = simulate_cohort(task, seed)
    return _make_case(replace(made.cohort, covariates=made.cohort.covariates.iloc[:, :0]), made.truth)


@cache
def _read_fcon(folder: Path) -> Cohort:
    cohort = read_cohort(
        folder / "fcon1000" / "fcon1000.csv", covariates=["age", "sex", "icv"], site="site", on_missing="drop"
    )
    sites = cohort.people[SITE]
    kept = cohort.take((sites.map(sites.value_counts()) >= _SMALLEST_SITE).to_numpy())
    return replace(kept, covariates=kept.covariates.assign(site=kept.people[SITE]))


@cache
def _read_ixi(folder: Path) -> Cohort:
    ixi = folder / "ixi"
    return read_cohort(ixi / "volumes.csv", ixi / "demographics.csv", covariates=["Age", "Sex", "icv"])


def _simulate_on_fcon(folder: Path, task: SimulationTask, seed: int) -> BenchmarkCase:
    made = simulate_cohort(task, seed, healthy=_read_fcon(folder))
    return _make_case(made.cohort, made.truth)


def _simulate_on_ixi(folder: Path, task: SimulationTask, seed: int) -> BenchmarkCase:
    made = simulate_cohort(task, seed, healthy=_read_ixi(folder))
    return _make_case(made.cohort, made.truth)


def _read_upstream_case(folder: Path, seed: int) -> BenchmarkCase:
    """Upstream's own sample, always the same people; the seed reaches only the learner and the folds."""
    cohort = read_cohort(folder / "upstream" / "sample_roi.csv", group="diagnosis")
    truth = pd.read_csv(folder / "upstream" / "sample_truth.csv", index_col=0)
    patients = cohort.people.loc[cohort.is_patient, "participant_id"]
    return _make_case(cohort, truth.loc[patients].to_numpy(dtype=float))
