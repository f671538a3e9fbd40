"""EM for patterns as curves: sums against loops, recovery of known curves, small and large problems."""

import numpy as np
import pytest
from scipy.stats import kendalltau
from sklearn.covariance import ledoit_wolf

from rindices.learners.normal_variation import shrink_scatter
from rindices.learners.severity_posterior import compute_step_basis, make_point_basis
from rindices.learners.trajectory.expectation_maximisation import (
    ControlSums,
    PatientSums,
    TrajectoryModel,
    TrajectoryProblem,
    _solve_interaction,
    advance_together,
    compute_log_likelihood,
    fit_trajectories,
    update_model,
)
from rindices.selection.agreement import pattern_c_index
from tests.learners.trajectory.helpers import N_REGIONS, simulate_unfolding


def make_true_start(cohort, correlation: float = 0.0) -> TrajectoryModel:
    """A start with the right regions, which all change together."""
    steps = np.zeros((2, 5, N_REGIONS))
    for m, regions in enumerate(cohort.regions):
        steps[m][:, list(regions)] = -0.4
    noise = np.cov(cohort.shifts[cohort.y == 0].T) + 0.1 * np.eye(N_REGIONS)
    return TrajectoryModel(steps, noise, np.array([[1, correlation], [correlation, 1]]), np.full((2, 5), 0.2))


def infer(model: TrajectoryModel, people):
    return model.posterior.compute_means(people @ model.weights)


def test_sums_against_a_loop_over_people() -> None:
    cohort = simulate_unfolding(n_patients=7)
    patients, model = cohort.shifts[cohort.y == 1], make_true_start(cohort, 0.3)
    sums = PatientSums.compute(patients, model)
    posterior, weights = model.posterior, model.weights
    cross, fourth, total = np.zeros((N_REGIONS, 10)), 0.0, np.zeros(len(posterior.points))
    for person in patients:
        p = posterior._compute_probabilities(person[None] @ weights)[0][0]
        expected = p @ posterior.basis
        residual = person - expected @ model.flat_steps
        cross += np.outer(person, expected)
        fourth += (residual @ residual) ** 2
        total += p
    np.testing.assert_allclose(sums.cross, cross)
    np.testing.assert_allclose(sums.point_weights, total)
    assert sums.fourth_power == pytest.approx(fourth)
    np.testing.assert_allclose(sums.scatter, patients.T @ patients)


def test_sums_of_two_hospitals_give_the_model_of_all_people() -> None:
    cohort = simulate_unfolding()
    patients, controls, model = cohort.shifts[cohort.y == 1], cohort.shifts[cohort.y == 0], make_true_start(cohort)
    variances = np.full((2, N_REGIONS), 0.5)
    together = update_model(
        model, variances, PatientSums.compute(patients, model), ControlSums.compute(controls, model), rho=0.9
    )[0]
    parts = [PatientSums.compute(part, model) for part in (patients[:150], patients[150:])]
    added = PatientSums(*(first + second for first, second in zip(*parts, strict=True)))
    control_parts = [ControlSums.compute(part, model) for part in (controls[:40], controls[40:])]
    added_controls = ControlSums(*(first + second for first, second in zip(*control_parts, strict=True)))
    apart = update_model(model, variances, added, added_controls, rho=0.9)[0]
    for first, second in zip(together[:4], apart[:4], strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-8, atol=1e-10)


def test_interactions_are_found() -> None:
    cohort = simulate_unfolding(last_onset=0.0, n_patients=1_500, interaction=1.0)
    controls, patients = cohort.shifts[cohort.y == 0], cohort.shifts[cohort.y == 1]
    problem = TrajectoryProblem(controls, patients, make_true_start(cohort))
    curved = fit_trajectories([problem], "curved")[0].model
    model = fit_trajectories([problem._replace(start=curved)], "interacting")[0].model
    assert model.interaction is not None
    assert model.interaction[0, 1] > 0.3
    assert abs(model.interaction[1, 0]) < 0.25
    assert compute_log_likelihood(patients, model).mean() > compute_log_likelihood(patients, curved).mean() + 0.02
    additive, interacting = (pattern_c_index(cohort.z, infer(each, patients)).mean for each in (curved, model))
    assert interacting > additive


def test_interactions_solve_their_regression() -> None:
    """Against least squares over all patients and points, with the prior as additional rows."""
    cohort = simulate_unfolding(n_patients=12, interaction=1.0)
    patients = cohort.shifts[cohort.y == 1]
    model = make_true_start(cohort)._replace(interaction=np.array([[0.0, 0.2], [-0.1, 0.0]]))
    found = _solve_interaction(model, PatientSums.compute(patients, model))
    posterior = model.posterior
    root = np.linalg.inv(np.linalg.cholesky(model.noise))
    parts = make_point_basis(2).reshape(-1, 2, 5)
    first, second = (root @ (parts[:, k] @ model.steps[k]).T for k in range(2))  # (R, G), whitened
    features = np.stack([posterior.points[:, 1] * first, posterior.points[:, 0] * second], axis=-1)
    rows, targets = [np.eye(2) / 0.5], [np.zeros(2)]
    for person in patients:
        weight = np.sqrt(posterior._compute_probabilities(person[None] @ model.weights)[0][0])
        rows.append((features * weight[:, None]).reshape(-1, 2))
        targets.append((((root @ person)[:, None] - first - second) * weight).ravel())
    expected = np.linalg.lstsq(np.concatenate(rows), np.concatenate(targets))[0]
    np.testing.assert_allclose([found[0, 1], found[1, 0]], expected, rtol=1e-8)


