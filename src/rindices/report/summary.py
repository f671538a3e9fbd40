"""Numbers and flags behind the sentences of the report; the sentences are in its templates."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from rindices.learners.pattern_stability import N_BOOTSTRAPS, N_SPLITS
from rindices.model.records import ModelCard
from rindices.model.trajectories import list_trajectory_heads
from rindices.report.people import CohortWarnings, collect_cohort_warnings
from rindices.report.region_names import format_region_name
from rindices.report.study_results import StudyResults
from rindices.study.recipes import get_study_recipe
from rindices.study.result_checks import collect_study_warnings, list_weak_patterns
from rindices.tables.layout import freesurfer
from rindices.tables.validation.groups import CONTROL, PATIENT
from rindices.wording import FEATURE_UNIT, get_wording

_MAX_PATTERN_SIMILARITY, _MAX_INDEX_CORRELATION = 0.7, 0.6
_CONTROL_QUANTILE = 0.95  # quantile of controls beyond which an R-index is called raised


@dataclass(frozen=True)
class PatternLocation:
    """Where a pattern is strongest, and whether regions mostly lose or gain there."""

    name: str
    is_loss: bool
    structures: Sequence[str]


@dataclass(frozen=True)
class Findings:
    """The result in numbers.

    Attributes
    ----------
    is_doubtful : bool
        Whether the permutation test detected no difference between the groups.
    is_mean_difference : bool
        Whether there is one index along the mean difference instead of patterns.
    share_raised, share_raised_twice : float
        Share of patients beyond 95 % of controls in at least one pattern, and in more than one.
    are_posterior_means : bool
        Whether R-indices are posterior means of severities between 0 and 1.
    """

    is_doubtful: bool
    n_patterns: int
    locations: Sequence[PatternLocation]
    share_raised: float
    share_raised_twice: float
    is_mean_difference: bool = False
    are_posterior_means: bool = False


@dataclass(frozen=True)
class StudyWarnings:
    """What a reader should know before relying on the result.

    Attributes
    ----------
    n_not_converged, n_left_out : int
        Members that did not converge, and those that converged but disagree with the rest.
    similar_pairs : sequence of tuple of str
        Patterns in nearly the same regions.
    correlated_pairs : sequence of (str, str, float)
        R-indices that are correlated among patients.
    """

    cohort: CohortWarnings
    weak_patterns: Sequence[str]
    n_trained: int
    n_converged: int
    n_not_converged: int
    n_left_out: int
    intervals_over_trainings: bool
    similar_pairs: Sequence[tuple[str, str]]
    correlated_pairs: Sequence[tuple[str, str, float]]
    is_unadjusted: bool


@dataclass(frozen=True)
class Methods:
    """What the methods paragraph says beyond the other sections.

    Attributes
    ----------
    share : float
        Share of the people that each member is trained on.
    training : str
        How the training went, where the recipe has something to say.
    ends_at_patients : bool
        Whether an R-index of 1 is the 98th percentile of patients.
    """

    card: ModelCard
    recipe: str
    recipe_description: str
    training: str
    share: float
    n_patterns_tried: Sequence[int]
    weights_tried: Sequence[float]
    n_members: int
    ends_at_patients: bool
    n_bootstraps: int = N_BOOTSTRAPS
    n_splits: int = N_SPLITS


@dataclass(frozen=True)
class Adjustment:
    """What was removed before learning: covariates on a scale, and effects of sites (``site_mode`` is '' if none)."""

    covariates: Sequence[str]
    n_sites: int = 0
    site_mode: str = ""
    scale: str = "linear"


def summarise_findings(results: StudyResults) -> Findings:
    """Return the result in numbers."""
    raised = results.select_group(PATIENT) > results.select_group(CONTROL).quantile(_CONTROL_QUANTILE)
    return Findings(
        is_doubtful=not results.selection.is_difference_detected,
        n_patterns=results.model.n_patterns,
        locations=[locate_pattern(results, name) for name in results.names],
        share_raised=float(raised.any(axis=1).mean()),
        share_raised_twice=float((raised.sum(axis=1) > 1).mean()),
        is_mean_difference=results.is_mean_difference,
        are_posterior_means=bool(list_trajectory_heads(results.model)),
    )


def locate_pattern(results: StudyResults, name: str, max_structures: int = 3) -> PatternLocation:
    """Return where a pattern is strongest; structures are named without their side."""
    top = results.list_top_regions(name)
    plain = list(top["region"])
    if results.model.card.unit != FEATURE_UNIT:
        plain = [format_region_name(region).removesuffix(", left").removesuffix(", right") for region in plain]
    is_loss = bool((top["change"] < 0).mean() > 0.5)
    return PatternLocation(name, is_loss, list(dict.fromkeys(plain))[:max_structures])


def collect_warnings(results: StudyResults) -> StudyWarnings:
    """Return what a reader should know before relying on the result."""
    card, members = results.model.card, results.chosen.members
    similar, correlated = _compare_patterns(results)
    return StudyWarnings(
        cohort=collect_cohort_warnings(results.cohort, _list_explained_codes(results)),
        weak_patterns=list_weak_patterns(card.pattern_scale),
        n_trained=members.trained,
        n_converged=members.converged,
        n_not_converged=members.trained - members.converged,
        n_left_out=members.converged - len(results.model.heads),
        intervals_over_trainings=card.interval_over == "trainings",
        similar_pairs=similar,
        correlated_pairs=correlated,
        is_unadjusted=not results.model.covariates and results.model.preprocessing.harmoniser is None,
    )


def _list_explained_codes(results: StudyResults) -> set[str]:
    """Return the codes of the problems that the section on trust explains."""
    return {str(problem.code) for problem in collect_study_warnings(results.selection)}


def _compare_patterns(results: StudyResults) -> tuple[list[tuple[str, str]], list[tuple[str, str, float]]]:
    """Return the pairs of patterns in the same regions, and those that are correlated among patients."""
    effects = np.abs(results.model.patterns[-1])
    directions = effects / np.maximum(np.linalg.norm(effects, axis=1, keepdims=True), 1e-12)
    similarity = directions @ directions.T
    rho = np.atleast_2d(np.corrcoef(results.select_group(PATIENT).to_numpy(dtype=float), rowvar=False))
    pairs = [(i, j, results.names[i], results.names[j]) for i, j in combinations(range(len(effects)), 2)]
    similar = [(first, second) for i, j, first, second in pairs if similarity[i, j] > _MAX_PATTERN_SIMILARITY]
    correlated = [
        (first, second, float(rho[i, j])) for i, j, first, second in pairs if abs(rho[i, j]) > _MAX_INDEX_CORRELATION
    ]
    return similar, correlated


def summarise_adjustment(results: StudyResults) -> Adjustment:
    """Return what was removed before learning."""
    harmoniser = results.model.preprocessing.harmoniser
    if harmoniser is None:
        return Adjustment(results.model.covariates, scale=results.model.preprocessing.adjust)
    scale = results.model.preprocessing.adjust
    return Adjustment(results.model.covariates, len(harmoniser.sites), harmoniser.mode, scale)


def list_measures(results: StudyResults) -> list[str]:
    """Return what is measured in the regions beside volume."""
    if results.model.card.unit == FEATURE_UNIT:
        return []
    return sorted({freesurfer.infer_measure(region) for region in results.model.regions} - {"volume"})


def summarise_methods(results: StudyResults) -> Methods:
    """Return what the methods paragraph says beyond the other sections."""
    card, grid = results.model.card, results.selection.grid
    name, values = ("default", {}) if card.recipe is None else (card.recipe.name, card.recipe.settings)
    recipe = get_study_recipe(name)
    return Methods(
        card=card,
        recipe=name,
        recipe_description=get_wording(card.unit)(recipe.description),
        training=recipe.describe_training(values, card.member_steps),
        share=recipe.get_subsample_share(values),
        n_patterns_tried=sorted({record.setting.n_patterns for record in grid}),
        weights_tried=sorted({record.setting.orthogonality or 0 for record in grid}),
        n_members=len(results.model.heads),
        ends_at_patients=results.model.heads[0].kind == "contrastive",
    )
