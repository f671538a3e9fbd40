"""Contrastive ICA: known truth, gradients against finite differences, scale and patterns as documented."""

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.stats import multivariate_normal

import rindices as ri
from rindices.errors import InputError
from rindices.experiments.suites import get_suite_tasks
from rindices.learners.contrastive.estimator import ContrastiveICA, compute_contrastive_space
from rindices.learners.contrastive.rotation import LikelihoodWeights, rotation_loss
from rindices.learners.contrastive.sparse_patterns import compute_severity_weights, refine_patterns
from rindices.learners.log_transform import apply_log_transform, fit_log_transform, invert_log_transform
from rindices.selection.agreement import pattern_c_index


@pytest.mark.parametrize("share", [0.0, 0.05, 0.2])
def test_shares_to_shifts_and_back(share: float) -> None:
    z = np.linspace(-20, 6, 200)
    t = apply_log_transform(z, share)
    np.testing.assert_allclose(invert_log_transform(t, share), z, atol=1e-9)
    assert (np.diff(t) > 0).all()
    assert apply_log_transform(np.zeros(1), share) == 0


def test_equal_shares_become_equal_shifts() -> None:
    size = np.array([-1.5, 0.0, 2.0])  # small, average and large regions, in control units
    lost = (1 + 0.15 * size) * 0.8  # a fifth is lost
    shift = apply_log_transform((lost - 1) / 0.15, 0.15) - apply_log_transform(size, 0.15)
    np.testing.assert_allclose(shift, shift[0])


def test_proportionality_is_found() -> None:
    rng = np.random.default_rng(0)
    logs = rng.normal(size=(800, 30))
    assert fit_log_transform([logs]) < 0.02
    grown = (np.exp(0.15 * logs) - 1) / 0.15
    assert fit_log_transform([grown]) == pytest.approx(0.15, abs=0.02)


def test_rotation_gradient() -> None:
    rng = np.random.default_rng(0)
    white, patterns = rng.uniform(-1.7, 1.7, (50, 3)), rng.normal(size=(20, 3))

    def loss(flat: np.ndarray) -> float:
        return rotation_loss(flat.reshape(3, 3), white, patterns, LikelihoodWeights(0.4, 0.2)).loss

    def gradient(flat: np.ndarray) -> np.ndarray:
        return rotation_loss(flat.reshape(3, 3), white, patterns, LikelihoodWeights(0.4, 0.2)).gradient.ravel()

    for _ in range(5):
        point = rng.normal(size=9)
        assert check_grad(loss, gradient, point) < 1e-4 * max(1, np.abs(gradient(point)).max())


def test_rotation_loss_counts_regions_as_a_density() -> None:
    """The regions' term is a log-likelihood: scaling the basis and the unmixing together moves it by a constant."""
    rng = np.random.default_rng(0)
    white, patterns, unmixing = rng.normal(size=(40, 2)), rng.normal(size=(15, 2)), rng.normal(size=(2, 2))
    only_regions = LikelihoodWeights(1.0, 0.0)
    one = rotation_loss(unmixing, white, patterns, only_regions).loss
    two = rotation_loss(3 * unmixing, white, 3 * patterns, only_regions).loss
    assert two - one == pytest.approx(15 * 2 * np.log(3))


def test_severity_weights_are_generalised_least_squares() -> None:
    rng = np.random.default_rng(0)
    noise = np.cov(rng.normal(size=(60, 8)) @ rng.normal(size=(8, 8)), rowvar=False)
    patterns, person = rng.normal(size=(8, 2)), rng.normal(size=8)
    found = person @ compute_severity_weights(patterns, noise)
    likelihood = multivariate_normal(person, noise)
    best = likelihood.logpdf(patterns @ found)
    for _ in range(50):
        assert likelihood.logpdf(patterns @ (found + 0.1 * rng.normal(size=2))) < best


def test_refinement_sharpens_patterns() -> None:
    rng = np.random.default_rng(0)
    regions, true = 40, np.zeros((40, 2))
    true[:6, 0], true[20:26, 1] = -1.5, -1.5
    mixing = np.eye(regions) + 0.5
    noise = mixing @ mixing.T / regions
    patients = rng.uniform(0, 2, (200, 2)) @ true.T + rng.multivariate_normal(np.zeros(regions), noise, 200)
    rough = true + 0.3 * rng.normal(size=true.shape)
    found = refine_patterns(patients, rough, noise, 10)
    assert np.abs(found - true).mean() < 0.5 * np.abs(rough - true).mean()


