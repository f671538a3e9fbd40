"""Task scarce: what differs between the paper's text and the authors' first program,
one difference at a time.

Usage: ``python -m benchmarks.paper.causes [--causes NAME ...] [--task scarce] [--steps
20000] [--adjusted]``

Cohort of seed 100, rate 8e-4. Writes ``results/causes.json`` and ``.md``; rows of
earlier runs stay. The program is SurrealGAN 0.0.1 (July 2022), to the last digits of
its weights (``tests/benchmarks/test_paper.py``): changes of single patterns are added
up, each of them is monotonic, orthogonality is that of batch means, weights decay by
2.5e-3, and biases start as torch's do. Its members are trained in a stack, at a fifth
of the package's time.
"""

import argparse
import functools
import json
import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks.paper.common import RESULTS, TrainedTask, write_table
from rindices.learners.gan import losses, networks, state, train
from rindices.learners.gan.recipe import Recipe, TrainingPlan

SEED, RATE = 100, 8e-4
make_published_networks, make_published_optimisers = (
    state.make_networks,
    state.make_optimisers,
)


def make_networks(
    streams: Sequence[torch.Generator], plan: TrainingPlan, n_regions: int
) -> networks.SurrealNetworks:
    """Return the networks of `state.make_networks`, with biases that start uniformly,
    as torch's linear layers do.
    """
    drawn = make_published_networks(streams, plan, n_regions)
    weights = dict(drawn.named_parameters())
    for name, weight in weights.items():
        if "bias" in name:
            n_inputs = weights[
                name.replace("_bias", "").replace("bias", "weight")
            ].shape[1]
            for member, stream in zip(weight.detach(), streams, strict=True):
                member.copy_(
                    (2 * torch.rand(member.shape, generator=stream) - 1)
                    / math.sqrt(n_inputs)
                )
    return drawn


def measure_orthogonality_of_means(singles: Tensor) -> Tensor:
    """Return the orthogonality loss of the mean changes of a batch: (S, B, M, R) ->
    (S,).
    """
    unit = torch.nn.functional.normalize(singles.mean(dim=1).abs(), dim=2)
    return (unit @ unit.mT - torch.eye(unit.shape[1])).square().mean(dim=(1, 2))


def make_decaying_optimisers(
    stacked: networks.SurrealNetworks, recipe: Recipe
) -> dict[str, torch.optim.Adam]:
    """Return the optimisers of `state.make_optimisers`; those of f, g1 and g2 also
    shrink the weights.
    """
    optimisers = make_published_optimisers(stacked, recipe)
    for name in ("f", "g"):
        optimisers[name].param_groups[0]["weight_decay"] = 2.5e-3
    return optimisers


def take_additive_step(
    stack: state.MemberStack, x: Tensor, y: Tensor
) -> losses.LossTerms:
    """Take a step as `train.take_step` does, with changes of single patterns that are
    added up and each monotonic.
    """
    stacked, recipe = stack.networks, stack.recipe
    stack.steps += 1
    z = losses.draw_severities(
        stack.streams, x.shape[1], recipe.near_zero_bound, stacked.copula.phi
    )
    change = functools.partial(stacked.f.decode, stacked.f.encode(x))
    singles, higher = change(z.singles), change(torch.diag_embed(z.higher))
    synthetic = x + singles.sum(dim=2)
    logits = stacked.judge(torch.cat([synthetic.detach(), y], dim=1))
    discrimination = losses.discrimination_loss(*logits.chunk(2, dim=1))
    stack.update(
        {"d": recipe.discriminator_ratio}, discrimination, recipe.learning_rate
    )
    shares = stacked.g1(synthetic)
    terms = losses.LossTerms(
        discrimination=discrimination,
        adversarial=losses.adversarial_loss(stacked.judge(synthetic)),
        change=losses.change_loss(synthetic - x),
        decomposition=losses.decomposition_loss(shares, singles),
        reconstruction=losses.reconstruction_loss(
            stacked.reconstruct(shares), z.singles
        ),
        orthogonality=losses.orthogonality_loss(torch.cat([singles, higher], dim=1)),
        monotonicity=losses.monotonicity_loss(singles, higher),
        near_zero=losses.near_zero_loss(change(z.near_zero)),
    )
    objective = torch.stack(
        [
            weight * getattr(terms, name)
            for name, weight in asdict(recipe.weights).items()
        ]
    )
    stack.update({"f": 1.0, "g": 1.0}, objective, recipe.learning_rate)
    return losses.LossTerms.unstack(terms.stack().detach())


