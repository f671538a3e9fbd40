"""Benchmark of learners on the cohorts of a suite: run in parallel, resume,
summarise.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from benchmarks.suites.baselines.supervised import cross_validate_supervised
from benchmarks.suites.bounds import practical_upper_bound, supervised_c_index
from benchmarks.suites.cases import BenchmarkCase, get_suite_tasks
from benchmarks.suites.cost import Cost, measure_cost
from benchmarks.suites.entrants import get_entrant
from benchmarks.suites.oracle import score_oracle
from rindices._version import __version__
from rindices.errors import InputError
from rindices.selection.agreement import pattern_c_index


@dataclass(frozen=True)
class BenchmarkPlan:
    """Settings of a benchmark: every learner on every cohort of every task."""

    suite: str
    learners: tuple[str, ...]
    cohorts: int = 10
    folds: int = 5
    data: Path | None = None
    tasks: tuple[str, ...] = ()
    adjusted: bool = False

    def jobs(self) -> list["BenchmarkJob"]:
        """Return the independent jobs, in a fixed order."""
        for learner in self.learners:
            if get_entrant(learner).oracle and self.suite == "real":
                raise InputError(
                    "the oracle knows simulated people alone: leave it out of the suite real."
                )
        suite = get_suite_tasks(self.suite, self.data, self.adjusted)
        unknown = [task for task in self.tasks if task not in suite]
        if unknown:
            raise InputError(
                f"suite {self.suite} has no task '{unknown[0]}'; it has: {', '.join(suite)}."
            )
        return [
            BenchmarkJob(self, task, learner, seed)
            for task in self.tasks or tuple(suite)
            for learner in self.learners
            for seed in range(self.cohorts)
        ]


@dataclass(frozen=True)
class BenchmarkJob:
    """One learner on one cohort."""

    plan: BenchmarkPlan
    task: str
    learner: str
    seed: int

    @property
    def key(self) -> str:
        """Name of the cache file."""
        suite = f"{self.plan.suite}-adjusted" if self.plan.adjusted else self.plan.suite
        return f"{suite}-{self.task}-{self.learner}-{self.seed}-f{self.plan.folds}-v{__version__}"

    def measure(self) -> "BenchmarkResult":
        """Fit the learner to the cohort and score it."""
        case = get_suite_tasks(self.plan.suite, self.plan.data, self.plan.adjusted)[
            self.task
        ](self.seed)
        entrant = get_entrant(self.learner)
        if entrant.oracle:
            return _measure_oracle(self)
        if entrant.make is None:
            return _measure_supervised(self, case, entrant.supervised)
        if entrant.bound:
            return _measure_bound(self, case, entrant.make)
        patients = case.X[case.y == 1]
        learner = entrant.make(case.truth.shape[1], self.seed)
        inferred, cost = measure_cost(
            lambda: learner.fit(case.X, case.y).transform(patients)
        )
        score = pattern_c_index(case.truth, inferred)
        unseen = (
            _score_held_out(self, case)
            if self.plan.folds and not entrant.slow
            else None
        )
        return _make_result(
            self,
            score.mean,
            score.per_pattern,
            cost,
            unseen,
            getattr(learner, "agreement_", None),
        )

    def restore(self, **fields: Any) -> "BenchmarkResult":
        """Return the result with these fields."""
        return BenchmarkResult(**fields)


@dataclass(frozen=True)
class BenchmarkResult:
    """Scores of one learner on one cohort."""

    task: str
    learner: str
    cohort_seed: int
    pattern_c_index: float  # on the patients that the learner was fitted on
    per_pattern: list[float]
    unseen: float | None  # on held-out patients, mean over folds
    agreement: float | None  # among ensemble members, for learners that have them
    seconds: float
    processor_seconds: float | None = (
        None  # of the fit and of inference in the patients; None in older results
    )
    peak_megabytes: float | None = (
        None  # memory that the fit needs beyond that of the process before it
    )


@dataclass(frozen=True)
class BenchmarkSummary:
    """Mean, standard error and number of the scores of one learner on one task, in
    sample and held out.
    """

    task: str
    learner: str
    mean: float
    se: float | None
    n: int
    unseen_mean: float | None
    unseen_se: float | None
    unseen_n: int
    seconds: float


def _make_result(
    job: BenchmarkJob,
    score: float,
    per_pattern: Iterable[float],
    cost: Cost,
    unseen: float | None = None,
    agreement: float | None = None,
) -> BenchmarkResult:
    values = [float(value) for value in per_pattern]
    return BenchmarkResult(
        job.task, job.learner, job.seed, float(score), values, unseen, agreement, *cost
    )


def _score_held_out(job: BenchmarkJob, case: BenchmarkCase) -> float:
    """Return the mean pattern-c-index over folds of held-out people."""
    make = get_entrant(job.learner).make
    assert make is not None
    truth = np.full((len(case.y), case.truth.shape[1]), np.nan)
    truth[case.y == 1] = case.truth
    scores = []
    folds = StratifiedKFold(job.plan.folds, shuffle=True, random_state=job.seed)
    for train, test in folds.split(case.X, case.y):
        learner = make(case.truth.shape[1], job.seed).fit(case.X[train], case.y[train])
        patients = test[case.y[test] == 1]
        scores.append(
            pattern_c_index(truth[patients], learner.transform(case.X[patients])).mean
        )
    return float(np.mean(scores))


def _measure_bound(
    job: BenchmarkJob, case: BenchmarkCase, make: Callable[[int, int], Any]
) -> BenchmarkResult:
    bound, cost = measure_cost(
        lambda: practical_upper_bound(
            lambda size: make(size, job.seed), case.X, case.y, case.truth
        )
    )
    return _make_result(job, bound.best.mean, bound.best.per_pattern, cost)


def _measure_oracle(job: BenchmarkJob) -> BenchmarkResult:
    (truth, severities), cost = measure_cost(
        lambda: score_oracle(job.task, job.seed, job.plan.adjusted)
    )
    score = pattern_c_index(truth, severities)
    return _make_result(job, score.mean, score.per_pattern, cost)


def _measure_supervised(
    job: BenchmarkJob, case: BenchmarkCase, model: Any
) -> BenchmarkResult:
    patients, folds = case.X[case.y == 1], job.plan.folds or 5
    predicted, cost = measure_cost(
        lambda: cross_validate_supervised(patients, case.truth, model, folds, job.seed)
    )
    score = supervised_c_index(case.truth, predicted)
    return _make_result(job, score.train, [], cost, score.test)


def summarise_results(results: Sequence[BenchmarkResult]) -> list[BenchmarkSummary]:
    """Return means and standard errors per task and learner."""
    groups: dict[tuple[str, str], list[BenchmarkResult]] = {}
    for result in results:
        groups.setdefault((result.task, result.learner), []).append(result)
    summaries = []
    for (task, learner), group in groups.items():
        scores = [result.pattern_c_index for result in group]
        held_out = [result.unseen for result in group if result.unseen is not None]
        unseen_mean = float(np.mean(held_out)) if held_out else None
        numbers = (float(np.mean(scores)), _standard_error(scores), len(scores))
        unseen = (unseen_mean, _standard_error(held_out), len(held_out))
        seconds = float(np.mean([result.seconds for result in group]))
        summaries.append(BenchmarkSummary(task, learner, *numbers, *unseen, seconds))
    return summaries


def _standard_error(values: Sequence[float]) -> float | None:
    return (
        float(np.std(values, ddof=1) / np.sqrt(len(values)))
        if len(values) > 1
        else None
    )


def results_to_json(results: Sequence[BenchmarkResult]) -> dict[str, Any]:
    """Return results and summary as ``benchmark --json`` prints them."""
    summary = [asdict(row) for row in summarise_results(results)]
    return {"results": [asdict(result) for result in results], "summary": summary}
