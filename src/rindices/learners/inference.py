"""Inference with numpy alone: the arrays that turn people into R-indices.

A head is a frozen dataclass of plain arrays. A learner infers through the same head
that the model file stores, so fitting and applying share one numerical path. Shape
letters: N people, R regions, M patterns.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import Annotated, ClassVar, NamedTuple, Self, get_type_hints

import numpy as np

from rindices._typing import FloatArray, IntArray
from rindices.blocks import shifted_matmul
from rindices.learners.missing_cells import find_complete_rows, iterate_missing_regions
from rindices.learners.severity_posterior import (
    N_STEPS,
    SeverityPosterior,
    compute_group_means,
    compute_growth,
    compute_log_copula,
    compute_step_basis,
)
from rindices.preprocess.standardise import CONTROL_SD

_FILE_NAMES = {"log_constant": "share"}
"""Names of fields in model files, which are those of 0.1.0."""
LOG_FLOOR = 0.1
"""Relative size of a region below which its tangent replaces the logarithm."""
IDENTITY_THRESHOLD = 1e-6
"""Values of c below this one count as 0."""
LOG_CONSTANTS = np.linspace(0.0, 0.3, 31)
"""Values of c that are compared; the coefficient of variation of single brain regions
is 0.05 to 0.25.
"""
_EPSILON = 1e-12
SEVERITY_LEVELS = (0.25, 0.5, 0.75, 1.0)
"""Severities at which a member's patterns are recorded."""
_N_SIMULATED = 128  # healthy people and patients as a model describes them
_IDENTITY_TOLERANCE = 1e-6  # relative to the largest weight
_MIN_EIGENVALUE = 1e-9  # relative to the largest; smaller ones are rounding errors
LEAKY_RELU_SLOPE = 0.2  # of every leaky ReLU (Tables 3 and 4 of the paper)


def apply_log_transform(z: FloatArray, log_constant: float) -> FloatArray:
    """Return log(1 + c z) / c, with its tangent where 1 + c z < 0.1, or z itself for c
    = 0; ``log_constant`` is c.
    """
    return (
        z
        if log_constant < IDENTITY_THRESHOLD
        else log_with_tangent(1.0 + log_constant * z) / log_constant
    )


def log_with_tangent(relative_size: FloatArray) -> FloatArray:
    """Return the logarithm, with its tangent below 0.1. Works in place where all values
    are above 0.1.
    """
    if relative_size.min(initial=LOG_FLOOR) >= LOG_FLOOR:
        return np.log(relative_size, out=relative_size)
    clipped = np.maximum(relative_size, LOG_FLOOR)
    return np.asarray(np.log(clipped) + (relative_size - clipped) / LOG_FLOOR)


def invert_log_transform(t: FloatArray, log_constant: float) -> FloatArray:
    """Invert `apply_log_transform`."""
    if log_constant < IDENTITY_THRESHOLD:
        return t
    clipped = np.maximum(log_constant * t, np.log(LOG_FLOOR))
    relative_size = np.exp(clipped) + (log_constant * t - clipped) * LOG_FLOOR
    return np.asarray((relative_size - 1.0) / log_constant)


