"""Loss of the rotation: gradient and scale."""

import numpy as np
import pytest
from scipy.optimize import check_grad

from rindices.learners.contrastive.linear_start import (
    ContrastSums,
    compute_losses,
    sum_contrasts,
)
from rindices.learners.contrastive.rotation import (
    LikelihoodWeights,
    LossTerm,
    add_pattern_terms,
    normalise_rows,
)


def sum_at(unmixing: np.ndarray, white: np.ndarray) -> ContrastSums:
    directions = normalise_rows(unmixing)
    values, gradients, curvatures = (
        each[0] / len(white) for each in sum_contrasts(white, directions[None])
    )
    return ContrastSums(
        directions=directions,
        values=values,
        gradients=gradients,
        curvatures=curvatures,
    )


def test_gradient_equals_finite_differences() -> None:
    rng = np.random.default_rng(0)
    white, patterns = rng.uniform(-1.7, 1.7, (50, 3)), rng.normal(size=(20, 3))

    def evaluate(flat: np.ndarray) -> LossTerm:
        unmixing = flat.reshape(3, 3)
        return compute_losses(
            sum_at(unmixing, white), unmixing[None], len(white), patterns
        )

    def loss(flat: np.ndarray) -> float:
        return float(evaluate(flat).loss[0])

    def gradient(flat: np.ndarray) -> np.ndarray:
        return evaluate(flat).gradient.ravel()

    for _ in range(5):
        point = rng.normal(size=9)
        assert check_grad(loss, gradient, point) < 1e-4 * max(
            1, np.abs(gradient(point)).max()
        )


def test_sums_extrapolate_to_unmixings_nearby() -> None:
    rng = np.random.default_rng(1)
    white, patterns, unmixing = (
        rng.uniform(-1.7, 1.7, (80, 3)),
        rng.normal(size=(20, 3)),
        rng.normal(size=(3, 3)),
    )
    near = unmixing + 1e-3 * rng.normal(size=(3, 3))
    guessed = compute_losses(sum_at(unmixing, white), near[None], 80, patterns)
    exact = compute_losses(sum_at(near, white), near[None], 80, patterns)
    assert guessed.loss[0] == pytest.approx(exact.loss[0], abs=1e-5)
    np.testing.assert_allclose(guessed.gradient, exact.gradient, rtol=1e-3, atol=1e-3)


def test_the_term_of_regions_is_a_log_density() -> None:
    """Scaling patterns and unmixing together changes the term by R M log(scale)."""
    rng = np.random.default_rng(0)
    patterns, unmixing = rng.normal(size=(15, 2)), rng.normal(size=(2, 2))
    only_regions = LikelihoodWeights(regions=1.0, independence=0.0)
    none = LossTerm(0.0, np.zeros((2, 2)))

    def evaluate(scale: float) -> float:
        logdet = np.linalg.slogdet(scale * unmixing)[1]
        return float(
            add_pattern_terms(
                none, scale * unmixing, logdet, scale * patterns, 40, only_regions
            ).loss
        )

    assert evaluate(3.0) - evaluate(1.0) == pytest.approx(15 * 2 * np.log(3))