def test_shrinkage_from_sums_is_that_of_scikit_learn() -> None:
    people = simulate_unfolding().shifts[:60]
    fourth = float(((people**2).sum(axis=1) ** 2).sum())
    expected = ledoit_wolf(people, assume_centered=True)[0]
    np.testing.assert_allclose(shrink_scatter(people.T @ people, fourth, len(people)), expected, rtol=1e-10)


def test_curves_find_severities_and_order_that_straight_patterns_miss() -> None:
    cohort = simulate_unfolding(n_patients=600)
    controls, patients, others = cohort.shifts[cohort.y == 0], cohort.shifts[150:550], cohort.shifts[550:]
    problem = TrajectoryProblem(controls, patients, make_true_start(cohort))
    fits = {shape: fit_trajectories([problem], shape)[0].model for shape in ("straight", "curved")}
    scores = {shape: pattern_c_index(cohort.z[:400], infer(model, patients)).mean for shape, model in fits.items()}
    assert scores["curved"] > scores["straight"] + 0.015
    likelihoods = {shape: compute_log_likelihood(others, model).mean() for shape, model in fits.items()}
    assert likelihoods["curved"] > likelihoods["straight"] + 0.5
    levels = np.linspace(0, 1, 101)
    curves = np.einsum("qk,mkr->mqr", compute_step_basis(levels[:, None], 5), fits["curved"].steps)
    for curve, onsets, regions in zip(curves, cohort.onsets, cohort.regions, strict=True):
        shares = curve[:, list(regions)] / curve[-1, list(regions)]
        assert kendalltau((shares > 0.25).argmax(axis=0), onsets).statistic > 0.8


def test_straight_patterns_stay_straight_and_are_preferred_where_they_are_true() -> None:
    cohort = simulate_unfolding(last_onset=0.0, n_patients=600)
    controls, patients, others = cohort.shifts[cohort.y == 0], cohort.shifts[150:550], cohort.shifts[550:]
    problem = TrajectoryProblem(controls, patients, make_true_start(cohort))
    straight, curved = (fit_trajectories([problem], shape)[0].model for shape in ("straight", "curved"))
    for steps in straight.steps:
        assert np.linalg.matrix_rank(steps, tol=1e-6 * np.abs(steps).max()) == 1
    assert compute_log_likelihood(others, straight).mean() > compute_log_likelihood(others, curved).mean()


def test_held_out_patients_end_the_iterations() -> None:
    cohort = simulate_unfolding(n_controls=60, n_patients=80)
    controls, patients = cohort.shifts[cohort.y == 0], cohort.shifts[cohort.y == 1]
    problem = TrajectoryProblem(controls, patients[:60], make_true_start(cohort), held_out=patients[60:])
    (fit,) = fit_trajectories([problem], "curved")
    assert fit.held_out == pytest.approx(compute_log_likelihood(patients[60:], fit.model).mean())
    (again,) = fit_trajectories([problem._replace(held_out=None)], "curved", fit.n_iterations)
    np.testing.assert_array_equal(again.model.steps, fit.model.steps)


def test_members_take_as_many_steps_as_suit_them_on_average() -> None:
    paths = [[0.0, 1.0, 2.0, 1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 2.0, 4.0, 4.0, 4.0, 4.0]]
    states, number = advance_together([iter(enumerate(path)) for path in paths], 6, 1e-3, lambda _: 2)
    assert (states, number) == ([(3, 1.0), (3, 4.0)], 3)
    nothing_held_out = [iter([(k, float("nan")) for k in range(5)])]
    assert advance_together(nothing_held_out, 4, 1e-3, lambda _: 2)[1] == 4


def test_correlated_severities() -> None:
    cohort = simulate_unfolding(last_onset=0.0)
    rng = np.random.default_rng(3)
    normal = rng.multivariate_normal(np.zeros(2), [[1, 0.7], [0.7, 1]], 400)
    z = normal.argsort(axis=0).argsort(axis=0) / 400
    shifts = cohort.shifts.copy()
    shifts[150:] = shifts[rng.integers(150, size=400)]
    for m, regions in enumerate(cohort.regions):
        shifts[150:, regions] -= 3.0 * z[:, [m]]
    (fit,) = fit_trajectories([TrajectoryProblem(shifts[:150], shifts[150:], make_true_start(cohort))], "straight")
    assert fit.model.correlation[0, 1] == pytest.approx(0.7, abs=0.1)
