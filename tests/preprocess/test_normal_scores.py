"""Normal scores make skewed features normal, order people as before, and reach beyond the controls."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from rindices.errors import ModelError
from rindices.preprocess.normal_scores import SCORES, NormalScores
from rindices.preprocess.pipeline import Preprocessing
from rindices.share.onnx import _add_volumes
from rindices.tables.cohort import Cohort


@pytest.fixture(scope="module")
def latents() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(2000, 3))


def express(latents: np.ndarray) -> np.ndarray:
    """A normal, a right-skewed and a left-skewed feature."""
    return np.column_stack([5 + 2 * latents[:, 0], np.exp(latents[:, 1]), -np.exp(-0.7 * latents[:, 2])])


def test_scores_of_skewed_features_are_the_latents(latents: np.ndarray) -> None:
    scores = NormalScores.fit(express(latents)).transform(express(latents))
    assert np.abs(scores - latents).mean() < 0.05
    assert (np.abs(stats.skew(scores)) < 0.1).all()


def test_scores_continue_beyond_the_controls(latents: np.ndarray) -> None:
    fitted = NormalScores.fit(express(latents))
    far = np.array([[-5.0] * 3, [4.0] * 3, [6.0] * 3])
    np.testing.assert_allclose(fitted.transform(express(far))[1:, :2], far[1:, :2], rtol=0.15)
    order = fitted.transform(express(np.linspace(-6, 6, 500)[:, None] * np.ones(3)))
    assert (np.diff(order, axis=0) > 0).all()


def test_equal_counts_get_one_score_and_keep_their_order() -> None:
    counts = np.random.default_rng(1).poisson(0.7, size=(500, 1)).astype(float)
    scores = NormalScores.fit(counts).transform(np.arange(5.0)[:, None])[:, 0]
    assert (np.diff(scores) > 0).all()
    assert np.isfinite(scores).all()


def make_cohort(latents: np.ndarray) -> Cohort:
    names = ["a", "b", "c"]
    people = pd.DataFrame({"participant_id": [f"p{k}" for k in range(len(latents))], "group": "control"})
    covariates = pd.DataFrame({"age": np.linspace(40, 80, len(latents))})
    return Cohort(pd.DataFrame(express(latents), columns=names), people, covariates, "table", "any")


def test_preprocessing_of_ranks_survives_its_file(latents: np.ndarray) -> None:
    cohort = make_cohort(latents[:200])
    fitted = Preprocessing.fit(cohort, adjust="rank")
    values = fitted.transform(cohort)
    np.testing.assert_allclose(values.mean(axis=0), 1.0)
    arrays = fitted.to_arrays()
    assert arrays["normal_scores.quantiles"].shape == (len(SCORES), 3)
    again = Preprocessing.from_parts(fitted.to_dict(), arrays)
    np.testing.assert_array_equal(again.transform(cohort), values)
    np.testing.assert_array_equal(again.control_mean, np.quantile(cohort.volumes, 0.5, axis=0))


def test_models_of_ranks_are_not_exported(latents: np.ndarray) -> None:
    class Model:
        preprocessing = Preprocessing.fit(make_cohort(latents[:100]), adjust="rank")

    with pytest.raises(ModelError, match=r"cannot be exported to ONNX: fit with adjust = log or linear"):
        _add_volumes(None, Model())  # type: ignore[arg-type]