MEANS = (losses, "orthogonality_loss", measure_orthogonality_of_means)
DECAY = (state, "make_optimisers", make_decaying_optimisers)
BIASES = (state, "make_networks", make_networks)
ADDITIVE = (train, "take_step", take_additive_step)
CAUSES: dict[str, tuple[list[tuple[Any, str, Any]], dict[str, Any]]] = {
    "the paper's text": ([], {}),
    "the program of 2022": ([MEANS, DECAY, BIASES, ADDITIVE], {}),
    "changes added up": ([ADDITIVE], {}),
    "orthogonality of batch means": ([MEANS], {}),
    "weights decay": ([DECAY], {}),
    "biases not zero": ([BIASES], {}),
    "lambda 0.1": ([], {"orthogonality": 0.1}),
    "lambda 0.4": ([], {"orthogonality": 0.4}),
    "lambda 0.8": ([], {"orthogonality": 0.8}),
    "batch 1/16": ([], {"batch_share": 16}),
}


def main() -> None:
    """Train and write, cause by cause."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--causes", nargs="+", default=list(CAUSES), choices=list(CAUSES)
    )
    parser.add_argument("--task", default="scarce")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--adjusted", action="store_true")
    options = parser.parse_args()
    path = RESULTS / "causes.json"
    rows = json.loads(path.read_text("utf-8")) if path.exists() else []
    for name in options.causes:
        key = {
            "task": options.task,
            "adjusted": options.adjusted,
            "cause": name,
            "steps": options.steps,
        }
        key |= {"members": options.members}
        if any(key.items() <= row.items() for row in rows):
            continue
        patches, changes = CAUSES[name]
        recipe = Recipe().replace(
            **(
                {
                    "learning_rate": RATE,
                    "min_steps": options.steps,
                    "max_steps": options.steps,
                }
                | changes
            )
        )
        start = time.process_time()
        with ExitStack() as entered:
            for target, attribute, new in patches:
                entered.enter_context(patch.object(target, attribute, new))
            plan = TrainingPlan(
                patterns=3,
                recipe=recipe,
                seed=SEED,
                members=tuple(range(options.members)),
                stack=options.members,
            )
            task = TrainedTask.begin(options.task, SEED, options.adjusted, plan)
            curve = [
                task.train_until(options.steps * share // 4) for share in (1, 2, 3, 4)
            ]
        rows.append(
            key | {"curve": curve, "cpu_seconds": round(time.process_time() - start)}
        )
        print(
            name,
            [round(point["mean"], 3) for point in curve],
            rows[-1]["cpu_seconds"],
            flush=True,
        )
        path.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
        write_rows(rows)


def write_rows(rows: list[dict[str, Any]]) -> None:
    """Write the table."""
    lines = []
    for row in rows:
        means = [f"{point['mean']:.3f}" for point in row["curve"]]
        last = row["curve"][-1]
        ends = [
            f"{last['error']:.3f}",
            f"{last['agreement']:.3f}",
            f"{last['consensus']:.3f}",
        ]
        adjusted = "yes" if row["adjusted"] else "no"
        lines.append(
            [
                row["task"],
                adjusted,
                row["cause"],
                f"{row['members']}",
                f"{row['steps']:,}",
                *means,
                *ends,
            ]
        )
    head = [
        "task",
        "adjusted",
        "what differs",
        "members",
        "steps",
        "a quarter",
        "half",
        "three quarters",
        "mean member",
    ]
    note = (
        "Pattern-c-index on the cohort of seed 100, rate 8e-4; lambda 0.2 unless said."
    )
    write_table(
        RESULTS / "causes.md",
        [*head, "standard error", "agreement", "consensus"],
        lines,
        note,
    )


if __name__ == "__main__":
    main()
