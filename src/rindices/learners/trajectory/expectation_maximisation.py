"""Fit curves of disease patterns by expectation maximisation: the model, the E step, the M step and the loop.

The equations are in ``docs/default.md``. A person is x = sum_m h_m(z_m) + e, with e ~ N(0, C), severities z_m in [0, 1]
and curves h_m of K straight steps (`TrajectoryModel`). The E step computes, for every person, the probability of each
combination of severities, and adds up what the M step needs (`CurveSums`). People enter through these sums alone, so
the totals of parts of a table can be added. The M step fits all curves by generalised least squares; then normal
variation and the correlation of severities are estimated again. The loop, `fit_trajectories`, ends when held-out
patients do not become more likely any more.

Shape letters: N people, R regions, M patterns, K steps, G points of z, J models.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Generic, NamedTuple, Self, TypeVar

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import nnls

from rindices._typing import FloatArray, IntArray
from rindices.learners.contrastive.linear_start import PeopleInMemory
from rindices.learners.contrastive.rotation import solve_with_diagonal
from rindices.learners.missing_cells import (
    MissingRegions,
    fill_missing_cells,
    find_complete_rows,
    iterate_missing_regions,
)
from rindices.learners.normal_variation import ReferenceTarget, shrink_normal_scatter
from rindices.learners.people_source import PeopleSet, PeopleSource, Question
from rindices.learners.severity_posterior import (
    BasisProducts,
    PosteriorSummary,
    SeverityPosterior,
    compute_interacting_basis,
    compute_log_copula,
    compute_offsets,
    compute_point_probabilities,
    make_basis_products,
    make_normal_points,
    make_point_basis,
    make_severity_points,
)


@dataclass(frozen=True, eq=False)
class TrajectoryModel:
    """Patterns as curves, normal variation, the copula of the severities, and how patterns interact.

    steps (M, K, R): change of each region in each step of z, in control standard deviations; noise (R, R): C, the
    covariance of normal variation; correlation (M, M): of the Gaussian copula of z; common (M, K): d, the common steps
    of each pattern; interaction (M, M): entry [k, m] is the relative increase of the change of pattern k at full
    severity of pattern m; None where the changes of the patterns add up.
    """

    steps: FloatArray
    noise: FloatArray
    correlation: FloatArray
    common: FloatArray
    interaction: FloatArray | None = None

    @property
    def flat_steps(self) -> FloatArray:
        """The steps as (M * K, R)."""
        return self.steps.reshape(-1, self.steps.shape[2])

    @property
    def patterns(self) -> FloatArray:
        """Change D of each region (M, R) per unit of the common steps d, where the steps of a pattern are d D'."""
        squares = (self.common**2).sum(axis=1)
        return np.asarray((self.common[:, :, None] * self.steps).sum(axis=1) / squares[:, None])

    @property
    def point_basis(self) -> FloatArray:
        """Basis of the steps (G, M * K), times the growth of each pattern."""
        return compute_interacting_basis(len(self.steps), self.steps.shape[1], self.interaction)

    @property
    def basis_products(self) -> BasisProducts:
        """Products of `point_basis`."""
        return make_basis_products(len(self.steps), self.steps.shape[1], self.interaction)

    @property
    def functions(self) -> FloatArray:
        """Functions of z (G, T) whose expectations an M step needs.

        The basis without growth; where patterns interact, followed by the basis times each severity.
        """
        return list_functions(*self.steps.shape[:2], self.interaction is not None)

    def combine(self, expectations: FloatArray) -> FloatArray:
        """Return expectations of the functions (..., T) as those of the basis with growth (..., M * K)."""
        if self.interaction is None:
            return expectations
        n_patterns, n_steps = self.steps.shape[:2]
        parts = expectations.reshape(*expectations.shape[:-1], n_patterns + 1, n_patterns, n_steps)
        factors = np.concatenate([np.ones((1, n_patterns)), self.interaction.T])
        return np.asarray((parts * factors[:, :, None]).sum(axis=-3).reshape(*expectations.shape[:-1], -1))

    @cached_property
    def noise_root(self) -> FloatArray:
        """Cholesky factor of C, (R, R)."""
        return np.asarray(np.linalg.cholesky(self.noise))

    @cached_property
    def precision(self) -> FloatArray:
        """C^-1, (R, R)."""
        return np.asarray(np.linalg.inv(self.noise))

    @cached_property
    def weights(self) -> FloatArray:
        """C^-1 times the steps, (R, M * K)."""
        return np.asarray(cho_solve((self.noise_root, True), self.flat_steps.T, check_finite=False))

    @cached_property
    def posterior(self) -> SeverityPosterior:
        """Posterior of the severities."""
        return SeverityPosterior.build(self.steps, self.weights, self.correlation, self.interaction)


