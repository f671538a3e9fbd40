"""Build the model of the chosen setting, and the records of what was compared.

Shape letters: N people, R regions, M patterns.
"""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import NamedTuple

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, FloatArray
from rindices._version import __version__
from rindices.learners.contrastive.whole_cohort_start import CHANCE_LOSS, MIN_LOSS_GAIN
from rindices.learners.ensemble import (
    GroupSeparation,
    HeldOutLikelihood,
    Member,
    PatternStability,
    assess_pattern_stability,
    choose_common_shape,
    measure_separation,
    rescale_consensus,
    select_usable_members,
)
from rindices.learners.normal_variation import ReferenceTarget
from rindices.learners.prepared_people import N_FOLDS, PreparedPeople
from rindices.model import records
from rindices.model.consensus import average_weighted
from rindices.model.fitted import CITATION, FittedModel
from rindices.model.intervals import MemberControls, calibrate_intervals
from rindices.model.normal_reference import NormalReference
from rindices.model.pattern_tables import average_interaction
from rindices.model.unusual import TrainingDistribution
from rindices.preprocess.residualise import round_outwards
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD
from rindices.selection.agreement import compute_standard_error
from rindices.selection.choose import CandidateEvaluation, GridPoint, SelectionResult
from rindices.study.networks import describe_networks
from rindices.study.study import Study, StudyPeople
from rindices.tables.cohort import GROUP, ID
from rindices.tables.validation.groups import PATIENT


class TrainedSettings(NamedTuple):
    """All settings of a model after training: the people, all members by grid point, and the choice among them."""

    people: StudyPeople
    gathered: Mapping[GridPoint, Sequence[Member]]
    choice: SelectionResult


def make_candidate_records(
    gathered: Mapping[GridPoint, Sequence[Member]], choice: SelectionResult
) -> tuple[records.CandidateRecord, ...]:
    """Return the records of all settings, given all members by grid point and the choice among them."""
    found = {point: collect_likelihoods(members) for point, members in gathered.items()}
    values = {point: array for point, array in found.items() if array is not None}
    best = max(values.values(), key=lambda array: float(array.mean()), default=np.zeros(0))
    held_out = {point: _make_held_out_record(gathered[point], best, array) for point, array in values.items()}
    starts = {point: make_start_record(list_first_likelihoods(gathered[point])) for point in values}
    return tuple(
        _make_candidate_record(each, held_out.get(each.point), starts.get(each.point)) for each in choice.evaluations
    )


def collect_likelihoods(members: Sequence[Member]) -> FloatArray | None:
    """Return the likelihood of held-out patients of the first set of members (S,) with the shape that they prefer.

    Settings are compared by it, since later sets are trained for the chosen one alone. None without a likelihood.
    """
    held_out = list_first_likelihoods(members)
    if not held_out:
        return None
    shape = choose_common_shape(held_out)
    return np.array([each.get_value(shape) for each in held_out])


def collect_group_losses(members: Sequence[Member]) -> FloatArray | None:
    """Return the group loss of held-out people of the first set of members (S,), by the start that was taken."""
    losses = [
        each.whole_cohort_loss if each.start == "whole-cohort" else each.contrastive_loss
        for each in list_first_likelihoods(members)
    ]
    return None if not losses or None in losses else np.array(losses, dtype=float)


def is_diffuse(members: Sequence[Member]) -> bool:
    """Return whether members are of the whole-cohort start."""
    return any(each.start == "whole-cohort" for each in list_first_likelihoods(members))


def list_first_likelihoods(members: Sequence[Member]) -> list[HeldOutLikelihood]:
    """Return the likelihoods of the first set of members, which alone are fitted with all shapes."""
    return [each.held_out for each in members if each.held_out is not None and each.number < N_FOLDS]


