"""Coverage of 90 % intervals: simulated cohorts, method trajectories, three patterns.

``python -m benchmarks.intervals`` fits a model to each cohort and counts, among its
patients and among those of a new cohort, how often r_low..r_high contains the true
severity on the scale of R-indices: the R-index of the patients at the rank of the
severity. ``--choose`` measures, on other cohorts, the coverage over a grid of the two
constants of `rindices.model.intervals`.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.stats import norm

import rindices as ri
from benchmarks.suites.cases import STRESS_TASKS, simulate_transformed
from benchmarks.suites.paper import PAPER_TASKS
from rindices.experiments.simulate import SimulatedCohort
from rindices.experiments.tasks import TASKS
from rindices.learners.prepared_people import SUBSAMPLE_FRACTION
from rindices.model import intervals
from rindices.selection.agreement import pattern_c_index

RESULTS = Path(__file__).parent / "results"
# seed of the cohorts on which the constants were chosen; reported cohorts have seeds
# from 0
CHOSEN_ON = 100
NEW = 1000  # added to a seed for new people


def fit_or_load(
    task: str, seed: int, keep: Path | None, workers: int
) -> ri.FittedModel:
    """Fit a model, or load it if an earlier run saved it."""
    path = keep / f"{task}-{seed}.safetensors" if keep else None
    if path and path.is_file():
        return ri.load(path)
    model = ri.fit(simulate_transformed(task, seed).cohort, 3, workers=workers)
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        model.save(path)
    return model


def compute_coverage(
    truth: np.ndarray, r: np.ndarray, low: np.ndarray, high: np.ndarray
) -> list[float]:
    """Return the coverage of each pattern; all arrays are (N, M)."""
    shares = []
    for k, j in enumerate(pattern_c_index(truth, r).matching):
        rank = (truth[:, k].argsort().argsort() + 0.5) / len(truth)
        scaled = np.quantile(r[:, j], rank)
        shares.append(float(((low[:, j] <= scaled) & (scaled <= high[:, j])).mean()))
    return shares


def measure_cohort(
    model: ri.FittedModel, simulated: SimulatedCohort
) -> dict[str, object]:
    """Return coverage and width of the intervals that apply writes, among the patients
    of a cohort.
    """
    table = model.apply(simulated.cohort)[simulated.cohort.is_patient]
    names = [f"r{k + 1}" for k in range(model.n_patterns)]
    r, low, high = (
        table[[name + end for name in names]].to_numpy()
        for end in ("", "_low", "_high")
    )
    spread = compute_member_half_widths(model, simulated)
    width = float((high - low).mean() / r.std(axis=0).mean())
    return {
        "per_pattern": compute_coverage(simulated.truth, r, low, high),
        "members_alone": compute_coverage(simulated.truth, r, r - spread, r + spread),
        "width": width,
    }


def compute_member_half_widths(
    model: ri.FittedModel, simulated: SimulatedCohort
) -> np.ndarray:
    """Return the half widths (N, M) of intervals from the variance of members alone."""
    assert model.intervals is not None
    patients = simulated.cohort.take(simulated.cohort.is_patient)
    return norm.ppf(0.95) * np.sqrt(
        model.intervals.members * model.infer_members(patients).var(axis=0)
    )


def run_tasks(
    tasks: list[str], cohorts: int, keep: Path | None, workers: int, out: Path
) -> None:
    path = out.with_suffix(".json")
    rows = json.loads(path.read_text("utf-8")) if path.is_file() else []
    rows = [row for row in rows if row["task"] not in tasks]
    for task in tasks:
        for seed in range(cohorts):
            model = fit_or_load(task, seed, keep, workers)
            training, new = (
                simulate_transformed(task, each) for each in (seed, seed + NEW)
            )
            if model.n_patterns != training.truth.shape[1]:
                continue  # patterns were not stable, so the study ended with one index
            rows.append(
                {
                    "task": task,
                    "seed": seed,
                    "own": measure_cohort(model, training),
                    "new": measure_cohort(model, new),
                }
            )
            print(rows[-1], flush=True)
            write_table(rows, out)


def write_table(rows: list[dict], out: Path) -> None:
    lines = ["# Coverage of 90 % intervals", ""]
    lines += [
        "Share of patients whose interval holds the true severity, rank-scaled, of three cohorts less those that ended "
        "with one index. `python -m benchmarks.intervals`",
        "",
    ]
    head = (
        "its own patients",
        "new patients",
        "worst and best pattern",
        "members alone",
        "width / sd of the index",
    )
    lines += [
        f"| task | cohorts | {' | '.join(head)} |",
        "|---|---|---|---|---|---|---|",
    ]
    rows = sorted(rows, key=lambda row: (list(TASKS).index(row["task"]), row["seed"]))
    for task in dict.fromkeys(row["task"] for row in rows):
        task_rows = [row for row in rows if row["task"] == task]
        training, new = (
            np.mean([row[people]["per_pattern"] for row in task_rows])
            for people in ("own", "new")
        )
        per_pattern = np.concatenate([row["own"]["per_pattern"] for row in task_rows])
        width = np.mean([row["own"]["width"] for row in task_rows])
        alone = np.mean([row["own"]["members_alone"] for row in task_rows])
        ends = f"{per_pattern.min():.3f} to {per_pattern.max():.3f}"
        lines.append(
            f"| {task} | {len(task_rows)} | {training:.3f} | {new:.3f} | {ends} | {alone:.3f} | {width:.2f} |"
        )
    out.with_suffix(".md").write_text("\n".join(lines) + "\n")
    out.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n")


def choose_constants(keep: Path | None, workers: int, out: Path) -> None:
    """Measure the coverage on the paper's tasks over a grid of the two constants."""
    models = {task: fit_or_load(task, CHOSEN_ON, keep, workers) for task in PAPER_TASKS}
    lines = ["# Where the two constants of the intervals come from", ""]
    lines += [
        "Coverage of nominal 90 % on cohorts of seed 100. `python -m benchmarks.intervals --choose`",
        "",
    ]
    lines += [
        f"| EXCESS | EXPRESSION | {' | '.join(PAPER_TASKS)} |",
        "|---" * (2 + len(PAPER_TASKS)) + "|",
    ]
    for excess in (1.0, 1.1):
        for expression in (0.0, 0.05, 0.1, 0.15, 0.2):
            intervals.NOISE_INFLATION, intervals.TRAJECTORY_EXPRESSION_SD = (
                excess,
                expression,
            )
            shares = [
                np.mean(
                    recalibrate(models[task], ri.simulate_cohort(task, seed=CHOSEN_ON))
                )
                for task in PAPER_TASKS
            ]
            lines.append(
                f"| {excess} | {expression} | {' | '.join(f'{share:.3f}' for share in shares)} |"
            )
            print(lines[-1], flush=True)
    out.with_suffix(".md").write_text("\n".join(lines) + "\n")


