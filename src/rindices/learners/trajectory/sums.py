"""Sums over people that an M step needs, and their likelihood, also where cells are missing.

The missing cells of a person are normal given the measured ones and the severities, so their expectations are exact
(`missing_cells`). Shape letters: N people, R regions, M patterns, K steps, G points of z,
T functions of z (`TrajectoryModel.functions`), Q missing regions, J groups of people who lack the same regions.
"""

from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import solve_triangular

from rindices._typing import FloatArray, IntArray
from rindices.learners.missing_cells import (
    MissingRegions,
    fill_missing_cells,
    find_complete_rows,
    iterate_missing_regions,
)
from rindices.learners.severity_points import compute_log_copula
from rindices.learners.severity_posterior import compute_offsets, compute_point_probabilities
from rindices.learners.trajectory.model import TrajectoryModel

_MAX_PROBABILITIES = 4_000_000  # in memory at once


class ControlSums(NamedTuple):
    """Sums over controls: their number, x x' (R, R) and |x|^4, or their expectations."""

    number: int
    scatter: FloatArray
    fourth_power: float

    @classmethod
    def compute(cls, controls: FloatArray, model: TrajectoryModel) -> Self:
        """Sum over controls (N, R), given as shifts from their mean; the model matters only for missing cells."""
        if find_complete_rows(controls).all():
            return cls(len(controls), controls.T @ controls, _sum_fourth_powers(controls))
        filled, scatter = fill_missing_cells(controls, np.asarray(np.linalg.inv(model.noise)))
        return cls(len(filled), filled.T @ filled + scatter, _sum_fourth_powers(filled))


class PatientSums(NamedTuple):
    """Sums over patients under the current model; missing cells count as their expectations.

    Attributes
    ----------
    number : int
    point_weights : (G,)
        Sum of the posterior probabilities of each point.
    cross : (R, T)
        Sum of x E[functions]'.
    scatter : (R, R)
        Sum of x x'.
    fourth_power : float
        Sum of |r|^4, with r what the expected change leaves of a patient.
    """

    number: int
    point_weights: FloatArray
    cross: FloatArray
    scatter: FloatArray
    fourth_power: float

    @classmethod
    def compute(cls, patients: FloatArray, model: TrajectoryModel) -> Self:
        """Sum over patients (N, R), given as shifts from the controls' mean."""
        is_complete = find_complete_rows(patients)
        if is_complete.all():
            return cls._compute_complete(patients, model)
        complete = cls._compute_complete(patients[is_complete], model)
        return complete.add(cls._compute_incomplete(patients[~is_complete], model))

    def add(self, other: Self) -> Self:
        """Return the sums over both groups of patients."""
        return self._replace(
            number=self.number + other.number,
            point_weights=self.point_weights + other.point_weights,
            cross=self.cross + other.cross,
            scatter=self.scatter + other.scatter,
            fourth_power=self.fourth_power + other.fourth_power,
        )

    @classmethod
    def _compute_complete(cls, patients: FloatArray, model: TrajectoryModel) -> Self:
        weights, steps = model.compute_weights(), model.flat_steps
        posterior = model.make_posterior(weights)
        functions = None if model.interaction is None else model.functions
        point_weights, cross = np.zeros(len(posterior.points)), np.zeros((steps.shape[1], model.functions.shape[1]))
        fourth_power = 0.0
        for part in _split_into_chunks(patients, len(posterior.points)):
            summary = posterior.summarise(part @ weights, functions)
            point_weights += summary.point_weights
            cross += part.T @ summary.basis
            fourth_power += _sum_fourth_powers(part - model.combine(summary.basis) @ steps)
        return cls(len(patients), point_weights, cross, patients.T @ patients, fourth_power)

    @classmethod
    def _compute_incomplete(cls, patients: FloatArray, model: TrajectoryModel) -> Self:
        """Sum over patients of whom each lacks a region.

        Given z, the missing regions are their expectation without disease, plus ``slopes`` times the basis, plus noise.
        """
        n_points, n_functions = model.functions.shape
        cross = np.zeros((len(model.noise), n_functions))
        sums = cls(0, np.zeros(n_points), cross, np.zeros_like(model.noise), 0.0)
        for part in _split_into_chunks(patients, n_points):
            sums = sums.add(cls._compute_incomplete_chunk(part, model))
        return sums

    @classmethod
    def _compute_incomplete_chunk(cls, patients: FloatArray, model: TrajectoryModel) -> Self:
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
        fourth_power = _sum_fourth_powers(filled - basis @ model.flat_steps)
        scatter += filled.T @ filled
        return cls(len(patients), probabilities.sum(axis=0), filled.T @ expected + cross, scatter, fourth_power)


class _ReducedBatch(NamedTuple):
    """Missing regions of some people, and what they take of the steps (J, Q, M * K) and of the people (N, Q)."""

    regions: MissingRegions
    reduced: FloatArray
    lost: FloatArray


class _MeasuredRegions(NamedTuple):
    """Products of people's measured regions, in which those that they lack do not count.

    Attributes
    ----------
    numbers : (N, M * K)
        x' C_oo^-1 steps.
    grams : (J, M * K, M * K)
        steps' C_oo^-1 steps, for each group of people who lack the same regions.
    group : (N,)
        Group of each person.
    log_density : (N,)
        Log density of x without disease, up to a constant that no model changes.
    batches : list of _ReducedBatch
        The people in batches.
    """

    numbers: FloatArray
    grams: FloatArray
    group: IntArray
    log_density: FloatArray
    batches: list[_ReducedBatch]

    @classmethod
    def compute(cls, people: FloatArray, model: TrajectoryModel) -> Self:
        """Compute the products of people (N, R), of whom each lacks a region."""
        precision, steps = np.asarray(np.linalg.inv(model.noise)), model.flat_steps
        filled, weights = np.where(np.isnan(people), 0.0, people), model.compute_weights()
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
    n_points = len(model.point_basis)
    parts = []
    for part in _split_into_chunks(patients[~is_complete], n_points):
        measured = _MeasuredRegions.compute(part, model)
        parts.append(measured.compute_probabilities(model)[1] + measured.log_density)
    likelihoods[~is_complete] = np.concatenate(parts)
    return likelihoods


def _compute_complete_likelihood(patients: FloatArray, model: TrajectoryModel) -> FloatArray:
    weights, root = model.compute_weights(), np.linalg.cholesky(model.noise)
    posterior = model.make_posterior(weights)
    parts = [np.zeros(0)]
    for part in _split_into_chunks(patients, len(posterior.points)):
        white = solve_triangular(root, part.T, lower=True)
        parts.append(posterior.summarise(part @ weights).log_sum - 0.5 * (white**2).sum(axis=0))
    return np.asarray(np.concatenate(parts) - np.log(np.diag(root)).sum())


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


def _split_into_chunks(people: FloatArray, n_points: int) -> Iterator[FloatArray]:
    """Yield people (N, R) in chunks whose posteriors fit into memory."""
    size = max(1, _MAX_PROBABILITIES // n_points)
    for start in range(0, len(people), size):
        yield people[start : start + size]


def _sum_fourth_powers(people: FloatArray) -> float:
    return float(np.square(np.square(people).sum(axis=1)).sum())
