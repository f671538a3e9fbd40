"""Sets of people over which sums are taken: folds, what is made of them, and blocks, by
a hash of people's regions.

As in memory, members come in sets of `N_FOLDS`: each set has folds of its own, and
member k of a set sees all folds but one. Halves are three of the folds and the two
others. So every set of people is a union of folds. A person's fold depends on the
person's values, the seed of the study and the set of members alone. Ids, the order of
rows and the division into parts do not matter. Where parts are sites, a small group of
a site is dealt evenly, as it is in memory.

In a very large study, each set of folds and the sample are drawn from `MAX_PEOPLE`
people of a group, other people for each of them. So the cost of the iterations has a
limit, while sums over everyone are still taken for the adjustment and the tests.

Shape letters: N people.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.learners.people_source import HALVES, PeopleSet
from rindices.learners.prepared_people import (
    N_FOLDS,
    HashArray,
    deal_folds,
    find_ranges,
)
from rindices.sums.messages import SumsError

GROUPS = ("controls", "patients")
EVERYONE = "everyone"
"""Key of the preparation that is learnt from all controls; those of members have their
numbers.
"""
SAMPLE = "sample"
"""Name of the people by whom fits are compared: everyone, except in very large studies.
"""
DRAWN = "drawn"
"""Part of a `PeopleSet` that is all folds of a member."""
_NAMES = {
    "seen": "member-{}",
    "unseen": "held-out-{}",
    HALVES[0]: "half-{}-0",
    HALVES[1]: "half-{}-1",
}
MAX_PEOPLE = 25_000
"""Largest number of people of a group, about, that a set of folds is drawn from."""
MAX_MEMBERS = 100
"""Largest number of members of a plan."""
Share = Annotated[float, Field(gt=0.0, le=1.0)]


@dataclass(frozen=True, kw_only=True)
class SubsetPlan:
    """How subsets of people are drawn.

    Parameters
    ----------
    seed : int
        Seed of the hash.
    members : int
        Number of ensemble members.
    controls, patients : float
        Share of the group that each set of folds and the sample are drawn from.
    by_site : bool
        Whether the parts are sites, whose small groups are dealt evenly to the folds.
    """

    seed: int
    members: Annotated[int, Field(ge=1, le=MAX_MEMBERS)]
    controls: Share = 1.0
    patients: Share = 1.0
    by_site: bool = False

    def limit_people(
        self, counts: Mapping[str, int], limit: int = MAX_PEOPLE
    ) -> "SubsetPlan":
        """Return the plan for groups of these sizes: subsets are drawn from at most
        about ``limit`` people.
        """
        controls, patients = (
            min(1.0, limit / max(counts[group], 1)) for group in GROUPS
        )
        return replace(self, controls=controls, patients=patients)

    @property
    def n_sets(self) -> int:
        """Number of sets of members, each with folds of its own."""
        return -(-self.members // N_FOLDS)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for a request."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: object) -> "SubsetPlan":
        """Return the plan of a request.

        Raises SumsError: if no study has it.
        """
        try:
            return _PLAN.validate_python(values)
        except ValidationError as error:
            fault = error.errors()[0]
            raise SumsError(
                f"no study has such a plan of subsamples ({fault['loc']}: {fault['msg']})."
            ) from error


_PLAN = TypeAdapter(SubsetPlan)


def name_set(people: PeopleSet) -> str:
    """Return the name that a set of people has in requests."""
    return _NAMES[people.part].format(people.member)


def read_set(name: str) -> PeopleSet:
    """Return the set of people of a name; its member is the one by whose preparation
    sums are taken.

    Raises ValueError: if there is no such set.
    """
    for part, pattern in _NAMES.items():
        prefix, _, suffix = pattern.partition("{}")
        number = name.removeprefix(prefix).removesuffix(suffix)
        if number.isdecimal() and pattern.format(int(number)) == name:
            return PeopleSet(int(number), part)
    raise ValueError(name)


def list_folds(people: PeopleSet) -> list[int]:
    """Return the folds that a set of people consists of, each by the number of the
    member that has not seen it.
    """
    first, n_first = people.member // N_FOLDS * N_FOLDS, (N_FOLDS + 1) // 2
    folds = [first + (people.member + k) % N_FOLDS for k in range(N_FOLDS)]
    halves = dict(zip(HALVES, (folds[:n_first], folds[n_first:]), strict=True))
    return {"seen": folds[1:], "unseen": folds[:1], DRAWN: folds, **halves}[people.part]


class Subsets:
    """Sets of the people of one part.

    Parameters
    ----------
    hash_people : callable
        Takes a purpose and returns the hashes (N,) of people.
    is_patient : ndarray of shape (N,)
    plan : SubsetPlan
    """

    def __init__(
        self,
        hash_people: Callable[[str], HashArray],
        is_patient: BoolArray,
        plan: SubsetPlan,
    ) -> None:
        self._hash_people, self._plan = hash_people, plan
        self._groups = {"controls": ~is_patient, "patients": is_patient}
        self._hashes: dict[str, HashArray] = {}
        self._folds: dict[tuple[int, str], IntArray] = {}

    def find(self, name: str, group: str) -> BoolArray:
        """Return the mask (N,) of the people of a set and a group.

        Raises SumsError: if there is no such set.
        """
        if group not in GROUPS:
            raise SumsError(
                f"the request names the group {group[:40]!r}: there are {' and '.join(GROUPS)}."
            )
        mask = self._groups[group]
        if name == "all":
            return mask
        if name == SAMPLE:
            return np.asarray(
                mask & (self._get_places(SAMPLE) < getattr(self._plan, group))
            )
        with suppress(ValueError):
            folds = list_folds(read_set(name))
            if folds[0] // N_FOLDS < self._plan.n_sets:
                own = self._assign_folds(folds[0] // N_FOLDS, group)
                return np.isin(own, [fold % N_FOLDS for fold in folds])
        raise SumsError(
            f"the request names the set {name[:40]!r}, which the plan does not have."
        )

    def assign_blocks(self, group: str, n_blocks: int) -> IntArray:
        """Return the block (N,) of each person of a group, -1 for the others."""
        places = self._get_places("block")
        return np.where(self._groups[group], (places * n_blocks).astype(np.intp), -1)

    def _assign_folds(self, partition: int, group: str) -> IntArray:
        """Return the fold (N,) of each person of a group, -1 for the others and for
        those who are not drawn.
        """
        if (partition, group) not in self._folds:
            mask, share = self._groups[group], getattr(self._plan, group)
            rows = np.flatnonzero(mask & (self._get_places(str(partition)) < share))
            hashes, folds = self._hashes[str(partition)][rows], np.full(len(mask), -1)
            is_dealt = self._plan.by_site and share == 1.0
            folds[rows] = (
                deal_folds(hashes, [group] * len(rows))
                if is_dealt
                else find_ranges(hashes, share)
            )
            self._folds[partition, group] = folds
        return self._folds[partition, group]

    def _get_places(self, purpose: str) -> FloatArray:
        """Return a number (N,) from 0 to 1 for each person and purpose."""
        if purpose not in self._hashes:
            self._hashes[purpose] = self._hash_people(purpose)
        return self._hashes[purpose] / 2.0**64
