"""Write ``docs/scale.md``: the cost of a study at any size, from committed measurements.

    python -m benchmarks.scale

Fills ``scale_template.md`` from ``results/step_scaling.json``, ``engine_overhead.json``, ``engine_speedup.json`` and
``apply_scale.json``, and counts the tensor operations of a training step. Assumed numbers are constants below, and
the page names them.
"""

import json
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.step_scaling import BASE, STUDY_MEMBERS, STUDY_STEPS, make_state
from rindices.learners.gan import train
from rindices.study.engines import MAX_RETRIES
from rindices.study.study import STACK_SIZE

RESULTS = Path(__file__).parent / "results"
TEMPLATE = Path(__file__).parent / "scale_template.md"
OUT = Path(__file__).parents[1] / "docs" / "scale.md"
PEOPLE = (5000, 50_000, 500_000)
REGIONS = (139, 1000)
RULES = ("people, batch by the paper's rule", "people, batch at most 256")
LAUNCH_US = 10.0  # assumed time of a GPU to start one operation
LONGEST_HOURS = 7 * 24.0  # assumed longest acceptable time of one member set
HOUR_MS = 3.6e6


class Steps:
    """Measured time and memory of a training step of one member, by people and by regions."""

    def __init__(self, measured: list[dict[str, Any]]) -> None:
        self.by_name = {growth["growth"]: growth for growth in measured}

    def row(self, growth: str, size: int) -> dict[str, float]:
        """Return one measured size."""
        measured = self.by_name[growth]
        return next(row for row in measured["rows"] if row[measured["axis"]] == size)

    def ms(self, rule: str, people: int, regions: int) -> float:
        """Return the milliseconds of a member's step: measured by people, times the measured growth with regions."""
        growth = self.row("regions", regions)["ms"] / self.row("regions", BASE["regions"])["ms"]
        return self.row(rule, people)["ms"] * growth

    def mb(self, rule: str, people: int, regions: int) -> float:
        """Return a member's memory: people and batches grow as the regions, the rest (weights) is added as measured."""
        wider = regions / BASE["regions"]
        weights = self.row("regions", regions)["mb"] - wider * self.row("regions", BASE["regions"])["mb"]
        return wider * self.row(rule, people)["mb"] + weights

    def hours(self, rule: str, people: int, regions: int, members: int = 1) -> float:
        """Return the core-hours of members with the number of steps of the paper."""
        return members * STUDY_STEPS * self.ms(rule, people, regions) / HOUR_MS

    def too_long(self, rule: str, regions: int) -> float:
        """Return the number of people above which a member set takes too long, by the last measured exponent."""
        growth = self.by_name[rule]
        last = growth["rows"][-1]
        hours = self.hours(rule, last["people"], regions, STACK_SIZE)
        return float(last["people"] * (LONGEST_HOURS / hours) ** (1 / growth["last_exponent"]))


class _OperationCounter(TorchDispatchMode):
    """Counts tensor operations."""

    number = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.number += 1
        return func(*args, **(kwargs or {}))


@torch.inference_mode()
def count_operations() -> int:
    """Return the number of tensor operations of one step, which does not depend on the size of the stack."""
    group = make_state(**(BASE | {"members": STACK_SIZE}))
    group.batches.fill(group.work.people, group.stack.streams)
    train.take_step(group.stack, group.work)
    with _OperationCounter() as counted:
        train.take_step(group.stack, group.work)
    return counted.number


def read_result(name: str) -> Any:
    """Return a committed result."""
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def format_rows(*cells: list[str]) -> str:
    """Return a Markdown table; the first row is its header."""
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join([lines[0], "|" + "---|" * len(cells[0]), *lines[1:]])


def format_costs(steps: Steps) -> str:
    """Return the table of costs of studies."""
    head = [
        "people",
        "regions",
        "batch",
        "ms a step and member",
        "core-hours a study",
        "hours a member set",
        "MB a member set",
    ]
    body = []
    for rule in RULES:
        for regions in REGIONS:
            for people in PEOPLE:
                cells = [f"{people:,}", f"{regions:,}", rule.partition(", batch ")[2]]
                cells += [f"{steps.ms(rule, people, regions):,.1f}"]
                cells += [f"{steps.hours(rule, people, regions, STUDY_MEMBERS):,.0f}"]
                cells += [f"{steps.hours(rule, people, regions, STACK_SIZE):,.1f}"]
                cells += [f"{STACK_SIZE * steps.mb(rule, people, regions):,.0f}"]
                body.append(cells)
    return format_rows(head, *body)


def format_gpu_table(steps: Steps) -> str:
    """Return the table of the largest number of cores that a GPU replaces."""
    floor = count_operations() * LAUNCH_US / 1e3
    body = []
    for rule in RULES:
        for people in (BASE["people"], *PEOPLE):
            ms = STACK_SIZE * steps.ms(rule, people, BASE["regions"])
            cells = [f"{people:,}", rule.partition(", batch ")[2], f"{ms:,.1f}", f"{floor:.1f}", f"{ms / floor:,.1f}"]
            body.append(cells)
    head = ["people", "batch", "ms, a stack on a core", "ms, a GPU at the least", "cores it replaces at most"]
    return format_rows(head, *body)


def format_speed_up() -> str:
    """Return the speed-up of two workers, if it was measured."""
    if not (RESULTS / "engine_speedup.json").is_file():
        return "not measured yet (`benchmarks/engine_speedup.py`)"
    return "; ".join(f"{row['engine']} {row['speed_up']:.2f}" for row in read_result("engine_speedup")["results"])


def format_page() -> str:
    """Return the page."""
    steps, cost, applied = (
        Steps(read_result("step_scaling")),
        read_result("engine_overhead"),
        read_result("apply_scale"),
    )
    set_ms = steps.hours(RULES[0], BASE["people"], BASE["regions"], STACK_SIZE) * HOUR_MS
    values = {
        "stack": STACK_SIZE,
        "members": STUDY_MEMBERS,
        "sets": STUDY_MEMBERS // STACK_SIZE,
        "steps": STUDY_STEPS,
        "retries": MAX_RETRIES,
        "wide": REGIONS[1],
        "most": PEOPLE[-1],
        "paper_people": BASE["people"],
        "costs": format_costs(steps),
        "noop_sets": cost["sets"],
        "load": cost["load_at_start"],
        "ms_per_set": cost["ms_per_set"],
        "grown": cost["client_mb_most"] - cost["client_mb_before"],
        "set_minutes": set_ms / 6e4,
        "share": cost["ms_per_set"] / set_ms,
        "speed": format_speed_up(),
        "operations": count_operations(),
        "launch": LAUNCH_US,
        "gpu": format_gpu_table(steps),
        "few": STACK_SIZE * steps.ms(RULES[1], PEOPLE[-1], BASE["regions"]) / (count_operations() * LAUNCH_US / 1e3),
        "limit": LONGEST_HOURS,
        "too_many": steps.too_long(RULES[0], REGIONS[0]),
        "too_many_wide": steps.too_long(RULES[0], REGIONS[1]),
        "narrow": REGIONS[0],
        "capped": steps.hours(RULES[1], PEOPLE[-1], BASE["regions"], STACK_SIZE),
        "rate": applied["apply_people_per_second"],
        "heads": applied["members"],
        "cores": applied["cores"],
        "seconds": PEOPLE[-1] / applied["apply_people_per_second"],
    }
    return TEMPLATE.read_text("utf-8").format(**values)


def main() -> None:
    """Write the page."""
    OUT.write_text(format_page(), "utf-8")


if __name__ == "__main__":
    main()
