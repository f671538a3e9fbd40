"""Batches of controls and patients: shuffled passes, each member in its own order."""

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
    """Where S members stand in their passes over the people.

    A pass visits each person once, in random order; people left over when no full
    batch remains wait for the next pass. Controls and patients pass at their own pace.

    Parameters
    ----------
    table : Tensor
        Controls, then patients, each row ending in a one, (N, R + 1).
    orders : list of Tensor
        For controls and for patients, rows of ``table`` in the order of the current
        pass, (S, N_cn) and (S, N_pt).
    cursors : list of int
        People already taken from each order.
    unseen : list of Tensor
        For controls and for patients, rows of ``table`` that a member never sees, (S, U_cn) and (S, U_pt).
    """

    table: Tensor
    orders: list[Tensor]
    cursors: list[int]
    unseen: list[Tensor]

    def fill(self, people: Tensor, streams: Sequence[torch.Generator]) -> None:
        """The next batch of every member: B controls, then B patients, (S, 2 B, R + 1)."""
        size = people.shape[1] // 2
        rows = torch.cat([self._next_rows(group, size, streams) for group in (0, 1)], dim=1)
        torch.index_select(self.table, 0, rows.flatten(), out=people.flatten(0, 1))

    def _next_rows(self, group: int, size: int, streams: Sequence[torch.Generator]) -> Tensor:
        order, start = self.orders[group], self.cursors[group]
        if start + size > order.shape[1]:
            self._shuffle(order, streams)
            start = 0
        self.cursors[group] = start + size
        return order[:, start : start + size]

    @staticmethod
    def _shuffle(order: Tensor, streams: Sequence[torch.Generator]) -> None:
        for row, stream in zip(order, streams, strict=True):
            row.copy_(row[torch.randperm(len(row), generator=stream).to(row.device)])

    def keep(self, places: Sequence[int]) -> BatchSampler:
        """The same for only the members at these places of the S axis."""
        index = torch.tensor(list(places), dtype=torch.long, device=self.table.device)
        orders, unseen = ([rows[index] for rows in groups] for groups in (self.orders, self.unseen))
        return BatchSampler(self.table, orders, list(self.cursors), unseen)


def make_batch_sampler(
    controls: Tensor, patients: Tensor, members: int, seats: Sequence[Subsample] | None = None
) -> BatchSampler:
    """Members at the start, before the first shuffle; without seats everyone sees all people.

    Rows of the seats count controls first, then patients.
    """
    table = append_ones(torch.cat([controls, patients]))
    everyone = np.arange(len(table))
    own = seats or [Subsample(everyone, everyone[:0])] * members

    def by_group(rows: Sequence[IntArray]) -> list[Tensor]:
        groups = ([r[r < len(controls)] for r in rows], [r[r >= len(controls)] for r in rows])
        return [torch.as_tensor(np.stack(group), device=table.device) for group in groups]

    orders = by_group([seat.seen for seat in own])
    cursors = [order.shape[1] for order in orders]
    return BatchSampler(table, orders, cursors, by_group([seat.unseen for seat in own]))
