"""The page: self-contained, whole, readable by everyone, and its numbers are those of the study."""

import base64
import io
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rindices as ri
from rindices.errors import StudyError
from rindices.report import geometry, page
from rindices.report.study_results import read_study_results
from rindices.selection.patterns import compute_confidence_interval


class Page(HTMLParser):
    """Tags with their attributes, and the text of headings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def parsed(page: str) -> Page:
    return Page(page)


def data_of(parsed: Page, name: str) -> pd.DataFrame:
    (link,) = [a for a in parsed.all("a") if a.get("download") == f"{name}.csv"]
    return pd.read_csv(io.BytesIO(base64.b64decode(link["href"].partition("base64,")[2])))


def test_nothing_outside_is_named(parsed: Page, page: str) -> None:
    for _, attributes in parsed.tags:
        for name in ("src", "href", "xlink:href", "action", "poster", "srcset"):
            assert attributes.get(name, "#").startswith(("#", "data:")), attributes
    style = "".join(re.findall(r"<style>(.*?)</style>", page, re.DOTALL))
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in page
    assert len(page.encode()) < 5_000_000


def test_people_with_a_screen_reader_get_everything(parsed: Page) -> None:
    assert parsed.all("html")[0]["lang"] == "en"
    levels = [int(tag[1]) for tag, _ in parsed.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels.count(1) == 1
    assert max(np.diff(levels)) <= 1  # no level is skipped on the way down
    assert all(image.get("alt") for image in parsed.all("img"))
    assert all(div.get("aria-label") for div in parsed.all("div") if div.get("role") == "img")
    identities = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(identities) == len(set(identities))
    targets = {a["href"][1:] for a in parsed.all("a") if a["href"].startswith("#")}
    assert targets <= set(identities)


def test_every_figure_has_its_data(parsed: Page, study: Path) -> None:
    indices = pd.read_csv(study / "r_indices.tsv", sep="\t")
    names = [name for name in indices if re.fullmatch(r"r\d", name)]
    assert "participant_id" not in data_of(parsed, "r_indices")  # a report may be passed on
    np.testing.assert_allclose(data_of(parsed, "r_indices")[names], indices[names], atol=1e-4)
    for name in names:
        table = data_of(parsed, f"distribution_{name}")
        assert table["controls"].sum() == (indices["group"] == "control").sum()
        assert table["patients"].sum() == (indices["group"] == "patient").sum()
    selection = json.loads((study / "selection.json").read_text())
    agreement = data_of(parsed, "agreement")
    assert list(agreement["concordance"]) == pytest.approx(
        [record["agreement"]["concordance"] for record in selection["grid"]], abs=1e-5
    )
    members = data_of(parsed, "members").drop(columns="member").to_numpy()
    np.testing.assert_allclose(members, np.array(selection["chosen"]["pairwise"], dtype=float), atol=1e-5)


def test_patterns_are_the_models(parsed: Page, study: Path) -> None:
    model = ri.load(study / "model.safetensors")
    assert model.patterns_se is not None
    low, high = compute_confidence_interval(model.patterns, model.patterns_se, len(model.heads))
    for k in range(model.n_patterns):
        table = data_of(parsed, f"pattern_r{k + 1}")
        for q, severity in enumerate((0.25, 0.5, 0.75, 1.0)):
            own = table[table["severity"] == severity].set_index("region").loc[list(model.regions)]
            np.testing.assert_allclose(own["change"], model.patterns[q, k], rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(own["low"], low[q, k], rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(own["high"], high[q, k], rtol=1e-4, atol=1e-6)


def test_true_structures_are_named_first(study: Path, simulated: "ri.Simulated") -> None:  # type: ignore[name-defined]
    contents = read_study_results(study)
    truth = simulated.patterns.set_index("region")
    if len(contents.names) != truth.shape[1]:
        pytest.skip("agreement chose another number of patterns")
    sets = [set(truth.index[truth[name] > 0]) for name in truth]
    for name in contents.names:
        top = set(contents.top(name, 14)["region"])
        assert max(len(top & own) for own in sets) >= 10


def test_a_report_is_the_same_again(study: Path, page: str) -> None:
    assert ri.write_report(study).read_text("utf-8") == page


def test_without_the_extra_there_are_ranked_bars(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "has_brain_extra", lambda: False)
    bare = page.render_report(read_study_results(study))
    parsed = Page(bare)
    assert not parsed.all("img")
    ranked = Page(bare.partition('id="patterns"')[2].partition("</section>")[0])
    rows = page.N_LISTED_REGIONS * read_study_results(study).model.n_patterns
    assert sum("fill" in i.get("class", "") for i in ranked.all("i")) == rows
    assert "rindices[brain]" in bare


def test_associations_are_shown_where_they_are(study: Path, tmp_path: Path) -> None:
    folder = tmp_path / "with"
    shutil.copytree(study, folder, ignore=shutil.ignore_patterns("runs"))
    rows = [
        ("r1", "memory<b>", "pearson", "n/a", 120, -0.41, -0.55, -0.25, 1e-6, 2e-6, "n/a"),
        ("r2", "memory<b>", "pearson", "n/a", 120, 0.05, -0.13, 0.23, 0.6, 0.6, "n/a"),
        ("r1", "stage", "", "n/a", 120, "n/a", "n/a", "n/a", "n/a", "n/a", "more than two categories"),
    ]
    columns = ["index", "variable", "kind", "level", "n", "correlation", "low", "high", "p", "q", "note"]
    pd.DataFrame(rows, columns=columns).to_csv(folder / "associations.tsv", sep="\t", index=False)
    text = ri.write_report(folder).read_text("utf-8")
    section = text.partition('id="associations"')[2].partition("</section>")[0]
    assert section.count('<tr class="sure">') == 1
    assert section.count("memory&lt;b&gt;") == 2  # and a name cannot write into the page
    assert "nan" not in section.replace("data:text", "")[:200]
    assert "−0.41" in section  # noqa: RUF001


def test_associations_of_an_earlier_model_go_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geometry, "has_brain_extra", lambda: False)  # pictures take time
    for name in ("associations.tsv", "associations.json", "notes.tsv"):
        (tmp_path / name).write_text("of an earlier model")
    cohort = ri.simulate_cohort("tiny", seed=0).cohort
    ri.fit(cohort, 2, recipe="contrastive", members=2, workers=1, out=tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*.tsv")) == ["notes.tsv", "patterns.tsv", "r_indices.tsv"]
    assert not (tmp_path / "associations.json").exists()
    assert 'id="associations"' not in ri.write_report(tmp_path).read_text("utf-8")


def test_a_folder_without_a_study_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"has no model\.safetensors.*run rindices fit"):
        ri.write_report(tmp_path)


def contrast(first: str, second: str) -> float:
    """WCAG's contrast ratio of two colours #rrggbb."""
    light = []
    for colour in (first, second):
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        light.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(light) + 0.05) / (min(light) + 0.05)


