"""Batches of controls and patients."""

from __future__ import annotations

import torch

from rindices.learners.surreal.batches import make_batch_sampler


def test_a_pass_visits_each_person_once() -> None:
    controls, patients = torch.arange(10.0)[:, None], 100 + torch.arange(30.0)[:, None]
    batches = make_batch_sampler(controls, patients, members=2)
    streams = [torch.Generator().manual_seed(seed) for seed in (0, 1)]
    people, seen = torch.zeros(2, 10, 2), []
    for _ in range(6):
        batches.fill(people, streams)
        seen.append(people[:, :, 0].clone())
    patients_seen = torch.cat([batch[:, 5:] for batch in seen], dim=1).sort(dim=1).values
    assert torch.equal(patients_seen, (100 + torch.arange(30.0)).repeat(2, 1))
    first_pass = torch.cat([batch[:, :5] for batch in seen[:2]], dim=1)
    assert torch.equal(first_pass.sort(dim=1).values, torch.arange(10.0).repeat(2, 1))
    assert not torch.equal(first_pass[0], first_pass[1])
