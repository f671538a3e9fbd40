"""Build the model of the chosen setting, and the records of what was compared.

Shape letters: N people, R regions, M patterns.
"""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, FloatArray
from rindices._version import __version__
from rindices.learners.ensemble import (
    HeldOutLikelihood,
    Member,
    choose_common_shape,
    rescale_consensus,
    select_usable_members,
)
from rindices.learners.pattern_stability import (
    GroupSeparation,
    PatternStability,
    assess_pattern_stability,
    measure_separation,
)
from rindices.model.consensus import average_weighted
from rindices.model.fitted import CITATION, FittedModel
from rindices.model.interactions import average_interaction
from rindices.model.intervals import MemberControls, calibrate_intervals
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
from rindices.model.unusual import TrainingDistribution
from rindices.preprocess.pipeline import Preprocessing
from rindices.preprocess.residualise import round_outwards
from rindices.selection.choose import CandidateEvaluation, GridPoint, SelectionResult
from rindices.selection.patterns import compute_standard_error
from rindices.study.config import ModelConfig
from rindices.study.people import StudyPeople
from rindices.study.plan import resolve_recipe
from rindices.study.recipes import get_study_recipe
from rindices.tables.cohort import ID, Cohort

MembersByPoint = Mapping[GridPoint, Sequence[Member]]
"""All members of each grid point."""


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
    people: StudyPeople,
    gathered: dict[GridPoint, list[Member]],
    choice: SelectionResult,
    model: ModelConfig,
    selection: SelectionRecord,
) -> FittedModel:
    """Build the consensus model of the agreeing members of the chosen setting.

    gathered: all members by grid point. Returns with the R-indices of the study's own people.
    """
    assert choice.best is not None
    cohort, seed = people.cohort, people.study.run.seed
    usable = select_usable_members(gathered[choice.evaluations[choice.best].point])
    chosen = [usable[index] for index in choice.agreeing]
    numbers = [member.number for member in chosen]
    orders = tuple(tuple(int(index) for index in order) for order in choice.orders)
    everyone = people.prepare()
    completed = everyone.complete(by_group=False).X  # groups are compared below
    aligned = np.stack([member.patterns[:, list(order)] for member, order in zip(chosen, orders, strict=True)])
    fitted = FittedModel(
        people.preprocessing,
        tuple(member.head for member in chosen),
        orders,
        aligned.mean(axis=0),
        TrainingDistribution.fit(completed, cohort.people[ID].tolist()),
        _make_card(cohort, model, seed, selection),
        selection,
        pipelines=tuple(people.pipelines[number] for number in numbers) if people.pipelines else (),
    )
    unseen = np.ones((len(numbers), len(cohort)), dtype=bool) if people.seen is None else ~people.seen[numbers]
    inferred = fitted.infer_members(cohort)
    before = average_weighted(inferred, unseen.T.astype(float))
    heads, unit = rescale_consensus(fitted.heads, orders, before[cohort.is_patient])
    indices, aligned = before / unit, aligned * unit[:, None]
    recipe, values = resolve_recipe(model)
    share = get_study_recipe(recipe).get_subsample_share(values)
    errors = compute_standard_error(aligned, share) if len(aligned) > 1 else None
    controls, patients = (
        indices[mask & ~np.isnan(indices).any(axis=1)] for mask in (cohort.is_control, cohort.is_patient)
    )
    stability = assess_pattern_stability(
        completed,
        everyone.y,
        np.nan_to_num(indices),
        aligned.mean(axis=0)[-1],
        seed,
        learn_weights=get_study_recipe(recipe).learn_weights,
        reference=everyone.reference,
        kinds=everyone.kinds,
    )
    separation = measure_separation(controls, patients, seed)
    seed_changes = [None] * len(unit) if people.seen is None else compute_seed_changes(inferred / unit, unseen)
    records = make_pattern_records(stability, separation, seed_changes, people.seen is None)
    card = replace(
        fitted.card,
        covariate_ranges=_compute_covariate_ranges(cohort, people.preprocessing),
        pattern_scale=tuple(float(value) for value in unit),
        member_steps=tuple(member.steps for member in chosen),
        interval_over="" if errors is None else "people" if share < 1 else "trainings",
        pattern_evidence=records,
    )
    fitted = replace(
        fitted,
        heads=heads,
        patterns=aligned.mean(axis=0),
        patterns_se=errors,
        card=card,
        selection=replace(selection, patterns=records),
    )
    members = [
        MemberControls(head, order, people.prepare(number).complete(by_group=False).X[cohort.is_control])
        for head, order, number in zip(heads, orders, numbers, strict=True)
    ]
    intervals = calibrate_intervals(members, fitted.patterns, patients, share, seed, average_interaction(fitted))
    fitted = replace(fitted, intervals=intervals)
    own = None if people.seen is None else unseen
    fitted = replace(fitted, indices=fitted.tabulate_own_people(cohort, own))
    if cohort.visits is None:
        return fitted
    rows = pd.Index(cohort.people[ID]).get_indexer(cohort.visits.people[ID])
    visits = fitted.tabulate_own_people(cohort.visits, None if own is None else own[:, rows])
    return replace(fitted, visit_indices=visits)


