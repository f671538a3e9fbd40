"""People as learners take them, their repeat visits, and the folds of people that
members are trained on.

Members come in sets of `N_FOLDS`. Each set deals controls and patients to as many
folds, and member k of a set is trained on all people but those of fold k. So everybody
is unseen by exactly one member of each set, and the mean over these members is a
cross-fitted R-index.

Shape letters: N people, R regions, V visits of all people.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.learners.missing_cells import complete_people
from rindices.row_hashes import hash_rows

N_FOLDS = 5
"""Folds of a set of members."""
SUBSAMPLE_FRACTION = 1.0 - 1.0 / N_FOLDS
"""Share of the people that a member is trained on."""


_MIN_STRATUM = 40  # people whose folds hardly ever differ too much in size
HashArray = npt.NDArray[np.uint64]


class Subsample(NamedTuple):
    """Sorted rows of the people that a member is trained on, and of the others.

    Attributes
    ----------
    seen : ndarray
    unseen : ndarray
    """

    seen: IntArray
    unseen: IntArray


def round_members(members: int) -> int:
    """Return a number of members as whole sets of folds, rounded up."""
    return -(-members // N_FOLDS) * N_FOLDS


def hash_people(values: FloatArray, seed: int, purpose: object) -> HashArray:
    """Return a number (N,) of each person that depends only on the person's values
    (N, R), the seed and the purpose.

    Values are sorted. So neither the order of rows and columns nor the ids of people
    matter.
    """
    hashes = hash_rows(np.sort(values, axis=1), f"{seed} {purpose}")
    return np.frombuffer(b"".join(each[:8] for each in hashes), dtype=">u8").astype(
        np.uint64
    )


def order_by_values(values: FloatArray, seed: int) -> IntArray:
    """Return an order of people (N,) that depends on their values (N, R) and the seed
    alone.
    """
    return np.argsort(hash_people(values, seed, 0), kind="stable")


def deal_folds(hashes: HashArray, strata: Sequence[object]) -> IntArray:
    """Return the fold (N,) of each person, from 0 to `N_FOLDS` - 1.

    Parameters
    ----------
    hashes : ndarray
        (N,) as from `hash_people`.
    strata : sequence of object
        (N,) group of each person, or group and site. Folds are ranges of the hash,
        the same for all: neither other people nor the division into sites or files
        matter. In a stratum of fewer than 40 people, whose folds could differ much
        in size, people are dealt in the order of the hash instead.
    """
    folds, order = find_ranges(hashes), np.argsort(hashes, kind="stable")
    labels = {stratum: k for k, stratum in enumerate(dict.fromkeys(strata))}
    stratum = np.array([labels[each] for each in strata], dtype=np.intp)[order]
    for rows in (order[stratum == k] for k in range(len(labels))):
        if len(rows) < _MIN_STRATUM:
            folds[rows] = (
                int(hashes[rows[0]] % N_FOLDS) + np.arange(len(rows))
            ) % N_FOLDS
    return folds


def find_ranges(hashes: HashArray, share: float = 1.0) -> IntArray:
    """Return the range (N,) of each hash, of `N_FOLDS` equal ones from 0.

    Parameters
    ----------
    share : float
        Largest hash, as a share of all.
    """
    return np.minimum((hashes / 2.0**64 / share * N_FOLDS).astype(np.intp), N_FOLDS - 1)


def find_seen_people(
    values: FloatArray, strata: Sequence[object], numbers: Sequence[int], seed: int
) -> BoolArray:
    """Return the masks (S, N) of the people that members are trained on.

    Parameters
    ----------
    values : ndarray of shape (N, R)
    strata : sequence of object
        (N,) see `deal_folds`.
    numbers : sequence of int
        Numbers of the members: member k of set p has the number p * `N_FOLDS` + k.
    """
    partitions = {number // N_FOLDS for number in numbers}
    folds = {
        each: deal_folds(hash_people(values, seed, each), strata) for each in partitions
    }
    return np.stack(
        [folds[number // N_FOLDS] != number % N_FOLDS for number in numbers]
    )


def draw_subsample(y: IntArray, share: float, rng: np.random.Generator) -> Subsample:
    """Draw a share of controls and of patients at random; ``y`` (N,) is 0 for controls
    and 1 for patients.
    """
    if share >= 1.0:
        return Subsample(np.arange(len(y)), np.zeros(0, dtype=np.intp))
    groups = [rng.permutation(np.flatnonzero(y == label)) for label in (0, 1)]
    cuts = [max(2, round(share * len(group))) for group in groups]
    seen = np.concatenate(
        [group[:cut] for group, cut in zip(groups, cuts, strict=True)]
    )
    unseen = np.concatenate(
        [group[cut:] for group, cut in zip(groups, cuts, strict=True)]
    )
    return Subsample(np.sort(seen), np.sort(unseen))


@dataclass(frozen=True, kw_only=True)
class PreparedPeople:
    """Controls and patients, as one ensemble member takes them.

    Attributes
    ----------
    X : ndarray of shape (N, R)
        Prepared people. Controls have mean 1 and standard deviation 0.1. Missing
        cells are NaN. In a study, each member has a preparation of its own, which
        is learnt from the people that it is trained on.
    y : ndarray of shape (N,)
        0 control, 1 patient.
    reference : ndarray of shape (R, R) or None
        Correlations of the regions in a reference population of healthy people.
    kinds : ndarray of shape (R,) or None
        Code of what each region measures, such as thickness or volume. None if all
        measure the same.
    trend : ndarray of shape (N, R) or None
        Where ``X`` is the mean of a person's visits: their change, as
        `reduce_visits` returns it.
    n_visits : ndarray of shape (N,) or None
        Number of visits of each person. Given together with ``trend``.
    seen : ndarray of shape (N,) or None
        Mask of the people that the member is trained on. None for everyone.
    """

    X: FloatArray
    y: IntArray
    reference: FloatArray | None = None
    kinds: IntArray | None = None
    trend: FloatArray | None = None
    n_visits: IntArray | None = None
    seen: BoolArray | None = None

    @property
    def subsample(self) -> Subsample:
        """The people that the member is trained on, and the others."""
        seen = np.ones(len(self.y), dtype=bool) if self.seen is None else self.seen
        return Subsample(np.flatnonzero(seen), np.flatnonzero(~seen))

    def complete(self, by_group: bool = True) -> Self:
        """Return the people with missing cells filled by what their other cells
        predict.

        Filled by group, cells carry the difference between the groups; for comparisons
        of groups they must not.
        """
        groups = self.y if by_group else np.zeros_like(self.y)
        return replace(self, X=complete_people(self.X, groups))

    def take(self, rows: IntArray) -> Self:
        """Return some of the people."""
        by_person = {
            name: getattr(self, name)
            for name in ("X", "y", "trend", "n_visits", "seen")
        }
        return replace(
            self,
            **{
                name: array[rows]
                for name, array in by_person.items()
                if array is not None
            },
        )

    def deal_to_members(self, numbers: Sequence[int], seed: int) -> list[Self]:
        """Return the people of each member, who are dealt to folds within groups."""
        return [
            replace(self, seen=seen)
            for seen in find_seen_people(self.X, self.y.tolist(), numbers, seed)
        ]


def split_by_folds(
    people: Sequence[PreparedPeople],
) -> list[tuple[Subsample, Subsample] | None]:
    """Return two parts of the people that have nobody in common, for each member of a
    set of folds.

    Those of member k are three folds, beginning with its own, and the two others. None
    for members that are not those of a whole set.
    """
    masks = [each.seen for each in people if each.seen is not None]
    if len(masks) != N_FOLDS or not (np.sum(masks, axis=0) == N_FOLDS - 1).all():
        return [None] * len(people)
    folds, splits = np.argmin(masks, axis=0), list[tuple[Subsample, Subsample] | None]()
    for k in range(N_FOLDS):
        is_first = (folds - k) % N_FOLDS < (N_FOLDS + 1) // 2
        first, second = np.flatnonzero(is_first), np.flatnonzero(~is_first)
        splits.append((Subsample(first, second), Subsample(second, first)))
    return splits


class ReducedVisits(NamedTuple):
    """Visits of N people.

    Attributes
    ----------
    level : ndarray of shape (N, R)
        Mean of the visits. A region that was measured at no visit is NaN.
    trend : ndarray of shape (N, R)
        Sum of the visits with weights of sum 0 and norm 1 that grow with time, less
        what is expected of controls after that time. It is NaN for people with one
        visit, and for a region that was missing at a visit.
    n_visits : ndarray of shape (N,)
    """

    level: FloatArray
    trend: FloatArray
    n_visits: IntArray


def reduce_visits(
    values: FloatArray, person: IntArray, times: FloatArray, is_control: BoolArray
) -> ReducedVisits:
    """Reduce visits to a level and a trend of each person.

    Parameters
    ----------
    values : ndarray of shape (V, R)
        Prepared visits. Missing cells are NaN.
    person : ndarray of shape (V,)
        Position of the person, from 0 to N - 1.
    times : ndarray of shape (V,)
        Time of the visit in any unit, or its number.
    is_control : ndarray of shape (N,)
    """
    n_visits = np.bincount(person, minlength=len(is_control))
    is_measured = ~np.isnan(values)
    counts = _sum_by_person(is_measured.astype(float), person, len(is_control))
    with np.errstate(invalid="ignore"):
        level = (
            _sum_by_person(np.where(is_measured, values, 0.0), person, len(is_control))
            / counts
        )
    centred = times - (np.bincount(person, times, len(is_control)) / n_visits)[person]
    spread = np.sqrt(np.bincount(person, centred**2, len(is_control)))
    weights = np.divide(
        centred, spread[person], out=np.zeros_like(centred), where=spread[person] > 0
    )
    trend = _sum_by_person(values * weights[:, None], person, len(is_control))
    trend[spread == 0] = np.nan
    return ReducedVisits(
        level,
        trend - np.outer(spread, _estimate_control_rate(trend, spread, is_control)),
        n_visits,
    )


def _sum_by_person(values: FloatArray, person: IntArray, n_people: int) -> FloatArray:
    """Return the sums (N, R) of rows (V, R)."""
    sums = np.zeros((n_people, values.shape[1]))
    np.add.at(sums, person, values)
    return sums


def _estimate_control_rate(
    trend: FloatArray, spread: FloatArray, is_control: BoolArray
) -> FloatArray:
    """Return the mean change (R,) of controls per unit of time, by least squares; 0
    where none was followed.
    """
    is_measured = is_control[:, None] & ~np.isnan(trend)
    weights = np.where(is_measured, spread[:, None], 0.0)
    squares = (weights**2).sum(axis=0)
    products = (weights * np.where(is_measured, trend, 0.0)).sum(axis=0)
    return np.asarray(
        np.divide(products, squares, out=np.zeros_like(products), where=squares > 0)
    )
