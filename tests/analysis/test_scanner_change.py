"""Scanners that change within people: known effects, and refusal where time and scanner
are one.
"""

import numpy as np
import pandas as pd
import pytest

from rindices.analysis.change import change_per_year
from rindices.errors import AnalysisError


def make_visits(
    seed: int,
    shift: float = 0.2,
    share: float = 1 / 3,
    slope: float = 0.03,
    n_visits: int = 3,
    people: int = 120,
) -> pd.DataFrame:
    """Return visits of which the later ones of a share of people are on a new scanner,
    which adds a shift.
    """
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(people), n_visits)
    years = np.tile(np.arange(n_visits), people) + rng.uniform(0, 0.3, len(person))
    level, own = rng.normal(0.5, 0.2, people), rng.normal(slope, 0.02, people)
    is_new = (person < share * people) & (np.tile(np.arange(n_visits), people) > 0)
    values = level[person] + own[person] * years + rng.normal(0, 0.04, len(person))
    return pd.DataFrame(
        {
            "participant_id": [f"p{k}" for k in person],
            "session_id": np.tile([f"v{k}" for k in range(n_visits)], people),
            "years": years,
            "scanner": np.where(is_new, "new", "old"),
            "group": np.where(person % 2, "patient", "control"),
            "r1": values + shift * is_new,
            "true": own[person],
        }
    )


def test_the_effect_of_a_scanner_is_that_of_a_fixed_effect_where_it_is_well_known() -> (
    None
):
    visits = make_visits(0)
    result = change_per_year(visits, "years", scanner="scanner")
    assert result.scanners is not None
    effects = result.scanners.set_index("scanner")["effect"]
    assert effects["new"] - effects["old"] == pytest.approx(0.2, abs=0.03)
    counts = visits["scanner"].value_counts()
    assert effects @ counts.reindex(effects.index) == pytest.approx(0, abs=1e-9)
    assert result.table["r1_per_year"].mean() == pytest.approx(0.03, abs=0.006)
    ignored = change_per_year(visits, "years")
    assert ignored.table["r1_per_year"].mean() > 0.05


@pytest.mark.slow
def test_intervals_of_people_who_changed_scanner_cover_their_change() -> None:
    covered, wider = [], []
    for seed in range(40):
        visits = make_visits(seed, people=24)
        truth = visits.drop_duplicates("participant_id")["true"].to_numpy()[:8]
        rows = change_per_year(visits, "years", scanner="scanner").table
        clean = visits.assign(r1=visits["r1"] - 0.2 * (visits["scanner"] == "new"))
        known = change_per_year(clean, "years").table
        rows, known = (each.set_index("participant_id") for each in (rows, known))
        people = [f"p{k}" for k in range(8)]
        low, high = (
            rows.loc[people, f"r1_per_year_{end}"].to_numpy() for end in ("low", "high")
        )
        covered.append(((low <= truth) & (truth <= high)).mean())
        least = (
            known.loc[people, "r1_per_year_high"] - known.loc[people, "r1_per_year_low"]
        )
        wider.append(((high - low) / least.to_numpy()).mean())
    assert np.mean(covered) == pytest.approx(0.9, abs=0.05)
    assert np.mean(wider) > 1.05


def test_scanners_without_an_effect_are_shrunken() -> None:
    sizes = []
    for seed in range(8):
        result = change_per_year(
            make_visits(seed, shift=0.0, people=30), "years", scanner="scanner"
        )
        assert result.scanners is not None
        sizes.append(np.ptp(result.scanners["effect"]))
    assert np.mean(sizes) < 0.03


def test_time_and_scanner_that_are_one_are_refused() -> None:
    visits = make_visits(1, share=1.0, n_visits=2)
    with pytest.raises(AnalysisError, match=r"between new and old at the same time"):
        change_per_year(visits, "years", scanner="scanner")


def test_patients_who_all_changed_are_refused_although_controls_stayed() -> None:
    visits = make_visits(2, n_visits=2)
    moved = (visits["group"] == "patient") & (visits["session_id"] == "v1")
    visits["scanner"] = np.where(moved, "new", "old")
    with pytest.raises(AnalysisError, match="people of the same group who stayed"):
        change_per_year(visits, "years", scanner="scanner")


def test_a_change_of_scanner_is_warned_of_where_none_is_named() -> None:
    (problem,) = [
        each
        for each in change_per_year(make_visits(3), "years").problems
        if "scanner" in str(each.cure)
    ]
    assert "40 people have visits of several values of 'scanner'" in problem.what


def test_a_scanner_of_everyone_changes_nothing() -> None:
    visits = make_visits(4, shift=0.0, share=0.0)
    one, none = (
        change_per_year(visits, "years", scanner=name) for name in ("scanner", None)
    )
    pd.testing.assert_frame_equal(one.table, none.table)
    assert one.scanners is None


def test_groups_are_compared_without_the_effect_of_a_scanner() -> None:
    visits = make_visits(5)
    moved = visits["participant_id"].isin([f"p{k}" for k in range(1, 80, 2)])
    later = visits["session_id"] != "v0"
    visits["r1"] -= 0.2 * (visits["scanner"] == "new")
    visits["scanner"] = np.where(moved & later, "new", "old")
    visits["r1"] += 0.2 * (visits["scanner"] == "new")
    ignored, used = (
        change_per_year(visits, "years", scanner=name).groups
        for name in (None, "scanner")
    )
    assert ignored is not None
    assert used is not None
    assert ignored["difference"][0] > 0.04
    assert abs(used["difference"][0]) < 0.02
    assert used["p"][0] > 0.01 > ignored["p"][0]
