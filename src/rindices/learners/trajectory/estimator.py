"""``DiseaseTrajectories``, the learner of the method ``trajectories``."""

import warnings

import numpy as np

from rindices._typing import BoolArray, FloatArray
from rindices.errors import InputError
from rindices.learners.base import Learner, RandomState, is_whole_number
from rindices.learners.ensemble import SHAPES, STARTS
from rindices.learners.inference import SEVERITY_LEVELS
from rindices.learners.prepared_people import PreparedPeople, round_members
from rindices.learners.trajectory.expectation import compute_head_likelihood
from rindices.learners.trajectory.members import fit_trajectory_members
from rindices.learners.trajectory.settings import DEFAULT_EM_SETTINGS
from rindices.old_names import OLD_SHAPES
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD
from rindices.selection.agreement import IndexMoments
from rindices.selection.choose import find_agreeing_members


class DiseaseTrajectories(Learner):
    """Severities of disease patterns that are curves: each region changes at its own
    stage.

    The model is solved by maximum likelihood. R-indices are posterior means of the
    severities z, from 0 to 1, averaged over members that are fitted to four fifths of
    the people each.

    Parameters
    ----------
    n_patterns : int, default=3
        M.
    random_state : int, RandomState or None, default=None
        Seed of the members' people.
    members : int, default=5
        Number of members, rounded up to whole sets of five folds.
    shape : {'auto', 'proportional', 'staged', 'interacting'}, default='auto'
        Proportional: all regions of a pattern change together. Staged: each in its own
        stage. Interacting: proportional, and the change of a pattern also depends on
        the severities of the others. ``auto`` chooses by the likelihood of people that
        members have not seen.
    reference : array-like of shape (R, R), default=None
        Correlations of the regions in a reference population of healthy people.
    start : {'auto', 'contrastive', 'whole-cohort', 'mixed'}, default='auto'
        Where fits begin. Contrastive: at the patterns of `ContrastiveICA`, which change
        few regions. Whole-cohort: at patterns along the large axes of normal variation.
        Mixed: at the most local patterns of the former, and those of the latter.
        ``auto`` chooses by how well patients and controls whom members have not seen
        are distinguished.

    Attributes
    ----------
    patterns_ : ndarray of shape (M, R)
        Change of each region at full severity, in control standard deviations; atrophy
        is negative.
    trajectories_ : ndarray of shape (Q, M, R)
        Change of each region at the severities 0.25, 0.5, 0.75 and 1.
    shape_ : str
        The shape that was chosen.
    start_ : str
        The start that was taken.
    members_ : list of Member
    consensus_ : list of tuple
        Each member that agrees, and the order of its patterns that matches
        ``patterns_``.
    n_iter_ : int
        Largest number of EM steps of a member.
    converged_ : bool
        Whether every member ended before the largest number of steps.
    n_features_in_ : int
        R.

    Examples
    --------
    >>> learner = DiseaseTrajectories(n_patterns=3, random_state=0)
    >>> r = learner.fit(X, y).transform(X)  # doctest: +SKIP
    """

    def __init__(
        self,
        n_patterns: int = 3,
        random_state: RandomState = None,
        members: int = 5,
        shape: str = "auto",
        reference: FloatArray | None = None,
        start: str = "auto",
    ) -> None:
        super().__init__(n_patterns, random_state)
        self.members = members
        self.shape = shape
        self.reference = reference
        self.start = start

    def _learn(self, regions: FloatArray, patient: BoolArray) -> None:
        shape = OLD_SHAPES.get(self.shape, self.shape)
        if shape != self.shape:
            text = f"shape={self.shape!r} is now shape={shape!r}"
            warnings.warn(text, FutureWarning, stacklevel=3)
        if shape not in ("auto", *SHAPES):
            raise InputError(
                f"shape is {self.shape!r}; give one of auto, {', '.join(SHAPES)}."
            )
        if self.start not in ("auto", *STARTS):
            raise InputError(
                f"start is {self.start!r}; give one of auto, {', '.join(STARTS)}."
            )
        if not is_whole_number(self.members) or self.members < 1:
            raise InputError(
                f"members is {self.members!r}; give a whole number from 1."
            )
        people = PreparedPeople(
            X=self._prepare(regions),
            y=patient.astype(np.intp),
            reference=self.reference,
        )
        numbers, seed = range(round_members(self.members)), self._draw_seed()
        self.members_ = fit_trajectory_members(
            people.deal_to_members(numbers, seed),
            int(self.n_patterns),
            numbers,
            seed,
            shape,
            start=self.start,
        )
        indices = [member.head.infer(people.X[patient]) for member in self.members_]
        consensus = find_agreeing_members(IndexMoments.compute(indices))
        self.consensus_ = [
            (self.members_[k], order)
            for k, order in zip(consensus.agreeing, consensus.orders, strict=True)
        ]
        held_out = self.members_[0].held_out
        assert held_out is not None
        self.shape_, self.start_ = held_out.shape, held_out.start
        self.n_iter_ = max(member.steps for member in self.members_)
        self.converged_ = self.n_iter_ < DEFAULT_EM_SETTINGS.get_max_steps(self.shape_)
        self.trajectories_ = np.mean(
            [member.patterns[:, order] for member, order in self.consensus_], axis=0
        )
        self.patterns_ = self.trajectories_[SEVERITY_LEVELS.index(1.0)]

    def _prepare(self, regions: FloatArray) -> FloatArray:
        return np.asarray(CONTROL_MEAN + CONTROL_SD * self._z_scores(regions))

    def _compute_log_likelihood(self, prepared: FloatArray) -> FloatArray:
        """Average over the members that agree."""
        heads = [member.head for member, _ in self.consensus_]
        return np.asarray(
            np.mean([compute_head_likelihood(head, prepared) for head in heads], axis=0)
        )

    def _infer(self, prepared: FloatArray) -> FloatArray:
        return np.asarray(
            np.mean(
                [
                    member.head.infer(prepared)[:, order]
                    for member, order in self.consensus_
                ],
                axis=0,
            )
        )
