"""The E step: what the severities of each person are, summed over people.

For each person it computes p(z | x), the probability of each point z of the severities,
and adds up what the M step needs (`CurveSums`): E[f f'], E[y y'], x E[f]' and x x',
where f are the functions of z and y the severities as normal quantiles. The people
enter through these sums alone, so the sums of parts of a table can be added. The
likelihood of people comes from the same posterior.

Shape letters: N people, R regions, M patterns, K steps, G points of z, T functions of
z, J groups of people who lack the same regions.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import solve_triangular

from rindices._typing import FloatArray, IntArray
from rindices.learners.contrastive.linear_start import PeopleInMemory
from rindices.learners.inference import MemberHead, TrajectoryHead
from rindices.learners.missing_cells import (
    MissingRegions,
    fill_missing_cells,
    find_complete_rows,
    iterate_missing_regions,
    order_by_missing_cells,
)
from rindices.learners.people_source import PeopleSet, Question
from rindices.learners.severity_posterior import (
    PosteriorSummary,
    SeverityPosterior,
    compute_group_probabilities,
    compute_log_copula,
    compute_offsets,
    make_normal_points,
)
from rindices.learners.trajectory.model import TrajectoryModel

_MAX_PROBABILITIES = 4_000_000  # in memory at once


class ControlSums(NamedTuple):
    """Sums over controls: their number and x x' (R, R), or its expectation.

    Attributes
    ----------
    number : int
    scatter : ndarray
    """

    number: int
    scatter: FloatArray

    @classmethod
    def compute(
        cls,
        controls: FloatArray,
        model: TrajectoryModel,
        scatter: FloatArray | None = None,
    ) -> Self:
        """Sum over controls (N, R), given as shifts from their mean; the model matters
        only for missing cells.
        """
        if find_complete_rows(controls).all():
            return cls(
                len(controls), controls.T @ controls if scatter is None else scatter
            )
        filled, scatter = fill_missing_cells(controls, model.precision)
        return cls(len(filled), filled.T @ filled + scatter)


@dataclass(frozen=True, kw_only=True)
class PatientSums:
    """Sums over patients under the current model; missing cells count as their
    expectations.

    With f the functions of z (T,) and y the severities as normal quantiles (M,):
    moments (T, T): sum of E[f f']

    Attributes
    ----------
    number : int
    moments : ndarray
    normal : ndarray of shape (M, M)
        Sum of E[y y'].
    cross : ndarray of shape (R, T)
        Sum of x E[f]'.
    scatter : ndarray of shape (R, R)
        Sum of x x'.
    """

    number: int
    moments: FloatArray
    normal: FloatArray
    cross: FloatArray
    scatter: FloatArray

    @classmethod
    def compute(
        cls,
        patients: FloatArray,
        model: TrajectoryModel,
        scatter: FloatArray | None = None,
    ) -> Self:
        """Sum over patients (N, R), given as shifts from the controls' mean;
        ``scatter``, if it is known.
        """
        is_complete = find_complete_rows(patients)
        if is_complete.all():
            return cls._compute_complete(patients, model, scatter)
        sums = cls._compute_complete(patients[is_complete], model)
        incomplete = order_by_missing_cells(patients[~is_complete])
        for part in _split_into_chunks(incomplete, len(model.functions)):
            sums = sums.add(cls._compute_incomplete(part, model))
        return sums

    def add(self, other: Self) -> Self:
        """Return the sums over both groups of patients."""
        moments, normal = self.moments + other.moments, self.normal + other.normal
        cross, scatter = self.cross + other.cross, self.scatter + other.scatter
        return type(self)(
            number=self.number + other.number,
            moments=moments,
            normal=normal,
            cross=cross,
            scatter=scatter,
        )

    @classmethod
    def _compute_complete(
        cls,
        patients: FloatArray,
        model: TrajectoryModel,
        scatter: FloatArray | None = None,
    ) -> Self:
        posterior = model.posterior
        functions = None if model.interaction is None else model.functions
        point_weights, cross = (
            np.zeros(len(posterior.points)),
            np.zeros((patients.shape[1], model.functions.shape[1])),
        )
        for part, summary in summarise_people(
            patients, model.weights, posterior, functions
        ):
            point_weights += summary.point_weights
            cross += part.T @ summary.basis
        scatter = patients.T @ patients if scatter is None else scatter
        moments, normal = sum_points(model.functions, posterior.points, point_weights)
        return cls(
            number=len(patients),
            moments=moments,
            normal=normal,
            cross=cross,
            scatter=scatter,
        )

    @classmethod
    def _compute_incomplete(cls, patients: FloatArray, model: TrajectoryModel) -> Self:
        """Sum over patients of whom each lacks a region, as many as fit into memory at
        once.

        Let m be the missing regions of a patient, o the measured ones, P = C^-1, b the
        basis at z and H the steps, so that x = H'b + e. Given z and x_o, normal
        variation e_m has the mean -P_mm^-1 P_mo e_o and the covariance P_mm^-1. With
        e_o = x_o - H_o'b, the missing regions are

            x_m = -P_mm^-1 P_mo x_o + A b + noise of covariance P_mm^-1,  with A =
            P_mm^-1 (P H')_m (``slopes``).

        Their expectation over z has E[b] in place of b; it fills the table. But x_m
        goes along with z: to the sum of x_m f', with f the functions of z, this adds A
        Cov(b, f), and to the sum of x_m x_m' it adds A Cov(b, b) A' and the covariance
        of the noise. The covariances are those of the posterior of z given x_o.
        """
        measured = _MeasuredRegions.compute(patients, model)
        probabilities = measured.compute_probabilities(model)[0]
        expected = probabilities @ model.functions
        basis = model.combine(expected)
        filled = np.where(np.isnan(patients), 0.0, patients)
        cross, scatter = (
            np.zeros((len(model.noise), expected.shape[1])),
            np.zeros_like(model.noise),
        )
        for regions, reduced, lost in measured.batches:
            own = basis[regions.rows]
            slopes = regions.expect(reduced)
            cells = (slopes[regions.group] @ own[:, :, None])[
                :, :, 0
            ] + regions.expect_people(lost)
            regions.set_missing(filled, cells)
            rows = regions.find_rows()
            spread = _compute_second_moments(
                regions.sum_by_group(probabilities[rows]), model
            )
            spread -= regions.sum_products(own, expected[regions.rows])
            carried = slopes @ spread
            regions.add_rows(cross, carried)
            noise = regions.counts[:, None, None] * regions.covariance
            regions.add_blocks(
                scatter, model.combine(carried) @ slopes.transpose(0, 2, 1) + noise
            )
        scatter += filled.T @ filled
        moments, normal = sum_points(
            model.functions, model.posterior.points, probabilities.sum(axis=0)
        )
        return cls(
            number=len(patients),
            moments=moments,
            normal=normal,
            cross=filled.T @ expected + cross,
            scatter=scatter,
        )


def sum_points(
    functions: FloatArray, points: FloatArray, point_weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return sums of E[f f'] (T, T) and E[y y'] (M, M), given the summed probabilities
    of the points (G, M).
    """
    normal = make_normal_points(points.shape[1])
    first, second = (
        (array * point_weights[:, None]).T @ array for array in (functions, normal)
    )
    return first, second


class _ReducedBatch(NamedTuple):
    """Missing regions of some people, and what they take of the steps (J, Q, M * K) and
    of the people (N, Q).

    Attributes
    ----------
    regions : MissingRegions
    reduced : ndarray
    lost : ndarray
    """

    regions: MissingRegions
    reduced: FloatArray
    lost: FloatArray


@dataclass(frozen=True, kw_only=True)
class _MeasuredRegions:
    """Products of people's measured regions, in which those that they lack do not
    count.

    Attributes
    ----------
    numbers : ndarray of shape (N, M * K)
        x' C_oo^-1 steps.
    grams : ndarray of shape (J, M * K, M * K)
        Steps' C_oo^-1 steps, for each group of people who lack the same regions.
    group : ndarray of shape (N,)
        Group of each person.
    log_density : ndarray of shape (N,)
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
        precision, steps = model.precision, model.flat_steps
        filled, weights = np.where(np.isnan(people), 0.0, people), model.weights
        products, gram = filled @ precision, steps @ weights
        numbers, grams, group = (
            filled @ weights,
            list[FloatArray](),
            np.zeros(len(people), dtype=np.int64),
        )
        log_density = -0.5 * (
            (products * filled).sum(axis=1) + np.linalg.slogdet(model.noise)[1]
        )
        batches = []
        for regions in iterate_missing_regions(people, precision):
            rows, reduced = regions.rows, regions.reduce(weights)
            lost = regions.reduce_people(products[rows])
            numbers[rows] -= (lost[:, None] @ reduced[regions.group])[:, 0]
            group[rows] = sum(map(len, grams)) + regions.group
            grams.append(gram - reduced.transpose(0, 2, 1) @ reduced)
            log_density[rows] += 0.5 * (
                (lost**2).sum(axis=1) - regions.log_determinant[regions.group]
            )
            batches.append(_ReducedBatch(regions, reduced, lost))
        return cls(
            numbers=numbers,
            grams=np.concatenate(grams),
            group=group,
            log_density=log_density,
            batches=batches,
        )

    def compute_probabilities(
        self, model: TrajectoryModel
    ) -> tuple[FloatArray, FloatArray]:
        """Return the probability of each point (N, G), and the log-likelihood relative
        to a control (N,).
        """
        offsets = compute_offsets(
            self.grams, compute_log_copula(model.correlation), model.basis_products
        )
        return compute_group_probabilities(
            self.numbers, self.group, offsets, model.point_basis
        )


def compute_log_likelihood(patients: FloatArray, model: TrajectoryModel) -> FloatArray:
    """Return the log-likelihood (N,) of each patient (N, R), up to a constant that no
    model changes.
    """
    is_complete = find_complete_rows(patients)
    if is_complete.all():
        return _compute_complete_likelihood(patients, model)
    likelihoods = np.empty(len(patients))
    likelihoods[is_complete] = _compute_complete_likelihood(
        patients[is_complete], model
    )
    parts = []
    for part in _split_into_chunks(patients[~is_complete], len(model.point_basis)):
        measured = _MeasuredRegions.compute(part, model)
        parts.append(measured.compute_probabilities(model)[1] + measured.log_density)
    likelihoods[~is_complete] = np.concatenate(parts)
    return likelihoods


def _compute_complete_likelihood(
    patients: FloatArray, model: TrajectoryModel
) -> FloatArray:
    root, parts = model.noise_root, [np.zeros(0)]
    for part, summary in summarise_people(patients, model.weights, model.posterior):
        white = solve_triangular(root, part.T, lower=True, check_finite=False)
        parts.append(summary.log_sum - 0.5 * (white**2).sum(axis=0))
    return np.asarray(np.concatenate(parts) - np.log(np.diag(root)).sum())


def compute_log_ratio(people: FloatArray, model: TrajectoryModel) -> FloatArray:
    """Return log p(x | patient) - log N(x; 0, C) of people (N, R), by their measured
    regions alone, (N,).
    """
    is_complete, ratios = find_complete_rows(people), np.empty(len(people))
    complete = summarise_people(people[is_complete], model.weights, model.posterior)
    ratios[is_complete] = np.concatenate(
        [np.zeros(0), *(summary.log_sum for _, summary in complete)]
    )
    incomplete = _split_into_chunks(people[~is_complete], len(model.point_basis))
    parts = [
        _MeasuredRegions.compute(part, model).compute_probabilities(model)[1]
        for part in incomplete
    ]
    ratios[~is_complete] = np.concatenate([np.zeros(0), *parts])
    return ratios


def compute_head_likelihood(head: MemberHead, prepared: FloatArray) -> FloatArray:
    """Return the log-likelihood (N,) of prepared patients (N, R) under the model of a
    head, up to a constant.
    """
    assert isinstance(head, TrajectoryHead)
    noise = np.asarray(np.linalg.inv(head.precision))
    model = TrajectoryModel(
        steps=head.steps,
        noise=noise,
        correlation=head.correlation,
        common=head.steps.mean(axis=2),
        interaction=head.get_interaction(),
    )
    return compute_log_likelihood(head.prepare(prepared), model)


def _compute_second_moments(
    point_weights: FloatArray, model: TrajectoryModel
) -> FloatArray:
    """Return E[basis functions'] of each group (J, M * K, T), from its weights of the
    points (J, G).
    """
    basis, functions = model.point_basis, model.functions
    if model.interaction is not None:
        products = (basis[:, :, None] * functions[:, None, :]).reshape(len(basis), -1)
        return np.asarray(
            (point_weights @ products).reshape(-1, basis.shape[1], functions.shape[1])
        )
    rows, columns, products = model.basis_products
    moments = np.empty((len(point_weights), basis.shape[1], basis.shape[1]))
    one_side = point_weights @ products.T * np.where(rows == columns, 1.0, 0.5)
    moments[:, rows, columns] = one_side
    moments[:, columns, rows] = one_side
    return moments


def summarise_people(
    people: FloatArray,
    weights: FloatArray,
    posterior: SeverityPosterior,
    functions: FloatArray | None = None,
) -> Iterator[tuple[FloatArray, PosteriorSummary]]:
    """Yield people (N, R) in chunks, each with the summary of its posteriors.

    Parameters
    ----------
    weights : ndarray of shape (R, M * K)
    functions : ndarray of shape (G, T) or None
    """
    for part in _split_into_chunks(people, len(posterior.points)):
        yield part, posterior.summarise(part @ weights, functions)


def _split_into_chunks(people: FloatArray, n_points: int) -> Iterator[FloatArray]:
    """Yield people (N, R) in chunks whose posteriors fit into memory."""
    size = max(1, _MAX_PROBABILITIES // n_points)
    for start in range(0, len(people), size):
        yield people[start : start + size]


class CurveSums(NamedTuple):
    """What one step of EM needs.

    Attributes
    ----------
    patients : PatientSums
    controls : ControlSums
    likelihood : float
        Mean log-likelihood of held-out patients. NaN without any.
    """

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

        Parameters
        ----------
        scatters : tuple of ndarray of shape (R, R) or None
            Sums of x x' over controls and over patients, if they are known. They
            are not used where cells are missing.
        """
        likelihood = float("nan")
        if held_out is not None and len(held_out):
            likelihood = float(compute_log_likelihood(held_out, model).mean())
        sums = PatientSums.compute(patients, model, scatters[1])
        return cls(sums, ControlSums.compute(controls, model, scatters[0]), likelihood)


@dataclass(frozen=True, eq=False)
class CurveQuestion(Question[CurveSums]):
    """Asks for the `CurveSums` of a set of people under a model.

    Attributes
    ----------
    people : PeopleSet
    held_out : PeopleSet or None
        Set of the held-out people, if any.
    model : TrajectoryModel
    """

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
        return CurveSums.compute(
            self.model,
            people.select(part, 0),
            people.select(part, 1),
            held_out,
            scatters,
        )
