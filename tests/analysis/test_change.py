"""Change per year: lines against scipy, intervals against known truth, faults by name."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import linregress
from typer.testing import CliRunner

from rindices.analysis.change import NOMINAL_COVERAGE, change_per_year
from rindices.cli.main import app
from rindices.errors import InputError


def simulated(people: int, visits: int, noise: float = 0.03, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Return visits at uneven times with noise, and the true change per year (N, 2)."""
    rng = np.random.default_rng(seed)
    slopes = rng.normal(0.02, 0.03, size=(people, 2))
    years = 60 + np.sort(rng.uniform(0, 6, size=(people, visits)), axis=1)
    base = rng.uniform(0, 1, size=(people, 1, 2))
    values = base + slopes[:, None] * (years - 60)[..., None] + rng.normal(0, noise, size=(people, visits, 2))
    frame = pd.DataFrame(
        {
            "participant_id": np.repeat([f"p{k:04d}" for k in range(people)], visits),
            "session_id": np.tile([f"ses-{k}" for k in range(visits)], people),
            "r1": values[..., 0].ravel(),
            "r1_low": 0.0,
            "r2": values[..., 1].ravel(),
            "age": years.ravel(),
        }
    )
    return frame, slopes


def covered(visits: int, seed: int = 0) -> float:
    frame, slopes = simulated(600, visits, seed=seed)
    table = change_per_year(frame, "age").table
    low, high = (table[[f"r{k}_per_year_{end}" for k in (1, 2)]].to_numpy() for end in ("low", "high"))
    return float(((low <= slopes) & (slopes <= high)).mean())


def test_lines_are_those_of_scipy_in_any_order_of_rows() -> None:
    frame, _ = simulated(12, 4)
    found = change_per_year(frame.sample(frac=1, random_state=1), "age")
    rest = {"r1": 0.0, "r2": 0.0}
    for row in found.table.itertuples():
        own = frame[frame["participant_id"] == row.participant_id]
        for name in rest:
            line = linregress(own["age"], own[name])
            np.testing.assert_allclose(getattr(row, f"{name}_per_year"), line.slope, rtol=1e-9)
            rest[name] += float(((own[name] - line.intercept - line.slope * own["age"]) ** 2).sum())
        np.testing.assert_allclose(row.years, np.ptp(own["age"]))
    np.testing.assert_allclose(found.noise, np.sqrt(np.array(list(rest.values())) / 24), rtol=1e-9)
    assert (found.freedom, found.noise_from_residuals) == (24, True)


@pytest.mark.parametrize("visits", [3, 5])
def test_intervals_hold_the_truth_as_often_as_they_say(visits: int) -> None:
    shares = [covered(visits, seed) for seed in range(4)]
    assert abs(np.mean(shares) - NOMINAL_COVERAGE) < 0.02


def test_two_visits_are_said_to_be_too_wide_and_are() -> None:
    frame, _ = simulated(600, 2)
    found = change_per_year(frame, "age")
    assert not found.noise_from_residuals
    assert any("hardly anyone has three visits" in problem.what for problem in found.problems)
    assert covered(2) > NOMINAL_COVERAGE - 0.02


def test_dates_and_single_visits() -> None:
    frame, _ = simulated(30, 3)
    days = pd.to_datetime("2010-01-01") + pd.to_timedelta(((frame["age"] - 60) * 365.25).round(), unit="D")
    dated = frame.assign(when=days.dt.strftime("%Y-%m-%d")).iloc[:-2]
    found = change_per_year(dated, "when")
    np.testing.assert_allclose(
        found.table["r1_per_year"], change_per_year(frame.iloc[:-2], "age").table["r1_per_year"], atol=2e-3
    )
    assert len(found.table) == 29
    assert any("1 person has a single visit" in problem.what for problem in found.problems)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda f: f.drop(columns=["r1", "r2"]), "no R-indices"),
        (lambda f: f.rename(columns={"age": "agee"}), "did you mean 'agee'"),
        (lambda f: f.assign(age="soon"), "neither years nor dates"),
        (lambda f: f[f["session_id"] == "ses-0"], "nobody has two visits"),
        (lambda f: pd.concat([f, f.iloc[:1]]), "visits stand more than once: p0000"),
    ],
)
def test_faults_are_named(spoil: object, told: str) -> None:
    with pytest.raises(InputError, match=told):
        change_per_year(spoil(simulated(8, 3)[0]), "age")  # type: ignore[operator]


def test_the_command_joins_the_time_by_person_and_session(tmp_path: Path) -> None:
    frame, _ = simulated(40, 3)
    frame.drop(columns="age").to_csv(tmp_path / "r.tsv", sep="\t", index=False)
    sessions = frame[["participant_id", "session_id", "age"]].sample(frac=1, random_state=0)
    sessions.to_csv(tmp_path / "s.tsv", sep="\t", index=False)
    arguments = ["change", str(tmp_path / "r.tsv"), "--participants", str(tmp_path / "s.tsv"), "--json"]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["people"], told["visits"], told["noise_from"]) == (40, 120, "scatter about lines")
    table = pd.read_csv(tmp_path / "out" / "change.tsv", sep="\t")
    expected = change_per_year(frame, "age").table
    pd.testing.assert_frame_equal(table, expected, check_dtype=False)
    assert (tmp_path / "out" / "change.png").stat().st_size > 10_000
    assert told["indices"]["r1"]["above_zero"] == int((expected["r1_per_year_low"] > 0).sum())
