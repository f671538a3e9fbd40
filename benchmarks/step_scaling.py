"""Growth of the cost of a training step with people, regions, patterns and members.

    python -m benchmarks.step_scaling

Seconds per step of one stack (processor time, one thread, minimum of several), the
memory of its weights, moments and buffers, and the exponent of each growth. Writes
``results/step_scaling.json``, ``.md`` (with the cost of studies) and ``.png``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from rindices.learners.gan import train
from rindices.learners.gan.recipe import Recipe, TrainingPlan
from rindices.learners.gan.state import TrainingState, make_training_state

BASE = {"people": 1392, "regions": 139, "patterns": 3, "members": 1, "cap": None}
STUDY_STEPS = (
    75 * 25_000 + 10 * 100_000
)  # fifteen settings of five members, then ten members of the best
GROWTHS: dict[str, tuple[str, list[int], int | None]] = {
    "people, batch by the paper's rule": (
        "people",
        [900, 1392, 5000, 15_000, 50_000, 500_000],
        None,
    ),
    "people, batch at most 256": ("people", [900, 1392, 5000, 50_000, 500_000], 256),
    "regions": ("regions", [50, 100, 139, 250, 500, 1000], None),
    "patterns": ("patterns", [1, 2, 3, 5, 7, 10], None),
    "members": ("members", [1, 2, 5, 10, 20, 50], None),
}


def make_state(
    people: int, regions: int, patterns: int, members: int, cap: int | None
) -> TrainingState:
    """Return a stack on random people, a third of them controls as in the paper."""
    controls = int(people * 492 / 1392)
    x = 1 + 0.1 * torch.randn(controls, regions)
    y = 0.9 + 0.1 * torch.randn(people - controls, regions)
    plan = TrainingPlan(
        patterns=patterns,
        recipe=Recipe().replace(max_batch=cap),
        members=tuple(range(members)),
        stack=members,
    )
    return make_training_state(plan.members, plan, x, y)


def time_step(state: TrainingState, budget: float) -> float:
    """Return the minimum processor time of one step, including its batch."""
    best, end = float("inf"), time.monotonic() + budget
    taken = 0
    while taken < 3 or time.monotonic() < end:
        start = time.process_time()
        train.run_steps(state, 1)
        best, taken = min(best, time.process_time() - start), taken + 1
    return best


def measure_memory_mb(state: TrainingState) -> float:
    """Return the memory of weights, moments and people."""
    tensors = [
        *state.stack.networks.parameters(),
        *(moment for _, moment in state.stack.collect_moments()),
    ]
    tensors += [state.batches.table, *state.batches.orders]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors) / 1e6


def measure_growth(name: str, budget: float) -> dict[str, Any]:
    """Measure one growth."""
    axis, values, cap = GROWTHS[name]
    rows = []
    for value in values:
        state = make_state(**(BASE | {axis: value, "cap": cap}))
        cost = time_step(state, budget)
        rows.append(
            {
                axis: value,
                "batch": state.batches.batch,
                "ms": 1e3 * cost,
                "mb": measure_memory_mb(state),
            }
        )
        print(name, rows[-1], file=sys.stderr, flush=True)
    return {"growth": name, "axis": axis, "rows": rows} | fit_exponents(axis, rows)


def fit_exponents(axis: str, rows: list[dict[str, float]]) -> dict[str, float]:
    """Return the slope of log cost over log size, over all sizes and over
    the last two.
    """
    x, y = (np.log([row[key] for row in rows]) for key in (axis, "ms"))
    last = (y[-1] - y[-2]) / (x[-1] - x[-2])
    return {"exponent": float(np.polyfit(x, y, 1)[0]), "last_exponent": float(last)}


def format_table(results: list[dict[str, Any]]) -> str:
    """Return the results as Markdown."""
    lines = [
        "| growth | size | batch | ms per step | MB | exponent (all; last two) |",
        "|---|---|---|---|---|---|",
    ]
    for result in results:
        slopes = f"{result['exponent']:.2f}; {result['last_exponent']:.2f}"
        for row in result["rows"]:
            first = row is result["rows"][0]
            cells = [
                result["growth"] if first else "",
                f"{row[result['axis']]:,}",
                str(row["batch"]),
            ]
            cells += [f"{row['ms']:.2f}", f"{row['mb']:.1f}", slopes if first else ""]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def format_study_costs(results: list[dict[str, Any]]) -> str:
    """Return the cost of studies, from the measured steps."""
    by_name = {
        result["growth"]: {row["people"]: row for row in result["rows"]}
        for result in results[:2]
    }
    lines = []
    for people in (1392, 50_000, 500_000):
        parts = []
        for name, rows in by_name.items():
            hours = rows[people]["ms"] / 3.6e6 * STUDY_STEPS
            parts.append(
                f"{hours:,.0f} core-hours and {rows[people]['mb']:,.0f} MB a member ({name.split(', ')[1]})"
            )
        lines.append(f"- {people:,} people: {' or '.join(parts)}.")
    head = (
        "A study of the paper's size (M = 2, 3, 4 and five lambda: 75 members of 25,000 steps, and ten of 100,000; 139 "
        "regions) costs, from these steps on one thread:"
    )
    return "\n".join(["", head, "", *lines, ""])


def draw_figure(results: list[dict[str, Any]], path: Path) -> None:
    """Draw one panel per growth on logarithmic axes."""
    figure = Figure(figsize=(3.2 * len(results), 3.4), layout="constrained")
    axes = figure.subplots(1, len(results), sharey=True)
    for axis, result in zip(axes, results, strict=True):
        x = [row[result["axis"]] for row in result["rows"]]
        axis.loglog(x, [row["ms"] for row in result["rows"]], "o-")
        axis.set(
            title=f"{result['growth'].replace(', ', chr(10))}\nexponent {result['exponent']:.2f}",
            xlabel=result["axis"],
        )
    axes[0].set_ylabel("ms per step, one thread")
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(__file__).parent / "results" / "step_scaling.json",
    )
    parser.add_argument("--budget", type=float, default=1.5, help="seconds per size")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = [measure_growth(name, options.budget) for name in GROWTHS]
    options.out.write_text(json.dumps(results, indent=1) + "\n")
    options.out.with_suffix(".md").write_text(
        format_table(results) + format_study_costs(results)
    )
    draw_figure(results, options.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
