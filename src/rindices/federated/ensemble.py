"""Answer the questions of a fit by rounds of a federated study, and compare its members.

First the moments of all sets of people are asked for; then a round is one Newton step of all linear starts, then one E
step of all curves, of all members and numbers of patterns.

Shape letters: R regions, M patterns, K steps, T models, S members.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve

from rindices._typing import FloatArray
from rindices.federated import kinds
from rindices.federated.messages import pack_symmetric, unpack_symmetric
from rindices.federated.rounds import PreparedRounds
from rindices.federated.subsets import GROUPS, list_folds, name_half, name_held_out, name_member
from rindices.learners.contrastive.linear_start import ContrastQuestion, ContrastSums, GroupMoments, MomentsQuestion
from rindices.learners.contrastive.rotation import PeopleMoments
from rindices.learners.conversation import HALVES, PeopleSet
from rindices.learners.ensemble import PatternStability
from rindices.learners.prepared_people import N_FOLDS
from rindices.learners.trajectory.expectation_maximisation import (
    ControlSums,
    CurveQuestion,
    CurveSums,
    PatientSums,
    TrajectoryModel,
)
from rindices.selection.agreement import IndexMoments
from rindices.selection.choose import SelectionResult

MomentsBySet = Mapping[tuple[str, str], PeopleMoments]
"""Moments by the name of a set and the group, ``controls`` or ``patients``."""


def name_set(people: PeopleSet) -> str:
    """Return the name that a set of people has in requests."""
    if people.part in HALVES:
        return name_half(people.member, HALVES.index(people.part))
    return name_member(people.member) if people.part == "seen" else name_held_out(people.member)


def ask_for_moments(rounds: PreparedRounds) -> MomentsBySet:
    """Ask for the moments of all folds of each member, and return those of its sets, which are unions of folds."""
    members, sets = range(rounds.plan.members), list[tuple[int, str, str]]()
    for k in members:
        own = [name_held_out(k // N_FOLDS * N_FOLDS + fold) for fold in range(N_FOLDS)]
        sets += [(k, name, group) for name in own for group in GROUPS]
    total = rounds.ask(kinds.MOMENTS, members, {"sets": [list(each) for each in sets]})
    sums, products = total.arrays["sum"], unpack_symmetric(total.arrays["products"])
    by_fold = {
        (k, name, group): PeopleMoments(total.counts[f"{name}/{group}"], sums[row], products[row])
        for row, (k, name, group) in enumerate(sets)
    }
    moments: dict[tuple[str, str], PeopleMoments] = {}
    for k in members:
        unions = {name: list_folds(name)[1] for name in (name_member(k), name_held_out(k), *_name_halves(k))}
        for name, own_folds in (unions | {name_drawn(k): list(range(N_FOLDS))}).items():
            for group in GROUPS:
                parts = [by_fold[k, name_held_out(k // N_FOLDS * N_FOLDS + fold), group] for fold in own_folds]
                moments[name, group] = reduce(PeopleMoments.add, parts)
    return moments


def name_drawn(number: int) -> str:
    """Return the name of all folds of a member."""
    return f"drawn-{number}"


def _name_halves(number: int) -> tuple[str, str]:
    return name_half(number, 0), name_half(number, 1)


class SiteSums(NamedTuple):
    """The people of all sites, who answer the questions of a fit."""

    rounds: PreparedRounds
    moments: MomentsBySet

    def answer(self, questions: list[Any]) -> list[Any]:
        """Return the sums that questions ask for: one round for each kind of question but moments, which are known."""
        answers: dict[int, Any] = {}
        for kind, ask in (
            (MomentsQuestion, self._get_moments),
            (ContrastQuestion, self._ask_for_contrasts),
            (CurveQuestion, self._ask_for_curves),
        ):
            positions = [k for k, question in enumerate(questions) if isinstance(question, kind)]
            if positions:
                own = ask([questions[k] for k in positions])
                answers |= dict(zip(positions, own, strict=True))
        return [answers[k] for k in range(len(questions))]

    def _get_moments(self, questions: list[MomentsQuestion]) -> list[GroupMoments]:
        names = [name_set(question.people) for question in questions]
        return [GroupMoments(self.moments[name, "controls"], self.moments[name, "patients"]) for name in names]

    def _ask_for_contrasts(self, questions: list[ContrastQuestion]) -> list[list[ContrastSums]]:
        def get_arrays(positions: list[int]) -> dict[str, FloatArray]:
            chosen = [questions[position] for position in positions]
            return {
                "map": np.stack([each.linear_map for each in chosen]),
                "offset": np.stack([each.offset for each in chosen]),
                "directions": np.stack([each.directions for each in chosen]),
            }

        tasks = [
            [name_set(each.people), "", each.directions.shape[1], f"{len(each.directions)}x"] for each in questions
        ]
        answers = []
        for question, sums in zip(questions, self.rounds.ask_for_tasks(kinds.ROTATION, tasks, get_arrays), strict=True):
            number = self.moments[name_set(question.people), "patients"].number
            parts = sums["sums"].reshape(*sums["sums"].shape[:2], 2, -1) / number
            values, gradients, curvatures = np.split(parts, [1, 1 + parts.shape[1]], axis=3)
            bends = unpack_symmetric(curvatures)
            answers.append(
                [
                    ContrastSums(question.directions[k], values[k, ..., 0], gradients[k], bends[k])
                    for k in range(len(bends))
                ]
            )
        return answers

    def _ask_for_curves(self, questions: list[CurveQuestion]) -> list[CurveSums]:
        names = [
            (name_set(each.people), "" if each.held_out is None else name_set(each.held_out)) for each in questions
        ]
        models = [each.model for each in questions]
        shapes = ["" if model.interaction is None else "interacting" for model in models]
        tasks = [[*own, len(model.steps), shape] for own, model, shape in zip(names, models, shapes, strict=True)]
        totals = self.rounds.ask_for_tasks(
            kinds.CURVES, tasks, lambda positions: collect_heads([models[position] for position in positions])
        )
        answers = []
        for (name, held_out), model, sums in zip(names, models, totals, strict=True):
            controls, patients = (self.moments[name, group] for group in GROUPS)
            moments, normal = (unpack_symmetric(sums[key]) for key in ("moments", "normal"))
            patient_sums = PatientSums(patients.number, moments, normal, sums["cross"], patients.products)
            likelihood = float("nan")
            if held_out:
                likelihood = compute_mean_likelihood(
                    model, self.moments[held_out, "patients"], float(sums["likelihood"])
                )
            control_sums = ControlSums(controls.number, controls.products)
            answers.append(CurveSums(patient_sums, control_sums, likelihood))
        return answers


def compute_mean_likelihood(model: TrajectoryModel, patients: PeopleMoments, log_sum: float) -> float:
    """Return the mean log-likelihood of patients; ``log_sum`` is its sum relative to controls."""
    if not patients.number:
        return float("nan")
    distance = float(np.trace(cho_solve((model.noise_root, True), patients.products)))
    half_log_determinant = float(np.log(np.diag(model.noise_root)).sum())
    return (log_sum - 0.5 * distance) / patients.number - half_log_determinant


def collect_heads(models: Sequence[TrajectoryModel]) -> dict[str, FloatArray]:
    """Return what a site needs of T models: weights (T, R, M * K), packed products and correlations, interactions."""
    grams = [model.flat_steps @ model.weights for model in models]
    heads = {
        "weights": np.stack([model.weights for model in models]),
        "gram": pack_symmetric(np.stack([(gram + gram.T) / 2.0 for gram in grams])),
        "correlation": pack_symmetric(np.stack([model.correlation for model in models])),
    }
    interactions = [model.interaction for model in models if model.interaction is not None]
    return heads | ({"interaction": np.stack(interactions)} if interactions else {})


def correlate_with_consensus(indices: IndexMoments, consensus: SelectionResult, n_members: int) -> PatternStability:
    """Return the correlation of each member with the consensus, and between halves, pattern by pattern."""
    aligned = [indices.select(k, indices.compare(consensus.member, k).matching) for k in range(indices.n_members)]
    mean = np.mean([aligned[k] for k in consensus.agreeing], axis=0)
    members, first, second = aligned[:n_members], aligned[n_members::2], aligned[n_members + 1 :: 2]
    stability = [np.diag(indices.correlate(member, mean)) for member in members]
    split_half = [np.diag(indices.correlate(*pair)) for pair in zip(first, second, strict=True)]
    return PatternStability(np.array(stability), np.array(split_half))
