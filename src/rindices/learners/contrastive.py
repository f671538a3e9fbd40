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
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.covariance import ledoit_wolf

from rindices.errors import InputError
from rindices.learners.base import Learner, RandomState, nonzero
from rindices.learners.heads import ContrastiveHead
from rindices.learners.rotation import Evidence, independent_sources, likely_basis, start_points
from rindices.learners.shares import proportionality, to_shifts
from rindices.learners.sparse_patterns import covariance, refine_patterns, severity_weights

Floats = NDArray[np.float64]

SEVERE = 0.98  # the quantile of patients that gets R-index 1
ROTATIONS = ("likelihood", "ica")
_ROUNDS, _EM_STEPS, _RANDOM_STARTS = 2, 10, 3
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

    def _learn(self, regions: Floats, patient: NDArray[np.bool_]) -> None:
        if self.rotation not in ROTATIONS:
            raise InputError(f"rotation is {self.rotation!r}; give one of {', '.join(ROTATIONS)}.")
        if patient.sum() <= self.n_patterns:
            raise InputError(
                f"{patient.sum()} patients cannot give {self.n_patterns} patterns; lower n_patterns or add patients."
            )
        wide = self.rotation == "likelihood"
        head = straightening_head(regions, patient, self.n_patterns, straighten=wide)
        people = head.prepare(regions)
        learn = learn_likelihood if wide else learn_ica
        weights, patterns, self.spectrum_ = learn(people[~patient], people[patient], self.n_patterns, self._seed())
        unit = severe_unit(people[patient] @ weights)
        self.head_ = replace(head, weights=weights / unit)
        self.shifts_ = (patterns * unit).T
        self.share_ = float(head.share)
        self.patterns_ = self.head_.in_control_sd(self.shifts_)

    def _prepare(self, regions: Floats) -> Floats:
        return regions

    def _infer(self, prepared: Floats) -> Floats:
        return self.head_.infer(prepared)


def straightening_head(regions: Floats, patient: NDArray[np.bool_], width: int, straighten: bool) -> ContrastiveHead:
    """Return a head of zero weights that standardises people (N, R) to controls and turns shares into shifts.

    Parameters
    ----------
    width : int
        M.
    straighten : bool
        Whether to look for c of the transform; without it c is 0.
    """
    controls = regions[~patient]
    mean, scale = controls.mean(axis=0), nonzero(controls.std(axis=0))
    z = (regions - mean) / scale
    share = proportionality([z[~patient], z[patient]]) if straighten else 0.0
    shifts = to_shifts(z[~patient], share)
    standing = (shifts.mean(axis=0), nonzero(shifts.std(axis=0)))
    return ContrastiveHead(mean, scale, np.array(share), *standing, np.zeros((z.shape[1], width)))


def severe_unit(severities: Floats) -> Floats:
    """Return the severity (M,) that gets R-index 1: the 98th percentile of patients (N, M)."""
    severe = np.quantile(severities, SEVERE, axis=0)
    return np.where(severe > 1e-12, severe, 1.0)


def control_covariance(controls: Floats) -> Floats:
    """Return the shrunk covariance (R, R) of controls; Ledoit-Wolf, so fewer people than regions will do."""
    shrunk = ledoit_wolf(controls)[0]
    return np.asarray(shrunk + _RIDGE * max(float(np.trace(shrunk)) / len(shrunk), 1e-12) * np.eye(len(shrunk)))


def learn_ica(controls: Floats, patients: Floats, width: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """Run plain contrastive ICA: weights (R, M), patterns (R, M) per unit of the index, spectrum (R,)."""
    spectrum, vectors = eigh(ledoit_wolf(patients)[0], control_covariance(controls))
    space = vectors[:, ::-1][:, :width]
    weights = space @ independent_sources((patients - patients.mean(axis=0)) @ space, seed)
    weights = weights * np.where(patients.mean(axis=0) @ weights < 0, -1.0, 1.0)
    s = (patients - patients.mean(axis=0)) @ weights
    patterns = (patients - patients.mean(axis=0)).T @ s / len(s) / nonzero(s.var(axis=0))
    order = _by_strength(patterns, np.eye(len(patterns)))
    return weights[:, order], patterns[:, order], spectrum[::-1]


def learn_likelihood(controls: Floats, patients: Floats, width: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """Run the full method: weights (R, M), patterns (R, M) per unit of the index, spectrum (R,)."""
    rng = np.random.default_rng(seed)
    patterns, noise, spectrum = contrast_space(controls, patients, width)
    patterns = _rotate(patients, patterns, noise, _RANDOM_STARTS, rng)
    for _ in range(_ROUNDS):
        patterns = _rotate(patients, refine_patterns(patients, patterns, noise, _EM_STEPS), noise, 0, rng)
    return severity_weights(patterns, noise), patterns, spectrum


def contrast_space(controls: Floats, patients: Floats, width: int) -> tuple[Floats, Floats, Floats]:
    """Return the disease directions as patterns (R, M), the controls' covariance (R, R) and the spectrum (R,).

    Solves E[(y - mean x)(y - mean x)'] w = rho C w. The second moment about the controls' mean is covariance plus
    squared mean shift: the shift lies in the same space and is measured far better than any variance.
    """
    noise = control_covariance(controls)
    shift = patients.mean(axis=0) - controls.mean(axis=0)
    spectrum, vectors = eigh(ledoit_wolf(patients)[0] + np.outer(shift, shift), noise)
    top = vectors[:, ::-1][:, :width]
    return noise @ (top * np.where(shift @ top < 0, -1.0, 1.0)), noise, spectrum[::-1]


def _rotate(patients: Floats, patterns: Floats, noise: Floats, random: int, rng: np.random.Generator) -> Floats:
    """Return the patterns (R, M) in their most likely basis, patients' mean above zero, strongest first."""
    u = patients @ severity_weights(patterns, noise)
    values, vectors = np.linalg.eigh(covariance(u))
    values = np.maximum(values, 1e-12 * max(float(values.max()), 1e-300))
    root = vectors * np.sqrt(values) @ vectors.T  # symmetric, so that the basis as it is stays a good start
    found = patterns @ root
    if patterns.shape[1] > 1:
        white = (u - u.mean(axis=0)) @ np.linalg.inv(root)
        found = likely_basis(white, found, Evidence(), start_points(found, random, rng))
    mean = (patients @ severity_weights(found, noise)).mean(axis=0)
    found = found * np.where(mean < 0, -1.0, 1.0)
    return np.asarray(found[:, _by_strength(found, noise)])


def _by_strength(patterns: Floats, metric: Floats) -> NDArray[np.intp]:
    """Return the order of patterns by their size in a metric, so that it does not depend on the start."""
    strength = (patterns * np.linalg.solve(metric, patterns)).sum(axis=0)
    return np.argsort(-strength, kind="stable")
