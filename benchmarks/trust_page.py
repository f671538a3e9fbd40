"""Write ``docs/trust.md`` from the committed results.

Usage: ``python -m benchmarks.trust_page``, after ``benchmarks/trust``, ``scripts/make_power.py`` and
``benchmarks/power.py``.
"""

import json
from pathlib import Path
from typing import Any

from benchmarks.suites.trust_cohorts import PATIENT_SPREAD
from rindices.selection.dimensions import SIGNIFICANCE_LEVEL
from rindices.study.checks import MIN_RECOVERY_RATE
from rindices.study.group_tests import MAX_PARTICIPANTS_PER_GROUP

RESULTS = Path(__file__).parent / "results"
TEMPLATE = Path(__file__).parent / "trust_template.md"
OUT = Path(__file__).parents[1] / "docs" / "trust.md"


def read_result(part: str) -> Any:
    """Return a committed result of the suite."""
    path = RESULTS / "trust" / part / "results.json"
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


def read_table(part: str) -> str:
    """Return the table that the benchmark wrote."""
    path = RESULTS / "trust" / part / "table.md"
    return path.read_text("utf-8").strip() if path.is_file() else "not measured yet"


def format_null_table() -> str:
    """Return the share of null cohorts in which a difference was reported."""
    result = read_result("null")
    if result is None:
        return "not measured yet"
    lines = ["| cohorts without disease | number | a difference reported in |", "|---|---|---|"]
    lines += [f"| {row['kind']} | {row['n']} | {1 - row['right']:.1%} |" for row in result["summary"]]
    return "\n".join(lines)


def count_lost_patterns() -> tuple[int, int]:
    """Return how many true patterns were lost to the batch effect, and how many there were."""
    result = read_result("nuisance")
    if result is None:
        return 0, 0
    n_patterns = sum(study["patterns"] for study in result["results"])
    return n_patterns - sum(study["kinds"].count("true") for study in result["results"]), n_patterns


def main() -> None:
    """Write the page."""
    missing, slots = count_lost_patterns()
    values = {
        "level": SIGNIFICANCE_LEVEL,
        "wider": PATIENT_SPREAD - 1,
        "null": format_null_table(),
        "number": read_table("number"),
        "stress": read_table("stress"),
        "nuisance": read_table("nuisance"),
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
