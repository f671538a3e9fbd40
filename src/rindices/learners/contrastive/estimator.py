"""Contrastive ICA: what varies in patients beyond what varies in controls, in a fraction of a second.

1. Shares become shifts (`shares`): one number, chosen by likelihood.
2. The M directions in which patients exceed controls most, a generalised eigenproblem: normal variation is whitened
   away, disease is left.
3. The basis of that space (`rotation`), then patterns sharpened by a sparse factor model (`sparse_patterns`), twice.
4. A person's R-indices by generalised least squares on the patterns.

Shape letters: N people, R regions, M patterns.
"""

from dataclasses import replace

import numpy as np
from scipy.linalg import eigh
from sklearn.covariance import ledoit_wolf

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import InputError
from rindices.learners.base import Learner, RandomState, handle_zeros_in_scale
from rindices.learners.contrastive.rotation import (
    LikelihoodWeights,
    draw_rotation_starts,
    find_most_likely_basis,
    fit_fastica_unmixing,
)
from rindices.learners.contrastive.sparse_patterns import compute_covariance, compute_severity_weights, refine_patterns
from rindices.learners.inference import ContrastiveHead
from rindices.learners.log_transform import apply_log_transform, fit_log_transform

UNIT_SEVERITY_QUANTILE = 0.98  # the quantile of patients that gets R-index 1
ROTATIONS = ("likelihood", "ica")
_N_REFINEMENTS, _N_EM_STEPS, _N_RANDOM_STARTS = 2, 10, 3
_RIDGE = 1e-9  # of the mean variance, so that a constant region leaves the covariance invertible


class ContrastiveICA(Learner):
    """Severities of disease patterns by contrast with controls.

    Parameters
    ----------
    n_patterns : int, default=3
        M.
    random_state : int, RandomState or None, default=None
        Draws the starts of the rotation; the best of them wins, so it rarely matters.
    rotation : {'likelihood', 'ica'}, default='likelihood'
        ``likelihood``: the full method above. ``ica``: plain contrastive ICA, that is, no transform, FastICA in the
        contrastive space and no refinement; as good only where severities are independent and uniform.

    Attributes
    ----------
    patterns_ : ndarray of shape (M, R)
        Change of each region at R-index 1, in control standard deviations, for the average control; atrophy is
        negative. Strongest pattern first.
    spectrum_ : ndarray of shape (R,)
        Patients' variance against controls', direction by direction, descending. Directions of disease stand out.
    head_ : ContrastiveHead
        What inference needs, as plain arrays.
    share_ : float
        c of the transform; 0 where changes are shifts already.
    n_features_in_ : int
        R.

    Notes
    -----
    The R-index is 0 for the average control and 1 for patients at the 98th percentile; it is not cut at either end.

    Examples
    --------
    >>> r = ContrastiveICA(n_patterns=3, random_state=0).fit(X, y).transform(X)  # doctest: +SKIP
    """

    def __init__(self, n_patterns: int = 3, random_state: RandomState = None, rotation: str = "likelihood") -> None:
        super().__init__(n_patterns, random_state)
        self.rotation = rotation

    def _learn(self, regions: FloatArray, patient: BoolArray) -> None:
        if self.rotation not in ROTATIONS:
            raise InputError(f"rotation is {self.rotation!r}; give one of {', '.join(ROTATIONS)}.")
        if patient.sum() <= self.n_patterns:
            raise InputError(
                f"{patient.sum()} patients cannot give {self.n_patterns} patterns; lower n_patterns or add patients."
            )
        wide = self.rotation == "likelihood"
        head = initialise_contrastive_head(regions, patient, self.n_patterns, straighten=wide)
        people = head.prepare(regions)
        learn = fit_contrastive_likelihood if wide else fit_contrastive_ica
        weights, patterns, self.spectrum_ = learn(people[~patient], people[patient], self.n_patterns, self._draw_seed())
        unit = compute_unit_severity(people[patient] @ weights)
        self.head_ = replace(head, weights=weights / unit)
        self.shifts_ = (patterns * unit).T
        self.share_ = float(head.share)
        self.patterns_ = self.head_.in_control_sd(self.shifts_)

    def _prepare(self, regions: FloatArray) -> FloatArray:
        return regions

    def _infer(self, prepared: FloatArray) -> FloatArray:
        return self.head_.infer(prepared)


def initialise_contrastive_head(
    regions: FloatArray, patient: BoolArray, width: int, straighten: bool
) -> ContrastiveHead:
    """Return a head of zero weights that standardises people (N, R) to controls and turns shares into shifts.

    Parameters
    ----------
    width : int
        M.
    straighten : bool
        Whether to look for c of the transform; without it c is 0.
    """
    controls = regions[~patient]
    mean, scale = controls.mean(axis=0), handle_zeros_in_scale(controls.std(axis=0))
    z = (regions - mean) / scale
    share = fit_log_transform([z[~patient], z[patient]]) if straighten else 0.0
    shifts = apply_log_transform(z[~patient], share)
    standing = (shifts.mean(axis=0), handle_zeros_in_scale(shifts.std(axis=0)))
    return ContrastiveHead(mean, scale, np.array(share), *standing, np.zeros((z.shape[1], width)))


