"""R-indices of the consensus of members, block by block, also of people who lack
regions.

Members with patterns as curves have a posterior given the measured regions
(`TrajectoryHead.leave_out`). For all other members, missing regions are what the
measured ones predict in the training people. Shape letters: N people, B people of a
block, R regions, M patterns, S members, Q missing regions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial, reduce
from typing import NamedTuple, Self

import numpy as np

from rindices._typing import AnyArray, BoolArray, FloatArray, IntArray
from rindices.blocks import BLOCK_SIZE, apply_in_blocks
from rindices.errors import ModelError
from rindices.learners.inference import (
    MemberHead,
    TrajectoryHead,
    make_inference_function,
)
from rindices.learners.missing_cells import (
    fill_missing_cells,
    find_complete_rows,
    group_by_missing_cells,
)
from rindices.model.file import ModelContent
from rindices.model.fused import FusedMembers, order_members
from rindices.model.unusual import TrainingDistribution
from rindices.preprocess.standardise import CONTROL_MEAN

_SMALL_BLOCK_SIZE = 128  # many groups of people who lack the same regions are small
_MAX_KEPT = 500  # sets of missing regions
_N_DRAWS = 512
HEALTHY_SHARE = 0.95
"""Share of the simulated healthy people, from the lowest index on, to whom people who
lack regions are mapped.
"""


@dataclass(frozen=True, kw_only=True)
class ConsensusResult:
    """R-indices of N people.

    Attributes
    ----------
    indices : ndarray of shape (N, M)
    variance : ndarray of shape (N, M)
        Their variance among members.
    distances : ndarray of shape (N,) or None
        From the training people. None if the model has no distances of them.
    added : ndarray of shape (N, M) or None
        Variance over the possible values of missing regions. None if nothing is
        missing.
    is_complete : ndarray of shape (N,)
        Whether the person lacks no region.
    is_suspect : ndarray of shape (N,)
        Whether a cell of the person may be wrong. True where nobody has looked.
    """

    indices: FloatArray
    variance: FloatArray
    distances: FloatArray | None
    added: FloatArray | None
    is_complete: BoolArray
    is_suspect: BoolArray

    def replace_rows(self, rows: IntArray, other: Self) -> Self:
        """Return the result with the R-indices of some people (K,) from another; how
        far they are from the training people stays.
        """
        none = np.zeros_like(self.indices)
        added = none if self.added is None else self.added.copy()
        added[rows] = 0.0 if other.added is None else other.added
        result = replace(
            self,
            indices=self.indices.copy(),
            variance=self.variance.copy(),
            added=added,
            is_complete=self.is_complete.copy(),
        )
        result.indices[rows] = other.indices
        result.variance[rows] = other.variance
        result.is_complete[rows] = other.is_complete
        return result


@dataclass(frozen=True, eq=False)
class ConsensusInference:
    """Computes the R-indices of a model.

    People are given as the inputs of `Preprocessing.prepare_block`: volumes (N, R),
    design (N, P) and, if sites are harmonised, the position of each site (N,).

    Attributes
    ----------
    model : ModelContent
    """

    model: ModelContent

    def infer_members(self, inputs: Sequence[AnyArray]) -> FloatArray:
        """Return each member's R-indices (S, N, M), with patterns in the order of the
        consensus.
        """
        members = _apply_by_missing(self._infer_block, inputs)
        return members.reshape(len(members), len(self.model.orders), -1).transpose(
            1, 0, 2
        )

    def compute_indices(
        self, inputs: Sequence[AnyArray], weights: FloatArray | None = None
    ) -> ConsensusResult:
        """Return R-indices in one pass.

        Parameters
        ----------
        weights : ndarray of shape (N, S) or None
            Weight of each member in a person's R-index, which is NaN if all are 0.
            Left out, all members count alike.
        """
        is_complete, n_patterns = find_complete_rows(inputs[0]), self.model.n_patterns
        arrays = [
            *inputs,
            np.empty((len(is_complete), 0)) if weights is None else weights,
        ]
        columns = _apply_by_missing(self._compute_block, arrays)
        indices, variance, added, others = np.split(
            columns, n_patterns * np.arange(1, 4), axis=1
        )
        return ConsensusResult(
            indices=indices,
            variance=variance,
            distances=others[:, 0] if self.model.has_distances else None,
            added=None if is_complete.all() else added,
            is_complete=is_complete,
            is_suspect=others[:, -1] > 0.0,
        )

    def compute_distances(self, inputs: Sequence[AnyArray]) -> FloatArray:
        """Return the distances (N,) of people from the training people."""
        return _apply_by_missing(self._measure_block, inputs)[:, 0]

    def _measure_block(
        self, missing: IntArray | None, volumes: FloatArray, *others: AnyArray
    ) -> FloatArray:
        """Return the distances (B, 1) of people who lack the regions ``missing``, if
        any.
        """
        assert self.model.training is not None
        values = self.model.preprocessing.prepare_block(volumes, *others)
        return compute_measured_distances(values, missing, self.model.training)[:, None]

    def _prepare_for_members(
        self, scaled: FloatArray, *others: AnyArray
    ) -> list[FloatArray]:
        """Return people (B, R) as each member takes them, or once if members share
        their preparation.
        """
        pipelines = self.model.pipelines or (self.model.preprocessing,)
        return [each.prepare_scaled(scaled, *others) for each in pipelines]

    def _infer_block(
        self, missing: IntArray | None, volumes: FloatArray, *others: AnyArray
    ) -> FloatArray:
        """Return the R-indices of all members (B, S * M); these people lack the regions
        ``missing``, if any.
        """
        scaled = self.model.preprocessing.change_scale(volumes)
        members = self._compute_members(missing, scaled, *others)[0]
        return np.concatenate([each.T for each in members]).T

    def _infer_members(
        self, missing: IntArray | None, prepared: Sequence[FloatArray]
    ) -> FloatArray:
        """Return the R-indices (S, B, M) of people who lack some regions, in the order
        of the consensus.
        """
        columns, orders = self._leave_out(missing).infer(prepared), self.model.orders
        return order_members(
            columns.T.reshape(len(orders), -1, columns.shape[0]), orders
        )

    def _compute_block(
        self, missing: IntArray | None, volumes: FloatArray, *others: AnyArray
    ) -> FloatArray:
        """Return R-indices, their variance among members, their added variance and the
        distance, and whether a cell may be wrong, (B, 3 M + 2); models without
        distances have one column less.

        These people lack the regions ``missing``, if any. The last argument has the
        weights of members (B, S), or (B, 0).
        """
        *columns, weights = others
        scaled = self.model.preprocessing.change_scale(volumes)
        members, distances = self._compute_members(missing, scaled, *columns)
        added_variance = self._leave_out(missing).added_variance
        mean = average_members(members)
        indices = average_weighted(members, weights) if weights.shape[1] else mean
        added = np.broadcast_to(added_variance[list(self.model.orders[0])], mean.shape)
        variance = average_members(np.square(members - mean))
        return np.concatenate([indices.T, variance.T, added.T, distances]).T

    def _compute_members(
        self, missing: IntArray | None, scaled: FloatArray, *columns: AnyArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the R-indices of members (S, B, M) in the order of the consensus, and
        the distance, if there is any, and whether a cell may be wrong, (2, B) or (1,
        B).
        """
        fused = None if missing is not None else self._fused
        if fused is not None:
            result = fused.compute(scaled, columns[0])
            return order_members(result.members, self.model.orders), result.checks
        prepared = self._prepare_for_members(scaled, *columns)
        preprocessing, training = self.model.preprocessing, self.model.training
        checks = [np.ones(len(scaled))]
        if training is not None and self.model.has_distances:
            values = (
                preprocessing.prepare_scaled(scaled, *columns)
                if self.model.pipelines
                else prepared[0]
            )
            checks.insert(0, compute_measured_distances(values, missing, training))
        return self._infer_members(missing, prepared), np.stack(checks)

    @cached_property
    def _fused(self) -> FusedMembers | None:
        return FusedMembers.build(self.model)

    def _leave_out(self, missing: IntArray | None) -> "MeasuredInference":
        """Return the inference without some regions."""
        return (
            self._complete_inference
            if missing is None
            else self._infer_without(missing.tobytes())
        )

    @cached_property
    def _infer_without(self) -> "Callable[[bytes], MeasuredInference]":
        """Makes the inference without some regions, given by the bytes of their
        positions, once for all people.
        """

        def make(positions: bytes) -> MeasuredInference:
            return make_measured_inference(
                self.model.heads, np.frombuffer(positions, np.intp), self._drawn_people
            )

        return lru_cache(_MAX_KEPT)(make)

    @cached_property
    def _drawn_people(self) -> "SimulatedPeople | None":
        heads, training = self.model.heads, self.model.training
        if training is None or all(isinstance(head, TrajectoryHead) for head in heads):
            return None
        return SimulatedPeople.draw(heads, training)

    @cached_property
    def _complete_inference(self) -> "MeasuredInference":
        return MeasuredInference(
            make_inference_function(self.model.heads), np.zeros(self.model.n_patterns)
        )


