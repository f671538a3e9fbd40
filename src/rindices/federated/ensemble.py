"""Ask for what the members of a federated study need, and the halves of their people, all at once.

First the moments of all sets of people; then a round is one Newton step of all linear starts
(`rindices.learners.contrastive.stepwise`), then one E step of all curves (`rindices.learners.trajectory.stepwise`), of
all members and numbers of patterns. Then members are compared: among each other, by halves, and by numbers of patterns.

Shape letters: R regions, M patterns, K steps, T models, S members.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rindices._typing import FloatArray
from rindices.federated import kinds
from rindices.federated.messages import pack_symmetric, unpack_symmetric
from rindices.federated.rounds import PreparedRounds
from rindices.federated.subsets import GROUPS, name_half, name_held_out, name_member
from rindices.learners.contrastive.estimator import N_RANDOM_STARTS, N_REFINEMENTS
from rindices.learners.contrastive.rotation import normalise_rows
from rindices.learners.contrastive.stepwise import MomentsBySet, SetMoments, StartTask
from rindices.learners.ensemble import PatternStability
from rindices.learners.trajectory.expectation_maximisation import TrajectoryModel
from rindices.learners.trajectory.members import make_trajectory_start
from rindices.learners.trajectory.stepwise import CurveTask
from rindices.model.records import CandidateRecord, HeldOutLikelihoodRecord
from rindices.selection import choose
from rindices.selection.agreement import IndexMoments, average_agreement
from rindices.study.build import make_candidate_record

SHAPES = ("straight", "curved")
"""Shapes that are fitted across sites, the simpler one first."""
MAX_ROTATION_STEPS = (16, 8, 8)
"""Largest number of rounds of the first rotation and of the two after refinements."""
_N_STEPS_OF_ALL = 4  # steps after which only some starts go on
_NOT_MEASURED = "agreement was measured for the chosen number alone"


def ask_for_moments(rounds: PreparedRounds) -> MomentsBySet:
    """Ask for the moments of all sets.

    Those of held-out people and of second halves are differences, unless members see a part of the people alone.
    """
    plan, members = rounds.plan, range(rounds.plan.members)
    names = ["all", *(name_member(k) for k in members), *(name_half(k, 0) for k in members)]
    if plan.is_limited:
        names += [*(name_held_out(k) for k in members), *(name_half(k, 1) for k in members)]
    sets = [(name, group) for name in names for group in GROUPS]
    total = rounds.ask(kinds.MOMENTS, {"sets": [list(each) for each in sets]})
    sums, weighted, fourth = (total.arrays[name] for name in ("sum", "weighted", "fourth"))
    products, counts = unpack_symmetric(total.arrays["products"]), total.counts
    moments = {
        (name, group): SetMoments(counts[f"{name}/{group}"], sums[k], products[k], weighted[k], float(fourth[k]))
        for k, (name, group) in enumerate(sets)
    }
    for group in GROUPS if not plan.is_limited else ():
        everyone = moments["all", group]
        for k in members:
            moments[name_held_out(k), group] = everyone.subtract(moments[name_member(k), group])
            moments[name_half(k, 1), group] = everyone.subtract(moments[name_half(k, 0), group])
    return moments


def fit_starts(
    rounds: PreparedRounds, moments: MomentsBySet, sets: Sequence[str], numbers: Sequence[int]
) -> dict[tuple[str, int], TrajectoryModel]:
    """Return the linear start of each set of people and number of patterns."""
    pairs = [(name, number) for name in sets for number in numbers]
    rngs = [np.random.default_rng([rounds.plan.seed, 11, k]) for k in range(len(pairs))]
    tasks = [StartTask(*pair, moments, rng) for pair, rng in zip(pairs, rngs, strict=True)]
    for stage in range(N_REFINEMENTS + 1):
        for task in tasks:
            if stage:
                task.refine()
            task.begin_rotation(0 if stage else N_RANDOM_STARTS)
        for step in range(MAX_ROTATION_STEPS[stage]):
            active = [task for task in tasks if not task.is_done]
            if not active:
                break
            if step == _N_STEPS_OF_ALL:
                for task in active:
                    task.keep_best_starts()
            _rotate_starts(rounds, active)
        for task in tasks:
            task.end_rotation()
    return {(task.name, task.n_patterns): make_trajectory_start(task.make_start()) for task in tasks}


def _rotate_starts(rounds: PreparedRounds, tasks: Sequence[StartTask]) -> None:
    """Ask for the sums at the candidates of all tasks, and let each search go on."""

    def get_arrays(positions: list[int]) -> dict[str, FloatArray]:
        chosen = [tasks[position] for position in positions]
        directions = [[normalise_rows(search.candidate) for search in task.searches] for task in chosen]
        return {
            "map": np.stack([task.linear_map for task in chosen]).astype(np.float32),
            "offset": np.stack([task.offset for task in chosen]),
            "directions": np.array(directions),
        }

    named = [[task.name, "", task.n_patterns] for task in tasks]
    for task, sums in zip(tasks, rounds.ask_for_tasks(kinds.ROTATION, named, get_arrays), strict=True):
        parts = sums["sums"].reshape(len(task.searches), task.n_patterns, 2, -1)
        values, gradients, curvatures = np.split(parts, [1, 1 + task.n_patterns], axis=3)
        task.update(values[..., 0], gradients, unpack_symmetric(curvatures))


def fit_curves(rounds: PreparedRounds, tasks: Sequence[CurveTask]) -> None:
    """Fit all tasks, in place, in as many rounds as the longest of them takes."""
    while active := [task for task in tasks if not task.is_done]:
        _take_curve_step(rounds, active)


def _take_curve_step(rounds: PreparedRounds, tasks: Sequence[CurveTask]) -> None:
    """Ask for the sums under the models of all tasks; straight patterns have one direction each."""

    def get_arrays(positions: list[int]) -> dict[str, FloatArray]:
        chosen = [tasks[position] for position in positions]
        heads = collect_heads([task.model for task in chosen])
        if chosen[0].shape == "straight":
            heads["weights"] = np.stack([_get_straight_direction(task.model) for task in chosen])
            heads["common"] = np.stack([task.model.common for task in chosen])
        return heads | {"weights": heads["weights"].astype(np.float32)}

    named = [[task.name, task.held_out_name, len(task.model.steps), task.shape] for task in tasks]
    for task, sums in zip(tasks, rounds.ask_for_tasks(kinds.CURVES, named, get_arrays), strict=True):
        gram, normal = (unpack_symmetric(sums[name]) for name in ("gram", "normal"))
        task.take(sums["cross"], gram, normal, float(sums["likelihood"]))


def _get_straight_direction(model: TrajectoryModel) -> FloatArray:
    """Return C^-1 times the patterns (R, M), where the steps are common steps times patterns."""
    lengths = (model.common**2).sum(axis=1)
    patterns = np.einsum("mk,mkr->rm", model.common / lengths[:, None], model.steps)
    return np.asarray(np.linalg.solve(model.noise, patterns))


def collect_heads(models: Sequence[TrajectoryModel]) -> dict[str, FloatArray]:
    """Return what a site needs of T models: weights (T, R, M * K), and packed products and correlations."""
    weights = [model.compute_weights() for model in models]
    grams = [model.flat_steps @ each for model, each in zip(models, weights, strict=True)]
    return {
        "weights": np.stack(weights),
        "gram": pack_symmetric(np.stack([(gram + gram.T) / 2.0 for gram in grams])),
        "correlation": pack_symmetric(np.stack([model.correlation for model in models])),
    }


class NumberFits(NamedTuple):
    """Fits of all members with one number of patterns.

    shape: the shape under which held-out patients are more likely; tasks: by shape, one for each member.
    """

    n_patterns: int
    shape: str
    tasks: dict[str, list[CurveTask]]

    @property
    def likelihoods(self) -> FloatArray:
        """Mean log-likelihood (S,) of the patients that each member has not seen."""
        return np.array([task.best_likelihood for task in self.tasks[self.shape]])

    @property
    def models(self) -> list[TrajectoryModel]:
        """The models of the members."""
        return [task.result for task in self.tasks[self.shape]]


class MemberComparison(NamedTuple):
    """Agreement of the members of one number of patterns, and of their halves.

    stability: correlation of each member with the consensus, and between halves, (S, M) each.
    """

    evaluation: choose.CandidateEvaluation
    consensus: choose.ConsensusMembers
    stability: PatternStability


def compare_fits(
    indices: IndexMoments,
    n_members: int,
    likelihoods: FloatArray | None,
    seed: int,
    min_concordance: float = choose.MIN_STABLE_CONCORDANCE,
) -> MemberComparison:
    """Compare S members among each other and their halves pair by pair.

    indices: of the members, then of both halves of each member; likelihoods (S,); seed: of the bootstrap;
    min_concordance: of a stable setting.
    """
    n_patterns = indices.n_patterns
    among = average_agreement(n_members, indices.compare)
    consensus = choose.align_agreeing_members(among.per_member, lambda best, k: indices.compare(best, k).matching)
    halves = [indices.compare(n_members + 2 * k, n_members + 2 * k + 1) for k in range(n_members)]
    evidence = np.array([each[:3] for each in halves])
    agreement = choose.average_evidence(among, evidence)
    bootstrap = choose.bootstrap_concordance(agreement, evidence, np.random.default_rng([seed, n_patterns]))
    point, no_people = choose.GridPoint(n_patterns), np.zeros((n_members, 0, n_patterns))
    numbers = tuple(range(n_members))
    candidate = choose.Candidate(point, no_people, numbers, n_members, evidence, likelihoods, n_members)
    evaluation = choose.evaluate_candidate(candidate, agreement, bootstrap, min_concordance)
    return MemberComparison(evaluation, consensus, _correlate_with_consensus(indices, consensus, n_members))


def _correlate_with_consensus(
    indices: IndexMoments, consensus: choose.ConsensusMembers, n_members: int
) -> PatternStability:
    """Return the correlation of each member with the consensus, and between halves, pattern by pattern."""
    aligned = [
        indices.select(k, indices.compare(consensus.member, k).matching)
        for k in range(len(indices.mean) // indices.n_patterns)
    ]
    mean = np.mean([aligned[k] for k in consensus.agreeing], axis=0)
    members, first, second = aligned[:n_members], aligned[n_members::2], aligned[n_members + 1 :: 2]
    stability = [np.diag(indices.correlate(member, mean)) for member in members]
    split_half = [np.diag(indices.correlate(*pair)) for pair in zip(first, second, strict=True)]
    return PatternStability(np.array(stability), np.array(split_half))


def make_grid_records(
    fits: dict[int, NumberFits], comparisons: dict[int, MemberComparison]
) -> tuple[CandidateRecord, ...]:
    """Return the records of all numbers of patterns; agreement is only known where it was measured."""
    best = max((fit.likelihoods for fit in fits.values()), key=lambda values: float(values.mean()))
    records = []
    for number, fit in sorted(fits.items()):
        n_members, differences = len(best), best - fit.likelihoods
        means = {shape: float(np.mean([task.best_likelihood for task in tasks])) for shape, tasks in fit.tasks.items()}
        held_out = HeldOutLikelihoodRecord(
            shape=fit.shape,
            straight=means.get("straight"),
            curved=means.get("curved"),
            below_best=float(differences.mean()),
            below_best_se=float(differences.std(ddof=1) / np.sqrt(n_members)),
        )
        unmeasured = (None, (np.nan, np.nan), True, _NOT_MEASURED)
        evaluation = choose.CandidateEvaluation(choose.GridPoint(number), n_members, n_members, *unmeasured)
        if number in comparisons:
            evaluation = comparisons[number].evaluation
        records.append(make_candidate_record(evaluation, held_out))
    return tuple(records)
