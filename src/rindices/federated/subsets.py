"""Sets of people over which sums are taken: subsamples, halves and blocks, by a hash of the participant's id.

A person's place depends on the id, the seed of the study and the number of the member alone. So each site knows the
places of its own people, and neither the order of rows nor the division into sites matters.

A small group of a site is not split, because the parts, or the differences of parts, would have too few people: a
member sees all of them or none (`MIN_SPLIT_BY_MEMBERS`), or they are in one half (`MIN_SPLIT_BY_HALVES`). Blocks have
nobody in common; a small group is divided into as many as it can be.

In a very large study, each member, each pair of halves and the sample are drawn from `MAX_PEOPLE` people of a group,
other people for each of them. So the cost of the iterations has a limit, while sums over everyone are still taken for
the adjustment and the tests.

Shape letters: N people.
"""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.federated.messages import ExchangeError
from rindices.learners.prepared_people import SUBSAMPLE_SHARE

GROUPS = ("controls", "patients")
SAMPLE = "sample"
"""Name of the people by whom fits are compared: everyone, except in very large studies."""
MAX_PEOPLE = 25_000
"""Largest number of people of a group, about, that a member or a pair of halves is drawn from."""
MIN_SPLIT_BY_MEMBERS, MIN_SPLIT_BY_HALVES = 8, 5
"""A group is split if it has at least so many times the fewest people: two random parts then hardly ever differ by less
than the fewest people, also where there are many members."""
MAX_MEMBERS = 100
"""Largest number of members of a plan that a site accepts."""


@dataclass(frozen=True)
class SubsetPlan:
    """How subsets of people are drawn.

    seed: of the hash; members: number of members; share: share of people that each member sees; controls, patients:
    share of the group that each member, pair of halves and the sample are drawn from.
    """

    seed: int
    members: int
    share: float = SUBSAMPLE_SHARE
    controls: float = 1.0
    patients: float = 1.0

    def limit_people(self, counts: Mapping[str, int], limit: int = MAX_PEOPLE) -> "SubsetPlan":
        """Return the plan for groups of these sizes: subsets are drawn from at most about ``limit`` people."""
        controls, patients = (min(1.0, limit / max(counts[group], 1)) for group in GROUPS)
        return replace(self, controls=controls, patients=patients)

    @property
    def is_limited(self) -> bool:
        """Whether subsets are drawn from a part of the people."""
        return min(self.controls, self.patients) < 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for a request."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the plan of a request.

        Raises ExchangeError: if it is not a plan.
        """
        try:
            groups = (float(values.get(group, 1.0)) for group in GROUPS)
            plan = cls(int(values["seed"]), int(values["members"]), float(values["share"]), *groups)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ExchangeError("the request has no plan of subsamples: the centre must send one.") from error
        shares = (plan.share, plan.controls, plan.patients)
        if not 1 <= plan.members <= MAX_MEMBERS or not all(0.0 < share <= 1.0 for share in shares):
            raise ExchangeError(f"the plan has {plan.members} members of share {plan.share:g}, which no study has.")
        return plan


def name_member(number: int) -> str:
    """Return the name of the people that a member sees."""
    return f"member-{number}"


def name_held_out(number: int) -> str:
    """Return the name of the people that a member does not see."""
    return f"held-out-{number}"


def name_half(number: int, half: int) -> str:
    """Return the name of one of the two halves of a member's split."""
    return f"half-{number}-{half}"


class Subsets:
    """Sets of the people of one site.

    ids: (N,); is_patient (N,); fewest: fewest people of a part of a group.
    """

    def __init__(self, ids: Sequence[str], is_patient: BoolArray, plan: SubsetPlan, fewest: int) -> None:
        self._ids, self._plan, self._fewest = tuple(ids), plan, fewest
        self._groups = {"controls": ~is_patient, "patients": is_patient}
        self._places: dict[str, FloatArray] = {}

    def find(self, name: str, group: str) -> BoolArray:
        """Return the mask (N,) of the people of a set and a group.

        Raises ExchangeError: if there is no such set.
        """
        if group not in GROUPS:
            raise ExchangeError(f"the request names the group {group[:40]!r}: there are {' and '.join(GROUPS)}.")
        mask, plan = self._groups[group], self._plan
        if name == "all":
            return mask
        if name == SAMPLE:
            return self._find_part(SAMPLE, mask, getattr(plan, group), (0.0, 1.0), 0, MIN_SPLIT_BY_HALVES)
        kind, _, rest = name.rpartition("-")
        with suppress(ValueError):
            if kind in ("member", "held-out") and 0 <= int(rest) < plan.members:
                part, places = ("member", "held-out").index(kind), name_member(int(rest))
                bounds = (0.0, plan.share, 1.0)
                return self._find_part(places, mask, getattr(plan, group), bounds, part, MIN_SPLIT_BY_MEMBERS)
            number = int(kind.removeprefix("half-"))
            if kind.startswith("half-") and 0 <= number < plan.members and rest in ("0", "1"):
                places, bounds = f"half-{number}", (0.0, 0.5, 1.0)
                return self._find_part(places, mask, getattr(plan, group), bounds, int(rest), MIN_SPLIT_BY_HALVES)
        raise ExchangeError(f"the request names the set {name[:40]!r}, which the plan does not have.")

    def assign_blocks(self, group: str, n_blocks: int) -> IntArray:
        """Return the block (N,) of each person of a group, -1 for the others.

        A group that is too small for all blocks is in some of them; which ones differs between sites.
        """
        mask, places = self._groups[group], self._hash("block")
        if not mask.any():
            return np.full(len(mask), -1)
        for number in range(n_blocks, 0, -1):
            blocks = (places * number).astype(np.intp)
            if np.bincount(blocks[mask], minlength=number).min() >= self._fewest:
                break
        if number < n_blocks:
            blocks = (blocks + int(places[mask].min() * 1e6)) % n_blocks
        return np.where(mask, blocks, -1)

    def _find_part(
        self, purpose: str, mask: BoolArray, limit: float, bounds: Sequence[float], part: int, min_split: int
    ) -> BoolArray:
        """Return a part of a group (N,): those whose places are between two bounds, of the share ``limit`` of all.

        Where a part would be too small, one of them has all, or nobody is in any: members see everyone, and all are in
        the second half.
        """
        places, edges = self._find_places(purpose, mask, min_split), limit * np.array(bounds)
        parts = [mask & (low <= places) & (places < high) for low, high in pairwise(edges)]
        sizes = [int(each.sum()) for each in parts]
        if any(0 < size < self._fewest for size in (*sizes, int(mask.sum()) - sum(sizes))):
            undivided = 1 if purpose.startswith("half") else 0
            return mask if limit == 1.0 and part == undivided else np.zeros_like(mask)
        return np.asarray(parts[part])

    def _find_places(self, purpose: str, mask: BoolArray, min_split: int) -> FloatArray:
        """Return a number (N,) from 0 to 1 for each person, the same for all people of a small group."""
        places = self._hash(purpose)
        if not 0 < mask.sum() < min_split * self._fewest:
            return places
        return np.full_like(places, (float(places[mask].min()) * 1e6) % 1.0)

    def _hash(self, purpose: str) -> FloatArray:
        """Return a number (N,) from 0 to 1 for each person and purpose."""
        if purpose not in self._places:
            texts = (f"{self._plan.seed}/{purpose}/{person}".encode() for person in self._ids)
            numbers = [int.from_bytes(hashlib.sha256(text).digest()[:6], "big") for text in texts]
            self._places[purpose] = np.array(numbers, dtype=float) / 2.0**48
        return self._places[purpose]
