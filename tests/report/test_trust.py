"""Whether a result can be trusted: the numbers of the section, and how its template
words them.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rindices as ri
from rindices.analysis.study_results import StudyResults, read_study_results
from rindices.model.findings import CountedPeople, collect_findings
from rindices.model.records import (
    CohortRecord,
    CovariateGroups,
    CovariateSummary,
    DifferenceRecord,
    DimensionRecord,
    GroupSummary,
    PatternCountRecord,
    PermutationTestRecord,
    SelectionRecord,
)
from rindices.report.sections import StudyFacts, build_trust_section, summarise_test
from rindices.study.checks import collect_study_warnings
from tests.report.helpers import (
    Page,
    change_selection,
    collect_again,
    get_section_text,
    get_text,
    read_figure_data,
    render_macro,
    render_section,
)

EMPTY = CovariateGroups(
    all=GroupSummary(), control=GroupSummary(), patient=GroupSummary()
)
COVARIATES = (
    CovariateSummary(name="age", groups=EMPTY),
    CovariateSummary(name="sex", groups=EMPTY),
)
COHORT = CohortRecord(
    source="table",
    unit="mm3",
    people=10,
    controls=5,
    patients=5,
    regions=3,
    covariates=COVARIATES,
)


def make_test(*steps: tuple[float, float, int]) -> PermutationTestRecord:
    """A test with excess, p and number of permutations after 0, 1, ... patterns are
    removed.
    """
    rows = [
        DimensionRecord(
            patterns=k,
            excess=excess,
            chance_median=3.0,
            chance_95=4.0,
            p=p,
            relabellings=number,
        )
        for k, (excess, p, number) in enumerate(steps)
    ]
    return PermutationTestRecord(
        n_patterns=min(sum(row.p <= 0.05 for row in rows), 8),
        level=0.05,
        overlap=0.9,
        curve=tuple(rows),
    )


def make_difference(test: PermutationTestRecord) -> DifferenceRecord:
    """Return the test of a difference with the figures of the first step."""
    first = test.curve[0]
    return DifferenceRecord(
        p=first.p,
        permutations=first.relabellings,
        statistics={},
        p_values={},
        smallest_effect=0.4,
        p_error=first.p_error,
    )


def make_selection(test: PermutationTestRecord) -> SelectionRecord:
    """Return a selection with this test."""
    number = PatternCountRecord(
        by_agreement=None, by_test=test.n_patterns, forced=None, why="", test=test
    )
    return SelectionRecord(
        chosen=None,
        number_of_patterns=number,
        finding="patterns",
        difference=make_difference(test),
    )


def with_number(results: StudyResults, **changes: Any) -> StudyResults:
    """Return a study with another result of the tests."""
    number = results.selection.number_of_patterns.model_copy(update=changes)
    changes = {"number_of_patterns": number, "difference": make_difference(number.test)}
    return collect_again(
        replace(results, selection=results.selection.model_copy(update=changes))
    )


def render_trust(results: StudyResults) -> str:
    trust, findings = build_trust_section(results), results.findings
    facts = StudyFacts.of_model(results.model, findings)
    values = {"results": results, "cohort": results.cohort, "facts": facts}
    return render_section("trust", trust=trust, findings=findings, **values)


@pytest.fixture(scope="module")
def results(study: Path) -> StudyResults:
    return read_study_results(study)


def test_the_figures_are_those_of_the_study(page: str, study: Path) -> None:
    selection = json.loads((study / "selection.json").read_text())
    parsed = Page(page)
    curve = read_figure_data(parsed, "number")
    for name in ("patterns", "excess", "chance_95", "p"):
        expected = [
            step[name] for step in selection["number_of_patterns"]["test"]["curve"]
        ]
        assert list(curve[name]) == pytest.approx(expected, rel=1e-5)
    table = read_figure_data(parsed, "trust").set_index("pattern")
    text = get_section_text(page, "trust")
    indices = pd.read_csv(study / "r_indices.tsv", sep="\t")
    controls, patients = (
        indices[indices["group"] == group] for group in ("control", "patient")
    )
    for pattern in selection["patterns"]:
        row = table.loc[pattern["name"]]
        for name, key in (
            ("reproducibility", "split_half"),
            ("prevalence", "carriers"),
            ("auc", "auc"),
        ):
            assert row[name] == pytest.approx(pattern[key], abs=1e-5)
            ends = [row[f"{name}_low"], row[f"{name}_high"]]
            assert ends == pytest.approx(pattern[f"{key}_interval"], abs=1e-5)
            assert ends[0] <= row[name] <= ends[1]
        low, high = pattern["split_half_interval"]
        assert f"{pattern['split_half']:.2f} ({low:.2f} to {high:.2f})" in text
        threshold = np.quantile(controls[pattern["name"]], 0.95)
        raised = (patients[pattern["name"]] > threshold).mean()
        assert row["prevalence"] == pytest.approx((raised - 0.05) / 0.95, abs=1e-5)
        low, high = pattern["carriers_interval"]
        assert (
            f"{100 * pattern['carriers']:.0f} % ({100 * low:.0f} to {100 * high:.0f} %)"
            in text
        )


def test_filled_dots_are_those_beyond_chance(results: StudyResults) -> None:
    changed = with_number(
        results, test=make_test((9, 0.017, 59), (6, 0.04, 199), (3, 0.6, 19)), by_test=2
    )
    trust = build_trust_section(changed)
    assert "2 of 3 rows exceed chance" in trust.chart.alt
    assert trust.chart.svg.count("fill: var(--patient)") == 2
    text = render_trust(changed)
    assert "2 by the test" in text
    assert "2 of them were more than chance" in text


@pytest.mark.parametrize(
    ("p", "number", "words"),
    [(1 / 60, 59, "none"), (0.85, 20 - 1, "16"), (1.0, 19, "all")],
)
def test_shuffles_are_counted(p: float, number: int, words: str) -> None:
    record = make_test((5, p, number))
    selection = make_selection(record)
    test = summarise_test(selection, COHORT)
    text = render_macro(
        "shuffles", test, collect_findings(None, selection, people=CountedPeople())
    )
    assert f"permuted {number} times among people similar in age and sex. " in text
    assert f"in {words} of the permutations" in text
    assert test.is_significant == (p < 0.05)


def test_shuffles_within_sites_are_mentioned() -> None:
    def render(scale: str = "", **changes: Any) -> str:
        record, cohort = make_test((5, 0.5, 19)), COHORT.model_copy(update=changes)
        selection = make_selection(record)
        findings = collect_findings(None, selection, people=CountedPeople())
        return render_macro(
            "shuffles", summarise_test(selection, cohort, scale), findings
        )

    sites = {"a": {"control": 3}}
    assert "among people of the same site." in render(covariates=(), sites=sites)
    assert "age and sex and of the same site." in render(sites=sites)
    assert "19 times. The groups differed" in render(covariates=())
    assert "19 times. The groups differed" in render(
        "none"
    )  # covariates that the test did not use are not mentioned


def test_numbers_that_differ_are_explained_and_doubted(results: StudyResults) -> None:
    why = "the test finds 8, which was not tried: try it with --patterns 8"
    changed = with_number(
        results, by_test=8, why=why, test=make_test(*[(9.0, 0.017, 59)] * 9)
    )
    differing = render_trust(changed)
    assert (
        f"{results.model.n_patterns} by agreement, at least 8 by the test. The numbers"
        in differing
    )
    (doubt,) = [
        str(each)
        for each in collect_study_warnings(changed.selection)
        if each.code == "n_patterns_unclear"
    ]
    assert (
        doubt
        == f"agreement and the test name different numbers of patterns. T{why[1:]}."
    )
    assert "numbers differ" not in render_trust(with_number(results, why=""))
    asked = with_number(results, forced=3, by_agreement=None, why=why)
    assert "asked for" in render_trust(asked)
    assert "the study and the test name different numbers" in str(
        collect_study_warnings(asked.selection)[0]
    )


def test_without_a_difference_the_section_says_so(results: StudyResults) -> None:
    changed = with_number(results, by_test=0, forced=3, test=make_test((3.5, 0.85, 19)))
    text = render_trust(changed)
    assert "No difference between the groups was detected." in text
    assert "may be due to chance" in text
    trust = build_trust_section(changed)
    assert "0 of 1 row" in trust.chart.alt


@pytest.mark.usefixtures("no_pictures")
def test_doubtful_patterns_are_marked(study: Path, tmp_path: Path) -> None:
    """The page of a study whose second pattern is not reproduced; the warning stands
    there once.
    """
    folder = tmp_path / "doubtful"
    shutil.copytree(study, folder, ignore=shutil.ignore_patterns("runs"))

    def make_doubtful(selection: dict[str, Any]) -> None:
        good, bad = selection["patterns"][:2]
        good |= {"split_half": 0.72, "split_half_interval": [0.6, 0.8], "carriers": 0.8}
        bad |= {"split_half": 0.2, "split_half_interval": [-0.1, 0.4], "carriers": 0.12}
        selection["patterns"] = [good, bad]

    change_selection(folder, make_doubtful)
    cohort = json.loads((folder / "cohort.json").read_text())
    few = {
        "severity": "warning",
        "what": "few patients carry r2",
        "where": "",
        "cure": "",
        "code": "few_carriers",
    }
    cohort["problems"] = [few | {"summary": "few patients carry r2"}]
    (folder / "cohort.json").write_text(json.dumps(cohort))
    page = ri.write_report(folder).read_text("utf-8")
    text = get_section_text(page, "trust")
    whole = get_text(page)
    assert whole.count("Few patients carry r2. Look for a batch") == 1
    assert (
        whole.count(
            "Other people do not reproduce r2. Try fewer patterns, or more people."
        )
        == 1
    )
    first, second = text.partition("prevalence r1")[2].split(" r2", 1)
    assert "Reproduced in other people 0.72 (0.60 to 0.80)" in first
    assert "80 %" in first
    assert "Not reproduced in other people 0.20 (−0.10 to 0.40)" in second
    assert "12 %" in second
    assert (
        page.partition('id="trust"')[2]
        .partition("</section>")[0]
        .count('<td class="sure">')
        == 2
    )
    assert '<article id="r1">' in page
    assert (
        '<article id="r2" class="faded">' in page
    )  # maps of what was not found are faded
    answer = get_section_text(page, "found")
    assert (
        "Not reproduced in other people: split-half reproducibility 0.20 (−0.10 to 0.40)"
        in answer
    )
    assert "Do not rely on r2 alone" in answer
