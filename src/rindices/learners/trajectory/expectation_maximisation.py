"""Maximum likelihood of patterns that are curves, by expectation maximisation (EM).

Controls are e ~ N(0, C). Patients are h_1(z_1) + ... + h_M(z_M) + e, with severities z of uniform marginals and a
Gaussian copula. h_m is a curve in R dimensions with h_m(0) = 0, made of K straight steps
(`severity_points.compute_step_basis`). This is the paper's f(x, z) = x + change(z), solved by likelihood instead of
adversarial training. A straight pattern with any distribution of severities is the case in which all regions follow the
same steps.

The prior of a region's K steps in pattern m is N(0, tau_jm Q_m). Each tau is learnt, which makes patterns sparse.
Q_m = rho d d' + (1 - rho) diag(d^2), with d the common steps of the pattern. With rho = 1 all regions follow the common
steps (shape ``straight``), and d is learnt; with rho < 1 each region may deviate from them (``curved``). In the shape
``interacting``, the change h_k(z_k) of a straight pattern is multiplied by 1 + sum_m Gamma_km z_m: disease of one kind
makes the other kind stronger or weaker.

People enter only through sums over people (`trajectory.sums`), so the same arithmetic can run where people
cannot be pooled. Shape letters: N people, R regions, M patterns, K steps, G points of z.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from rindices._typing import FloatArray
from rindices.learners.contrastive.sparse_patterns import solve_with_diagonal
from rindices.learners.normal_variation import ReferenceTarget, shrink_scatter
from rindices.learners.severity_points import make_normal_points, make_point_basis, make_severity_points
from rindices.learners.trajectory.model import TrajectoryModel
from rindices.learners.trajectory.sums import ControlSums, PatientSums, compute_log_likelihood

RHO_BY_SHAPE = {"straight": 1.0, "curved": 0.9, "interacting": 1.0}
"""Share of the prior variance of a region's steps that is common to the regions of a pattern."""
MAX_ITERATIONS = {"straight": 40, "curved": 40, "interacting": 100}
"""Largest number of M steps by shape; interactions converge slowly."""
MIN_GAIN = 1e-3
"""Least gain in the mean log-likelihood of held-out patients."""
PATIENCE = 5
"""M steps without that gain after which EM ends."""
_INTERACTION_PATIENCE = 10  # the same while interactions grow
_MIN_INTERACTION = 0.1  # after `PATIENCE` steps; smaller ones are taken for none
_MAX_VARIANCE_CHANGE = 10.0  # factor by which a prior variance changes at most in one step
_CORRELATION_SHRINKAGE = 0.98  # so that the copula stays proper
_MIN_STEP_SHARE = 0.02  # of the mean step; a common step of 0 could never grow again
_MIN_PRIOR_VARIANCE = 1e-10
_INTERACTION_SD = 0.5  # of the prior of the interactions, whose mean is 0
_MAX_INTERACTION = 3.0
_RELAXATION = 1.8  # interactions converge slowly; steps that are longer by less than 2 converge faster
_MIN_GROWTH = 0.1  # of a pattern, at full severity of all others
_EIGENVALUE_CUT = 1e-8  # relative size of prior variances that are taken for 0


@dataclass(frozen=True)
class TrajectoryFit:
    """Result of `fit_trajectories`.

    Attributes
    ----------
    model : TrajectoryModel
    n_iterations : int
        Number of M steps.
    held_out : float
        Mean log-likelihood of the held-out patients; NaN without any.
    """

    model: TrajectoryModel
    n_iterations: int
    held_out: float = float("nan")


def fit_trajectories(
    controls: FloatArray,
    patients: FloatArray,
    start: TrajectoryModel,
    shape: str,
    target: ReferenceTarget | None = None,
    held_out: FloatArray | None = None,
    n_iterations: int | None = None,
) -> TrajectoryFit:
    """Maximise the likelihood from a start.

    Parameters
    ----------
    controls, patients : (N, R)
        Shifts from the controls' mean, in control standard deviations. Missing cells are NaN; the likelihood is then
        that of the measured cells.
    start : TrajectoryModel
    shape : {'straight', 'curved', 'interacting'}
    target : ReferenceTarget, optional
        Correlations of a reference population, for C.
    held_out : (N, R), optional
        Other patients. EM ends when they do not become more likely any more, and the model under which they are most
        likely is returned: in small samples, further steps would fit chance.
    n_iterations : int, optional
        Number of M steps, by default `MAX_ITERATIONS`; the largest number if there are held-out patients.

    Returns
    -------
    TrajectoryFit
    """
    control_sums, rho = ControlSums.compute(controls, start), RHO_BY_SHAPE[shape]
    is_complete = not np.isnan(controls).any()
    if shape == "interacting" and start.interaction is None:
        start = start._replace(interaction=np.zeros_like(start.correlation))
    model, variances = start, initialise_variances(start)
    best = TrajectoryFit(start, 0, _compute_mean_likelihood(held_out, start))
    for iteration in range(1, (n_iterations or MAX_ITERATIONS[shape]) + 1):
        sums = PatientSums.compute(patients, model)
        control_sums = control_sums if is_complete else ControlSums.compute(controls, model)
        model, variances = update_model(model, variances, sums, control_sums, rho, target)
        likelihood = _compute_mean_likelihood(held_out, model)
        if not likelihood < best.held_out + MIN_GAIN:  # also without held-out patients
            best = TrajectoryFit(model, iteration, likelihood)
        elif iteration - best.n_iterations >= _get_patience(model):
            break
    return best


