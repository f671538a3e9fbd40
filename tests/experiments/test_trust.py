"""The trust suite and the power study: small pieces of them, and their arithmetic."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import linregress
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from rindices.errors import InputError
from rindices.experiments.power import PowerConfig, PowerJob, compute_interval_width, measure_power_job, run_power
from rindices.experiments.reference import FittedHealthyReference, load_reference
from rindices.experiments.tasks import TASKS, make_task_with_patterns
from rindices.experiments.trust import (
    TrustTrial,
    format_markdown,
    list_trials,
    rank_nuisance,
    run_trust_suite,
    summarise_n_patterns,
)
from rindices.experiments.trust_cohorts import NULL_COHORTS, simulate_batch_cohort, simulate_null_cohort
from rindices.tables.cohort import SITE, Cohort


def test_tasks_with_other_numbers_of_patterns() -> None:
    assert make_task_with_patterns(3) == TASKS["basic"]
    assert [len(make_task_with_patterns(m).patterns) for m in (1, 2, 5)] == [1, 2, 5]
    assert {len(regions) for regions in make_task_with_patterns(5).patterns} == {14}


def test_null_cohorts_are_as_misleading_as_they_say() -> None:
    older = simulate_null_cohort("patients older, age adjusted", 0)
    age = older.covariates["age"].to_numpy(dtype=float)
    assert 5 < age[older.is_patient].mean() - age[older.is_control].mean() < 12
    sites = simulate_null_cohort("site effects, sites unequal in patients", 0)
    share = sites.people.assign(ill=sites.is_patient).groupby(SITE)["ill"].mean()
    assert share["site5"] > share["site1"] + 0.2
    for kind, spec in NULL_COHORTS.items():
        cohort = simulate_null_cohort(kind, 1)
        assert (cohort.n_controls, cohort.n_patients) == (spec.n_controls, spec.n_patients)
    wider, same = simulate_null_cohort("patients vary more in all directions", 0), simulate_null_cohort("492 + 900", 0)
    logs = [np.log(cohort.volumes.to_numpy())[cohort.is_patient].std(axis=0).mean() for cohort in (wider, same)]
    assert 1.05 < logs[0] / logs[1] < 1.25


def test_a_batch_moves_its_patients_alone() -> None:
    made, batch = simulate_batch_cohort(0, TASKS["basic"], 0.3)
    plain = ri.simulate_cohort("basic", 0).cohort
    moved = np.abs(made.cohort.volumes.to_numpy() - plain.volumes.to_numpy()).sum(axis=1) > 0
    np.testing.assert_array_equal(moved[made.cohort.is_patient], batch == 1)
    assert not moved[made.cohort.is_control].any()
    assert 0.25 < batch.mean() < 0.35


def test_trials_and_summary(tmp_path: Path) -> None:
    asked = list_trials(1, ["number"])
    assert {(trial.kind, trial.patterns) for trial in asked} == {
        (k, m) for k in ("basic", "mild") for m in (1, 2, 3, 5)
    }
    assert len({trial.key for trial in list_trials(2)}) == len(list_trials(2))
    with pytest.raises(InputError, match="did you mean 'number'"):
        list_trials(1, ["numbr"])
    results = run_trust_suite(
        [TrustTrial("null", "150 + 200", 0, 0), TrustTrial("number", "basic", 1, 0)], tmp_path, workers=1
    )
    assert [result["found"] for result in results] == [0, 1]
    table = format_markdown(results)
    assert "| 150 + 200 | 0 | 100.0% | 1 |" in table
    assert [row["right"] for row in summarise_n_patterns(results)] == [1.0, 1.0]


def test_nuisance_is_ranked_by_auc() -> None:
    results = [
        {"part": "nuisance", "kind": "k", "kinds": ["true", "nuisance", "true", "neither"]}
        | {name: [0.9, 0.8, 0.7, 0.1] for name in ("stability", "split_half", "carriers")}
    ]
    rows = rank_nuisance(results)
    assert [row["kind"] for row in rows] == ["k", "all"]
    assert rows[0]["split_half"] == pytest.approx(0.5)  # one true pattern above the nuisance, one below
    assert (rows[0]["true"], rows[0]["nuisance"], rows[0]["neither"]) == (2, 1, 1)
    assert "0.500 (0.80 / 0.80)" in format_markdown(results)


def test_interval_width_is_that_of_a_regression() -> None:
    rng = np.random.default_rng(0)
    truth = rng.uniform(size=(300, 1))
    index = 2 * truth + rng.normal(0, 0.2, size=(300, 1))
    fit = linregress(index[:, 0], truth[:, 0])
    residual = truth[:, 0] - fit.intercept - fit.slope * index[:, 0]
    assert compute_interval_width(truth, index) == pytest.approx(2 * 1.96 * np.sqrt((residual**2).sum() / 298))


def test_power_is_the_mean_of_its_cohorts() -> None:
    setting = PowerConfig(((80, 100),), (0.3,), patterns=1, cohorts=2)
    result = run_power(setting, workers=1)
    both = [measure_power_job(PowerJob(setting, 80, 100, 0.3, 10_000 + seed)) for seed in range(2)]
    (row,) = result["rows"]
    assert row["accuracy"] == pytest.approx(np.mean([one["accuracy"] for one in both]))
    assert row["accuracy"] > 0.8
    assert row["any"] == 1.0
    with pytest.raises(InputError, match="at least 10"):
        PowerConfig(((5, 100),))


def test_a_learnt_reference_is_like_its_table() -> None:
    volumes, covariates = load_reference().draw(3000, np.random.default_rng(0))
    people = volumes.iloc[:, :0].assign(participant_id=[str(k) for k in range(3000)])
    learnt = FittedHealthyReference.fit(Cohort(volumes, people, covariates))
    again, drawn = learnt.draw(3000, np.random.default_rng(1))
    assert list(again.columns) == list(volumes.columns)
    np.testing.assert_allclose(np.log(again).mean(), np.log(volumes).mean(), atol=0.02)
    np.testing.assert_allclose(np.log(again).std(), np.log(volumes).std(), rtol=0.1)
    both = [
        np.corrcoef(c["age"].astype(float), np.log(v).mean(axis=1))[0, 1]
        for v, c in ((volumes, covariates), (again, drawn))
    ]
    assert both[0] == pytest.approx(both[1], abs=0.06)


def test_power_command() -> None:
    arguments = ["power", "--people", "80+100", "--rates", "0.3", "--patterns", "1", "--cohorts", "1", "--json"]
    done = CliRunner().invoke(app, [*arguments, "--workers", "1"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"][0]["controls"] == 80
    assert CliRunner().invoke(app, ["power", "--people", "80,100"]).exit_code == 2