def _apply_by_missing(
    compute: Callable[..., FloatArray], arrays: Sequence[AnyArray]
) -> FloatArray:
    """Apply a function of missing regions and people block by block, to people who lack
    the same regions together.
    """
    is_complete = find_complete_rows(arrays[0])
    if is_complete.all():
        return apply_in_blocks(partial(compute, None), *arrays)
    groups: list[tuple[IntArray, IntArray | None]] = [
        *([(np.flatnonzero(is_complete), None)] if is_complete.any() else []),
        *group_by_missing_cells(arrays[0]),
    ]
    order = np.concatenate([rows for rows, _ in groups])
    people = [
        np.ascontiguousarray(array[order]) for array in arrays
    ]  # groups one after the other
    result, start = [], 0
    for rows, missing in groups:
        part, start = slice(start, start + len(rows)), start + len(rows)
        block_size = BLOCK_SIZE if missing is None else _SMALL_BLOCK_SIZE
        blocks = (array[part] for array in people)
        result.append(
            apply_in_blocks(partial(compute, missing), *blocks, block_size=block_size)
        )
    return np.concatenate(result)[np.argsort(order)]


def average_members(members: FloatArray) -> FloatArray:
    """Return the mean (N, M) of members (S, N, M), summed in the same order for any N,
    unlike `numpy.mean`.
    """
    return np.asarray(reduce(np.add, members) / len(members))


