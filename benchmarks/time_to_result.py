"""Time to a result: ten members at one setting with selection, compared with the authors' package.

    python -m benchmarks.time_to_result [--upstream FOLDER] [--task basic]

Times `fit` of recipe default (M = 3, ten members with the agreement of disjoint halves, two workers) from the cohort in
memory to the model; one member, until its accuracy exceeds the paper's; and the authors' training step on the same
machine, multiplied by the steps that their manual recommends (1,500,000 x 300 / patients) and by those of the paper
(100,000). Writes ``results/time_to_result.json`` and ``.md``. Run it on an idle machine.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import rindices as ri
from benchmarks.step_speed import install_upstream, upstream_burst
from benchmarks.suites.cases import get_suite_tasks
from benchmarks.suites.paper import SURREAL_GAN_SCORES
from rindices.experiments.simulate import simulate_cohort
from rindices.learners.prepared_people import PreparedPeople
from rindices.learners.trajectory.members import fit_trajectory_members
from rindices.selection.agreement import pattern_c_index

OUT = Path(__file__).parent / "results" / "time_to_result.json"
MEMBERS, WORKERS, BURST = 10, 2, 40


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="basic")
    parser.add_argument("--upstream", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        upstream = options.upstream or Path(folder)
        if options.upstream is None:
            install_upstream(upstream)
        result = measure_rindices(options.task) | measure_upstream(upstream, options.task)
    OUT.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    OUT.with_suffix(".md").write_text(format_table(result), "utf-8")
    print(format_table(result))


def measure_rindices(task: str) -> dict[str, Any]:
    """Return the seconds of a fit and of one member, with their accuracy."""
    simulated = simulate_cohort(task, 0)
    start = time.perf_counter()
    model = ri.fit(simulated.cohort, 3, members=MEMBERS, workers=WORKERS)
    fit_seconds = time.perf_counter() - start
    r = model.apply(simulated.cohort).filter(regex=r"^r\d+$").to_numpy()[simulated.cohort.is_patient]
    case = get_suite_tasks("paper")[task](0)
    start = time.perf_counter()
    people = PreparedPeople(case.X, case.y).deal_to_members((0,), 0)
    (member,) = fit_trajectory_members(people, case.truth.shape[1], (0,), 0)
    member_seconds = time.perf_counter() - start
    return {
        "task": task,
        "patients": int(simulated.cohort.n_patients),
        "fit_seconds": fit_seconds,
        "fit_score": pattern_c_index(simulated.truth, r).mean,
        "member_seconds": member_seconds,
        "member_score": pattern_c_index(case.truth, member.head.infer(case.X[case.y == 1])).mean,
        "paper_score": SURREAL_GAN_SCORES[task],
    }


def measure_upstream(folder: Path, task: str) -> dict[str, Any]:
    """Return the seconds of one step of the authors' package, the minimum of several bursts."""
    patients = simulate_cohort(task, 0).cohort.n_patients
    burst = upstream_burst(folder, patients // 8, BURST)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        burst()
        times.append((time.perf_counter() - start) / BURST)
    return {"upstream_step_seconds": min(times), "upstream_steps": 1_500_000 * 300 // patients, "paper_steps": 100_000}


def format_table(result: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    hour = 3600.0
    member = result["upstream_step_seconds"] * result["upstream_steps"] / hour
    short = result["upstream_step_seconds"] * result["paper_steps"] / hour
    ratio = MEMBERS * result["upstream_step_seconds"] * result["paper_steps"] / (WORKERS * result["fit_seconds"])
    rows = [
        ("ten members and their selection, two workers", f"{result['fit_seconds']:.0f} s", result["fit_score"]),
        ("one member of those, ahead of the paper", f"{result['member_seconds']:.1f} s", result["member_score"]),
        ("authors' package, ten members of the paper's 100,000 steps", f"{MEMBERS * short:.1f} core-hours", None),
        (
            f"the same, the {result['upstream_steps']:,} its manual recommends",
            f"{MEMBERS * member:.0f} core-hours",
            None,
        ),
    ]
    lines = ["| what | time | pattern-c-index |", "|---|---|---|"]
    lines += [
        f"| {label} | {duration} | {'' if score is None else f'{score:.3f}'} |" for label, duration, score in rows
    ]
    lines.append(
        f"\nTask {result['task']}, all in one run on two cores. The paper reports {result['paper_score']:.3f}. In "
        f"core-seconds, ten members cost {ratio:,.0f} times less than the authors' package needs for the paper's steps."
    )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
