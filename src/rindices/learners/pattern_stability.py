"""Stability of each pattern when it is learnt from other people.

The disease space is learnt from a part of the people (`compute_contrastive_space`), the model's patterns are projected
onto it, and patients who were left out are ranked along each pattern. A pattern is stable if it ranks them as before.
Ranks are compared, because a pattern of a few patients (a batch, a scanner, one family) is easily found again but
ranks all other patients by noise.

The basis of the disease space is taken from the model. The agreement of split halves shows whether that basis is found
again.

Shape letters: N people, R regions, M patterns, B repetitions.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata, spearmanr

from rindices._typing import FloatArray, IntArray
from rindices.learners.contrastive.estimator import compute_contrastive_space, initialise_contrastive_head
from rindices.learners.inference import invert_log_transform
from rindices.learners.normal_variation import ReferenceTarget
from rindices.threads import limit_blas_threads

WeightLearner = Callable[[FloatArray, IntArray, FloatArray, FloatArray | None, IntArray | None], FloatArray]
_BoundLearner = Callable[[FloatArray, IntArray, FloatArray], FloatArray]
N_BOOTSTRAPS, N_SPLITS = 30, 15
_SPLIT_FRACTION = 0.4  # of the people in each of two disjoint fits; both rank the remaining fifth
_CARRIER_QUANTILE = 0.95  # quantile of controls above which a patient carries a pattern


class PatternStability(NamedTuple):
    """Stability of each pattern in people who were left out.

    stability (B, M): rank correlation of the model's R-index with that of a bootstrap sample, on patients outside the
    sample; split_half (B, M): rank correlation of the R-indices of two disjoint sets of people, on patients of neither.
    """

    stability: FloatArray
    split_half: FloatArray


def assess_pattern_stability(
    X: FloatArray,
    y: IntArray,
    indices: FloatArray,
    patterns: FloatArray,
    seed: int = 0,
    bootstraps: int = N_BOOTSTRAPS,
    splits: int = N_SPLITS,
    learn_weights: WeightLearner | None = None,
    reference: FloatArray | None = None,
    kinds: IntArray | None = None,
) -> PatternStability:
    """Rank left-out patients along a model's patterns, learnt again from other people.

    X (N, R): prepared people; y (N,): 0 control, 1 patient; indices (N, M): the model's R-indices; patterns (M, R):
    change of each region at R-index 1, in control standard deviations; bootstraps, splits: number of bootstrap samples
    and of split halves; learn_weights: takes prepared people (N, R), y (N,), the patterns (R, M), the reference and the
    kinds; returns the weights (R, M) learnt from these people. Left out, the patterns are projected onto the disease
    space; reference (R, R): correlations of a reference population; kinds (R,): code of what each region measures; None
    if all measure the same.
    """
    method = learn_weights or _compute_pattern_weights

    def learn(people: FloatArray, y: IntArray, shifts: FloatArray) -> FloatArray:
        return method(people, y, shifts, reference, kinds)

    with limit_blas_threads():
        head = initialise_contrastive_head(X, y == 1, len(patterns), straighten=True)
        people = head.prepare(X)
        average = invert_log_transform(head.shift_mean, float(head.share))
        shifts = head.prepare(head.control_mean + head.control_scale * (average + patterns)).T
        rng = np.random.default_rng([seed, 7])
        stability = [_assess_bootstrap(people, y, indices, shifts, learn, rng) for _ in range(bootstraps)]
        split_half = [_correlate_split_halves(people, y, shifts, learn, rng) for _ in range(splits)]
    return PatternStability(np.array(stability), np.array(split_half))


class GroupSeparation(NamedTuple):
    """How R-indices separate patients from controls, in all people and in resampled ones.

    carriers (1 + B, M): share of patients above 95 % of controls, corrected for the share expected among controls; auc
    (1 + B, M): probability that a patient has a higher R-index than a control.
    """

    carriers: FloatArray
    auc: FloatArray


def measure_separation(controls: FloatArray, patients: FloatArray, seed: int, bootstraps: int = 400) -> GroupSeparation:
    """Return how R-indices (N, M) of controls and of patients differ, and the same in bootstrap samples of them."""
    rng = np.random.default_rng([seed, 8])
    figures = [(_estimate_carrier_share(controls, patients), _estimate_auc(controls, patients))]
    for _ in range(bootstraps):
        draw = rng.choice(controls, len(controls)), rng.choice(patients, len(patients))
        figures.append((_estimate_carrier_share(*draw), _estimate_auc(*draw)))
    return GroupSeparation(*(np.array(each) for each in zip(*figures, strict=True)))


def _estimate_carrier_share(controls: FloatArray, patients: FloatArray) -> FloatArray:
    """Return the share (M,) of patients (N, M) above 95 % of controls (N, M), corrected for chance."""
    above = (patients > np.quantile(controls, _CARRIER_QUANTILE, axis=0)).mean(axis=0)
    return np.asarray(np.clip((above - (1 - _CARRIER_QUANTILE)) / _CARRIER_QUANTILE, 0.0, 1.0))


def _estimate_auc(controls: FloatArray, patients: FloatArray) -> FloatArray:
    """Return the probability (M,) that a patient has a higher value than a control, ties counted by half."""
    ranks = rankdata(np.concatenate([controls, patients]), axis=0)[len(controls) :].sum(axis=0)
    n_controls, n_patients = len(controls), len(patients)
    return np.asarray((ranks - n_patients * (n_patients + 1) / 2) / max(n_controls * n_patients, 1))


def _assess_bootstrap(
    people: FloatArray,
    y: IntArray,
    indices: FloatArray,
    shifts: FloatArray,
    learn: _BoundLearner,
    rng: np.random.Generator,
) -> FloatArray:
    """Return the stability (M,) in the patients outside one bootstrap sample."""
    groups = _split_by_group(y)
    sample = np.concatenate([rng.choice(group, len(group)) for group in groups])
    patients = np.setdiff1d(groups[1], sample)
    return _correlate_ranks(indices[patients], people[patients] @ learn(people[sample], y[sample], shifts))


def _correlate_split_halves(
    people: FloatArray, y: IntArray, shifts: FloatArray, learn: _BoundLearner, rng: np.random.Generator
) -> FloatArray:
    """Correlate the ranks that two disjoint fits give to patients of neither, (M,)."""
    groups = [rng.permutation(group) for group in _split_by_group(y)]
    sizes = [max(2, round(_SPLIT_FRACTION * len(group))) for group in groups]
    left_out = groups[1][2 * sizes[1] :]
    indices = []
    for half in (0, 1):
        seen = np.concatenate([group[half * n : (half + 1) * n] for group, n in zip(groups, sizes, strict=True)])
        indices.append(people[left_out] @ learn(people[seen], y[seen], shifts))
    return _correlate_ranks(*indices)


def _split_by_group(y: IntArray) -> tuple[IntArray, IntArray]:
    return np.flatnonzero(y == 0), np.flatnonzero(y == 1)


def _compute_pattern_weights(
    people: FloatArray, y: IntArray, shifts: FloatArray, reference: FloatArray | None, kinds: IntArray | None
) -> FloatArray:
    """Return the weights (R, M) of the patterns' projections onto the disease space of these people."""
    centre = people[y == 0].mean(axis=0)
    controls, patients = people[y == 0] - centre, people[y == 1] - centre
    target = ReferenceTarget.choose(controls, reference)
    space, noise, _ = compute_contrastive_space(controls, patients, shifts.shape[1], target)
    dual = np.linalg.solve(noise, space)
    projected = space @ np.linalg.solve(space.T @ dual, dual.T @ shifts)
    size = np.sqrt((shifts * np.linalg.solve(noise, shifts)).sum(axis=0))
    x = np.linalg.solve(noise, projected)
    gram = projected.T @ x + 1e-6 * np.diag(size**2)  # invertible also where two patterns have one projection
    return np.asarray(x @ np.linalg.inv(gram))


def _correlate_ranks(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the rank correlation of parallel columns, (N, M) x2 -> (M,); 0 if one is constant or has under 3 rows."""
    correlations = np.zeros(first.shape[1])
    for k, (a, b) in enumerate(zip(first.T, second.T, strict=True)):
        if len(a) > 2 and np.ptp(a) > 0 and np.ptp(b) > 0:
            correlations[k] = spearmanr(a, b).statistic
    return correlations
