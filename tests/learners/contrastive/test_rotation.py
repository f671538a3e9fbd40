"""Loss of the rotation: gradient and scale."""

import numpy as np
import pytest
from scipy.optimize import check_grad

from rindices.learners.contrastive.rotation import LikelihoodWeights, _compute_rotation_loss


def test_gradient_equals_finite_differences() -> None:
    rng = np.random.default_rng(0)
    white, patterns = rng.uniform(-1.7, 1.7, (50, 3)), rng.normal(size=(20, 3))

    def loss(flat: np.ndarray) -> float:
        return _compute_rotation_loss(flat.reshape(3, 3), white, patterns, LikelihoodWeights(0.4, 0.2)).loss

    def gradient(flat: np.ndarray) -> np.ndarray:
        return _compute_rotation_loss(flat.reshape(3, 3), white, patterns, LikelihoodWeights(0.4, 0.2)).gradient.ravel()

    for _ in range(5):
        point = rng.normal(size=9)
        assert check_grad(loss, gradient, point) < 1e-4 * max(1, np.abs(gradient(point)).max())


def test_the_term_of_regions_is_a_log_density() -> None:
    """Scaling patterns and unmixing together changes the term by R M log(scale)."""
    rng = np.random.default_rng(0)
    white, patterns, unmixing = rng.normal(size=(40, 2)), rng.normal(size=(15, 2)), rng.normal(size=(2, 2))
    only_regions = LikelihoodWeights(regions=1.0, independence=0.0)
    one = _compute_rotation_loss(unmixing, white, patterns, only_regions).loss
    two = _compute_rotation_loss(3 * unmixing, white, 3 * patterns, only_regions).loss
    assert two - one == pytest.approx(15 * 2 * np.log(3))
