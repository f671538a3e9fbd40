"""Sums over patients with missing cells, against a loop over people with the measured
part of the covariance.
"""

import numpy as np
import pytest

from rindices.learners.inference import InteractingHead, TrajectoryHead
from rindices.learners.severity_posterior import (
    compute_log_copula,
    make_severity_points,
)
from rindices.learners.trajectory.expectation import (
    ControlSums,
    PatientSums,
    compute_log_likelihood,
)
from rindices.learners.trajectory.model import TrajectoryModel

N_REGIONS = 8


@pytest.fixture(params=["additive", "interacting"])
def model(request: pytest.FixtureRequest) -> TrajectoryModel:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(N_REGIONS, N_REGIONS))
    correlation = np.array([[1.0, 0.4], [0.4, 1.0]])
    noise = root @ root.T / N_REGIONS + 0.3 * np.eye(N_REGIONS)
    interaction = (
        np.array([[0.0, 0.8], [-0.4, 0.0]]) if request.param == "interacting" else None
    )
    return TrajectoryModel(
        steps=-rng.random((2, 5, N_REGIONS)),
        noise=noise,
        correlation=correlation,
        common=np.full((2, 5), 0.2),
        interaction=interaction,
    )


def make_head(model: TrajectoryModel) -> TrajectoryHead:
    ones, zeros = np.ones(N_REGIONS), np.zeros(N_REGIONS)
    arrays = {
        "control_mean": zeros,
        "control_scale": ones,
        "log_constant": np.array(0.0),
        "shift_mean": zeros,
        "shift_scale": ones,
        "weights": model.weights,
        "steps": model.steps,
        "correlation": model.correlation,
        "precision": np.linalg.inv(model.noise),
    }
    if model.interaction is None:
        return TrajectoryHead(**arrays)
    return InteractingHead(**arrays, interaction=model.interaction)


def compute_changes(model: TrajectoryModel) -> np.ndarray:
    """Change of each region at each point, one pattern after the other."""
    points, changes = (
        make_severity_points(2),
        np.zeros((len(make_severity_points(2)), N_REGIONS)),
    )
    for row, z in zip(changes, points, strict=True):
        for k in range(2):
            growth = (
                1.0
                if model.interaction is None
                else 1.0 + model.interaction[k, 1 - k] * z[1 - k]
            )
            row += growth * (np.clip(5 * z[k] - np.arange(5), 0, 1) @ model.steps[k])
    return changes


def make_people(n: int, share: float = 0.3) -> np.ndarray:
    rng = np.random.default_rng(1)
    people = rng.normal(-1.0, 1.5, size=(n, N_REGIONS))
    people[rng.random(people.shape) < share] = np.nan
    people[0] = 0.3  # one who lacks nothing
    people[np.isnan(people).all(axis=1), 0] = 0.5
    return people


def compute_probabilities(
    person: np.ndarray, model: TrajectoryModel
) -> tuple[np.ndarray, float]:
    """Probabilities of the points and log-likelihood, by the densities of the measured
    regions.
    """
    o = ~np.isnan(person)
    changes = compute_changes(model)
    noise = model.noise[np.ix_(o, o)]
    deviations = person[o] - changes[:, o]
    density = -0.5 * ((deviations @ np.linalg.inv(noise)) * deviations).sum(axis=1)
    density += compute_log_copula(model.correlation) - 0.5 * np.linalg.slogdet(noise)[1]
    return np.exp(density) / np.exp(density).sum(), float(
        np.log(np.exp(density).mean())
    )


