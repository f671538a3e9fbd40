"""Charts: their data are those of the study, and their SVG can be put into the page."""

import re
from pathlib import Path

import numpy as np
import pytest

from rindices.report import figures
from rindices.report.formatting import format_decimal
from rindices.report.study_results import StudyResults, read_study_results


@pytest.fixture(scope="module")
def results(study: Path) -> StudyResults:
    return read_study_results(study)


def test_agreement_has_one_row_per_setting(results: StudyResults) -> None:
    chart = figures.plot_agreement(results)
    assert list(chart.data["concordance"]) == [record.agreement.concordance for record in results.selection.grid]
    assert list(chart.data.columns[1:4]) == ["concordance", "dimension", "difference"]
    assert f"{results.chosen.agreement.concordance:.3f}" in chart.alt
    assert chart.svg.count("fill: var(--patient)") == 1  # the chosen setting


def test_distributions_count_everyone(results: StudyResults) -> None:
    charts = figures.plot_distributions(results)
    assert len(charts) == results.model.n_patterns
    for chart in charts:
        assert chart.data[["controls", "patients"]].to_numpy().sum() == len(results.indices)


def test_pairs_are_limited_and_captioned(results: StudyResults) -> None:
    (chart,) = figures.plot_index_pairs(results, max_pairs=1)
    rho = results.select_group("patient")[["r1", "r2"]].corr().to_numpy()[0, 1]
    assert chart.caption == f"Correlation among patients {format_decimal(rho)}."
    assert chart.caption in chart.alt


@pytest.mark.parametrize("number", [1, 2, 5])
def test_curves_name_the_first_and_the_last_region(number: int) -> None:
    levels, names = np.linspace(0, 1, 6), [f"region {k}" for k in range(number)]
    progress = np.stack([levels ** (k + 1) for k in range(number)], axis=1)
    chart = figures.plot_progress("r2", levels, progress, names)
    assert chart.name == "curves_r2"
    assert list(chart.data) == ["severity", *names]
    np.testing.assert_allclose(chart.data[names[-1]], progress[:, -1], atol=1e-4)
    assert chart.alt.endswith(f"first region 0, last region {number - 1}.")
    assert names[-1] in chart.svg


def test_svg_fits_into_the_page(results: StudyResults) -> None:
    svg = figures.plot_agreement(results).svg
    assert svg.startswith("<svg")
    assert "<metadata>" not in svg
    assert "needed</text>" in svg  # text stays text
    referred = set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", svg))
    assert set(re.findall(r' id="([^"]+)"', svg)) <= referred
    assert svg == figures.plot_agreement(results).svg
