"""Suite ``trust``: whether nothing is found where there is nothing, and the right number where there is something.

Parts: ``null`` (patients are controls), ``number`` (1, 2, 3 and 5 patterns), ``stress`` (the tasks the paper tried and
those it did not), ``nuisance`` (true patterns against a batch effect in some patients).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from rindices._version import __version__
from rindices.errors import InputError, did_you_mean
from rindices.experiments.cached_parallel import JobCallback, run_jobs
from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import PAPER_TASKS, STRESS_TASKS, TASKS
from rindices.experiments.trust_cohorts import (
    BATCH_SHARES,
    NULL_COHORTS,
    PATTERN_COUNTS,
    make_pattern_task,
    simulate_batch_cohort,
    simulate_null_cohort,
)
from rindices.learners.contrastive.estimator import ContrastiveICA
from rindices.learners.pattern_stability import assess_pattern_stability
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.agreement import c_index_matrix
from rindices.selection.dimensions import SIGNIFICANCE_LEVEL
from rindices.study.evidence import count_cohort_dimensions

SUITE_PARTS = ("null", "number", "stress", "nuisance")
RELIABILITY_MEASURES = ("stability", "split_half", "carriers")
_MIN_TRUE_C_INDEX, _MIN_BATCH_AUC = (
    0.7,
    0.9,
)  # c-index with a true severity, AUC with the batch, from which a learnt pattern counts as such
RATE_BY_KIND = {"basic": 0.3, "mild": 0.2}


@dataclass(frozen=True)
class TrustTrial:
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


def list_trials(cohorts: int, parts: Sequence[str] = SUITE_PARTS) -> list[TrustTrial]:
    """Return the cohorts of the suite's parts, as many of each kind."""
    unknown = [part for part in parts if part not in SUITE_PARTS]
    if unknown:
        raise InputError(f"suite trust has no task '{unknown[0]}': {did_you_mean(unknown[0], SUITE_PARTS)}")
    kinds: dict[str, list[tuple[str, int]]] = {
        "null": [(kind, 0) for kind in NULL_COHORTS],
        "number": [(kind, patterns) for kind in RATE_BY_KIND for patterns in PATTERN_COUNTS],
        "stress": [(task, len(TASKS[task].patterns)) for task in (*PAPER_TASKS, *STRESS_TASKS)],
        "nuisance": [(f"{rate}, batch in {share:.0%}", 3) for rate in RATE_BY_KIND for share in BATCH_SHARES],
    }
    return [TrustTrial(part, *kind, seed) for part in parts for kind in kinds[part] for seed in range(cohorts)]


def run_trust_suite(
    asked: Sequence[TrustTrial], store: Path | None = None, workers: int = -1, told: JobCallback | None = None
) -> list[dict[str, Any]]:
    """Measure all trials; see `run_jobs`."""
    return run_jobs(asked, measure_trial, store, workers, told)


def measure_trial(trial: TrustTrial) -> dict[str, Any]:
    """Run one trial."""
    return _measure_nuisance(trial) if trial.part == "nuisance" else _measure_number(trial)


def _measure_nuisance(trial: TrustTrial) -> dict[str, Any]:
    """Learn one pattern too many where there is a batch effect, and judge each learnt pattern by other people."""
    rate, _, share = trial.kind.partition(", batch in ")
    task = make_pattern_task(trial.patterns, RATE_BY_KIND[rate])
    made, batch = simulate_batch_cohort(trial.seed, task, float(share.rstrip("%")) / 100)
    cohort = made.cohort
    X, y = Preprocessing.fit(cohort).transform(cohort), cohort.is_patient.astype(np.intp)
    learner = ContrastiveICA(trial.patterns + 1, trial.seed).fit(X, y)
    indices = learner.transform(X)
    seen = assess_pattern_stability(X, y, indices, learner.patterns_, trial.seed)
    ranked = c_index_matrix(made.truth, indices[y == 1]).max(axis=0)
    told = [float(roc_auc_score(batch, column)) for column in indices[y == 1].T]
    kinds = [
        "true" if c >= _MIN_TRUE_C_INDEX else "nuisance" if a >= _MIN_BATCH_AUC else "neither"
        for c, a in zip(ranked, told, strict=True)
    ]
    figures = (seen.stability.mean(axis=0), seen.split_half.mean(axis=0), seen.carriers)
    found = {
        name: [float(value) for value in values] for name, values in zip(RELIABILITY_MEASURES, figures, strict=True)
    }
    return _describe_trial(trial) | {"kinds": kinds, **found}


def _describe_trial(trial: TrustTrial) -> dict[str, Any]:
    return {"part": trial.part, "kind": trial.kind, "patterns": trial.patterns, "cohort_seed": trial.seed}


