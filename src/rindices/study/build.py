"""From what was chosen to a model: the agreeing members on one scale, and a card that says where they come from.

Shape letters: N people, R regions, M patterns.
"""

import platform
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version

import numpy as np

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices._version import __version__
from rindices.learners.contrastive.estimator import UNIT_SEVERITY_QUANTILE
from rindices.learners.ensemble import Member
from rindices.learners.inference import ContrastiveHead, SurrealHead
from rindices.learners.outcome import TrainingOutcome
from rindices.learners.pattern_stability import assess_pattern_stability
from rindices.model.fitted import CITATION, FittedModel
from rindices.model.intervals import CalibratedIntervals, calibrate_intervals
from rindices.model.novelty import TrainingDistribution
from rindices.model.records import (
    AgreementRecord,
    CandidateRecord,
    MemberCountRecord,
    ModelCard,
    PatternCountRecord,
    ProvenanceRecord,
    RecipeRecord,
    SelectionRecord,
    SettingRecord,
)
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.choose import CandidateEvaluation, GridPoint, SelectionResult
from rindices.selection.patterns import compute_standard_error
from rindices.study.config import ModelConfig
from rindices.study.evidence import make_pattern_records
from rindices.study.plan import resolve_recipe
from rindices.study.recipes import get_study_recipe
from rindices.tables.cohort import Cohort


def make_selection_record(choice: SelectionResult, number: PatternCountRecord) -> SelectionRecord:
    """Return what was compared and chosen."""
    grid = tuple(_make_candidate_record(evaluation) for evaluation in choice.evaluations)
    chosen = None if choice.best is None else grid[choice.best]
    ties = tuple(grid[index].setting for index in choice.ties)
    return SelectionRecord(chosen, ties, grid, number_of_patterns=number)


def _make_candidate_record(evaluation: CandidateEvaluation) -> CandidateRecord:
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
    X: FloatArray,
    gathered: dict[GridPoint, list[Member]],
    choice: SelectionResult,
    model: ModelConfig,
    seed: int,
    selection: SelectionRecord,
) -> FittedModel:
    """Return the consensus of the agreeing members of the chosen setting, with all that is known of it.

    Parameters
    ----------
    X : (N, R)
        The cohort, prepared.
    gathered : dict
        All members by grid point.
    selection : SelectionRecord
        What was compared and chosen.
    """
    assert choice.best is not None
    judgement = choice.evaluations[choice.best]
    converged = [m for m in gathered[judgement.point] if m.outcome is TrainingOutcome.CONVERGED]
    chosen = [converged[place] for place in choice.agreeing]
    aligned = [m.patterns[:, list(order)] for m, order in zip(chosen, choice.orders, strict=True)]
    heads, unit = _rescale_consensus([m.head for m in chosen], choice.orders, X[cohort.is_patient])
    recipe, values = resolve_recipe(model)
    orders = tuple(tuple(int(place) for place in order) for order in choice.orders)
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
        preprocessing, heads, orders, patterns, TrainingDistribution.fit(X), card, selection, patterns_se=errors
    )
    stability = assess_pattern_stability(X, cohort.is_patient.astype(np.intp), fitted.infer(X), patterns[-1], seed)
    records = make_pattern_records(stability)
    return replace(
        fitted,
        card=replace(card, pattern_evidence=records),
        selection=replace(selection, patterns=records),
        intervals=_fit_intervals(fitted, X, cohort.is_patient, share, seed),
    )


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
    )


def collect_provenance(cohort: Cohort, seed: int) -> ProvenanceRecord:
    """Return what the numbers of a study depend on."""
    return ProvenanceRecord(
        seed=seed,
        fingerprint=cohort.fingerprint(),
        rindices_version=__version__,
        versions={"python": platform.python_version(), "numpy": version("numpy")},
    )


def _fit_intervals(
    model: FittedModel, X: FloatArray, patient: BoolArray, share: float, seed: int
) -> CalibratedIntervals:
    """Return how far off the R-indices of a model are that was trained on prepared people (N, R)."""
    return calibrate_intervals(model.infer, model.heads[0], model.patterns, X[~patient], X[patient], share, seed)


def _compute_covariate_ranges(cohort: Cohort) -> dict[str, list[float]]:
    """Return the range of each numeric covariate among all training people."""
    numbers = cohort.covariates.select_dtypes("number")
    return {name: [float(numbers[name].min()), float(numbers[name].max())] for name in numbers}


def _rescale_consensus(
    heads: Sequence[ContrastiveHead | SurrealHead], orders: Sequence[IntArray], patients: FloatArray
) -> tuple[tuple[ContrastiveHead | SurrealHead, ...], FloatArray]:
    """Bring the consensus back to 1 at the patients' 98th percentile, and return by how much each pattern had shrunk.

    The mean of members that agree on a pattern only in part is flatter than each of them. A GAN's R-indices are on the
    scale of its severities and stay so.
    """
    width = len(orders[0])
    linear = [head for head in heads if isinstance(head, ContrastiveHead)]
    if len(linear) < len(heads):
        return tuple(heads), np.ones(width)
    joint = np.mean([head.infer(patients)[:, order] for head, order in zip(heads, orders, strict=True)], axis=0)
    unit = np.quantile(joint, UNIT_SEVERITY_QUANTILE, axis=0)
    unit = np.where(unit > 1e-6, unit, 1.0)
    scaled = []
    for head, order in zip(linear, orders, strict=True):
        own = np.empty(width)
        own[order] = unit  # column order[k] of the member is pattern k of the consensus
        scaled.append(replace(head, weights=head.weights / own))
    return tuple(scaled), unit
