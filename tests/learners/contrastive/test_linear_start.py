"""The linear model that the trajectory learner starts from, on data whose truth is
known.
"""

from itertools import product

import numpy as np
import pytest

from rindices.errors import InputError
from rindices.learners.contrastive.estimator import solve_people
from rindices.learners.contrastive.linear_start import sum_contrasts
from rindices.learners.contrastive.rotation import compute_severity_weights
from rindices.selection.agreement import pattern_c_index
from tests.learners.helpers import LinearCohort


@pytest.mark.parametrize("patients", [20, 60])
@pytest.mark.parametrize("seed", range(4))
def test_data_without_patterns_still_give_a_start(patients, seed):
    rng = np.random.default_rng(seed)
    people, y = rng.normal(size=(40 + patients, 30)), np.repeat([0, 1], [40, patients])
    for width in (1, 2, 4):
        start = solve_people(people[y == 0], people[y == 1], width, seed)
        assert all(
            np.isfinite(values).all() for values in (start.patterns, *start.prior)
        )


def test_a_start_ranks_severities():
    truth = LinearCohort(controls=150, patients=400)
    start = solve_people(truth.controls, truth.patients, 2, 0)
    weights = compute_severity_weights(start.patterns, start.noise)
    assert pattern_c_index(truth.z, truth.patients @ weights).mean > 0.82
    assert np.linalg.norm(
        start.noise - np.cov(truth.controls.T)
    ) < 0.2 * np.linalg.norm(start.noise)


def test_the_prior_has_the_correlation_of_the_severities():
    truth = LinearCohort(controls=400, patients=900, correlation=0.8)
    start = solve_people(truth.controls, truth.patients, 2, 0)
    assert 0.5 < (start.prior.factor @ start.prior.factor.T)[0, 1] < 0.98


def test_too_few_patients_raise_an_error():
    truth = LinearCohort(controls=10, patients=3)
    with pytest.raises(InputError, match="3 patients cannot give 3 patterns"):
        solve_people(truth.controls, truth.patients, 3, 0)


def test_contrast_sums_against_a_loop_and_finite_differences():
    rng = np.random.default_rng(0)
    white, directions = rng.normal(size=(40, 3)), rng.normal(size=(2, 3, 3))
    values, gradients, curvatures = sum_contrasts(white, directions)

    def evaluate(direction):
        s = white @ direction
        return np.array([(s * np.exp(-0.5 * s**2)).sum(), np.exp(-0.5 * s**2).sum()])

    for start, row in product(range(2), range(3)):
        direction = directions[start, row]
        np.testing.assert_allclose(values[start, row], evaluate(direction))
        steps = 1e-4 * np.eye(3)
        slopes = [
            (evaluate(direction + step) - evaluate(direction - step)) / 2e-4
            for step in steps
        ]
        np.testing.assert_allclose(
            gradients[start, row], np.transpose(slopes), atol=1e-5
        )
        for k, step in enumerate(steps):
            moved = [
                sum_contrasts(white, (direction + sign * step)[None, None])[1][0, 0]
                for sign in (1, -1)
            ]
            np.testing.assert_allclose(
                curvatures[start, row, :, k], (moved[0] - moved[1]) / 2e-4, atol=1e-5
            )
