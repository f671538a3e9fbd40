"""Is each pattern real? What other people make of it.

The disease space is learnt from some of the people (`contrast_space`), a model's patterns are looked for in it, and
patients who were not learnt from are ranked along each. A pattern is reproduced if it ranks them as it did when learnt
from others. Ranks, because a pattern that only a few patients carry (a batch, a scanner, one kin) is easily found again
but orders all the others by noise.

Where in the disease space the patterns lie is the model's word; whether that basis is found again is what the agreement
of disjoint halves says.

Shape letters: N people, R regions, M patterns, B repetitions.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from rindices.learners.contrastive import contrast_space, straightening_head
from rindices.learners.seats import Places
from rindices.learners.shares import to_shares
from rindices.threads import one_thread

Floats = NDArray[np.float64]

BOOTSTRAPS, SPLITS = 30, 15
_DRAWS = 400  # for the interval of carriers, which is cheap
_HALF = 0.4  # of the people for each of two disjoint fits; the fifth that is left is ranked by both
_NORMAL = 0.95  # quantile of controls above which a patient carries a pattern


class Reproduction(NamedTuple):
    """How each pattern fares with other people.

    Attributes
    ----------
    stability : (B, M)
        Rank correlation of the model's R-index with that from people drawn with replacement, on patients not drawn.
    split_half : (B, M)
        Rank correlation of the R-indices from two disjoint sets of people, on patients of neither.
    carriers : (M,)
        Share of patients beyond 95 % of controls, less what is expected of controls.
    carriers_interval : (2, M)
        Its 95 % interval over controls and patients drawn with replacement.
    """

    stability: Floats
    split_half: Floats
    carriers: Floats
    carriers_interval: Floats


def reproduce_patterns(
    X: Floats,
    y: NDArray[np.intp],
    indices: Floats,
    patterns: Floats,
    seed: int = 0,
    bootstraps: int = BOOTSTRAPS,
    splits: int = SPLITS,
) -> Reproduction:
    """Look for a model's patterns in other people.

    Parameters
    ----------
    X : (N, R)
        Prepared people.
    y : (N,)
        0 control, 1 patient.
    indices : (N, M)
        The model's R-indices.
    patterns : (M, R)
        Change of each region at R-index 1, in control standard deviations.
    """
    with one_thread():
        head = straightening_head(X, y == 1, len(patterns), straighten=True)
        people = head.prepare(X)
        typical = to_shares(head.shift_mean, float(head.share))
        shifts = head.prepare(head.control_mean + head.control_scale * (typical + patterns)).T
        rng = np.random.default_rng([seed, 7])
        stability = [_stability(people, y, indices, shifts, rng) for _ in range(bootstraps)]
        halves = [_split_half(people, y, shifts, rng) for _ in range(splits)]
    groups = indices[y == 0], indices[y == 1]
    ends = carriers_interval(*groups, np.random.default_rng([seed, 9]))
    return Reproduction(np.array(stability), np.array(halves), carriers(*groups), ends)


def carriers(controls: Floats, patients: Floats) -> Floats:
    """Return the share of patients (N, M) who carry each pattern: beyond 95 % of controls, chance taken off."""
    beyond = (patients > np.quantile(controls, _NORMAL, axis=0)).mean(axis=0)
    return np.asarray(np.clip((beyond - (1 - _NORMAL)) / _NORMAL, 0.0, 1.0))


def carriers_interval(controls: Floats, patients: Floats, rng: np.random.Generator) -> Floats:
    """Return both ends (2, M) of the 95 % interval of `carriers`, were other people drawn."""
    drawn = [carriers(*(rng.choice(group, len(group)) for group in (controls, patients))) for _ in range(_DRAWS)]
    return np.asarray(np.quantile(drawn, [0.025, 0.975], axis=0))


def _stability(
    people: Floats, y: NDArray[np.intp], indices: Floats, shifts: Floats, rng: np.random.Generator
) -> Floats:
    drawn = np.concatenate([rng.choice(group, len(group)) for group in _groups(y)])
    left = np.setdiff1d(np.flatnonzero(y == 1), drawn)
    return _rank_correlations(indices[left], people[left] @ _weights(people[drawn], y[drawn], shifts))


def _split_half(people: Floats, y: NDArray[np.intp], shifts: Floats, rng: np.random.Generator) -> Floats:
    groups = [rng.permutation(group) for group in _groups(y)]
    sizes = [max(2, round(_HALF * len(group))) for group in groups]
    ranked = groups[1][2 * sizes[1] :]
    fits = []
    for half in (0, 1):
        seen = np.concatenate([group[half * n : (half + 1) * n] for group, n in zip(groups, sizes, strict=True)])
        fits.append(people[ranked] @ _weights(people[seen], y[seen], shifts))
    return _rank_correlations(*fits)


def _groups(y: NDArray[np.intp]) -> tuple[Places, Places]:
    return np.flatnonzero(y == 0), np.flatnonzero(y == 1)


def _weights(people: Floats, y: NDArray[np.intp], shifts: Floats) -> Floats:
    """Return the weights (R, M) of patterns as far as the disease space of these people holds them."""
    centre = people[y == 0].mean(axis=0)
    space, noise, _ = contrast_space(people[y == 0] - centre, people[y == 1] - centre, shifts.shape[1])
    dual = np.linalg.solve(noise, space)
    held = space @ np.linalg.solve(space.T @ dual, dual.T @ shifts)
    size = np.sqrt((shifts * np.linalg.solve(noise, shifts)).sum(axis=0))
    x = np.linalg.solve(noise, held)
    gram = held.T @ x + 1e-6 * np.diag(size**2)  # two patterns that fall on one must not blow up
    return np.asarray(x @ np.linalg.inv(gram))


def _rank_correlations(first: Floats, second: Floats) -> Floats:
    """Return the rank correlation of parallel columns, (N, M) x2 -> (M,); 0 where one is constant or too short."""
    values = np.zeros(first.shape[1])
    for k, (a, b) in enumerate(zip(first.T, second.T, strict=True)):
        if len(a) > 2 and np.ptp(a) > 0 and np.ptp(b) > 0:
            values[k] = spearmanr(a, b).statistic
    return values
