"""Answer the questions of a fit by rounds of requests, and compare its members.

First the moments of all sets of people are asked for; then a round is one Newton step
of all linear starts, then one E step of all curves, of all members and numbers of
patterns. One more round compares the two starts.

Shape letters: R regions, M patterns, K steps, T models, S members.
"""

from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np
from scipy.linalg import cho_solve

from rindices._typing import FloatArray
from rindices.learners.contrastive.linear_start import (
    ContrastQuestion,
    ContrastSums,
    GroupMoments,
    MomentsQuestion,
)
from rindices.learners.contrastive.rotation import PeopleMoments
from rindices.learners.contrastive.whole_cohort_start import compute_group_loss
from rindices.learners.ensemble import PatternStability
from rindices.learners.people_source import HALVES, GatheredRounds, PeopleSet
from rindices.learners.trajectory.expectation import (
    ControlSums,
    CurveQuestion,
    CurveSums,
    PatientSums,
)
from rindices.learners.trajectory.model import TrajectoryModel
from rindices.learners.trajectory.starts import GroupLossQuestion
from rindices.selection.agreement import IndexMoments
from rindices.selection.choose import SelectionResult
from rindices.sums import kinds
from rindices.sums.messages import pack_symmetric, unpack_symmetric
from rindices.sums.rounds import PreparedRounds
from rindices.sums.subsets import DRAWN, GROUPS, list_folds, name_set

MomentsBySet = Mapping[tuple[PeopleSet, str], PeopleMoments]
"""Moments by set of people and group, ``controls`` or ``patients``."""


def ask_for_moments(rounds: PreparedRounds) -> MomentsBySet:
    """Ask for the moments of all folds of each member, and return those of its sets,
    which are unions of folds.
    """
    members = range(rounds.plan.members)
    folds = [
        (k, fold, group)
        for k in members
        for fold in list_folds(PeopleSet(k, DRAWN))
        for group in GROUPS
    ]
    sets = [[k, name_set(PeopleSet(fold, "unseen")), group] for k, fold, group in folds]
    total = rounds.ask(kinds.MOMENTS, members, {"sets": sets})
    rows = zip(
        total.numbers,
        total.arrays["sum"],
        unpack_symmetric(total.arrays["products"]),
        strict=True,
    )
    by_fold = dict(zip(folds, (PeopleMoments(*row) for row in rows), strict=True))
    return {
        (people, group): reduce(
            PeopleMoments.add,
            [by_fold[people.member, fold, group] for fold in list_folds(people)],
        )
        for people in (
            PeopleSet(k, part)
            for k in members
            for part in ("seen", "unseen", *HALVES, DRAWN)
        )
        for group in GROUPS
    }