_MAX_PROBABILITIES = 4_000_000  # in memory at once


class ControlSums(NamedTuple):
    """Sums over controls: their number and x x' (R, R), or its expectation."""

    number: int
    scatter: FloatArray

    @classmethod
    def compute(cls, controls: FloatArray, model: TrajectoryModel, scatter: FloatArray | None = None) -> Self:
        """Sum over controls (N, R), given as shifts from their mean; the model matters only for missing cells."""
        if find_complete_rows(controls).all():
            return cls(len(controls), controls.T @ controls if scatter is None else scatter)
        filled, scatter = fill_missing_cells(controls, model.precision)
        return cls(len(filled), filled.T @ filled + scatter)


class PatientSums(NamedTuple):
    """Sums over patients under the current model; missing cells count as their expectations.

    With f the functions of z (T,) and y the severities as normal quantiles (M,): moments (T, T): sum of E[f f']; normal
    (M, M): sum of E[y y']; cross (R, T): sum of x E[f]'; scatter (R, R): sum of x x'.
    """

    number: int
    moments: FloatArray
    normal: FloatArray
    cross: FloatArray
    scatter: FloatArray

    @classmethod
    def compute(cls, patients: FloatArray, model: TrajectoryModel, scatter: FloatArray | None = None) -> Self:
        """Sum over patients (N, R), given as shifts from the controls' mean; ``scatter``, if it is known."""
        is_complete = find_complete_rows(patients)
        if is_complete.all():
            return cls._compute_complete(patients, model, scatter)
        sums = cls._compute_complete(patients[is_complete], model)
        for part in _split_into_chunks(patients[~is_complete], len(model.functions)):
            sums = sums.add(cls._compute_incomplete(part, model))
        return sums

    def add(self, other: Self) -> Self:
        """Return the sums over both groups of patients."""
        moments, normal = self.moments + other.moments, self.normal + other.normal
        cross, scatter = self.cross + other.cross, self.scatter + other.scatter
        return type(self)(self.number + other.number, moments, normal, cross, scatter)

    @classmethod
    def _compute_complete(cls, patients: FloatArray, model: TrajectoryModel, scatter: FloatArray | None = None) -> Self:
        posterior = model.posterior
        functions = None if model.interaction is None else model.functions
        point_weights, cross = np.zeros(len(posterior.points)), np.zeros((patients.shape[1], model.functions.shape[1]))
        for part, summary in summarise_people(patients, model.weights, posterior, functions):
            point_weights += summary.point_weights
            cross += part.T @ summary.basis
        scatter = patients.T @ patients if scatter is None else scatter
        return cls(len(patients), *sum_points(model.functions, posterior.points, point_weights), cross, scatter)

    @classmethod
    def _compute_incomplete(cls, patients: FloatArray, model: TrajectoryModel) -> Self:
        """Sum over patients of whom each lacks a region, as many as fit into memory at once.

        Let m be the missing regions of a patient, o the measured ones, P = C^-1, b the basis at z and H the steps, so
        that x = H'b + e. Given z and x_o, normal variation e_m has the mean -P_mm^-1 P_mo e_o and the covariance
        P_mm^-1. With e_o = x_o - H_o'b, the missing regions are

            x_m = -P_mm^-1 P_mo x_o + A b + noise of covariance P_mm^-1,  with A = P_mm^-1 (P H')_m (``slopes``).

        Their expectation over z has E[b] in place of b; it fills the table. But x_m goes along with z: to the sum of
        x_m f', with f the functions of z, this adds A Cov(b, f), and to the sum of x_m x_m' it adds A Cov(b, b) A' and
        the covariance of the noise. The covariances are those of the posterior of z given x_o.
        """
        measured = _MeasuredRegions.compute(patients, model)
        probabilities = measured.compute_probabilities(model)[0]
        expected = probabilities @ model.functions
        basis = model.combine(expected)
        filled = np.where(np.isnan(patients), 0.0, patients)
        cross, scatter = np.zeros((len(model.noise), expected.shape[1])), np.zeros_like(model.noise)
        for regions, reduced, lost in measured.batches:
            own = basis[regions.rows]
            slopes = regions.expect(reduced)
            cells = (slopes[regions.group] @ own[:, :, None])[:, :, 0] + regions.expect_people(lost)
            regions.set_missing(filled, cells)
            spread = _compute_second_moments(regions.sum_by_group(probabilities[regions.rows]), model)
            spread -= regions.sum_products(own, expected[regions.rows])
            carried = slopes @ spread
            regions.add_rows(cross, carried)
            noise = regions.counts[:, None, None] * regions.covariance
            regions.add_blocks(scatter, model.combine(carried) @ slopes.transpose(0, 2, 1) + noise)
        scatter += filled.T @ filled
        moments, normal = sum_points(model.functions, model.posterior.points, probabilities.sum(axis=0))
        return cls(len(patients), moments, normal, filled.T @ expected + cross, scatter)


