"""Distributions from sums of cosines are close to those of the people."""

import numpy as np
import pytest

from rindices.sums.build import (
    compute_auc,
    compute_carrier_share,
    compute_cumulative,
    compute_quantiles,
)
from rindices.sums.kinds import sum_cosines

RNG = np.random.default_rng(0)
CONTROLS, PATIENTS = RNG.beta(2, 6, 3000), RNG.beta(4, 3, 3000)


def make_cumulative(values: np.ndarray) -> np.ndarray:
    return compute_cumulative(sum_cosines(values[:, None], 24)[0], len(values))


def test_quantiles_are_close() -> None:
    shares = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    np.testing.assert_allclose(
        compute_quantiles(make_cumulative(PATIENTS), shares),
        np.quantile(PATIENTS, shares),
        atol=0.015,
    )


def test_auc_and_carriers_are_close() -> None:
    controls, patients = make_cumulative(CONTROLS), make_cumulative(PATIENTS)
    assert compute_auc(controls, patients) == pytest.approx(
        (PATIENTS[:, None] > CONTROLS).mean(), abs=0.01
    )
    above = (np.quantile(CONTROLS, 0.95) < PATIENTS).mean()
    assert compute_carrier_share(controls, patients) == pytest.approx(
        (above - 0.05) / 0.95, abs=0.03
    )