def _make_held_out_record(
    members: Sequence[Member], best: FloatArray, values: FloatArray
) -> records.HeldOutLikelihoodRecord:
    """Return the record of members with these likelihoods (S,), beside those of the best grid point."""
    held_out = list_first_likelihoods(members)
    differences = best - values
    curved_gains = np.array([each.get_value("curved") - each.get_value("straight") for each in held_out])
    curved_gains = curved_gains[np.isfinite(curved_gains)]
    coupled = [each.coupled for each in held_out if each.coupled is not None]
    return records.HeldOutLikelihoodRecord(
        shape=choose_common_shape(held_out),
        straight=_average([each.straight for each in held_out]),
        curved=_average([each.curved for each in held_out]),
        interacting=_average([each.interacting for each in held_out]),
        below_best=_finite_or_none(float(differences.mean())),
        below_best_se=_compute_error(differences),
        visits=None if not coupled else "coupled" if 2 * sum(coupled) > len(coupled) else "mean",
        coupling_gain=_average([each.coupling_gain for each in held_out]),
        curved_gain_se=_compute_error(curved_gains),
    )


def make_start_record(members: Sequence[HeldOutLikelihood]) -> records.StartRecord:
    """Return from which start the members of a setting were fitted, and why, in one sentence."""
    taken = members[0].start
    name = f"The {taken} start was taken"
    contrastive, whole_cohort = (
        _average_known([getattr(each, field) for each in members])
        for field in ("contrastive_loss", "whole_cohort_loss")
    )
    if contrastive is None or whole_cohort is None:
        return records.StartRecord(taken, why=f"{name}: it was asked for, or the other one cannot be computed.")
    losses = f"(loss {whole_cohort:.3f}, against {contrastive:.3f}; guessing gives {CHANCE_LOSS:.3f})"
    people = "held-out patients and controls"
    if taken == "whole-cohort":
        why = f"{people} are distinguished better with its patterns than with those of the contrastive start {losses}"
    elif contrastive - whole_cohort < MIN_LOSS_GAIN:
        why = f"with the whole-cohort start, {people} are not distinguished better by {MIN_LOSS_GAIN:g} {losses}"
    else:
        why = f"with the whole-cohort start, {people} are not distinguished clearly better than by guessing {losses}"
    return records.StartRecord(taken, contrastive, whole_cohort, f"{name}: {why}.")


def _average_known(values: Sequence[float | None]) -> float | None:
    """Return the mean of values, all of which must be known."""
    return None if any(value is None for value in values) else _average(values)


def _compute_error(differences: FloatArray) -> float | None:
    """Return the standard error of the mean of differences (S,); None where it is not known."""
    return _finite_or_none(float(differences.std(ddof=1) / np.sqrt(len(differences)))) if len(differences) > 1 else None


