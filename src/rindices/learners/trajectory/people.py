"""The people of each ensemble member, in memory, as shifts from the controls' mean.

They answer the questions of the E step by sums (`PeopleSource`).

Shape letters: N people, R regions.
"""

from collections.abc import Container, Sequence
from typing import Self

import numpy as np

from rindices._typing import FloatArray
from rindices.learners.contrastive.estimator import initialise_contrastive_head
from rindices.learners.contrastive.linear_start import GroupMoments
from rindices.learners.inference import ContrastiveHead
from rindices.learners.missing_cells import complete_people
from rindices.learners.normal_variation import ReferenceTarget
from rindices.learners.people_source import HALVES, PeopleSource, Question, Totals
from rindices.learners.prepared_people import PreparedPeople, Subsample, split_by_folds
from rindices.learners.trajectory.model import TrajectoryModel
from rindices.learners.trajectory.visits import (
    VisitProblem,
    VisitRows,
    prepare_visit_shifts,
)


class ShiftedPeople:
    """People of a member as shifts, and the head that makes them, learnt from the
    people that the member has seen.

    Linear starts need all cells: those that are missing are drawn. EM uses the measured
    cells alone.
    """

    def __init__(
        self,
        people: PreparedPeople,
        halves: tuple[Subsample, Subsample] | None,
        n_patterns: int,
    ) -> None:
        self.values, self.y, self.reference = people.X, people.y, people.reference
        self.rows = dict(zip(("seen", "unseen"), people.subsample, strict=True))
        if halves is not None:
            self.rows |= {
                name: half.seen for name, half in zip(HALVES, halves, strict=True)
            }
        self._completed: dict[str, FloatArray] = {}
        self.head: ContrastiveHead = initialise_contrastive_head(
            self._complete("seen"),
            self.y[self.rows["seen"]] == 1,
            n_patterns,
            straighten=True,
        )
        self.shifts = self.head.prepare(people.X)
        self.visits = prepare_visit_shifts(people, self.head)
        self._moments: dict[str, tuple[GroupMoments, FloatArray]] = {}

    def _complete(self, part: str) -> FloatArray:
        """Return the people of a part (N, R), with missing cells drawn from what these
        people tell.
        """
        if part not in self._completed:
            rows = self.rows[part]
            self._completed[part] = complete_people(
                self.values[rows], self.y[rows], np.random.default_rng(0)
            )
        return self._completed[part]

    def select(self, part: str, label: int) -> FloatArray:
        """Return the shifts (N, R) of the people of a group among a part."""
        rows = self.rows[part]
        return np.asarray(self.shifts[rows[self.y[rows] == label]])

    def select_visits(self, part: str, label: int) -> VisitRows:
        """Return levels and trends of the people of a group among a part."""
        assert self.visits is not None
        rows = self.rows[part]
        return self.visits.select(self.shifts, rows[self.y[rows] == label])

    def compute_moments(self, part: str) -> GroupMoments:
        """Return the moments of a part; missing cells are drawn."""
        return self._summarise(part)[0]

    def complete_patients(self, part: str) -> FloatArray:
        """Return the shifts (N, R) of the patients of a part; missing cells
        are drawn.
        """
        return self._summarise(part)[1]

    def _summarise(self, part: str) -> tuple[GroupMoments, FloatArray]:
        if part not in self._moments:
            rows = self.rows[part]
            people = self.head.prepare(self._complete(part))
            # they are not needed again
            del self._completed[part]
            controls, patients = (people[self.y[rows] == label] for label in (0, 1))
            target = ReferenceTarget.choose(controls, self.reference)
            self._moments[part] = (
                GroupMoments.compute(controls, patients, target),
                patients,
            )
        return self._moments[part]

    def pose_visits(self, start: TrajectoryModel, part: str = "seen") -> VisitProblem:
        """Return the problem of EM for all visits of a part; where it is the member's,
        the others tell when to end.
        """
        controls, patients = (self.select_visits(part, label) for label in (0, 1))
        held_out = self.select_visits("unseen", 1) if part == "seen" else None
        return VisitProblem(
            controls=controls,
            patients=patients,
            start=start,
            target=self.compute_moments(part).target,
            held_out=held_out,
        )


class MemberPeople(PeopleSource):
    """The people of some members, in memory.

    members: by their numbers.
    """

    def __init__(self, members: dict[int, ShiftedPeople]) -> None:
        self.members = members

    @classmethod
    def prepare(
        cls,
        people: Sequence[PreparedPeople],
        numbers: Sequence[int],
        n_patterns: int,
        only: Container[int] | None = None,
    ) -> Self:
        """Prepare the people of each member, or only those of some; the folds of all
        make the halves.
        """
        halves = split_by_folds(people)
        return cls(
            {
                number: ShiftedPeople(own, half, n_patterns)
                for number, own, half in zip(numbers, people, halves, strict=True)
                if only is None or number in only
            }
        )

    def sum_each(self, questions: Sequence[Question[Totals]]) -> list[Totals]:
        """Return the totals that each question asks for."""
        return [
            question.sum_in_memory(self.members[question.people.member])
            for question in questions
        ]
