"""Centiles of R-indices: they are those of the population, their intervals hold the
truth, and they ask for age and sex.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import gamma

from rindices.errors import ModelError
from rindices.model.centiles import CentileReference, add_centiles
from rindices.model.records import HealthyRecord

HEALTHY = HealthyRecord(name="simulated", people=400, ages=(40.0, 86.0))


def draw_people(
    number: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return R-indices (N, 2), age, sex and true centiles (N, 2): both indices are
    skewed, rise with age and differ between sexes; the spread of men is larger.
    """
    rng = np.random.default_rng(seed)
    age, is_male = rng.uniform(40, 86, number), rng.random(number) < 0.4
    noise = gamma.rvs(4.0, size=(number, 2), random_state=rng)
    sd = 0.15 * np.where(is_male, 1.5, 1.0)[:, None]
    slope = 0.1 * (age - 60)[:, None] / 10 + 0.002 * ((age - 60)[:, None] / 10) ** 2
    indices = 0.3 + slope + 0.2 * is_male[:, None] + sd * (noise - 4.0) / 2.0
    return indices, age, is_male, 100.0 * gamma.cdf(noise, 4.0)


def test_centiles_of_new_people_are_those_of_the_population() -> None:
    reference = CentileReference.fit(*draw_people(4000, 0)[:3])
    indices, age, is_male, true = draw_people(2000, 1)
    centile, low, high = reference.compute(indices, age, is_male)
    assert np.abs(centile - true).mean() < 1.0
    assert ((low <= centile) & (centile <= high)).all()
    for cell in (is_male, ~is_male, age < 60, age >= 60):
        for share in (0.05, 0.25, 0.5, 0.75, 0.95):
            error = np.sqrt(share * (1 - share) * (1 / cell.sum() + 1 / 4000))
            below = (centile[cell] < 100 * share).mean(axis=0)
            assert (np.abs(below - share) < 4 * error).all(), share


def test_intervals_hold_the_true_centile_and_shrink_with_the_reference() -> None:
    held, widths = [], []
    for seed in range(40):
        reference = CentileReference.fit(*draw_people(150, seed)[:3])
        indices, age, is_male, true = draw_people(50, 1000 + seed)
        _, low, high = reference.compute(indices, age, is_male)
        inside = (true > 2) & (true < 98)
        held.append(((low <= true) & (true <= high))[inside].mean())
        widths.append((high - low).mean())
    assert 0.85 < np.mean(held) < 0.98
    large = CentileReference.fit(*draw_people(2400, 0)[:3])
    indices, age, is_male, _ = draw_people(500, 2)
    _, low, high = large.compute(indices, age, is_male)
    assert (high - low).mean() < 0.4 * np.mean(widths)


def test_people_beyond_all_others_have_no_centile_of_0_or_100() -> None:
    reference = CentileReference.fit(*draw_people(300, 0)[:3])
    centile, low, high = reference.compute(
        np.array([[-9.0, 9.0]]), np.array([60.0]), np.array([False])
    )
    np.testing.assert_allclose(centile, [[50 / 301, 100 - 50 / 301]])
    assert 0 <= low[0, 0] < centile[0, 0]
    assert centile[0, 1] < high[0, 1] <= 100


def make_table(indices: np.ndarray) -> pd.DataFrame:
    ids = [f"p{number}" for number in range(len(indices))]
    columns = {"participant_id": ids, "r1": indices[:, 0], "r2": indices[:, 1]}
    return pd.DataFrame(
        {**columns, "information": 1.0, "outside_training_range": False}
    )


def test_ages_outside_the_reference_have_none_and_are_said() -> None:
    indices, age, is_male, _ = draw_people(300, 0)
    reference = CentileReference.fit(indices, age, is_male)
    covariates = pd.DataFrame({"age": [60.0, 95.0], "sex": ["F", "M"]})
    table, (note,) = add_centiles(
        make_table(indices[:2]), covariates, reference, HEALTHY
    )
    names = [f"r{k}_{end}" for k in (1, 2) for end in ("centile", "centile_low")]
    assert table[names].loc[0].notna().all()
    assert table[names].loc[1].isna().all()
    assert list(table)[-1] == "outside_training_range"
    assert "1 person has no centile: the healthy people" in str(note)


@pytest.mark.parametrize(
    ("covariates", "message"),
    [
        ({"age": [60.0]}, "centiles need sex"),
        ({"age": [60.0], "sex": ["female"]}, "sex is female in this table: write F"),
    ],
)
def test_covariates_that_are_missing_or_unknown_are_refused(
    covariates: dict[str, list[object]], message: str
) -> None:
    indices, age, is_male, _ = draw_people(300, 0)
    reference = CentileReference.fit(indices, age, is_male)
    table = make_table(indices[:1])
    with pytest.raises(ModelError, match=message):
        add_centiles(table, pd.DataFrame(covariates), reference, HEALTHY)
    with pytest.raises(ModelError, match="rindices model calibrate"):
        add_centiles(table, pd.DataFrame(covariates), None, None)


def test_too_few_people_or_one_sex_are_refused() -> None:
    indices, age, is_male, _ = draw_people(300, 0)
    with pytest.raises(ModelError, match="30 healthy people are too few"):
        CentileReference.fit(indices[:30], age[:30], is_male[:30])
    with pytest.raises(ModelError, match="both sexes"):
        CentileReference.fit(indices, age, np.zeros(300, dtype=bool))
