"""Sums over the people of a part equal naive loops and numerical derivatives."""

import numpy as np

from rindices.learners.trajectory.expectation import PatientSums, compute_log_likelihood
from rindices.learners.trajectory.model import TrajectoryModel
from rindices.sums.batches import sum_moments
from rindices.sums.kinds import SentModel, scale_distances, sum_cosines
from rindices.sums.messages import Request, number_arrays, unpack_symmetric
from rindices.sums.questions import pack_model

RNG = np.random.default_rng(0)
PEOPLE = RNG.normal(size=(80, 6))


def make_model() -> TrajectoryModel:
    common = np.ones((2, 5)) / 5
    steps = common[:, :, None] * RNG.normal(size=(2, 1, 6))
    return TrajectoryModel(
        steps=steps,
        noise=np.eye(6) + 0.3,
        correlation=np.array([[1.0, 0.3], [0.3, 1.0]]),
        common=common,
    )


def test_moments_equal_a_loop() -> None:
    total, products = sum_moments(PEOPLE)
    np.testing.assert_allclose(total, sum(PEOPLE))
    np.testing.assert_allclose(
        unpack_symmetric(products), sum(np.outer(x, x) for x in PEOPLE)
    )


def test_expectations_equal_those_of_the_pooled_fit() -> None:
    model = make_model()
    sent = SentModel.read(
        Request(
            kind="curves",
            round=2,
            settings={},
            arrays=number_arrays([pack_model(model)]),
        ),
        0,
    )
    cross, second, normal = sent.sum_expectations(PEOPLE)
    expected = PatientSums.compute(PEOPLE, model)
    np.testing.assert_allclose(cross, expected.cross, atol=1e-9)
    np.testing.assert_allclose(unpack_symmetric(second), expected.moments, atol=1e-9)
    np.testing.assert_allclose(unpack_symmetric(normal), expected.normal, atol=1e-9)
    white = np.linalg.solve(np.linalg.cholesky(model.noise), PEOPLE.T)
    constant = (
        0.5 * (white**2).sum()
        + 80 * np.log(np.diag(np.linalg.cholesky(model.noise))).sum()
    )
    total = compute_log_likelihood(PEOPLE, model).sum()
    np.testing.assert_allclose(
        sent.compute_log_ratio(PEOPLE).sum() - constant, total, rtol=1e-9
    )


def test_distances_are_those_of_people_who_were_left_out() -> None:
    mean, covariance = PEOPLE.mean(axis=0), np.cov(PEOPLE.T, bias=True)
    scaled = (
        scale_distances(PEOPLE, mean, np.linalg.inv(covariance), 80, 1.0)
        * 2.5
        * np.sqrt(6)
    )
    others = np.delete(PEOPLE, 7, axis=0)
    centred = PEOPLE[7] - others.mean(axis=0)
    exact = np.sqrt(centred @ np.linalg.inv(np.cov(others.T, bias=True)) @ centred)
    np.testing.assert_allclose(scaled[7], exact, rtol=0.02)


def test_cosines_equal_a_loop() -> None:
    values = RNG.random((20, 2))
    sums = sum_cosines(values, 4)
    np.testing.assert_allclose(sums[1, 2], np.cos(3 * np.pi * values[:, 1]).sum())
