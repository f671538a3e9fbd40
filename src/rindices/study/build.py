"""From what was chosen to a model: the agreeing members on one scale, and a card that says where they come from.

Shape letters: N people, R regions, M patterns.
"""

import platform
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np

from rindices import __version__
from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.learners.contrastive.estimator import UNIT_SEVERITY_QUANTILE
from rindices.learners.ensemble import Member
from rindices.learners.inference import ContrastiveHead, SurrealHead
from rindices.learners.outcome import TrainingOutcome
from rindices.learners.pattern_stability import assess_pattern_stability
from rindices.learners.subsampling import SUBSAMPLE_SHARE
from rindices.model.fitted import CITATION, FittedModel
from rindices.model.intervals import CalibratedIntervals, calibrate_intervals
from rindices.model.novelty import TrainingDistribution
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.choose import CandidateEvaluation, GridPoint, SelectionResult
from rindices.selection.patterns import compute_standard_error
from rindices.study.config import ModelConfig
from rindices.study.evidence import make_patterns_record
from rindices.study.plan import resolve_recipe
from rindices.tables.cohort import Cohort


def make_selection_record(choice: SelectionResult) -> dict[str, Any]:
    """Return what was compared and chosen, as plain values for ``selection.json``."""
    grid = [_make_judgement_record(judgement) for judgement in choice.evaluations]
    best = None if choice.best is None else grid[choice.best]
    ties = [grid[place]["setting"] for place in choice.ties]
    return {"chosen": best, "ties": ties, "grid": grid, "patterns": []}


def _make_judgement_record(judgement: CandidateEvaluation) -> dict[str, Any]:
    agreement = judgement.agreement
    numbers = {
        name: _finite_or_none(getattr(agreement, name, None)) for name in ("concordance", "dimension", "difference")
    }
    return {
        "setting": judgement.point._asdict(),
        "agreement": numbers,
        "agreement_between": judgement.between,
        "concordance_interval": [_finite_or_none(value) for value in judgement.interval],
        "members": {"trained": judgement.trained, "converged": judgement.converged},
        "stable": judgement.stable,
        "why": judgement.why,
        "by_member": _list_member_concordance(judgement),
        "pairwise": []
        if agreement is None
        else [[_finite_or_none(value) for value in row] for row in agreement.pairwise],
    }


def _list_member_concordance(judgement: CandidateEvaluation) -> list[float | None]:
    """Return the concordance that each member is judged by."""
    if judgement.agreement is None:
        return []
    own = judgement.agreement.per_member if judgement.evidence is None else judgement.evidence[:, 0]
    return [_finite_or_none(value) for value in own]


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
    selection: dict[str, Any],
) -> FittedModel:
    """Return the consensus of the agreeing members of the chosen setting, with all that is known of it.

    Parameters
    ----------
    X : (N, R)
        The cohort, prepared.
    gathered : dict
        All members by grid point.
    selection : dict
        What was compared and chosen, as plain values.
    """
    assert choice.best is not None
    judgement = choice.evaluations[choice.best]
    converged = [m for m in gathered[judgement.point] if m.outcome is TrainingOutcome.CONVERGED]
    chosen = [converged[place] for place in choice.agreeing]
    aligned = [m.patterns[:, list(order)] for m, order in zip(chosen, choice.orders, strict=True)]
    heads, unit = _rescale_consensus([m.head for m in chosen], choice.orders, X[cohort.is_patient])
    card = {
        "unit": cohort.unit,
        "source": cohort.source,
        "covariate_ranges": _compute_covariate_ranges(cohort),
        "trained_on": {"people": len(cohort), "controls": cohort.n_controls, "patients": cohort.n_patients},
        "orthogonality": judgement.point.orthogonality,
        "agreement": selection["chosen"]["agreement"],
        "agreement_between": judgement.between,
        "pattern_scale": [float(value) for value in unit],
        "concordance_interval": selection["chosen"]["concordance_interval"],
        "member_steps": [m.steps for m in chosen],
        "members_trained": {"trained": judgement.trained, "converged": judgement.converged},
        "recipe": dict(zip(("recipe", "values"), resolve_recipe(model), strict=True)),
        **collect_provenance(cohort, seed),
        "citation": CITATION,
    }
    orders = tuple(tuple(int(place) for place in order) for order in choice.orders)
    patterns = np.mean(aligned, axis=0) * unit[:, None]
    share, errors = _get_subsample_share(*resolve_recipe(model)), None
    if len(aligned) > 1:
        errors = compute_standard_error(np.stack(aligned) * unit[:, None], share)
        card["interval_over"] = "people" if share < 1 else "trainings"
    fitted = FittedModel(
        preprocessing, heads, orders, patterns, TrainingDistribution.learn(X), card, selection, patterns_se=errors
    )
    seen = assess_pattern_stability(X, cohort.is_patient.astype(np.intp), fitted.infer(X), patterns[-1], seed)
    told = {"patterns": make_patterns_record(seen)}
    card |= {"number_of_patterns": selection["number_of_patterns"], "pattern_evidence": told["patterns"]}
    intervals = _fit_intervals(fitted, X, cohort.is_patient, share, seed)
    return replace(fitted, card=card, selection=selection | told, intervals=intervals)


def collect_provenance(cohort: Cohort, seed: int) -> dict[str, Any]:
    """Return what numbers come from: the people, the seed, the versions."""
    return {
        "seed": seed,
        "fingerprint": cohort.fingerprint(),
        "rindices_version": __version__,
        "versions": {"python": platform.python_version(), "numpy": version("numpy")},
    }


def _get_subsample_share(recipe: str, values: dict[str, Any]) -> float:
    """Return the share of the people that each member sees."""
    return SUBSAMPLE_SHARE if recipe == "contrastive" else float(values["share"])


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
