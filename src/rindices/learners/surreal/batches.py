"""Batches of controls and patients: shuffled passes, in an order of each member's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rindices._typing import IntArray
from rindices.learners.subsampling import Subsample
from rindices.learners.surreal.networks import append_ones


@dataclass
class BatchSampler:
    """Position of S members in their passes over the people.

    A pass visits each person once, in random order. People left over when no full batch remains wait for the next
    pass. Controls and patients have separate passes.

    Parameters
    ----------
    table : Tensor
        Controls, then patients, each row ending in a one, (N, R + 1).
    orders : list of Tensor
        For controls and for patients, rows of ``table`` in the order of the current pass, (S, N_cn) and (S, N_pt).
    cursors : list of int
        Number of people already taken from each order.
    unseen : list of Tensor
        For controls and for patients, rows of ``table`` that a member never sees, (S, U_cn) and (S, U_pt).
    """

    table: Tensor
    orders: list[Tensor]
    cursors: list[int]
    unseen: list[Tensor]

    def fill(self, people: Tensor, streams: Sequence[torch.Generator]) -> None:
        """Write the next batch of every member: B controls, then B patients, (S, 2 B, R + 1)."""
        batch = people.shape[1] // 2
        rows = torch.cat([self._next_rows(group, batch, streams) for group in (0, 1)], dim=1)
        torch.index_select(self.table, 0, rows.flatten(), out=people.flatten(0, 1))

    def _next_rows(self, group: int, batch: int, streams: Sequence[torch.Generator]) -> Tensor:
        order, start = self.orders[group], self.cursors[group]
        if start + batch > order.shape[1]:
            for row, stream in zip(order, streams, strict=True):
                row.copy_(row[torch.randperm(len(row), generator=stream).to(row.device)])
            start = 0
        self.cursors[group] = start + batch
        return order[:, start : start + batch]

    def select(self, positions: Sequence[int]) -> BatchSampler:
        """Return the sampler of the members at these positions of the S axis."""
        index = torch.tensor(list(positions), dtype=torch.long, device=self.table.device)
        orders, unseen = ([rows[index] for rows in groups] for groups in (self.orders, self.unseen))
        return BatchSampler(self.table, orders, list(self.cursors), unseen)


def make_batch_sampler(
    controls: Tensor, patients: Tensor, members: int, subsamples: Sequence[Subsample] | None = None
) -> BatchSampler:
    """Return a sampler before the first shuffle; without subsamples every member sees all people.

    Parameters
    ----------
    controls, patients : Tensor
        (N_cn, R) and (N_pt, R).
    members : int
        S.
    subsamples : sequence of Subsample, optional
        People of each member; rows count controls first, then patients.
    """
    table = append_ones(torch.cat([controls, patients]))
    all_rows = np.arange(len(table))
    per_member = subsamples or [Subsample(all_rows, all_rows[:0])] * members

    def split_by_group(rows: Sequence[IntArray]) -> list[Tensor]:
        groups = ([r[r < len(controls)] for r in rows], [r[r >= len(controls)] for r in rows])
        return [torch.as_tensor(np.stack(group), device=table.device) for group in groups]

    orders = split_by_group([subsample.seen for subsample in per_member])
    cursors = [order.shape[1] for order in orders]
    return BatchSampler(table, orders, cursors, split_by_group([subsample.unseen for subsample in per_member]))