def test_refinement_gives_back_what_it_cannot_improve() -> None:
    """Two patterns asked for where there is one: nothing collapses, nothing is NaN."""
    rng = np.random.default_rng(0)
    same = np.repeat(rng.normal(size=(10, 1)), 2, axis=1) + 1e-9 * rng.normal(size=(10, 2))
    found = refine_patterns(rng.normal(size=(30, 10)), same, np.eye(10), 5)
    np.testing.assert_array_equal(found, same)


def test_contrast_space_holds_the_patterns() -> None:
    rng = np.random.default_rng(0)
    true = rng.normal(size=(20, 3))
    controls = rng.normal(size=(5000, 20))
    patients = rng.normal(size=(5000, 20)) + rng.uniform(0, 3, (5000, 3)) @ true.T
    space, _, spectrum = compute_contrastive_space(controls, patients, 3)
    left = true - space @ np.linalg.lstsq(space, true, rcond=None)[0]
    assert np.linalg.norm(left) < 0.1 * np.linalg.norm(true)
    assert spectrum[2] > 2 * spectrum[3]
    assert (np.diff(spectrum) <= 0).all()


@pytest.mark.parametrize("task", ["basic", "mild", "corr07", "beta31", "tiny"])
def test_it_is_better_than_plain_ica_and_near_supervised(task: str) -> None:
    suite = "paper" if task in {"basic", "mild"} else "stress"
    case = get_suite_tasks(suite)[task](0)
    patients = case.X[case.y == 1]
    scores = [
        pattern_c_index(case.truth, ContrastiveICA(3, 0, rotation).fit(case.X, case.y).transform(patients)).mean
        for rotation in ("likelihood", "ica")
    ]
    floor = {"basic": 0.88, "mild": 0.83, "corr07": 0.87, "beta31": 0.8, "tiny": 0.82}[task]
    assert scores[0] >= floor
    assert scores[0] >= scores[1] + 0.01


def test_scale_and_patterns_mean_what_is_documented() -> None:
    made = ri.simulate_cohort("basic", seed=1)
    x, y = made.cohort.volumes.to_numpy(), made.cohort.is_patient.astype(int)
    learner = ContrastiveICA(3, 0).fit(x, y)
    r = learner.transform(x)
    np.testing.assert_allclose(np.quantile(r[y == 1], 0.98, axis=0), 1.0, atol=1e-6)
    np.testing.assert_allclose(r[y == 0].mean(axis=0), 0.0, atol=0.02)
    matching = pattern_c_index(made.truth, r[y == 1]).matching
    # what a region of the pattern loses at severity 1, in control standard deviations
    lost = -0.3 * x[y == 0].mean(axis=0) / x[y == 0].std(axis=0)
    for k, found in enumerate(matching):
        own = made.patterns[f"s{k + 1}"].to_numpy() > 0
        assert learner.patterns_[found][own].mean() == pytest.approx(lost[own].mean(), rel=0.15)
        assert np.abs(learner.patterns_[found][~own]).mean() < 0.15 * np.abs(lost[own]).mean()
        assert set(np.argsort(learner.patterns_[found])[:14]) == set(np.flatnonzero(own))


def test_spectrum_shows_the_number_of_patterns() -> None:
    case = get_suite_tasks("paper")["basic"](0)
    spectrum = ContrastiveICA(3, 0).fit(case.X, case.y).spectrum_
    assert spectrum[2] / spectrum[3] > 1.5 > spectrum[3] / spectrum[4]


@pytest.mark.parametrize("width", [1, 2, 5])
def test_any_number_of_patterns(width: int) -> None:
    case = get_suite_tasks("paper")["basic"](0)
    r = ContrastiveICA(width, 0).fit(case.X, case.y).transform(case.X)
    assert r.shape == (len(case.X), width)
    assert np.isfinite(r).all()


def test_the_start_does_not_matter() -> None:
    case = get_suite_tasks("stress")["corr05"](0)
    found = [ContrastiveICA(3, seed).fit(case.X, case.y).transform(case.X) for seed in range(3)]
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=0.02)


def test_unknown_rotation() -> None:
    case = get_suite_tasks("stress")["tiny"](0)
    with pytest.raises(InputError, match="likelihood, ica"):
        ContrastiveICA(rotation="varimax").fit(case.X, case.y)
