"""Cross-validated regression on true severities."""

import numpy as np
import pytest

from benchmarks.suites.baselines.supervised import cross_validate_supervised


def make_linear_data(n=120, regions=10, m=3):
    rng = np.random.default_rng(0)
    x = rng.normal(50, 5, (n, regions))
    return x, x @ rng.normal(size=(regions, m)) + rng.normal(0, 0.5, (n, m))


@pytest.mark.parametrize("model", ["linear", "ridge", "svr"])
def test_everyone_is_held_out_once_and_in_training_otherwise(model):
    x, s = make_linear_data()
    predictions = cross_validate_supervised(x, s, model, folds=4, seed=1)
    assert predictions.train.shape == (4, *s.shape)
    assert predictions.test.shape == s.shape
    assert np.isfinite(predictions.test).all()
    held_out = np.isnan(predictions.train).all(axis=2)
    np.testing.assert_array_equal(held_out, predictions.fold == np.arange(4)[:, None])
    assert not np.isnan(predictions.train[~held_out]).any()


@pytest.mark.parametrize("model", ["linear", "ridge"])
def test_linear_models_find_a_make_linear_data_in_people_held_out(model):
    x, s = make_linear_data()
    predictions = cross_validate_supervised(x, s, model)
    correlations = [
        np.corrcoef(a, b)[0, 1] for a, b in zip(s.T, predictions.test.T, strict=True)
    ]
    assert min(correlations) > 0.99


@pytest.mark.parametrize("model", ["linear", "ridge", "svr"])
def test_a_vector_of_severities_equals_one_column(model):
    x, s = make_linear_data(m=1)
    column, vector = (cross_validate_supervised(x, t, model).test for t in (s, s[:, 0]))
    assert column.shape == (120, 1)
    np.testing.assert_allclose(column, vector)


def test_held_out_predictions_do_not_see_the_truth():
    rng = np.random.default_rng(0)
    predictions = cross_validate_supervised(
        rng.normal(size=(60, 50)), rng.random((60, 1))
    )
    assert abs(np.corrcoef(predictions.test[:, 0], rng.random(60))[0, 1]) < 0.5


def test_wrong_input_raises_an_error():
    x, s = make_linear_data()
    for arguments, message in [
        ((x, s, "lasso"), "linear, ridge, svr"),
        ((x, s, "linear", 1), "folds"),
        ((x, s, "linear", 999), "folds"),
        ((x, s[:-1]), "inconsistent"),
        ((x * np.nan, s), "NaN"),
    ]:
        with pytest.raises(ValueError, match=message):
            cross_validate_supervised(*arguments)
