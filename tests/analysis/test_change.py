"""Slopes equal those of scipy, and intervals cover the true change as often as they should."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import linregress

from rindices.analysis.change import NOMINAL_COVERAGE, change_per_year
from rindices.errors import InputError
from tests.analysis.helpers import make_visits


def compute_coverage(visits: int, seed: int = 0) -> float:
    frame, slopes = make_visits(600, visits, seed=seed)
    table = change_per_year(frame, "age").table
    low, high = (table[[f"r{k}_per_year_{end}" for k in (1, 2)]].to_numpy() for end in ("low", "high"))
    return float(((low <= slopes) & (slopes <= high)).mean())


def test_slopes_equal_scipy_in_any_order_of_rows() -> None:
    frame, _ = make_visits(12, 4)
    result = change_per_year(frame.sample(frac=1, random_state=1), "age")
    rest = {"r1": 0.0, "r2": 0.0}
    for row in result.table.itertuples():
        person = frame[frame["participant_id"] == row.participant_id]
        for name in rest:
            line = linregress(person["age"], person[name])
            np.testing.assert_allclose(getattr(row, f"{name}_per_year"), line.slope, rtol=1e-9)
            rest[name] += float(((person[name] - line.intercept - line.slope * person["age"]) ** 2).sum())
        np.testing.assert_allclose(row.years, np.ptp(person["age"]))
    np.testing.assert_allclose(result.noise, np.sqrt(np.array(list(rest.values())) / 24), rtol=1e-9)
    assert (result.freedom, result.noise_from_residuals) == (24, True)


@pytest.mark.parametrize("visits", [3, 5])
def test_intervals_cover_the_true_change_at_their_nominal_rate(visits: int) -> None:
    shares = [compute_coverage(visits, seed) for seed in range(4)]
    assert abs(np.mean(shares) - NOMINAL_COVERAGE) < 0.02


def test_intervals_of_two_visits_are_too_wide_and_give_a_warning() -> None:
    frame, _ = make_visits(600, 2)
    result = change_per_year(frame, "age")
    assert not result.noise_from_residuals
    assert any("hardly anyone has three visits" in problem.what for problem in result.problems)
    assert compute_coverage(2) > NOMINAL_COVERAGE - 0.02


def test_dates_are_accepted_and_single_visits_left_out() -> None:
    frame, _ = make_visits(30, 3)
    days = pd.to_datetime("2010-01-01") + pd.to_timedelta(((frame["age"] - 60) * 365.25).round(), unit="D")
    dated = frame.assign(when=days.dt.strftime("%Y-%m-%d")).iloc[:-2]
    result = change_per_year(dated, "when")
    np.testing.assert_allclose(
        result.table["r1_per_year"], change_per_year(frame.iloc[:-2], "age").table["r1_per_year"], atol=2e-3
    )
    assert len(result.table) == 29
    assert any("1 person has a single visit" in problem.what for problem in result.problems)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: f.drop(columns=["r1", "r2"]), "no R-indices"),
        (lambda f: f.rename(columns={"age": "agee"}), "did you mean 'agee'"),
        (lambda f: f.assign(age="soon"), "neither years nor dates"),
        (lambda f: f[f["session_id"] == "ses-0"], "nobody has two visits"),
        (lambda f: pd.concat([f, f.iloc[:1]]), "visits appear more than once: p0000"),
    ],
)
def test_wrong_tables_are_refused_by_name(spoil: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        change_per_year(spoil(make_visits(8, 3)[0]), "age")  # type: ignore[operator]
