"""Write ``docs/scale.md``: the cost of a study at any size, from committed
measurements.

    python -m benchmarks.scale

Fills ``scale_template.md`` from ``results/study_cost.json``, ``parts.json``,
``step_scaling.json``, ``engine_overhead.json``, ``engine_speedup.json`` and
``apply_scale.json``.
"""

import json
from pathlib import Path
from typing import Any

from benchmarks.step_scaling import BASE, STUDY_STEPS
from benchmarks.study_cost import STUDIES
from rindices.engine.tasks import MAX_RETRIES
from rindices.study.preflight import N_COPIES
from rindices.study.study import STACK_SIZE

RESULTS = Path(__file__).parent / "results"
TEMPLATE = Path(__file__).parent / "scale_template.md"
OUT = Path(__file__).parents[1] / "docs" / "scale.md"
HOUR_MS = 3.6e6
BYTES_PER_PERSON = 2 * 8 * 139  # volumes and shifts in the temporary files of workers


def read_result(name: str) -> Any:
    """Return a committed result."""
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def format_costs(studies: dict[str, Any], parts: list[dict[str, Any]]) -> str:
    """Return the table of costs of studies in memory and in parts."""
    rows = [
        "| study | processor seconds | MB of the largest process |",
        "|---|---|---|",
    ]
    for name, text in STUDIES.items():
        rows.append(
            f"| {text} | {studies[name]['seconds']:,.0f} | {studies[name]['mb']:,.0f} |"
        )
    for row in parts:
        if row["method"] == "trajectories":
            seconds = (
                row["processor seconds of the workers"]
                + row["processor seconds of the centre"]
            )
            text = f"{row['people']:,} people, 139 regions; in parts, three patterns"
            rows.append(
                f"| {text} | {seconds:,} | {row['MB of the largest worker']:,} |"
            )
    return "\n".join(rows)


def compute_growth(parts: list[dict[str, Any]]) -> float:
    """Return the processor seconds of reading, adjustment and tests per extra million
    people.
    """
    seconds = {
        row["people"]: sum(
            row["processor seconds by stage"][stage]
            for stage in ("reading", "adjustment", "tests")
        )
        for row in parts
    }
    fewest, most = min(seconds), max(seconds)
    return float(1e6 * (seconds[most] - seconds[fewest]) / (most - fewest))


def format_page() -> str:
    """Return the page."""
    parts, overhead, applied = (
        read_result(n) for n in ("parts", "engine_overhead", "apply_scale")
    )
    steps = {growth["growth"]: growth["rows"] for growth in read_result("step_scaling")}
    by_people = {row["people"]: row["ms"] for row in steps["people, batch at most 256"]}
    speed_up = read_result("engine_speedup")["results"]
    per_million = compute_growth(parts)
    values = {
        "costs": format_costs(read_result("study_cost"), parts),
        "copies": N_COPIES,
        "per_million": per_million,
        "hundred": 100 * per_million / 3600,
        "disk": 1e8 * BYTES_PER_PERSON / 1e12,
        "retries": MAX_RETRIES,
        "noop_sets": overhead["sets"],
        "ms_per_set": overhead["ms_per_set"],
        "grown": overhead["client_mb_most"] - overhead["client_mb_before"],
        "load": overhead["load_at_start"],
        "speed": "; ".join(
            f"{row['engine']} {row['speed_up']:.2f}" for row in speed_up
        ),
        "paper_people": BASE["people"],
        "paper_hours": STUDY_STEPS * by_people[BASE["people"]] / HOUR_MS,
        "large_hours": STUDY_STEPS * by_people[50_000] / HOUR_MS,
        "stack": STACK_SIZE,
        "sets": 75 // STACK_SIZE,
        "rate": applied["apply_people_per_second"],
        "cores": applied["cores"],
        "heads": applied["members"],
        "seconds": 500_000 / applied["apply_people_per_second"],
    }
    return TEMPLATE.read_text("utf-8").format(**values)


if __name__ == "__main__":
    OUT.write_text(format_page(), "utf-8")
