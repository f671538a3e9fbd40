"""Permutation tests before training: whether patients differ from controls, and in how
many patterns.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from rindices._typing import FloatArray
from rindices.learners.inference import apply_log_transform
from rindices.learners.missing_cells import complete_people
from rindices.model.records import (
    DifferenceRecord,
    DimensionRecord,
    PatternCountRecord,
    PermutationTestRecord,
)
from rindices.preprocess.ageing import choose_age_knots, find_age
from rindices.preprocess.harmonise import resolve_harmonise_mode
from rindices.preprocess.measures import resolve_adjustment
from rindices.preprocess.missing import (
    estimate_design_moments,
    fill_by_regression,
    fill_design,
)
from rindices.preprocess.residualise import (
    CategoricalCovariate,
    bend_codings,
    build_design_matrix,
    count_columns,
    derive_codings,
)
from rindices.selection.dimensions import (
    MAX_PATTERNS,
    SIGNIFICANCE_LEVEL,
    AdjustedGroups,
    CovariateColumns,
    DimensionEstimate,
    count_dimensions,
    standardise_columns,
)
from rindices.selection.group_difference import (
    STATISTICS,
    GroupTest,
    RegionEffects,
    compare_groups,
    estimate_region_effects,
    smallest_detectable_effect,
)
from rindices.selection.relabel import compute_p_error
from rindices.tables.cohort import ID, SITE, Cohort
from rindices.threads import limit_blas_threads

MAX_PARTICIPANTS_PER_GROUP = 2000
"""People of each group that the tests use; more would only cost time."""


class Finding(StrEnum):
    """Kind of result that a study ends with.

    With ``NO_DIFFERENCE``, no difference between patients and controls was found. With
    ``MEAN_DIFFERENCE``, patients differ from controls, but not from each other more
    than controls do, and there is one R-index along the mean difference. With
    ``PATTERNS``, patients differ from each other too, and there is one R-index for each
    pattern.
    """

    NO_DIFFERENCE = "no_difference"
    MEAN_DIFFERENCE = "mean_difference"
    PATTERNS = "patterns"


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupTests:
    """Results of the tests.

    Attributes
    ----------
    difference : GroupTest
        Whether patients differ from controls in any way.
    dimensions : DimensionEstimate
        Number of directions in which patients differ from each other. None are counted
        without a difference.
    effects : RegionEffects
        Difference of each region, in everyone.
    smallest_effect : float
        Smallest Cohen's d of one region that is detected with a power of 80 %.
    """

    difference: GroupTest
    dimensions: DimensionEstimate
    effects: RegionEffects
    smallest_effect: float

    @property
    def finding(self) -> Finding:
        """What the tests support."""
        if self.difference.p > self.dimensions.level and self.dimensions.is_comparable:
            return Finding.NO_DIFFERENCE
        return Finding.PATTERNS if self.dimensions.number else Finding.MEAN_DIFFERENCE

    def list_numbers_to_try(
        self, largest: int, from_one: bool = True
    ) -> tuple[int, ...]:
        """Return the numbers of patterns next to the one of the test, up to the largest
        that can be trained.

        from_one: also 1, since the test counts directions, and patterns that differ in
        their stages have several.
        """
        number = self.dimensions.number
        near = {min(n, largest) for n in (number - 1, number, number + 1) if n >= 1}
        return tuple(sorted(near | {1} if from_one else near))

    def describe_p(self) -> str:
        """Return p of the first test with its Monte Carlo error."""
        return self.make_difference_record().describe_p(self.dimensions.level)

    def make_difference_record(self) -> DifferenceRecord:
        """Return the result of the first test for ``selection.json``."""
        return DifferenceRecord(
            p=self.difference.p,
            permutations=self.difference.n_permutations,
            statistics=dict(zip(STATISTICS, self.difference.values, strict=True)),
            p_values=dict(zip(STATISTICS, self.difference.p_values, strict=True)),
            smallest_effect=self.smallest_effect,
            p_error=compute_p_error(self.difference.p, self.difference.n_permutations),
        )


@limit_blas_threads()
def run_group_tests(
    cohort: Cohort,
    seed: int = 0,
    adjust: str | None = None,
    level: float = SIGNIFICANCE_LEVEL,
    age_knots: tuple[float, ...] | None = None,
) -> GroupTests:
    """Test whether patients differ from controls, and in how many patterns they differ
    from each other.

    Measures enter as logarithms and are adjusted for covariates and site. Only the
    first scan of a person is used, and at most `MAX_PARTICIPANTS_PER_GROUP` people of
    each group, drawn at random. Effects of regions are estimated in all.

    adjust: with ``none``, covariates are ignored; level: significance level of each
    test; age_knots: of age as a spline, by default chosen by held-out controls.
    """
    cohort = cohort.take(
        ~cohort.people[ID].duplicated().to_numpy()
        & (cohort.is_control | cohort.is_patient)
    )
    if age_knots is None:
        age_knots = _choose_age_knots(cohort, adjust)
    everyone = _adjust_groups(cohort, adjust, age_knots)
    sample = _subsample_groups(
        cohort, MAX_PARTICIPANTS_PER_GROUP, np.random.default_rng([seed, 8])
    )
    groups = everyone if sample is cohort else _adjust_groups(sample, adjust, age_knots)
    difference = compare_groups(groups, seed)
    max_patterns = MAX_PATTERNS if difference.p <= level else 0
    return GroupTests(
        difference=difference,
        dimensions=count_dimensions(groups, seed, level, max_patterns=max_patterns),
        effects=estimate_region_effects(
            everyone.people.shifts, everyone.people.design, everyone.patient
        ),
        smallest_effect=smallest_detectable_effect(
            cohort.n_controls, cohort.n_patients, cohort.n_regions
        ),
    )


def _choose_age_knots(cohort: Cohort, adjust: str | None) -> tuple[float, ...]:
    """Return the knots of age by held-out controls, on the scale of the adjustment."""
    scale = resolve_adjustment(cohort, adjust)
    if scale == "none":
        return ()
    volumes = cohort.volumes.to_numpy(dtype=float)
    volumes = np.log(volumes) if scale == "log" else volumes
    by_site = resolve_harmonise_mode(cohort) != "none"
    return choose_age_knots(
        replace(cohort, visits=None), volumes, scale == "log", by_site
    )


def _adjust_groups(
    cohort: Cohort, adjust: str | None, age_knots: tuple[float, ...]
) -> AdjustedGroups:
    covariates = (
        cohort.covariates.iloc[:, :0] if adjust == "none" else cohort.covariates
    )
    # codings and imputed values are of everyone, so that labels do not matter
    codings = derive_codings(covariates, log=adjust != "linear")
    codings = bend_codings(codings, find_age(codings), age_knots)
    encoded = build_design_matrix(codings, covariates)
    design = fill_design(encoded, estimate_design_moments(encoded))
    ends = np.cumsum([count_columns(coding) for coding in codings])
    columns = [
        CovariateColumns(part, isinstance(coding, CategoricalCovariate))
        for coding, part in zip(
            codings, np.split(design, ends, axis=1)[:-1], strict=True
        )
    ]
    strata = np.zeros(len(cohort), dtype=np.intp)
    if SITE in cohort.people:
        strata = np.unique(cohort.people[SITE].astype(str), return_inverse=True)[1]
    shifts = log_transform_volumes(cohort.volumes.to_numpy(dtype=float))
    sites = np.eye(strata.max() + 1)[strata][:, 1:]
    shifts = _complete_shifts(
        shifts, np.column_stack([sites, *(each.values for each in columns)])
    )
    return AdjustedGroups.build(shifts, columns, strata, cohort.is_patient)


def _complete_shifts(shifts: FloatArray, design: FloatArray) -> FloatArray:
    """Draw the missing cells of people (N, R), given the others and covariates (N, P);
    groups do not matter.
    """
    if not np.isnan(shifts).any():
        return shifts
    predicted = fill_by_regression(shifts, design)
    columns = np.column_stack([np.ones(len(design)), design])
    predicted = columns @ np.linalg.lstsq(columns, predicted, rcond=None)[0]
    everyone = np.zeros(len(shifts), dtype=np.intp)
    return np.asarray(
        predicted
        + complete_people(shifts - predicted, everyone, np.random.default_rng(0))
    )


def log_transform_volumes(volumes: FloatArray) -> FloatArray:
    """Return logarithms of volumes (N, R) relative to each region's mean, with the
    tangent below a tenth of it.

    A table with negative values holds no volumes; it is standardised instead.
    """
    is_complete = not np.isnan(volumes).any()
    mean = volumes.mean(axis=0) if is_complete else np.nanmean(volumes, axis=0)
    if not (volumes < 0).any() and (mean > 0).all():
        return apply_log_transform(volumes / mean - 1.0, 1.0)
    if not is_complete:
        return np.asarray((volumes - mean) / np.nanstd(volumes, axis=0))
    return standardise_columns(volumes)


def _subsample_groups(
    cohort: Cohort, max_size: int, rng: np.random.Generator
) -> Cohort:
    if max(cohort.n_controls, cohort.n_patients) <= max_size:
        return cohort
    groups = [
        rng.permutation(np.flatnonzero(mask))[:max_size]
        for mask in (cohort.is_control, cohort.is_patient)
    ]
    return cohort.take(np.concatenate(groups))


def make_number_record(
    tests: GroupTests,
    forced: int | None,
    chosen: int | None,
    decided_by: str = "agreement",
) -> PatternCountRecord:
    """Return the number of patterns by agreement and by the test, and why they differ.

    Parameters
    ----------
    tests : GroupTests
        Tests of the groups.
    forced : int or None
        Number that the study asks for, if it names a single one.
    chosen : int or None
        Number of patterns of the model. None if there is none, or only an index of the
        mean difference.
    decided_by : str
        How settings were compared.
    """
    estimate = tests.dimensions
    errors = [
        compute_p_error(each.p, each.relabellings) for each in estimate.dimension_tests
    ]
    curve = [
        DimensionRecord(
            patterns=each.patterns,
            excess=each.excess,
            chance_median=each.chance[0],
            chance_95=each.chance[1],
            p=each.p,
            relabellings=each.relabellings,
            p_error=error,
            statistic=each.statistic,
        )
        for each, error in zip(estimate.dimension_tests, errors, strict=True)
    ]
    return PatternCountRecord(
        by_agreement=None if forced else chosen,
        by_test=estimate.number,
        forced=forced,
        why=""
        if chosen is None
        else explain_disagreement(tests, chosen, forced is not None),
        test=PermutationTestRecord(
            n_patterns=estimate.number,
            level=estimate.level,
            overlap=estimate.overlap,
            curve=tuple(curve),
        ),
        decided_by=decided_by,
    )


def explain_disagreement(tests: GroupTests, chosen: int, is_forced: bool) -> str:
    """Return in words why the test and the model have different numbers of patterns;
    empty if they do not.
    """
    tested = tests.dimensions.number
    if tested == chosen:
        return ""
    if tests.finding is Finding.NO_DIFFERENCE:
        return "the test detects no difference between patients and controls: the patterns may be nothing but chance"
    if tested == 0 and chosen == 1:
        return "patients do not differ from each other more than controls do: the pattern is their mean difference"
    if tested == 0:
        return "patients do not differ from each other more than controls do: the patterns may be nothing but chance"
    if is_forced:
        return f"the test finds {tested}: try it with --patterns {tested}"
    if tested > chosen:
        return (
            f"patients differ from each other in {tested} directions, but {chosen} patterns describe other people "
            "better: the others are weak or go together with them"
        )
    return (
        f"{chosen} patterns describe other people best, but only {tested} exceed chance: one may be split in two, or "
        "there are too few people for the test to see all"
    )
