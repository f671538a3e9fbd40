"""Contrastive ICA on data whose truth is known."""

import numpy as np
import pytest

import rindices as ri
from benchmarks.suites.cases import get_suite_tasks
from rindices.errors import InputError
from rindices.learners.contrastive.estimator import ContrastiveICA
from rindices.learners.contrastive.linear_start import GroupMoments
from rindices.selection.agreement import pattern_c_index


def test_contrastive_space_contains_the_patterns() -> None:
    rng = np.random.default_rng(0)
    true = rng.normal(size=(20, 3))
    controls = rng.normal(size=(5000, 20))
    patients = rng.normal(size=(5000, 20)) + rng.uniform(0, 3, (5000, 3)) @ true.T
    space, _, spectrum = GroupMoments.compute(controls, patients).solve_space(3)
    left = true - space @ np.linalg.lstsq(space, true, rcond=None)[0]
    assert np.linalg.norm(left) < 0.1 * np.linalg.norm(true)
    assert spectrum[2] > 2 * spectrum[3]
    assert (np.diff(spectrum) <= 0).all()


@pytest.mark.parametrize("task", ["basic", "mild", "corr07", "beta31", "tiny"])
def test_likelihood_rotation_is_better_than_plain_ica(task: str) -> None:
    suite = "paper" if task in {"basic", "mild"} else "stress"
    case = get_suite_tasks(suite)[task](0)
    patients = case.X[case.y == 1]
    scores = [
        pattern_c_index(
            case.truth,
            ContrastiveICA(3, 0, rotation).fit(case.X, case.y).transform(patients),
        ).mean
        for rotation in ("likelihood", "ica")
    ]
    floor = {"basic": 0.88, "mild": 0.83, "corr07": 0.87, "beta31": 0.79, "tiny": 0.82}[
        task
    ]
    assert scores[0] >= floor
    assert scores[0] >= scores[1] + 0.01


def test_scale_and_patterns_are_as_documented() -> None:
    simulated = ri.simulate_cohort("basic", seed=1)
    x, y = simulated.cohort.volumes.to_numpy(), simulated.cohort.is_patient.astype(int)
    learner = ContrastiveICA(3, 0).fit(x, y)
    r = learner.transform(x)
    np.testing.assert_allclose(np.quantile(r[y == 1], 0.98, axis=0), 1.0, atol=1e-6)
    np.testing.assert_allclose(r[y == 0].mean(axis=0), 0.0, atol=0.02)
    matching = pattern_c_index(simulated.truth, r[y == 1]).matching
    # loss of an affected region at severity 1, in control standard deviations
    lost = -0.3 * x[y == 0].mean(axis=0) / x[y == 0].std(axis=0)
    for k, index in enumerate(matching):
        affected = simulated.patterns[f"s{k + 1}"].to_numpy() > 0
        assert learner.patterns_[index][affected].mean() == pytest.approx(
            lost[affected].mean(), rel=0.15
        )
        assert (
            np.abs(learner.patterns_[index][~affected]).mean()
            < 0.15 * np.abs(lost[affected]).mean()
        )
        assert set(np.argsort(learner.patterns_[index])[:14]) == set(
            np.flatnonzero(affected)
        )


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


def test_the_seed_does_not_matter() -> None:
    case = get_suite_tasks("stress")["corr05"](0)
    results = [
        ContrastiveICA(3, seed).fit(case.X, case.y).transform(case.X)
        for seed in range(3)
    ]
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], atol=0.02)


def test_unknown_rotation_raises_an_error() -> None:
    case = get_suite_tasks("stress")["tiny"](0)
    with pytest.raises(InputError, match="likelihood, ica"):
        ContrastiveICA(rotation="varimax").fit(case.X, case.y)
