"""What is left of covariates in the patients' R-indices."""

import numpy as np
import pytest
from scipy import stats

from rindices.study.conclude import correlate_covariate


def test_a_number_has_its_rank_correlation() -> None:
    rng = np.random.default_rng(0)
    age = rng.normal(size=60)
    index = np.exp(0.5 * age + rng.normal(size=60))
    age[5] = index[7] = np.nan
    result = correlate_covariate("age", age, index)
    assert result is not None
    known = ~np.isnan(age) & ~np.isnan(index)
    expected = stats.spearmanr(age[known], index[known])
    assert (result.covariate, result.people) == ("age", 58)
    assert (result.correlation, result.p) == pytest.approx(
        (expected.statistic, expected.pvalue)
    )


def test_of_two_categories_the_second_is_named() -> None:
    rng = np.random.default_rng(1)
    sex = np.array(["F", "M"] * 30, dtype=object)
    index = rng.normal(size=60) + (sex == "M")
    result = correlate_covariate("sex", sex, index)
    assert result is not None
    assert result.covariate == "sex (M)"
    assert result.correlation > 0
    assert result.p == pytest.approx(stats.spearmanr(sex == "M", index).pvalue)


def test_several_categories_have_the_share_of_the_variance_of_ranks() -> None:
    rng = np.random.default_rng(2)
    site = np.repeat(["a", "b", "c"], 20).astype(object)
    index = rng.normal(size=60) + (site == "c")
    result = correlate_covariate("site", site, index)
    assert result is not None
    ranks = stats.rankdata(index)
    between = sum(
        20 * (ranks[site == each].mean() - ranks.mean()) ** 2 for each in "abc"
    )
    assert result.correlation == pytest.approx(
        np.sqrt(between / ((ranks - ranks.mean()) ** 2).sum())
    )
    assert result.p == pytest.approx(
        stats.kruskal(*(index[site == each] for each in "abc")).pvalue
    )


def test_nothing_is_said_of_few_people_or_a_constant() -> None:
    assert correlate_covariate("age", np.arange(9.0), np.arange(9.0)) is None
    assert correlate_covariate("age", np.ones(30), np.arange(30.0)) is None
    assert (
        correlate_covariate("sex", np.full(30, "F", dtype=object), np.arange(30.0))
        is None
    )
