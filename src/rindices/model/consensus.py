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
from rindices.model.novelty import TrainingDistribution
from rindices.preprocess.pipeline import Preprocessing

_MAX_KEPT = 500  # sets of missing regions


class ConsensusResult(NamedTuple):
    """R-indices of N people.

    Attributes
    ----------
    indices : (N, M)
    variance : (N, M)
        Their variance among members.
    distances : (N,) or None
        From the training people; None if the model has no distances of them.
    added : (N, M) or None
        Variance over the possible values of missing regions; None if nothing is missing.
    """

    indices: FloatArray
    variance: FloatArray
    distances: FloatArray | None
    added: FloatArray | None


@dataclass(frozen=True, eq=False)
class ConsensusInference:
    """Computes the R-indices of a model; see `rindices.FittedModel` for its attributes."""

    preprocessing: Preprocessing
    heads: tuple[MemberHead, ...]
    orders: tuple[tuple[int, ...], ...]
    training: TrainingDistribution | None

    @property
    def n_patterns(self) -> int:
        """M."""
        return len(self.orders[0])

    @property
    def has_distances(self) -> bool:
        """Whether distances from the training people can be judged."""
        return self.training is not None and len(self.training.distances) > 0

    def infer_members(self, values: FloatArray) -> FloatArray:
        """Return each member's R-indices (S, N, M) of preprocessed people (N, R)."""
        is_complete = find_complete_rows(values)
        if is_complete.all():
            return self._align_members(apply_in_blocks(self._infer_block, values))
        columns = np.empty((len(values), len(self.heads) * self.n_patterns))
        columns[is_complete] = apply_in_blocks(self._infer_block, values[is_complete])
        for rows, missing in group_by_missing_cells(values):
            columns[rows] = self._leave_out(missing).infer(values[rows])
        return self._align_members(columns)

    def compute_indices(self, inputs: Sequence[AnyArray]) -> ConsensusResult:
        """Return R-indices in one pass; ``inputs`` are those of `Preprocessing.prepare_block`, for N people."""
        is_complete = find_complete_rows(inputs[0])
        added = None
        if is_complete.all():
            columns = apply_in_blocks(self._compute_block, *inputs)
        else:
            columns, added = self._compute_incomplete(inputs, is_complete)
        indices, variance, distances = np.split(columns, [self.n_patterns, 2 * self.n_patterns], axis=1)
        return ConsensusResult(indices, variance, distances[:, 0] if self.has_distances else None, added)

    def _compute_block(self, *block: AnyArray) -> FloatArray:
        """Return R-indices, their variance among members and the distance of a block of people, (B, 2 M + 1)."""
        values = self.preprocessing.prepare_block(*block)
        members = self._align_members(self._infer_block(values))
        indices = average_members(members)
        training = self.training if self.has_distances else None
        distances = [] if training is None else [training.compute_block_distances(values)[None]]
        return np.concatenate([indices.T, average_members(np.square(members - indices)).T, *distances]).T

    def _compute_incomplete(self, inputs: Sequence[AnyArray], is_complete: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return the columns of `_compute_block`, also for people who lack regions, and the added variance (N, M)."""
        columns = np.full((len(is_complete), 2 * self.n_patterns + self.has_distances), np.nan)
        added = np.zeros((len(is_complete), self.n_patterns))
        complete = np.flatnonzero(is_complete)
        if len(complete):
            columns[complete] = apply_in_blocks(self._compute_block, *(take_rows(array, complete) for array in inputs))
        groups = group_by_missing_cells(inputs[0])
        order = np.concatenate([rows for rows, _ in groups])
        people = [np.ascontiguousarray(array[order]) for array in inputs]  # groups one after the other
        start = 0
        for rows, missing in groups:
            compute = partial(self._compute_measured_block, missing)
            part = slice(start, start := start + len(rows))
            block = apply_in_blocks(compute, *(array[part] for array in people), block_size=BLOCK_SIZE)
            columns[rows], added[rows] = np.split(block, [columns.shape[1]], axis=1)
        return columns, added

    def _compute_measured_block(self, missing: IntArray, *block: AnyArray) -> FloatArray:
        """Return the columns of `_compute_block` and the added variance, of people who all lack the same regions."""
        values = self.preprocessing.prepare_block(*block)
        infer, added = self._leave_out(missing)
        members = self._align_members(infer(values))
        indices = average_members(members)
        parts = [indices.T, average_members(np.square(members - indices)).T]
        if self.training is not None and self.has_distances:
            parts.append(compute_measured_distances(values, missing, self.training)[None])
        return np.concatenate([*parts, np.repeat(added[list(self.orders[0])][:, None], len(values), axis=1)]).T

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
    def _infer_block(self) -> Callable[[FloatArray], FloatArray]:
        return make_inference_function(self.heads)


def average_members(members: FloatArray) -> FloatArray:
    """Return the mean (N, M) of members (S, N, M), summed in the same order for any N, unlike `numpy.mean`."""
    return np.asarray(reduce(np.add, members) / len(members))