def test_sums_with_missing_cells_against_a_loop(model: TrajectoryModel) -> None:
    patients = make_people(25)
    sums = PatientSums.compute(patients, model)
    changes, basis = compute_changes(model), model.point_basis
    cross, scatter, moments = (
        np.zeros((N_REGIONS, 10)),
        np.zeros((N_REGIONS, N_REGIONS)),
        np.zeros((10, 10)),
    )
    for person in patients:
        m = np.isnan(person)
        p = compute_probabilities(person, model)[0]
        slope = np.linalg.solve(model.noise[np.ix_(~m, ~m)], model.noise[np.ix_(~m, m)])
        completed = np.repeat(person[None], len(basis), axis=0)  # at each point
        completed[:, m] = changes[:, m] + (person[~m] - changes[:, ~m]) @ slope
        cross += completed.T @ (p[:, None] * basis)
        scatter += completed.T @ (p[:, None] * completed)
        scatter[np.ix_(m, m)] += (
            model.noise[np.ix_(m, m)] - model.noise[np.ix_(m, ~m)] @ slope
        )
        moments += basis.T @ (p[:, None] * basis)
    np.testing.assert_allclose(model.combine(sums.cross), cross)
    np.testing.assert_allclose(sums.scatter, scatter)
    np.testing.assert_allclose(model.combine(model.combine(sums.moments).T), moments)
    assert sums.number == 25


def test_likelihood_is_that_of_the_measured_cells(model: TrajectoryModel) -> None:
    patients = make_people(12)
    expected = [compute_probabilities(person, model)[1] for person in patients]
    np.testing.assert_allclose(compute_log_likelihood(patients, model), expected)


def test_chunks_do_not_change_the_sums(
    model: TrajectoryModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    patients = make_people(25)
    whole, likelihoods = (
        PatientSums.compute(patients, model),
        compute_log_likelihood(patients, model),
    )
    monkeypatch.setattr(
        "rindices.learners.trajectory.expectation._MAX_PROBABILITIES",
        3_000,
    )
    in_chunks = vars(PatientSums.compute(patients, model))
    for name, values in vars(whole).items():
        np.testing.assert_allclose(values, in_chunks[name], err_msg=name)
    np.testing.assert_allclose(likelihoods, compute_log_likelihood(patients, model))


def test_controls_with_missing_cells(model: TrajectoryModel) -> None:
    controls = make_people(20)
    sums = ControlSums.compute(controls, model)
    scatter = np.zeros((N_REGIONS, N_REGIONS))
    for person in controls:
        m = np.isnan(person)
        slope = np.linalg.solve(model.noise[np.ix_(~m, ~m)], model.noise[np.ix_(~m, m)])
        completed = person.copy()
        completed[m] = person[~m] @ slope
        scatter += np.outer(completed, completed)
        scatter[np.ix_(m, m)] += (
            model.noise[np.ix_(m, m)] - model.noise[np.ix_(m, ~m)] @ slope
        )
    np.testing.assert_allclose(sums.scatter, scatter)


@pytest.mark.parametrize("n_missing", [1, 3, 6])
def test_a_head_infers_from_the_measured_regions(
    model: TrajectoryModel, n_missing: int
) -> None:
    rng = np.random.default_rng(n_missing)
    head = make_head(model)
    people = rng.normal(-1.0, 1.0, size=(7, N_REGIONS))
    missing = rng.choice(N_REGIONS, n_missing, replace=False)
    people[:, np.sort(missing)] = np.nan
    points = make_severity_points(2)
    probabilities = np.array(
        [compute_probabilities(person, model)[0] for person in people]
    )
    np.testing.assert_allclose(head.infer(people), probabilities @ points, atol=1e-8)
    few = head.leave_out(np.sort(missing))
    assert (few.weights[missing] == 0).all()
    assert (few.expected_variance > head.expected_variance).all()
    filled = np.where(np.isnan(people), 5.0, people)  # of weight 0
    np.testing.assert_allclose(head.infer(people), few.infer(filled), atol=1e-12)
    order = rng.permutation(7)
    np.testing.assert_allclose(head.infer(people[order]), head.infer(people)[order])


def test_expected_variance_is_the_mean_over_patients_of_the_model(
    model: TrajectoryModel,
) -> None:
    rng = np.random.default_rng(0)
    head, points = make_head(model), make_severity_points(2)
    density = np.exp(compute_log_copula(model.correlation))
    drawn = rng.choice(len(points), 4_000, p=density / density.sum())
    noise = rng.multivariate_normal(np.zeros(N_REGIONS), model.noise, size=4_000)
    people = compute_changes(model)[drawn] + noise
    error = np.square(head.infer(people) - points[drawn]).mean(
        axis=0
    )  # of posterior means it is the variance
    np.testing.assert_allclose(
        head.expected_variance, error, rtol=0.2
    )  # a mean over 128 draws
