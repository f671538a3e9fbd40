"""Build the model of a federated study from its members, without people.

Shape letters: R regions, M patterns, S members.
"""

import hashlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np

from rindices._typing import FloatArray
from rindices._version import __version__
from rindices.federated import kinds
from rindices.federated.adjustment import AdjustedSums
from rindices.federated.curves import collect_heads
from rindices.federated.distributions import (
    compute_auc,
    compute_carrier_share,
    compute_cumulative,
    compute_quantiles,
)
from rindices.federated.messages import pack_symmetric
from rindices.federated.preparation import Preparation
from rindices.federated.rounds import Rounds
from rindices.federated.site_sums import get_largest_distance
from rindices.federated.subsets import SubsetPlan
from rindices.learners.contrastive.rotation import draw_from_copula
from rindices.learners.inference import MemberHead, invert_log_transform
from rindices.learners.prepared_people import SUBSAMPLE_SHARE
from rindices.learners.severity_posterior import compute_step_basis
from rindices.learners.trajectory.expectation_maximisation import TrajectoryModel
from rindices.learners.trajectory.members import make_trajectory_head
from rindices.model.fitted import CITATION, FittedModel
from rindices.model.intervals import MemberControls, calibrate_intervals
from rindices.model.records import (
    ModelCard,
    PatternRecord,
    ProvenanceRecord,
    RecipeRecord,
    SelectionRecord,
)
from rindices.model.unusual import TrainingDistribution, compute_limit, count_groups, get_shares
from rindices.preprocess.residualise import NumericCovariate
from rindices.selection.agreement import compute_standard_error
from rindices.selection.choose import ConsensusMembers
from rindices.study.build import compute_interval

_N_SIMULATED = 2_000


def build_curve_model(
    rounds: Rounds,
    sums: AdjustedSums,
    preparation: Preparation,
    plan: SubsetPlan,
    models: Sequence[TrajectoryModel],
    consensus: ConsensusMembers,
    correlations: Mapping[str, FloatArray],
    selection: SelectionRecord,
    card: ModelCard,
    seed: int,
    with_distances: bool,
) -> FittedModel:
    """Build the consensus of the agreeing members.

    models: of all members; correlations: ``stability`` and ``split_half``, (S, M) each; with_distances: whether the
    model gets distances of the training people, for `unusual`.
    """
    chosen = [models[k] for k in consensus.agreeing]
    heads, curves = zip(*(make_trajectory_head(preparation.head, model) for model in chosen), strict=True)
    aligned = np.stack([curve[:, order] for curve, order in zip(curves, consensus.orders, strict=True)])
    training, records = _ask_for_distribution(
        rounds, sums, preparation, plan, chosen, consensus, correlations, with_distances
    )
    fitted = _assemble(preparation, heads, consensus, aligned, training, selection, card, records)
    controls, patients = simulate_people(preparation, chosen[0], np.random.default_rng([seed, 13]))
    members = [MemberControls(head, order, controls) for head, order in zip(heads, fitted.orders, strict=True)]
    inferred = np.mean([each.head.infer(patients)[:, list(each.order)] for each in members], axis=0)
    intervals = calibrate_intervals(members, fitted.patterns, inferred, SUBSAMPLE_SHARE, seed)
    return replace(fitted, intervals=intervals)


def _assemble(
    preparation: Preparation,
    heads: Sequence[MemberHead],
    consensus: ConsensusMembers,
    aligned: FloatArray,
    training: TrainingDistribution,
    selection: SelectionRecord,
    card: ModelCard,
    records: tuple[PatternRecord, ...],
) -> FittedModel:
    """Return the model of heads and their aligned curves (S, Q, M, R)."""
    has_errors = len(aligned) > 1
    return FittedModel(
        preparation.preprocessing,
        tuple(heads),
        tuple(tuple(int(k) for k in order) for order in consensus.orders),
        aligned.mean(axis=0),
        training,
        replace(card, pattern_evidence=records, interval_over="people" if has_errors else ""),
        replace(selection, patterns=records),
        patterns_se=compute_standard_error(aligned, SUBSAMPLE_SHARE) if has_errors else None,
    )


def build_difference_model(
    sums: AdjustedSums,
    preparation: Preparation,
    heads: Sequence[MemberHead],
    curves: FloatArray,
    consensus: ConsensusMembers,
    records: tuple[PatternRecord, ...],
    selection: SelectionRecord,
    card: ModelCard,
) -> FittedModel:
    """Build the index of the mean difference from the heads of its members and their curves (S, Q, 1, R)."""
    training = sums.estimate_training_distribution(preparation.preprocessing)[0]
    return _assemble(preparation, heads, consensus, curves, training, selection, card, records)


