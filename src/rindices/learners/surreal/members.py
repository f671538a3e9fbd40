"""Trained members as the rest of the package knows them: inference and patterns as numpy arrays."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rindices.learners.heads import SEVERITIES, SurrealHead
from rindices.learners.members import Member
from rindices.learners.surreal import networks
from rindices.learners.surreal.group import Plan, Trained, new_group
from rindices.learners.surreal.networks import Transformation, with_one
from rindices.learners.surreal.recipe import from_values
from rindices.learners.surreal.train import advance, train
from rindices.preprocess.standardise import CONTROL_SD


def surreal_members(
    X: NDArray[np.float64],
    y: NDArray[np.intp],
    n_patterns: int,
    numbers: Sequence[int],
    seed: int,
    values: dict[str, Any],
    checkpoint: Path | None = None,
) -> list[Member]:
    """Train one stack of members.

    Parameters
    ----------
    X : (N, R)
        Prepared people; controls have mean 1 and standard deviation 0.1.
    y : (N,)
        0 control, 1 patient.
    values : dict
        The recipe, see :func:`.recipe.as_values`.
    checkpoint : Path, optional
        File to keep the state in while training, and to resume from.
    """
    plan = Plan(n_patterns, from_values(values), seed=seed, members=tuple(numbers), stack=len(numbers))
    trained = train(X[y == 0], X[y == 1], plan, path=checkpoint)
    return [as_member(member, X[y == 0]) for member in trained]


def as_member(trained: Trained, controls: NDArray[np.float64]) -> Member:
    """A trained member with its patterns on these controls, (N, R)."""
    return Member(trained.member, trained.outcome, trained.steps, head_of(trained), patterns_of(trained, controls))


def head_of(trained: Trained) -> SurrealHead:
    """G of a member."""
    weights = {name: tensor.numpy() for name, tensor in trained.weights.items()}
    layers = {f"g2_{kind}{place}": weights[f"g2.{kind}{place}"] for kind in ("weight", "bias") for place in (1, 2, 3)}
    return SurrealHead(g1=weights["g1.weight"], **layers)


@torch.inference_mode()
def patterns_of(trained: Trained, controls: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean change of controls under each pattern alone, (Q, M, R), in control standard deviations."""
    names = [f"f.{name}" for name in Transformation._fields]
    f = Transformation(*(trained.weights[name].double()[None] for name in names))
    n_patterns = trained.weights["f.gate"].shape[0] - 1
    x = torch.as_tensor(controls, dtype=torch.float64)[None]
    curves = []
    for severity in SEVERITIES:
        alone = with_one(severity * torch.eye(n_patterns, dtype=torch.float64)).repeat(len(controls), 1)[None]
        change = networks.transform(f, x, alone).change.view(len(controls), n_patterns, -1)
        curves.append(change.mean(dim=0).numpy() / CONTROL_SD)
    return np.stack(curves)


def seconds_per_member(
    X: NDArray[np.float64], y: NDArray[np.intp], n_patterns: int, members: int, values: str, steps: int = 20
) -> float:
    """Seconds that a member will take to its last step, from timing a few on this machine."""
    chosen = from_values(json.loads(values))
    plan = Plan(n_patterns, chosen, members=tuple(range(members)), stack=members)
    controls, patients = (torch.as_tensor(X[y == label], dtype=torch.float32) for label in (0, 1))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        group = new_group(plan.members, plan, controls, patients)
        advance(group, steps)
        start = time.perf_counter()
        advance(group, steps)
        return (time.perf_counter() - start) / steps * chosen.max_steps / members
    finally:
        torch.set_num_threads(threads)