class TransformSums(NamedTuple):
    """Sums over people after the log transform of one c: sum and squares (R,) of the
    shifts, and one sum of logs.

    Attributes
    ----------
    total : ndarray
    squares : ndarray
    logs : float
    """

    total: FloatArray
    squares: FloatArray
    logs: float

    @classmethod
    def compute(cls, z: FloatArray, log_constant: float) -> Self:
        """Sum over people (N, R), in control units."""
        shifts, logs = apply_log_transform(z, log_constant), 0.0
        total = shifts.sum(axis=0)
        if (
            1.0 + log_constant * z.min(initial=0.0) >= LOG_FLOOR
        ):  # no tangents, so that the logarithms are known already
            logs = log_constant * float(total.sum())
        elif log_constant >= IDENTITY_THRESHOLD:
            logs = float(np.log(np.maximum(1.0 + log_constant * z, LOG_FLOOR)).sum())
        return cls(total, np.einsum("nr,nr->r", shifts, shifts), logs)

    def compute_scale(self, number: int) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation (R,) of a number of people."""
        mean = self.total / max(number, 1)
        return mean, np.sqrt(np.maximum(self.squares / max(number, 1) - mean**2, 0.0))

    def compute_loss(self, number: int) -> float:
        """Return the negative profile log-likelihood of people whose regions are
        Gaussian after the transform.
        """
        return (
            number
            * float(np.log(self.compute_scale(number)[1] ** 2 + _EPSILON).sum())
            / 2.0
            + self.logs
        )


def find_log_constant(compute_loss: Callable[[int], float]) -> int:
    """Return the position in `LOG_CONSTANTS` of the c whose regions are closest to
    Gaussian within each group.

    It is the composite Box-Cox likelihood. ``compute_loss`` takes a position. Every
    fifth one is tried, then those next to the best.
    """
    losses = {k: compute_loss(k) for k in range(0, len(LOG_CONSTANTS), 5)}
    best = min(losses, key=losses.__getitem__)
    losses |= {
        k: compute_loss(k)
        for k in range(max(best - 4, 0), min(best + 5, len(LOG_CONSTANTS)))
        if k not in losses
    }
    return min(sorted(losses), key=losses.__getitem__)


def fit_log_transform(groups: Sequence[FloatArray]) -> float:
    """Choose c for controls and patients (N, R), in control units; 0 if the identity is
    as likely.
    """
    return float(
        LOG_CONSTANTS[
            find_log_constant(
                lambda k: sum(
                    TransformSums.compute(z, LOG_CONSTANTS[k]).compute_loss(len(z))
                    for z in groups
                )
            )
        ]
    )


def compute_hidden_widths(n_regions: int) -> tuple[int, int]:
    """Return H and L, the widths of the hidden layers: 69 and 34 for the paper's 139
    regions.
    """
    return max(1, n_regions // 2), max(1, n_regions // 4)


@dataclass(frozen=True)
class Head(ABC):
    """Computes R-indices of prepared people.

    Fields are arrays, which are stored under their names, and annotated with the
    letters of their shapes.
    """

    kind: ClassVar[str]

    @abstractmethod
    def infer(self, values: FloatArray) -> FloatArray:
        """Return R-indices (N, M) of prepared people (N, R)."""

    @abstractmethod
    def apply_change(self, values: FloatArray, change: FloatArray) -> FloatArray:
        """Return people (N, R) after a change (N, R), given in control SDs of the
        average control.
        """

    @classmethod
    def shapes(cls, n_regions: int, n_patterns: int) -> dict[str, tuple[int, ...]]:
        """Return the required shape of each array, by name."""
        wide, narrow = compute_hidden_widths(n_regions)
        sizes = {
            "1": 1,
            "R": n_regions,
            "M": n_patterns,
            "K": N_STEPS,
            "H": wide,
            "L": narrow,
            "R+1": n_regions + 1,
        }
        hints = get_type_hints(cls, include_extras=True)
        return {
            _FILE_NAMES.get(each.name, each.name): tuple(
                math.prod(sizes[letter] for letter in axis.split("*"))
                for axis in hints[each.name].__metadata__[0].split()
            )
            for each in fields(cls)
        }

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return the arrays by their names in a model file."""
        return {
            _FILE_NAMES.get(field.name, field.name): np.asarray(
                getattr(self, field.name)
            )
            for field in fields(self)
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, FloatArray]) -> Self:
        """Build a head from the result of `to_arrays`."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: arrays[_FILE_NAMES.get(name, name)] for name in names})


@dataclass(frozen=True, kw_only=True)
class ShiftHead(Head):
    """Base of heads that work on shifts: standardise to controls, apply the log
    transform, standardise again.

    Attributes
    ----------
    control_mean, control_scale : ndarray of shape (R,)
        Mean and standard deviation of the controls.
    log_constant : ndarray
        C of the log transform (`rindices.learners.inference`).
    shift_mean, shift_scale : ndarray of shape (R,)
        Mean and standard deviation of the controls after the log transform.
    weights : ndarray of shape (R, K)
        K numbers of a person are shifts @ weights.
    """

    control_mean: Annotated[FloatArray, "R"]
    control_scale: Annotated[FloatArray, "R"]
    log_constant: Annotated[FloatArray, ""]
    shift_mean: Annotated[FloatArray, "R"]
    shift_scale: Annotated[FloatArray, "R"]
    weights: Annotated[FloatArray, "R M"]

    def prepare(self, values: FloatArray) -> FloatArray:
        """Return the shifts of people, (N, R) -> (N, R)."""
        shifts = apply_log_transform(
            (values - self.control_mean) / self.control_scale, float(self.log_constant)
        )
        return np.asarray((shifts - self.shift_mean) / self.shift_scale)

    @abstractmethod
    def finish(self, numbers: FloatArray) -> FloatArray:
        """Return R-indices (N, M) of the result of `project` (N, K)."""

    def infer(self, values: FloatArray) -> FloatArray:
        """Return R-indices (N, M) of prepared people (N, R)."""
        return self.finish(self.project(values))

    def project(self, values: FloatArray) -> FloatArray:
        """Return ``prepare(values) @ weights`` (N, K), with fewer passes over N."""
        factor, offset, weights, shift = self._folded_arrays
        if self.is_affine:
            return shifted_matmul(values, weights, shift)
        relative_size = values * factor
        relative_size += offset
        return shifted_matmul(log_with_tangent(relative_size), weights, shift)

    @property
    def is_affine(self) -> bool:
        """Whether the numbers are an affine map of prepared people: there is no log
        transform.
        """
        return float(self.log_constant) < IDENTITY_THRESHOLD

    def fold_projection(self) -> tuple[FloatArray, FloatArray]:
        """Return weights (R, K) and shift (K,) with ``project(values)`` = values @
        weights - shift, of an affine head.
        """
        return self._folded_arrays[2:]

    @cached_property
    def _folded_arrays(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Factor (R,) and offset (R,) of the relative size, and the weights (R, K) and
        shift (K,) of `project`.
        """
        log_constant = float(self.log_constant)
        factor = log_constant / self.control_scale
        if log_constant < IDENTITY_THRESHOLD:
            weights = self.weights / (self.shift_scale * self.control_scale)[:, None]
            centre = self.control_mean + self.control_scale * self.shift_mean
        else:
            weights, centre = (
                self.weights / (self.shift_scale * log_constant)[:, None],
                log_constant * self.shift_mean,
            )
        return factor, 1.0 - self.control_mean * factor, weights, centre @ weights

    def has_same_preparation(self, other: object) -> bool:
        """Return whether another head prepares people in the same way."""
        return isinstance(other, ShiftHead) and all(
            np.array_equal(getattr(self, field.name), getattr(other, field.name))
            for field in fields(ShiftHead)
            if field.name != "weights"
        )

    def to_control_sd(self, patterns: FloatArray) -> FloatArray:
        """Convert shifts (M, R) of the average control after the log transform to
        control SDs before it.
        """
        log_constant, mean = float(self.log_constant), self.shift_mean
        changed = invert_log_transform(mean + self.shift_scale * patterns, log_constant)
        return np.asarray(changed - invert_log_transform(mean, log_constant))

    def apply_change(self, values: FloatArray, change: FloatArray) -> FloatArray:
        """Return people (N, R) after a change (N, R), given in control SDs of the
        average control.
        """
        log_constant = float(self.log_constant)
        shifts = apply_log_transform(
            (values - self.control_mean) / self.control_scale, log_constant
        )
        changed_average = apply_log_transform(
            invert_log_transform(self.shift_mean, log_constant) + change, log_constant
        )
        changed = shifts + changed_average - self.shift_mean
        return np.asarray(
            self.control_mean
            + self.control_scale * invert_log_transform(changed, log_constant)
        )