class PeopleInParts(GatheredRounds):
    """The people of all parts, who answer the questions of a fit.

    Parameters
    ----------
    rounds : PreparedRounds
        Asks them.
    moments : mapping
        Moments of all sets of people, which are known.
    """

    def __init__(self, rounds: PreparedRounds, moments: MomentsBySet) -> None:
        super().__init__(self._answer)
        self.rounds, self.moments = rounds, moments

    def _answer(self, questions: list[Any]) -> list[Any]:
        """Return the sums that questions ask for: one round for each kind of question
        but moments, which are known.
        """
        answers: dict[int, Any] = {}
        for kind, ask in (
            (MomentsQuestion, self._get_moments),
            (ContrastQuestion, self._ask_for_contrasts),
            (CurveQuestion, self._ask_for_curves),
            (GroupLossQuestion, self._ask_for_losses),
        ):
            positions = [
                k for k, question in enumerate(questions) if isinstance(question, kind)
            ]
            if positions:
                own = ask([questions[k] for k in positions])
                answers |= dict(zip(positions, own, strict=True))
        return [answers[k] for k in range(len(questions))]

    def _get_moments(self, questions: list[MomentsQuestion]) -> list[GroupMoments]:
        return [
            GroupMoments(
                self.moments[each.people, "controls"],
                self.moments[each.people, "patients"],
            )
            for each in questions
        ]

    def _ask_for_contrasts(
        self, questions: list[ContrastQuestion]
    ) -> list[list[ContrastSums]]:
        tasks = [(each.people, None) for each in questions]
        parameters = [
            {
                "map": each.linear_map,
                "offset": each.offset,
                "directions": each.directions,
            }
            for each in questions
        ]
        totals = self.rounds.ask_for_tasks(kinds.ROTATION, tasks, parameters)
        answers = []
        for question, total in zip(questions, totals, strict=True):
            sums = total["sums"]
            means = (
                sums.reshape(*sums.shape[:2], 2, -1)
                / self.moments[question.people, "patients"].number
            )
            values, gradients, curvatures = np.split(
                means, [1, 1 + sums.shape[1]], axis=3
            )
            curvatures = unpack_symmetric(curvatures)
            answers.append(
                [
                    ContrastSums(
                        directions=directions,
                        values=values[k, ..., 0],
                        gradients=gradients[k],
                        curvatures=curvatures[k],
                    )
                    for k, directions in enumerate(question.directions)
                ]
            )
        return answers

    def _ask_for_curves(self, questions: list[CurveQuestion]) -> list[CurveSums]:
        tasks = [(each.people, each.held_out) for each in questions]
        parameters = [pack_model(each.model) for each in questions]
        totals = self.rounds.ask_for_tasks(kinds.CURVES, tasks, parameters)
        answers = []
        for question, sums in zip(questions, totals, strict=True):
            controls, patients = (
                self.moments[question.people, group] for group in GROUPS
            )
            moments, normal = (
                unpack_symmetric(sums[key]) for key in ("moments", "normal")
            )
            patient_sums = PatientSums(
                number=patients.number,
                moments=moments,
                normal=normal,
                cross=sums["cross"],
                scatter=patients.products,
            )
            likelihood = float("nan")
            if question.held_out is not None:
                others = self.moments[question.held_out, "patients"]
                likelihood = compute_mean_likelihood(
                    question.model, others, float(sums["likelihood"])
                )
            control_sums = ControlSums(controls.number, controls.products)
            answers.append(CurveSums(patient_sums, control_sums, likelihood))
        return answers

    def _ask_for_losses(self, questions: list[GroupLossQuestion]) -> list[float]:
        tasks = [(each.people, None) for each in questions]
        totals = self.rounds.ask_for_tasks(
            kinds.LOSSES, tasks, [pack_model(each.model) for each in questions]
        )
        numbers = [
            [self.moments[each.people, group].number for group in GROUPS]
            for each in questions
        ]
        return [
            compute_group_loss(*total["losses"].tolist(), *own)
            for total, own in zip(totals, numbers, strict=True)
        ]


def compute_mean_likelihood(
    model: TrajectoryModel, patients: PeopleMoments, log_sum: float
) -> float:
    """Return the mean log-likelihood of patients; ``log_sum`` is its sum relative to
    controls.
    """
    if not patients.number:
        return float("nan")
    distance = float(np.trace(cho_solve((model.noise_root, True), patients.products)))
    half_log_determinant = float(np.log(np.diag(model.noise_root)).sum())
    return (log_sum - 0.5 * distance) / patients.number - half_log_determinant


def pack_model(model: TrajectoryModel) -> dict[str, FloatArray]:
    """Return what a request needs of a model: weights (R, M * K), packed products,
    correlations, interactions.
    """
    gram = model.flat_steps @ model.weights
    packed = {
        "gram": pack_symmetric((gram + gram.T) / 2.0),
        "correlation": pack_symmetric(model.correlation),
    }
    interaction = (
        {} if model.interaction is None else {"interaction": model.interaction}
    )
    return {"weights": model.weights, **packed, **interaction}


def correlate_with_consensus(
    indices: IndexMoments, consensus: SelectionResult, n_members: int
) -> PatternStability:
    """Return the correlation of each member with the consensus, and between halves,
    pattern by pattern.
    """
    aligned = [
        indices.select(k, indices.compare(consensus.member, k).matching)
        for k in range(indices.n_members)
    ]
    mean = np.mean([aligned[k] for k in consensus.agreeing], axis=0)
    members, first, second = (
        aligned[:n_members],
        aligned[n_members::2],
        aligned[n_members + 1 :: 2],
    )
    stability = [np.diag(indices.correlate(member, mean)) for member in members]
    split_half = [
        np.diag(indices.correlate(*pair)) for pair in zip(first, second, strict=True)
    ]
    return PatternStability(np.array(stability), np.array(split_half))
