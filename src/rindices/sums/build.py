"""Build the model of a study from sums, without people: curves, or the mean difference
of the groups.

Distributions of R-indices and of distances are found from sums of cosines: a histogram
without bins that hold few people. The index of the mean difference is that of
`rindices.learners.contrastive.estimator.MeanDifference`, from moments of people; its
R-index 1 is the 98th percentile of normally distributed patients with the same mean and
variance.

Shape letters: R regions, M patterns, S members, Q severity levels or cosines, L levels.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from rindices._typing import FloatArray
from rindices.learners.base import handle_zeros_in_scale
from rindices.learners.contrastive.estimator import (
    UNIT_SEVERITY_QUANTILE,
    average_directions,
)
from rindices.learners.contrastive.rotation import PeopleMoments, draw_from_copula
from rindices.learners.ensemble import GroupSeparation, PatternStability
from rindices.learners.inference import (
    SEVERITY_LEVELS,
    MemberHead,
    invert_log_transform,
)
from rindices.learners.normal_variation import shrink_normal_scatter
from rindices.learners.people_source import PeopleSet
from rindices.learners.prepared_people import SUBSAMPLE_FRACTION
from rindices.learners.severity_posterior import compute_growth, compute_step_basis
from rindices.learners.trajectory.model import TrajectoryModel, make_trajectory_head
from rindices.model.fitted import CITATION, FittedModel
from rindices.model.intervals import MemberControls, calibrate_intervals
from rindices.model.pattern_tables import average_interaction
from rindices.model.records import (
    QUANTILE_RANKS,
    MethodRecord,
    ModelCard,
    PatternRecord,
    ProvenanceRecord,
    SelectionRecord,
)
from rindices.model.unusual import (
    TrainingDistribution,
    compute_limit,
    count_groups,
    get_shares,
)
from rindices.preprocess.residualise import NumericCovariate
from rindices.selection.agreement import IndexMoments, compute_standard_error
from rindices.selection.choose import SelectionResult
from rindices.study.build import make_pattern_records
from rindices.study.provenance import make_provenance
from rindices.sums import kinds
from rindices.sums.adjustment import AdjustedSums
from rindices.sums.kinds import get_largest_distance
from rindices.sums.messages import Preparation, number_arrays, pack_symmetric
from rindices.sums.questions import MomentsBySet, pack_model
from rindices.sums.rounds import PreparedRounds
from rindices.sums.subsets import DRAWN, GROUPS
from rindices.tables.checks.groups import CONTROL, PATIENT

_N_SIMULATED = 2_000
_LEVELS = np.linspace(0.0, 1.0, 2001)
_CARRIER_LEVEL = 0.95  # share of controls below the R-index of carriers


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelDraft:
    """What a model consists of besides its heads and curves.

    Parameters
    ----------
    rounds : PreparedRounds
    sums : AdjustedSums
        Sums of everyone.
    choice : SelectionResult
    stability : PatternStability
    selection : SelectionRecord
        It has a chosen setting.
    method : MethodRecord
    numbers : sequence of int
        Members of the consensus.
    """

    rounds: PreparedRounds
    sums: AdjustedSums
    choice: SelectionResult
    stability: PatternStability
    selection: SelectionRecord
    method: MethodRecord
    numbers: Sequence[int]

    @property
    def preparations(self) -> list[Preparation]:
        """Preparation of each member of the consensus."""
        return [self.rounds.preparations[number] for number in self.numbers]

    @property
    def seed(self) -> int:
        """Seed of the study."""
        return self.rounds.plan.seed

    def _make_card(
        self,
        evidence: tuple[PatternRecord, ...],
        quantiles: Sequence[FloatArray],
        interval_over: str,
    ) -> ModelCard:
        """Return the card of the model, given the evidence for each pattern."""
        chosen, sums = self.selection.chosen, self.sums
        assert chosen is not None
        codings = [
            each
            for each in self.rounds.everyone.preprocessing.residualiser.codings
            if isinstance(each, NumericCovariate)
        ]
        # by plan and numbers, a site knows which members have not seen each of its
        # people
        plan = {"plan": self.rounds.plan.to_dict(), "numbers": list(self.numbers)}
        rounded = (tuple(map(tuple, each.round(4).tolist())) for each in quantiles)
        return ModelCard(
            unit=sums.unit,
            source=sums.source,
            covariate_ranges={each.name: (each.low, each.high) for each in codings},
            trained_on={"people": sum(sums.counts.values()), **sums.counts},
            shape="" if chosen.held_out is None else chosen.held_out.shape,
            agreement=chosen.agreement,
            agreement_between=chosen.agreement_between,
            concordance_interval=chosen.concordance_interval,
            members_trained=chosen.members,
            method=MethodRecord(
                name=self.method.name, settings={**self.method.settings, **plan}
            ),
            **vars(collect_provenance(sums, self.seed)),
            citation=CITATION,
            number_of_patterns=self.selection.number_of_patterns,
            finding=self.selection.finding,
            pattern_evidence=evidence,
            interval_over=interval_over,
            index_quantiles=dict(zip((CONTROL, PATIENT), rounded, strict=True)),
        )

    def assemble(
        self,
        heads: Sequence[MemberHead],
        curves: Sequence[FloatArray],
        training: TrainingDistribution,
        separation: GroupSeparation,
        quantiles: Sequence[FloatArray],
    ) -> FittedModel:
        """Return the model of the heads of the agreeing members and their curves (Q, M,
        R).

        quantiles: of the R-indices of controls and of patients (M, L), at
        `QUANTILE_RANKS`.
        """
        orders = self.choice.orders
        aligned = np.stack(
            [curve[:, order] for curve, order in zip(curves, orders, strict=True)]
        )
        records = make_pattern_records(
            self.stability, separation, [None] * len(orders[0]), in_sample=False
        )
        has_errors = len(aligned) > 1
        over, everyone = "people" if has_errors else "", self.rounds.everyone
        return FittedModel(
            preprocessing=everyone.preprocessing,
            heads=tuple(heads),
            orders=tuple(tuple(int(k) for k in order) for order in orders),
            patterns=aligned.mean(axis=0),
            training=training,
            card=self._make_card(records, quantiles, over),
            selection=self.selection.model_copy(update={"patterns": records}),
            patterns_se=compute_standard_error(aligned, SUBSAMPLE_FRACTION)
            if has_errors
            else None,
            pipelines=tuple(each.preprocessing for each in self.preparations),
        )


def collect_provenance(sums: AdjustedSums, seed: int) -> ProvenanceRecord:
    """Return what the numbers of a study depend on; the fingerprint is that of the
    sums.
    """
    digest = hashlib.sha256()
    for group in sums.groups.values():
        digest.update(np.ascontiguousarray(group.products).tobytes())
    return make_provenance(digest.hexdigest(), seed)


def build_curve_model(
    draft: ModelDraft, models: Sequence[TrajectoryModel], with_distances: bool
) -> FittedModel:
    """Build the consensus of the models of the agreeing members.

    with_distances: whether the model gets distances of the training people, for
    `outlier_score`.
    """
    members = zip(draft.preparations, models, strict=True)
    heads, curves = zip(
        *(make_trajectory_head(own.head, model) for own, model in members), strict=True
    )
    training, separation, quantiles = _ask_for_distribution(
        draft, models, with_distances
    )
    fitted = draft.assemble(heads, curves, training, separation, quantiles)
    controls, patients = _simulate_people(
        draft.preparations[0], models[0], np.random.default_rng([draft.seed, 13])
    )
    simulated = [
        MemberControls(head, order, controls)
        for head, order in zip(heads, fitted.orders, strict=True)
    ]
    inferred = np.mean(
        [each.head.infer(patients)[:, list(each.order)] for each in simulated], axis=0
    )
    interaction = average_interaction(fitted)
    intervals = calibrate_intervals(
        simulated,
        fitted.patterns,
        inferred,
        SUBSAMPLE_FRACTION,
        draft.seed,
        interaction,
    )
    return replace(fitted, intervals=intervals)


def _ask_for_distribution(
    draft: ModelDraft, models: Sequence[TrajectoryModel], with_distances: bool
) -> tuple[TrainingDistribution, GroupSeparation, list[FloatArray]]:
    """Ask for the distributions of R-indices and distances; the last are quantiles (M,
    L) of the groups.
    """
    training, n_people, own_share = draft.sums.estimate_training_distribution(
        draft.rounds.everyone.preprocessing
    )
    settings: dict[str, Any] = {
        "orders": [[int(k) for k in order] for order in draft.choice.orders],
        "n_people": n_people,
        "own_share": own_share,
        "members": list(draft.numbers),
    }
    arrays = number_arrays([pack_model(model) for model in models])
    if with_distances:
        arrays |= {
            "mean": training.mean,
            "precision": pack_symmetric(training.precision),
        }
    total = draft.rounds.ask(
        kinds.DISTRIBUTION,
        draft.numbers,
        settings,
        arrays,
        with_everyone=with_distances,
    )
    controls, patients = (
        [compute_cumulative(row, number) for row in rows]
        for rows, number in zip(total.arrays["cosines"], total.numbers, strict=True)
    )
    pairs = list(zip(controls, patients, strict=True))
    carriers, auc = (
        [function(*pair) for pair in pairs]
        for function in (compute_carrier_share, compute_auc)
    )
    if with_distances:
        number = sum(total.numbers)
        shares = np.clip(
            get_shares(count_groups(number)), 0.5 / number, 1.0 - 0.5 / number
        )
        scaled = compute_cumulative(total.arrays["distances"], number)
        distances = compute_quantiles(scaled, shares) * get_largest_distance(
            len(training.mean)
        )
        training = replace(training, distances=distances, limit=compute_limit(number))
    ranks = np.array(QUANTILE_RANKS)
    quantiles = [
        np.stack([compute_quantiles(each, ranks) for each in group])
        for group in (controls, patients)
    ]
    return training, GroupSeparation(np.array([carriers]), np.array([auc])), quantiles


def _simulate_people(
    preparation: Preparation, model: TrajectoryModel, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Draw prepared controls and patients (N, R) as a model describes them; intervals
    are calibrated on them.
    """
    root = np.linalg.cholesky(model.noise)
    noise = rng.standard_normal((2 * _N_SIMULATED, len(root))) @ root.T
    z = draw_from_copula(
        np.asarray(np.linalg.cholesky(model.correlation)), _N_SIMULATED, rng
    )
    basis, head = compute_step_basis(z, model.steps.shape[1]), preparation.head
    if model.interaction is not None:
        basis *= np.repeat(
            compute_growth(z, model.interaction), model.steps.shape[1], axis=1
        )
    change = basis @ model.flat_steps
    controls, patients = (
        head.control_mean
        + head.control_scale
        * invert_log_transform(
            head.shift_mean + head.shift_scale * each, float(head.log_constant)
        )
        for each in (noise[:_N_SIMULATED], noise[_N_SIMULATED:] + change)
    )
    return controls, patients