def average_weighted(members: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the weighted mean (N, M) of members (S, N, M), with weights (N, S); NaN
    for weights of sum 0.
    """
    total = weights.sum(axis=1)[:, None]
    sums = np.einsum("snm,ns->nm", members, weights)
    return np.asarray(
        np.divide(sums, total, out=np.full_like(sums, np.nan), where=total > 0)
    )


class IndexMap(NamedTuple):
    """Map of the R-indices of people who lack regions to those of people who have all,
    which keeps their order.

    The posterior mean of a person with less information is nearer to the mean of
    patients. The map gives healthy people the distribution that healthy people without
    missing regions have; above most of them, it gives patients theirs. Each R-index of
    each member has a map of its own.

    Attributes
    ----------
    reduced, complete : ndarray of shape (M, K)
        R-indices of simulated people, ascending, without and with the missing
        regions.
    """

    reduced: FloatArray
    complete: FloatArray

    @classmethod
    def fit(cls, reduced: FloatArray, complete: FloatArray) -> Self:
        """Fit the map to healthy people and patients (2, N, M)."""
        n_people = reduced.shape[1]
        n_healthy = int(HEALTHY_SHARE * n_people)
        sides = [
            np.concatenate([healthy[:n_healthy], patients]).T
            for healthy, patients in (
                np.sort(side, axis=1) for side in (reduced, complete)
            )
        ]
        is_used = (np.arange(n_healthy + n_people) < n_healthy) | (
            sides[0] > sides[0][:, n_healthy - 1, None]
        )
        # knots that are not used repeat the one before them
        return cls(
            *(
                np.maximum.accumulate(np.where(is_used, side, -np.inf), axis=1)
                for side in sides
            )
        )

    def apply(self, indices: FloatArray) -> FloatArray:
        """Return the R-indices (..., M) of people as if they had all regions; beyond
        the knots they are shifted.
        """
        mapped = np.empty_like(indices)
        for k, (knots, values) in enumerate(
            zip(self.reduced, self.complete, strict=True)
        ):
            own = indices[..., k]
            mapped[..., k] = (
                np.interp(own, knots, values) + own - np.clip(own, knots[0], knots[-1])
            )
        return mapped


class MeasuredInference(NamedTuple):
    """Inference for people who all lack the same regions.

    Attributes
    ----------
    infer : callable
        Maps people, prepared for each member (N, R) or once for all, to the
        R-indices of all members (N, S * M), as if nobody lacked a region.
    added_variance : ndarray of shape (M,)
        Mean variance that the R-indices of the first member would have over the
        possible values of missing regions.
    """

    infer: Callable[[Sequence[FloatArray]], FloatArray]
    added_variance: FloatArray


@dataclass(frozen=True, kw_only=True)
class SimulatedPeople:
    """Simulated people of a model, for members without patterns as curves.

    Attributes
    ----------
    training : TrainingDistribution
        Distribution of the training people.
    noise : ndarray of shape (N, R)
        Standard normal.
    people : ndarray of shape (2, N, R)
        Healthy people, and people of the training.
    indices : ndarray of shape (2, N, S * M)
        Their R-indices.
    """

    training: TrainingDistribution
    noise: FloatArray
    people: FloatArray
    indices: FloatArray

    @classmethod
    def draw(cls, heads: Sequence[MemberHead], training: TrainingDistribution) -> Self:
        """Draw people who vary as those of the training."""
        noise, infer = (
            draw_training_noise(len(training.mean)),
            make_inference_function(heads),
        )
        deviations = noise @ np.linalg.inv(training.root)
        people = np.stack([CONTROL_MEAN + deviations, training.mean + deviations])
        return cls(
            training=training,
            noise=noise,
            people=people,
            indices=np.stack([infer([group]) for group in people]),
        )


def make_measured_inference(
    heads: Sequence[MemberHead], missing: IntArray, drawn: SimulatedPeople | None
) -> MeasuredInference:
    """Return the inference for people who lack some regions.

    Parameters
    ----------
    missing : ndarray of shape (Q,)
        Positions of the missing regions.
    drawn : SimulatedPeople or None
        Needed for members without patterns as curves.
    """
    staged = [head for head in heads if isinstance(head, TrajectoryHead)]
    if len(staged) == len(heads):
        without = [head.leave_out(missing) for head in staged]
        infer_staged = make_inference_function(without)
        added = np.maximum(
            without[0].expected_variance - staged[0].expected_variance, 0.0
        )
        simulated = (
            np.concatenate([head.simulated_indices for head in each], axis=2)
            for each in (without, staged)
        )
        staged_map = IndexMap.fit(*simulated)

        def infer_without(values: Sequence[FloatArray]) -> FloatArray:
            filled = [each.copy() for each in values]
            for each, head in zip(filled, staged, strict=False):
                each[:, missing] = head.control_mean[missing]
            return staged_map.apply(infer_staged(filled))

        return MeasuredInference(infer_without, added)
    if drawn is None:
        what = "this model does not know how regions vary together, so it needs all of them"
        cure = "leave out people who lack a region (--on-missing drop), or give all regions"
        raise ModelError(f"{what}: {cure}.")
    training, infer = drawn.training, make_inference_function(heads)
    filled = [fill_regions(people, missing, training) for people in drawn.people]
    reduced = np.stack([infer([people]) for people in filled])
    index_map, possible = IndexMap.fit(reduced, drawn.indices), filled[1].copy()
    root = np.linalg.cholesky(training.precision[np.ix_(missing, missing)])
    possible[:, missing] += drawn.noise[:, missing] @ np.linalg.inv(
        root
    )  # the missing regions vary as L^-T L^-1
    first = heads[0].infer(possible)
    added = np.square(first - reduced[1, :, : first.shape[1]]).mean(axis=0)

    def infer_filled(values: Sequence[FloatArray]) -> FloatArray:
        return index_map.apply(
            infer([fill_regions(each, missing, training) for each in values])
        )

    return MeasuredInference(infer_filled, added)


def draw_training_noise(n_regions: int) -> FloatArray:
    """Return the standard normal noise (N, R) of the drawn people."""
    return np.random.default_rng(0).standard_normal((_N_DRAWS, n_regions))


def fill_regions(
    values: FloatArray, missing: IntArray, training: TrainingDistribution
) -> FloatArray:
    """Return people (N, R) whose missing regions are what the others predict in the
    training people.
    """
    deviations = values - training.mean
    deviations[:, missing] = np.nan
    return np.asarray(
        training.mean + fill_missing_cells(deviations, training.precision)[0]
    )


def compute_measured_distances(
    values: FloatArray, missing: IntArray | None, training: TrainingDistribution
) -> FloatArray:
    """Return the distances (N,) of people (N, R) by their measured regions, on the
    scale of all regions.

    The squared distance of R regions has the expectation R, so that of fewer regions is
    scaled up.
    """
    if missing is None:
        return training.compute_block_distances(values)
    n_regions = values.shape[1]
    scale = np.sqrt(n_regions / max(n_regions - len(missing), 1))
    return np.asarray(
        training.compute_block_distances(fill_regions(values, missing, training))
        * scale
    )