def compute_unit_severity(severities: FloatArray) -> FloatArray:
    """Return the severity (M,) that gets R-index 1: the 98th percentile of patients (N, M)."""
    severe = np.quantile(severities, UNIT_SEVERITY_QUANTILE, axis=0)
    return np.where(severe > 1e-12, severe, 1.0)


def estimate_control_covariance(controls: FloatArray) -> FloatArray:
    """Return the shrunk covariance (R, R) of controls; Ledoit-Wolf, so fewer people than regions will do."""
    shrunk = ledoit_wolf(controls)[0]
    return np.asarray(shrunk + _RIDGE * max(float(np.trace(shrunk)) / len(shrunk), 1e-12) * np.eye(len(shrunk)))


def fit_contrastive_ica(
    controls: FloatArray, patients: FloatArray, width: int, seed: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Run plain contrastive ICA: weights (R, M), patterns (R, M) per unit of the index, spectrum (R,)."""
    spectrum, vectors = eigh(ledoit_wolf(patients)[0], estimate_control_covariance(controls))
    space = vectors[:, ::-1][:, :width]
    weights = space @ fit_fastica_unmixing((patients - patients.mean(axis=0)) @ space, seed)
    weights = weights * np.where(patients.mean(axis=0) @ weights < 0, -1.0, 1.0)
    s = (patients - patients.mean(axis=0)) @ weights
    patterns = (patients - patients.mean(axis=0)).T @ s / len(s) / handle_zeros_in_scale(s.var(axis=0))
    order = _order_by_strength(patterns, np.eye(len(patterns)))
    return weights[:, order], patterns[:, order], spectrum[::-1]


def fit_contrastive_likelihood(
    controls: FloatArray, patients: FloatArray, width: int, seed: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Run the full method: weights (R, M), patterns (R, M) per unit of the index, spectrum (R,)."""
    rng = np.random.default_rng(seed)
    patterns, noise, spectrum = compute_contrastive_space(controls, patients, width)
    patterns = _rotate_patterns(patients, patterns, noise, _N_RANDOM_STARTS, rng)
    for _ in range(_N_REFINEMENTS):
        patterns = _rotate_patterns(patients, refine_patterns(patients, patterns, noise, _N_EM_STEPS), noise, 0, rng)
    return compute_severity_weights(patterns, noise), patterns, spectrum


def compute_contrastive_space(
    controls: FloatArray, patients: FloatArray, width: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the disease directions as patterns (R, M), the controls' covariance (R, R) and the spectrum (R,).

    Solves E[(y - mean x)(y - mean x)'] w = rho C w. The second moment about the controls' mean is covariance plus
    squared mean shift: the shift lies in the same space and is measured far better than any variance.
    """
    noise = estimate_control_covariance(controls)
    shift = patients.mean(axis=0) - controls.mean(axis=0)
    spectrum, vectors = eigh(ledoit_wolf(patients)[0] + np.outer(shift, shift), noise)
    top = vectors[:, ::-1][:, :width]
    return noise @ (top * np.where(shift @ top < 0, -1.0, 1.0)), noise, spectrum[::-1]


def _rotate_patterns(
    patients: FloatArray, patterns: FloatArray, noise: FloatArray, random: int, rng: np.random.Generator
) -> FloatArray:
    """Return the patterns (R, M) in their most likely basis, patients' mean above zero, strongest first."""
    u = patients @ compute_severity_weights(patterns, noise)
    values, vectors = np.linalg.eigh(compute_covariance(u))
    values = np.maximum(values, 1e-12 * max(float(values.max()), 1e-300))
    root = vectors * np.sqrt(values) @ vectors.T  # symmetric, so that the basis as it is stays a good start
    found = patterns @ root
    if patterns.shape[1] > 1:
        white = (u - u.mean(axis=0)) @ np.linalg.inv(root)
        found = find_most_likely_basis(white, found, LikelihoodWeights(), draw_rotation_starts(found, random, rng))
    mean = (patients @ compute_severity_weights(found, noise)).mean(axis=0)
    found = found * np.where(mean < 0, -1.0, 1.0)
    return np.asarray(found[:, _order_by_strength(found, noise)])


def _order_by_strength(patterns: FloatArray, metric: FloatArray) -> IntArray:
    """Return the order of patterns by their size in a metric, so that it does not depend on the start."""
    strength = (patterns * np.linalg.solve(metric, patterns)).sum(axis=0)
    return np.argsort(-strength, kind="stable")