def _average(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _finite_or_none(float(np.mean(known))) if known else None


def _make_candidate_record(
    evaluation: CandidateEvaluation,
    held_out: records.HeldOutLikelihoodRecord | None,
    start: records.StartRecord | None,
) -> records.CandidateRecord:
    """Return the record of one evaluated setting."""
    agreement, evidence, (low, high) = evaluation.agreement, evaluation.evidence, evaluation.interval
    numbers = [None] * 3 if agreement is None else [_finite_or_none(number) for number in agreement[:3]]
    by_member, pairwise = np.zeros(0), np.zeros((0, 0))
    if agreement is not None:
        by_member, pairwise = agreement.per_member, agreement.pairwise
    return records.CandidateRecord(
        setting=records.SettingRecord(*evaluation.point),
        agreement=records.AgreementRecord(*numbers),
        agreement_between=evaluation.between,
        concordance_interval=(_finite_or_none(low), _finite_or_none(high)),
        members=records.MemberCountRecord(evaluation.trained, evaluation.converged),
        stable=evaluation.stable,
        why=evaluation.why,
        by_member=tuple(map(_finite_or_none, by_member if evidence is None else evidence[:, 0])),
        pairwise=tuple(tuple(map(_finite_or_none, row)) for row in pairwise),
        held_out=held_out,
        start=start,
    )


def _finite_or_none(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


def build_model(trained: TrainedSettings, selection: records.SelectionRecord) -> FittedModel:
    """Build the consensus model of the agreeing members of the chosen setting, with the study's own R-indices."""
    people, choice = trained.people, trained.choice
    assert choice.best is not None
    cohort, seed = people.cohort, people.study.seed
    members = trained.gathered[choice.evaluations[choice.best].point]
    usable = select_usable_members(members)
    chosen = [usable[index] for index in choice.agreeing]
    numbers = [member.number for member in chosen]
    orders = tuple(tuple(int(index) for index in order) for order in choice.orders)
    everyone = people.prepare()
    completed = everyone.complete(by_group=False)  # groups are compared below
    aligned = np.stack([member.patterns[:, list(order)] for member, order in zip(chosen, orders, strict=True)])
    fitted = FittedModel(
        people.study.preprocessing,
        tuple(member.head for member in chosen),
        orders,
        aligned.mean(axis=0),
        TrainingDistribution.fit(completed.X, cohort.people[ID].tolist()),
        _make_card(people, selection, everyone),
        selection,
        pipelines=tuple(people.pipelines[number] for number in numbers) if people.pipelines else (),
        networks=describe_networks(people, members, chosen, orders),
    )
    unseen = np.ones((len(numbers), len(cohort)), dtype=bool) if people.seen is None else ~people.seen[numbers]
    inferred = fitted.infer_members(cohort)
    before = average_weighted(inferred, unseen.T.astype(float))
    heads, unit = rescale_consensus(fitted.heads, orders, before[cohort.is_patient])
    indices, aligned = before / unit, aligned * unit[:, None]
    share = people.method.get_subsample_share(people.model.resolve_values())
    errors = compute_standard_error(aligned, share) if len(aligned) > 1 else None
    patients = indices[cohort.is_patient & ~np.isnan(indices).any(axis=1)]
    card = replace(
        fitted.card,
        pattern_scale=tuple(float(value) for value in unit),
        member_steps=tuple(member.steps for member in chosen),
        interval_over="" if errors is None else "people" if share < 1 else "trainings",
    )
    patterns = aligned.mean(axis=0)
    fitted = replace(fitted, heads=heads, patterns=patterns, patterns_se=errors, card=card)
    measured = [
        MemberControls(head, order, people.prepare(number).complete(by_group=False).X[cohort.is_control])
        for head, order, number in zip(heads, orders, numbers, strict=True)
    ]
    intervals = calibrate_intervals(measured, patterns, patients, share, seed, average_interaction(fitted))
    fitted = _tabulate_people(replace(fitted, intervals=intervals), people, None if people.seen is None else unseen)
    evidence = make_pattern_records(
        assess_pattern_stability(
            completed, np.nan_to_num(indices), patterns[-1], people.method.choose_weight_learner(chosen), seed
        ),
        _measure_separation(fitted, seed),
        [None] * len(unit) if people.seen is None else compute_seed_changes(inferred / unit, unseen),
        in_sample=people.seen is None,
    )
    card, selection = replace(fitted.card, pattern_evidence=evidence), replace(selection, patterns=evidence)
    return replace(fitted, card=card, selection=selection)


def _measure_separation(fitted: FittedModel, seed: int) -> GroupSeparation:
    """Return how the R-indices of the study's own people, as they are written, separate the groups."""
    assert fitted.indices is not None
    known = fitted.indices.dropna(subset=list(fitted.index_names)).sort_values(ID)  # bootstraps depend on the order
    values, is_patient = known[list(fitted.index_names)].to_numpy(dtype=float), known[GROUP].to_numpy() == PATIENT
    return measure_separation(values[~is_patient], values[is_patient], seed)


def _tabulate_people(fitted: FittedModel, people: StudyPeople, unseen: BoolArray | None) -> FittedModel:
    """Return the model with the R-indices of the study's people, in the order of their table, and of their visits."""
    cohort = people.study.checked.applied
    ids, indices = people.study.cohort.people[ID].tolist(), fitted.tabulate_own_people(cohort, unseen)
    quantiles = {
        str(group): tuple(
            tuple(rows[name].quantile(list(records.QUANTILE_RANKS)).round(4)) for name in fitted.index_names
        )
        for group, rows in indices.groupby(GROUP)
    }
    card = replace(fitted.card, index_quantiles=quantiles)
    fitted = replace(fitted, card=card, indices=indices.set_index(ID).loc[ids].reset_index())
    if cohort.visits is None:
        return fitted
    rows = pd.Index(cohort.people[ID]).get_indexer(cohort.visits.people[ID])
    visits = fitted.tabulate_own_people(cohort.visits, None if unseen is None else unseen[:, rows])
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
    stability: PatternStability, separation: GroupSeparation, seed_changes: Sequence[float | None], in_sample: bool
) -> tuple[records.PatternRecord, ...]:
    """Return how well each pattern is reproduced in other people, and how it separates patients from controls."""
    return tuple(
        records.PatternRecord(
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


def compute_interval(values: FloatArray) -> records.Interval:
    """Return the range that holds the middle 95 % of values."""
    return float(np.quantile(values, 0.025)), float(np.quantile(values, 0.975))


def _compute_bootstrap_interval(values: FloatArray) -> records.Interval | None:
    """Return the interval of bootstrapped values; None without any, as where people cannot be pooled."""
    return compute_interval(values) if len(values) else None


def _make_card(people: StudyPeople, selection: records.SelectionRecord, everyone: PreparedPeople) -> records.ModelCard:
    """Return what is known of a model before its members are joined."""
    cohort, chosen = people.cohort, selection.chosen
    assert chosen is not None
    adjusted = [coding.name for coding in people.study.preprocessing.residualiser.codings]
    numbers = cohort.covariates[adjusted].select_dtypes("number")
    trained_on = {"people": len(cohort), "controls": cohort.n_controls, "patients": cohort.n_patients}
    if cohort.visits is not None and people.visits != "first":
        trained_on["scans"] = len(cohort.visits)
    return records.ModelCard(
        unit=cohort.unit,
        source=cohort.source,
        covariate_ranges={name: round_outwards(numbers[name].min(), numbers[name].max()) for name in numbers},
        trained_on=trained_on,
        shape="" if chosen.held_out is None else chosen.held_out.shape,
        orthogonality=chosen.setting.orthogonality,
        agreement=chosen.agreement,
        agreement_between=chosen.agreement_between,
        concordance_interval=chosen.concordance_interval,
        members_trained=chosen.members,
        method=records.MethodRecord(people.model.method, people.model.resolve_values()),
        **vars(collect_provenance(people.study)),
        citation=CITATION,
        number_of_patterns=selection.number_of_patterns,
        finding=selection.finding,
        reference=_make_reference_record(people.study.reference, everyone),
    )


def _make_reference_record(reference: NormalReference | None, people: PreparedPeople) -> records.ReferenceRecord | None:
    """Return the reference and the weight that it gets among all controls."""
    if reference is None:
        return None
    controls = (people.complete().X[people.y == 0] - CONTROL_MEAN) / CONTROL_SD
    target = ReferenceTarget.choose(controls, people.reference)
    assert target is not None
    return records.ReferenceRecord(reference.name, reference.people, reference.sites, target.weight)


def collect_provenance(study: Study) -> records.ProvenanceRecord:
    """Return what the numbers of a study depend on."""
    return make_provenance(study.cohort.fingerprint(), study.seed)


def make_provenance(fingerprint: str, seed: int) -> records.ProvenanceRecord:
    """Return what the numbers of a study depend on, given a fingerprint of its people."""
    return records.ProvenanceRecord(
        seed=seed,
        fingerprint=fingerprint,
        rindices_version=__version__,
        versions={"python": platform.python_version(), "numpy": version("numpy")},
    )