def compute_cumulative(cosines: FloatArray, number: int) -> FloatArray:
    """Return the cumulative distribution at 2001 levels from 0 to 1.

    cosines (Q,): sums of cos(k pi v) over people, k = 1 to Q; number: of people.
    Returns (2001,), the Fourier series, damped so that it does not oscillate, and made
    to increase.
    """
    k = np.arange(1, len(cosines) + 1)
    damping = np.sinc(k / (len(cosines) + 1))
    terms = 2.0 * damping * cosines / number / (k * np.pi)
    cumulative = _LEVELS + np.sin(np.pi * _LEVELS[:, None] * k) @ terms
    cumulative = np.maximum.accumulate(np.clip(cumulative, 0.0, 1.0))
    return np.asarray(cumulative / cumulative[-1])


def compute_quantiles(cumulative: FloatArray, shares: FloatArray) -> FloatArray:
    """Return the values below which shares (L,) of the people are."""
    rising = cumulative + 1e-12 * np.arange(len(cumulative))
    return np.asarray(np.interp(shares, rising, _LEVELS))


def compute_auc(controls: FloatArray, patients: FloatArray) -> float:
    """Return the probability that a patient has the larger value, from two cumulative
    distributions.
    """
    return float(np.diff(patients) @ ((controls[1:] + controls[:-1]) / 2.0))


