"""Missing cells in the preprocessing: coefficients of measured people, standard deviations kept at sites."""

import numpy as np
import pytest

from rindices.errors import PreprocessingError
from rindices.preprocess.missing import fill_by_regression, fill_within_sites


def test_filled_cells_leave_the_coefficients_as_they_are() -> None:
    rng = np.random.default_rng(0)
    design = rng.normal(size=(60, 2))
    volumes = 3.0 + design @ rng.normal(size=(2, 4)) + rng.normal(size=(60, 4))
    volumes[rng.random(volumes.shape) < 0.2] = np.nan
    columns = np.column_stack([np.ones(60), design])
    filled = np.linalg.lstsq(columns, fill_by_regression(volumes, design), rcond=None)[0]
    for k in range(4):
        measured = ~np.isnan(volumes[:, k])
        expected = np.linalg.lstsq(columns[measured], volumes[measured, k], rcond=None)[0]
        np.testing.assert_allclose(filled[:, k], expected)
    complete = np.ones((3, 2))
    assert fill_by_regression(complete, np.zeros((3, 0))) is complete


def test_a_region_that_hardly_anyone_has_is_refused_by_name() -> None:
    volumes = np.random.default_rng(0).normal(size=(20, 2))
    volumes[2:, 1] = np.nan
    with pytest.raises(PreprocessingError, match=r"in fewer than 3 .* hippocampus\. Leave them out: --exclude"):
        fill_by_regression(volumes, np.zeros((20, 1)), ["thalamus", "hippocampus"])


def test_filled_sites_keep_their_mean_and_spread() -> None:
    rng = np.random.default_rng(1)
    sites = np.repeat(["a", "b"], 200)
    scale = np.where(sites == "a", 1.0, 3.0)[:, None]
    volumes = 10.0 + 5.0 * (sites == "b")[:, None] + scale * rng.normal(size=(400, 3))
    holes = volumes.copy()
    holes[np.ix_(np.flatnonzero(sites == "b")[:100], [0, 1])] = np.nan
    filled = fill_within_sites(holes, np.zeros((400, 0)), sites)
    for site in "ab":
        at_site = sites == site
        np.testing.assert_allclose(filled[at_site].mean(axis=0), np.nanmean(holes[at_site], axis=0), atol=1e-9)
        np.testing.assert_allclose(filled[at_site].std(axis=0), np.nanstd(holes[at_site], axis=0), rtol=1e-6)
