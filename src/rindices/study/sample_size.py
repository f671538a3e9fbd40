"""Warning about small cohorts, from the committed power study (``data/power.json``)."""

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from rindices.errors import Problem, Severity

MILD_RATE = 0.2  # the share that the paper's mild task takes: less is not asked of a cohort
MIN_RECOVERY_RATE = 0.8  # chance of finding the right number of patterns below which a cohort is called small


def check_sample_size(n_controls: int, n_patients: int) -> list[Problem]:
    """Return a warning for a cohort whose size gave the right number of patterns too rarely in simulation."""
    table = json.loads((files("rindices.study") / "data" / "power.json").read_text("utf-8"))
    fitting = [row for row in table["rows"] if row["controls"] <= n_controls and row["patients"] <= n_patients]
    if not fitting:
        smallest = min(table["rows"], key=lambda row: float(row["controls"]))
        what = (
            f"{n_controls} controls and {n_patients} patients are fewer than were ever simulated "
            f"({smallest['controls']} and {smallest['patients']})"
        )
        return [Problem(Severity.WARNING, what, "", "The command rindices power says what to expect")]
    weak = [
        row for row in _select_largest_size(fitting) if row["right"] < MIN_RECOVERY_RATE and row["rate"] >= MILD_RATE
    ]
    return [_make_warning(weak[-1])] if weak else []


def _select_largest_size(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of the largest size among them."""
    largest = max((row["controls"] + row["patients"] for row in rows), default=0)
    return [row for row in rows if row["controls"] + row["patients"] == largest]


def _make_warning(row: dict[str, Any]) -> Problem:
    what = (
        f"a small cohort (with {row['controls']} controls and {row['patients']} patients, simulated patterns that take "
        f"{row['rate']:.0%} of a region were ranked {row['accuracy']:.2f} (0.5 is chance) and their number found in "
        f"{row['right']:.0%} of the cohorts)"
    )
    return Problem(Severity.WARNING, what, "", "The command rindices power tells what more people would give")