def _ask_for_distribution(
    rounds: Rounds,
    sums: AdjustedSums,
    preparation: Preparation,
    plan: SubsetPlan,
    models: Sequence[TrajectoryModel],
    consensus: ConsensusMembers,
    correlations: Mapping[str, FloatArray],
    with_distances: bool,
) -> tuple[TrainingDistribution, tuple[PatternRecord, ...]]:
    """Ask for the distributions of R-indices and distances."""
    training, n_people, own_share = sums.estimate_training_distribution(preparation.preprocessing)
    settings: dict[str, Any] = {
        "n_patterns": len(models[0].steps),
        "orders": [[int(k) for k in order] for order in consensus.orders],
        "n_people": n_people,
        "own_share": own_share,
        "plan": plan.to_dict(),
        **preparation.to_settings(),
    }
    arrays = preparation.to_arrays() | collect_heads(models)
    if with_distances:
        arrays |= {"mean": training.mean, "precision": pack_symmetric(training.precision)}
    total = rounds.ask(kinds.DISTRIBUTION, settings, arrays)
    cumulative = {
        group: [compute_cumulative(row, total.counts[group]) for row in total.arrays[f"{group}.cosines"]]
        for group in ("controls", "patients")
    }
    records = tuple(
        _make_pattern_record(f"r{k + 1}", *pair, correlations["stability"][:, k], correlations["split_half"][:, k])
        for k, pair in enumerate(zip(cumulative["controls"], cumulative["patients"], strict=True))
    )
    if with_distances:
        number = sum(total.counts.values())
        shares = np.clip(get_shares(count_groups(number)), 0.5 / number, 1.0 - 0.5 / number)
        scaled = compute_cumulative(total.arrays["distances.cosines"], number)
        distances = compute_quantiles(scaled, shares) * get_largest_distance(len(training.mean))
        training = replace(training, distances=distances, limit=compute_limit(number))
    return training, records


def _make_pattern_record(
    name: str, controls: FloatArray, patients: FloatArray, stability: FloatArray, split_half: FloatArray
) -> PatternRecord:
    """Return the record of a pattern from cumulative distributions and correlations over members (S,)."""
    return PatternRecord(
        name=name,
        stability=float(stability.mean()),
        stability_interval=compute_interval(stability),
        split_half=float(split_half.mean()),
        split_half_interval=compute_interval(split_half),
        carriers=compute_carrier_share(controls, patients),
        auc=compute_auc(controls, patients),
    )


def simulate_people(
    preparation: Preparation, model: TrajectoryModel, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Draw prepared controls and patients (N, R) as a model describes them; intervals are calibrated on them."""
    n_patterns, n_steps = model.steps.shape[:2]
    root = np.linalg.cholesky(model.noise)
    noise = rng.standard_normal((2 * _N_SIMULATED, len(root))) @ root.T
    z = draw_from_copula(np.asarray(np.linalg.cholesky(model.correlation)), _N_SIMULATED, rng)
    change = compute_step_basis(z, n_steps) @ model.steps.reshape(n_patterns * n_steps, -1)
    head = preparation.head
    shifts = [noise[:_N_SIMULATED], noise[_N_SIMULATED:] + change]
    controls, patients = (
        head.control_mean
        + head.control_scale * invert_log_transform(head.shift_mean + head.shift_scale * each, float(head.share))
        for each in shifts
    )
    return controls, patients


def make_card(sums: AdjustedSums, seed: int, recipe: str, settings: Mapping[str, Any]) -> ModelCard:
    """Return what is known of a model before its members are joined."""
    codings = sums.fit_preprocessing().residualiser.codings
    controls, patients = sums.counts["controls"], sums.counts["patients"]
    return ModelCard(
        unit=sums.unit,
        source=sums.source,
        covariate_ranges={each.name: (each.low, each.high) for each in codings if isinstance(each, NumericCovariate)},
        trained_on={"people": controls + patients, "controls": controls, "patients": patients},
        recipe=RecipeRecord(recipe, settings),
        **vars(collect_provenance(sums, seed)),
        citation=CITATION,
    )


def collect_provenance(sums: AdjustedSums, seed: int) -> ProvenanceRecord:
    """Return what the numbers of a study depend on; the fingerprint is that of the sums."""
    digest = hashlib.sha256()
    for group in sums.groups.values():
        digest.update(np.ascontiguousarray(group.products).tobytes())
    versions = {"python": platform.python_version(), "numpy": version("numpy")}
    return ProvenanceRecord(seed, digest.hexdigest(), __version__, versions)
