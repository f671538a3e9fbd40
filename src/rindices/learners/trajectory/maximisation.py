"""The M step: curves, normal variation and copula that make the people most likely.

It sees the people through the sums of the E step alone. Curves are fitted by
generalised least squares with a prior, one pattern after the other (`update_steps`);
then normal variation C and the correlation of the severities are estimated again.

Shape letters: R regions, M patterns, K steps, T functions of z.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from rindices._typing import FloatArray
from rindices.learners.contrastive.rotation import solve_with_diagonal
from rindices.learners.normal_variation import ReferenceTarget, shrink_normal_scatter
from rindices.learners.trajectory.expectation import ControlSums, CurveSums, PatientSums
from rindices.learners.trajectory.model import TrajectoryModel
from rindices.learners.trajectory.settings import DEFAULT_EM_SETTINGS, EMSettings

_RIDGE = 1e-9
"""Added to the information on the steps of a pattern, relative to its trace."""
_MIN_DETERMINED = 1e-12
"""Lower limit of the number of steps that the data determine."""


class FitState(NamedTuple):
    """State of EM.

    Attributes
    ----------
    model : TrajectoryModel
        The current model.
    variances : ndarray of shape (M, R)
        Prior variances tau.
    last : TrajectoryModel or None
        Result of the last M step without momentum.
    """

    model: TrajectoryModel
    variances: FloatArray
    last: TrajectoryModel | None = None


def update_model(
    state: FitState,
    sums: CurveSums,
    rho: float,
    momentum: float = 0.0,
    target: ReferenceTarget | None = None,
    settings: EMSettings = DEFAULT_EM_SETTINGS,
) -> FitState:
    """Take one M step.

    EM converges slowly where severities are uncertain. So curves and interactions go
    further than the M step says, by ``momentum`` times their change since the last M
    step, as in Nesterov's accelerated gradient.

    Parameters
    ----------
    state : FitState
        Current state.
    sums : CurveSums
        Sums of the E step.
    rho : float
        Prior correlation between the steps of different severities in a region; 1 for
        proportional patterns.
    momentum : float
        How far to go on in the direction of the last step.
    target : ReferenceTarget or None
        Correlations of a reference population, for C.
    settings : EMSettings
        Settings of EM.

    Returns
    -------
    FitState
        The next state.
    """
    patients = sums.patients
    cross, gram = combine_sums(state.model, patients)
    model, variances = update_curves(
        state.model, state.variances, cross, gram, rho, settings
    )
    if model.interaction is not None:
        interaction = solve_interaction(model, patients, settings)
        model = replace(model, interaction=interaction)
    moved = model
    if state.last is not None:
        is_rank_one = rho == 1.0
        moved = _extrapolate(model, state.last, momentum, is_rank_one, settings)
    moved = update_variation(moved, patients, sums.controls, target, settings)
    return FitState(moved, variances, model)


def initialise_variances(model: TrajectoryModel) -> FloatArray:
    """Return prior variances tau (M, R), the same for all regions of a pattern."""
    squares = (model.steps**2).sum(axis=1).mean(axis=1)
    mean = squares / (model.common**2).sum(axis=1)
    return np.repeat(mean[:, None], model.steps.shape[2], axis=1)


def combine_sums(
    model: TrajectoryModel, sums: PatientSums
) -> tuple[FloatArray, FloatArray]:
    """Return the sums of x E[b]' (R, M * K) and of E[b b'] (M * K, M * K).

    b is the basis of the steps with growth (`TrajectoryModel.combine`).
    """
    return model.combine(sums.cross), model.combine(model.combine(sums.moments).T)


def update_curves(
    model: TrajectoryModel,
    variances: FloatArray,
    cross: FloatArray,
    gram: FloatArray,
    rho: float,
    settings: EMSettings = DEFAULT_EM_SETTINGS,
) -> tuple[TrajectoryModel, FloatArray]:
    """Return the model with updated steps, and variances tau (M, R).

    Proportional patterns also get new common steps.
    """
    if rho == 1.0:
        common = update_common_steps(model, cross, gram, settings)
        model = replace(model, common=common)
    steps, variances = update_steps(model, variances, cross, gram, rho, settings)
    return replace(model, steps=steps), variances


def update_steps(
    model: TrajectoryModel,
    variances: FloatArray,
    cross: FloatArray,
    gram: FloatArray,
    rho: float,
    settings: EMSettings = DEFAULT_EM_SETTINGS,
) -> tuple[FloatArray, FloatArray]:
    """Return the posterior mean of the steps, one pattern after the other.

    Given the other patterns, the people tell of the steps H (K, R) of a pattern what
    one observation F^-1 U of them would, with errors of covariance F^-1 between steps
    and C between regions. F = L L' is the sum of E[b b'], and U the sum of E[b] times
    what the others leave of x' (`isolate_pattern`). So regions without disease predict
    the error of regions with disease.

    A priori the steps of region r have the covariance tau_r Q, with Q = rho d d' +
    (1 - rho) diag(d^2) and d the common steps. Let L'QL = V diag(s) V' and G = V'L'H.
    Errors of G have the covariance V'L'F^-1LV = 1 between its rows, and its prior has
    tau_r diag(s), also diagonal. So the rows of G are K independent problems of size R:
    g_k ~ N(0, s_k diag(tau)), observed as row k of V'L^-1U with errors of covariance C.
    The steps are H = L'^-1 V G.

    Parameters
    ----------
    model : TrajectoryModel
        Current model.
    variances : ndarray of shape (M, R)
        Prior variances tau.
    cross : ndarray of shape (R, M * K)
        Sum of x E[b]'.
    gram : ndarray of shape (M * K, M * K)
        Sum of E[b b'].
    rho : float
        Prior correlation between the steps of different severities in a region.
    settings : EMSettings
        Settings of EM.

    Returns
    -------
    steps : ndarray of shape (M, K, R)
        Posterior mean H of each pattern.
    variances : ndarray of shape (M, R)
        Updated tau (`update_prior_variances`).
    """
    steps, variances = model.steps.copy(), variances.copy()
    for m, d in enumerate(model.common):
        L, U = isolate_pattern(m, steps, cross, gram)
        Q = rho * np.outer(d, d) + (1.0 - rho) * np.diag(d**2)
        s, V = np.linalg.eigh(L.T @ Q @ L)  # L'QL = V diag(s) V'
        observed = V.T @ solve_triangular(L, U, lower=True)  # V'L^-1U

        G = np.zeros_like(observed)
        squares, determined = np.zeros((2, observed.shape[1]))
        for k in np.flatnonzero(s > settings.min_eigenvalue * s[-1]):
            prior = variances[m] * s[k]  # s_k diag(tau)
            solution, diagonal = solve_with_diagonal(
                np.diag(prior) + model.noise, observed[k]
            )
            G[k] = prior * solution  # s_k diag(tau) (s_k diag(tau) + C)^-1 observed
            squares += G[k] ** 2 / s[k]
            determined += np.clip(diagonal * prior, 0.0, 1.0)

        variances[m] = update_prior_variances(
            variances[m], squares, determined, settings
        )
        steps[m] = solve_triangular(L.T, V @ G, lower=False)  # H = L'^-1 V G
    return steps, variances


def isolate_pattern(
    m: int, steps: FloatArray, cross: FloatArray, gram: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return what the people tell of the steps of pattern m, given the others.

    Parameters
    ----------
    m : int
        Number of the pattern.
    steps : ndarray of shape (M, K, R)
        Current steps.
    cross : ndarray of shape (R, M * K)
        Sum of x E[b]'.
    gram : ndarray of shape (M * K, M * K)
        Sum of E[b b'].

    Returns
    -------
    root : ndarray of shape (K, K)
        L, the Cholesky factor of F, the information on the steps.
    unexplained : ndarray of shape (K, R)
        U, the sum of E[b] x', less what the other patterns explain.
    """
    _, n_steps, n_regions = steps.shape
    rows = slice(m * n_steps, (m + 1) * n_steps)
    others = steps.copy()
    others[m] = 0.0
    unexplained = cross[:, rows].T - gram[rows] @ others.reshape(-1, n_regions)
    information = gram[rows, rows]
    ridge = _RIDGE * np.trace(information) * np.eye(n_steps)
    return np.linalg.cholesky(information + ridge), unexplained


def update_prior_variances(
    variances: FloatArray,
    squares: FloatArray,
    determined: FloatArray,
    settings: EMSettings = DEFAULT_EM_SETTINGS,
) -> FloatArray:
    """Return the prior variances tau (R,) by MacKay's rule.

    tau_r is the sum of squared steps over the number of steps that the data determine.
    This converges in a third of the iterations that the rule of EM needs.
    """
    change = squares / np.maximum(determined, _MIN_DETERMINED) / variances
    limit = settings.max_variance_change
    variances = variances * np.clip(change, 1.0 / limit, limit)
    return np.maximum(variances, settings.min_variance)


def update_common_steps(
    model: TrajectoryModel,
    cross: FloatArray,
    gram: FloatArray,
    settings: EMSettings = DEFAULT_EM_SETTINGS,
) -> FloatArray:
    """Return the most likely common steps d (M, K) of proportional patterns.

    With the steps d D' and the change D of each region, the people tell of d what the
    observation F^-1 U w / (D'w) would, where w = C^-1 D. No step is negative.
    """
    common = model.common.copy()
    weights_by_step = model.weights.T.reshape(model.steps.shape)
    for m, before in enumerate(model.common):
        pattern, weights = (
            before @ each[m] / (before @ before)
            for each in (model.steps, weights_by_step)
        )
        root, unexplained = isolate_pattern(m, model.steps, cross, gram)
        target = solve_triangular(
            root, unexplained @ weights / (pattern @ weights), lower=True
        )
        solution = nnls(root.T, target)[0]
        if solution.sum() > 0:
            common[m] = np.maximum(solution, settings.min_step * solution.mean())
    return common


def solve_interaction(
    model: TrajectoryModel,
    sums: PatientSums,
    settings: EMSettings = DEFAULT_EM_SETTINGS,
) -> FloatArray:
    """Return the posterior mode of the interactions Gamma (M, M), given the steps.

    It is a ridge regression of M * (M - 1) numbers. The feature of Gamma_km is the
    change z_m h_k(z_k).
    """
    n_patterns, n_steps = model.steps.shape[:2]
    weights = model.weights
    gram = model.flat_steps @ weights  # H C^-1 H'
    pairs = [(k, m) for k in range(n_patterns) for m in range(n_patterns) if k != m]
    blocks = [slice(k * n_steps, (k + 1) * n_steps) for k in range(n_patterns)]
    # the functions are the basis, then the basis times each severity
    moments = sums.moments.reshape(
        n_patterns + 1, n_patterns, n_steps, n_patterns + 1, n_patterns, n_steps
    )
    by_severity = sums.cross.reshape(len(weights), n_patterns + 1, -1)
    information = np.eye(len(pairs)) / settings.interaction_sd**2
    right = np.zeros(len(pairs))
    for row, (k, m) in enumerate(pairs):
        observed = by_severity[:, m + 1, blocks[k]]
        additive = np.einsum(
            "abc,abc->",
            moments[m + 1, k, :, 0],
            gram[blocks[k]].reshape(n_steps, n_patterns, -1),
        )
        right[row] = float((observed * weights[:, blocks[k]]).sum()) - additive
        for column, (other, n) in enumerate(pairs):
            information[row, column] += (
                moments[m + 1, k, :, n + 1, other] * gram[blocks[k], blocks[other]]
            ).sum()
    interaction = np.zeros((n_patterns, n_patterns))
    interaction[tuple(np.transpose(pairs))] = np.linalg.solve(information, right)
    return interaction


def update_variation(
    model: TrajectoryModel,
    sums: PatientSums,
    control_sums: ControlSums,
    target: ReferenceTarget | None = None,
    settings: EMSettings = DEFAULT_EM_SETTINGS,
) -> TrajectoryModel:
    """Return the model with a new covariance C and a new copula.

    C is estimated from controls and from what the curves leave of patients.
    """
    scatter = compute_residual_scatter(
        model, control_sums.scatter + sums.scatter, *combine_sums(model, sums)
    )
    number = control_sums.number + sums.number
    noise = shrink_normal_scatter(scatter, number)
    if target is not None:
        noise = target.mix_with_scale(noise, np.sqrt(np.diag(scatter) / number))
    correlation = shrink_correlation(sums.normal, settings)
    return replace(model, noise=noise, correlation=correlation)


def compute_residual_scatter(
    model: TrajectoryModel, scatter: FloatArray, cross: FloatArray, gram: FloatArray
) -> FloatArray:
    """Return the scatter (R, R) of what the curves leave of people.

    It is the sum of E[(x - H'b) (x - H'b)'] = x x' - x b'H - H'b x' + H'b b'H.
    """
    flat = model.flat_steps
    explained = cross @ flat
    return np.asarray(scatter - explained - explained.T + flat.T @ gram @ flat)


def shrink_correlation(
    second_moment: FloatArray, settings: EMSettings = DEFAULT_EM_SETTINGS
) -> FloatArray:
    """Return the correlations (M, M) of the copula, from the sum of E[y y']."""
    sd = np.sqrt(np.diag(second_moment))
    correlation = settings.correlation_shrinkage * second_moment / np.outer(sd, sd)
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(correlation)


def _extrapolate(
    model: TrajectoryModel,
    last: TrajectoryModel,
    momentum: float,
    is_rank_one: bool,
    settings: EMSettings,
) -> TrajectoryModel:
    """Return a model that differs from the last one by a factor of 1 + momentum more.

    Where the steps of a pattern are d D' (``is_rank_one``), both factors are
    extrapolated and not their product, because a sum of two such products is no such
    product.
    """
    common = model.common + momentum * (model.common - last.common)
    common = np.maximum(common, settings.min_step * common.mean(axis=1, keepdims=True))
    interaction = model.interaction
    if interaction is not None and last.interaction is not None:
        lowest = -(1.0 - settings.min_growth) / max(1, len(interaction) - 1)
        interaction = np.clip(
            interaction + momentum * (interaction - last.interaction),
            lowest,
            settings.max_interaction,
        )
    if is_rank_one:
        patterns = model.patterns + momentum * (model.patterns - last.patterns)
        steps = common[:, :, None] * patterns[:, None, :]
    else:
        steps = model.steps + momentum * (model.steps - last.steps)
    return replace(model, steps=steps, common=common, interaction=interaction)