def update_model(
    model: TrajectoryModel,
    variances: FloatArray,
    sums: PatientSums,
    control_sums: ControlSums,
    rho: float,
    target: ReferenceTarget | None = None,
) -> tuple[TrajectoryModel, FloatArray]:
    """Take one M step, from sums over people alone.

    Parameters
    ----------
    model : TrajectoryModel
    variances : (M, R)
        tau.
    sums, control_sums
        Of the patients under ``model``, and of the controls.
    rho : float
    target : ReferenceTarget, optional

    Returns
    -------
    model : TrajectoryModel
    variances : (M, R)
    """
    cross, gram = model.combine(sums.cross), compute_gram(model, sums)
    if rho == 1.0:
        model = model._replace(common=update_common_steps(model, cross, gram))
    steps, variances = update_steps(model, variances, cross, gram, rho)
    model = model._replace(steps=steps)
    if model.interaction is not None:
        model = model._replace(interaction=_update_interaction(model, sums))
        cross, gram = model.combine(sums.cross), compute_gram(model, sums)
    return update_variation(model, sums, control_sums, cross, gram, target), variances


def update_variation(
    model: TrajectoryModel,
    sums: PatientSums,
    control_sums: ControlSums,
    cross: FloatArray,
    gram: FloatArray,
    target: ReferenceTarget | None = None,
) -> TrajectoryModel:
    """Return the model with normal variation and the copula of the severities estimated again."""
    flat = model.flat_steps
    explained = cross @ flat
    scatter = control_sums.scatter + sums.scatter - explained - explained.T + flat.T @ gram @ flat
    number = control_sums.number + sums.number
    noise = shrink_scatter(scatter, control_sums.fourth_power + sums.fourth_power, number)
    if target is not None:
        noise = target.mix_with_scale(noise, np.sqrt(np.diag(scatter) / number))
    normal = make_normal_points(len(model.steps))
    correlation = shrink_correlation((normal * sums.point_weights[:, None]).T @ normal)
    return model._replace(noise=noise, correlation=correlation)


def compute_gram(model: TrajectoryModel, sums: PatientSums) -> FloatArray:
    """Return the sum over patients of E[basis basis'], (M * K, M * K)."""
    basis = model.point_basis
    return np.asarray((basis * sums.point_weights[:, None]).T @ basis)


def _get_patience(model: TrajectoryModel) -> int:
    """Return the number of M steps without a gain after which EM ends; interactions converge slowly."""
    has_interactions = model.interaction is not None and np.abs(model.interaction).max() >= _MIN_INTERACTION
    return _INTERACTION_PATIENCE if has_interactions else PATIENCE


def _compute_mean_likelihood(patients: FloatArray | None, model: TrajectoryModel) -> float:
    if patients is None or not len(patients):
        return float("nan")
    return float(compute_log_likelihood(patients, model).mean())


def initialise_variances(model: TrajectoryModel) -> FloatArray:
    """Return prior variances (M, R), the same for all regions of a pattern."""
    mean = (model.steps**2).sum(axis=1).mean(axis=1) / (model.common**2).sum(axis=1)
    return np.repeat(mean[:, None], model.steps.shape[2], axis=1)


def update_steps(
    model: TrajectoryModel, variances: FloatArray, cross: FloatArray, gram: FloatArray, rho: float
) -> tuple[FloatArray, FloatArray]:
    """Return the posterior mean of the steps (M, K, R) and updated variances (M, R), one pattern after the other.

    Errors of the steps are correlated between regions as in C: regions without disease predict the error of regions
    with disease. In the basis that diagonalises both the information on the K steps and their prior, a pattern is K
    independent problems of size R. Variances are updated by MacKay's rule, the squared steps over the number of steps
    that the data determine; it converges in a third of the iterations that the rule of EM needs.
    """
    steps, variances = model.steps.copy(), variances.copy()
    for m, common in enumerate(model.common):
        root, unexplained = isolate_pattern(m, steps, cross, gram)
        prior = rho * np.outer(common, common) + (1.0 - rho) * np.diag(common**2)
        scales, basis = np.linalg.eigh(root.T @ prior @ root)
        raw = basis.T @ solve_triangular(root, unexplained, lower=True)
        kept = np.flatnonzero(scales > _EIGENVALUE_CUT * scales[-1])
        shrunk, squares, determined = np.zeros_like(raw), np.zeros(raw.shape[1]), np.zeros(raw.shape[1])
        for k in kept:
            tau = variances[m] * scales[k]
            solution, diagonal = solve_with_diagonal(np.diag(tau) + model.noise, raw[k])
            shrunk[k] = solution * tau
            squares += shrunk[k] ** 2 / scales[k]
            determined += np.clip(diagonal * tau, 0.0, 1.0)
        variances[m] = update_prior_variances(variances[m], squares, determined)
        steps[m] = solve_triangular(root.T, basis @ shrunk, lower=False)
    return steps, variances


