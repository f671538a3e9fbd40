"""Recipe paper on the basic task: accuracy of g against steps, members side by side.

Usage: ``python benchmarks/learning_curve.py [--steps 45000] [--members 5] [--rate 8e-4]``

Writes ``results/learning_curve.json`` and ``.png``. The learning rate is that of the authors' package; stopping is
off, since the curve is what is asked for.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from rindices.experiments.paper import SURREAL_GAN_SCORES
from rindices.experiments.suites import get_suite_tasks
from rindices.learners.surreal import networks
from rindices.learners.surreal.recipe import get_recipe
from rindices.learners.surreal.train import train_stack
from rindices.learners.surreal.training_state import TrainingPlan, make_training_state
from rindices.selection.agreement import members_agreement, pattern_c_index


def parse() -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="basic")
    parser.add_argument("--steps", type=int, default=45_000)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--rate", type=float, default=8e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "learning_curve.json")
    return parser.parse_args()


def main() -> None:
    """Train, measure now and then, write."""
    asked = parse()
    torch.set_num_threads(1)
    case = get_suite_tasks("paper")[asked.task](asked.seed)
    x, y = (torch.as_tensor(case.X[case.y == label], dtype=torch.float32) for label in (0, 1))
    chosen = get_recipe("paper", learning_rate=asked.rate, min_steps=10**7, max_steps=10**7)
    plan = TrainingPlan(case.truth.shape[1], chosen, seed=asked.seed, members=tuple(range(asked.members)))
    group = make_training_state(plan.members, plan, x, y)
    curve: list[dict[str, Any]] = []
    seconds = 0.0
    for until in [1000, 2000, 3000, 5000, *range(10_000, asked.steps + 1, 5000)]:
        start = time.process_time()
        train_stack(group, chosen, until)
        seconds += time.process_time() - start
        found = networks.infer_r_indices(group.stack.weights.networks, y.expand(asked.members, -1, -1)).numpy()
        scores = [pattern_c_index(case.truth, r).mean for r in found]
        agreement = members_agreement(found).concordance
        row = {"steps": until, "mean": float(np.mean(scores)), "members": scores, "agreement": agreement}
        curve.append(row | {"cpu_seconds": round(seconds, 1)})
        print(until, f"{np.mean(scores):.4f}", np.round(scores, 3), f"{seconds:.0f}s", flush=True)
        settings = {"task": asked.task, "learning_rate": asked.rate, "seed": asked.seed}
        asked.out.write_text(json.dumps(settings | {"curve": curve}, indent=1) + "\n", "utf-8")
    draw(curve, asked.task, asked.out.with_suffix(".png"))


def draw(curve: list[dict[str, Any]], task: str, path: Path) -> None:
    """Draw members, their mean and their agreement against steps."""
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
