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

from rindices import __version__
from rindices.errors import InputError, did_you_mean
from rindices.experiments.pieces import Told, run_pieces
from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import PAPER, STRESS, TASKS
from rindices.experiments.trust_cohorts import NULLS, PATTERNS, SHARES, batch_cohort, null_cohort, pattern_task
from rindices.learners.contrastive import ContrastiveICA
from rindices.learners.reproduction import reproduce_patterns
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.agreement import c_index_matrix
from rindices.selection.dimensions import LEVEL
from rindices.study.evidence import cohort_dimensions

PARTS = ("null", "number", "stress", "nuisance")
FIGURES = ("stability", "split_half", "carriers")
_TRUE, _BATCH = 0.7, 0.9  # c-index with a true severity, AUC with the batch, from which a learnt pattern counts as such
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
        "nuisance": [(f"{rate}, batch in {share:.0%}", 3) for rate in RATES for share in SHARES],
    }
    return [Trial(part, *kind, seed) for part in parts for kind in kinds[part] for seed in range(cohorts)]


def run_trust(
    asked: Sequence[Trial], store: Path | None = None, workers: int = -1, told: Told | None = None
) -> list[dict[str, Any]]:
    """Measure all trials; see `run_pieces`."""
    return run_pieces(asked, measure, store, workers, told)


def measure(trial: Trial) -> dict[str, Any]:
    """Run one trial."""
    return _measure_nuisance(trial) if trial.part == "nuisance" else _measure_number(trial)


def _measure_nuisance(trial: Trial) -> dict[str, Any]:
    """Learn one pattern too many where there is a batch effect, and judge each learnt pattern by other people."""
    rate, _, share = trial.kind.partition(", batch in ")
    task = pattern_task(trial.patterns, RATES[rate])
    made, batch = batch_cohort(trial.seed, task, float(share.rstrip("%")) / 100)
    cohort = made.cohort
    X, y = Preprocessing.fit(cohort).transform(cohort), cohort.is_patient.astype(np.intp)
    learner = ContrastiveICA(trial.patterns + 1, trial.seed).fit(X, y)
    indices = learner.transform(X)
    seen = reproduce_patterns(X, y, indices, learner.patterns_, trial.seed)
    ranked = c_index_matrix(made.truth, indices[y == 1]).max(axis=0)
    told = [float(roc_auc_score(batch, column)) for column in indices[y == 1].T]
    kinds = [
        "true" if c >= _TRUE else "nuisance" if a >= _BATCH else "neither" for c, a in zip(ranked, told, strict=True)
    ]
    figures = (seen.stability.mean(axis=0), seen.split_half.mean(axis=0), seen.carriers)
    found = {name: [float(value) for value in values] for name, values in zip(FIGURES, figures, strict=True)}
    return _who(trial) | {"kinds": kinds, **found}


def _who(trial: Trial) -> dict[str, Any]:
    return {"part": trial.part, "kind": trial.kind, "patterns": trial.patterns, "cohort_seed": trial.seed}


def _measure_number(trial: Trial) -> dict[str, Any]:
    """Run the test on one cohort."""
    if trial.part == "null":
        cohort = null_cohort(trial.kind, trial.seed)
    elif trial.part == "number":
        cohort = simulate_cohort(pattern_task(trial.patterns, RATES[trial.kind]), trial.seed).cohort
    else:
        cohort = simulate_cohort(trial.kind, trial.seed).cohort
    found = cohort_dimensions(cohort, trial.seed)
    last = found.questions[-1]
    return _who(trial) | {
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
        for figure in FIGURES:
            values = np.array([value for result in own for value in result[figure]])
            both = row["true"] and row["nuisance"]
            row[figure] = float(roc_auc_score(label[judged] == "true", values[judged])) if both else None
            for name in ("true", "nuisance"):
                row[f"{figure}_{name}"] = float(values[label == name].mean()) if row[name] else None
        rows.append(row)
    return rows


def as_json(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return results and summary in the shape that ``benchmark --suite trust --json`` prints."""
    summary = {"summary": summarise(results), "nuisance": rank_nuisance(results)}
    return {"level": LEVEL, "results": list(results), **summary}


def markdown(results: Sequence[dict[str, Any]]) -> str:
    """Return how often each number of patterns was found, a row a kind of cohort, and how nuisance ranks."""
    return "\n".join(part for part in (_number_table(results), _nuisance_table(results)) if part)


def _nuisance_table(results: Sequence[dict[str, Any]]) -> str:
    rows = rank_nuisance(results)
    if not rows:
        return ""
    lines = ["| cohorts | true patterns | nuisance | stability | split half | carriers |", "|---|---|---|---|---|---|"]
    for row in rows:
        cells = [row["kind"], str(row["true"]), str(row["nuisance"])]
        for figure in FIGURES:
            auc = "" if row[figure] is None else f"{row[figure]:.3f}"
            means = [row[f"{figure}_{name}"] for name in ("true", "nuisance")]
            cells.append(f"{auc} ({' / '.join('-' if mean is None else f'{mean:.2f}' for mean in means)})")
        lines.append(f"| {' | '.join(cells)} |")
    foot = (
        "AUC, the chance that a true pattern has the higher figure than a nuisance one, and in brackets the means of "
        "true and nuisance patterns. One pattern more than the true ones was learnt."
    )
    return "\n".join([*lines, "", foot, ""])


def _number_table(results: Sequence[dict[str, Any]]) -> str:
    summary = summarise(results)
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
    foot = f"{' or '.join(map(str, sizes))} cohorts each, tested at the level {LEVEL:g}."
    return "\n".join([*lines, "", foot, ""])
