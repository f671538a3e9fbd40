"""Accuracy, processor time and memory of all methods on the same people.

    python -m benchmarks.rivals [--suites paper,stress] [--learners ...]

The suites are adjusted for age, sex and head size, as users do; real patients are in
the suite patients (``python -m benchmarks suite``). Packages that are not dependencies
of the project are measured on the same people by ``rivals_packages.py`` and
``upstream_sample.py``; their committed results are added to the tables. Ten cohorts of
the paper's tasks and five of the others; methods that take long have three and one.
Fits that are finished are not computed again. Writes
``results/rivals/{paper,stress}/results.json`` and ``table.md``.
"""

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.suites import patient_suite
from benchmarks.suites.benchmark import BenchmarkPlan, BenchmarkResult, results_to_json
from benchmarks.suites.cases import get_suite_tasks
from benchmarks.suites.runner import run_jobs

HERE = Path(__file__).parent
OUT = HERE / "results" / "rivals"
OURS = ("trajectory", "contrastive")
RIVALS = (
    "deviation-nmf",
    "normative-ica",
    "normative-pca",
    "cpca",
    "cvae",
    "nmf",
    "opnmf",
    "fa",
    "lda",
    "dnmf",
)
LEARNERS = ("oracle", "contrastive", *RIVALS, "cpca-bound", "trajectory")
LABELS = {
    "oracle": "theoretical limit",
    "trajectory": "rindices, trajectories",
    "contrastive": "rindices, contrastive",
    "deviation-nmf": "CCL-NMF, one visit",
    "normative-ica": "normative ICA",
    "normative-pca": "normative PCA",
    "cpca": "contrastive PCA",
    "cpca-bound": "contrastive PCA, best components by the truth",
    "cvae": "contrastive VAE",
    "nmf": "NMF",
    "opnmf": "opNMF",
    "fa": "factor analysis",
    "lda": "LDA",
    "dnmf": "DNMF",
    "hydra": "HYDRA (mlni)",
    "smile-gan": "Smile-GAN",
    "sustain": "SuStaIn (pySuStaIn)",
    "upstream": "SurrealGAN 0.1.1, 20,000 steps",
}
# of three members on basic and mild; longer ones were run of one member alone
UPSTREAM_STEPS = 20_000
COHORTS, SLOW_COHORTS = {"paper": 10, "stress": 5}, {"paper": 3, "stress": 1}
SLOW = ("cvae", "lda")
FOOTNOTE = (
    "Mean pattern-c-index of the patients that a method was fitted on (1 is perfect, 0.5 is chance); n is the number "
    "of cohorts, ± the standard error over them. A cell is empty where the method was not run, and so is the mean of a "
    "method that was not run on every task; the distance below the limit is that on its tasks. The default averages "
    "five ensemble members. SurrealGAN 0.1.1: mean score of three members (one on the harder tasks), time of one. "
    "Seconds: processor time of one fit and of inference. MB: largest resident memory during the fit minus that before "
    "it. All on one machine."
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suites", default="paper,stress")
    parser.add_argument("--learners", default=",".join(LEARNERS))
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    for suite in options.suites.split(","):
        run_simulated(suite, options.learners.split(","), options.workers)


def run_simulated(suite: str, learners: Sequence[str], workers: int) -> None:
    """Measure all methods on the simulated cohorts of a suite, and write the table."""
    results: list[BenchmarkResult] = []
    for names, cohorts in (
        (tuple(name for name in learners if name not in SLOW), COHORTS[suite]),
        (tuple(name for name in learners if name in SLOW), SLOW_COHORTS[suite]),
    ):
        plan = BenchmarkPlan(suite, names, cohorts, folds=0, adjusted=True)
        results += run_jobs(plan.jobs(), OUT / suite / "runs", workers, print_progress)
    write_results(
        suite, results_to_json(results), format_table([*results, *read_packages(suite)])
    )


def read_packages(suite: str) -> list[BenchmarkResult]:
    """Return the committed results of packages of others on the tasks of a suite."""
    path = OUT / "packages.json"
    rows = json.loads(path.read_text("utf-8"))["results"] if path.is_file() else []
    return [
        BenchmarkResult(**row["result"]) for row in rows if row["suite"] == suite
    ] + read_upstream(suite)


def read_upstream(suite: str) -> list[BenchmarkResult]:
    """Return the committed results of the authors' package (``upstream_sample.py``) on
    the tasks of a suite.
    """
    path = OUT.parent / "upstream_sample.json"
    rows = json.loads(path.read_text("utf-8")) if path.is_file() else []
    rows = [
        row
        for row in rows
        if row["who"] == "SurrealGAN 0.1.1" and row["steps"] == UPSTREAM_STEPS
    ]
    members: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["data"] in get_suite_tasks(suite) and row["adjusted"]:
            members.setdefault(row["data"], []).append(row)
    results = []
    for task, group in members.items():
        score, seconds = (
            float(np.mean([row[key] for row in group]))
            for key in ("pattern_c_index", "seconds")
        )
        results.append(
            BenchmarkResult(
                task,
                "upstream",
                0,
                score,
                [],
                None,
                None,
                seconds,
                processor_seconds=seconds,
            )
        )
    return results


def write_results(suite: str, values: dict[str, Any], table: str) -> None:
    """Write ``results.json`` and ``table.md`` with the command and the commit."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        cwd=HERE,
    ).stdout
    origin = {
        "command": shlex.join(["python", "-m", "benchmarks.rivals", *sys.argv[1:]]),
        "commit": commit.strip(),
    }
    folder = OUT / suite
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(
        json.dumps(origin | values, indent=1) + "\n", "utf-8"
    )
    source = f"By `{origin['command']}` at commit {origin['commit']}."
    (folder / "table.md").write_text(f"{table}\n{source}\n", "utf-8")


def format_table(results: Sequence[BenchmarkResult]) -> str:
    """Return a table with one row per method, from the most to the least accurate."""
    tasks = list(dict.fromkeys(result.task for result in results))
    groups = group_by_learner(results)
    limits = average_by_task(groups.get("oracle", []))
    order = sorted(
        groups,
        key=lambda learner: measure_distance(average_by_task(groups[learner]), limits),
    )
    header = ["method", *tasks, "mean", "below the limit", "n", "seconds", "MB"]
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    for learner in order:
        scores = average_by_task(groups[learner])
        counts = [
            sum(result.task == task for result in groups[learner]) for task in scores
        ]
        cells = [
            LABELS.get(learner, learner),
            *(f"{scores[task]:.3f}" if task in scores else "" for task in tasks),
        ]
        cells.append(
            format_mean(groups[learner], scores) if len(scores) == len(tasks) else ""
        )
        cells.append(f"{measure_distance(scores, limits):.3f}" if limits else "")
        cells += [
            str(min(counts)),
            *(format_cost(groups[learner], field) for field in patient_suite.COSTS),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", FOOTNOTE, ""])


def measure_distance(scores: dict[str, float], limits: dict[str, float]) -> float:
    """Return the mean distance of scores below the limit; without limits, below 1."""
    return float(
        np.mean([limits.get(task, 1.0) - score for task, score in scores.items()])
    )


def format_mean(results: Sequence[BenchmarkResult], scores: dict[str, float]) -> str:
    """Return the mean over tasks, with its standard error over cohorts that have all
    tasks of the method.
    """
    cohorts = {
        seed: [r.pattern_c_index for r in results if r.cohort_seed == seed]
        for seed in range(len(results))
    }
    means = [np.mean(each) for each in cohorts.values() if len(each) == len(scores)]
    error = (
        f" ± {np.std(means, ddof=1) / np.sqrt(len(means)):.3f}"
        if len(means) > 1
        else ""
    )
    return f"{np.mean(list(scores.values())):.3f}{error}"


def group_by_learner(
    results: Sequence[BenchmarkResult],
) -> dict[str, list[BenchmarkResult]]:
    """Return the results of each learner."""
    groups: dict[str, list[BenchmarkResult]] = {}
    for result in results:
        groups.setdefault(result.learner, []).append(result)
    return groups


def average_by_task(results: Sequence[BenchmarkResult]) -> dict[str, float]:
    """Return the mean score on each task."""
    tasks = dict.fromkeys(result.task for result in results)
    return {
        task: float(np.mean([r.pattern_c_index for r in results if r.task == task]))
        for task in tasks
    }


def format_cost(results: Sequence[BenchmarkResult], field: str) -> str:
    """Return the mean of a cost over results, empty where it was not measured."""
    values = [getattr(result, field) for result in results]
    return "" if None in values else f"{float(f'{np.mean(values):.3g}'):g}"


def print_progress(done: int, total: int, job: Any) -> None:
    print(f"{done} of {total}: {job.key}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
