"""People with a screen reader or a keyboard: axe-core finds nothing on the pages, in
both themes and at two widths, and the tabulator follows the page.

Needs Chromium, and axe-core where Node finds it: ``npm install --no-save axe-core``.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.chromium import Browser, Tab

import rindices as ri
from rindices.report.page import write_report
from tests.cohorts import simulate_few_regions

ROOT = Path(__file__).parents[2]
AXE = """axe.run(document).then((found) => JSON.stringify(found.violations.map(
    (each) => [each.id, each.nodes.map((node) => node.html.slice(0, 200))])))"""


@pytest.fixture(scope="module")
def axe() -> str:
    """The script of axe-core: of the file AXE_CORE, or where Node finds it."""
    path = os.environ.get("AXE_CORE", "")
    if not path:
        if (node := shutil.which("node")) is None:
            pytest.skip("Node is not installed")
        find = [node, "-p", "require.resolve('axe-core/axe.min.js')"]
        found = subprocess.run(
            find, cwd=ROOT, capture_output=True, text=True, check=False
        )
        if found.returncode != 0:
            pytest.skip(
                "axe-core is not installed: npm install --no-save axe-core, or name its axe.min.js in AXE_CORE"
            )
        path = found.stdout.strip()
    return Path(path).read_text("utf-8")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed")
    with Browser() as browser:
        yield browser


def list_violations(tab: Tab, axe: str) -> list[object]:
    """Return what axe-core finds in both themes and at two widths, with everything
    unfolded.
    """
    tab.run(f"{axe};true")
    tab.run("document.querySelectorAll('details').forEach((each) => each.open = true)")
    found: list[object] = []
    for width in (1280, 390):
        tab.set_size(width, 900)
        tab.run("new Promise((done) => setTimeout(done, 200))")
        for theme in ("light", "dark"):
            tab.run(f"document.documentElement.dataset.theme = '{theme}'")
            found += [[width, theme, *each] for each in json.loads(str(tab.run(AXE)))]
    return found


@pytest.mark.parametrize("name", ["study", "staged_study"])
def test_axe_finds_nothing_in_a_report(
    name: str, request: pytest.FixtureRequest, browser: Browser, axe: str
) -> None:
    page = write_report(request.getfixturevalue(name))
    assert list_violations(browser.open(page), axe) == []


def test_axe_finds_nothing_where_there_is_no_difference(
    tmp_path: Path, browser: Browser, axe: str
) -> None:
    cohort = simulate_few_regions("null", seed=1).cohort
    ri.fit(cohort, 2, method="contrastive", members=2, workers=1, out=tmp_path)
    assert list_violations(browser.open(write_report(tmp_path)), axe) == []


def test_axe_finds_a_picture_without_words(
    study: Path, tmp_path: Path, browser: Browser, axe: str
) -> None:
    page = write_report(study).read_text("utf-8")
    assert ' alt="' in page
    broken = tmp_path / "broken.html"
    broken.write_text(page.replace(' alt="', ' data-alt="'), "utf-8")
    assert list_violations(browser.open(broken), axe) != []


def test_the_tabulator_follows_the_page(study: Path, browser: Browser) -> None:
    tab = browser.open(write_report(study))
    tab.run("window.places = []")
    tab.run(
        "document.addEventListener('focusin', ({ target }) => {"
        " const style = getComputedStyle(target);"
        " places.push([[...document.querySelectorAll('*')].indexOf(target), target.className, style.outlineStyle]);"
        "})"
    )
    for _ in range(30):
        tab.press("Tab")
    places = json.loads(str(tab.run("JSON.stringify(places)")))
    assert len(places) == 30
    assert places[0][1] == "skip"
    order = [place for place, *_ in places]
    assert order == sorted(order)
    assert all(outline != "none" for *_, outline in places)
