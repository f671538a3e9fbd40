"""Build the model of the chosen setting, and the records of what was compared.

Shape letters: N people, R regions, M patterns.
"""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version

import numpy as np

from rindices._typing import FloatArray
from rindices._version import __version__
from rindices.learners.ensemble import (
    HeldOutLikelihood,
    Member,
    choose_common_shape,
    rescale_consensus,
    select_usable_members,
)
from rindices.learners.pattern_stability import PatternStability, assess_pattern_stability
from rindices.learners.prepared_people import PreparedPeople
from rindices.model.fitted import CITATION, FittedModel
from rindices.model.interactions import average_interaction
from rindices.model.intervals import calibrate_intervals
from rindices.model.novelty import TrainingDistribution
from rindices.model.records import (
    AgreementRecord,
    CandidateRecord,
    HeldOutLikelihoodRecord,
    Interval,
    MemberCountRecord,
    ModelCard,
    PatternRecord,
    ProvenanceRecord,
    RecipeRecord,
    SelectionRecord,
    SettingRecord,
)
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.choose import CandidateEvaluation, GridPoint, SelectionResult
from rindices.selection.patterns import compute_standard_error
from rindices.study.config import ModelConfig
from rindices.study.plan import resolve_recipe
from rindices.study.recipes import get_study_recipe
from rindices.tables.cohort import Cohort

MembersByPoint = Mapping[GridPoint, Sequence[Member]]
"""All members of each grid point."""


def make_selection_record(choice: SelectionResult, gathered: MembersByPoint) -> SelectionRecord:
    """Return what was compared and chosen."""
    grid = make_candidate_records(choice.evaluations, gathered)
    chosen = None if choice.best is None else grid[choice.best]
    ties = tuple(grid[index].setting for index in choice.ties)
    return SelectionRecord(chosen, ties, grid)


def make_candidate_records(
    evaluations: Sequence[CandidateEvaluation], gathered: MembersByPoint
) -> tuple[CandidateRecord, ...]:
    """Return the records of evaluated settings."""
    held_out = _make_held_out_records(gathered)
    return tuple(make_candidate_record(evaluation, held_out.get(evaluation.point)) for evaluation in evaluations)


def collect_likelihoods(members: Sequence[Member]) -> FloatArray | None:
    """Return the likelihood of held-out patients of all members (S,) with the shape that they prefer together.

    None for learners without a likelihood.
    """
    held_out = [member.held_out for member in members if member.held_out is not None]
    if not held_out or len(held_out) < len(members):
        return None
    shape = choose_common_shape(held_out)
    return np.array([each.get_value(shape) for each in held_out])


def _make_held_out_records(gathered: MembersByPoint) -> dict[GridPoint, HeldOutLikelihoodRecord]:
    """Return the likelihood of held-out patients by grid point; empty for learners without a likelihood."""
    found = {point: collect_likelihoods(members) for point, members in gathered.items()}
    values = {point: array for point, array in found.items() if array is not None}
    if not values:
        return {}
    best = max(values.values(), key=lambda array: float(array.mean()))
    return {point: _make_held_out_record(gathered[point], best, array) for point, array in values.items()}


def _make_held_out_record(members: Sequence[Member], best: FloatArray, values: FloatArray) -> HeldOutLikelihoodRecord:
    """Return the record of members with these likelihoods (S,), beside those of the best grid point."""
    held_out = [member.held_out for member in members if member.held_out is not None]
    differences = best - values if len(best) == len(values) else np.array([best.mean() - values.mean()])
    curved_gains = np.array([each.get_value("curved") - each.get_value("straight") for each in held_out])
    return HeldOutLikelihoodRecord(
        shape=choose_common_shape(held_out),
        straight=_average([each.straight for each in held_out]),
        curved=_average([each.curved for each in held_out]),
        interacting=_average([each.interacting for each in held_out]),
        below_best=_finite_or_none(float(differences.mean())),
        below_best_se=_compute_error(differences),
        visits=_describe_visits(held_out),
        coupling_gain=_average([each.coupling_gain for each in held_out]),
        curved_gain_se=_compute_error(curved_gains),
    )


def _compute_error(differences: FloatArray) -> float | None:
    """Return the standard error of the mean of differences (S,); None where it is not known."""
    return _finite_or_none(float(differences.std(ddof=1) / np.sqrt(len(differences)))) if len(differences) > 1 else None


def _describe_visits(held_out: Sequence[HeldOutLikelihood]) -> str | None:
    """Return how repeat visits were used by most members; None without any."""
    choices = [each.coupled for each in held_out if each.coupled is not None]
    return None if not choices else "coupled" if 2 * sum(choices) > len(choices) else "mean"


