"""Missing covariates are predicted from the others, and regions are estimated from
those in whom they were measured.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from rindices.errors import PreprocessingError, Severity
from rindices.preprocess.missing import (
    DesignMoments,
    estimate_design_moments,
    fill_by_regression,
    fill_design,
    fill_within_sites,
)
from rindices.preprocess.pipeline import Preprocessing
from tests.preprocess.helpers import make_cohort

RNG = np.random.default_rng(0)
DESIGN = RNG.normal(size=(300, 3)) @ np.array(
    [[1.0, 0.8, 0.0], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]]
) + [5, 0, 1]


def test_missing_cells_are_the_predictions_of_a_regression() -> None:
    holes = DESIGN.copy()
    holes[0, 1] = holes[1, [0, 2]] = np.nan
    filled = fill_design(holes, estimate_design_moments(DESIGN))
    columns = np.column_stack([np.ones(300), DESIGN[:, [0, 2]]])
    expected = columns[0] @ np.linalg.lstsq(columns, DESIGN[:, 1], rcond=None)[0]
    np.testing.assert_allclose(filled[0, 1], expected)
    columns = np.column_stack([np.ones(300), DESIGN[:, 1]])
    np.testing.assert_allclose(
        filled[1, [0, 2]], columns[1] @ np.linalg.lstsq(columns, DESIGN[:, [0, 2]])[0]
    )
    np.testing.assert_array_equal(filled[2:], DESIGN[2:])


def test_a_complete_design_is_returned_as_it_is() -> None:
    assert fill_design(DESIGN, estimate_design_moments(DESIGN)) is DESIGN


def test_a_model_without_covariance_predicts_the_mean() -> None:
    filled = fill_design(
        np.array([[np.nan, 2.0, 3.0]]), DesignMoments(np.array([5.0, 0.0, 1.0]), None)
    )
    np.testing.assert_array_equal(filled, [[5.0, 2.0, 3.0]])


def test_too_few_complete_controls_are_refused() -> None:
    holes = DESIGN[:20].copy()
    holes[4:, 0] = np.nan
    with pytest.raises(
        PreprocessingError, match="4 controls have all of them, and 5 are needed"
    ):
        estimate_design_moments(holes)


def test_people_without_a_covariate_are_adjusted_by_the_controls_of_the_model() -> None:
    cohort = make_cohort(400)
    icv = pd.Series(
        1500
        + 150 * (cohort.covariates["sex"] == "M")
        + np.random.default_rng(1).normal(0, 60, 400)
    )
    complete = replace(cohort, covariates=cohort.covariates.assign(icv=icv))
    preprocessing = Preprocessing.fit(complete)
    covariates = complete.covariates.copy()
    covariates.loc[:9, "icv"] = np.nan
    covariates.loc[5:14, "sex"] = np.nan
    holes = replace(complete, covariates=covariates)
    values = preprocessing.transform(holes)
    np.testing.assert_array_equal(values[15:], preprocessing.transform(complete)[15:])
    rows = np.array([3, 7, 12])
    np.testing.assert_array_equal(
        preprocessing.transform(holes.take(rows)), values[rows]
    )  # others do not matter
    arrays, record = preprocessing.to_arrays(), preprocessing.to_dict()
    np.testing.assert_array_equal(
        Preprocessing.from_parts(record, arrays).transform(holes), values
    )
    icv_column = preprocessing.residualiser.build_design(covariates)[:10, 2]
    is_male = (complete.covariates["sex"] == "M").to_numpy()
    assert (
        icv_column[:5][is_male[:5]].min() > icv_column[:5][~is_male[:5]].max()
    )  # sex predicts head size


@pytest.mark.parametrize("adjust", ["log", "linear"])
def test_controls_without_a_covariate_hardly_change_the_adjustment(adjust: str) -> None:
    cohort = make_cohort(400)
    covariates = cohort.covariates.copy()
    covariates.loc[:19, "age"] = np.nan
    covariates.loc[10:29, "sex"] = None
    complete = Preprocessing.fit(cohort, adjust=adjust)
    imputed = Preprocessing.fit(replace(cohort, covariates=covariates), adjust=adjust)
    np.testing.assert_allclose(
        imputed.transform(cohort), complete.transform(cohort), atol=0.03
    )
    assert (
        imputed.residualiser.to_dict()[1] == complete.residualiser.to_dict()[1]
    )  # None is no category
    review = imputed.review(replace(cohort, covariates=covariates))
    assert Severity.ERROR not in [problem.severity for problem in review]


def test_filled_cells_leave_the_coefficients_as_they_are() -> None:
    rng = np.random.default_rng(0)
    design = rng.normal(size=(60, 2))
    volumes = 3.0 + design @ rng.normal(size=(2, 4)) + rng.normal(size=(60, 4))
    volumes[rng.random(volumes.shape) < 0.2] = np.nan
    columns = np.column_stack([np.ones(60), design])
    filled = np.linalg.lstsq(columns, fill_by_regression(volumes, design), rcond=None)[
        0
    ]
    for k in range(4):
        measured = ~np.isnan(volumes[:, k])
        expected = np.linalg.lstsq(columns[measured], volumes[measured, k], rcond=None)[
            0
        ]
        np.testing.assert_allclose(filled[:, k], expected)
    complete = np.ones((3, 2))
    assert fill_by_regression(complete, np.zeros((3, 0))) is complete


def test_a_region_that_hardly_anyone_has_is_refused_by_name() -> None:
    volumes = np.random.default_rng(0).normal(size=(20, 2))
    volumes[2:, 1] = np.nan
    with pytest.raises(
        PreprocessingError,
        match=r"in fewer than 3 .* hippocampus\. Leave them out: --exclude",
    ):
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
        np.testing.assert_allclose(
            filled[at_site].mean(axis=0), np.nanmean(holes[at_site], axis=0), atol=1e-9
        )
        np.testing.assert_allclose(
            filled[at_site].std(axis=0), np.nanstd(holes[at_site], axis=0), rtol=1e-6
        )
