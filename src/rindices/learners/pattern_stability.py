"""Is each pattern real? What other people make of it.

The disease space is learnt from some of the people (`compute_contrastive_space`), a model's patterns are looked for in it, and
patients who were not learnt from are ranked along each. A pattern is reproduced if it ranks them as it did when learnt
from others. Ranks, because a pattern that only a few patients carry (a batch, a scanner, one kin) is easily found again
but orders all the others by noise.

Where in the disease space the patterns lie is the model's word; whether that basis is found again is what the agreement
of disjoint halves says.

Shape letters: N people, R regions, M patterns, B repetitions.
"""

from typing import NamedTuple

import numpy as np
from scipy.stats import spearmanr

from rindices._typing import FloatArray, IntArray
from rindices.learners.contrastive.estimator import compute_contrastive_space, initialise_contrastive_head
from rindices.learners.log_transform import invert_log_transform
from rindices.threads import limit_blas_threads

N_BOOTSTRAPS, N_SPLITS = 30, 15
_N_CARRIER_BOOTSTRAPS = 400  # for the interval of carriers, which is cheap
_SPLIT_FRACTION = 0.4  # of the people for each of two disjoint fits; the fifth that is left is ranked by both
_CARRIER_QUANTILE = 0.95  # quantile of controls above which a patient carries a pattern


class PatternStability(NamedTuple):
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

    stability: FloatArray
    split_half: FloatArray
    carriers: FloatArray
    carriers_interval: FloatArray


def assess_pattern_stability(
    X: FloatArray,
    y: IntArray,
    indices: FloatArray,
    patterns: FloatArray,
    seed: int = 0,
    bootstraps: int = N_BOOTSTRAPS,
    splits: int = N_SPLITS,
) -> PatternStability:
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
    with limit_blas_threads():
        head = initialise_contrastive_head(X, y == 1, len(patterns), straighten=True)
        people = head.prepare(X)
        typical = invert_log_transform(head.shift_mean, float(head.share))
        shifts = head.prepare(head.control_mean + head.control_scale * (typical + patterns)).T
        rng = np.random.default_rng([seed, 7])
        stability = [_bootstrap_stability(people, y, indices, shifts, rng) for _ in range(bootstraps)]
        halves = [_correlate_split_halves(people, y, shifts, rng) for _ in range(splits)]
    groups = indices[y == 0], indices[y == 1]
    ends = bootstrap_carrier_share(*groups, np.random.default_rng([seed, 9]))
    return PatternStability(np.array(stability), np.array(halves), estimate_carrier_share(*groups), ends)


def estimate_carrier_share(controls: FloatArray, patients: FloatArray) -> FloatArray:
    """Return the share of patients (N, M) who carry each pattern: beyond 95 % of controls, chance taken off."""
    beyond = (patients > np.quantile(controls, _CARRIER_QUANTILE, axis=0)).mean(axis=0)
    return np.asarray(np.clip((beyond - (1 - _CARRIER_QUANTILE)) / _CARRIER_QUANTILE, 0.0, 1.0))


def bootstrap_carrier_share(controls: FloatArray, patients: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return both ends (2, M) of the 95 % interval of `estimate_carrier_share`, were other people drawn."""
    drawn = [
        estimate_carrier_share(*(rng.choice(group, len(group)) for group in (controls, patients)))
        for _ in range(_N_CARRIER_BOOTSTRAPS)
    ]
    return np.asarray(np.quantile(drawn, [0.025, 0.975], axis=0))


def _bootstrap_stability(
    people: FloatArray, y: IntArray, indices: FloatArray, shifts: FloatArray, rng: np.random.Generator
) -> FloatArray:
    drawn = np.concatenate([rng.choice(group, len(group)) for group in _split_by_group(y)])
    left = np.setdiff1d(np.flatnonzero(y == 1), drawn)
    return _correlate_ranks(indices[left], people[left] @ _compute_pattern_weights(people[drawn], y[drawn], shifts))


def _correlate_split_halves(
    people: FloatArray, y: IntArray, shifts: FloatArray, rng: np.random.Generator
) -> FloatArray:
    groups = [rng.permutation(group) for group in _split_by_group(y)]
    sizes = [max(2, round(_SPLIT_FRACTION * len(group))) for group in groups]
    ranked = groups[1][2 * sizes[1] :]
    fits = []
    for half in (0, 1):
        seen = np.concatenate([group[half * n : (half + 1) * n] for group, n in zip(groups, sizes, strict=True)])
        fits.append(people[ranked] @ _compute_pattern_weights(people[seen], y[seen], shifts))
    return _correlate_ranks(*fits)


def _split_by_group(y: IntArray) -> tuple[IntArray, IntArray]:
    return np.flatnonzero(y == 0), np.flatnonzero(y == 1)


def _compute_pattern_weights(people: FloatArray, y: IntArray, shifts: FloatArray) -> FloatArray:
    """Return the weights (R, M) of patterns as far as the disease space of these people holds them."""
    centre = people[y == 0].mean(axis=0)
    space, noise, _ = compute_contrastive_space(people[y == 0] - centre, people[y == 1] - centre, shifts.shape[1])
    dual = np.linalg.solve(noise, space)
    held = space @ np.linalg.solve(space.T @ dual, dual.T @ shifts)
    size = np.sqrt((shifts * np.linalg.solve(noise, shifts)).sum(axis=0))
    x = np.linalg.solve(noise, held)
    gram = held.T @ x + 1e-6 * np.diag(size**2)  # two patterns that fall on one must not blow up
    return np.asarray(x @ np.linalg.inv(gram))


def _correlate_ranks(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the rank correlation of parallel columns, (N, M) x2 -> (M,); 0 where one is constant or too short."""
    values = np.zeros(first.shape[1])
    for k, (a, b) in enumerate(zip(first.T, second.T, strict=True)):
        if len(a) > 2 and np.ptp(a) > 0 and np.ptp(b) > 0:
            values[k] = spearmanr(a, b).statistic
    return values
