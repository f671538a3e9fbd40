"""The benchmark: same numbers on any number of workers, resumes, refuses, and reports what it measured."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from typer.testing import CliRunner

from rindices.cli.main import app
from rindices.errors import InputError, SimulationError
from rindices.experiments.benchmark import (
    BenchmarkJob,
    BenchmarkPlan,
    BenchmarkResult,
    measure_job,
    run_benchmark,
    summarise_results,
)
from rindices.experiments.entrants import ENTRANTS
from rindices.experiments.figures import format_markdown, plot_benchmark
from rindices.experiments.paper import PUBLISHED_SCORES
from rindices.experiments.suites import get_suite_tasks
from rindices.learners.contrastive.estimator import ContrastiveICA
from rindices.selection.agreement import pattern_c_index

PLAN = BenchmarkPlan("stress", ("contrastive-ica", "nmf", "ridge"), cohorts=2, folds=2, tasks=("tiny",))


def without_time(results: list[BenchmarkResult]) -> list[BenchmarkResult]:
    return [replace(result, seconds=0.0) for result in results]


def test_a_result_is_what_a_user_would_compute() -> None:
    result = measure_job(BenchmarkJob(PLAN, "tiny", "contrastive-ica", 1))
    case = get_suite_tasks("stress")["tiny"](1)
    learner = ContrastiveICA(3, random_state=1, rotation="ica").fit(case.X, case.y)
    score = pattern_c_index(case.truth, learner.transform(case.X[case.y == 1]))
    assert result.pattern_c_index == score.mean
    np.testing.assert_array_equal(result.per_pattern, score.per_pattern)
    assert result.unseen is not None
    assert 0.5 < result.unseen < score.mean + 0.05


def test_the_number_of_workers_changes_nothing() -> None:
    assert without_time(run_benchmark(PLAN, workers=1)) == without_time(run_benchmark(PLAN, workers=2))


def test_finished_pieces_are_not_run_again_and_damaged_ones_are(tmp_path: Path) -> None:
    first = run_benchmark(PLAN, tmp_path, workers=1)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 6
    marked = json.loads(files[0].read_text()) | {"pattern_c_index": 0.123}
    files[0].write_text(json.dumps(marked))
    files[1].write_text('{"task": ')
    told: list[tuple[int, int]] = []
    again = run_benchmark(PLAN, tmp_path, workers=1, told=lambda done, total, job: told.append((done, total)))
    assert told == [(6, 6)]  # only the damaged piece ran
    assert sorted(r.pattern_c_index == 0.123 for r in again) == [False] * 5 + [True]
    kept = [(a, b) for a, b in zip(first, again, strict=True) if b.pattern_c_index != 0.123]
    assert without_time([a for a, _ in kept]) == without_time([b for _, b in kept])


def test_summary() -> None:
    scores = [0.6, 0.7, 0.9]
    results = [BenchmarkResult("t", "a", k, score, [score], score - 0.1, None, 1.0) for k, score in enumerate(scores)]
    (row,) = summarise_results([*results[:2], results[2]])
    assert row["mean"] == pytest.approx(np.mean(scores))
    assert row["se"] == pytest.approx(np.std(scores, ddof=1) / np.sqrt(3))
    assert row["unseen_mean"] == pytest.approx(np.mean(scores) - 0.1)
    assert row["n"] == 3


def test_table_and_figure_show_what_was_measured(tmp_path: Path) -> None:
    results = [
        BenchmarkResult("basic", "nmf", 0, 0.6543, [0.6], 0.6321, None, 1.0),
        BenchmarkResult("basic", "ridge", 0, 0.9, [], 0.8767, None, 1.0),
    ]
    table = format_markdown(results)
    assert "| basic | 0.838 | 0.654 / 0.632 (0.680) | 0.900 / 0.877 |" in table
    plot_benchmark(results, tmp_path / "figure.png", "a title")
    pixels = imread(tmp_path / "figure.png")
    assert pixels.shape[0] > 500
    assert pixels.shape[1] > 900
    blue = (np.abs(pixels[..., :3] - np.array([0, 0x72, 0xB2]) / 255) < 0.02).all(axis=-1)
    assert blue.sum() > 50  # the mean bar and legend of the first learner


def test_every_reported_method_can_take_part() -> None:
    assert set(PUBLISHED_SCORES) - {"surreal-gan"} <= set(ENTRANTS)


def test_upper_bound_is_above_the_fair_score() -> None:
    fair = measure_job(BenchmarkJob(replace(PLAN, folds=0), "tiny", "nmf", 0))
    bound = measure_job(BenchmarkJob(replace(PLAN, folds=0), "tiny", "nmf-bound", 0))
    assert bound.pattern_c_index >= fair.pattern_c_index


def test_real_suite(shared: Path) -> None:
    tasks = get_suite_tasks("real", shared)
    assert set(tasks) == {"fcon-30", "fcon-20", "fcon-15", "ixi-basic", "ixi-mild", "upstream"}
    ixi = tasks["ixi-basic"](0)
    assert (int((ixi.y == 0).sum()), int((ixi.y == 1).sum()), ixi.X.shape[1]) == (116, 175, 139)
    upstream = tasks["upstream"](0)
    assert (len(upstream.X), upstream.truth.shape) == (1500, (900, 3))
    fcon = tasks["fcon-30"](0)
    assert fcon.X.shape[1] == 169
    np.testing.assert_allclose(fcon.X[fcon.y == 0].mean(axis=0), 1, atol=1e-9)


def test_wrong_names_are_suggested(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'contrastive'"):
        BenchmarkPlan("paper", ("contrastve",)).jobs()
    with pytest.raises(InputError, match="no task 'tiny'"):
        BenchmarkPlan("paper", ("nmf",), tasks=("tiny",)).jobs()
    with pytest.raises(SimulationError, match="did you mean 'paper'"):
        get_suite_tasks("papers")
    with pytest.raises(SimulationError, match="--data"):
        get_suite_tasks("real", tmp_path / "none")


def test_command(tmp_path: Path) -> None:
    arguments = "benchmark --suite stress --tasks tiny --learners nmf --cohorts 2 --folds 0 --workers 1 --json --out"
    done = CliRunner().invoke(app, [*arguments.split(), str(tmp_path)])
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    assert set(value) == {"results", "summary"}
    expected = {"task", "learner", "cohort_seed", "pattern_c_index", "per_pattern", "agreement", "seconds"}
    assert expected <= set(value["results"][0])
    assert {"task", "learner", "mean", "se", "n"} <= set(value["summary"][0])
    assert json.loads((tmp_path / "results.json").read_text()) == value
    assert {path.name for path in tmp_path.iterdir()} == {"results.json", "table.md", "figure.png", "runs"}