@dataclass(frozen=True, kw_only=True)
class ContrastiveHead(ShiftHead):
    """R-indices are shifts @ weights, (R, M)."""

    kind: ClassVar[str] = "contrastive"

    def finish(self, numbers: FloatArray) -> FloatArray:
        """Return the result of `project` (N, M) as it is."""
        return numbers


@dataclass(frozen=True, kw_only=True)
class TrajectoryHead(ShiftHead):
    """R-indices are posterior means of the severities z, given patterns that are curves
    (`learners.trajectory`).

    Attributes
    ----------
    weights : ndarray of shape (R, M * K)
        C^-1 times the steps, with C the covariance of normal variation.
    steps : ndarray of shape (M, K, R)
        Change of each region in each of K equal steps of severity, in standard
        deviations of the controls' shifts.
    correlation : ndarray of shape (M, M)
        Of the Gaussian copula of the severities.
    precision : ndarray of shape (R, R)
        C^-1, for people who lack regions.
    """

    kind: ClassVar[str] = "trajectory"
    weights: Annotated[FloatArray, "R M*K"]
    steps: Annotated[FloatArray, "M K R"]
    correlation: Annotated[FloatArray, "M M"]
    precision: Annotated[FloatArray, "R R"]

    def find_fault(self) -> str:
        """Return which arrays of a head from a file contradict each other; empty if
        none do.
        """
        weights = self.precision @ self.steps.reshape(self.weights.shape[1], -1).T
        if not np.allclose(
            self.weights,
            weights,
            rtol=0.0,
            atol=_IDENTITY_TOLERANCE * np.abs(weights).max(),
        ):
            return "weights should be precision times steps"
        return (
            ""
            if np.allclose(np.diag(self.correlation), 1.0)
            else "correlation should be 1 with itself"
        )

    @cached_property
    def posterior(self) -> SeverityPosterior:
        """Posterior of the severities, given a person's numbers ``project(values)``."""
        return SeverityPosterior.build(
            self.steps, self.weights, self.correlation, self.get_interaction()
        )

    def get_interaction(self) -> FloatArray | None:
        """Return how the patterns interact (M, M); None where their changes add up."""
        return None

    def finish(self, numbers: FloatArray) -> FloatArray:
        """Return the posterior means (N, M) of the severities, of the result of
        `project` (N, M * K).
        """
        return self.posterior.compute_means(numbers)

    def infer(self, values: FloatArray) -> FloatArray:
        """Return R-indices (N, M) of prepared people (N, R), given the regions that
        each person has.
        """
        is_complete = find_complete_rows(values)
        if is_complete.all():
            return super().infer(values)
        indices = np.empty((len(values), len(self.steps)))
        indices[is_complete] = super().infer(values[is_complete])
        indices[~is_complete] = self._infer_incomplete(values[~is_complete])
        return indices

    def _infer_incomplete(self, values: FloatArray) -> FloatArray:
        """Return R-indices (N, M) of people (N, R) of whom each lacks a region; equal
        to those of `leave_out`.
        """
        shifts = self.prepare(values)
        shifts[np.isnan(shifts)] = 0.0
        numbers, products = shifts @ self.weights, shifts @ self.precision
        gram = self.steps.reshape(self.weights.shape[1], -1) @ self.weights
        indices = np.empty((len(values), len(self.steps)))
        for regions in iterate_missing_regions(values, self.precision):
            reduced, lost = (
                regions.reduce(self.weights),
                regions.reduce_people(products[regions.rows]),
            )
            own = numbers[regions.rows] - (lost[:, None] @ reduced[regions.group])[:, 0]
            grams = gram - reduced.transpose(0, 2, 1) @ reduced
            indices[regions.rows] = compute_group_means(
                own, regions.group, grams, self.correlation, self.get_interaction()
            )
        return indices

    def leave_out(self, missing: IntArray) -> Self:
        """Return the head of people who lack regions (Q,): their posterior given the
        others.

        With P = C^-1, C_oo^-1 times the steps of the others is P times all steps, less
        P_.m P_mm^-1 times their part m. The weights of missing regions become 0, so any
        number may stand in their place.
        """
        inverse = np.linalg.inv(self.precision[np.ix_(missing, missing)])
        weights = self.weights - self.precision[:, missing] @ (
            inverse @ self.weights[missing]
        )
        weights[missing] = 0.0
        return replace(self, weights=weights)

    @cached_property
    def simulated_numbers(self) -> FloatArray:
        """Numbers (2, N, M * K) of healthy people, and of patients, as the model
        describes them.
        """
        gram = self.steps.reshape(self.weights.shape[1], -1) @ self.weights
        points, noise = self.draw_patients()
        values, vectors = np.linalg.eigh(gram)
        root = np.sqrt(np.where(values > _MIN_EIGENVALUE * values[-1], values, 0.0))
        healthy = (
            noise @ (vectors * root) @ vectors.T
        )  # the same for any signs of the vectors
        return np.stack([healthy, healthy + self.posterior.basis[points] @ gram])

    @cached_property
    def simulated_indices(self) -> FloatArray:
        """R-indices (2, N, M) of `simulated_numbers`."""
        return np.stack(
            [
                self.posterior.compute_means(numbers)
                for numbers in self.simulated_numbers
            ]
        )

    @cached_property
    def expected_variance(self) -> FloatArray:
        """Mean posterior variance (M,) of the severities of patients as the model
        describes them.
        """
        return np.asarray(
            self.posterior.compute_variances(self.simulated_numbers[1]).mean(axis=0)
        )

    def draw_patients(self) -> tuple[IntArray, FloatArray]:
        """Return the points of z (N,) and the standard normal noise (N, M * K) of
        `simulated_numbers`.
        """
        return _draw_patients(
            self.correlation.tobytes(), len(self.steps), self.weights.shape[1]
        )

    def compute_curves(self, levels: FloatArray) -> FloatArray:
        """Return the change of each region at severities (Q,), (Q, M, R), in control
        SDs of the average control.
        """
        basis = compute_step_basis(levels[:, None], self.steps.shape[1])
        return np.stack(
            [
                self.to_control_sd(change)
                for change in np.einsum("qk,mkr->qmr", basis, self.steps)
            ]
        )


