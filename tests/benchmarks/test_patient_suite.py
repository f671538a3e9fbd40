"""The suite patients, on a small simulated table and, where they are at hand, on real
ones.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from benchmarks.suites import patient_suite
from benchmarks.suites.patient_methods import METHODS
from benchmarks.suites.patient_suite import (
    COSTS,
    PatientTrial,
    format_markdown,
    list_patient_trials,
)
from benchmarks.suites.patients import PatientTable
from rindices.errors import InputError
from rindices.learners.prepared_people import PreparedPeople
from rindices.model.normal_reference import NormalReference
from rindices.preprocess.pipeline import Preprocessing
from tests.cohorts import simulate_few_regions

RIVALS = [name for name, fit in METHODS.items() if isinstance(fit, partial)]
DATA = Path(__file__).parents[3] / "shared" / "data" / "patients"


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A table of simulated patients with a second visit and a clinical score, and one
    without any difference.
    """
    simulated = simulate_few_regions("tiny", seed=0)
    cohort = simulated.cohort
    clinical = np.full(len(cohort), np.nan)
    clinical[cohort.is_patient] = simulated.truth.sum(axis=1)
    reference = NormalReference.fit(simulate_few_regions("null", seed=5).cohort)
    everything = PatientTable(cohort, cohort, clinical, "sum of severities", reference)
    null = PatientTable(
        simulate_few_regions("null", seed=1).cohort.take(np.arange(200))
    )
    for name in RIVALS:  # each is tested below
        monkeypatch.delitem(METHODS, name)
    tables = {"ill": lambda: everything, "null": lambda: null}
    monkeypatch.setattr(patient_suite, "list_patient_tables", lambda data: tables)
    return tables


@pytest.mark.slow
def test_figures_of_a_table_with_a_strong_disease(
    tables: dict[str, Any], tmp_path: Path
) -> None:
    result = PatientTrial("ill", 0, tmp_path).measure()
    assert set(result.figures) == set(METHODS)
    for name in ("default", "default, reference", "ridge"):
        figures = result.figures[name]
        assert figures["auc"] > 0.9
        assert figures["visits"] == pytest.approx(
            1.0
        )  # the second visit is the first one
        assert figures["clinical"] > 0.6
        assert figures["halves"] > 0.4
    text = format_markdown([result])
    assert f"| ill | default | {result.figures['default']['auc']:.3f} | 1.000 |" in text
    assert figures["processor_seconds"] > 0
    with_costs = format_markdown([result], costs=True).splitlines()
    assert with_costs[0].endswith("| halves | seconds | MB |")
    assert with_costs[2].count("|") == with_costs[0].count("|")


@pytest.mark.slow
def test_nothing_is_found_where_there_is_nothing(
    tables: dict[str, Any], tmp_path: Path
) -> None:
    result = PatientTrial("null", 0, tmp_path).measure()
    assert "default, reference" not in result.figures
    assert all(
        set(figures) - set(COSTS) == {"auc", "halves"}
        for figures in result.figures.values()
    )
    assert np.mean(
        [figures["auc"] for figures in result.figures.values()]
    ) == pytest.approx(0.5, abs=0.12)


@pytest.mark.parametrize("name", METHODS)
def test_scores_are_higher_in_patients_whatever_the_method(name: str) -> None:
    cohort = simulate_few_regions("tiny", seed=2).cohort
    X, y = (
        Preprocessing.fit(cohort).transform(cohort),
        cohort.is_patient.astype(np.intp),
    )
    score = METHODS[name](PreparedPeople(X=X, y=y), 0)
    assert roc_auc_score(y, score(X)) > 0.8


def test_unknown_tables_are_named(tables: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="suite patients has no table 'il'"):
        list_patient_trials(tmp_path, 1, ["il"])
    assert [trial.seed for trial in list_patient_trials(tmp_path, 2, ["ill"])] == [0, 1]


@pytest.mark.slow
@pytest.mark.skipif(
    not DATA.is_dir(), reason="needs the tables of patients in ../shared/data"
)
def test_psychosis_is_as_sharp_as_ridge() -> None:
    results = [PatientTrial("psychosis", seed, DATA).measure() for seed in range(2)]
    auc = {
        name: np.mean([result.figures[name]["auc"] for result in results])
        for name in results[0].figures
    }
    assert auc["default"] > max(0.68, auc["ridge"] - 0.01)
    assert auc["default, reference"] > 0.70
