"""People who lack regions: filled regions are conditional expectations."""

import numpy as np
import pytest

from rindices.errors import ModelError
from rindices.learners.inference import ContrastiveHead
from rindices.model.consensus import compute_measured_distances, make_measured_inference
from rindices.model.unusual import TrainingDistribution

N_REGIONS = 6


@pytest.fixture
def training() -> TrainingDistribution:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(300, N_REGIONS)) @ rng.normal(size=(N_REGIONS, N_REGIONS))
    return TrainingDistribution.fit(values, range(300))


def test_a_linear_index_is_its_conditional_expectation(training: TrainingDistribution) -> None:
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(N_REGIONS, 2))
    zeros, ones = np.zeros(N_REGIONS), np.ones(N_REGIONS)
    head = ContrastiveHead(zeros, ones, np.array(0.0), zeros, ones, weights)
    values, missing = rng.normal(size=(5, N_REGIONS)), np.array([1, 4])
    o = np.setdiff1d(np.arange(N_REGIONS), missing)
    covariance = training.covariance
    slope = np.linalg.solve(covariance[np.ix_(o, o)], covariance[np.ix_(o, missing)])
    expected = values.copy()
    expected[:, missing] = training.mean[missing] + (values[:, o] - training.mean[o]) @ slope
    left = covariance[np.ix_(missing, missing)] - covariance[np.ix_(missing, o)] @ slope
    values[:, missing] = np.nan
    infer, added = make_measured_inference([head], missing, training)
    np.testing.assert_allclose(infer([np.nan_to_num(values)]), expected @ weights)
    np.testing.assert_allclose(added, np.diag(weights[missing].T @ left @ weights[missing]), rtol=0.2)
    deviations = (expected - training.mean)[:, o]
    inverse = np.linalg.inv(covariance[np.ix_(o, o)])
    distances = np.sqrt(((deviations @ inverse) * deviations).sum(axis=1) * N_REGIONS / len(o))
    np.testing.assert_allclose(compute_measured_distances(np.nan_to_num(values), missing, training), distances)


def test_an_imported_model_needs_all_regions() -> None:
    zeros, ones = np.zeros(3), np.ones(3)
    head = ContrastiveHead(zeros, ones, np.array(0.0), zeros, ones, np.ones((3, 1)))
    with pytest.raises(ModelError, match="needs all of them"):
        make_measured_inference([head], np.array([0]), None)