@lru_cache(
    maxsize=64
)  # people who lack different regions are compared with the same simulated people
def _draw_patients(
    correlation: bytes, n_patterns: int, n_numbers: int
) -> tuple[IntArray, FloatArray]:
    rng = np.random.default_rng(0)
    density = np.exp(
        compute_log_copula(np.frombuffer(correlation).reshape(n_patterns, n_patterns))
    )
    points = rng.choice(len(density), _N_SIMULATED, p=density / density.sum())
    return points, rng.standard_normal((_N_SIMULATED, n_numbers))


@dataclass(frozen=True, kw_only=True)
class InteractingHead(TrajectoryHead):
    """As `TrajectoryHead`, of patterns whose change depends on the severities of the
    others.

    ``interaction`` (M, M) is the relative increase of the change of pattern k at full
    severity of pattern m.

    Attributes
    ----------
    interaction : ndarray of shape (M M)
    """

    kind: ClassVar[str] = "interacting"
    interaction: Annotated[FloatArray, "M M"]

    def get_interaction(self) -> FloatArray | None:
        """Return how the patterns interact (M, M)."""
        return self.interaction

    def compute_curves(self, levels: FloatArray) -> FloatArray:
        """Return the change of each region at severities (Q,), (Q, M, R), if the others
        are of medium severity.
        """
        growth = compute_growth(np.full((1, len(self.steps)), 0.5), self.interaction)[0]
        return TrajectoryHead.compute_curves(
            replace(self, steps=self.steps * growth[:, None, None]), levels
        )


