"""The table of patterns."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rindices as ri
from rindices.model.patterns import PATTERN_COLUMN_DESCRIPTIONS, make_pattern_table
from rindices.selection.agreement import compute_confidence_interval

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture(scope="module")
def model() -> ri.FittedModel:
    return ri.load(FIXTURES / "contrastive.safetensors")


def test_rows_are_ordered_by_pattern_severity_and_region(model: ri.FittedModel) -> None:
    table = make_pattern_table(model)
    assert list(table) == list(PATTERN_COLUMN_DESCRIPTIONS)
    changes = table["change"].to_numpy().reshape(model.n_patterns, -1, len(model.regions))
    np.testing.assert_array_equal(changes, model.patterns.transpose(1, 0, 2))
    assert table["pattern"].drop_duplicates().tolist() == list(model.index_names)
    assert table["region"].head(len(model.regions)).tolist() == list(model.regions)


def test_the_interval_is_that_of_the_standard_errors_or_empty(model: ri.FittedModel) -> None:
    errors = np.full_like(model.patterns, 0.1)
    with_errors = make_pattern_table(replace(model, patterns_se=errors))
    low, high = compute_confidence_interval(model.patterns, errors, len(model.heads))
    np.testing.assert_allclose(with_errors["low"], low.transpose(1, 0, 2).ravel())
    np.testing.assert_allclose(with_errors["high"], high.transpose(1, 0, 2).ravel())
    without_errors = make_pattern_table(replace(model, patterns_se=None))
    assert without_errors[["low", "high"]].isna().all(axis=None)