def compute_carrier_share(controls: FloatArray, patients: FloatArray) -> float:
    """Return the share of patients above 95 % of controls, corrected for chance."""
    threshold = compute_quantiles(controls, np.array([_CARRIER_LEVEL]))
    return _correct_for_chance(1.0 - float(np.interp(threshold[0], _LEVELS, patients)))


def _correct_for_chance(above: float) -> float:
    """Return the share of carriers, given the share of patients above 95 %
    of controls.
    """
    return float(np.clip((above - (1.0 - _CARRIER_LEVEL)) / _CARRIER_LEVEL, 0.0, 1.0))


class DifferenceMembers(NamedTuple):
    """Members of the index of the mean difference, then both halves of each.

    Parameters
    ----------
    weights : ndarray of shape (S, R)
    patterns : ndarray of shape (S, R)
        Shift of each region at index 1.
    indices : IndexMoments
        Moments of the indices in patients.
    """

    weights: FloatArray
    patterns: FloatArray
    indices: IndexMoments


def fit_difference_members(
    sets: Sequence[PeopleSet], moments: MomentsBySet
) -> DifferenceMembers:
    """Fit the index to the people of each set.

    Indices are compared in the patients of the first member, as its preparation
    prepares them.
    """
    weights, differences = (
        np.stack(each)
        for each in zip(*(_fit_index(moments, each) for each in sets), strict=True)
    )
    patients = [moments[each._replace(part=DRAWN), "patients"] for each in sets]
    weights = np.stack(
        [
            each / _compute_unit(own, each)
            for own, each in zip(patients, weights, strict=True)
        ]
    )
    patterns = differences / (differences * weights).sum(axis=1, keepdims=True)
    mean, covariance = patients[0].project(weights.T)
    return DifferenceMembers(weights, patterns, IndexMoments(mean, covariance, 1))