def compute_seed_changes(inferred: FloatArray, unseen: BoolArray) -> list[float | None]:
    """Return by how much a cross-fitted R-index changes with another seed, as the root mean square over people.

    The n members that have not seen a person are of independent partitions. With v their variance, two seeds differ by
    2 v / n on average, squared. ``inferred`` is (S, N, M), ``unseen`` (S, N). None if nobody has two such members.
    """
    number = unseen.sum(axis=0)
    several = number > 1
    if not several.any():
        return [None] * inferred.shape[2]
    values = np.where(unseen[:, several, None], inferred[:, several], np.nan)
    squared = 2.0 * np.nanvar(values, axis=0, ddof=1) / number[several, None]
    return [float(value) for value in np.sqrt(squared.mean(axis=0))]


def make_pattern_records(
    stability: PatternStability,
    separation: GroupSeparation,
    seed_changes: Sequence[float | None],
    in_sample: bool,
) -> tuple[PatternRecord, ...]:
    """Return how well each pattern is reproduced in other people, and how it separates patients from controls."""
    return tuple(
        PatternRecord(
            name=f"r{k + 1}",
            stability=float(stability.stability[:, k].mean()),
            stability_interval=compute_interval(stability.stability[:, k]),
            split_half=float(stability.split_half[:, k].mean()),
            split_half_interval=compute_interval(stability.split_half[:, k]),
            carriers=float(separation.carriers[0, k]),
            carriers_interval=_compute_bootstrap_interval(separation.carriers[1:, k]),
            auc=float(separation.auc[0, k]),
            auc_interval=_compute_bootstrap_interval(separation.auc[1:, k]),
            seed_change=seed_changes[k],
            in_sample=in_sample,
        )
        for k in range(stability.stability.shape[1])
    )


def compute_interval(values: FloatArray) -> Interval:
    """Return the range that holds the middle 95 % of values."""
    return float(np.quantile(values, 0.025)), float(np.quantile(values, 0.975))


def _compute_bootstrap_interval(values: FloatArray) -> Interval | None:
    """Return the interval of bootstrapped values; None without any, as where people cannot be pooled."""
    return compute_interval(values) if len(values) else None


def _make_card(cohort: Cohort, model: ModelConfig, seed: int, selection: SelectionRecord) -> ModelCard:
    """Return what is known of a model before its members are joined."""
    chosen = selection.chosen
    assert chosen is not None
    return ModelCard(
        unit=cohort.unit,
        source=cohort.source,
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
    return make_provenance(cohort.fingerprint(), seed)


def make_provenance(fingerprint: str, seed: int) -> ProvenanceRecord:
    """Return what the numbers of a study depend on, given a fingerprint of its people."""
    return ProvenanceRecord(
        seed=seed,
        fingerprint=fingerprint,
        rindices_version=__version__,
        versions={"python": platform.python_version(), "numpy": version("numpy")},
    )


def _compute_covariate_ranges(cohort: Cohort, preprocessing: Preprocessing) -> dict[str, tuple[float, float]]:
    """Return the range of each numeric covariate that is adjusted for, among all training people, rounded outwards."""
    adjusted = [coding.name for coding in preprocessing.residualiser.codings]
    numbers = cohort.covariates[adjusted].select_dtypes("number")
    return {name: round_outwards(numbers[name].min(), numbers[name].max()) for name in numbers}
