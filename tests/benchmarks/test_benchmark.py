"""Benchmark scores equal those computed by hand and do not depend on the number of
workers.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.suites.benchmark import (
    BenchmarkJob,
    BenchmarkPlan,
    BenchmarkResult,
    summarise_results,
)
from benchmarks.suites.cases import get_suite_tasks
from benchmarks.suites.runner import run_jobs
from rindices.errors import InputError, SimulationError
from rindices.learners.contrastive.estimator import ContrastiveICA
from rindices.selection.agreement import pattern_c_index

PLAN = BenchmarkPlan(
    "stress", ("contrastive-ica", "nmf", "ridge"), cohorts=2, folds=2, tasks=("tiny",)
)


def without_time(results: list[BenchmarkResult]) -> list[BenchmarkResult]:
    return [
        replace(result, seconds=0.0, processor_seconds=None, peak_megabytes=None)
        for result in results
    ]


def test_a_score_equals_one_computed_by_hand() -> None:
    result = BenchmarkJob(PLAN, "tiny", "contrastive-ica", 1).measure()
    case = get_suite_tasks("stress")["tiny"](1)
    learner = ContrastiveICA(3, random_state=1, rotation="ica").fit(case.X, case.y)
    score = pattern_c_index(case.truth, learner.transform(case.X[case.y == 1]))
    assert result.pattern_c_index == score.mean
    np.testing.assert_array_equal(result.per_pattern, score.per_pattern)
    assert result.unseen is not None
    assert 0.5 < result.unseen < score.mean + 0.05


@pytest.mark.slow
def test_scores_do_not_depend_on_the_number_of_workers() -> None:
    assert without_time(run_jobs(PLAN.jobs(), workers=1)) == without_time(
        run_jobs(PLAN.jobs(), workers=2)
    )


def test_finished_jobs_are_not_run_again_but_damaged_ones_are(tmp_path: Path) -> None:
    first = run_jobs(PLAN.jobs(), tmp_path, workers=1)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 6
    marked = json.loads(files[0].read_text()) | {"pattern_c_index": 0.123}
    files[0].write_text(json.dumps(marked))
    files[1].write_text('{"task": ')
    calls: list[tuple[int, int]] = []
    again = run_jobs(
        PLAN.jobs(),
        tmp_path,
        workers=1,
        progress=lambda done, total, job: calls.append((done, total)),
    )
    assert calls == [(6, 6)]  # only the damaged job ran
    assert sorted(r.pattern_c_index == 0.123 for r in again) == [False] * 5 + [True]
    unchanged = [
        (a, b) for a, b in zip(first, again, strict=True) if b.pattern_c_index != 0.123
    ]
    assert without_time([a for a, _ in unchanged]) == without_time(
        [b for _, b in unchanged]
    )


def test_summary_has_mean_and_standard_error() -> None:
    scores = [0.6, 0.7, 0.9]
    results = [
        BenchmarkResult("t", "a", k, score, [score], score - 0.1, None, 1.0)
        for k, score in enumerate(scores)
    ]
    (row,) = summarise_results(results)
    assert row.mean == pytest.approx(np.mean(scores))
    assert row.se == pytest.approx(np.std(scores, ddof=1) / np.sqrt(3))
    assert row.unseen_mean == pytest.approx(np.mean(scores) - 0.1)
    assert row.n == 3


def test_the_upper_bound_is_at_least_the_score() -> None:
    fair = BenchmarkJob(replace(PLAN, folds=0), "tiny", "nmf", 0).measure()
    bound = BenchmarkJob(replace(PLAN, folds=0), "tiny", "nmf-bound", 0).measure()
    assert bound.pattern_c_index >= fair.pattern_c_index


def test_wrong_names_get_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'contrastive'"):
        BenchmarkPlan("paper", ("contrastve",)).jobs()
    with pytest.raises(InputError, match="no task 'tiny'"):
        BenchmarkPlan("paper", ("nmf",), tasks=("tiny",)).jobs()
    with pytest.raises(SimulationError, match="did you mean 'paper'"):
        get_suite_tasks("papers")
    with pytest.raises(SimulationError, match="--data"):
        get_suite_tasks("real", tmp_path / "none")