def _measure_number(trial: TrustTrial) -> dict[str, Any]:
    """Run the test on one cohort."""
    if trial.part == "null":
        cohort = simulate_null_cohort(trial.kind, trial.seed)
    elif trial.part == "number":
        cohort = simulate_cohort(make_pattern_task(trial.patterns, RATE_BY_KIND[trial.kind]), trial.seed).cohort
    else:
        cohort = simulate_cohort(trial.kind, trial.seed).cohort
    found = count_cohort_dimensions(cohort, trial.seed)
    last = found.dimension_tests[-1]
    return _describe_trial(trial) | {
        "found": found.number,
        "p": [question.p for question in found.dimension_tests],
        "overlap": found.overlap,
        "relabellings": sum(question.relabellings for question in found.dimension_tests),
        "excess_left": last.excess,
    }


def summarise_n_patterns(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return how often each number was found, per kind and true number of patterns."""
    groups: dict[tuple[str, str, int], list[int]] = {}
    for result in results:
        if result["part"] == "nuisance":
            continue
        groups.setdefault((result["part"], result["kind"], result["patterns"]), []).append(result["found"])
    rows = []
    for (part, kind, patterns), found in groups.items():
        right = float(np.mean([number == patterns for number in found]))
        counts = {str(number): found.count(number) for number in sorted(set(found))}
        rows.append(
            {"part": part, "kind": kind, "patterns": patterns, "n": len(found), "right": right, "found": counts}
        )
    return rows


def rank_nuisance(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return, per kind and figure, how surely a true pattern has the higher figure than a nuisance one (AUC)."""
    kinds = dict.fromkeys(result["kind"] for result in results if result["part"] == "nuisance")
    rows = []
    for kind in [*kinds, *(["all"] if kinds else [])]:
        own = [r for r in results if r["part"] == "nuisance" and kind in (r["kind"], "all")]
        label = np.array([name for result in own for name in result["kinds"]])
        row: dict[str, Any] = {"kind": kind, "cohorts": len(own)}
        row |= {name: int((label == name).sum()) for name in ("true", "nuisance", "neither")}
        judged = label != "neither"
        for figure in RELIABILITY_MEASURES:
            values = np.array([value for result in own for value in result[figure]])
            both = row["true"] and row["nuisance"]
            row[figure] = float(roc_auc_score(label[judged] == "true", values[judged])) if both else None
            for name in ("true", "nuisance"):
                row[f"{figure}_{name}"] = float(values[label == name].mean()) if row[name] else None
        rows.append(row)
    return rows


def results_to_json(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return results and summary in the shape that ``benchmark --suite trust --json`` prints."""
    summary = {"summary": summarise_n_patterns(results), "nuisance": rank_nuisance(results)}
    return {"level": SIGNIFICANCE_LEVEL, "results": list(results), **summary}


def format_markdown(results: Sequence[dict[str, Any]]) -> str:
    """Return how often each number of patterns was found, a row a kind of cohort, and how nuisance ranks."""
    return "\n".join(part for part in (_format_number_table(results), _format_nuisance_table(results)) if part)


def _format_nuisance_table(results: Sequence[dict[str, Any]]) -> str:
    rows = rank_nuisance(results)
    if not rows:
        return ""
    lines = ["| cohorts | true patterns | nuisance | stability | split half | carriers |", "|---|---|---|---|---|---|"]
    for row in rows:
        cells = [row["kind"], str(row["true"]), str(row["nuisance"])]
        for figure in RELIABILITY_MEASURES:
            auc = "" if row[figure] is None else f"{row[figure]:.3f}"
            means = [row[f"{figure}_{name}"] for name in ("true", "nuisance")]
            cells.append(f"{auc} ({' / '.join('-' if mean is None else f'{mean:.2f}' for mean in means)})")
        lines.append(f"| {' | '.join(cells)} |")
    foot = (
        "AUC, the chance that a true pattern has the higher figure than a nuisance one, and in brackets the means of "
        "true and nuisance patterns. One pattern more than the true ones was learnt."
    )
    return "\n".join([*lines, "", foot, ""])


def _format_number_table(results: Sequence[dict[str, Any]]) -> str:
    summary = summarise_n_patterns(results)
    if not summary:
        return ""
    columns = sorted({int(number) for row in summary for number in row["found"]} | {0})
    lines = [
        f"| cohorts | true patterns | right | {' | '.join(f'found {number}' for number in columns)} |",
        f"|---|---|---|{'---|' * len(columns)}",
    ]
    for row in summary:
        cells = [str(row["found"].get(str(number), "")) for number in columns]
        lines.append(f"| {row['kind']} | {row['patterns']} | {row['right']:.1%} | {' | '.join(cells)} |")
    sizes = sorted({row["n"] for row in summary})
    foot = f"{' or '.join(map(str, sizes))} cohorts each, tested at the level {SIGNIFICANCE_LEVEL:g}."
    return "\n".join([*lines, "", foot, ""])