def _average(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _finite_or_none(float(np.mean(known))) if known else None


def make_candidate_record(evaluation: CandidateEvaluation, held_out: HeldOutLikelihoodRecord | None) -> CandidateRecord:
    """Return the record of one evaluated setting."""
    agreement = evaluation.agreement
    numbers = (None, None, None) if agreement is None else map(_finite_or_none, agreement[:3])
    low, high = evaluation.interval
    return CandidateRecord(
        setting=SettingRecord(*evaluation.point),
        agreement=AgreementRecord(*numbers),
        agreement_between=evaluation.between,
        concordance_interval=(_finite_or_none(low), _finite_or_none(high)),
        members=MemberCountRecord(evaluation.trained, evaluation.converged),
        stable=evaluation.stable,
        why=evaluation.why,
        by_member=_list_member_concordance(evaluation),
        pairwise=() if agreement is None else tuple(tuple(map(_finite_or_none, row)) for row in agreement.pairwise),
        held_out=held_out,
    )


def _list_member_concordance(evaluation: CandidateEvaluation) -> tuple[float | None, ...]:
    """Return the concordance by which each member is judged."""
    if evaluation.agreement is None:
        return ()
    evidence = evaluation.evidence
    return tuple(map(_finite_or_none, evaluation.agreement.per_member if evidence is None else evidence[:, 0]))


def _finite_or_none(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


def build_model(
    cohort: Cohort,
    preprocessing: Preprocessing,
    people: PreparedPeople,
    gathered: dict[GridPoint, list[Member]],
    choice: SelectionResult,
    model: ModelConfig,
    seed: int,
    selection: SelectionRecord,
) -> FittedModel:
    """Build the consensus model of the agreeing members of the chosen setting.

    Parameters
    ----------
    cohort : Cohort
    preprocessing : Preprocessing
    people : PreparedPeople
        The cohort, prepared; missing cells are NaN.
    gathered : dict
        All members by grid point.
    choice : SelectionResult
    model : ModelConfig
    seed : int
    selection : SelectionRecord

    Returns
    -------
    FittedModel
    """
    assert choice.best is not None
    X, y, reference, kinds = people[:4]
    completed = people.complete(by_group=False).X  # groups are compared below
    point = choice.evaluations[choice.best].point
    usable = select_usable_members(gathered[point])
    chosen = [usable[index] for index in choice.agreeing]
    aligned = [member.patterns[:, list(order)] for member, order in zip(chosen, choice.orders, strict=True)]
    heads, unit = rescale_consensus([member.head for member in chosen], choice.orders, completed[cohort.is_patient])
    recipe, values = resolve_recipe(model)
    orders = tuple(tuple(int(index) for index in order) for order in choice.orders)
    patterns = np.mean(aligned, axis=0) * unit[:, None]
    share, errors = get_study_recipe(recipe).get_subsample_share(values), None
    if len(aligned) > 1:
        errors = compute_standard_error(np.stack(aligned) * unit[:, None], share)
    card = replace(
        _make_card(cohort, model, seed, selection),
        pattern_scale=tuple(float(value) for value in unit),
        member_steps=tuple(member.steps for member in chosen),
        interval_over="" if errors is None else "people" if share < 1 else "trainings",
    )
    fitted = FittedModel(
        preprocessing, heads, orders, patterns, TrainingDistribution.fit(completed), card, selection, patterns_se=errors
    )
    learn_weights = get_study_recipe(recipe).learn_weights
    stability = assess_pattern_stability(
        completed, y, fitted.infer(X), patterns[-1], seed, learn_weights=learn_weights, reference=reference, kinds=kinds
    )
    records = make_pattern_records(stability)
    return replace(
        fitted,
        card=replace(card, pattern_evidence=records),
        selection=replace(selection, patterns=records),
        intervals=calibrate_intervals(
            fitted.infer,
            heads[0],
            patterns,
            completed[~cohort.is_patient],
            X[cohort.is_patient],
            share,
            seed,
            average_interaction(fitted),
        ),
    )


def make_pattern_records(stability: PatternStability) -> tuple[PatternRecord, ...]:
    """Return how well each pattern is reproduced in other people."""
    return tuple(
        PatternRecord(
            name=f"r{k + 1}",
            stability=float(stability.stability[:, k].mean()),
            stability_interval=compute_interval(stability.stability[:, k]),
            split_half=float(stability.split_half[:, k].mean()),
            split_half_interval=compute_interval(stability.split_half[:, k]),
            carriers=float(stability.carriers[:, k].mean()),
            carriers_interval=compute_interval(stability.carriers[:, k]),
            auc=float(stability.auc[:, k].mean()),
            auc_interval=compute_interval(stability.auc[:, k]),
        )
        for k in range(stability.stability.shape[1])
    )


def compute_interval(values: FloatArray) -> Interval:
    """Return the range that holds the middle 95 % of values."""
    return float(np.quantile(values, 0.025)), float(np.quantile(values, 0.975))


def _make_card(cohort: Cohort, model: ModelConfig, seed: int, selection: SelectionRecord) -> ModelCard:
    """Return what is known of a model before its members are joined."""
    chosen = selection.chosen
    assert chosen is not None
    return ModelCard(
        unit=cohort.unit,
        source=cohort.source,
        covariate_ranges=_compute_covariate_ranges(cohort),
        trained_on={"people": len(cohort), "controls": cohort.n_controls, "patients": cohort.n_patients},
        orthogonality=chosen.setting.orthogonality,
        agreement=chosen.agreement,
        agreement_between=chosen.agreement_between,
        concordance_interval=chosen.concordance_interval,
        members_trained=chosen.members,
        recipe=RecipeRecord(*resolve_recipe(model)),
        **vars(collect_provenance(cohort, seed)),
        citation=CITATION,
        number_of_patterns=selection.number_of_patterns,
        finding=selection.finding,
    )


def collect_provenance(cohort: Cohort, seed: int) -> ProvenanceRecord:
    """Return what the numbers of a study depend on."""
    return ProvenanceRecord(
        seed=seed,
        fingerprint=cohort.fingerprint(),
        rindices_version=__version__,
        versions={"python": platform.python_version(), "numpy": version("numpy")},
    )


def _compute_covariate_ranges(cohort: Cohort) -> dict[str, tuple[float, float]]:
    """Return the range of each numeric covariate among all training people."""
    numbers = cohort.covariates.select_dtypes("number")
    return {name: (float(numbers[name].min()), float(numbers[name].max())) for name in numbers}
