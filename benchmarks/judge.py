"""Loss of D on held-out people for correct and wrong starts, on which the stopping rule of recipe default is based.

Usage: ``python benchmarks/judge.py [--cohorts 3]``. Six starts of a member: the usual one, the same
with D's input whitened by the controls alone, no patterns, patterns at 70 %, patterns mixed by 30 %, and those of plain
ICA. f is frozen; D is trained. Writes ``results/judge.md``.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from joblib import Parallel, delayed, parallel_config

from rindices.experiments.suites import get_suite_tasks
from rindices.learners.contrastive.linear_start import LinearStart
from rindices.learners.prepared_people import PreparedPeople
from rindices.learners.subsampling import draw_subsample
from rindices.learners.surreal.ensemble_training import TrainingData
from rindices.learners.surreal.recipe import DEFAULT_RECIPE
from rindices.learners.surreal.stopping import CHANCE_LOSS, held_out_discrimination_loss
from rindices.learners.surreal.train import run_steps
from rindices.learners.surreal.training_state import TrainingPlan, make_training_state

OUT = Path(__file__).parent / "results" / "judge.json"
KINDS = ("its own", "own, D whitened by controls", "no patterns", "patterns at 70 %", "patterns mixed by 30 %", "ICA")
TASKS = {"basic": "paper", "mild": "paper", "hard": "stress"}
STEPS, RATIOS = (200, 400, 800), (DEFAULT_RECIPE.discriminator_ratio, 1.0)


def make_starts(data: TrainingData, width: int, seed: int) -> dict[int, LinearStart]:
    """Return the usual start with two whitenings, and four wrong ones."""
    subsample = draw_subsample(data.y, DEFAULT_RECIPE.share, np.random.default_rng(seed))
    start = data.fit_start(subsample, width, seed)
    rotation = np.linalg.qr(np.random.default_rng(seed + 1).standard_normal((width, width)))[0]
    ica_recipe = DEFAULT_RECIPE.replace(start="ica", conditioning="controls")
    ica = TrainingData(ica_recipe, data.prepared, data.head, data.shifts, data.y).fit_start(subsample, width, seed)
    wrong = [0.0 * start.patterns, 0.7 * start.patterns, start.patterns @ (0.7 * np.eye(width) + 0.3 * rotation)]
    others = [start._replace(patterns=patterns) for patterns in wrong]
    whitened_by_controls = start._replace(whitening_covariance=ica.whitening_covariance)
    return dict(
        enumerate([start, whitened_by_controls, *others, start._replace(patterns=ica.patterns, prior=ica.prior)])
    )


def measure_discrimination(task: str, ratio: float, seed: int) -> dict[str, object]:
    """Return the loss of D on held-out people relative to chance, at several steps, for every start."""
    torch.set_num_threads(1)
    case = get_suite_tasks(TASKS[task])[task](seed)
    width = case.truth.shape[1]
    recipe = DEFAULT_RECIPE.replace(held_steps=STEPS[-1], max_steps=STEPS[-1], discriminator_ratio=ratio)
    data = TrainingData.from_people(PreparedPeople(case.X, case.y), width, recipe)
    x, y = (torch.as_tensor(data.scale_group(label), dtype=torch.float32) for label in (0, 1))
    plan = TrainingPlan(width, recipe, seed=seed, members=tuple(range(len(KINDS))))
    state = make_training_state(plan.members, plan, x, y, make_starts(data, width, seed))
    losses = []
    for until in STEPS:
        run_steps(state, until - state.steps)
        losses.append((held_out_discrimination_loss(state) / CHANCE_LOSS).tolist())
    return {"task": task, "ratio": ratio, "seed": seed, "told": losses}


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cohorts", type=int, default=3)
    seeds = range(parser.parse_args().cohorts)
    with parallel_config(backend="loky", inner_max_num_threads=1):
        jobs = (
            delayed(measure_discrimination)(task, ratio, seed) for task in TASKS for ratio in RATIOS for seed in seeds
        )
        rows = list(Parallel(n_jobs=-1)(jobs))
    OUT.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    lines = ["| task | rate of D / rate of f | steps | " + " | ".join(KINDS) + " |", "|" + "---|" * (3 + len(KINDS))]
    for task in TASKS:
        for ratio in RATIOS:
            losses = np.array([row["told"] for row in rows if (row["task"], row["ratio"]) == (task, ratio)])
            for steps, values in zip(STEPS, losses.mean(axis=0), strict=True):
                lines.append(f"| {task} | {ratio:g} | {steps} | " + " | ".join(f"{v:.2f}" for v in values) + " |")
    note = (
        f"\nD's loss on people that the member has not seen, as a share of chance, mean of {len(seeds)} cohorts. Below "
        f"{DEFAULT_RECIPE.telling_bar:g} after {DEFAULT_RECIPE.held_steps} steps the member "
        "goes on training. "
        "Above 1 D knows its own people by heart."
    )
    OUT.with_suffix(".md").write_text("\n".join(lines) + "\n" + note + "\n", "utf-8")


if __name__ == "__main__":
    main()
