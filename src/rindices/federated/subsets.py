"""Sets of people over which sums are taken: folds, what is made of them, and blocks, by a hash of people's regions.

As in memory, members come in sets of `N_FOLDS`: each set has folds of its own, and member k of a set sees all folds but
one. Halves are three of the folds and the two others. So every set of people is a union of folds. A person's fold
depends on the person's values, the seed of the study and the set of members alone: each site knows the folds of its own
people, and neither ids, nor the order of rows, nor the division into sites matter. Under masks, a group of a site that
has few people is dealt evenly, as it is in memory.

A small group of a site is split into two folds, or not at all, because folds, or differences of sets, would have too
few people; so are controls of whom a fold would have too few people of a category. Blocks have nobody in common; a
small group is divided into as many as it can be. Under masks this is decided for the people of all sites together.

In a very large study, each set of folds and the sample are drawn from `MAX_PEOPLE` people of a group, other people for
each of them. So the cost of the iterations has a limit, while sums over everyone are still taken for the adjustment and
the tests.

Shape letters: N people.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.federated.messages import ExchangeError
from rindices.learners.people_source import HALVES, PeopleSet
from rindices.learners.prepared_people import N_FOLDS, HashArray, deal_folds, find_ranges

GROUPS = ("controls", "patients")
EVERYONE = "everyone"
"""Key of the preparation that is learnt from all controls; those of members have their numbers."""
SAMPLE = "sample"
"""Name of the people by whom fits are compared: everyone, except in very large studies."""
DRAWN = "drawn"
"""Part of a `PeopleSet` that is all folds of a member."""
_NAMES = {"seen": "member-{}", "unseen": "held-out-{}", HALVES[0]: "half-{}-0", HALVES[1]: "half-{}-1"}
MAX_PEOPLE = 25_000
"""Largest number of people of a group, about, that a set of folds is drawn from."""
MIN_SPLIT = 5
"""A group is split if it has at least so many times the fewest people: two sets then hardly ever differ by less."""
PART_SIZE = 2
"""Under masks, a part of a group has on average at least so many times the fewest people, of all sites together."""
MAX_MEMBERS = 100
"""Largest number of members of a plan that a site accepts."""
Share = Annotated[float, Field(gt=0.0, le=1.0)]


@dataclass(frozen=True)
class SubsetPlan:
    """How subsets of people are drawn.

    seed: of the hash; members: number of members; controls, patients: share of the group that each set of folds and the
    sample are drawn from; sizes: controls and patients of all sites under masks, where parts are large enough if those
    of all sites together are; empty where each site looks at its own.
    """

    seed: int
    members: Annotated[int, Field(ge=1, le=MAX_MEMBERS)]
    controls: Share = 1.0
    patients: Share = 1.0
    sizes: tuple[()] | tuple[int, int] = ()

    def limit_people(self, counts: Mapping[str, int], limit: int = MAX_PEOPLE) -> "SubsetPlan":
        """Return the plan for groups of these sizes: subsets are drawn from at most about ``limit`` people."""
        controls, patients = (min(1.0, limit / max(counts[group], 1)) for group in GROUPS)
        return replace(self, controls=controls, patients=patients)

    def allows_parts(self, fewest: int) -> bool:
        """Return whether, under masks, those who are drawn and the others are enough people, for so many members."""
        shares = zip(self.sizes, (self.controls, self.patients), strict=True)
        return all(
            not size
            or (
                size >= max(fewest, 2 * N_FOLDS * self.n_sets)
                and (share == 1.0 or min(share, 1.0 - share) * size >= PART_SIZE * fewest)
            )
            for size, share in shares
        )

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

        Raises ExchangeError: if no study has it.
        """
        try:
            return _PLAN.validate_python(values)
        except ValidationError as error:
            fault = error.errors()[0]
            raise ExchangeError(f"no study has such a plan of subsamples ({fault['loc']}: {fault['msg']}).") from error


_PLAN = TypeAdapter(SubsetPlan)


def name_set(people: PeopleSet) -> str:
    """Return the name that a set of people has in requests."""
    return _NAMES[people.part].format(people.member)


def read_set(name: str) -> PeopleSet:
    """Return the set of people of a name; its member is the one by whose preparation sums are taken.

    Raises ValueError: if there is no such set.
    """
    for part, pattern in _NAMES.items():
        prefix, _, suffix = pattern.partition("{}")
        number = name.removeprefix(prefix).removesuffix(suffix)
        if number.isdecimal() and pattern.format(int(number)) == name:
            return PeopleSet(int(number), part)
    raise ValueError(name)


def list_folds(people: PeopleSet) -> list[int]:
    """Return the folds that a set of people consists of, each by the number of the member that has not seen it."""
    first, n_first = people.member // N_FOLDS * N_FOLDS, (N_FOLDS + 1) // 2
    folds = [first + (people.member + k) % N_FOLDS for k in range(N_FOLDS)]
    halves = dict(zip(HALVES, (folds[:n_first], folds[n_first:]), strict=True))
    return {"seen": folds[1:], "unseen": folds[:1], DRAWN: folds, **halves}[people.part]


