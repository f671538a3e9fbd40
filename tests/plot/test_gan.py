"""Figures of a Surreal-GAN: what is drawn is what was given."""

from collections.abc import Callable

import matplotlib
import numpy as np
import pandas as pd
import pytest

matplotlib.use("agg")

from matplotlib import pyplot as plt

from rindices import plot
from rindices.errors import InputError


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture
def history() -> pd.DataFrame:
    steps = np.tile([100, 200, 300], 2)
    member = np.repeat([0, 1], 3)
    return pd.DataFrame(
        {
            "member": member,
            "step": steps,
            "discrimination": 1.0 + member,
            "change": 0.1 * (1 + member),
        }
    )


def test_loss_curves_are_means_of_members(history: pd.DataFrame) -> None:
    axes = plot.training(history)
    curves = {line.get_label(): line for line in axes.lines}
    assert set(curves) == {"D against f", "size of the change"}
    np.testing.assert_array_equal(curves["D against f"].get_xdata(), [100, 200, 300])
    np.testing.assert_allclose(curves["D against f"].get_ydata(), 1.5)


def test_given_axes_and_losses_are_used(history: pd.DataFrame) -> None:
    given = plt.subplots()[1]
    assert plot.training(history, losses=["change"], ax=given) is given
    assert len(given.lines) == 1


@pytest.mark.parametrize(("statistic", "compute"), [("mean", np.mean), ("sd", np.std)])
def test_moments_of_real_and_synthetic_patients(
    statistic: str, compute: Callable[..., np.ndarray]
) -> None:
    rng = np.random.default_rng(0)
    real, generated = rng.normal(size=(30, 5)), rng.normal(1.0, 2.0, size=(40, 5))
    moments = [compute(each, axis=0) for each in (real, generated)]
    points = plot.synthetic(*moments, statistic).lines[-1]
    np.testing.assert_allclose(points.get_xdata(), compute(real, axis=0))
    np.testing.assert_allclose(points.get_ydata(), compute(generated, axis=0))


def test_transformation_draws_the_regions_that_change_most() -> None:
    changes = np.array([[0.1, -1.0, 0.3], [0.2, -2.0, 0.6], [0.3, -3.0, 0.9]])
    axes = plot.transformation(changes, ["a", "b", "c"], n_regions=2)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b", "c"]
    markers = [line for line in axes.lines if str(line.get_label()).startswith("z =")]
    np.testing.assert_allclose(
        [line.get_xdata() for line in markers], changes[:, [1, 2]]
    )


def test_best_setting_of_the_agreement_has_a_ring() -> None:
    grid = pd.DataFrame(
        {
            "n_patterns": [2, 2, 3, 3],
            "orthogonality": [0.1, 0.2] * 2,
            "agreement": [0.7, 0.8, 0.9, 0.6],
        }
    )
    axes = plot.agreement(grid)
    ring = axes.lines[-1]
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (0.1, 0.9)
    assert [line.get_label() for line in axes.lines[:2]] == ["2 patterns", "3 patterns"]


def test_unknown_moment_is_an_error() -> None:
    with pytest.raises(InputError, match="statistic is 'median'; give 'mean' or 'sd'"):
        plot.synthetic(np.zeros(2), np.zeros(2), "median")


def test_people_instead_of_moments_are_an_error() -> None:
    with pytest.raises(
        InputError,
        match=r"shapes \(4, 2\) and \(3, 2\): give one sd .* such as real.std\(axis=0\)",
    ):
        plot.synthetic(np.zeros((4, 2)), np.zeros((3, 2)), "sd")


def test_the_chosen_setting_of_the_agreement_has_the_ring() -> None:
    grid = pd.DataFrame(
        {
            "n_patterns": [2, 2],
            "orthogonality": [0.1, 0.2],
            "agreement": [0.9, 0.8],
            "chosen": [False, True],
        }
    )
    ring = plot.agreement(grid).lines[-1]
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (0.2, 0.8)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        plot.nothing  # noqa: B018
