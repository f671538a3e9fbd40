"""Warm starts: the map before D, and f fitted to the linear model."""

from __future__ import annotations

import numpy as np
import torch

from rindices.learners.surreal import networks, supervised_start
from rindices.learners.surreal.networks import append_ones
from tests.learners.surreal.helpers import BRIEF, COHORT, make_data, make_starts, make_warm_state


def test_the_map_before_d_whitens_people_of_its_covariance() -> None:
    conditioner = supervised_start._make_conditioner(COHORT.noise[:24, :24])
    rng = np.random.default_rng(0)
    people = 1 + 0.1 * rng.multivariate_normal(np.zeros(24), COHORT.noise[:24, :24], size=40_000)
    whitened = (append_ones(torch.as_tensor(people)) @ conditioner).numpy()
    np.testing.assert_allclose(whitened[:, -1], 1)
    np.testing.assert_allclose(whitened[:, :-1].mean(axis=0), 0, atol=0.003)
    np.testing.assert_allclose(np.cov(whitened[:, :-1].T), 0.01 * np.eye(24), atol=5e-4)


def test_f_learns_its_start() -> None:
    data = make_data(BRIEF.replace(start_steps=1500))
    starts = make_starts(data, members=(0,))
    state = make_warm_state(data, starts)
    controls = data.shifts[data.y == 0]
    z = np.random.default_rng(0).random((len(controls), 2))
    expected = starts[0].prior.severities(z) @ starts[0].patterns.T
    x = torch.as_tensor(1 + 0.1 * controls, dtype=torch.float32)[None]
    z_rows = append_ones(torch.as_tensor(z, dtype=torch.float32))[None]
    change = networks.apply_transformation(state.stack.weights.networks.f, x, z_rows).change[0]
    error = 10 * change.numpy() - expected
    assert (error**2).mean() < 0.03 * (expected**2).mean()