def recalibrate(model: ri.FittedModel, simulated: SimulatedCohort) -> list[float]:
    """Return the coverage with the current constants."""
    controls, patients = (
        simulated.cohort.take(mask)
        for mask in (simulated.cohort.is_control, simulated.cohort.is_patient)
    )
    members = [
        intervals.MemberControls(head, order, pipeline.transform(controls))
        for head, order, pipeline in zip(
            model.heads, model.orders, model.pipelines, strict=True
        )
    ]
    inferred = model.infer_members(patients)
    mean, variance = inferred.mean(axis=0), inferred.var(axis=0)
    calibrated = intervals.calibrate_intervals(
        members, model.patterns, mean, SUBSAMPLE_FRACTION, seed=0
    )
    return compute_coverage(
        simulated.truth, mean, *calibrated.compute_bounds(mean, variance)
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--choose", action="store_true")
    parser.add_argument(
        "--stress", action="store_true", help="the stress tasks instead of the paper's"
    )
    parser.add_argument(
        "--tasks",
        nargs="+",
        help="tasks to measure again; the results of the others are kept",
    )
    parser.add_argument("--cohorts", type=int, default=3)
    parser.add_argument("--workers", type=int, default=-1)
    parser.add_argument(
        "--keep", type=Path, help="folder for fitted models, which later runs reuse"
    )
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    if options.choose:
        choose_constants(options.keep, options.workers, RESULTS / "intervals_choice")
    else:
        suite, name = (
            (STRESS_TASKS, "intervals_stress")
            if options.stress
            else (PAPER_TASKS, "intervals")
        )
        run_tasks(
            options.tasks or list(suite),
            options.cohorts,
            options.keep,
            options.workers,
            RESULTS / name,
        )
