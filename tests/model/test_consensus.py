"""People who lack regions: filled regions are conditional expectations."""

import numpy as np
import pytest

from rindices.errors import ModelError
from rindices.learners.inference import ContrastiveHead
from rindices.model.consensus import (
    IndexMap,
    SimulatedPeople,
    compute_measured_distances,
    fill_regions,
    make_measured_inference,
)
from rindices.model.unusual import TrainingDistribution

N_REGIONS = 6


@pytest.fixture
def training() -> TrainingDistribution:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(300, N_REGIONS)) @ rng.normal(size=(N_REGIONS, N_REGIONS))
    return TrainingDistribution.fit(values, range(300))


def test_a_linear_index_is_its_conditional_expectation(
    training: TrainingDistribution,
) -> None:
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(N_REGIONS, 2))
    zeros, ones = np.zeros(N_REGIONS), np.ones(N_REGIONS)
    head = ContrastiveHead(
        control_mean=zeros,
        control_scale=ones,
        log_constant=np.array(0.0),
        shift_mean=zeros,
        shift_scale=ones,
        weights=weights,
    )
    values, missing = rng.normal(size=(5, N_REGIONS)), np.array([1, 4])
    o = np.setdiff1d(np.arange(N_REGIONS), missing)
    covariance = training.covariance
    slope = np.linalg.solve(covariance[np.ix_(o, o)], covariance[np.ix_(o, missing)])
    expected = values.copy()
    expected[:, missing] = (
        training.mean[missing] + (values[:, o] - training.mean[o]) @ slope
    )
    left = covariance[np.ix_(missing, missing)] - covariance[np.ix_(missing, o)] @ slope
    values[:, missing] = np.nan
    np.testing.assert_allclose(
        fill_regions(np.nan_to_num(values), missing, training), expected
    )
    _, added = make_measured_inference(
        [head], missing, SimulatedPeople.draw([head], training)
    )
    np.testing.assert_allclose(
        added, np.diag(weights[missing].T @ left @ weights[missing]), rtol=0.2
    )
    deviations = (expected - training.mean)[:, o]
    inverse = np.linalg.inv(covariance[np.ix_(o, o)])
    distances = np.sqrt(
        ((deviations @ inverse) * deviations).sum(axis=1) * N_REGIONS / len(o)
    )
    np.testing.assert_allclose(
        compute_measured_distances(np.nan_to_num(values), missing, training), distances
    )


def test_an_imported_model_needs_all_regions() -> None:
    zeros, ones = np.zeros(3), np.ones(3)
    head = ContrastiveHead(
        control_mean=zeros,
        control_scale=ones,
        log_constant=np.array(0.0),
        shift_mean=zeros,
        shift_scale=ones,
        weights=np.ones((3, 1)),
    )
    with pytest.raises(ModelError, match="needs all of them"):
        make_measured_inference([head], np.array([0]), None)


def test_the_map_gives_healthy_people_their_distribution_and_keeps_the_order() -> None:
    rng = np.random.default_rng(2)
    complete = np.stack([rng.beta(1, 6, (400, 2)), rng.uniform(size=(400, 2))])
    reduced = (
        0.5 + 0.5 * (complete - 0.5) + rng.normal(scale=0.02, size=complete.shape)
    )  # drawn to the prior mean
    index_map = IndexMap.fit(reduced, complete)
    healthy = index_map.apply(reduced[0])
    for level in (0.1, 0.5, 0.9):
        expected = np.quantile(complete[0], level, axis=0)
        np.testing.assert_allclose(
            np.quantile(healthy, level, axis=0), expected, atol=1e-3
        )
    severe = reduced[1] > reduced[0].max(axis=0)
    np.testing.assert_allclose(
        index_map.apply(reduced[1])[severe].mean(),
        complete[1][severe].mean(),
        atol=0.02,
    )
    grid = np.linspace(-0.5, 1.5, 200)[:, None].repeat(2, axis=1)
    mapped = index_map.apply(grid)
    assert (np.diff(mapped, axis=0) >= 0).all()
    np.testing.assert_allclose(
        mapped[0] - mapped[1], grid[0] - grid[1]
    )  # beyond the knots, people are shifted
    np.testing.assert_array_equal(
        IndexMap.fit(complete, complete).apply(complete[0]), complete[0]
    )


def test_healthy_people_who_lack_regions_keep_their_distribution_in_every_member(
    training: TrainingDistribution,
) -> None:
    """The members differ in what they lose, so the map of one would shift
    the others.
    """
    rng = np.random.default_rng(3)
    zeros, ones, missing = np.zeros(N_REGIONS), np.ones(N_REGIONS), np.array([0, 3, 5])
    heads = [
        ContrastiveHead(
            control_mean=zeros,
            control_scale=ones,
            log_constant=np.array(0.0),
            shift_mean=zeros,
            shift_scale=ones,
            weights=rng.normal(size=(N_REGIONS, 2)),
        )
        for _ in "12"
    ]
    healthy = 1.0 + rng.multivariate_normal(zeros, training.covariance, size=5_000)
    infer, _ = make_measured_inference(
        heads, missing, SimulatedPeople.draw(heads, training)
    )
    complete = np.concatenate([head.infer(healthy) for head in heads], axis=1)
    reduced, spread = infer([healthy]), complete.std(axis=0)
    for level in (0.1, 0.5, 0.9):
        shift = np.quantile(reduced, level, axis=0) - np.quantile(
            complete, level, axis=0
        )
        assert (np.abs(shift) < 0.2 * spread).all()