@dataclass(frozen=True, kw_only=True)
class SurrealHead(Head):
    """g = g2 after g1 (Table 4 of the paper).

    g2 gives M numbers for each of the M blocks of g1, and these are summed. The biases
    of g2 have one row.

    Attributes
    ----------
    g1 : ndarray of shape (R + 1, M * R)
        Weights of g1, with its biases as the last row.
    g2_weight1 : ndarray of shape (R, H)
    g2_bias1 : ndarray of shape (1, H)
    g2_weight2 : ndarray of shape (H, L)
    g2_bias2 : ndarray of shape (1, L)
    g2_weight3 : ndarray of shape (L, M)
    g2_bias3 : ndarray of shape (1, M)
    """

    kind: ClassVar[str] = "surreal"
    g1: Annotated[FloatArray, "R+1 M*R"]
    g2_weight1: Annotated[FloatArray, "R H"]
    g2_bias1: Annotated[FloatArray, "1 H"]
    g2_weight2: Annotated[FloatArray, "H L"]
    g2_bias2: Annotated[FloatArray, "1 L"]
    g2_weight3: Annotated[FloatArray, "L M"]
    g2_bias3: Annotated[FloatArray, "1 M"]

    def infer(self, values: FloatArray) -> FloatArray:
        """Return R-indices r = g2(g1(y)) of prepared people, (N, R) -> (N, M).

        g1's output is linear and enters g2's first layer, so the two matrices are
        multiplied once per block. That avoids M * R numbers per person.
        """
        n_patterns = self.g2_bias3.shape[1]
        indices = np.zeros((len(values), n_patterns))
        people = leaky_relu(np.asarray(values, dtype=np.float64))
        for joined in self._iterate_joined_layers():
            hidden = leaky_relu(people @ joined[:-1] + joined[-1])
            hidden = leaky_relu(hidden @ self.g2_weight2 + self.g2_bias2)
            indices += hidden @ self.g2_weight3 + self.g2_bias3
        return indices

    def _iterate_joined_layers(self) -> Iterator[FloatArray]:
        """Yield the product (R + 1, H) of g1 and the first layer of g2 for each block,
        with its biases as the last row.
        """
        n_regions = self.g2_weight1.shape[0]
        n_blocks = self.g1.shape[1] // n_regions
        for block in np.split(self.g1.astype(np.float64), n_blocks, axis=1):
            joined = block @ self.g2_weight1
            joined[-1] += self.g2_bias1[0]
            yield joined

    def join_layers(self) -> dict[str, FloatArray]:
        """Return the layers as `infer` applies them: ``joined`` (M, R + 1, H), then
        weights and biases.
        """
        return {
            "joined": np.stack(list(self._iterate_joined_layers())),
            "weight2": self.g2_weight2,
            "bias2": self.g2_bias2,
            "weight3": self.g2_weight3,
            "bias3": self.g2_bias3,
        }

    def apply_change(self, values: FloatArray, change: FloatArray) -> FloatArray:
        """Return people (N, R) after a change (N, R), given in control SDs."""
        return np.asarray(values + CONTROL_SD * change)


