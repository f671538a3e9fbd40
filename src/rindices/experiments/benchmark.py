"""All learners on all cohorts of a suite: run in parallel, resume, summarise."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from rindices._version import __version__
from rindices.errors import InputError
from rindices.experiments.bounds import practical_upper_bound, supervised_c_index
from rindices.experiments.cached_parallel import JobCallback, run_jobs
from rindices.experiments.entrants import get_entrant
from rindices.experiments.suites import BenchmarkCase, get_suite_tasks
from rindices.learners.baselines.supervised import cross_validate_supervised
from rindices.selection.agreement import pattern_c_index


@dataclass(frozen=True)
class BenchmarkPlan:
    """What a benchmark measures: every learner on every cohort of every task."""

    suite: str
    learners: tuple[str, ...]
    cohorts: int = 10
    folds: int = 5
    data: Path | None = None
    tasks: tuple[str, ...] = ()

    def jobs(self) -> list["BenchmarkJob"]:
        """Return the independent pieces of work, in a fixed order."""
        known = get_suite_tasks(self.suite, self.data)
        unknown = [task for task in self.tasks if task not in known]
        if unknown:
            raise InputError(f"suite {self.suite} has no task '{unknown[0]}'; it has: {', '.join(known)}.")
        for learner in self.learners:
            get_entrant(learner)
        names = self.tasks or tuple(known)
        return [BenchmarkJob(self, t, n, s) for t in names for n in self.learners for s in range(self.cohorts)]


@dataclass(frozen=True)
class BenchmarkJob:
    """One learner on one cohort."""

    plan: BenchmarkPlan
    task: str
    learner: str
    seed: int

    @property
    def key(self) -> str:
        """A name that is the same for the same work, and for nothing else."""
        return f"{self.plan.suite}-{self.task}-{self.learner}-{self.seed}-f{self.plan.folds}-v{__version__}"


@dataclass(frozen=True)
class BenchmarkResult:
    """What one learner reached on one cohort.

    Attributes
    ----------
    pattern_c_index : float
        On the patients it was fitted on.
    unseen : float or None
        On patients it has not seen: mean over folds.
    agreement : float or None
        Among members, for learners that have any.
    """

    task: str
    learner: str
    cohort_seed: int
    pattern_c_index: float
    per_pattern: list[float]
    unseen: float | None
    agreement: float | None
    seconds: float


def run_benchmark(
    plan: BenchmarkPlan, store: Path | None = None, workers: int = -1, told: JobCallback | None = None
) -> list[BenchmarkResult]:
    """Run a plan; finished pieces are kept in ``store`` and not run again; see `run_jobs`."""
    records = run_jobs(plan.jobs(), _measure_as_dict, store, workers, told)
    return [BenchmarkResult(**record) for record in records]


def measure_job(job: BenchmarkJob) -> BenchmarkResult:
    """Run one piece of work."""
    case = get_suite_tasks(job.plan.suite, job.plan.data)[job.task](job.seed)
    entrant = get_entrant(job.learner)
    if entrant.make is None:
        return _measure_supervised(job, case, entrant.supervised)
    if entrant.bound:
        return _measure_bound(job, case, entrant.make)
    start = time.perf_counter()
    patients = case.X[case.y == 1]
    learner = entrant.make(case.truth.shape[1], job.seed)
    inferred = learner.fit(case.X, case.y).transform(patients)
    seconds = time.perf_counter() - start
    score = pattern_c_index(case.truth, inferred)
    unseen = _score_held_out(job, case) if job.plan.folds and not entrant.slow else None
    agreement = getattr(learner, "agreement_", None)
    per_pattern = [float(value) for value in score.per_pattern]
    return BenchmarkResult(job.task, job.learner, job.seed, score.mean, per_pattern, unseen, agreement, seconds)


def _measure_as_dict(job: BenchmarkJob) -> dict[str, Any]:
    return asdict(measure_job(job))


def _score_held_out(job: BenchmarkJob, case: BenchmarkCase) -> float:
    """Return the mean pattern-c-index over folds of people that the learner did not see."""
    make = get_entrant(job.learner).make
    assert make is not None
    everyone = np.full((len(case.y), case.truth.shape[1]), np.nan)
    everyone[case.y == 1] = case.truth
    scores = []
    folds = StratifiedKFold(job.plan.folds, shuffle=True, random_state=job.seed)
    for seen, held in folds.split(case.X, case.y):
        learner = make(case.truth.shape[1], job.seed).fit(case.X[seen], case.y[seen])
        ill = held[case.y[held] == 1]
        scores.append(pattern_c_index(everyone[ill], learner.transform(case.X[ill])).mean)
    return float(np.mean(scores))


def _measure_bound(job: BenchmarkJob, case: BenchmarkCase, make: Callable[[int, int], Any]) -> BenchmarkResult:
    start = time.perf_counter()
    bound = practical_upper_bound(lambda size: make(size, job.seed), case.X, case.y, case.truth)
    seconds = time.perf_counter() - start
    per_pattern = [float(value) for value in bound.best.per_pattern]
    return BenchmarkResult(job.task, job.learner, job.seed, bound.best.mean, per_pattern, None, None, seconds)


def _measure_supervised(job: BenchmarkJob, case: BenchmarkCase, model: Any) -> BenchmarkResult:
    start = time.perf_counter()
    predicted = cross_validate_supervised(case.X[case.y == 1], case.truth, model, job.plan.folds or 5, job.seed)
    score = supervised_c_index(case.truth, predicted)
    seconds = time.perf_counter() - start
    return BenchmarkResult(job.task, job.learner, job.seed, score.train, [], score.test, None, seconds)


def summarise_results(results: Sequence[BenchmarkResult]) -> list[dict[str, Any]]:
    """Return mean and standard error per task and learner, for people seen and unseen."""
    groups: dict[tuple[str, str], list[BenchmarkResult]] = {}
    for result in results:
        groups.setdefault((result.task, result.learner), []).append(result)
    return [
        {"task": task, "learner": learner, **_mean_se([r.pattern_c_index for r in group], "")}
        | _mean_se([r.unseen for r in group if r.unseen is not None], "unseen_")
        | {"seconds": float(np.mean([r.seconds for r in group]))}
        for (task, learner), group in groups.items()
    ]


def _mean_se(values: Sequence[float], prefix: str) -> dict[str, Any]:
    if not values:
        return {f"{prefix}mean": None, f"{prefix}se": None, f"{prefix}n": 0}
    se = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return {f"{prefix}mean": float(np.mean(values)), f"{prefix}se": se, f"{prefix}n": len(values)}


def results_to_json(results: Sequence[BenchmarkResult]) -> dict[str, Any]:
    """Return results and summary in the shape that ``benchmark --json`` prints."""
    return {"results": [asdict(result) for result in results], "summary": summarise_results(results)}
