"""The whole-cohort start: patterns that lie along the large axes of normal variation,
from sums over people.

The linear start (`linear_start`) ranks directions by the ratio of patients' to
controls' variance. It finds local patterns, which change regions that hardly vary
together in controls. Diffuse patterns, such as ageing or head size, add much variance
where there is much already, so that their ratio is small. This start finds them. The
equations are in ``docs/whole_cohort_start.md``.

Let mu be patients' mean minus controls' mean, P and S the covariances of patients and
of controls, n_p and n_c their numbers, and C the shrunk S. All follows from the moments
of the two groups (`GroupMoments`).

Which of the two starts a study takes is decided by how well the fitted models
distinguish patients from controls whom they have not seen (`compute_group_loss`,
`is_whole_cohort_taken`).

Shape letters: N people, R regions, M patterns, G angles.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.linalg import expm

from rindices._typing import FloatArray
from rindices.errors import InputError
from rindices.learners.contrastive.linear_start import (
    GroupMoments,
    LinearStart,
    MomentsQuestion,
    compute_covariance_root,
    orient_patterns,
)
from rindices.learners.contrastive.rotation import (
    compute_severity_weights,
    estimate_severity_moments,
    fit_prior_to_moments,
)
from rindices.learners.normal_variation import add_ridge, shrink_normal_scatter
from rindices.learners.people_source import PeopleSet, PeopleSource

METRIC_EXPONENT = 0.25
"""a of equation 1: 1 ranks directions by the ratio of variances, 0 by the added
variance.
"""
CONTROL_SHARE = 0.25
"""pi of equation 3: people without any disease for each patient, in a cohort whose
severities are independent.
"""
RATIO_WEIGHT = 1.0
"""Weight of equal ratios of mean to spread in the rotation, relative to varimax."""
CHANCE_LOSS = float(np.log(2.0))
"""Group loss of a model that says nothing about who is a patient."""
MIN_LOSS_GAIN, MIN_CHANCE_GAIN = 0.05, 0.01
"""By how much the group loss of the whole-cohort start must be below that of the
contrastive start, and below chance.