MemberHead = ContrastiveHead | TrajectoryHead | SurrealHead
"""Head of a member of a study."""
HEADS_BY_KIND: dict[str, type[MemberHead]] = {
    head.kind: head
    for head in (ContrastiveHead, TrajectoryHead, InteractingHead, SurrealHead)
}


def make_inference_function(
    heads: Sequence[MemberHead],
) -> Callable[[Sequence[FloatArray]], FloatArray]:
    """Return a function that computes the R-indices of S heads at once, S times (N, R)
    -> (N, S * M).

    Its argument has the people as the pipeline of each member prepares them, or one
    element if members share their preparation. If the heads share theirs too, it is
    done once, and the weights are joined into one matrix.
    """
    shifted = [head for head in heads if isinstance(head, ShiftHead)]
    can_join = len(shifted) == len(heads) and all(
        shifted[0].has_same_preparation(head) for head in shifted
    )
    ends = np.cumsum([head.weights.shape[1] for head in shifted])[:-1]

    def infer(values: Sequence[FloatArray]) -> FloatArray:
        if len(values) == 1 and can_join:
            numbers = np.split(joined.project(values[0]), ends, axis=1)
            parts = [
                head.finish(part) for head, part in zip(shifted, numbers, strict=True)
            ]
        else:
            parts = [
                head.infer(values[k % len(values)]) for k, head in enumerate(heads)
            ]
        return np.concatenate(parts, axis=1)

    if can_join:
        joined = replace(
            shifted[0],
            weights=np.concatenate([head.weights for head in shifted], axis=1),
        )
    return infer


def leaky_relu(x: FloatArray) -> FloatArray:
    """Leaky ReLU of every layer."""
    return np.where(x > 0, x, LEAKY_RELU_SLOPE * x)
