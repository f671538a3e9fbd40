"""What a cohort says about the number of patterns, before anything is trained, and about each pattern, after it."""

from collections.abc import Sequence

import numpy as np

from rindices._typing import FloatArray
from rindices.errors import Problem, ProblemCode, Severity, capitalise_first, join_names
from rindices.learners.log_transform import apply_log_transform
from rindices.learners.pattern_stability import PatternStability
from rindices.model.records import (
    DimensionRecord,
    Interval,
    PatternCountRecord,
    PatternRecord,
    PermutationTestRecord,
)
from rindices.preprocess.residualise import CategoricalCovariate, derive_codings
from rindices.selection.dimensions import (
    N_PERMUTATIONS,
    SIGNIFICANCE_LEVEL,
    DimensionEstimate,
    ParticipantData,
    count_dimensions,
)
from rindices.selection.relabel import PermutationScheme, fit_log_odds
from rindices.tables.cohort import ID, SITE, Cohort
from rindices.threads import limit_blas_threads

MAX_PARTICIPANTS_PER_GROUP = 2000  # of each group: more would only cost time
MIN_CARRIER_SHARE = 0.3  # carriers below this share are called few
MIN_CONSENSUS_SCALE = (
    0.7  # scale of a consensus, against that of single members, below which members hardly agree on a pattern
)
MIN_SPLIT_HALF = 0.5  # rank correlation of disjoint halves below this is called not reproduced
MIN_GROUP_OVERLAP = 0.3  # below this, groups differ so much in covariates that the test can hardly see a disease


def count_cohort_dimensions(
    cohort: Cohort, seed: int = 0, level: float = SIGNIFICANCE_LEVEL, relabellings: int = N_PERMUTATIONS
) -> DimensionEstimate:
    """Ask whether patients differ from controls, and in how many patterns.

    Volumes enter as logarithms, in which a share of a region is a shift, and are adjusted for the covariates on
    controls, and for the site where sites are known. Labels are exchanged only between people of alike covariates and
    of the same site. Of several scans of a person the first counts. At most `MAX_PARTICIPANTS_PER_GROUP` people of each
    group are used, drawn at random.
    """
    cohort = cohort.take(~cohort.people[ID].duplicated().to_numpy())
    cohort = _subsample_groups(cohort, MAX_PARTICIPANTS_PER_GROUP, np.random.default_rng([seed, 8]))
    codings = derive_codings(cohort.covariates)  # learnt on everyone, so that labels do not matter
    columns = [coding.encode(cohort.covariates[coding.name]) for coding in codings]
    numbers = [
        part for coding, part in zip(codings, columns, strict=True) if not isinstance(coding, CategoricalCovariate)
    ]
    kinds = [part for coding, part in zip(codings, columns, strict=True) if isinstance(coding, CategoricalCovariate)]
    strata = np.zeros(len(cohort), dtype=np.intp)
    if SITE in cohort.people:
        strata = np.unique(cohort.people[SITE].astype(str), return_inverse=True)[1]
        columns.append(np.eye(strata.max() + 1)[strata][:, 1:])
        kinds.append(columns[-1])
    design = np.concatenate([np.ones((len(cohort), 1)), *map(_standardise_columns, columns)], axis=1)
    with limit_blas_threads():
        odds = fit_log_odds(_join_columns(numbers, len(cohort)), _join_columns(kinds, len(cohort)), cohort.is_patient)
        people = ParticipantData(log_transform_volumes(cohort.volumes.to_numpy(dtype=float)), design)
        return count_dimensions(people, cohort.is_patient, PermutationScheme(odds, strata), seed, level, relabellings)


def log_transform_volumes(volumes: FloatArray) -> FloatArray:
    """Return logarithms of volumes (N, R) against each region's mean, by the tangent below a tenth of it.

    A table with negative values holds no volumes and is taken as it is, in standard deviations.
    """
    if (volumes >= 0).all() and (volumes.mean(axis=0) > 0).all():
        return apply_log_transform(volumes / volumes.mean(axis=0) - 1.0, 1.0)
    return _standardise_columns(volumes)


def is_null_result(found: DimensionEstimate) -> bool:
    """Return whether patients cannot be told from controls, the groups being alike enough to be compared."""
    return found.number == 0 and found.overlap >= MIN_GROUP_OVERLAP


def make_test_record(estimate: DimensionEstimate) -> PermutationTestRecord:
    """Return the record of the permutation test."""
    curve = [
        DimensionRecord(test.patterns, test.excess, *test.chance, test.p, test.relabellings)
        for test in estimate.dimension_tests
    ]
    return PermutationTestRecord(estimate.number, estimate.level, estimate.overlap, tuple(curve))


