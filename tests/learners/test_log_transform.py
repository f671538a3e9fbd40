"""The log transform: inverse, equal shares, choice of its constant."""

import numpy as np
import pytest

from rindices.learners.inference import (
    apply_log_transform,
    fit_log_transform,
    invert_log_transform,
)


@pytest.mark.parametrize("log_constant", [0.0, 0.05, 0.2])
def test_inverse_undoes_the_transform(log_constant: float) -> None:
    z = np.linspace(-20, 6, 200)
    t = apply_log_transform(z, log_constant)
    np.testing.assert_allclose(invert_log_transform(t, log_constant), z, atol=1e-9)
    assert (np.diff(t) > 0).all()
    assert apply_log_transform(np.zeros(1), log_constant) == 0


def test_equal_shares_become_equal_shifts() -> None:
    size = np.array(
        [-1.5, 0.0, 2.0]
    )  # small, average and large regions, in control units
    lost = (1 + 0.15 * size) * 0.8  # a fifth is lost
    shift = apply_log_transform((lost - 1) / 0.15, 0.15) - apply_log_transform(
        size, 0.15
    )
    np.testing.assert_allclose(shift, shift[0])


def test_fit_recovers_the_constant() -> None:
    rng = np.random.default_rng(0)
    logs = rng.normal(size=(800, 30))
    assert fit_log_transform([logs]) < 0.02
    grown = (np.exp(0.15 * logs) - 1) / 0.15
    assert fit_log_transform([grown]) == pytest.approx(0.15, abs=0.02)
