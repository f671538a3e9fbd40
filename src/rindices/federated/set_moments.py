"""Moments of sets of people, from sums over all sites.

Shape letters: R regions.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np

from rindices._typing import FloatArray
from rindices.federated import kinds
from rindices.federated.messages import unpack_symmetric
from rindices.federated.preparation import Preparation
from rindices.federated.rounds import Rounds
from rindices.federated.subsets import GROUPS, SubsetPlan, name_half, name_held_out, name_member
from rindices.learners.contrastive.rotation import PeopleMoments
from rindices.learners.normal_variation import shrink_scatter

_RIDGE = 1e-9  # share of the mean variance, as for pooled people


class SetMoments(NamedTuple):
    """Sums over a set of people: their number, x (R,), x x' (R, R), |x|^2 x (R,) and |x|^4."""

    number: int
    total: FloatArray
    products: FloatArray
    weighted: FloatArray
    fourth: float

    @property
    def mean(self) -> FloatArray:
        """Mean (R,)."""
        return np.asarray(self.total / max(self.number, 1))

    def subtract(self, other: Self) -> "SetMoments":
        """Return the sums over the people who are not in the other set, a part of this one."""
        return SetMoments(
            self.number - other.number,
            self.total - other.total,
            self.products - other.products,
            self.weighted - other.weighted,
            self.fourth - other.fourth,
        )

    def estimate_covariance(self) -> FloatArray:
        """Return the Ledoit-Wolf covariance (R, R); equal to that of `rindices.learners.normal_variation`."""
        mean, length = self.mean, float(self.mean @ self.mean)
        scatter = self.products - self.number * np.outer(mean, mean)
        fourth = (
            self.fourth
            + 4.0 * float(mean @ self.products @ mean)
            + self.number * length**2
            - 4.0 * float(mean @ self.weighted)
            + 2.0 * length * float(np.trace(self.products))
            - 4.0 * length * float(mean @ self.total)
        )
        shrunk = shrink_scatter(scatter, fourth, self.number)
        return np.asarray(shrunk + _RIDGE * max(float(np.trace(shrunk)) / len(shrunk), 1e-12) * np.eye(len(shrunk)))

    def centre(self, point: FloatArray) -> PeopleMoments:
        """Return mean and second moment of the people, less a point (R,)."""
        mean = self.mean - point
        cross = np.outer(self.mean, point)
        return PeopleMoments(self.number, mean, self.products / self.number - cross - cross.T + np.outer(point, point))


MomentsBySet = Mapping[tuple[str, str], SetMoments]
"""Moments by the name of a set and the group."""


def ask_for_moments(rounds: Rounds, preparation: Preparation, plan: SubsetPlan) -> MomentsBySet:
    """Ask for the moments of all sets.

    Those of held-out people and of second halves are differences, unless members see a part of the people alone.
    """
    members = range(plan.members)
    names = ["all", *(name_member(k) for k in members), *(name_half(k, 0) for k in members)]
    if plan.is_limited:
        names += [*(name_held_out(k) for k in members), *(name_half(k, 1) for k in members)]
    sets = [(name, group) for name in names for group in GROUPS]
    settings = {"plan": plan.to_dict(), "sets": [list(each) for each in sets], **preparation.to_settings()}
    total = rounds.ask(kinds.MOMENTS, settings, preparation.to_arrays())
    arrays = total.arrays
    moments = {
        (name, group): SetMoments(
            total.counts[f"{name}/{group}"],
            arrays["sum"][k],
            unpack_symmetric(arrays["products"][k]),
            arrays["weighted"][k],
            float(arrays["fourth"][k]),
        )
        for k, (name, group) in enumerate(sets)
    }
    for group in GROUPS if not plan.is_limited else ():
        everyone = moments["all", group]
        for k in members:
            moments[name_held_out(k), group] = everyone.subtract(moments[name_member(k), group])
            moments[name_half(k, 1), group] = everyone.subtract(moments[name_half(k, 0), group])
    return moments


def find_too_small(moments: MomentsBySet, sets: Sequence[str], least: int) -> list[str]:
    """Return the sets with fewer controls or patients than needed."""
    return [name for name in sets if min(moments[name, group].number for group in GROUPS) < least]
