"""Whether a result can be trusted, and the page of a study that found nothing."""

import json
import re
import shutil
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rindices as ri
from rindices.errors import StudyError
from rindices.experiments.simulate import TASKS
from rindices.model.records import (
    CohortRecord,
    CovariateGroups,
    CovariateSummary,
    DimensionRecord,
    GroupSummary,
    PermutationTestRecord,
)
from rindices.report import geometry, sentences
from rindices.report.study_results import StudyResults, read_study_results
from rindices.report.trust import build_trust_section, describe_overall_test
from rindices.study.exceptions import NoPatternError
from tests.report import test_html
from tests.report.test_html import Page, data_of

EMPTY = CovariateGroups(GroupSummary(), GroupSummary(), GroupSummary())
COVARIATES = (CovariateSummary("age", EMPTY), CovariateSummary("sex", EMPTY))
SHUFFLES = CohortRecord("table", "mm3", 10, 5, 5, 3, COVARIATES)


def text_of(page: str, section: str) -> str:
    """What a reader sees of a section, on one line."""
    inside = page.partition(f'id="{section}"')[2].partition("</section>")[0]
    inside = re.sub(r"<(svg|style|script).*?</\1>", " ", inside, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", inside)).split())


def curve(*points: tuple[float, float, int]) -> PermutationTestRecord:
    """A test with excess, p and number of relabellings at 0, 1, ... patterns."""
    rows = [DimensionRecord(k, excess, 3.0, 4.0, p, number) for k, (excess, p, number) in enumerate(points)]
    return PermutationTestRecord(min(sum(row.p <= 0.05 for row in rows), 8), 0.05, 0.9, tuple(rows))


def with_number(contents: StudyResults, **changes: Any) -> StudyResults:
    number = replace(contents.selection.number_of_patterns, **changes)
    return replace(contents, selection=replace(contents.selection, number_of_patterns=number))


def test_the_figures_are_the_studys(page: str, study: Path) -> None:
    selection = json.loads((study / "selection.json").read_text())
    parsed = Page(page)
    curve = data_of(parsed, "excess")
    for name in ("patterns", "excess", "chance_95", "p"):
        known = [question[name] for question in selection["number_of_patterns"]["test"]["curve"]]
        assert list(curve[name]) == pytest.approx(known, rel=1e-5)
    table = data_of(parsed, "trust").set_index("pattern")
    said = text_of(page, "trust")
    indices = pd.read_csv(study / "r_indices.tsv", sep="\t")
    controls, patients = (indices[indices["group"] == group] for group in ("control", "patient"))
    for pattern in selection["patterns"]:
        own = table.loc[pattern["name"]]
        for name in ("stability", "split_half", "carriers"):
            assert own[name] == pytest.approx(pattern[name], abs=1e-5)
            ends = [own[f"{name}_low"], own[f"{name}_high"]]
            assert ends == pytest.approx(pattern[f"{name}_interval"], abs=1e-5)
            assert ends[0] <= own[name] <= ends[1]
        low, high = pattern["split_half_interval"]
        assert f"{pattern['split_half']:.2f} ({low:.2f} to {high:.2f})" in said
        bar = np.sort(controls[pattern["name"]])[int(0.95 * (len(controls) - 1))]  # a count, by hand
        beyond = (patients[pattern["name"]] > bar).mean()
        assert own["carriers"] == pytest.approx((beyond - 0.05) / 0.95, abs=0.02)
        assert f"bout {100 * pattern['carriers']:.0f} in 100 patients carry it" in said


def test_filled_dots_are_those_beyond_chance(study: Path) -> None:
    contents = with_number(
        read_study_results(study), test=curve((9, 0.017, 59), (6, 0.04, 199), (3, 0.6, 19)), by_test=2
    )
    trust = build_trust_section(contents)
    assert trust is not None
    assert "2 of 3 rows lie beyond chance" in trust.curve.alt
    assert trust.curve.svg.count("fill: var(--patient)") == 2
    assert ("2", "by the test") in trust.numbers
    assert "more than chance 2 times" in trust.anything[-1]


@pytest.mark.parametrize(("p", "number", "told"), [(1 / 60, 59, "none"), (0.85, 20 - 1, "16"), (1.0, 19, "all")])
def test_shuffles_are_counted(p: float, number: int, told: str) -> None:
    (said,) = describe_overall_test(curve((5, p, number)), SHUFFLES)
    assert f"shuffled {number} times among people alike in age and sex. " in said
    assert f"mean nothing, {told} made" in said
    assert said.startswith("Yes.") == (p < 0.05)


def test_sites_are_told() -> None:
    test, sites = curve((5, 0.5, 19)), {"a": {}}
    bare = replace(SHUFFLES, covariates=())
    assert "among people of the same site." in describe_overall_test(test, replace(bare, sites=sites))[0]
    assert (
        "alike in age and sex and of the same site." in describe_overall_test(test, replace(SHUFFLES, sites=sites))[0]
    )
    assert "19 times. Of these" in describe_overall_test(test, bare)[0]


def test_numbers_that_differ_are_explained_and_doubted(study: Path) -> None:
    contents = read_study_results(study)
    why = "the test finds 8, which was not tried: try it with --patterns 8"
    every = curve(*[(9.0, 0.017, 59)] * 9)
    trust = build_trust_section(with_number(contents, by_test=8, why=why, test=every))
    assert trust is not None
    assert trust.numbers == [(str(contents.model.n_patterns), "by agreement"), ("at least 8", "by the test")]
    assert "numbers differ" in trust.many[-1]
    assert trust.doubts[0] == f"Agreement and the test name different numbers of patterns. T{why[1:]}."
    same = build_trust_section(with_number(contents, why=""))
    assert same is not None
    assert same.many[-1] == "Both give the same number."
    asked = build_trust_section(with_number(contents, forced=3, by_agreement=None, why=why))
    assert asked is not None
    assert asked.numbers[0][1] == "asked for"
    assert asked.doubts[0].startswith("The study and the test name different numbers")


def test_a_result_without_a_disease_opens_with_doubt(study: Path) -> None:
    contents = with_number(read_study_results(study), by_test=0, forced=3, test=curve((3.5, 0.85, 19)))
    assert "nothing but chance" in sentences.describe_findings(contents)[0]
    assert len(sentences.describe_findings(contents)) == 4
    trust = build_trust_section(contents)
    assert trust is not None
    assert trust.anything[0].startswith("That could not be shown.")
    assert "0 of 1 row" in trust.curve.alt


def test_doubtful_patterns_are_told_apart(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page of a study whose second pattern nobody reproduces; what the user was told stands there once."""
    monkeypatch.setattr(geometry, "has_brain_extra", lambda: False)
    folder = tmp_path / "doubtful"
    shutil.copytree(study, folder, ignore=shutil.ignore_patterns("runs"))
    selection = json.loads((folder / "selection.json").read_text())
    good, bad = selection["patterns"][:2]
    good |= {"stability": 0.95, "split_half": 0.72, "carriers": 0.8}
    bad |= {"stability": 0.55, "split_half": 0.2, "split_half_interval": [-0.1, 0.4], "carriers": 0.12}
    selection["patterns"] = [good, bad]
    (folder / "selection.json").write_text(json.dumps(selection))
    cohort = json.loads((folder / "cohort.json").read_text())
    few = "few patients carry r2"
    cohort["problems"] = [{"severity": "warning", "what": few, "where": "", "cure": ""}]
    (folder / "cohort.json").write_text(json.dumps(cohort))
    page = ri.write_report(folder).read_text("utf-8")
    said = text_of(page, "trust")
    assert "Few patients carry r2. Look for a batch" in said
    assert "Other people do not reproduce r2. Try fewer patterns, or more people." in said
    assert "Few patients carry r2" not in text_of(page, "beware")
    assert "doubt about the patterns themselves" in text_of(page, "beware")
    first, second = said.split("Pattern r1")[1].split("Pattern r2")
    assert ["almost the same" in first, "much the same" in first, "About 80 in 100" in first] == [True] * 3
    assert ["roughly similar" in second, "hardly the same" in second, "Only about 12 in 100" in second] == [True] * 3
    assert "0.20 (−0.10 to 0.40)" in second  # noqa: RUF001
    assert page.count('<tr class="sure">') == 2


def test_single_people_have_widths_and_novelty(page: str, study: Path) -> None:
    table = pd.read_csv(study / "r_indices.tsv", sep="\t")
    ill = table[table["group"] == "patient"]
    said = text_of(page, "indices")
    for name in (name for name in table if re.fullmatch(r"r\d", name)):
        assert f"{np.median(ill[f'{name}_high'] - ill[f'{name}_low']):.2f} for {name}" in said
    assert f"{table['novel'].sum()} of {len(table)} people" in said


def test_an_older_study_still_has_its_report(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "has_brain_extra", lambda: False)  # pictures take time
    folder = tmp_path / "old"
    shutil.copytree(study, folder, ignore=shutil.ignore_patterns("runs", "cohort.json"))
    selection = json.loads((folder / "selection.json").read_text())
    kept = {name: value for name, value in selection.items() if name not in ("number_of_patterns", "patterns")}
    (folder / "selection.json").write_text(json.dumps(kept))
    table = pd.read_csv(folder / "r_indices.tsv", sep="\t")
    table[["participant_id", "group", *(n for n in table if re.fullmatch(r"r\d", n))]].to_csv(
        folder / "r_indices.tsv", sep="\t", index=False
    )
    page = ri.write_report(folder).read_text("utf-8")
    assert 'id="trust"' not in page
    assert "unlike the others" not in page
    assert "labels exchanged at random" not in page
    test_html.test_people_with_a_screen_reader_get_everything(Page(page))
    for pattern in selection["patterns"]:  # a study of the days before carriers had an interval
        del pattern["carriers_interval"]
    (folder / "selection.json").write_text(json.dumps(selection))
    assert "100 patients carry it" in text_of(ri.write_report(folder).read_text("utf-8"), "trust")


@pytest.fixture(scope="module")
def empty(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that held a finished study, in which a cohort without disease was then fitted."""
    folder = tmp_path_factory.mktemp("empty") / "results"
    shutil.copytree(study, folder, ignore=shutil.ignore_patterns("runs"))
    cohort = ri.simulate_cohort(replace(TASKS["null"], n_controls=80, n_patients=120), seed=1).cohort
    with pytest.raises(NoPatternError):
        ri.fit(cohort, [2, 3], recipe="contrastive", members=2, workers=1, out=folder)
    return folder


def test_nothing_of_an_earlier_model_stays(empty: Path) -> None:
    assert sorted(path.name for path in empty.iterdir() if path.is_file()) == ["cohort.json", "selection.json"]


def test_a_page_says_that_nothing_was_found(empty: Path) -> None:
    page = ri.write_report(empty).read_text("utf-8")
    parsed = Page(page)
    assert "<h1>No disease pattern found: results</h1>" in page
    assert "<title>No disease pattern found: results</title>" in page
    test_html.test_nothing_outside_is_named(parsed, page)
    test_html.test_people_with_a_screen_reader_get_everything(parsed)
    assert not parsed.all("img")
    assert not [a for a in parsed.all("a") if a.get("download", "").startswith(("r_indices", "pattern_"))]
    (point,) = json.loads((empty / "selection.json").read_text())["number_of_patterns"]["test"]["curve"]
    assert data_of(parsed, "excess").iloc[0].to_dict() == pytest.approx(point, rel=1e-5)
    found = text_of(page, "found")
    assert "The 120 patients differ from the 80 controls no more than two groups drawn by chance do" in found
    assert f"(p = {point['p']:.2f})" in found
    assert "Absence of evidence is not evidence of absence" in text_of(page, "meaning")
    assert "rindices power --people 80+120" in text_of(page, "meaning")
    assert "Few controls: 80" in text_of(page, "beware")
    assert "Linear effects of age, sex and icv" in text_of(page, "people")
    assert "80 controls and 120 patients" in text_of(page, "people")
    assert f"rindices {ri.__version__} (seed 0)" in text_of(page, "methods")
    assert "0 found (p = " in text_of(page, "methods")
    assert not re.search(r"sub-\d", page)  # a report may be passed on


def test_an_unstable_study_is_no_study_without_disease(empty: Path, tmp_path: Path) -> None:
    shutil.copytree(empty, tmp_path / "unstable", ignore=shutil.ignore_patterns("runs", "report.html"))
    tried = {"setting": {"n_patterns": 2, "orthogonality": None}, "stable": False}
    tried["agreement"] = {"concordance": None, "dimension": None, "difference": None}
    selection = json.loads((empty / "selection.json").read_text()) | {"grid": [tried]}
    (tmp_path / "unstable" / "selection.json").write_text(json.dumps(selection))
    with pytest.raises(StudyError, match=r"has no model\.safetensors"):
        ri.write_report(tmp_path / "unstable")
