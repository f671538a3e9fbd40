"""Learning curve of recipe paper on the basic task: accuracy of each member over training steps.

Usage: ``python -m benchmarks.learning_curve [--steps 45000] [--members 5] [--rate 8e-4]``

Writes ``results/learning_curve.json`` and ``.png``. The learning rate is that of the authors' package; stopping
is off.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from benchmarks.suites.cases import get_suite_tasks
from benchmarks.suites.paper import SURREAL_GAN_SCORES
from rindices.learners.gan import networks
from rindices.learners.gan.recipe import Recipe, TrainingPlan
from rindices.learners.gan.state import make_training_state
from rindices.learners.gan.train import extract_head, train_stack
from rindices.selection.agreement import members_agreement, pattern_c_index


def parse_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="basic")
    parser.add_argument("--steps", type=int, default=45_000)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--rate", type=float, default=8e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "learning_curve.json")
    return parser.parse_args()


def main() -> None:
    """Train, score at intervals, and write the curve."""
    options = parse_options()
    torch.set_num_threads(1)
    case = get_suite_tasks("paper")[options.task](options.seed)
    x, y = (torch.as_tensor(case.X[case.y == label], dtype=torch.float32) for label in (0, 1))
    recipe = Recipe().replace(learning_rate=options.rate, min_steps=10**7, max_steps=10**7)
    plan = TrainingPlan(case.truth.shape[1], recipe, seed=options.seed, members=tuple(range(options.members)))
    state = make_training_state(plan.members, plan, x, y)
    curve: list[dict[str, Any]] = []
    seconds = 0.0
    for n_steps in [1000, 2000, 3000, 5000, *range(10_000, options.steps + 1, 5000)]:
        start = time.process_time()
        train_stack(state, recipe, n_steps)
        seconds += time.process_time() - start
        weights = networks.named_weights(state.stack.weights.networks)
        heads = [extract_head({name: tensor[k] for name, tensor in weights.items()}) for k in range(options.members)]
        indices = np.stack([head.infer(case.X[case.y == 1]) for head in heads])
        scores = [pattern_c_index(case.truth, r).mean for r in indices]
        agreement = members_agreement(indices).concordance
        row = {"steps": n_steps, "mean": float(np.mean(scores)), "members": scores, "agreement": agreement}
        curve.append(row | {"cpu_seconds": round(seconds, 1)})
        print(n_steps, f"{np.mean(scores):.4f}", np.round(scores, 3), f"{seconds:.0f}s", flush=True)
        settings = {"task": options.task, "learning_rate": options.rate, "seed": options.seed}
        options.out.write_text(json.dumps(settings | {"curve": curve}, indent=1) + "\n", "utf-8")
    draw_curve(curve, options.task, options.out.with_suffix(".png"))


def draw_curve(curve: list[dict[str, Any]], task: str, path: Path) -> None:
    """Draw the accuracy of members, its mean and the agreement over steps."""
    figure = Figure(figsize=(7, 4.4), layout="constrained")
    axes = figure.add_subplot()
    steps = [row["steps"] for row in curve]
    axes.plot(steps, [row["members"] for row in curve], color="#0072B2", alpha=0.3, lw=1)
    axes.plot(steps, [row["mean"] for row in curve], color="#0072B2", lw=2.5, label="accuracy: mean of members")
    axes.plot(steps, [row["agreement"] for row in curve], color="#D55E00", lw=1.8, label="agreement among members")
    axes.axhline(SURREAL_GAN_SCORES[task], color="#444444", ls="--", lw=1.2, label="Surreal-GAN as published")
    axes.set_xlabel("training steps")
    axes.set_ylabel("pattern-c-index")
    axes.set_title(f"Recipe paper on the task {task}", loc="left", fontsize="medium")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
