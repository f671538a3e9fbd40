"""Simulated visits: anatomy stays, severities grow, noise, dropout and events are as
planned.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rindices.experiments.visits as module
from rindices.analysis.outcome_models import Outcome, fit_outcome
from rindices.errors import SimulationError
from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.visits import VisitPlan, simulate_visits, write_visits


def test_the_first_visit_without_noise_is_the_simulated_cohort(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        module,
        "draw_retest_noise",
        lambda deviations, *_: np.zeros((1, len(deviations))),
    )
    result = simulate_visits("tiny", 3, VisitPlan(dropout=0.0))
    expected = simulate_cohort("tiny", 3)
    first = (result.sessions["session_id"] == "ses-1").to_numpy()
    np.testing.assert_allclose(
        result.simulated.cohort.volumes[first], expected.cohort.volumes, rtol=1e-4
    )
    truth = result.simulated.severities
    np.testing.assert_allclose(
        truth.loc[truth["session_id"] == "ses-1", ["s1", "s2", "s3"]], expected.truth
    )


def test_severities_grow_at_the_rates_of_persons() -> None:
    result = simulate_visits("tiny", 0, VisitPlan(visits=4))
    truth = result.simulated.severities.merge(
        result.sessions[["participant_id", "session_id", "years"]]
    )
    first = truth.drop_duplicates("participant_id").set_index("participant_id")
    rates = result.rates.set_index("participant_id")
    for name in ("s1", "s2", "s3"):
        expected = first[name].loc[truth["participant_id"]].to_numpy()
        expected = (
            expected
            + rates[name].loc[truth["participant_id"]].to_numpy()
            * truth["years"].to_numpy()
        )
        np.testing.assert_allclose(truth[name], np.minimum(expected, 1))
    assert float(
        (result.rates[["s1", "s2", "s3"]] == 0).to_numpy().mean()
    ) == pytest.approx(1 / 3, abs=0.08)
    last = result.sessions.groupby("participant_id").size()
    assert (last < 4).mean() == pytest.approx(1 - 0.9**3, abs=0.09)


def test_visits_of_controls_correlate_as_measured() -> None:
    result = simulate_visits("small", 0, VisitPlan(visits=2, dropout=0.0))
    controls = (result.sessions["group"] == "control").to_numpy()
    logs = np.log(result.simulated.cohort.volumes[controls].to_numpy())
    first = (result.sessions.loc[controls, "session_id"] == "ses-1").to_numpy()
    design = np.column_stack(
        [
            np.ones(first.sum()),
            np.log(result.sessions.loc[controls, "icv"][first]),
            result.sessions.loc[controls, "age"][first],
        ]
    )
    parts = [
        part - design @ np.linalg.lstsq(design, part, rcond=None)[0]
        for part in (logs[first], logs[~first])
    ]
    correlations = [
        np.corrcoef(a, b)[0, 1] for a, b in zip(parts[0].T, parts[1].T, strict=True)
    ]
    assert np.mean(correlations) == pytest.approx(0.9, abs=0.025)


def test_the_hazard_depends_on_severity() -> None:
    plan = VisitPlan(visits=2, growth=1e-9, event_weights=(3.0, 0.0))
    result = simulate_visits("basic", 1, plan)
    severities = np.zeros((len(result.outcomes), 3))
    is_patient = (result.outcomes["group"] == "patient").to_numpy()
    truth = result.simulated.severities
    severities[is_patient] = truth.loc[
        truth["session_id"] == "ses-1", ["s1", "s2", "s3"]
    ].to_numpy()
    outcome = Outcome(
        result.outcomes["event"].to_numpy() == 1, result.outcomes["years"].to_numpy()
    )
    fit = fit_outcome(outcome, severities)
    errors = np.sqrt(np.diag(fit.covariance))
    assert (np.abs(fit.coefficients - [3.0, 0.0, 0.0]) < 3 * errors).all()
    assert errors[0] < 0.3


def test_written_tables_have_one_row_per_visit(tmp_path: Path) -> None:
    result = simulate_visits("tiny", 0)
    write_visits(result, tmp_path)
    volumes = pd.read_csv(tmp_path / "volumes.csv")
    sessions, participants = (
        pd.read_csv(tmp_path / f"{name}.tsv", sep="\t")
        for name in ("sessions", "participants")
    )
    assert list(volumes.columns[:2]) == ["participant_id", "session_id"]
    pd.testing.assert_frame_equal(
        volumes[["participant_id", "session_id"]],
        sessions[["participant_id", "session_id"]],
    )
    assert len(participants) == 180
    assert participants["age"].equals(
        sessions.drop_duplicates("participant_id")["age"].reset_index(drop=True)
    )
    assert {path.name for path in tmp_path.iterdir()} >= {
        "truth.tsv",
        "rates.tsv",
        "outcomes.tsv",
        "patterns.tsv",
    }


def test_new_people_have_visits_and_the_noise_of_the_cohort() -> None:
    result, new = (
        simulate_visits("tiny", 0),
        simulate_visits("tiny", 0, new_people=True),
    )
    assert new.outcomes["participant_id"].tolist() == [
        f"new-{k:02d}" for k in range(1, 21)
    ]
    assert len(new.sessions) > 40
    truth, new_truth = result.simulated.truth, new.simulated.truth
    assert not np.isin(new_truth[new_truth < 1], truth).any()


def test_tasks_without_visits_are_refused() -> None:
    with pytest.raises(SimulationError, match="organs and personal"):
        simulate_visits("organs")
    with pytest.raises(SimulationError, match="not a repeat visit"):
        simulate_visits("tiny", plan=replace(VisitPlan(), visits=1))


def test_uniform_growth_reaches_its_largest_value_at_the_last_visit() -> None:
    result = simulate_visits(
        "small", 0, VisitPlan(visits=3, interval=2.0, uniform_growth=0.4)
    )
    growth = (
        result.rates[["s1", "s2", "s3"]].to_numpy() * 4.0
    )  # years between the first and the last planned visit
    assert 0.38 < growth.max() <= 0.4
    assert growth.mean() == pytest.approx(0.2, abs=0.02)
    first = result.simulated.severities.drop_duplicates("participant_id")[
        ["s1", "s2", "s3"]
    ].to_numpy()
    assert 0.58 < first.max() <= 0.6