On simulated local patterns the gain was at most 0.02 before EM, where people differ by
two real factors it was mostly above 0.1 and at least 0.09. In 100 draws of permuted
labels of five real tables, the loss was below chance in four, and by more than 0.01 in
one.
"""
MAX_LOG_RATIO = 5.0
"""Log ratios are clipped to this size, so that no single outlier decides."""
_MIN_EIGENVALUE_SHARE = 0.05  # of the largest eigenvalue of E
_MIN_EIGENVALUE = 1e-9  # of C, in variances of controls
_MIN_RATIO = 1e-6  # keeps the logarithm of a ratio of mean to spread finite
_ANGLES, _NO_TURN = (
    np.linspace(-np.pi / 4, np.pi / 4, 91),
    45,
)  # a right angle exchanges two patterns
_N_STARTS, _MAX_SWEEPS = 6, 100  # of the rotation of three or more patterns
_TIE = 1e-9  # difference of two losses of a rotation that rounding could reverse
_MAX_NEWTON_STEPS, _WIDTH = (
    50,
    1e-5,
)  # radians between two gradients that give a curvature
_MAX_TURN, _MIN_TURN = (
    0.01,
    1e-14,
)  # radians; half a step of the grid, and where a rotation has converged
_MIN_CURVATURE = 1e-6


class WholeCohortSpace(NamedTuple):
    """Space of the patterns, and normal variation.

    Attributes
    ----------
    space : ndarray of shape (R, M)
        A of equation 1.
    noise : ndarray of shape (R, R)
        C of equation 2.
    spectrum : ndarray of shape (R,)
        Eigenvalues of equation 1, descending.
    """

    space: FloatArray
    noise: FloatArray
    spectrum: FloatArray


def find_space(moments: GroupMoments, n_patterns: int) -> WholeCohortSpace:
    """Find the directions in which patients have most variance in excess of controls,
    and pool normal variation.

    Equation 1: A = C^(a/2) U, with U the first M eigenvectors of C^(-a/2) (P + mu mu' -
    C) C^(-a/2).
    """
    noise = shrink_controls(moments)
    spectrum, space = find_leading_directions(
        compute_excess(moments, noise), noise, n_patterns
    )
    shift = moments.patients.mean - moments.controls.mean
    space = space * np.where(shift @ space < 0, -1.0, 1.0)
    return WholeCohortSpace(space, pool_normal_variation(moments, space), spectrum)


def shrink_controls(moments: GroupMoments) -> FloatArray:
    """Return C (R, R), the shrunk covariance of controls alone."""
    return _shrink(moments, moments.controls.scatter, moments.controls.number)


def compute_excess(moments: GroupMoments, noise: FloatArray) -> FloatArray:
    """Return P + mu mu' - C (R, R), the second moments of patients in excess of normal
    variation.
    """
    shift = moments.patients.mean - moments.controls.mean
    return np.asarray(moments.patients.covariance + np.outer(shift, shift) - noise)


def find_leading_directions(
    excess: FloatArray, noise: FloatArray, number: int
) -> tuple[FloatArray, FloatArray]:
    """Return the eigenvalues (R,) of C^(-a/2) excess C^(-a/2), descending, and C^(a/2)
    times the first eigenvectors (R, number).
    """
    variances, axes = np.linalg.eigh(noise)
    variances = np.maximum(variances, _MIN_EIGENVALUE)
    root, inverse = (
        (axes * variances**power) @ axes.T
        for power in (METRIC_EXPONENT / 2, -METRIC_EXPONENT / 2)
    )
    spectrum, vectors = np.linalg.eigh(inverse @ excess @ inverse)
    return spectrum[::-1], root @ vectors[:, ::-1][:, :number]


def pool_normal_variation(moments: GroupMoments, space: FloatArray) -> FloatArray:
    """Estimate normal variation from controls, and from what patients vary outside a
    space (R, M).

    Equation 2: C = shrink[(n_c S + n_p Q P Q + n_p (1 - Q) S (1 - Q)) / (n_c + n_p)],
    with Q the projector off the space. Returns (R, R).
    """
    controls, patients = moments.controls, moments.patients
    basis = np.linalg.qr(space)[0]
    inside = basis @ basis.T
    outside = np.eye(len(space)) - inside
    scatter = controls.scatter + outside @ patients.scatter @ outside
    scatter += patients.number * (inside @ controls.covariance @ inside)
    return _shrink(moments, scatter, controls.number + patients.number)


def _shrink(moments: GroupMoments, scatter: FloatArray, number: int) -> FloatArray:
    """Return the shrunk covariance (R, R) of a scatter, mixed with that of the
    reference population, if any.
    """
    noise = add_ridge(shrink_normal_scatter(scatter, number))
    return (
        noise
        if moments.target is None
        else moments.target.mix_with_scale(noise, np.sqrt(np.diag(scatter) / number))
    )


def whiten_severities(
    moments: GroupMoments, space: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return patterns (R, M) whose severities are independent in the whole cohort, and
    patients' mean severities (M,).

    Equation 3: with W = C^-1 A (A' C^-1 A)^-1, m = W' mu and E = W' (P - S) W + pi m
    m', the patterns are A E^(1/2), and the mean severities E^(-1/2) m. Who has neither
    of two diseases is a control. So severities that are independent in the cohort are
    negatively correlated in patients, and the term pi m m' makes up for it.

    Raises
    ------
    LinAlgError
        If patients vary less than controls.
    """
    controls, patients = moments.controls, moments.patients
    weights = compute_severity_weights(space, noise)
    mean = weights.T @ (patients.mean - controls.mean)
    excess = weights.T @ (patients.covariance - controls.covariance) @ weights
    excess += CONTROL_SHARE * np.outer(mean, mean)
    values, vectors = np.linalg.eigh(excess)
    if values[-1] <= 0:
        raise np.linalg.LinAlgError("patients vary less than controls")
    values = np.maximum(values, _MIN_EIGENVALUE_SHARE * values[-1])
    root = compute_covariance_root((vectors * values) @ vectors.T)
    return space @ root, np.asarray(np.linalg.solve(root, mean))


def compute_rotation_loss(patterns: FloatArray, means: FloatArray) -> float:
    """Return the loss of patterns (R, M) with mean severities of patients (M,), per
    unit of spread.

    Equation 4: - sum_k Var_r(D_rk^2) / mean(D^2)^2 + sum_k (log rho_k - mean log
    rho)^2, with rho_k = |means_k|. The first term, varimax, is small where patterns
    differ in the regions that they change. The second one is small where severities
    have similar ratios of mean to spread; it decides where patterns are global.
    """
    squares = patterns**2
    log_ratios = np.log(np.abs(means) + _MIN_RATIO)
    varimax = squares.var(axis=0).sum() / squares.mean() ** 2
    return float(RATIO_WEIGHT * ((log_ratios - log_ratios.mean()) ** 2).sum() - varimax)