def _fit_index(
    moments: MomentsBySet, people: PeopleSet
) -> tuple[FloatArray, FloatArray]:
    """Return weights (R,) and mean difference (R,) of a set of people."""
    controls, patients = (moments[people, group] for group in GROUPS)
    number = controls.number + patients.number
    scatter = controls.scatter + patients.scatter
    scale = handle_zeros_in_scale(np.sqrt(np.maximum(np.diag(scatter) / number, 0.0)))
    covariance = shrink_normal_scatter(
        scatter / np.outer(scale, scale), number
    ) + 1e-9 * np.eye(len(scale))
    difference = patients.mean - controls.mean
    return average_directions(covariance, difference / scale)[:, 0] / scale, difference


def build_difference_model(
    draft: ModelDraft, members: DifferenceMembers, moments: MomentsBySet
) -> FittedModel:
    """Build the mean index of the agreeing members, scaled so that it is 1 at the 98th
    percentile.

    Carriers and AUC are those of groups that are normally distributed along the index.
    """
    rows = list(draft.choice.agreeing)
    weights, drawn = (
        members.weights[rows].mean(axis=0),
        PeopleSet(draft.numbers[0], DRAWN),
    )
    unit = _compute_unit(moments[drawn, "patients"], weights)
    heads = [
        replace(own.head, weights=members.weights[k][:, None] / unit)
        for own, k in zip(draft.preparations, rows, strict=True)
    ]
    curves = [
        np.stack(
            [
                head.to_control_sd(level * unit * members.patterns[k][None])
                for level in SEVERITY_LEVELS
            ]
        )
        for k, head in zip(rows, heads, strict=True)
    ]
    (low, low_sd), (high, high_sd) = (
        _project(moments[drawn, group], weights) for group in GROUPS
    )
    above = 1.0 - norm.cdf((low + norm.ppf(_CARRIER_LEVEL) * low_sd - high) / high_sd)
    auc = norm.cdf((high - low) / np.hypot(low_sd, high_sd))
    separation = GroupSeparation(
        np.array([[_correct_for_chance(above)]]), np.array([[auc]])
    )
    training = draft.sums.estimate_training_distribution(
        draft.rounds.everyone.preprocessing
    )[0]
    quantiles = [
        norm.ppf(QUANTILE_RANKS, *each)[None]
        for each in ((low, low_sd), (high, high_sd))
    ]
    return draft.assemble(
        heads, curves, training, separation, [each / unit for each in quantiles]
    )


def _project(people: PeopleMoments, weights: FloatArray) -> tuple[float, float]:
    """Return mean and standard deviation of people along weights (R,)."""
    mean, variance = people.project(weights)
    return float(mean), float(np.sqrt(max(float(variance), 1e-300)))


def _compute_unit(patients: PeopleMoments, weights: FloatArray) -> float:
    """Return the 98th percentile of normally distributed patients along
    weights (R,).
    """
    mean, sd = _project(patients, weights)
    unit = mean + float(norm.ppf(UNIT_SEVERITY_QUANTILE)) * sd
    return unit if unit > 1e-12 else 1.0
