"""Suites of the benchmark."""

from pathlib import Path

import numpy as np

from benchmarks.suites.cases import get_suite_tasks


def test_the_real_suite_has_the_people_of_its_tables(shared: Path) -> None:
    tasks = get_suite_tasks("real", shared)
    assert set(tasks) == {
        "fcon-30",
        "fcon-20",
        "fcon-15",
        "ixi-basic",
        "ixi-mild",
        "upstream",
    }
    ixi = tasks["ixi-basic"](0)
    assert (int((ixi.y == 0).sum()), int((ixi.y == 1).sum()), ixi.X.shape[1]) == (
        116,
        175,
        139,
    )
    upstream = tasks["upstream"](0)
    assert (len(upstream.X), upstream.truth.shape) == (1500, (900, 3))
    fcon = tasks["fcon-30"](0)
    assert fcon.X.shape[1] == 169
    np.testing.assert_allclose(fcon.X[fcon.y == 0].mean(axis=0), 1, atol=1e-9)
