"""All members of a model as one matrix product.

Where no member transforms its shifts by a logarithm and sites are not harmonised, all
that a person's regions enter is an affine map of them and of the design: the adjustment
and projection of each member, the distance from the training people, and the residual
of each region given the others. So one product of a block of people replaces a
preparation for each member. People are on the last axis. Shape letters: S members, B
people of a block, R regions, P columns of the design, M patterns, K numbers of a
person, T different ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from rindices._typing import FloatArray, IntArray
from rindices.learners.inference import (
    MemberHead,
    ShiftHead,
    TrajectoryHead,
)
from rindices.learners.outlying_measurements import CellScreen
from rindices.learners.severity_posterior import compute_member_means
from rindices.model.file import ModelContent
from rindices.preprocess.pipeline import Preprocessing
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD

_MAX_CONDITION = 1e5
"""Condition of the precision above which a distance from one product has lost digits.
"""
_SAME_ROW = 1e-13
"""Relative difference up to which a row of weights is a multiple of the one before: the
steps of a proportional pattern are.
"""


class FusedResult(NamedTuple):
    """What a block of people has by one product.

    Attributes
    ----------
    members : ndarray of shape (S, M, B)
        R-indices of each member, in its own order.
    checks : ndarray of shape (2, B) or (1, B)
        Distance from the training people, and 1 where a cell may be wrong, else 0. A
        model without distances has zeros alone.
    """

    members: FloatArray
    checks: FloatArray


class _Base(NamedTuple):
    """How regions are standardised before the product: ``scale * volumes - effect @
    (design, 1)``.

    Attributes
    ----------
    scale : ndarray of shape (R,)
    effect : ndarray of shape (R, P + 1)
    zero : ndarray of shape (R,)
        Prepared value of a region that is 0 after the standardisation.
    """

    scale: FloatArray
    effect: FloatArray
    zero: FloatArray


@dataclass(frozen=True, kw_only=True)
class FusedMembers:
    """The product of a model, and what becomes of it.

    Attributes
    ----------
    heads : tuple of ShiftHead
    scale : ndarray of shape (R,)
        By which volumes on the scale of their adjustment are multiplied.
    centre : ndarray of shape (P,)
        Design of the average control.
    effect : ndarray of shape (R, P + 1)
        Of the design and of 1, which is subtracted.
    weights : ndarray of shape (T + R, R + P + 1)
        Of the standardised regions, the design and 1. The last R rows are residuals; a
        model without distances has none.
    columns : ndarray of shape (S * K,)
        Which of the T numbers each number of a member is a multiple of.
    factors : ndarray of shape (S * K,)
    screen : CellScreen or None
        None in a model without distances.
    """

    heads: tuple[ShiftHead, ...]
    scale: FloatArray
    centre: FloatArray
    effect: FloatArray
    weights: FloatArray
    columns: IntArray
    factors: FloatArray
    screen: CellScreen | None

    @classmethod
    def build(cls, model: ModelContent) -> Self | None:
        """Build the product of a model; None if there is none."""
        pipelines = model.pipelines or (model.preprocessing,)
        heads = _find_affine_heads(model.heads)
        if len(heads) < len(model.heads) or any(
            each.harmoniser is not None for each in (model.preprocessing, *pipelines)
        ):
            return None
        # of a model that was altered
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            screen = None
            if model.training is not None and model.has_distances:
                screen = model.training.make_screen()
                if not screen.compute_condition() < _MAX_CONDITION:
                    return None
            base = _make_base(model, screen)
            parts = [
                _project(head, pipelines[k % len(pipelines)], model.preprocessing, base)
                for k, head in enumerate(heads)
            ]
        weights, columns, factors = _join_proportional_rows(np.concatenate(parts))
        if screen is not None:
            n_columns = base.effect.shape[1]
            residuals = np.pad(screen.partial, ((0, 0), (0, n_columns)))
            weights = np.concatenate([weights, residuals])
        if not all(np.isfinite(array).all() for array in (*base, weights)):
            return None
        return cls(
            heads=tuple(heads),
            scale=base.scale,
            centre=model.preprocessing.residualiser.centre,
            effect=base.effect,
            weights=weights,
            columns=columns,
            factors=factors,
            screen=screen,
        )

    def compute(self, volumes: FloatArray, design: FloatArray) -> FusedResult:
        """Return what a block of people has.

        Parameters
        ----------
        volumes : ndarray of shape (B, R)
            On the scale on which they are adjusted.
        design : ndarray of shape (B, P)
        """
        n_regions, n_people = len(self.scale), len(volumes)
        people = np.empty((self.weights.shape[1], n_people))
        regions, columns = people[:n_regions], people[n_regions:]
        np.subtract(design.T, self.centre[:, None], out=columns[:-1])
        columns[-1] = 1.0
        np.multiply(volumes.T, self.scale[:, None], out=regions)
        regions -= self.effect @ columns
        product = self.weights @ people
        checks = np.zeros((1, n_people))
        if self.screen is not None:
            product, residuals = np.split(product, [-n_regions])
            squares = np.einsum("rb,rb->b", regions, residuals)
            is_suspect = self.screen.find_suspects(regions, residuals)
            checks = np.stack([np.sqrt(squares), is_suspect])
        return FusedResult(self._finish(product), checks)

    def _finish(self, numbers: FloatArray) -> FloatArray:
        """Return R-indices (S, M, B) of the different numbers (T, B)."""
        n_members, n_numbers = len(self.heads), len(self.columns) // len(self.heads)
        shape = (n_members, n_numbers, numbers.shape[1])
        by_member = (numbers[self.columns] * self.factors[:, None]).reshape(shape)
        curved = [head for head in self.heads if isinstance(head, TrajectoryHead)]
        if not curved:  # R-indices of contrastive heads are their numbers
            return by_member
        return compute_member_means([head.posterior for head in curved], by_member)


def _find_affine_heads(heads: Sequence[MemberHead]) -> list[ShiftHead]:
    """Return the heads of one kind that take an affine map of prepared people."""
    return [
        head
        for head in heads
        if isinstance(head, ShiftHead) and head.is_affine and head.kind == heads[0].kind
    ]


def _make_base(model: ModelContent, screen: CellScreen | None) -> _Base:
    """Return how regions are standardised: as the comparison of cells takes them, else
    to controls.
    """
    residualiser, standardiser = (
        model.preprocessing.residualiser,
        model.preprocessing.standardiser,
    )
    zero, unit = np.full(len(standardiser.sd), CONTROL_MEAN), np.array(CONTROL_SD)
    if screen is not None and model.training is not None:
        zero, unit = model.training.mean, screen.unit
    scale = CONTROL_SD / standardiser.sd / unit
    constant = (standardiser.mean * CONTROL_SD / standardiser.sd - CONTROL_MEAN) + zero
    effect = np.column_stack([(residualiser.coefficients * scale).T, constant / unit])
    return _Base(scale, effect, zero)


def _project(
    head: ShiftHead, pipeline: Preprocessing, common: Preprocessing, base: _Base
) -> FloatArray:
    """Return the rows (K, R + P + 1) of a member.

    Its preparation of the standardised regions is written as a difference from the
    common one: the terms that would cancel each other are left out.
    """
    own, shared = pipeline.residualiser, common.residualiser
    factor = CONTROL_SD / pipeline.standardiser.sd
    own_unit = CONTROL_SD / common.standardiser.sd
    effect = (shared.coefficients - own.coefficients) * factor
    constant = CONTROL_MEAN + factor * (
        common.standardiser.mean
        - pipeline.standardiser.mean
        + (base.zero - CONTROL_MEAN) / own_unit
        + (own.centre - shared.centre) @ own.coefficients
    )
    weights, shift = head.fold_projection()
    return np.column_stack(
        [
            (weights * (factor / base.scale)[:, None]).T,
            (effect @ weights).T,
            constant @ weights - shift,
        ]
    )


def _join_proportional_rows(
    rows: FloatArray,
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Return the rows (T, ...) of which neighbours are no multiples, of rows (S * K,
    ...); which of them each is a multiple of, and the factors.
    """
    kept, columns, factors = [rows[0]], [0], [1.0]
    for row in rows[1:]:
        size = float(kept[-1] @ kept[-1])
        factor = float(row @ kept[-1]) / size if size > 0 else 0.0
        if not np.abs(row - factor * kept[-1]).max() <= _SAME_ROW * np.abs(row).max():
            kept.append(row)
            factor = 1.0
        columns.append(len(kept) - 1)
        factors.append(factor)
    return np.stack(kept), np.array(columns), np.array(factors)


def order_members(members: FloatArray, orders: Sequence[Sequence[int]]) -> FloatArray:
    """Return R-indices (S, B, M) in the order of the consensus, of those (S, M, B) in
    the order of each member.
    """
    columns = np.array(orders)
    return np.asarray(
        members[np.arange(len(columns))[:, None], columns].transpose(0, 2, 1)
    )
