"""Suite ``trust``: whether nothing is found where there is nothing, and the right number where there is something.

Parts: ``null`` (patients are controls), ``number`` (1, 2, 3 and 5 patterns), ``stress`` (the tasks the paper tried and
those it did not), ``nuisance`` (true patterns against a batch effect in some patients).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rindices import __version__
from rindices.errors import InputError, did_you_mean
from rindices.experiments.pieces import run_pieces
from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import PAPER, STRESS, TASKS
from rindices.experiments.trust_cohorts import NULLS, PATTERNS, null_cohort, pattern_task
from rindices.selection.dimensions import LEVEL
from rindices.study.evidence import cohort_dimensions

PARTS = ("null", "number", "stress")
RATES = {"basic": 0.3, "mild": 0.2}


@dataclass(frozen=True)
class Trial:
    """One cohort of the suite.

    Attributes
    ----------
    part : str
    kind : str
        Which cohort: a kind of null, ``basic`` or ``mild``, a task.
    patterns : int
        True number of patterns.
    seed : int
    """

    part: str
    kind: str
    patterns: int
    seed: int

    @property
    def key(self) -> str:
        """A name that is the same for the same work, and for nothing else."""
        plain = "".join(letter if letter.isalnum() else "_" for letter in self.kind)
        return f"trust-{self.part}-{plain}-m{self.patterns}-{self.seed}-v{__version__}"


def trials(cohorts: int, parts: Sequence[str] = PARTS) -> list[Trial]:
    """Return the cohorts of the suite's parts, as many of each kind."""
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise InputError(f"suite trust has no task '{unknown[0]}': {did_you_mean(unknown[0], PARTS)}")
    kinds: dict[str, list[tuple[str, int]]] = {
        "null": [(kind, 0) for kind in NULLS],
        "number": [(kind, patterns) for kind in RATES for patterns in PATTERNS],
        "stress": [(task, len(TASKS[task].patterns)) for task in (*PAPER, *STRESS)],
    }
    return [Trial(part, *kind, seed) for part in parts for kind in kinds[part] for seed in range(cohorts)]


def run_trust(
    asked: Sequence[Trial],
    store: Path | None = None,
    workers: int = -1,
    told: Callable[[int, int, object], None] | None = None,
) -> list[dict[str, Any]]:
    """Measure all trials; see `run_pieces`."""
    return run_pieces(asked, measure, store, workers, told)


def measure(trial: Trial) -> dict[str, Any]:
    """Run the test on one cohort."""
    if trial.part == "null":
        cohort = null_cohort(trial.kind, trial.seed)
    elif trial.part == "number":
        cohort = simulate_cohort(pattern_task(trial.patterns, RATES[trial.kind]), trial.seed).cohort
    else:
        cohort = simulate_cohort(trial.kind, trial.seed).cohort
    found = cohort_dimensions(cohort, trial.seed)
    last = found.questions[-1]
    return {
        "part": trial.part,
        "kind": trial.kind,
        "patterns": trial.patterns,
        "cohort_seed": trial.seed,
        "found": found.number,
        "p": [question.p for question in found.questions],
        "overlap": found.overlap,
        "relabellings": sum(question.relabellings for question in found.questions),
        "excess_left": last.excess,
    }


def summarise(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return how often each number was found, per kind and true number of patterns."""
    groups: dict[tuple[str, str, int], list[int]] = {}
    for result in results:
        groups.setdefault((result["part"], result["kind"], result["patterns"]), []).append(result["found"])
    rows = []
    for (part, kind, patterns), found in groups.items():
        right = float(np.mean([number == patterns for number in found]))
        counts = {str(number): found.count(number) for number in sorted(set(found))}
        rows.append(
            {"part": part, "kind": kind, "patterns": patterns, "n": len(found), "right": right, "found": counts}
        )
    return rows


def as_json(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return results and summary in the shape that ``benchmark --suite trust --json`` prints."""
    return {"level": LEVEL, "results": list(results), "summary": summarise(results)}


def markdown(results: Sequence[dict[str, Any]]) -> str:
    """Return how often each number of patterns was found, as a table: a row a kind of cohort."""
    summary = summarise(results)
    columns = sorted({int(number) for row in summary for number in row["found"]} | {0})
    lines = [
        f"| cohorts | true patterns | right | {' | '.join(f'found {number}' for number in columns)} |",
        f"|---|---|---|{'---|' * len(columns)}",
    ]
    for row in summary:
        cells = [str(row["found"].get(str(number), "")) for number in columns]
        lines.append(f"| {row['kind']} | {row['patterns']} | {row['right']:.1%} | {' | '.join(cells)} |")
    sizes = sorted({row["n"] for row in summary})
    foot = f"{' or '.join(map(str, sizes))} cohorts each, tested at the level {LEVEL:g}."
    return "\n".join([*lines, "", foot, ""])