@cache
def list_functions(n_patterns: int, n_steps: int, interacting: bool) -> FloatArray:
    """Return the functions of z (G, T): the basis of the steps; where patterns interact, also times each severity."""
    basis = make_point_basis(n_patterns, n_steps)
    if not interacting:
        return basis
    return np.concatenate([basis, *(basis * z[:, None] for z in make_severity_points(n_patterns).T)], axis=1)


def sum_points(functions: FloatArray, points: FloatArray, point_weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return sums of E[f f'] (T, T) and E[y y'] (M, M), given the summed probabilities of the points (G, M)."""
    normal = make_normal_points(points.shape[1])
    first, second = ((array * point_weights[:, None]).T @ array for array in (functions, normal))
    return first, second


class _ReducedBatch(NamedTuple):
    """Missing regions of some people, and what they take of the steps (J, Q, M * K) and of the people (N, Q)."""

    regions: MissingRegions
    reduced: FloatArray
    lost: FloatArray


class _MeasuredRegions(NamedTuple):
    """Products of people's measured regions, in which those that they lack do not count.

    numbers (N, M * K): x' C_oo^-1 steps; grams (J, M * K, M * K): steps' C_oo^-1 steps, for each group of people who
    lack the same regions; group (N,): group of each person; log_density (N,): log density of x without disease, up to a
    constant that no model changes; batches: the people in batches.
    """

    numbers: FloatArray
    grams: FloatArray
    group: IntArray
    log_density: FloatArray
    batches: list[_ReducedBatch]

    @classmethod
    def compute(cls, people: FloatArray, model: TrajectoryModel) -> Self:
        """Compute the products of people (N, R), of whom each lacks a region."""
        precision, steps = model.precision, model.flat_steps
        filled, weights = np.where(np.isnan(people), 0.0, people), model.weights
        products, gram = filled @ precision, steps @ weights
        numbers, grams, group = filled @ weights, list[FloatArray](), np.zeros(len(people), dtype=np.int64)
        log_density = -0.5 * ((products * filled).sum(axis=1) + np.linalg.slogdet(model.noise)[1])
        batches = []
        for regions in iterate_missing_regions(people, precision):
            rows, reduced = regions.rows, regions.reduce(weights)
            lost = regions.reduce_people(products[rows])
            numbers[rows] -= (lost[:, None] @ reduced[regions.group])[:, 0]
            group[rows] = sum(map(len, grams)) + regions.group
            grams.append(gram - reduced.transpose(0, 2, 1) @ reduced)
            log_density[rows] += 0.5 * ((lost**2).sum(axis=1) - regions.log_determinant[regions.group])
            batches.append(_ReducedBatch(regions, reduced, lost))
        return cls(numbers, np.concatenate(grams), group, log_density, batches)

    def compute_probabilities(self, model: TrajectoryModel) -> tuple[FloatArray, FloatArray]:
        """Return the probability of each point (N, G), and the log-likelihood relative to a control (N,)."""
        basis = model.point_basis
        density = self.numbers @ basis.T
        density += compute_offsets(self.grams, compute_log_copula(model.correlation), model.basis_products)[self.group]
        return compute_point_probabilities(density)


def compute_log_likelihood(patients: FloatArray, model: TrajectoryModel) -> FloatArray:
    """Return the log-likelihood (N,) of each patient (N, R), up to a constant that no model changes."""
    is_complete = find_complete_rows(patients)
    if is_complete.all():
        return _compute_complete_likelihood(patients, model)
    likelihoods = np.empty(len(patients))
    likelihoods[is_complete] = _compute_complete_likelihood(patients[is_complete], model)
    parts = []
    for part in _split_into_chunks(patients[~is_complete], len(model.point_basis)):
        measured = _MeasuredRegions.compute(part, model)
        parts.append(measured.compute_probabilities(model)[1] + measured.log_density)
    likelihoods[~is_complete] = np.concatenate(parts)
    return likelihoods


def _compute_complete_likelihood(patients: FloatArray, model: TrajectoryModel) -> FloatArray:
    root, parts = model.noise_root, [np.zeros(0)]
    for part, summary in summarise_people(patients, model.weights, model.posterior):
        white = solve_triangular(root, part.T, lower=True, check_finite=False)
        parts.append(summary.log_sum - 0.5 * (white**2).sum(axis=0))
    return np.asarray(np.concatenate(parts) - np.log(np.diag(root)).sum())


def compute_log_ratio(people: FloatArray, model: TrajectoryModel) -> FloatArray:
    """Return log p(x | patient) - log N(x; 0, C) of people (N, R), by their measured regions alone, (N,)."""
    is_complete, ratios = find_complete_rows(people), np.empty(len(people))
    complete = summarise_people(people[is_complete], model.weights, model.posterior)
    ratios[is_complete] = np.concatenate([np.zeros(0), *(summary.log_sum for _, summary in complete)])
    incomplete = _split_into_chunks(people[~is_complete], len(model.point_basis))
    parts = [_MeasuredRegions.compute(part, model).compute_probabilities(model)[1] for part in incomplete]
    ratios[~is_complete] = np.concatenate([np.zeros(0), *parts])
    return ratios


def _compute_second_moments(point_weights: FloatArray, model: TrajectoryModel) -> FloatArray:
    """Return E[basis functions'] of each group (J, M * K, T), from its weights of the points (J, G)."""
    basis, functions = model.point_basis, model.functions
    if model.interaction is not None:
        products = (basis[:, :, None] * functions[:, None, :]).reshape(len(basis), -1)
        return np.asarray((point_weights @ products).reshape(-1, basis.shape[1], functions.shape[1]))
    rows, columns, products = model.basis_products
    moments = np.empty((len(point_weights), basis.shape[1], basis.shape[1]))
    one_side = point_weights @ products.T * np.where(rows == columns, 1.0, 0.5)
    moments[:, rows, columns] = one_side
    moments[:, columns, rows] = one_side
    return moments


def summarise_people(
    people: FloatArray, weights: FloatArray, posterior: SeverityPosterior, functions: FloatArray | None = None
) -> Iterator[tuple[FloatArray, PosteriorSummary]]:
    """Yield people (N, R) in chunks, each with the summary of its posteriors; weights (R, M * K), functions (G, T)."""
    for part in _split_into_chunks(people, len(posterior.points)):
        yield part, posterior.summarise(part @ weights, functions)


def _split_into_chunks(people: FloatArray, n_points: int) -> Iterator[FloatArray]:
    """Yield people (N, R) in chunks whose posteriors fit into memory."""
    size = max(1, _MAX_PROBABILITIES // n_points)
    for start in range(0, len(people), size):
        yield people[start : start + size]


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
_MAX_MOMENTUM = 0.8
_MIN_GROWTH = 0.1  # of a pattern, at full severity of all others
_EIGENVALUE_CUT = 1e-8  # relative size of prior variances that are taken for 0


class CurveSums(NamedTuple):
    """What one step of EM needs; likelihood: mean log-likelihood of held-out patients; NaN without any."""

    patients: PatientSums
    controls: ControlSums
    likelihood: float = float("nan")

    @classmethod
    def compute(
        cls,
        model: TrajectoryModel,
        controls: FloatArray,
        patients: FloatArray,
        held_out: FloatArray | None = None,
        scatters: tuple[FloatArray | None, FloatArray | None] = (None, None),
    ) -> Self:
        """Sum over controls, patients and held-out patients (N, R).

        scatters (R, R): sums of x x' over controls and over patients, if they are known; they are not used where cells
        are missing.
        """
        likelihood = float("nan")
        if held_out is not None and len(held_out):
            likelihood = float(compute_log_likelihood(held_out, model).mean())
        sums = PatientSums.compute(patients, model, scatters[1])
        return cls(sums, ControlSums.compute(controls, model, scatters[0]), likelihood)


@dataclass(frozen=True, eq=False)
class CurveQuestion(Question[CurveSums]):
    """Asks for the `CurveSums` of a set of people under a model; held_out: set of the held-out people, if any."""

    people: PeopleSet
    held_out: PeopleSet | None
    model: TrajectoryModel

    def sum_in_memory(self, people: PeopleInMemory) -> CurveSums:
        """Return the sums over the people of a member."""
        part, held_out = self.people.part, None
        if self.held_out is not None:
            held_out = people.select(self.held_out.part, 1)
        moments = people.compute_moments(part)
        scatters = moments.controls.products, moments.patients.products
        return CurveSums.compute(self.model, people.select(part, 0), people.select(part, 1), held_out, scatters)


class TrajectoryFit(NamedTuple):
    """Result of `fit_trajectories`.

    n_iterations: number of M steps; held_out: mean log-likelihood of the held-out patients; NaN without any.
    """

    model: TrajectoryModel
    n_iterations: int
    held_out: float = float("nan")


class TrajectoryProblem(NamedTuple):
    """People of one member, and where EM begins.

    people: set of the people, given as shifts from the controls' mean, in control standard deviations; start: first
    model; target: correlations of a reference population, for C; held_out: set of other people, whose patients tell
    when EM ends.
    """

    people: PeopleSet
    start: TrajectoryModel
    target: ReferenceTarget | None = None
    held_out: PeopleSet | None = None


def fit_trajectories(
    people: PeopleSource, problems: Sequence[TrajectoryProblem], shape: str, n_iterations: int | None = None
) -> list[TrajectoryFit]:
    """Maximise the likelihood of the people of each member, from its start.

    people: answers questions by sums. problems: one per member. n_iterations: number of M steps, by default
    `MAX_ITERATIONS`; the largest number if there are held-out patients. All members take as many steps as make their
    held-out patients most likely on average (`StepRule`).
    """
    models = [problem.start for problem in problems]
    if shape == "interacting":
        none = np.zeros_like(models[0].correlation)
        models = [model if model.interaction is not None else replace(model, interaction=none) for model in models]
    states = [FitState(model, initialise_variances(model)) for model in models]
    rule: StepRule[TrajectoryModel] = StepRule(n_iterations or MAX_ITERATIONS[shape], MIN_GAIN)
    while True:
        models = [state.model for state in states]
        questions = [CurveQuestion(each.people, each.held_out, own) for each, own in zip(problems, models, strict=True)]
        sums = people.sum_each(questions)  # E step
        patience = max(map(_get_patience, models))
        if rule.ends(list(zip(models, (each.likelihood for each in sums), strict=True)), patience):
            return [TrajectoryFit(model, rule.n_best, held_out) for model, held_out in rule.best]
        momentum = min(_MAX_MOMENTUM, rule.n_steps / (rule.n_steps + 3.0))
        states = [  # M step
            update_model(state, own, RHO_BY_SHAPE[shape], momentum, problem.target)
            for state, own, problem in zip(states, sums, problems, strict=True)
        ]


Model = TypeVar("Model")


@dataclass
class StepRule(Generic[Model]):
    """Decides after how many steps a fit ends: as many as make held-out patients most likely, on average of members.

    In small samples, further steps would fit chance. The number of steps is the same for all members, so it hardly
    depends on the people that a single member has not seen. Without held-out patients all steps are taken.

    max_steps: largest number; min_gain: least gain in the mean log-likelihood; best: model and mean log-likelihood of
    each member after ``n_best`` steps.
    """

    max_steps: int
    min_gain: float
    n_best: int = 0
    n_steps: int = -1
    best: list[tuple[Model, float]] = field(default_factory=list)

    def ends(self, states: list[tuple[Model, float]], patience: int) -> bool:
        """Take the states after the next step, the start first; and say whether it was the last one.

        patience: steps without a gain after which to end.
        """
        self.n_steps += 1
        if not self.best or not _average_likelihood(states) < _average_likelihood(self.best) + self.min_gain:
            self.best, self.n_best = states, self.n_steps
        return self.n_steps >= self.max_steps or self.n_steps - self.n_best >= patience


def _average_likelihood(states: Sequence[tuple[object, float]]) -> float:
    values = [value for _, value in states if not np.isnan(value)]
    return float(np.mean(values)) if values else float("nan")


class FitState(NamedTuple):
    """State of EM: the current model, the variances tau (M, R), and the result of the last M step without momentum."""

    model: TrajectoryModel
    variances: FloatArray
    last: TrajectoryModel | None = None


def update_model(
    state: FitState, sums: CurveSums, rho: float, momentum: float = 0.0, target: ReferenceTarget | None = None
) -> FitState:
    """Take one M step, from sums over people alone.

    EM converges slowly where severities are uncertain. So curves and interactions go further than the M step says, by
    ``momentum`` times their change since the last M step, as in Nesterov's accelerated gradient.
    """
    patients = sums.patients
    model, variances = update_curves(state.model, state.variances, *combine_sums(state.model, patients), rho)
    if model.interaction is not None:
        model = replace(model, interaction=_solve_interaction(model, patients))
    moved = model if state.last is None else _extrapolate(model, state.last, momentum, is_rank_one=rho == 1.0)
    return FitState(update_variation(moved, patients, sums.controls, target), variances, model)


def _extrapolate(model: TrajectoryModel, last: TrajectoryModel, momentum: float, is_rank_one: bool) -> TrajectoryModel:
    """Return a model whose curves and interactions differ more from the last ones, by a factor of 1 + momentum.

    Where the steps of a pattern are d D', with d its common steps and D the change of each region (``is_rank_one``),
    both factors are extrapolated and not their product, because a sum of two such products is no such product.
    """
    common = model.common + momentum * (model.common - last.common)
    common = np.maximum(common, _MIN_STEP_SHARE * common.mean(axis=1, keepdims=True))
    interaction = model.interaction
    if interaction is not None and last.interaction is not None:
        lowest = -(1.0 - _MIN_GROWTH) / max(1, len(interaction) - 1)
        interaction = np.clip(interaction + momentum * (interaction - last.interaction), lowest, _MAX_INTERACTION)
    if is_rank_one:
        patterns = model.patterns + momentum * (model.patterns - last.patterns)
        steps = common[:, :, None] * patterns[:, None, :]
    else:
        steps = model.steps + momentum * (model.steps - last.steps)
    return replace(model, steps=steps, common=common, interaction=interaction)


def combine_sums(model: TrajectoryModel, sums: PatientSums) -> tuple[FloatArray, FloatArray]:
    """Return the sums of x E[b]' (R, M * K) and of E[b b'] (M * K, M * K), with b the basis with growth."""
    return model.combine(sums.cross), model.combine(model.combine(sums.moments).T)


def update_curves(
    model: TrajectoryModel, variances: FloatArray, cross: FloatArray, gram: FloatArray, rho: float
) -> tuple[TrajectoryModel, FloatArray]:
    """Return the model with updated steps and, if patterns are straight, common steps; and variances (M, R)."""
    if rho == 1.0:
        model = replace(model, common=update_common_steps(model, cross, gram))
    steps, variances = update_steps(model, variances, cross, gram, rho)
    return replace(model, steps=steps), variances


def compute_residual_scatter(
    model: TrajectoryModel, scatter: FloatArray, cross: FloatArray, gram: FloatArray
) -> FloatArray:
    """Return the scatter (R, R) of what the expected change leaves of people, whose own scatter is given."""
    flat = model.flat_steps
    explained = cross @ flat
    return np.asarray(scatter - explained - explained.T + flat.T @ gram @ flat)


def update_variation(
    model: TrajectoryModel, sums: PatientSums, control_sums: ControlSums, target: ReferenceTarget | None = None
) -> TrajectoryModel:
    """Return the model with normal variation and the copula of the severities estimated again."""
    together, number = control_sums.scatter + sums.scatter, control_sums.number + sums.number
    scatter = compute_residual_scatter(model, together, *combine_sums(model, sums))
    noise = shrink_normal_scatter(scatter, number)
    if target is not None:
        noise = target.mix_with_scale(noise, np.sqrt(np.diag(scatter) / number))
    return replace(model, noise=noise, correlation=shrink_correlation(sums.normal))


def _get_patience(model: TrajectoryModel) -> int:
    """Return the number of M steps without a gain after which EM ends; interactions converge slowly."""
    has_interactions = model.interaction is not None and np.abs(model.interaction).max() >= _MIN_INTERACTION
    return _INTERACTION_PATIENCE if has_interactions else PATIENCE


def initialise_variances(model: TrajectoryModel) -> FloatArray:
    """Return prior variances (M, R), the same for all regions of a pattern."""
    mean = (model.steps**2).sum(axis=1).mean(axis=1) / (model.common**2).sum(axis=1)
    return np.repeat(mean[:, None], model.steps.shape[2], axis=1)


def update_steps(
    model: TrajectoryModel, variances: FloatArray, cross: FloatArray, gram: FloatArray, rho: float
) -> tuple[FloatArray, FloatArray]:
    """Return the posterior mean of the steps (M, K, R) and updated variances (M, R), one pattern after the other.

    Given the other patterns, the people tell of the steps H (K, R) of a pattern what one observation F^-1 U of them
    would, with errors of covariance F^-1 between steps and C between regions. F = L L' is the sum of E[b b'], and U the
    sum of E[b] times what the others leave of x' (`isolate_pattern`). So regions without disease predict the error of
    regions with disease. A priori the steps of region r have the covariance tau_r Q. Let L'QL = V diag(s) V' and
    G = V'L'H. Errors of G have the covariance V'L'F^-1LV = 1 between its rows, and its prior has tau_r diag(s), also
    diagonal: the rows of G are K independent problems of size R, g_k ~ N(0, s_k diag(tau)), observed as row k of
    V'L^-1U with errors of covariance C. The steps are H = L'^-1 V G.

    Variances are updated by MacKay's rule, the squared steps over the number of steps that the data determine; it
    converges in a third of the iterations that the rule of EM needs.
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
    common, weights_by_step = model.common.copy(), model.weights.T.reshape(model.steps.shape)
    for m, before in enumerate(model.common):
        pattern, weights = (before @ each[m] / (before @ before) for each in (model.steps, weights_by_step))
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


def _solve_interaction(model: TrajectoryModel, sums: PatientSums) -> FloatArray:
    """Return the posterior mode of the interactions (M, M), given the steps.

    It is a ridge regression of M * (M - 1) numbers; the feature of the pair (k, m) is z_m h_k(z_k).
    """
    n_patterns, n_steps = model.steps.shape[:2]
    weights = model.weights
    gram = model.flat_steps @ weights
    pairs = [(k, m) for k in range(n_patterns) for m in range(n_patterns) if k != m]
    blocks = [slice(k * n_steps, (k + 1) * n_steps) for k in range(n_patterns)]
    # the functions are the basis, then the basis times each severity
    moments = sums.moments.reshape(n_patterns + 1, n_patterns, n_steps, n_patterns + 1, n_patterns, n_steps)
    information, right = np.eye(len(pairs)) / _INTERACTION_SD**2, np.zeros(len(pairs))
    for row, (k, m) in enumerate(pairs):
        observed = sums.cross.reshape(len(weights), n_patterns + 1, -1)[:, m + 1, blocks[k]]
        additive = np.einsum("abc,abc->", moments[m + 1, k, :, 0], gram[blocks[k]].reshape(n_steps, n_patterns, -1))
        right[row] = float((observed * weights[:, blocks[k]]).sum()) - additive
        for column, (other, n) in enumerate(pairs):
            information[row, column] += (moments[m + 1, k, :, n + 1, other] * gram[blocks[k], blocks[other]]).sum()
    interaction = np.zeros((n_patterns, n_patterns))
    interaction[tuple(np.transpose(pairs))] = np.linalg.solve(information, right)
    return interaction


def shrink_correlation(second_moment: FloatArray) -> FloatArray:
    """Return the correlations (M, M) of the copula, from the sum over patients of E[y y'] of normal severities y."""
    sd = np.sqrt(np.diag(second_moment))
    correlation = _CORRELATION_SHRINKAGE * second_moment / np.outer(sd, sd)
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(correlation)