def find_rotation(patterns: FloatArray, means: FloatArray) -> FloatArray:
    """Return the orthogonal B (M, M) for which ``patterns @ B`` and ``means @ B`` have
    the smallest loss (equation 4).

    Planes of two patterns are turned in turn, each to the best angle of a grid. With
    three or more patterns there are several starts. Newton steps then find the optimum
    to the last digit, so that rounding, which depends on the division into parts, does
    not matter.
    """
    n_patterns, rng = len(means), np.random.default_rng(0)
    starts = [np.eye(n_patterns)]
    if n_patterns > 2:
        starts += [
            np.linalg.qr(rng.standard_normal((n_patterns, n_patterns)))[0]
            for _ in range(_N_STARTS - 1)
        ]
    rotations = [_turn_planes(patterns, means, start) for start in starts]
    losses = [
        compute_rotation_loss(patterns @ each, means @ each) for each in rotations
    ]
    best = next(
        each
        for each, loss in zip(rotations, losses, strict=True)
        if loss <= min(losses) + _TIE
    )
    return _take_newton_steps(patterns, means, best)


def _turn_planes(
    patterns: FloatArray, means: FloatArray, start: FloatArray
) -> FloatArray:
    """Return the orthogonal matrix (M, M) at which no plane of two patterns has a
    better angle on the grid.

    With D_i(t) = cos(t) D_i + sin(t) D_j and D_j(t) = cos(t) D_j - sin(t) D_i, let w =
    (D_i^2 - D_j^2) / 2 and p = D_i D_j. Then D_i(t)^2 is a constant plus w cos(2t) + p
    sin(2t), and D_j(t)^2 a constant minus that. So varimax is a constant plus (Var w -
    Var p) cos(4t) + 2 Cov(w, p) sin(4t), over mean(D^2)^2.
    """
    rotation, size = start.copy(), float((patterns**2).mean()) ** 2
    cosines, sines = np.cos(_ANGLES), np.sin(_ANGLES)
    for _ in range(_MAX_SWEEPS):
        is_done = True
        for i, j in combinations(range(len(means)), 2):
            pair, own = patterns @ rotation[:, [i, j]], means @ rotation
            halves, products = (
                (pair[:, 0] ** 2 - pair[:, 1] ** 2) / 2.0,
                pair[:, 0] * pair[:, 1],
            )
            (first, mixed), (_, second) = np.cov(halves, products, bias=True) / size
            varimax = (first - second) * np.cos(4.0 * _ANGLES) + 2.0 * mixed * np.sin(
                4.0 * _ANGLES
            )
            turned = np.repeat(own[:, None], len(_ANGLES), axis=1)
            turned[i], turned[j] = (
                cosines * own[i] + sines * own[j],
                cosines * own[j] - sines * own[i],
            )
            logs = np.log(np.abs(turned) + _MIN_RATIO)
            loss = RATIO_WEIGHT * len(logs) * logs.var(axis=0) - varimax
            best = int(np.argmin(loss))
            if loss[best] < loss[_NO_TURN] - _TIE:
                is_done = False
                turn = np.array(
                    [[cosines[best], -sines[best]], [sines[best], cosines[best]]]
                )
                rotation[:, [i, j]] = rotation[:, [i, j]] @ turn
        if is_done:
            break
    return rotation


def compute_rotation_gradient(patterns: FloatArray, means: FloatArray) -> FloatArray:
    """Return the derivatives of the loss (equation 4) by the angles of all planes of
    two patterns, (M (M - 1) / 2,).
    """
    n_regions, squares = len(patterns), patterns**2
    # of sum_k Var_r(D_rk^2) by D, and of the unequal ratios by the means
    slopes = (
        4.0
        * patterns
        * (squares - squares.mean(axis=0))
        / n_regions
        / squares.mean() ** 2
    )
    sizes = np.abs(means) + _MIN_RATIO
    log_ratios = np.log(sizes)
    mean_slopes = (
        RATIO_WEIGHT * 2.0 * (log_ratios - log_ratios.mean()) * np.sign(means) / sizes
    )
    change = patterns.T @ slopes - np.outer(
        means, mean_slopes
    )  # entry [j, i]: as pattern i moves towards pattern j
    rows, columns = np.triu_indices(len(means), k=1)
    return np.asarray(change[rows, columns] - change[columns, rows])


