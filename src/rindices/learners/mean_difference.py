"""One R-index: a person's position along the mean difference between patients and controls.

It is the answer where patients differ from controls, but not from each other more than controls do. A direction is
C^-1 d with the mean difference d and the covariance C of both groups, shrunk to the identity. Weak effects need strong
shrinkage, strong effects little, and choosing one of them by cross-validation is noisy in small samples. So the index
is the mean over several shrinkages, whose directions are scaled to the same variance. Where regions measure several
things, such as thickness and volumes, each kind has a prior variance of its own: shrinkage is then stronger for a kind
that differs less.

Shape letters: N people, R regions.
"""

from dataclasses import replace

import numpy as np

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import InputError
from rindices.learners.base import Learner, RandomState, handle_zeros_in_scale
from rindices.learners.contrastive.estimator import compute_unit_severity, initialise_contrastive_head
from rindices.learners.normal_variation import ReferenceTarget, estimate_covariance

MIN_WEIGHT = 0.1
"""Smallest weight of a kind of measures, relative to the largest."""
_N_ERRORS = 2.0  # standard errors that are subtracted


def compute_measure_weights(
    difference: FloatArray, error: float, correlation: FloatArray, kinds: IntArray
) -> FloatArray:
    """Return the weight of each region: that of its kind.

    difference (R,): between the means of the groups, in standard deviations within groups; error: standard error of a
    difference; correlation (R, R): within groups; positive definite; kinds (R,): code of what each region measures,
    from 0. Returns (R,), from `MIN_WEIGHT` to 1. All are 1 if no kind exceeds what chance gives.
    """
    excess = np.zeros(int(kinds.max()) + 1)
    for kind in np.unique(kinds):
        rows = kinds == kind
        shift = difference[rows] / error
        mean_square = float(shift @ np.linalg.solve(correlation[np.ix_(rows, rows)], shift)) / len(shift)
        excess[kind] = max(mean_square - 1.0 - _N_ERRORS * np.sqrt(2.0 / len(shift)), 0.0)
    if not excess.any():
        return np.ones(len(kinds))
    return np.asarray(np.maximum(excess / excess.max(), MIN_WEIGHT)[kinds])


SHRINKAGES = (0.2, 0.5, 0.8, 0.95)
"""Weights of the identity in the correlation matrix."""


class MeanDifference(Learner):
    """R-index along the mean difference between patients and controls.

    Parameters
    ----------
    n_patterns : int, default=1
        Must be 1.
    random_state : ignored
        Present for the interface of learners.
    reference : array-like of shape (R, R), default=None
        Correlations of the regions in a reference population of healthy people.
    kinds : array-like of shape (R,), default=None
        Code of what each region measures; None if all measure the same.

    Attributes
    ----------
    patterns_ : ndarray of shape (1, R)
        Change of each region at R-index 1, in control standard deviations.
    shifts_ : ndarray of shape (1, R)
        The same after the log transform.
    head_ : ContrastiveHead
        Arrays for inference.
    n_features_in_ : int
        R.

    Notes
    -----
    The R-index is 0 for the average control and 1 at the 98th percentile of patients. It is not clipped.

    Examples
    --------
    >>> r = MeanDifference().fit(X, y).transform(X)  # doctest: +SKIP
    """

    def __init__(
        self,
        n_patterns: int = 1,
        random_state: RandomState = None,
        reference: FloatArray | None = None,
        kinds: IntArray | None = None,
    ) -> None:
        super().__init__(n_patterns, random_state)
        self.reference = reference
        self.kinds = kinds

    def _learn(self, regions: FloatArray, patient: BoolArray) -> None:
        if self.n_patterns != 1:
            raise InputError(f"n_patterns is {self.n_patterns}; the mean difference is one index: give 1.")
        head = initialise_contrastive_head(regions, patient, 1, straighten=True)
        people = head.prepare(regions)
        difference = people[patient].mean(axis=0) - people[~patient].mean(axis=0)
        weights = compute_difference_weights(people, patient.astype(np.intp), self.reference, self.kinds)
        unit = compute_unit_severity(people[patient] @ weights)
        self.head_ = replace(head, weights=weights / unit)
        self.shifts_ = (difference * unit / (difference @ weights))[None, :]
        self.patterns_ = self.head_.to_control_sd(self.shifts_)

    def _prepare(self, regions: FloatArray) -> FloatArray:
        return regions  # the head prepares

    def _infer(self, prepared: FloatArray) -> FloatArray:
        return self.head_.infer(prepared)


def compute_difference_weights(
    people: FloatArray, y: IntArray, reference: FloatArray | None = None, kinds: IntArray | None = None
) -> FloatArray:
    """Return the weights (R, 1) of the mean difference: the mean of the directions of all `SHRINKAGES`.

    people (N, R): in control standard deviations; y (N,): 0 control, 1 patient; reference (R, R): correlations of the
    regions in a reference population; kinds (R,): code of what each region measures.
    """
    groups = [people[y == label] for label in (0, 1)]
    residuals = np.concatenate([group - group.mean(axis=0) for group in groups])
    scale = handle_zeros_in_scale(residuals.std(axis=0))
    residuals = residuals / scale
    covariance = estimate_covariance(residuals, ReferenceTarget.choose(residuals, reference))
    difference = (groups[1].mean(axis=0) - groups[0].mean(axis=0)) / scale
    if kinds is not None:
        error = float(np.sqrt(sum(1.0 / len(group) for group in groups)))
        prior_sd = np.sqrt(compute_measure_weights(difference, error, covariance, kinds))
        covariance, difference, scale = (
            covariance * np.outer(prior_sd, prior_sd),
            difference * prior_sd,
            scale / prior_sd,
        )
    return average_directions(covariance, difference) / scale[:, None]


def average_directions(covariance: FloatArray, difference: FloatArray) -> FloatArray:
    """Return the mean (R, 1) of the directions of all `SHRINKAGES`, each with variance 1.

    covariance (R, R): within groups, of regions with variance 1; difference (R,): between the means of the groups.
    """
    variances, axes = np.linalg.eigh(covariance)
    difference = axes.T @ difference
    directions = [difference / ((1.0 - share) * variances + share) for share in SHRINKAGES]
    lengths = [np.sqrt(max(float(variances @ direction**2), 1e-300)) for direction in directions]
    mean = np.mean([direction / length for direction, length in zip(directions, lengths, strict=True)], axis=0)
    return np.asarray(axes @ mean)[:, None]
