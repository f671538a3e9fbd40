"""Linear learners: contrastive ICA, in closed form, and one index along the mean
difference.

Contrastive ICA finds patterns of variance that patients have in excess of controls.

1. A log transform makes proportional loss additive (`rindices.learners.inference`).
2. A generalised eigenproblem gives the M directions of largest variance of patients
   relative to controls. Normal variation is whitened away.
3. The basis of that space is chosen by likelihood (`rotation`) and the patterns are
   refined by a sparse factor model (`refine_patterns`), twice.
4. R-indices are generalised least squares on the patterns.

The mean difference is the answer where patients differ from controls, but not from each
other more than controls do. A direction is C^-1 d with the mean difference d and the
covariance C of both groups, shrunk to the identity. Weak effects need strong shrinkage,
strong effects little, and choosing one of them by cross-validation is noisy in small
samples. So the index is the mean over several shrinkages, whose directions are scaled
to the same variance. Where regions measure several things, such as thickness and
volumes, each kind has a prior variance of its own: shrinkage is then stronger for a
kind that differs less.

Shape letters: N people, R regions, M patterns.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from sklearn.covariance import ledoit_wolf

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import InputError
from rindices.learners.base import Learner, RandomState, handle_zeros_in_scale
from rindices.learners.contrastive.linear_start import (
    N_EM_STEPS,
    N_REFINEMENTS,
    GroupMoments,
    LinearStart,
    fit_linear_start,
    order_by_strength,
)
from rindices.learners.contrastive.rotation import (
    compute_severity_weights,
    fit_fastica_unmixing,
)
from rindices.learners.inference import (
    ContrastiveHead,
    TransformSums,
    fit_log_transform,
)
from rindices.learners.normal_variation import ReferenceTarget, estimate_covariance
from rindices.learners.people_source import PeopleSet, PeopleSource, Question, Totals

UNIT_SEVERITY_QUANTILE = 0.98
"""Quantile of patients that gets R-index 1."""
MIN_WEIGHT = 0.1
"""Smallest weight of a kind of measures, relative to the largest."""
_N_ERRORS = 2.0  # standard errors that are subtracted
SHRINKAGES = (0.2, 0.5, 0.8, 0.95)
"""Weights of the identity in the correlation matrix."""
_ROTATIONS = ("likelihood", "ica")


class ContrastiveSolution(NamedTuple):
    """Solution of the contrastive problem.

    Attributes
    ----------
    weights : ndarray of shape (R, M)
        Severity = prepared person @ weights.
    patterns : ndarray of shape (R, M)
        Change of each region per unit of severity.
    spectrum : ndarray of shape (R,)
        Generalised eigenvalues, descending.
    """

    weights: FloatArray
    patterns: FloatArray
    spectrum: FloatArray


class _HeadLearner(Learner):
    """A learner whose head prepares people and infers."""

    head_: ContrastiveHead
    shifts_: FloatArray

    def _prepare(self, regions: FloatArray) -> FloatArray:
        return regions

    def _infer(self, prepared: FloatArray) -> FloatArray:
        return self.head_.infer(prepared)


class ContrastiveICA(_HeadLearner):
    """Severities of disease patterns by contrast with controls.

    Parameters
    ----------
    n_patterns : int, default=3
        M.
    random_state : int, RandomState or None, default=None
        Seed of the random starts of the rotation. The best start is used, so the seed
        rarely matters.
    rotation : {'likelihood', 'ica'}, default='likelihood'
        ``likelihood``: all four steps of the method. ``ica``: plain contrastive ICA,
        without log transform and refinement and with FastICA as rotation. It is as good
        only where severities are independent and uniform.
    reference : array-like of shape (R, R), default=None
        Correlations of the regions in a reference population of healthy people. They
        help where controls are few (`rindices.learners.normal_variation`).

    Attributes
    ----------
    patterns_ : ndarray of shape (M, R)
        Change of each region at R-index 1, in control standard deviations, for the
        average control. Atrophy is negative. The strongest pattern comes first.
    shifts_ : ndarray of shape (M, R)
        The patterns after the log transform.
    spectrum_ : ndarray of shape (R,)
        Ratio of patients' to controls' variance in each direction, descending.
        Directions of disease stand out.
    head_ : ContrastiveHead
        Arrays for inference.
    log_constant_ : float
        c of the log transform. 0 means the identity.
    n_iter_ : int
        Number of EM steps. Plain contrastive ICA has 1.
    converged_ : None
        The number of steps is fixed, and convergence is not tested.
    n_features_in_ : int
        R.

    Notes
    -----
    The R-index is 0 for the average control and 1 at the 98th percentile of patients.
    It is not clipped.

    Examples
    --------
    >>> learner = ContrastiveICA(n_patterns=3, random_state=0)
    >>> r = learner.fit(X, y).transform(X)  # doctest: +SKIP
    """

    def __init__(
        self,
        n_patterns: int = 3,
        random_state: RandomState = None,
        rotation: str = "likelihood",
        reference: FloatArray | None = None,
    ) -> None:
        super().__init__(n_patterns, random_state)
        self.rotation = rotation
        self.reference = reference

    def _learn(self, regions: FloatArray, patient: BoolArray) -> None:
        if self.rotation not in _ROTATIONS:
            raise InputError(
                f"rotation is {self.rotation!r}; give one of {', '.join(_ROTATIONS)}."
            )
        if patient.sum() <= self.n_patterns:
            raise InputError(
                f"{patient.sum()} patients cannot give {self.n_patterns} patterns; lower n_patterns or add patients."
            )
        by_likelihood = self.rotation == "likelihood"
        head = initialise_contrastive_head(
            regions, patient, self.n_patterns, straighten=by_likelihood
        )
        people = head.prepare(regions)
        target = ReferenceTarget.choose(people[~patient], self.reference)
        if by_likelihood:
            start = solve_people(
                people[~patient],
                people[patient],
                self.n_patterns,
                self._draw_seed(),
                target,
            )
            weights = compute_severity_weights(start.patterns, start.noise)
            solution = ContrastiveSolution(weights, start.patterns, start.spectrum)
        else:
            solution = fit_contrastive_ica(
                people[~patient],
                people[patient],
                self.n_patterns,
                self._draw_seed(),
                target,
            )
        unit = compute_unit_severity(people[patient] @ solution.weights)
        self.head_ = replace(head, weights=solution.weights / unit)
        self.shifts_ = (solution.patterns * unit).T
        self.spectrum_ = solution.spectrum
        self.log_constant_ = float(head.log_constant)
        self.n_iter_ = N_REFINEMENTS * N_EM_STEPS if by_likelihood else 1
        self.converged_ = None
        self.patterns_ = self.head_.to_control_sd(self.shifts_)

    @property
    def share_(self) -> float:
        """Name of ``log_constant_`` in rindices 0.1."""
        text = "share_ works in rindices 0.2 alone: write log_constant_"
        warnings.warn(text, FutureWarning, stacklevel=2)
        return self.log_constant_


def initialise_contrastive_head(
    regions: FloatArray, patient: BoolArray, n_patterns: int, straighten: bool
) -> ContrastiveHead:
    """Fit standardisation and log transform; the weights are zero.

    Parameters
    ----------
    regions : ndarray of shape (N, R)
    patient : ndarray of shape (N,)
        Mask of patients.
    n_patterns : int
        M.
    straighten : bool
        Whether to fit the log transform. Otherwise c is 0.
    """
    controls = regions[~patient]
    mean, scale = controls.mean(axis=0), handle_zeros_in_scale(controls.std(axis=0))
    z = (regions - mean) / scale
    constant = fit_log_transform([z[~patient], z[patient]]) if straighten else 0.0
    shift_mean, shift_scale = TransformSums.compute(
        z[~patient], constant
    ).compute_scale(len(controls))
    weights = np.zeros((z.shape[1], n_patterns))
    return ContrastiveHead(
        control_mean=mean,
        control_scale=scale,
        log_constant=np.array(constant),
        shift_mean=shift_mean,
        shift_scale=handle_zeros_in_scale(shift_scale),
        weights=weights,
    )


def compute_unit_severity(severities: FloatArray) -> FloatArray:
    """Return the severity (M,) that gets R-index 1: the 98th percentile of patients (N,
    M).
    """
    unit = np.quantile(severities, UNIT_SEVERITY_QUANTILE, axis=0)
    return np.where(unit > 1e-12, unit, 1.0)


def fit_contrastive_ica(
    controls: FloatArray,
    patients: FloatArray,
    n_patterns: int,
    seed: int,
    target: ReferenceTarget | None = None,
) -> ContrastiveSolution:
    """Run plain contrastive ICA on prepared people (N, R)."""
    spectrum, vectors = eigh(
        ledoit_wolf(patients)[0], estimate_covariance(controls, target)
    )
    space = vectors[:, ::-1][:, :n_patterns]
    centred = patients - patients.mean(axis=0)
    weights = space @ fit_fastica_unmixing(centred @ space, seed)
    weights = weights * np.where(patients.mean(axis=0) @ weights < 0, -1.0, 1.0)
    s = centred @ weights
    patterns = centred.T @ s / len(s) / handle_zeros_in_scale(s.var(axis=0))
    order = order_by_strength(patterns, np.eye(len(patterns)))
    return ContrastiveSolution(weights[:, order], patterns[:, order], spectrum[::-1])


def solve_people(
    controls: FloatArray,
    patients: FloatArray,
    n_patterns: int,
    seed: int,
    target: ReferenceTarget | None = None,
) -> LinearStart:
    """Run steps 2 and 3 of the method on prepared people (N, R)."""
    people, rng = (
        _GroupsInMemory(controls, patients, target),
        np.random.default_rng(seed),
    )
    return fit_linear_start(people, PeopleSet(0, "seen"), n_patterns, rng)


class _GroupsInMemory(PeopleSource):
    """Controls and patients (N, R) without missing cells, who are one set of people."""

    def __init__(
        self, controls: FloatArray, patients: FloatArray, target: ReferenceTarget | None
    ) -> None:
        self._groups, self._moments = (
            (controls, patients),
            GroupMoments.compute(controls, patients, target),
        )

    def sum_each(self, questions: Sequence[Question[Totals]]) -> list[Totals]:
        """Return the totals that each question asks for."""
        return [question.sum_in_memory(self) for question in questions]

    def compute_moments(self, part: str) -> GroupMoments:
        """Return the moments of both groups."""
        return self._moments

    def complete_patients(self, part: str) -> FloatArray:
        """Return the patients (N, R)."""
        return self._groups[1]

    def select(self, part: str, label: int) -> FloatArray:
        """Return the people (N, R) of a group."""
        return self._groups[label]


def compute_measure_weights(
    difference: FloatArray, error: float, correlation: FloatArray, kinds: IntArray
) -> FloatArray:
    """Return the weight of each region: that of its kind.

    Parameters
    ----------
    difference : ndarray of shape (R,)
        Between the means of the groups, in standard deviations within groups.
    error : float
        Standard error of a difference.
    correlation : ndarray of shape (R, R)
        Within groups. Positive definite.
    kinds : ndarray of shape (R,)
        Code of what each region measures, from 0.

    Returns
    -------
    ndarray of shape (R,)
        , from `MIN_WEIGHT` to 1. All are 1 if no kind exceeds what chance gives.
    """
    excess = np.zeros(int(kinds.max()) + 1)
    for kind in np.unique(kinds):
        rows = kinds == kind
        shift = difference[rows] / error
        mean_square = float(
            shift @ np.linalg.solve(correlation[np.ix_(rows, rows)], shift)
        ) / len(shift)
        excess[kind] = max(
            mean_square - 1.0 - _N_ERRORS * np.sqrt(2.0 / len(shift)), 0.0
        )
    if not excess.any():
        return np.ones(len(kinds))
    return np.asarray(np.maximum(excess / excess.max(), MIN_WEIGHT)[kinds])


class MeanDifference(_HeadLearner):
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
    The R-index is 0 for the average control and 1 at the 98th percentile of patients.
    It is not clipped.

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
            raise InputError(
                f"n_patterns is {self.n_patterns}; the mean difference is one index: give 1."
            )
        head = initialise_contrastive_head(regions, patient, 1, straighten=True)
        people = head.prepare(regions)
        difference = people[patient].mean(axis=0) - people[~patient].mean(axis=0)
        weights = compute_difference_weights(
            people, patient.astype(np.intp), self.reference, self.kinds
        )
        unit = compute_unit_severity(people[patient] @ weights)
        self.head_ = replace(head, weights=weights / unit)
        self.shifts_ = (difference * unit / (difference @ weights))[None, :]
        self.patterns_ = self.head_.to_control_sd(self.shifts_)


def compute_difference_weights(
    people: FloatArray,
    y: IntArray,
    reference: FloatArray | None = None,
    kinds: IntArray | None = None,
) -> FloatArray:
    """Return the weights (R, 1) of the mean difference: the mean of the directions of
    all `SHRINKAGES`.

    Parameters
    ----------
    people : ndarray of shape (N, R)
        In control standard deviations.
    y : ndarray of shape (N,)
        0 control, 1 patient.
    reference : ndarray of shape (R, R) or None
        Correlations of the regions in a reference population.
    kinds : ndarray of shape (R,) or None
        Code of what each region measures.
    """
    groups = [people[y == label] for label in (0, 1)]
    residuals = np.concatenate([group - group.mean(axis=0) for group in groups])
    scale = handle_zeros_in_scale(residuals.std(axis=0))
    residuals = residuals / scale
    covariance = estimate_covariance(
        residuals, ReferenceTarget.choose(residuals, reference)
    )
    difference = (groups[1].mean(axis=0) - groups[0].mean(axis=0)) / scale
    if kinds is not None:
        error = float(np.sqrt(sum(1.0 / len(group) for group in groups)))
        prior_sd = np.sqrt(
            compute_measure_weights(difference, error, covariance, kinds)
        )
        covariance = covariance * np.outer(prior_sd, prior_sd)
        difference, scale = difference * prior_sd, scale / prior_sd
    return average_directions(covariance, difference) / scale[:, None]


def average_directions(covariance: FloatArray, difference: FloatArray) -> FloatArray:
    """Return the mean (R, 1) of the directions of all `SHRINKAGES`, each with variance
    1.

    Parameters
    ----------
    covariance : ndarray of shape (R, R)
        Within groups, of regions with variance 1.
    difference : ndarray of shape (R,)
        Between the means of the groups.
    """
    variances, axes = np.linalg.eigh(covariance)
    difference = axes.T @ difference
    directions = [
        difference / ((1.0 - share) * variances + share) for share in SHRINKAGES
    ]
    lengths = [
        np.sqrt(max(float(variances @ direction**2), 1e-300))
        for direction in directions
    ]
    mean = np.mean(
        [
            direction / length
            for direction, length in zip(directions, lengths, strict=True)
        ],
        axis=0,
    )
    return np.asarray(axes @ mean)[:, None]
