"""EM for patterns as curves: sums against loops, recovery of known curves, small and
large problems.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kendalltau, norm
from sklearn.covariance import ledoit_wolf

from rindices.learners.normal_variation import shrink_scatter
from rindices.learners.severity_posterior import compute_step_basis, make_point_basis
from rindices.learners.trajectory.em import StepRule
from rindices.learners.trajectory.expectation import (
    ControlSums,
    CurveSums,
    PatientSums,
    compute_log_likelihood,
)
from rindices.learners.trajectory.maximisation import (
    FitState,
    solve_interaction,
    update_common_steps,
    update_model,
)
from rindices.learners.trajectory.model import TrajectoryModel
from rindices.selection.agreement import pattern_c_index
from tests.learners.trajectory.helpers import N_REGIONS, fit_people, simulate_unfolding


def make_true_start(cohort, correlation: float = 0.0) -> TrajectoryModel:
    """A start with the right regions, which all change together."""
    steps = np.zeros((2, 5, N_REGIONS))
    for m, regions in enumerate(cohort.regions):
        steps[m][:, list(regions)] = -0.4
    noise = np.cov(cohort.shifts[cohort.y == 0].T) + 0.1 * np.eye(N_REGIONS)
    return TrajectoryModel(
        steps=steps,
        noise=noise,
        correlation=np.array([[1, correlation], [correlation, 1]]),
        common=np.full((2, 5), 0.2),
    )


def infer(model: TrajectoryModel, people):
    return model.posterior.compute_means(people @ model.weights)


def test_sums_against_a_loop_over_people() -> None:
    cohort = simulate_unfolding(n_patients=7)
    patients, model = cohort.shifts[cohort.y == 1], make_true_start(cohort, 0.3)
    sums = PatientSums.compute(patients, model)
    posterior, weights = model.posterior, model.weights
    cross, total, normal = (
        np.zeros((N_REGIONS, 10)),
        np.zeros((10, 10)),
        np.zeros((2, 2)),
    )
    for person in patients:
        p = posterior._compute_probabilities(person[None] @ weights)[0][0]
        cross += np.outer(person, p @ posterior.basis)
        for probability, b, z in zip(p, posterior.basis, posterior.points, strict=True):
            total += probability * np.outer(b, b)
            normal += probability * np.outer(norm.ppf(z), norm.ppf(z))
    np.testing.assert_allclose(sums.cross, cross)
    np.testing.assert_allclose(sums.moments, total)
    np.testing.assert_allclose(sums.normal, normal)
    np.testing.assert_allclose(sums.scatter, patients.T @ patients)


def test_sums_of_two_hospitals_give_the_model_of_all_people() -> None:
    cohort = simulate_unfolding()
    patients, controls, model = (
        cohort.shifts[cohort.y == 1],
        cohort.shifts[cohort.y == 0],
        make_true_start(cohort),
    )
    state = FitState(model, np.full((2, N_REGIONS), 0.5))
    together = update_model(
        state, CurveSums.compute(model, controls, patients), rho=0.9
    ).model
    parts = [
        PatientSums.compute(part, model) for part in (patients[:150], patients[150:])
    ]
    added = parts[0].add(parts[1])
    control_parts = [
        ControlSums.compute(part, model) for part in (controls[:40], controls[40:])
    ]
    added_controls = ControlSums(
        *(first + second for first, second in zip(*control_parts, strict=True))
    )
    apart = update_model(state, CurveSums(added, added_controls), rho=0.9).model
    for name in ("steps", "noise", "correlation", "common"):
        np.testing.assert_allclose(
            getattr(together, name), getattr(apart, name), rtol=1e-8, atol=1e-10
        )


def test_interactions_are_found() -> None:
    cohort = simulate_unfolding(last_onset=0.0, n_patients=1_500, interaction=1.0)
    controls, patients = cohort.shifts[cohort.y == 0], cohort.shifts[cohort.y == 1]
    staged = fit_people("staged", make_true_start(cohort), controls, patients).model
    model = fit_people("interacting", staged, controls, patients).model
    assert model.interaction is not None
    assert model.interaction[0, 1] > 0.3
    assert abs(model.interaction[1, 0]) < 0.25
    assert (
        compute_log_likelihood(patients, model).mean()
        > compute_log_likelihood(patients, staged).mean() + 0.02
    )
    additive, interacting = (
        pattern_c_index(cohort.z, infer(each, patients)).mean
        for each in (staged, model)
    )
    assert interacting > additive


def test_interactions_solve_their_regression() -> None:
    """Against least squares over all patients and points, with the prior as additional
    rows.
    """
    cohort = simulate_unfolding(n_patients=12, interaction=1.0)
    patients = cohort.shifts[cohort.y == 1]
    model = replace(
        make_true_start(cohort), interaction=np.array([[0.0, 0.2], [-0.1, 0.0]])
    )
    found = solve_interaction(model, PatientSums.compute(patients, model))
    posterior = model.posterior
    root = np.linalg.inv(np.linalg.cholesky(model.noise))
    parts = make_point_basis(2).reshape(-1, 2, 5)
    first, second = (
        root @ (parts[:, k] @ model.steps[k]).T for k in range(2)
    )  # (R, G), whitened
    features = np.stack(
        [posterior.points[:, 1] * first, posterior.points[:, 0] * second], axis=-1
    )
    rows, targets = [np.eye(2) / 0.5], [np.zeros(2)]
    for person in patients:
        weight = np.sqrt(
            posterior._compute_probabilities(person[None] @ model.weights)[0][0]
        )
        rows.append((features * weight[:, None]).reshape(-1, 2))
        targets.append((((root @ person)[:, None] - first - second) * weight).ravel())
    expected = np.linalg.lstsq(np.concatenate(rows), np.concatenate(targets))[0]
    np.testing.assert_allclose([found[0, 1], found[1, 0]], expected, rtol=1e-8)


def test_common_steps_of_proportional_patterns_are_found_and_not_negative() -> None:
    rng = np.random.default_rng(0)
    patterns, noise = rng.normal(size=(2, 12)), np.eye(12) + 0.3
    truth = np.array([[0.1, 0.3, 0.2, 0.05, 0.35], [0.3, 0.1, 0.1, 0.4, 0.1]])
    basis = compute_step_basis(rng.random((300, 2)), 5)
    people = basis @ np.einsum("mk,mr->mkr", truth, patterns).reshape(10, 12)
    start = np.tile([0.3, 0.1, 0.2, 0.2, 0.2], (2, 1))
    for m in range(2):  # the other pattern is known
        common = truth.copy()
        common[m] = start[m]
        model = TrajectoryModel(
            steps=np.einsum("mk,mr->mkr", common, patterns),
            noise=noise,
            correlation=np.eye(2),
            common=common,
        )
        found = update_common_steps(model, people.T @ basis, basis.T @ basis)
        np.testing.assert_allclose(found[m], truth[m], rtol=1e-6)
    reversed_people = -basis[:, :5] @ np.outer(truth[0], patterns[0])
    model = TrajectoryModel(
        steps=np.einsum("mk,mr->mkr", start[:1], patterns[:1]),
        noise=noise,
        correlation=np.eye(1),
        common=start[:1],
    )
    sums = reversed_people.T @ basis[:, :5], basis[:, :5].T @ basis[:, :5]
    np.testing.assert_array_equal(
        update_common_steps(model, *sums), start[:1]
    )  # nothing better is positive


def test_shrinkage_from_sums_is_that_of_scikit_learn() -> None:
    people = simulate_unfolding().shifts[:60]
    fourth = float(((people**2).sum(axis=1) ** 2).sum())
    expected = ledoit_wolf(people, assume_centered=True)[0]
    np.testing.assert_allclose(
        shrink_scatter(people.T @ people, fourth, len(people)), expected, rtol=1e-10
    )


def test_curves_find_severities_and_order_that_proportional_patterns_miss() -> None:
    cohort = simulate_unfolding(n_patients=600)
    controls, patients, others = (
        cohort.shifts[cohort.y == 0],
        cohort.shifts[150:550],
        cohort.shifts[550:],
    )
    start = make_true_start(cohort)
    fits = {
        shape: fit_people(shape, start, controls, patients).model
        for shape in ("proportional", "staged")
    }
    scores = {
        shape: pattern_c_index(cohort.z[:400], infer(model, patients)).mean
        for shape, model in fits.items()
    }
    assert scores["staged"] > scores["proportional"] + 0.015
    likelihoods = {
        shape: compute_log_likelihood(others, model).mean()
        for shape, model in fits.items()
    }
    assert likelihoods["staged"] > likelihoods["proportional"] + 0.5
    levels = np.linspace(0, 1, 101)
    curves = np.einsum(
        "qk,mkr->mqr", compute_step_basis(levels[:, None], 5), fits["staged"].steps
    )
    for curve, onsets, regions in zip(
        curves, cohort.onsets, cohort.regions, strict=True
    ):
        shares = curve[:, list(regions)] / curve[-1, list(regions)]
        assert kendalltau((shares > 0.25).argmax(axis=0), onsets).statistic > 0.8


def test_proportional_patterns_stay_proportional_and_are_preferred_where_they_are_true() -> (
    None
):
    cohort = simulate_unfolding(last_onset=0.0, n_patients=600)
    controls, patients, others = (
        cohort.shifts[cohort.y == 0],
        cohort.shifts[150:550],
        cohort.shifts[550:],
    )
    start = make_true_start(cohort)
    proportional, staged = (
        fit_people(shape, start, controls, patients).model
        for shape in ("proportional", "staged")
    )
    for steps in proportional.steps:
        assert np.linalg.matrix_rank(steps, tol=1e-6 * np.abs(steps).max()) == 1
    assert (
        compute_log_likelihood(others, proportional).mean()
        > compute_log_likelihood(others, staged).mean()
    )


def test_held_out_patients_end_the_iterations() -> None:
    cohort = simulate_unfolding(n_controls=60, n_patients=80)
    controls, patients = cohort.shifts[cohort.y == 0], cohort.shifts[cohort.y == 1]
    start = make_true_start(cohort)
    fit = fit_people("staged", start, controls, patients[:60], patients[60:])
    assert fit.held_out == pytest.approx(
        compute_log_likelihood(patients[60:], fit.model).mean()
    )
    again = fit_people(
        "staged", start, controls, patients[:60], n_iterations=fit.n_iterations
    )
    np.testing.assert_array_equal(again.model.steps, fit.model.steps)


def test_members_take_as_many_steps_as_suit_them_on_average() -> None:
    paths = [[0.0, 1.0, 2.0, 1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 2.0, 4.0, 4.0, 4.0, 4.0]]
    rule: StepRule[int] = StepRule(6, 1e-3)
    steps = enumerate(zip(*paths, strict=True))
    while not rule.ends(
        [(k, value) for k, values in [next(steps)] for value in values], patience=2
    ):
        pass
    assert (rule.best, rule.n_best) == ([(3, 1.0), (3, 4.0)], 3)
    rule = StepRule(4, 1e-3)
    while not rule.ends([(0, float("nan"))], patience=2):
        pass
    assert rule.n_best == 4


def test_correlated_severities() -> None:
    cohort = simulate_unfolding(last_onset=0.0)
    rng = np.random.default_rng(3)
    normal = rng.multivariate_normal(np.zeros(2), [[1, 0.7], [0.7, 1]], 400)
    z = normal.argsort(axis=0).argsort(axis=0) / 400
    shifts = cohort.shifts.copy()
    shifts[150:] = shifts[rng.integers(150, size=400)]
    for m, regions in enumerate(cohort.regions):
        shifts[150:, regions] -= 3.0 * z[:, [m]]
    fit = fit_people(
        "proportional", make_true_start(cohort), shifts[:150], shifts[150:]
    )
    assert fit.model.correlation[0, 1] == pytest.approx(0.7, abs=0.1)