class Subsets:
    """Sets of the people of one site.

    hash_people: takes a purpose and returns the hashes (N,) of people; is_patient (N,); fewest: fewest people of a part
    of a group; categories (N, K): masks of the people of each category of the covariates.
    """

    def __init__(
        self,
        hash_people: Callable[[str], HashArray],
        is_patient: BoolArray,
        plan: SubsetPlan,
        fewest: int,
        categories: BoolArray | None = None,
    ) -> None:
        self._hash_people, self._plan, self._fewest = hash_people, plan, fewest
        self._own = 0 if plan.sizes else fewest  # of this site alone
        self._groups = {"controls": ~is_patient, "patients": is_patient}
        self._categories = np.zeros((len(is_patient), 0), dtype=bool) if categories is None else categories
        self._hashes: dict[str, HashArray] = {}
        self._folds: dict[tuple[int, str], IntArray] = {}

    def find(self, name: str, group: str) -> BoolArray:
        """Return the mask (N,) of the people of a set and a group.

        Raises ExchangeError: if there is no such set.
        """
        if group not in GROUPS:
            raise ExchangeError(f"the request names the group {group[:40]!r}: there are {' and '.join(GROUPS)}.")
        mask = self._groups[group]
        if name == "all":
            return mask
        if name == SAMPLE:
            return self._find_sample(mask, getattr(self._plan, group))
        with suppress(ValueError):
            folds = list_folds(read_set(name))
            if folds[0] // N_FOLDS < self._plan.n_sets:
                own = self._assign_folds(folds[0] // N_FOLDS, group)
                return np.isin(own, [fold % N_FOLDS for fold in folds])
        raise ExchangeError(f"the request names the set {name[:40]!r}, which the plan does not have.")

    def _find_sample(self, mask: BoolArray, limit: float) -> BoolArray:
        """Return the people of a group (N,) by whom fits are compared; none where they, or the others, are too few."""
        found = mask & (self._get_places(SAMPLE) < limit)
        is_allowed = all(not 0 < number < self._own for number in (found.sum(), (mask & ~found).sum()))
        return found if is_allowed else np.zeros_like(mask)

    def _assign_folds(self, partition: int, group: str) -> IntArray:
        """Return the fold (N,) of each person of a group, -1 for the others and for those who are not drawn.

        A group that is too small for all folds is in two of them, or in one; which ones differs between sites.
        """
        if (partition, group) not in self._folds:
            mask, share = self._groups[group], getattr(self._plan, group)
            rows = np.flatnonzero(mask & (self._get_places(str(partition)) < share))
            folds = np.full(len(mask), -1)
            if len(rows) and not 0 < mask.sum() - len(rows) < self._own:
                hashes = self._hashes[str(partition)][rows]
                is_whole = self._plan.sizes and share == 1.0  # as in memory, where a site has enough people for folds
                ranges = deal_folds(hashes, [group] * len(rows)) if is_whole else find_ranges(hashes, share)
                first = 0 if self._plan.sizes else int(hashes.min() % N_FOLDS)
                for number, parts in ((N_FOLDS, ranges), (2, (ranges > 1).astype(np.intp)), (1, 0 * ranges)):
                    folds[rows] = parts if number == N_FOLDS else (first + 2 * parts) % N_FOLDS
                    if self._has_parts(group, parts, number) and self._can_split(group, rows, parts):
                        break
            self._folds[partition, group] = folds
        return self._folds[partition, group]

    def assign_blocks(self, group: str, n_blocks: int) -> IntArray:
        """Return the block (N,) of each person of a group, -1 for the others.

        A group that is too small for all blocks is in some of them; which ones differs between sites.
        """
        mask, places = self._groups[group], self._get_places("block")
        if not mask.any():
            return np.full(len(mask), -1)
        for number in range(n_blocks, 0, -1):
            blocks = (places * number).astype(np.intp)
            if self._has_parts(group, blocks[mask], number):
                break
        if number < n_blocks and not self._plan.sizes:
            blocks = (blocks + int(places[mask].min() * 1e6)) % n_blocks
        return np.where(mask, blocks, -1)

    def _has_parts(self, group: str, parts: IntArray, number: int) -> bool:
        """Return whether a number of parts, of which people (n,) have one each, are large enough."""
        if self._plan.sizes:
            size = self._plan.sizes[GROUPS.index(group)] * getattr(self._plan, group)
            return bool(size >= PART_SIZE * number * self._fewest)
        return bool(np.bincount(parts, minlength=number).min() >= self._fewest)

    def _can_split(self, group: str, rows: IntArray, parts: IntArray) -> bool:
        """Return whether a group is large enough, and parts of controls have nobody or enough of each common category.

        Controls alone are adjusted by part.
        """
        common = self._categories[rows][:, self._categories[rows].sum(axis=0) >= self._own]
        sizes = np.array([common[parts == part].sum(axis=0) for part in np.unique(parts)])
        has_categories = group != "controls" or bool(((sizes == 0) | (sizes >= self._own)).all())
        return len(rows) >= MIN_SPLIT * self._own and has_categories

    def _get_places(self, purpose: str) -> FloatArray:
        """Return a number (N,) from 0 to 1 for each person and purpose."""
        if purpose not in self._hashes:
            self._hashes[purpose] = self._hash_people(purpose)
        return self._hashes[purpose] / 2.0**64
