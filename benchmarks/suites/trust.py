"""Suite ``trust``: whether the tests find the right number of patterns, and no
difference where there is none.

Parts: ``null`` (patients are controls), ``alike`` (all patients have the same disease
at the same severity), ``number`` (1, 2, 3 and 5 patterns), ``stress`` (the tasks of the
paper and further ones), ``nuisance`` (true patterns and a batch effect in some
patients).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.suites.trust_cohorts import (
    BATCH_SHARES,
    NULL_COHORTS,
    PATTERN_COUNTS,
    make_pattern_task,
    simulate_alike_cohort,
    simulate_batch_cohort,
    simulate_null_cohort,
)
from rindices._version import __version__
from rindices.errors import InputError, did_you_mean
from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import TASKS
from rindices.learners.contrastive.estimator import ContrastiveICA
from rindices.learners.ensemble import assess_pattern_stability, measure_separation
from rindices.learners.prepared_people import PreparedPeople
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.agreement import c_index_matrix
from rindices.selection.dimensions import SIGNIFICANCE_LEVEL
from rindices.study.group_tests import Finding, run_group_tests

SUITE_PARTS = ("null", "alike", "number", "stress", "nuisance")
RELIABILITY_MEASURES = ("stability", "split_half", "carriers")
_MIN_TRUE_C_INDEX = (
    0.7  # c-index with a true severity from which a learnt pattern counts as true
)
_MIN_BATCH_AUC = 0.9  # AUC of the batch from which a learnt pattern counts as nuisance
FIRST_SEEDS = {"null": 7000, "alike": 7000}
"""First seeds of parts, where they are not 0: no choice was made on these cohorts."""
NOTHING_FOUND = -1
"""What counts as found where no difference was detected."""
RATE_BY_KIND = {"basic": 0.3, "mild": 0.2}


@dataclass(frozen=True)
class TrustTrial:
    """One cohort of the suite; ``kind`` is a key of `NULL_COHORTS`, ``basic``, ``mild``
    or a task.
    """

    part: str
    kind: str
    patterns: int
    seed: int

    @property
    def key(self) -> str:
        """Name of the cache file."""
        kind = "".join(letter if letter.isalnum() else "_" for letter in self.kind)
        return f"trust-{self.part}-{kind}-m{self.patterns}-{self.seed}-v{__version__}"

    def measure(self) -> "TrialResult":
        """Simulate the cohort and test it."""
        return (
            _measure_nuisance(self)
            if self.part == "nuisance"
            else _count_patterns(self)
        )

    def restore(self, **fields: Any) -> "TrialResult":
        """Return the result with these fields."""
        return (
            NuisanceResult(**fields)
            if self.part == "nuisance"
            else CountResult(**fields)
        )


@dataclass(frozen=True)
class TrialResult:
    """Result of one trial."""

    part: str
    kind: str
    patterns: int
    cohort_seed: int


@dataclass(frozen=True)
class CountResult(TrialResult):
    """Number of patterns that the tests found, with the p-values of the steps.

    ``found`` is `NOTHING_FOUND` without a difference, and 0 where the groups differ on
    average alone.
    """

    found: int
    p_difference: float
    p: list[float]
    overlap: float
    relabellings: int
    excess_left: float


@dataclass(frozen=True)
class NuisanceResult(TrialResult):
    """Kinds of the learnt patterns, ``true``, ``nuisance`` or ``neither``, and their
    reliability.
    """

    kinds: list[str]
    stability: list[float]
    split_half: list[float]
    carriers: list[float]


def list_trials(cohorts: int, parts: Sequence[str] = SUITE_PARTS) -> list[TrustTrial]:
    """Return the cohorts of the parts of the suite, the same number of each kind."""
    unknown = [part for part in parts if part not in SUITE_PARTS]
    if unknown:
        raise InputError(
            f"suite trust has no task '{unknown[0]}': {did_you_mean(unknown[0], SUITE_PARTS)}"
        )
    kinds: dict[str, list[tuple[str, int]]] = {
        "null": [(kind, 0) for kind in NULL_COHORTS],
        "alike": [(kind, 0) for kind in RATE_BY_KIND],
        "number": [
            (kind, patterns) for kind in RATE_BY_KIND for patterns in PATTERN_COUNTS
        ],
        "stress": [
            (task, len(TASKS[task].patterns)) for task in TASKS if task != "null"
        ],
        "nuisance": [
            (f"{rate}, batch in {share:.0%}", 3)
            for rate in RATE_BY_KIND
            for share in BATCH_SHARES
        ],
    }
    seeds = {
        part: range(FIRST_SEEDS.get(part, 0), FIRST_SEEDS.get(part, 0) + cohorts)
        for part in parts
    }
    return [
        TrustTrial(part, *kind, seed)
        for part in parts
        for kind in kinds[part]
        for seed in seeds[part]
    ]


def _measure_nuisance(trial: TrustTrial) -> NuisanceResult:
    """Learn one pattern too many from a cohort with a batch effect, and measure the
    stability of each.
    """
    rate, _, share = trial.kind.partition(", batch in ")
    task = make_pattern_task(trial.patterns, RATE_BY_KIND[rate])
    simulated, batch = simulate_batch_cohort(
        trial.seed, task, float(share.rstrip("%")) / 100
    )
    cohort = simulated.cohort
    X, y = (
        Preprocessing.fit(cohort).transform(cohort),
        cohort.is_patient.astype(np.intp),
    )
    learner = ContrastiveICA(trial.patterns + 1, trial.seed).fit(X, y)
    indices = learner.transform(X)
    stability = assess_pattern_stability(
        PreparedPeople(X=X, y=y), indices, learner.patterns_, seed=trial.seed
    )
    true_c_index = c_index_matrix(simulated.truth, indices[y == 1]).max(axis=0)
    batch_auc = [float(roc_auc_score(batch, column)) for column in indices[y == 1].T]
    kinds = [
        "true"
        if c >= _MIN_TRUE_C_INDEX
        else "nuisance"
        if auc >= _MIN_BATCH_AUC
        else "neither"
        for c, auc in zip(true_c_index, batch_auc, strict=True)
    ]
    carriers = measure_separation(
        indices[y == 0], indices[y == 1], trial.seed, bootstraps=0
    ).carriers[0]
    figures = (
        stability.stability.mean(axis=0),
        stability.split_half.mean(axis=0),
        carriers,
    )
    values = [[float(value) for value in figure] for figure in figures]
    return NuisanceResult(
        trial.part, trial.kind, trial.patterns, trial.seed, kinds, *values
    )


def _count_patterns(trial: TrustTrial) -> CountResult:
    """Run the test on one cohort."""
    if trial.part == "null":
        cohort = simulate_null_cohort(trial.kind, trial.seed)
    elif trial.part == "alike":
        cohort = simulate_alike_cohort(RATE_BY_KIND[trial.kind], trial.seed)
    elif trial.part == "number":
        cohort = simulate_cohort(
            make_pattern_task(trial.patterns, RATE_BY_KIND[trial.kind]), trial.seed
        ).cohort
    else:
        cohort = simulate_cohort(trial.kind, trial.seed).cohort
    tests = run_group_tests(cohort, trial.seed)
    count = tests.dimensions
    return CountResult(
        *(trial.part, trial.kind, trial.patterns, trial.seed),
        found=NOTHING_FOUND if tests.finding is Finding.NO_DIFFERENCE else count.number,
        p_difference=tests.difference.p,
        p=[test.p for test in count.dimension_tests],
        overlap=count.overlap,
        relabellings=sum(test.relabellings for test in count.dimension_tests),
        excess_left=count.dimension_tests[-1].excess,
    )


@dataclass(frozen=True)
class CountSummary:
    """How often each number of patterns was found in ``n`` cohorts of one kind."""

    part: str
    kind: str
    patterns: int
    n: int
    right: float
    found: dict[str, int]


def summarise_n_patterns(results: Sequence[TrialResult]) -> list[CountSummary]:
    """Return how often each number was found, per kind and true number of patterns."""
    groups: dict[tuple[str, str, int], list[int]] = {}
    for result in results:
        if isinstance(result, CountResult):
            groups.setdefault((result.part, result.kind, result.patterns), []).append(
                result.found
            )
    summaries = []
    for (part, kind, patterns), numbers in groups.items():
        truth = NOTHING_FOUND if part == "null" else patterns
        right = float(np.mean([number == truth for number in numbers]))
        counts = {str(number): numbers.count(number) for number in sorted(set(numbers))}
        summaries.append(
            CountSummary(part, kind, patterns, len(numbers), right, counts)
        )
    return summaries


def rank_nuisance(results: Sequence[TrialResult]) -> list[dict[str, Any]]:
    """Return how well each measure of reliability separates true from nuisance patterns
    (AUC), per kind of cohort.
    """
    nuisance = [result for result in results if isinstance(result, NuisanceResult)]
    kinds = dict.fromkeys(result.kind for result in nuisance)
    rows = []
    for kind in [*kinds, *(["all"] if kinds else [])]:
        selected = [result for result in nuisance if kind in (result.kind, "all")]
        label = np.array([name for result in selected for name in result.kinds])
        row: dict[str, Any] = {"kind": kind, "cohorts": len(selected)}
        row |= {
            name: int((label == name).sum()) for name in ("true", "nuisance", "neither")
        }
        judged = label != "neither"
        for measure in RELIABILITY_MEASURES:
            values = np.array(
                [value for result in selected for value in getattr(result, measure)]
            )
            both = row["true"] and row["nuisance"]
            row[measure] = (
                float(roc_auc_score(label[judged] == "true", values[judged]))
                if both
                else None
            )
            for name in ("true", "nuisance"):
                row[f"{measure}_{name}"] = (
                    float(values[label == name].mean()) if row[name] else None
                )
        rows.append(row)
    return rows


def results_to_json(results: Sequence[TrialResult]) -> dict[str, Any]:
    """Return results and summary as ``benchmark --suite trust --json`` prints them."""
    return {
        "level": SIGNIFICANCE_LEVEL,
        "results": [asdict(result) for result in results],
        "summary": [asdict(row) for row in summarise_n_patterns(results)],
        "nuisance": rank_nuisance(results),
    }


def format_markdown(results: Sequence[TrialResult]) -> str:
    """Return a table of the numbers found, and one of the nuisance patterns."""
    return "\n".join(
        part
        for part in (_format_number_table(results), _format_nuisance_table(results))
        if part
    )


def _format_nuisance_table(results: Sequence[TrialResult]) -> str:
    rows = rank_nuisance(results)
    if not rows:
        return ""
    lines = [
        "| cohorts | true patterns | nuisance | stability | split half | carriers |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [row["kind"], str(row["true"]), str(row["nuisance"])]
        for measure in RELIABILITY_MEASURES:
            auc = "" if row[measure] is None else f"{row[measure]:.3f}"
            means = [row[f"{measure}_{name}"] for name in ("true", "nuisance")]
            cells.append(
                f"{auc} ({' / '.join('-' if mean is None else f'{mean:.2f}' for mean in means)})"
            )
        lines.append(f"| {' | '.join(cells)} |")
    footnote = (
        "AUC, the probability that a true pattern has a higher value than a nuisance pattern; in brackets the means of "
        "true and nuisance patterns. The model has one pattern more than the truth."
    )
    return "\n".join([*lines, "", footnote, ""])


def _format_number_table(results: Sequence[TrialResult]) -> str:
    summary = summarise_n_patterns(results)
    if not summary:
        return ""
    columns = sorted(
        {int(number) for row in summary for number in row.found} | {NOTHING_FOUND}
    )
    names = {NOTHING_FOUND: "no difference", 0: "mean difference"}
    lines = [
        f"| cohorts | true patterns | right | {' | '.join(names.get(n, f'found {n}') for n in columns)} |",
        f"|---|---|---|{'---|' * len(columns)}",
    ]
    for row in summary:
        cells = [str(row.found.get(str(number), "")) for number in columns]
        lines.append(
            f"| {row.kind} | {row.patterns} | {row.right:.1%} | {' | '.join(cells)} |"
        )
    sizes = " or ".join(map(str, sorted({row.n for row in summary})))
    return "\n".join(
        [
            *lines,
            "",
            f"{sizes} cohorts each, tested at the level {SIGNIFICANCE_LEVEL:g}.",
            "",
        ]
    )
