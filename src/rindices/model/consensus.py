"""R-indices of the consensus of members, block by block, also of people who lack regions.

Shape letters: N people, B people of a block, R regions, M patterns, S members.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import NamedTuple

import numpy as np

from rindices._typing import AnyArray, BoolArray, FloatArray, IntArray
from rindices.blocks import apply_in_blocks, take_rows
from rindices.learners.inference import MemberHead, make_inference_function
from rindices.learners.missing_cells import find_complete_rows, group_by_missing_cells
from rindices.model.measured import (
    BLOCK_SIZE,
    MeasuredInference,
    compute_measured_distances,
    make_measured_inference,
)
from rindices.model.unusual import TrainingDistribution
from rindices.preprocess.pipeline import Preprocessing

_MAX_KEPT = 500  # sets of missing regions


class ConsensusResult(NamedTuple):
    """R-indices of N people.

    indices (N, M); variance (N, M): their variance among members; distances (N,): from the training people; None if the
    model has no distances of them; added (N, M): variance over the possible values of missing regions; None if nothing
    is missing.
    """

    indices: FloatArray
    variance: FloatArray
    distances: FloatArray | None
    added: FloatArray | None


@dataclass(frozen=True, eq=False)
class ConsensusInference:
    """Computes the R-indices of a model; see `rindices.FittedModel` for its attributes.

    People are given as the inputs of `Preprocessing.prepare_block`: volumes (N, R), design (N, P) and, if sites are
    harmonised, the position of each site (N,).
    """

    preprocessing: Preprocessing
    heads: tuple[MemberHead, ...]
    orders: tuple[tuple[int, ...], ...]
    training: TrainingDistribution | None
    pipelines: tuple[Preprocessing, ...] = ()

    @property
    def n_patterns(self) -> int:
        """M."""
        return len(self.orders[0])

    @property
    def has_distances(self) -> bool:
        """Whether distances from the training people can be judged."""
        return self.training is not None and len(self.training.distances) > 0

    def infer_members(self, inputs: Sequence[AnyArray]) -> FloatArray:
        """Return each member's R-indices (S, N, M), with patterns in the order of the consensus."""
        is_complete = find_complete_rows(inputs[0])
        columns = np.empty((len(is_complete), len(self.heads) * self.n_patterns))
        groups = [(np.flatnonzero(is_complete), None), *group_by_missing_cells(inputs[0])]
        for rows, missing in groups:
            if len(rows):
                compute = partial(self._infer_block, missing)
                columns[rows] = apply_in_blocks(compute, *(take_rows(array, rows) for array in inputs))
        return self._align_members(columns)

    def compute_indices(self, inputs: Sequence[AnyArray], weights: FloatArray | None = None) -> ConsensusResult:
        """Return R-indices in one pass.

        weights (N, S): weight of each member in a person's R-index, which is NaN if all are 0. Left out, all members
        count alike.
        """
        is_complete, added = find_complete_rows(inputs[0]), None
        arrays = [*inputs, np.empty((len(is_complete), 0)) if weights is None else weights]
        if is_complete.all():
            columns = apply_in_blocks(partial(self._compute_block, None), *arrays)
        else:
            columns, added = self._compute_incomplete(arrays, is_complete)
        indices, variance, distances = np.split(columns, [self.n_patterns, 2 * self.n_patterns], axis=1)
        return ConsensusResult(indices, variance, distances[:, 0] if self.has_distances else None, added)

    def _prepare_for_members(self, scaled: FloatArray, *others: AnyArray) -> list[FloatArray]:
        """Return people (B, R) as each member takes them, or once if members share their preparation."""
        return [each.prepare_scaled(scaled, *others) for each in self.pipelines or (self.preprocessing,)]

    def _infer_block(self, missing: IntArray | None, volumes: FloatArray, *others: AnyArray) -> FloatArray:
        """Return the R-indices of all members (B, S * M); these people lack the regions ``missing``, if any."""
        infer = self._infer if missing is None else self._leave_out(missing).infer
        return infer(self._prepare_for_members(self.preprocessing.change_scale(volumes), *others))

    def _compute_block(self, missing: IntArray | None, volumes: FloatArray, *others: AnyArray) -> FloatArray:
        """Return R-indices, their variance among members and the distance of a block of people, (B, 2 M + 1).

        These people lack the regions ``missing``, if any. The last argument has the weights of members (B, S), or
        (B, 0).
        """
        *columns, weights = others
        scaled = self.preprocessing.change_scale(volumes)
        prepared = self._prepare_for_members(scaled, *columns)
        infer = self._infer if missing is None else self._leave_out(missing).infer
        members = self._align_members(infer(prepared))
        mean = average_members(members)
        indices = average_weighted(members, weights) if weights.shape[1] else mean
        parts = [indices.T, average_members(np.square(members - mean)).T]
        if self.training is not None and self.has_distances:
            values = self.preprocessing.prepare_scaled(scaled, *columns) if self.pipelines else prepared[0]
            if missing is None:
                parts.append(self.training.compute_block_distances(values)[None])
            else:
                parts.append(compute_measured_distances(values, missing, self.training)[None])
        return np.concatenate(parts).T

    def _compute_incomplete(self, arrays: Sequence[AnyArray], is_complete: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return the columns of `_compute_block`, also for people who lack regions, and the added variance (N, M)."""
        columns = np.full((len(is_complete), 2 * self.n_patterns + self.has_distances), np.nan)
        added = np.zeros((len(is_complete), self.n_patterns))
        complete = np.flatnonzero(is_complete)
        if len(complete):
            people = [take_rows(array, complete) for array in arrays]
            columns[complete] = apply_in_blocks(partial(self._compute_block, None), *people)
        groups = group_by_missing_cells(arrays[0])
        order = np.concatenate([rows for rows, _ in groups])
        people = [np.ascontiguousarray(array[order]) for array in arrays]  # groups one after the other
        start = 0
        for rows, missing in groups:
            part = slice(start, start := start + len(rows))
            compute, blocks = partial(self._compute_block, missing), (array[part] for array in people)
            columns[rows] = apply_in_blocks(compute, *blocks, block_size=BLOCK_SIZE)
            added[rows] = self._leave_out(missing).added_variance[list(self.orders[0])]
        return columns, added

    def _leave_out(self, missing: IntArray) -> MeasuredInference:
        """Return the inference without some regions, made once for all people who lack them."""
        key = missing.tobytes()
        if key not in self._inference_by_missing:
            if len(self._inference_by_missing) >= _MAX_KEPT:
                self._inference_by_missing.clear()
            self._inference_by_missing[key] = make_measured_inference(self.heads, missing, self.training)
        return self._inference_by_missing[key]

    @cached_property
    def _inference_by_missing(self) -> dict[bytes, MeasuredInference]:
        return {}

    def _align_members(self, columns: FloatArray) -> FloatArray:
        """Return the columns of all members (N, S * M) as (S, N, M), with patterns in the order of the consensus."""
        return columns.T[self._aligned_columns].reshape(len(self.orders), self.n_patterns, -1).transpose(0, 2, 1)

    @cached_property
    def _aligned_columns(self) -> IntArray:
        return np.concatenate([member * self.n_patterns + np.array(order) for member, order in enumerate(self.orders)])

    @cached_property
    def _infer(self) -> Callable[[Sequence[FloatArray]], FloatArray]:
        return make_inference_function(self.heads)


def average_members(members: FloatArray) -> FloatArray:
    """Return the mean (N, M) of members (S, N, M), summed in the same order for any N, unlike `numpy.mean`."""
    return np.asarray(reduce(np.add, members) / len(members))


def average_weighted(members: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the weighted mean (N, M) of members (S, N, M), with weights (N, S); NaN for weights of sum 0."""
    total = weights.sum(axis=1)[:, None]
    sums = np.einsum("snm,ns->nm", members, weights)
    return np.asarray(np.divide(sums, total, out=np.full_like(sums, np.nan), where=total > 0))
