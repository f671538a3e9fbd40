"""Charts: their data are those of the study, and their SVG can be put into the page."""

import re
from pathlib import Path

import numpy as np
import pytest

import rindices as ri
from rindices.analysis.study_results import StudyResults, read_study_results
from rindices.report import figures
from rindices.report.formatting import format_decimal


@pytest.fixture(scope="module")
def results(study: Path) -> StudyResults:
    return read_study_results(study)


def test_agreement_has_one_row_per_setting(results: StudyResults) -> None:
    chart = figures.plot_agreement(results)
    assert chart is not None
    assert list(chart.data["concordance"]) == [
        record.agreement.concordance for record in results.selection.grid
    ]
    assert list(chart.data.columns[1:4]) == ["concordance", "dimension", "difference"]
    assert f"{results.chosen.agreement.concordance:.3f}" in chart.alt
    assert chart.svg.count("fill: var(--patient)") == 1  # the chosen setting


def test_severities_are_quantiles_of_everyone(results: StudyResults) -> None:
    chart = figures.plot_severities(results)
    assert chart is not None
    rows = chart.data.set_index(["index", "group"])
    assert len(rows) == 2 * results.model.n_patterns
    patients = results.select_group("patient")["r2"]
    row = rows.loc[("r2", "patient")]
    assert row["people"] == len(patients)
    assert row["q3"] == pytest.approx(patients.quantile(0.75), abs=1e-4)
    assert (patients < row["low"]).sum() >= 5
    assert (patients > row["high"]).sum() >= 5
    assert f"median r2 {format_decimal(patients.median())} in patients" in chart.alt


def test_dots_of_people_are_not_in_the_order_of_ids(results: StudyResults) -> None:
    (chart,) = figures.plot_index_pairs(results, show_people=True, max_pairs=1)
    assert len(chart.data) == len(results.indices)
    assert chart.data["group"].is_monotonic_increasing
    for _, rows in chart.data.groupby("group"):
        assert rows["r1"].is_monotonic_increasing


def test_pairs_are_limited_and_captioned(results: StudyResults) -> None:
    (chart,) = figures.plot_index_pairs(results, max_pairs=1)
    rho = results.select_group("patient")[["r1", "r2"]].corr().to_numpy()[0, 1]
    assert chart.caption == f"Correlation among patients {format_decimal(rho)}."
    assert chart.caption in chart.alt


def test_the_course_of_a_pattern_names_its_regions(staged_study: Path) -> None:
    model = ri.load(staged_study / "model.safetensors")
    order = model.region_order()
    rows = order[order["pattern"] == "r2"]
    chart = figures.plot_course(staged_study, "r2", list(rows["region"]))
    assert chart.name == "curves_r2"
    assert len(chart.data.columns) == 1 + len(rows)
    np.testing.assert_allclose(
        chart.data.iloc[-1, 1:].astype(float), rows["change"], atol=1e-4
    )
    first, last = chart.data.columns[[1, -1]]
    assert chart.alt.endswith(f"first {first}, last {last}.")
    assert "var(--" not in chart.svg  # its marks are on colours of their own


def test_svg_fits_into_the_page(results: StudyResults) -> None:
    chart = figures.plot_agreement(results)
    assert chart is not None
    svg = chart.svg
    assert svg.startswith("<svg")
    assert "<metadata>" not in svg
    assert "needed </text>" in svg  # text stays text
    referred = set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", svg))
    assert set(re.findall(r' id="([^"]+)"', svg)) <= referred
    again = figures.plot_agreement(results)
    assert again is not None
    assert svg == again.svg
