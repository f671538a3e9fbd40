"""Number of patterns in a cohort: the permutation test before training, and its comparison with agreement."""

from collections.abc import Sequence

import numpy as np

from rindices._typing import FloatArray
from rindices.learners.log_transform import apply_log_transform
from rindices.model.records import DimensionRecord, PatternCountRecord, PermutationTestRecord
from rindices.preprocess.residualise import CategoricalCovariate, derive_codings
from rindices.selection.adjusted_dimensions import CovariateColumns, count_adjusted_dimensions, standardise_columns
from rindices.selection.dimensions import N_PERMUTATIONS, SIGNIFICANCE_LEVEL, DimensionEstimate
from rindices.tables.cohort import ID, SITE, Cohort
from rindices.threads import limit_blas_threads

MAX_PARTICIPANTS_PER_GROUP = 2000
"""People of each group that the test uses; more would only cost time."""


@limit_blas_threads()
def count_cohort_dimensions(
    cohort: Cohort, seed: int = 0, level: float = SIGNIFICANCE_LEVEL, relabellings: int = N_PERMUTATIONS
) -> DimensionEstimate:
    """Test whether patients differ from controls, and in how many patterns.

    Volumes enter as logarithms and are adjusted for covariates and site. Only the first scan of a person is used, and
    at most `MAX_PARTICIPANTS_PER_GROUP` people of each group, drawn at random.

    Parameters
    ----------
    cohort : Cohort
    seed : int
    level : float
        Significance level of each test.
    relabellings : int
        Permutations per test.

    Returns
    -------
    DimensionEstimate
    """
    cohort = cohort.take(~cohort.people[ID].duplicated().to_numpy())
    cohort = _subsample_groups(cohort, MAX_PARTICIPANTS_PER_GROUP, np.random.default_rng([seed, 8]))
    covariates = [
        CovariateColumns(coding.encode(cohort.covariates[coding.name]), isinstance(coding, CategoricalCovariate))
        for coding in derive_codings(cohort.covariates)  # learnt on everyone, so that labels do not matter
    ]
    strata = np.zeros(len(cohort), dtype=np.intp)
    if SITE in cohort.people:
        strata = np.unique(cohort.people[SITE].astype(str), return_inverse=True)[1]
    shifts = log_transform_volumes(cohort.volumes.to_numpy(dtype=float))
    return count_adjusted_dimensions(shifts, covariates, strata, cohort.is_patient, seed, level, relabellings)


def log_transform_volumes(volumes: FloatArray) -> FloatArray:
    """Return logarithms of volumes (N, R) relative to each region's mean, with the tangent below a tenth of it.

    A table with negative values holds no volumes; it is standardised instead.
    """
    if (volumes >= 0).all() and (volumes.mean(axis=0) > 0).all():
        return apply_log_transform(volumes / volumes.mean(axis=0) - 1.0, 1.0)
    return standardise_columns(volumes)


def _subsample_groups(cohort: Cohort, max_size: int, rng: np.random.Generator) -> Cohort:
    if max(cohort.n_controls, cohort.n_patients) <= max_size:
        return cohort
    groups = [rng.permutation(np.flatnonzero(mask))[:max_size] for mask in (cohort.is_control, cohort.is_patient)]
    return cohort.take(np.concatenate(groups))


def make_number_record(estimate: DimensionEstimate, tried: Sequence[int], agreed: int | None) -> PatternCountRecord:
    """Return the number of patterns by agreement and by the test, and why they differ.

    Parameters
    ----------
    estimate : DimensionEstimate
    tried : sequence of int
        Numbers of patterns that the study tries; a single one is forced.
    agreed : int or None
        Number chosen by agreement; None if no setting is stable or nothing was trained.

    Returns
    -------
    PatternCountRecord
    """
    forced = len(set(tried)) == 1
    return PatternCountRecord(
        by_agreement=None if forced else agreed,
        by_test=estimate.number,
        forced=tried[0] if forced else None,
        why=explain_disagreement(estimate.number, tried, agreed),
        test=_make_test_record(estimate),
    )


def _make_test_record(estimate: DimensionEstimate) -> PermutationTestRecord:
    curve = [
        DimensionRecord(test.patterns, test.excess, *test.chance, test.p, test.relabellings)
        for test in estimate.dimension_tests
    ]
    return PermutationTestRecord(estimate.number, estimate.level, estimate.overlap, tuple(curve))


def explain_disagreement(tested: int, tried: Sequence[int], agreed: int | None) -> str:
    """Return in words why the test and agreement give different numbers; empty if they do not."""
    if agreed is None or tested == agreed:
        return ""
    if tested == 0:
        return "the test cannot tell patients from controls: what members agree on may be nothing but chance"
    if tested not in tried:
        return f"the test finds {tested}, which was not tried: try it with --patterns {tested}"
    if tested > agreed:
        return (
            f"patients differ from controls in {tested} directions, but fits on other people reproduce {agreed} "
            "patterns better: the others are weak or go together with them"
        )
    return (
        f"{agreed} patterns are reproduced, but only {tested} exceed chance: one of them may be split in two, or "
        "there are too few people for the test to see all"
    )
