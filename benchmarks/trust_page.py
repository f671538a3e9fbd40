"""Writes ``docs/trust.md`` from the committed results.

Usage: ``python benchmarks/trust_page.py``, after ``benchmarks/trust``, ``scripts/make_power.py`` and
``benchmarks/power.py``.
"""

import json
from pathlib import Path
from typing import Any

from rindices.experiments.trust_cohorts import PATIENT_SPREAD
from rindices.selection.dimensions import N_PERMUTATIONS, SIGNIFICANCE_LEVEL
from rindices.study.evidence import MAX_PARTICIPANTS_PER_GROUP
from rindices.study.sample_size import MIN_RECOVERY_RATE

RESULTS = Path(__file__).parent / "results"
TEMPLATE = Path(__file__).parent / "trust_template.md"
OUT = Path(__file__).parents[1] / "docs" / "trust.md"


def read(part: str) -> Any:
    """A committed result of the suite."""
    path = RESULTS / "trust" / part / "results.json"
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


def table(part: str) -> str:
    """The table that the benchmark wrote; that of the null in one column."""
    path = RESULTS / "trust" / part / "table.md"
    return path.read_text("utf-8").strip() if path.is_file() else "not measured yet"


def null() -> str:
    """Share of cohorts in which a pattern was reported."""
    found = read("null")
    if found is None:
        return "not measured yet"
    lines = ["| cohorts without disease | number | a pattern reported in |", "|---|---|---|"]
    lines += [f"| {row['kind']} | {row['n']} | {1 - row['right']:.1%} |" for row in found["summary"]]
    return "\n".join(lines)


def lost() -> tuple[int, int]:
    """How many true patterns the learner lost to the batch, and how many there were."""
    found = read("nuisance")
    if found is None:
        return 0, 0
    there = sum(result["patterns"] for result in found["results"])
    return there - sum(result["kinds"].count("true") for result in found["results"]), there


def main() -> None:
    """Write the page."""
    missing, slots = lost()
    values = {
        "relabellings": N_PERMUTATIONS,
        "level": SIGNIFICANCE_LEVEL,
        "wider": PATIENT_SPREAD - 1,
        "null": null(),
        "number": table("number"),
        "stress": table("stress"),
        "nuisance": table("nuisance"),
        "lost": missing,
        "slots": slots,
        "power": (RESULTS / "power" / "power.md").read_text("utf-8").strip(),
        "against": (RESULTS / "power" / "against_benchmark.md").read_text("utf-8").strip(),
        "enough": MIN_RECOVERY_RATE,
        "most": MAX_PARTICIPANTS_PER_GROUP,
    }
    OUT.write_text(TEMPLATE.read_text("utf-8").format(**values), "utf-8")


if __name__ == "__main__":
    main()