def update_prior_variances(variances: FloatArray, squares: FloatArray, determined: FloatArray) -> FloatArray:
    """Return the variances (R,) by MacKay's rule, from squared steps and the number that the data determine."""
    change = squares / np.maximum(determined, 1e-12) / variances
    variances = variances * np.clip(change, 1.0 / _MAX_VARIANCE_CHANGE, _MAX_VARIANCE_CHANGE)
    return np.maximum(variances, _MIN_PRIOR_VARIANCE)


def update_common_steps(model: TrajectoryModel, cross: FloatArray, gram: FloatArray) -> FloatArray:
    """Return the most likely common steps (M, K) of straight patterns; none is negative."""
    common = model.common.copy()
    for m, before in enumerate(model.common):
        pattern = before @ model.steps[m] / (before @ before)
        weights = np.linalg.solve(model.noise, pattern)
        root, unexplained = isolate_pattern(m, model.steps, cross, gram)
        target = solve_triangular(root, unexplained @ weights / (pattern @ weights), lower=True)
        solution = nnls(root.T, target)[0]
        if solution.sum() > 0:
            common[m] = np.maximum(solution, _MIN_STEP_SHARE * solution.mean())
    return common


def isolate_pattern(m: int, steps: FloatArray, cross: FloatArray, gram: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the Cholesky factor (K, K) of the information on a pattern's steps, and their right-hand side (K, R).

    The right-hand side is the sum of E[basis] x', less what the other patterns explain.
    """
    _, n_steps, n_regions = steps.shape
    rows = slice(m * n_steps, (m + 1) * n_steps)
    others = steps.copy()
    others[m] = 0.0
    unexplained = cross[:, rows].T - gram[rows] @ others.reshape(-1, n_regions)
    information = gram[rows, rows]
    ridge = 1e-9 * np.trace(information) * np.eye(n_steps)
    return np.linalg.cholesky(information + ridge), unexplained


def _update_interaction(model: TrajectoryModel, sums: PatientSums) -> FloatArray:
    """Return the interactions (M, M), moved towards their posterior mode given the steps.

    The mode is a ridge regression of M * (M - 1) numbers; the feature of the pair (k, m) is z_m h_k(z_k).
    """
    assert model.interaction is not None
    moved = model.interaction + _RELAXATION * (_solve_interaction(model, sums) - model.interaction)
    lowest = -(1.0 - _MIN_GROWTH) / max(1, len(moved) - 1)
    return np.asarray(np.clip(moved, lowest, _MAX_INTERACTION))


def _solve_interaction(model: TrajectoryModel, sums: PatientSums) -> FloatArray:
    """Return the posterior mode of the interactions (M, M)."""
    n_patterns, n_steps = model.steps.shape[:2]
    points, basis, weights = (
        make_severity_points(n_patterns),
        make_point_basis(n_patterns, n_steps),
        model.compute_weights(),
    )
    pairs = [(k, m) for k in range(n_patterns) for m in range(n_patterns) if k != m]
    blocks = [slice(k * n_steps, (k + 1) * n_steps) for k in range(n_patterns)]
    features = np.zeros((len(pairs), *basis.shape))  # in the basis of the steps, (pairs, G, M * K)
    for feature, (k, m) in zip(features, pairs, strict=True):
        feature[:, blocks[k]] = points[:, m, None] * basis[:, blocks[k]]
    weighted = features @ (model.flat_steps @ weights) * sums.point_weights[:, None]
    information = np.tensordot(weighted, features, axes=([1, 2], [1, 2])) + np.eye(len(pairs)) / _INTERACTION_SD**2
    parts = sums.cross.reshape(len(weights), n_patterns + 1, -1)
    observed = [float((parts[:, m + 1, blocks[k]] * weights[:, blocks[k]]).sum()) for k, m in pairs]
    solution = np.linalg.solve(information, observed - np.tensordot(weighted, basis, axes=([1, 2], [0, 1])))
    interaction = np.zeros((n_patterns, n_patterns))
    interaction[tuple(np.transpose(pairs))] = solution
    return interaction


def shrink_correlation(second_moment: FloatArray) -> FloatArray:
    """Return the correlations (M, M) of the copula, from the sum over patients of E[y y'] of normal severities y."""
    sd = np.sqrt(np.diag(second_moment))
    correlation = _CORRELATION_SHRINKAGE * second_moment / np.outer(sd, sd)
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(correlation)
