"""Sets of people over which sums are taken: subsamples, halves and blocks, by a hash of the participant's id.

A person's place depends on the id, the seed of the study and the number of the member alone. So each site knows the
places of its own people, and neither the order of rows nor the division into sites matters.

A part of a group with fewer than the fewest people may not be summed. Where a split would leave such a part at a site,
the group of that site is not split: it is in the subsample of the member, in one of the halves, or in one block.

Shape letters: N people.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.federated.exceptions import ExchangeError
from rindices.learners.subsampling import SUBSAMPLE_SHARE

GROUPS = ("controls", "patients")
MAX_MEMBERS = 100
"""Largest number of members of a plan that a site accepts."""


@dataclass(frozen=True)
class SubsetPlan:
    """Seed of the hash, number of members, and the share of people that each member sees."""

    seed: int
    members: int
    share: float = SUBSAMPLE_SHARE

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for a request."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the plan of a request.

        Raises
        ------
        ExchangeError
            If it is not a plan.
        """
        try:
            plan = cls(int(values["seed"]), int(values["members"]), float(values["share"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ExchangeError("the request has no plan of subsamples: the centre must send one.") from error
        if not 1 <= plan.members <= MAX_MEMBERS or not 0.0 < plan.share <= 1.0:
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

    Parameters
    ----------
    ids : sequence of str
        (N,)
    is_patient : (N,)
    plan : SubsetPlan
    fewest : int
        Fewest people of a part of a group.
    """

    def __init__(self, ids: Sequence[str], is_patient: BoolArray, plan: SubsetPlan, fewest: int) -> None:
        self._ids, self._plan, self._fewest = tuple(ids), plan, fewest
        self._groups = {"controls": ~is_patient, "patients": is_patient}
        self._places: dict[str, FloatArray] = {}

    def find(self, name: str, group: str) -> BoolArray:
        """Return the mask (N,) of the people of a set and a group.

        Raises
        ------
        ExchangeError
            If there is no such set.
        """
        if group not in GROUPS:
            raise ExchangeError(f"the request names the group {group[:40]!r}: there are {' and '.join(GROUPS)}.")
        mask = self._groups[group]
        if name == "all":
            return mask
        kind, _, rest = name.rpartition("-")
        try:
            if kind in ("member", "held-out") and 0 <= int(rest) < self._plan.members:
                return self._find_member(int(rest), mask, kind == "member")
            number = int(kind.removeprefix("half-"))
            if kind.startswith("half-") and 0 <= number < self._plan.members and rest in ("0", "1"):
                return np.asarray(mask & (self._assign(f"half-{number}", mask, 2) == int(rest)))
        except ValueError:
            pass
        raise ExchangeError(f"the request names the set {name[:40]!r}, which the plan does not have.")

    def assign_blocks(self, group: str, n_blocks: int) -> IntArray:
        """Return the block (N,) of each person of a group, -1 for the others."""
        mask = self._groups[group]
        return np.where(mask, self._assign("block", mask, n_blocks), -1)

    def _find_member(self, number: int, mask: BoolArray, is_seen: bool) -> BoolArray:
        seen = self._hash(name_member(number)) < self._plan.share
        if 0 < (mask & ~seen).sum() < self._fewest or 0 < (mask & seen).sum() < self._fewest:
            seen = np.ones_like(seen)
        return np.asarray(mask & (seen if is_seen else ~seen))

    def _assign(self, purpose: str, mask: BoolArray, n_parts: int) -> IntArray:
        """Return the part (N,) of each person; a group that is too small to be split is in one part."""
        places = self._hash(purpose)
        parts = (places * n_parts).astype(np.intp)
        sizes = np.bincount(parts[mask], minlength=n_parts)
        if ((sizes > 0) & (sizes < self._fewest)).any():
            parts[:] = int(places[mask].min() * n_parts * 1000) % n_parts
        return parts

    def _hash(self, purpose: str) -> FloatArray:
        """Return a number (N,) from 0 to 1 for each person and purpose."""
        if purpose not in self._places:
            texts = (f"{self._plan.seed}/{purpose}/{person}".encode() for person in self._ids)
            numbers = [int.from_bytes(hashlib.sha256(text).digest()[:6], "big") for text in texts]
            self._places[purpose] = np.array(numbers, dtype=float) / 2.0**48
        return self._places[purpose]