def test_letters_can_be_read_in_both_themes() -> None:
    css = (files("rindices.report") / "templates" / "report.css").read_text()
    themes = [dict(re.findall(r"--(\w+): (#\w{6})", line)) for line in css.splitlines() if "--paper" in line][:3]
    assert len({theme["paper"] for theme in themes}) == 2
    assert themes[1] == themes[2]  # dark by preference and dark by the switch
    for theme in themes:
        for back in ("paper", "card"):
            assert min(contrast(theme[name], theme[back]) for name in ("ink", "muted", "link")) >= 4.5
            assert min(contrast(theme[name], theme[back]) for name in ("control", "patient", "warn")) >= 3
        assert contrast(theme["ink"], theme["warnback"]) >= 4.5


@given(st.floats(-5, 5))
def test_numbers_on_colours_can_be_read(value: float) -> None:
    cell = page._build_colour_cell(value, 3.0)
    ink = {"#000": "#000000", "#fff": "#ffffff"}[cell["ink"]]
    assert contrast(ink, cell["colour"]) >= 4.5


@pytest.mark.parametrize(("value", "text"), [(-3.926, "−3.93"), (0.5, "+0.50"), (-0.001, "0.00")])  # noqa: RUF001
def test_signed(value: float, text: str) -> None:
    assert page.format_signed(value) == text


def requests(page: Path, profile: Path) -> list[str]:
    """Every address that a page makes Chromium ask for; what the browser asks for by itself has no origin."""
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("chromium is not installed")
    log = profile / "net.json"
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    more = f"--disable-component-update --disable-sync --user-data-dir={profile / 'user'} --log-net-log={log}"
    command = [browser, *flags.split(), *more.split(), "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert "</html>" in done.stdout, done.stderr[-500:]
    events = re.findall(r'"initiator":"([^"]*)".*?"url":"([^"]+)"', log.read_text("utf-8", errors="replace"))
    return sorted({url for initiator, url in events if initiator != "not an origin"})


def test_no_request_leaves_the_page(study: Path, page: str, tmp_path: Path) -> None:
    leaky = tmp_path / "leaky.html"
    leaky.write_text("<html><img src='http://example.invalid/a.png'></html>")
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    assert "http://example.invalid/a.png" in requests(leaky, tmp_path / "first")  # the log does tell
    assert requests(study / "report.html", tmp_path / "second") == []
