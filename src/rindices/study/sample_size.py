"""Warning about small cohorts, from the committed power study (``data/power.json``)."""

import json
from dataclasses import dataclass
from importlib.resources import files

from rindices.errors import Problem, ProblemCode, Severity
from rindices.wording import get_wording

MILD_RATE = 0.2  # loss of the paper's mild task; cohorts are not judged by smaller effects
MIN_RECOVERY_RATE = 0.8  # a cohort is small if the right number of patterns is found in fewer cohorts than this


@dataclass(frozen=True)
class PowerRow:
    """Means and standard errors over the simulated cohorts of one size and effect."""

    controls: int
    patients: int
    rate: float  # share of volume lost at severity 1
    accuracy: float  # pattern-c-index
    accuracy_se: float | None
    right: float  # share of cohorts in which the test finds the true number of patterns
    right_se: float | None
    any: float  # share of cohorts in which the test finds at least one pattern
    any_se: float | None
    width: float  # of the 95 % interval of a person's severity; severities are 0 to 1
    width_se: float | None
    d: float | None = None  # Cohen's d of a region of a pattern, in the median region where the rate was given


def load_power_rows() -> list[PowerRow]:
    """Return the power study that comes with the package."""
    text = (files("rindices.study") / "data" / "power.json").read_text("utf-8")
    return [PowerRow(**row) for row in json.loads(text)["rows"]]


def check_sample_size(n_controls: int, n_patients: int, unit: str = "") -> list[Problem]:
    """Return a warning if simulated cohorts of this size too rarely gave the right number of patterns."""
    rows = load_power_rows()
    people = f"a small study ({n_controls} controls and {n_patients} patients)"
    fitting = [row for row in rows if row.controls <= n_controls and row.patients <= n_patients]
    if not fitting:
        smallest = min(rows, key=lambda row: row.controls)
        sizes = {"controls": (n_controls, smallest.controls), "patients": (n_patients, smallest.patients)}
        few = [f"{size} {name} are fewer than {least}" for name, (size, least) in sizes.items() if size < least]
        what = f"{people}: {', and '.join(few)}, the fewest in the simulations"
        cure = "Run rindices power to see what to expect"
        return [Problem(Severity.WARNING, what, "", cure, ProblemCode.SMALL_COHORT)]
    largest = max(row.controls + row.patients for row in fitting)
    weak = [
        row
        for row in fitting
        if row.controls + row.patients == largest and row.right < MIN_RECOVERY_RATE and row.rate >= MILD_RATE
    ]
    if not weak:
        return []
    row, noun = weak[-1], get_wording(unit)("region")
    what = (
        f"{people}: with {row.controls} and {row.patients}, simulated patterns that take {row.rate:.0%} of a {noun} "
        f"were ranked {row.accuracy:.2f} (0.5 is chance) and their number was found in {row.right:.0%} of the cohorts"
    )
    cure = "Run rindices power to see what more people would give"
    return [Problem(Severity.WARNING, what, "", cure, ProblemCode.SMALL_COHORT)]
