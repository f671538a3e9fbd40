"""Table and figure of the benchmark show its scores."""

from pathlib import Path

import numpy as np
from matplotlib.image import imread

from benchmarks.suites.benchmark import (
    BenchmarkResult,
)
from benchmarks.suites.figures import format_markdown, plot_benchmark


def test_table_and_figure_show_the_scores(tmp_path: Path) -> None:
    results = [
        BenchmarkResult("basic", "nmf", 0, 0.6543, [0.6], 0.6321, None, 1.0),
        BenchmarkResult("basic", "ridge", 0, 0.88, [], 0.8767, None, 1.0),
        BenchmarkResult("basic", "ridge", 1, 0.92, [], 0.8767, None, 1.0),
    ]
    table = format_markdown(results)
    assert "| basic | 0.838 | 0.654 / 0.632 (0.680) | 0.900 / 0.877 ± 0.020 |" in table
    plot_benchmark(results, tmp_path / "figure.png", "a title")
    pixels = imread(tmp_path / "figure.png")
    assert pixels.shape[0] > 500
    assert pixels.shape[1] > 900
    blue = (np.abs(pixels[..., :3] - np.array([0, 0x72, 0xB2]) / 255) < 0.02).all(
        axis=-1
    )
    assert blue.sum() > 50  # the mean bar and legend of the first learner
