"""Members: repetitions of a training whose agreement says whether a result can be trusted."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rindices.errors import InputError
from rindices.learners.contrastive import ContrastiveICA
from rindices.learners.heads import SEVERITIES, ContrastiveHead, SurrealHead
from rindices.learners.outcome import Outcome

Floats = NDArray[np.float64]

SHARE = 0.8
"""Share of the people that a contrastive member is fitted on."""


class Member(NamedTuple):
    """One repetition of a training.

    Attributes
    ----------
    number : int
        Its number in the study; with the study's seed it decides its random stream.
    outcome : Outcome
    steps : int
        Training steps it took; 0 for learners without any.
    head : ContrastiveHead or SurrealHead
        Its inference.
    patterns : (Q, M, R)
        Change of each region at each of `SEVERITIES`, in control standard deviations, for the average control.
    """

    number: int
    outcome: Outcome
    steps: int
    head: ContrastiveHead | SurrealHead
    patterns: Floats


def contrastive_members(
    X: Floats, y: NDArray[np.intp], n_patterns: int, numbers: Sequence[int], seed: int
) -> list[Member]:
    """Fit contrastive members, each on its own random four fifths of controls and of patients.

    Members that see the same people would agree however wrong they are; members that see different people agree where
    the people do. The mean of such members is also no worse than one fit on all, and better where people are few.

    Parameters
    ----------
    X : (N, R)
        Prepared people.
    y : (N,)
        0 control, 1 patient.
    """
    members = []
    for number in numbers:
        rng = np.random.default_rng([seed, number])
        rows = np.concatenate([_some(np.flatnonzero(y == label), rng) for label in (0, 1)])
        learner = ContrastiveICA(n_patterns, int(rng.integers(2**31 - 1)))
        try:
            learner.fit(X[rows], y[rows])
        except np.linalg.LinAlgError as error:
            raise InputError(
                f"{n_patterns} patterns cannot be told apart in {len(rows)} people: ask for fewer patterns."
            ) from error
        curves = np.stack([learner.head_.in_control_sd(severity * learner.shifts_) for severity in SEVERITIES])
        members.append(Member(number, Outcome.CONVERGED, 0, learner.head_, curves))
    return members


def _some(places: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    """Return a random share of people, in their order."""
    return np.sort(rng.choice(places, size=max(2, round(SHARE * len(places))), replace=False))