def make_number_record(estimate: DimensionEstimate, tried: Sequence[int], agreed: int | None) -> PatternCountRecord:
    """Return the number of patterns by agreement and by the test, and why they differ.

    Parameters
    ----------
    tried : sequence of int
        The numbers of patterns of the study; a single one was forced.
    agreed : int or None
        The number chosen by agreement; None where none is stable or none was tried.
    """
    forced = len(set(tried)) == 1
    return PatternCountRecord(
        by_agreement=None if forced else agreed,
        by_test=estimate.number,
        forced=tried[0] if forced else None,
        why=explain_disagreement(estimate.number, tried, agreed),
        test=make_test_record(estimate),
    )


def explain_disagreement(tested: int, tried: Sequence[int], agreed: int | None) -> str:
    """Return in words why the test and agreement name different numbers; empty where they do not."""
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


def make_pattern_records(stability: PatternStability) -> tuple[PatternRecord, ...]:
    """Return how each pattern fares in other people."""
    return tuple(
        PatternRecord(
            name=f"r{k + 1}",
            stability=float(stability.stability[:, k].mean()),
            stability_interval=_compute_interval(stability.stability[:, k]),
            split_half=float(stability.split_half[:, k].mean()),
            split_half_interval=_compute_interval(stability.split_half[:, k]),
            carriers=float(stability.carriers[k]),
            carriers_interval=(float(stability.carriers_interval[0, k]), float(stability.carriers_interval[1, k])),
        )
        for k in range(stability.stability.shape[1])
    )


def list_weak_patterns(scales: Sequence[float]) -> list[str]:
    """Return the names of patterns on which members agree so little that their mean is nearly flat."""
    return [f"r{k + 1}" for k, scale in enumerate(scales) if scale < MIN_CONSENSUS_SCALE]


def check_consensus_scale(scales: Sequence[float]) -> list[Problem]:
    """Return a warning for patterns on which members hardly agree."""
    weak = list_weak_patterns(scales)
    what = f"members hardly agree on {join_names(weak)}: fewer patterns may be enough"
    return [Problem(Severity.WARNING, what, code=ProblemCode.WEAK_PATTERNS)] if weak else []


def collect_study_warnings(number: PatternCountRecord, patterns: Sequence[PatternRecord]) -> list[Problem]:
    """Return what a user should doubt about a finished study."""
    warnings: list[tuple[ProblemCode, str, str]] = []  # code, what and cure
    if number.why:
        who = "agreement" if number.forced is None else "the study"
        what = f"{who} and the test name different numbers of patterns"
        warnings.append((ProblemCode.N_PATTERNS_UNCLEAR, what, number.why))
    if number.test.overlap < MIN_GROUP_OVERLAP:
        what = "controls and patients differ so much in covariates or site that the test can hardly compare them"
        warnings.append((ProblemCode.GROUPS_NOT_COMPARABLE, what, "controls more like the patients would help"))
    rare = [pattern.name for pattern in patterns if pattern.carriers < MIN_CARRIER_SHARE]
    if rare:
        what = f"few patients carry {join_names(rare)}"
        warnings.append((ProblemCode.FEW_CARRIERS, what, "look for a batch, a scanner or a subgroup behind it"))
    lost = [pattern.name for pattern in patterns if pattern.split_half < MIN_SPLIT_HALF]
    if lost:
        what = f"other people do not reproduce {join_names(lost)}"
        warnings.append((ProblemCode.NOT_REPRODUCED, what, "try fewer patterns, or more people"))
    return [Problem(Severity.WARNING, what, "", capitalise_first(cure), code) for code, what, cure in warnings]


def _compute_interval(values: FloatArray) -> Interval:
    return float(np.quantile(values, 0.025)), float(np.quantile(values, 0.975))


def _subsample_groups(cohort: Cohort, number: int, rng: np.random.Generator) -> Cohort:
    if max(cohort.n_controls, cohort.n_patients) <= number:
        return cohort
    groups = [rng.permutation(np.flatnonzero(who))[:number] for who in (cohort.is_control, cohort.is_patient)]
    return cohort.take(np.concatenate(groups))


def _standardise_columns(columns: FloatArray) -> FloatArray:
    spread = columns.std(axis=0)
    return np.asarray((columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def _join_columns(parts: list[FloatArray], number: int) -> FloatArray:
    return np.concatenate([np.zeros((number, 0)), *parts], axis=1)
