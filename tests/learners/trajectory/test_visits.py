"""EM of patterns that levels and trends share."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from rindices.learners.prepared_people import reduce_visits
from rindices.learners.trajectory.model import TrajectoryModel
from rindices.learners.trajectory.visits import (
    VisitModel,
    VisitProblem,
    VisitRows,
    _RowInformation,
    _update_patterns,
    fit_visits,
    make_proportional_model,
)
from tests.learners.trajectory.helpers import (
    N_REGIONS,
    RETEST_SD,
    FollowedCohort,
    simulate_followed,
)


def make_rows(cohort: FollowedCohort) -> tuple[VisitRows, VisitRows]:
    reduced = reduce_visits(cohort.visits, cohort.person, cohort.times, cohort.y == 0)
    is_followed = reduced.n_visits > 1
    controls, patients = (
        VisitRows(
            reduced.level[cohort.y == label],
            reduced.trend[(cohort.y == label) & is_followed],
        )
        for label in (0, 1)
    )
    return controls, patients


def compute_cosines(cohort: FollowedCohort, model: TrajectoryModel) -> np.ndarray:
    both = model.patterns, cohort.patterns
    found, true = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in both)
    return np.abs(found @ true.T).max(axis=1)


def test_coupled_patterns_are_closer_to_the_truth_than_those_of_the_mean_of_visits() -> (
    None
):
    cohort = simulate_followed(0.6)
    controls, patients = make_rows(cohort)
    rng = np.random.default_rng(1)
    wrong = cohort.patterns + rng.normal(0, 0.6, cohort.patterns.shape)
    start = make_proportional_model(wrong, np.eye(N_REGIONS), patients.level)
    problem = VisitProblem(controls=controls, patients=patients, start=start)
    (mean,), (coupled,) = (
        fit_visits([problem], 15, coupled=False),
        fit_visits([problem], 15),
    )
    assert mean.model.level is start  # trends do not move the patterns
    np.testing.assert_allclose(
        mean.model.trend.patterns * mean.model.scale, start.patterns, atol=1e-10
    )
    np.testing.assert_allclose(
        coupled.model.trend.patterns * coupled.model.scale,
        coupled.model.level.patterns,
        atol=1e-10,
    )
    assert (
        compute_cosines(cohort, coupled.model.level).min()
        > 0.95
        > compute_cosines(cohort, start).max()
    )
    assert (
        coupled.model.compute_log_likelihood(patients)
        > mean.model.compute_log_likelihood(patients) + 1
    )
    assert (coupled.model.trend.common > 0).all()  # severities do not fall
    noise = np.diag(coupled.model.retest_noise)
    assert noise.mean() == pytest.approx(RETEST_SD**2, rel=0.2)


def test_patterns_of_both_rows_are_the_generalised_least_squares_of_all() -> None:
    rng = np.random.default_rng(0)
    n_regions, common = 4, np.array([[0.2, 0.3], [0.1, 0.4]])
    roots = rng.normal(size=(2, n_regions, n_regions)) / 3 + np.eye(n_regions)
    precisions, scales = (
        roots @ roots.transpose(0, 2, 1),
        np.array([np.ones(n_regions), [0.5, 1.0, 2.0, 3.0]]),
    )
    bases, people = rng.random((2, 30, 4)), rng.normal(size=(2, 30, n_regions))
    rows = [
        _RowInformation(
            common=common,
            precision=precision,
            cross=x.T @ basis,
            gram=basis.T @ basis,
            scale=scale,
        )
        for precision, scale, basis, x in zip(
            precisions, scales, bases, people, strict=True
        )
    ]
    patterns, variances = rng.normal(size=(2, n_regions)), np.full((2, n_regions), 0.7)
    for _ in range(
        200
    ):  # with fixed variances, cycling over patterns is coordinate ascent
        patterns = _update_patterns(patterns, variances, rows)[0]
    information, right = np.eye(2 * n_regions) / 0.7, np.zeros(2 * n_regions)
    for precision, scale, basis, x in zip(
        precisions, scales, bases, people, strict=True
    ):
        for z, own in zip(basis, x, strict=True):
            severities = (z.reshape(2, 2) * common).sum(axis=1)
            design = np.kron(severities, np.diag(1 / scale))
            information += design.T @ precision @ design
            right += design.T @ precision @ own
    np.testing.assert_allclose(
        patterns.ravel(), np.linalg.solve(information, right), rtol=1e-6
    )


def test_the_likelihood_is_that_of_all_visits() -> None:
    """With two visits, level and trend are an orthogonal transform of them, and no
    disease is a normal distribution.
    """
    rng = np.random.default_rng(2)
    steps, common = np.zeros((1, 5, 2)), np.full((1, 5), 0.2)
    normal, retest = (
        np.array([[1.0, 0.3], [0.3, 0.8]]),
        np.array([[0.2, 0.05], [0.05, 0.1]]),
    )
    scale = np.array([0.5, 2.0])
    level = TrajectoryModel(
        steps=steps, noise=normal + retest / 2, correlation=np.eye(1), common=common
    )
    trend = TrajectoryModel(
        steps=steps,
        noise=retest / np.outer(scale, scale),
        correlation=np.eye(1),
        common=common,
    )
    first, second = rng.normal(size=(2, 6, 2))
    rows = VisitRows((first + second) / 2, (second - first) / np.sqrt(2))
    found = VisitModel(level, trend, scale).compute_log_likelihood(rows)
    joint = np.block([[normal + retest, normal], [normal, normal + retest]])
    expected = (
        multivariate_normal(np.zeros(4), joint)
        .logpdf(np.hstack([first, second]))
        .mean()
    )
    constant = (
        2 * np.log(2 * np.pi) - 0.5 * np.log(2) * -2
    )  # of the density, and of the scale of the level
    assert found - expected == pytest.approx(constant, abs=1e-10)


def test_missing_cells_of_levels_are_modelled() -> None:
    controls, patients = make_rows(simulate_followed(0.6))
    level = patients.level.copy()
    level[::7, 3] = np.nan
    start = make_proportional_model(
        simulate_followed(0.6).patterns, np.eye(N_REGIONS), patients.level
    )
    (fit,) = fit_visits(
        [
            VisitProblem(
                controls=controls,
                patients=patients._replace(level=level),
                start=start,
                held_out=patients,
            )
        ],
        3,
    )
    assert np.isfinite(fit.held_out)
    assert np.isfinite(fit.model.level.steps).all()
