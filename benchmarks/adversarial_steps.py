"""Whether adversarial steps improve the solved model of the default recipe, and whether D asks for them.

Usage: ``python benchmarks/adversarial_steps.py [--cohorts 3] [--workers 2]``. For each task and shape of patterns, the
members' models are solved by likelihood (`rindices.learners.trajectory`), f is fitted to them, and D is trained for 400
steps with f frozen. Its loss on held-out people, as a share of chance, is the judgement: below 0.97, D tells
synthesised from real patients. Then adversarial steps are taken whatever D says. After them, R-indices are posterior
means with the change that f makes at each point of z, so that f may be of any form, and with the members' normal
variation. Cohorts are adjusted for age, sex and head size, seeds 0 and up; recipes are those of the product, so
nothing was chosen on these cohorts. Writes ``results/adversarial_steps.json`` and ``.md``; finished cohorts are not
computed again.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed

from rindices._typing import FloatArray
from rindices.experiments.simulate import simulate_cohort
from rindices.learners.contrastive.linear_start import LinearStart, fit_linear_start
from rindices.learners.prepared_people import PreparedPeople
from rindices.learners.severity_points import N_STEPS, compute_log_copula, make_severity_points
from rindices.learners.subsampling import SUBSAMPLE_SHARE, draw_subsample
from rindices.learners.surreal import networks
from rindices.learners.surreal.ensemble_training import TrainingData
from rindices.learners.surreal.networks import Transformation, append_ones
from rindices.learners.surreal.recipe import DEFAULT_RECIPE
from rindices.learners.surreal.stopping import CHANCE_LOSS, held_out_discrimination_loss
from rindices.learners.surreal.supervised_start import fit_transformation
from rindices.learners.surreal.train import run_steps
from rindices.learners.surreal.training_state import TrainingPlan, TrainingState, make_training_state
from rindices.learners.trajectory.expectation_maximisation import fit_trajectories
from rindices.learners.trajectory.members import make_trajectory_start
from rindices.learners.trajectory.model import TrajectoryModel
from rindices.preprocess.pipeline import Preprocessing
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD
from rindices.selection.agreement import pattern_c_index

OUT = Path(__file__).parent / "results" / "adversarial_steps.json"
TASKS, SHAPES = ("basic", "staged", "together", "personal"), ("straight", "curved")
SETTINGS = {"rate of the recipe": {}, "three times the rate": {"learning_rate": 3 * DEFAULT_RECIPE.learning_rate}}
MEMBERS, HELD_STEPS, STEPS = 2, DEFAULT_RECIPE.held_steps, (1_000, 4_000)
N_CONTROLS = 40  # on which the change that f makes is averaged


def solve_members(data: TrainingData, n_patterns: int, shape: str, seed: int) -> dict[int, tuple[LinearStart, Any]]:
    """Return the linear start and the solved model of each member."""
    solved = {}
    for number in range(MEMBERS):
        rng = np.random.default_rng([seed, number])
        subsample = draw_subsample(data.y, SUBSAMPLE_SHARE, rng)
        start = fit_linear_start(data.shifts, data.y, subsample, n_patterns, "contrastive", "controls", seed)
        shifts, y = data.shifts[subsample.seen], data.y[subsample.seen]
        held_out = data.shifts[subsample.unseen][data.y[subsample.unseen] == 1]
        parts = shifts[y == 0], shifts[y == 1], make_trajectory_start(start)
        model = fit_trajectories(*parts, shape, held_out=held_out).model
        prior = start.prior._replace(factor=np.linalg.cholesky(model.correlation))
        start = start._replace(noise=model.noise, whitening_covariance=model.noise, prior=prior)
        solved[number] = (start, model)
    return solved


def fit_f_to_models(state: TrainingState, models: list[TrajectoryModel], seed: int) -> None:
    """Fit f of each member to the curves of its model."""
    like = state.stack.phi
    steps = CONTROL_SD * torch.as_tensor(np.stack([model.flat_steps for model in models])).to(like)
    positions = torch.arange(N_STEPS).to(like)

    def compute_change(z: torch.Tensor) -> torch.Tensor:
        return torch.bmm((z[..., None] * N_STEPS - positions).clamp(0, 1).flatten(2), steps)

    noise = [model.noise for model in models]
    fit_transformation(state.stack, state.batches, compute_change, noise, DEFAULT_RECIPE, seed)


@torch.inference_mode()
def compute_mean_changes(state: TrainingState, member: int, controls: FloatArray) -> FloatArray:
    """Return the change that f makes at each point of z (G, R), a mean over controls."""
    f = Transformation(*(weight[member : member + 1].double() for weight in state.stack.weights.networks.f))
    points = append_ones(torch.tensor(make_severity_points(state.stack.phi.shape[1])))[None]
    rows = np.random.default_rng(0).choice(len(controls), min(N_CONTROLS, len(controls)), replace=False)
    people = torch.as_tensor(CONTROL_MEAN + CONTROL_SD * controls[rows])
    total = np.zeros((points.shape[1], controls.shape[1]))
    for person in people:
        repeated = person[None, None].expand(1, points.shape[1], -1)
        total += networks.apply_transformation(f, repeated, points).change[0].numpy()
    return np.asarray(total / len(rows) / CONTROL_SD)


def infer_from_changes(changes: FloatArray, model: TrajectoryModel, patients: FloatArray) -> FloatArray:
    """Return posterior means of the severities (N, M), given the change at each point (G, R)."""
    weights = np.linalg.solve(model.noise, changes.T)
    density = patients @ weights - 0.5 * (changes.T * weights).sum(axis=0) + compute_log_copula(model.correlation)
    probabilities = np.exp(density - density.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    return np.asarray(probabilities @ make_severity_points(len(model.correlation)))


def measure(task: str, shape: str, setting: str, seed: int) -> dict[str, Any]:
    """Return the loss of D and the accuracy of one cohort, before and after adversarial steps."""
    torch.set_num_threads(1)
    simulated = simulate_cohort(task, seed)
    cohort, n_patterns = simulated.cohort, simulated.truth.shape[1]
    people = PreparedPeople(Preprocessing.fit(cohort).transform(cohort), cohort.is_patient.astype(np.intp))
    recipe = DEFAULT_RECIPE.replace(max_steps=STEPS[-1], telling_bar=0.0, start_steps=0, **SETTINGS[setting])
    data = TrainingData.from_people(people, n_patterns, recipe)
    solved = solve_members(data, n_patterns, shape, seed)
    starts, models = {k: start for k, (start, _) in solved.items()}, [model for _, model in solved.values()]
    groups = (torch.as_tensor(data.scale_group(label), dtype=torch.float32) for label in (0, 1))
    plan = TrainingPlan(n_patterns, recipe, seed=seed, members=tuple(solved))
    state = make_training_state(plan.members, plan, *groups, starts)
    fit_f_to_models(state, models, seed)
    controls, patients = data.shifts[data.y == 0], data.shifts[data.y == 1]

    def score_f() -> float:
        indices = [
            infer_from_changes(compute_mean_changes(state, k, controls), model, patients)
            for k, model in enumerate(models)
        ]
        return float(np.mean([pattern_c_index(simulated.truth, each).mean for each in indices]))

    by_model = [model.make_posterior().compute_means(patients @ model.compute_weights()) for model in models]
    before = float(np.mean([pattern_c_index(simulated.truth, each).mean for each in by_model]))
    run_steps(state, HELD_STEPS)
    loss = float((held_out_discrimination_loss(state) / CHANCE_LOSS).mean())
    row = {"task": task, "shape": shape, "setting": setting, "seed": seed, "solved": before, "f": score_f(), "D": loss}
    for until in STEPS:
        run_steps(state, until - state.steps)
        row[str(until)] = score_f()
    return row


def format_table(rows: list[dict[str, Any]]) -> str:
    """Return the table in markdown."""
    names = ("D", "solved", "f", *map(str, STEPS))
    titles = ("loss of D", "solved model", "f fitted to it", *(f"after {steps:,} steps" for steps in STEPS))
    lines = ["# Adversarial steps after the solved model", "`python benchmarks/adversarial_steps.py`", ""]
    lines += [
        "| task | shape | learning rate | cohorts | " + " | ".join(titles) + " |",
        "|" + "---|" * (4 + len(names)),
    ]
    for task in TASKS:
        for shape in SHAPES:
            for setting in SETTINGS:
                keys = (task, shape, setting)
                group = [row for row in rows if (row["task"], row["shape"], row["setting"]) == keys]
                if group:
                    means = " | ".join(f"{np.mean([row[name] for row in group]):.3f}" for name in names)
                    lines.append(f"| {task} | {shape} | {setting} | {len(group)} | {means} |")
    note = (
        "Loss of D on held-out people as a share of chance, with f frozen: D asks for adversarial steps below 0.97. "
        "Other columns: pattern C-index of members, mean over cohorts. Steps were taken whatever D said."
    )
    return "\n".join([*lines, "", note, ""])


def main() -> None:
    """Compute what is missing and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cohorts", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    rows = json.loads(OUT.read_text("utf-8")) if OUT.is_file() else []
    done = {(row["task"], row["shape"], row["setting"], row["seed"]) for row in rows}
    jobs = [
        (task, shape, setting, seed)
        for seed in range(options.cohorts)
        for setting in SETTINGS
        for task in TASKS
        for shape in SHAPES
    ]
    missing = [job for job in jobs if job not in done]
    parallel = Parallel(n_jobs=options.workers, return_as="generator_unordered")
    for row in parallel(delayed(measure)(*job) for job in missing):
        rows.append(row)
        OUT.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
        OUT.with_suffix(".md").write_text(format_table(rows), "utf-8")
    print(format_table(rows))


if __name__ == "__main__":
    main()