def _take_newton_steps(
    patterns: FloatArray, means: FloatArray, rotation: FloatArray
) -> FloatArray:
    """Return the orthogonal matrix (M, M) with the smallest loss near another one, to
    the last digit.
    """
    rows, columns = np.triu_indices(len(means), k=1)

    def turn(angles: FloatArray) -> FloatArray:
        skew = np.zeros((len(means), len(means)))
        skew[rows, columns] = -angles
        return np.asarray(rotation @ expm(skew - skew.T))

    def differentiate(own: FloatArray) -> FloatArray:
        return compute_rotation_gradient(patterns @ own, means @ own)

    for _ in range(_MAX_NEWTON_STEPS if len(rows) else 0):
        gradient = differentiate(rotation)
        sides = [
            [differentiate(turn(sign * _WIDTH * axis)) for sign in (1, -1)]
            for axis in np.eye(len(rows))
        ]
        curvature = np.array([(right - left) / (2.0 * _WIDTH) for right, left in sides])
        values, vectors = np.linalg.eigh((curvature + curvature.T) / 2.0)
        step = -(vectors / np.maximum(np.abs(values), _MIN_CURVATURE)) @ (
            vectors.T @ gradient
        )
        step /= max(1.0, float(np.abs(step).max()) / _MAX_TURN)
        rotation = turn(step)
        if np.abs(step).max() < _MIN_TURN:
            break
    return rotation


def solve_whole_cohort(moments: GroupMoments, n_patterns: int) -> LinearStart:
    """Return the linear model of equations 1 to 4, and the prior of its severities
    among patients.

    Raises
    ------
    LinAlgError
        If patients vary less than controls.
    """
    space, noise, spectrum = find_space(moments, n_patterns)
    patterns, means = whiten_severities(moments, space, noise)
    patients = moments.patients.centre(moments.controls.mean)
    patterns = orient_patterns(
        patterns @ find_rotation(patterns, means), noise, patients.mean
    )
    prior = fit_prior_to_moments(*estimate_severity_moments(patients, patterns, noise))
    return LinearStart(
        patterns=patterns,
        noise=noise,
        prior=prior,
        spectrum=spectrum,
        target=moments.target,
    )


def fit_whole_cohort_start(
    people: PeopleSource, own: PeopleSet, n_patterns: int
) -> LinearStart:
    """Solve the linear model of the whole-cohort start for a set of people.

    Raises
    ------
    InputError
        If patients do not vary more than controls.
    """
    moments = people.sum(MomentsQuestion(own))
    try:
        return solve_whole_cohort(moments, n_patterns)
    except np.linalg.LinAlgError as error:
        raise InputError(
            f"patients do not vary more than controls in {n_patterns} directions: ask for fewer patterns."
        ) from error


def sum_group_losses(log_ratios: FloatArray, is_patient: bool) -> float:
    """Return the summed loss of people of one group, given their log ratios (N,).

    The log ratio of a person is l = log p(x | patient) - log N(x; 0, C), clipped to
    +-5. The loss of a patient is log(1 + exp(-l)), that of a control log(1 + exp(l)).
    """
    clipped = np.clip(log_ratios, -MAX_LOG_RATIO, MAX_LOG_RATIO)
    return float(np.logaddexp(0.0, -clipped if is_patient else clipped).sum())


def compute_group_loss(
    controls: float, patients: float, n_controls: float, n_patients: float
) -> float:
    """Return the mean loss of both groups, which count alike, given sums over people;
    NaN where one has nobody.

    Equation 5: H = mean over patients of log(1 + exp(-l)) / 2 + mean over controls of
    log(1 + exp(l)) / 2.
    """
    if not n_controls or not n_patients:
        return float("nan")
    return 0.5 * patients / n_patients + 0.5 * controls / n_controls


def is_whole_cohort_taken(contrastive: FloatArray, whole_cohort: FloatArray) -> bool:
    """Return whether the whole-cohort start is taken, given the group losses (S,) of S
    members by both starts.

    Equation 6: its mean loss is below that of the contrastive start by `MIN_LOSS_GAIN`,
    and below chance by `MIN_CHANCE_GAIN`. It is not taken where a loss is not known.
    """
    loss = float(np.mean(whole_cohort))
    return bool(
        np.mean(contrastive) - loss >= MIN_LOSS_GAIN
        and CHANCE_LOSS - loss >= MIN_CHANCE_GAIN
    )
