"""Inference with numpy alone: what a finished learner needs to turn people into R-indices.

A head is a frozen value of plain arrays. Learners infer through the very head that a model file stores, so that
applying a model and fitting it are one numerical path. Shape letters: N people, R regions, M patterns.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Protocol, Self

import numpy as np

from rindices._typing import FloatArray
from rindices.blocks import centred_matmul
from rindices.learners.log_transform import (
    IDENTITY_THRESHOLD,
    apply_log_transform,
    invert_log_transform,
    log_with_tangent,
)
from rindices.preprocess.standardise import CONTROL_SD

SEVERITY_LEVELS = (0.25, 0.5, 0.75, 1.0)
"""Severities at which a member's patterns are recorded."""
LEAKY_RELU_SLOPE = 0.2  # of every leaky ReLU (Tables 3 and 4 of the paper)


def compute_hidden_widths(n_regions: int) -> tuple[int, int]:
    """Return H and L, the widths of the hidden layers: 69 and 34 for the paper's 139 regions."""
    return max(1, n_regions // 2), max(1, n_regions // 4)


class Head(Protocol):
    """Turns prepared people into R-indices."""

    kind: ClassVar[str]

    def infer(self, values: FloatArray) -> FloatArray:
        """(N, R) -> (N, M)."""
        ...

    def apply_change(self, values: FloatArray, change: FloatArray) -> FloatArray:
        """Return people (N, R) after a change (N, R) that is told in control standard deviations of the average."""
        ...

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return the head as plain arrays by name."""
        ...

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, FloatArray]) -> Self:
        """Build from `to_arrays`."""
        ...

    @classmethod
    def shapes(cls, n_regions: int, n_patterns: int) -> dict[str, tuple[int, ...]]:
        """Return the shape that each array must have."""
        ...


class _ArrayFieldsMixin:
    """A dataclass whose fields are arrays, stored under their own names."""

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return the head as plain arrays by name."""
        return {field.name: np.asarray(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, FloatArray]) -> Self:
        """Build from `to_arrays`."""
        return cls(**{field.name: arrays[field.name] for field in fields(cls)})  # type: ignore[arg-type]


@dataclass(frozen=True)
class ContrastiveHead(_ArrayFieldsMixin):
    """Standardise, turn shares into shifts, weigh.

    Attributes
    ----------
    control_mean, control_scale : (R,)
    share : ()
        c of the transform.
    shift_mean, shift_scale : (R,)
        Of the controls after the transform.
    weights : (R, M)
    """

    kind: ClassVar[str] = "contrastive"
    control_mean: FloatArray
    control_scale: FloatArray
    share: FloatArray
    shift_mean: FloatArray
    shift_scale: FloatArray
    weights: FloatArray

    def prepare(self, values: FloatArray) -> FloatArray:
        """Return people as the weights expect them: (N, R) -> (N, R)."""
        shifts = apply_log_transform((values - self.control_mean) / self.control_scale, float(self.share))
        return np.asarray((shifts - self.shift_mean) / self.shift_scale)

    def infer(self, values: FloatArray) -> FloatArray:
        """(N, R) -> (N, M): `prepare` and the weights, in as few steps over the people as can be."""
        share = float(self.share)
        if share < IDENTITY_THRESHOLD:
            scaled = self.weights / (self.shift_scale * self.control_scale)[:, None]
            return centred_matmul(values, scaled, self.control_mean + self.control_scale * self.shift_mean)
        per_unit = share / self.control_scale
        left = values * per_unit
        left += 1.0 - self.control_mean * per_unit
        scaled = self.weights / (self.shift_scale * share)[:, None]
        return centred_matmul(log_with_tangent(left), scaled, share * self.shift_mean)

    def has_same_preparation(self, other: object) -> bool:
        """Return whether another head is one of these and prepares people in the same way."""
        return isinstance(other, ContrastiveHead) and all(
            np.array_equal(getattr(self, field.name), getattr(other, field.name))
            for field in fields(self)
            if field.name != "weights"
        )

    def in_control_sd(self, patterns: FloatArray) -> FloatArray:
        """Undo the transform for the average control: shifts (M, R) -> change in control standard deviations."""
        share = float(self.share)
        typical = invert_log_transform(self.shift_mean, share)
        return np.asarray(invert_log_transform(self.shift_mean + self.shift_scale * patterns, share) - typical)

    def apply_change(self, values: FloatArray, change: FloatArray) -> FloatArray:
        """Return people (N, R) after a change (N, R) that is told in control standard deviations of the average."""
        share = float(self.share)
        shifts = apply_log_transform((values - self.control_mean) / self.control_scale, share)
        moved = (
            shifts + apply_log_transform(invert_log_transform(self.shift_mean, share) + change, share) - self.shift_mean
        )
        return np.asarray(self.control_mean + self.control_scale * invert_log_transform(moved, share))

    @classmethod
    def shapes(cls, n_regions: int, n_patterns: int) -> dict[str, tuple[int, ...]]:
        """Return the shape that each array must have."""
        per_region = ("control_mean", "control_scale", "shift_mean", "shift_scale")
        return dict.fromkeys(per_region, (n_regions,)) | {"share": (), "weights": (n_regions, n_patterns)}


@dataclass(frozen=True)
class SurrealHead(_ArrayFieldsMixin):
    """g = g2 after g1 (Table 4 of the paper); biases of g1 are the last row of its weight.

    Attributes
    ----------
    g1 : (R + 1, M * R)
    g2_weight1, g2_bias1 : (R, H), (1, H)
    g2_weight2, g2_bias2 : (H, L), (1, L)
    g2_weight3, g2_bias3 : (L, 1), (1, 1)
    """

    kind: ClassVar[str] = "surreal"
    g1: FloatArray
    g2_weight1: FloatArray
    g2_bias1: FloatArray
    g2_weight2: FloatArray
    g2_bias2: FloatArray
    g2_weight3: FloatArray
    g2_bias3: FloatArray

    def infer(self, values: FloatArray) -> FloatArray:
        """R = g2(g1(y)): (N, R) -> (N, M)."""
        return np.concatenate(list(self._iterate_blocks(values)), axis=1)

    def _iterate_blocks(self, values: FloatArray) -> Iterator[FloatArray]:
        """Yield g2 of each block of g1, (N, R) -> (N, outputs of g2).

        g1's output is linear and goes straight into g2's first layer, so the two are multiplied once, block by block,
        instead of making M * R numbers for every person.
        """
        regions = self.g2_weight1.shape[0]
        people = leaky_relu(np.asarray(values, dtype=np.float64))
        for block in np.split(self.g1.astype(np.float64), self.g1.shape[1] // regions, axis=1):
            joined = block @ self.g2_weight1
            hidden = leaky_relu(people @ joined[:-1] + (joined[-1] + self.g2_bias1))
            hidden = leaky_relu(hidden @ self.g2_weight2 + self.g2_bias2)
            yield hidden @ self.g2_weight3 + self.g2_bias3

    def apply_change(self, values: FloatArray, change: FloatArray) -> FloatArray:
        """Return people (N, R) after a change (N, R) in control standard deviations."""
        return np.asarray(values + CONTROL_SD * change)

    @classmethod
    def shapes(cls, n_regions: int, n_patterns: int) -> dict[str, tuple[int, ...]]:
        """Return the shape that each array must have."""
        wide, narrow = compute_hidden_widths(n_regions)
        return {
            "g1": (n_regions + 1, n_patterns * n_regions),
            "g2_weight1": (n_regions, wide),
            "g2_bias1": (1, wide),
            "g2_weight2": (wide, narrow),
            "g2_bias2": (1, narrow),
            "g2_weight3": (narrow, 1),
            "g2_bias3": (1, 1),
        }


@dataclass(frozen=True)
class UpstreamHead(SurrealHead):
    """g of the authors' package: g2 gives M numbers for each of the M blocks of g1, and R-indices are their sum.

    Arrays are as in `SurrealHead`, but g2_weight3, g2_bias3 are (L, M), (1, M).
    """

    kind: ClassVar[str] = "published"

    def infer(self, values: FloatArray) -> FloatArray:
        """(N, R) -> (N, M)."""
        return np.asarray(np.sum(list(self._iterate_blocks(values)), axis=0))

    @classmethod
    def shapes(cls, n_regions: int, n_patterns: int) -> dict[str, tuple[int, ...]]:
        """Return the shape that each array must have."""
        narrow = compute_hidden_widths(n_regions)[1]
        last = {"g2_weight3": (narrow, n_patterns), "g2_bias3": (1, n_patterns)}
        return super().shapes(n_regions, n_patterns) | last


def make_inference_function(heads: Sequence[ContrastiveHead | SurrealHead]) -> Callable[[FloatArray], FloatArray]:
    """Return what infers by each of S heads, side by side: (N, R) -> (N, S * M).

    Members of one study straighten people in the same way; then that is done once, and their weights stand side by
    side in one matrix.
    """
    first = heads[0]
    if isinstance(first, ContrastiveHead) and all(first.has_same_preparation(head) for head in heads):
        joined = replace(first, weights=np.concatenate([head.to_arrays()["weights"] for head in heads], axis=1))
        return joined.infer
    return lambda values: np.concatenate([head.infer(values) for head in heads], axis=1)


HEADS_BY_KIND: dict[str, type[ContrastiveHead] | type[SurrealHead]] = {
    kind.kind: kind for kind in (ContrastiveHead, SurrealHead, UpstreamHead)
}


def leaky_relu(x: FloatArray) -> FloatArray:
    """Leaky ReLU of every layer."""
    return np.where(x > 0, x, LEAKY_RELU_SLOPE * x)
