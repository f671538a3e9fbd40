"""Do 90 % intervals hold the truth in 90 % of people? Simulated cohorts, recipe default, three patterns.

``python benchmarks/intervals.py`` fits a model to each cohort and counts, among its own patients and among those of a
new cohort, how often r_low..r_high holds the true severity, rank-scaled: the R-index of the patients that stands at the
rank of the severity. ``--choose`` measures, on other cohorts, the grid from which the two constants of
`rindices.model.intervals` were taken.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.stats import norm

import rindices as ri
from rindices.experiments.simulate import SimulatedCohort
from rindices.experiments.tasks import PAPER_TASKS, STRESS_TASKS
from rindices.model import intervals
from rindices.selection.agreement import pattern_c_index

RESULTS = Path(__file__).parent / "results"
CHOSEN_ON = 100  # seed of the cohorts that the constants were chosen on; those reported begin at 0
NEW = 1000  # added to a seed for people whom the model has not seen


def model_of(task: str, seed: int, keep: Path | None, workers: int) -> ri.FittedModel:
    """Fit, or load where an earlier run kept it."""
    path = keep / f"{task}-{seed}.safetensors" if keep else None
    if path and path.is_file():
        return ri.load(path)
    model = ri.fit(ri.simulate_cohort(task, seed=seed).cohort, 3, workers=workers)
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        model.save(path)
    return model


def covered(truth: np.ndarray, r: np.ndarray, low: np.ndarray, high: np.ndarray) -> list[float]:
    """Share of people, pattern by pattern, whose interval holds their rank-scaled severity: (N, M) four times."""
    shares = []
    for k, j in enumerate(pattern_c_index(truth, r).matching):
        rank = (truth[:, k].argsort().argsort() + 0.5) / len(truth)
        scaled = np.quantile(r[:, j], rank)
        shares.append(float(((low[:, j] <= scaled) & (scaled <= high[:, j])).mean()))
    return shares


def measure(model: ri.FittedModel, made: SimulatedCohort) -> dict[str, object]:
    """Coverage and width among the patients of a cohort, from what apply writes."""
    table = model.apply(made.cohort)[made.cohort.is_patient]
    names = [f"r{k + 1}" for k in range(model.n_patterns)]
    r, low, high = (table[[name + end for name in names]].to_numpy() for end in ("", "_low", "_high"))
    spread = members_alone(model, made)
    width = float((high - low).mean() / r.std(axis=0).mean())
    return {
        "per_pattern": covered(made.truth, r, low, high),
        "members_alone": covered(made.truth, r, r - spread, r + spread),
        "width": width,
    }


def members_alone(model: ri.FittedModel, made: SimulatedCohort) -> np.ndarray:
    """Half widths (N, M) of the patients' intervals if the members' variance were all there is."""
    assert model.intervals is not None
    values = model.preprocessing.transform(made.cohort)[made.cohort.is_patient]
    return norm.ppf(0.95) * np.sqrt(model.intervals.members * model.infer_members(values).var(axis=0))


def run(tasks: list[str], cohorts: int, keep: Path | None, workers: int, out: Path) -> None:
    rows = []
    for task in tasks:
        for seed in range(cohorts):
            model = model_of(task, seed, keep, workers)
            own, new = (ri.simulate_cohort(task, seed=s) for s in (seed, seed + NEW))
            rows.append({"task": task, "seed": seed, "own": measure(model, own), "new": measure(model, new)})
            print(rows[-1], flush=True)
            write(rows, out)


def write(rows: list[dict], out: Path) -> None:
    lines = ["# Coverage of 90 % intervals", ""]
    lines += [
        "Share of patients whose interval holds the true severity, rank-scaled. `python benchmarks/intervals.py`",
        "",
    ]
    head = ("its own patients", "new patients", "worst and best pattern", "members alone", "width / sd of the index")
    lines += [f"| task | cohorts | {' | '.join(head)} |", "|---|---|---|---|---|---|---|"]
    for task in dict.fromkeys(row["task"] for row in rows):
        mine = [row for row in rows if row["task"] == task]
        own, new = (np.mean([row[who]["per_pattern"] for row in mine]) for who in ("own", "new"))
        every = np.concatenate([row["own"]["per_pattern"] for row in mine])
        width = np.mean([row["own"]["width"] for row in mine])
        alone = np.mean([row["own"]["members_alone"] for row in mine])
        ends = f"{every.min():.3f} to {every.max():.3f}"
        lines.append(f"| {task} | {len(mine)} | {own:.3f} | {new:.3f} | {ends} | {alone:.3f} | {width:.2f} |")
    out.with_suffix(".md").write_text("\n".join(lines) + "\n")
    out.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n")


def choose(keep: Path | None, workers: int, out: Path) -> None:
    """Coverage on the paper's tasks over a grid of the two constants."""
    models = {task: model_of(task, CHOSEN_ON, keep, workers) for task in PAPER_TASKS}
    lines = ["# Where the two constants of the intervals come from", ""]
    lines += ["Coverage of nominal 90 % on cohorts of seed 100. `python benchmarks/intervals.py --choose`", ""]
    lines += [f"| EXCESS | EXPRESSION | {' | '.join(PAPER_TASKS)} |", "|---" * (2 + len(PAPER_TASKS)) + "|"]
    for excess in (1.0, 1.1, 1.2, 1.3):
        for expression in (0.0, 0.2, 0.25, 0.28, 0.3):
            intervals.NOISE_INFLATION, intervals.EXPRESSION_SD = excess, expression
            shares = [np.mean(again(models[task], ri.simulate_cohort(task, seed=CHOSEN_ON))) for task in PAPER_TASKS]
            lines.append(f"| {excess} | {expression} | {' | '.join(f'{share:.3f}' for share in shares)} |")
            print(lines[-1], flush=True)
    out.with_suffix(".md").write_text("\n".join(lines) + "\n")


def again(model: ri.FittedModel, made: SimulatedCohort) -> list[float]:
    """Coverage with the constants as they are now."""
    values, patient = model.preprocessing.transform(made.cohort), made.cohort.is_patient
    share = model.card["recipe"]["values"]["share"]
    found = intervals.calibrate_intervals(
        model.infer, model.heads[0], model.patterns, values[~patient], values[patient], share, seed=0
    )
    members = model.infer_members(values[patient])
    return covered(made.truth, members.mean(axis=0), *found.compute_bounds(members.mean(axis=0), members.var(axis=0)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--stress", action="store_true", help="the stress tasks instead of the paper's")
    parser.add_argument("--cohorts", type=int, default=3)
    parser.add_argument("--workers", type=int, default=-1)
    parser.add_argument("--keep", type=Path, help="folder for fitted models, to go on from")
    asked = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    if asked.choose:
        choose(asked.keep, asked.workers, RESULTS / "intervals_choice")
    elif asked.stress:
        run(list(STRESS_TASKS), asked.cohorts, asked.keep, asked.workers, RESULTS / "intervals_stress")
    else:
        run(list(PAPER_TASKS), asked.cohorts, asked.keep, asked.workers, RESULTS / "intervals")
