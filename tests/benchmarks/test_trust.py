"""The trust suite counts patterns and ranks nuisance patterns."""

from pathlib import Path

import pytest

from benchmarks.suites.runner import run_jobs
from benchmarks.suites.trust import (
    NOTHING_FOUND,
    NuisanceResult,
    TrustTrial,
    format_markdown,
    list_trials,
    rank_nuisance,
    summarise_n_patterns,
)
from rindices.errors import InputError


def test_patterns_are_counted_and_summarised(tmp_path: Path) -> None:
    trials = list_trials(1, ["number"])
    assert {(trial.kind, trial.patterns) for trial in trials} == {
        (k, m) for k in ("basic", "mild") for m in (1, 2, 3, 5)
    }
    assert len({trial.key for trial in list_trials(2)}) == len(list_trials(2))
    with pytest.raises(InputError, match="did you mean 'number'"):
        list_trials(1, ["numbr"])
    results = run_jobs(
        [TrustTrial("null", "150 + 200", 0, 0), TrustTrial("number", "basic", 1, 0)],
        tmp_path,
        workers=1,
    )
    assert [result.found for result in results] == [NOTHING_FOUND, 1]
    table = format_markdown(results)
    assert "| 150 + 200 | 0 | 100.0% | 1 |" in table
    assert [row.right for row in summarise_n_patterns(results)] == [1.0, 1.0]


def test_nuisance_patterns_are_ranked_by_auc() -> None:
    results = [
        NuisanceResult(
            "nuisance",
            "k",
            3,
            0,
            ["true", "nuisance", "true", "neither"],
            *[[0.9, 0.8, 0.7, 0.1]] * 3,
        )
    ]
    rows = rank_nuisance(results)
    assert [row["kind"] for row in rows] == ["k", "all"]
    assert rows[0]["split_half"] == pytest.approx(
        0.5
    )  # one true pattern above the nuisance, one below
    assert (rows[0]["true"], rows[0]["nuisance"], rows[0]["neither"]) == (2, 1, 1)
    assert "0.500 (0.80 / 0.80)" in format_markdown(results)
