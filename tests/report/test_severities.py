"""The section on severities: its data are those of the model, and every control works
in a browser.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scripts.chromium import Browser, Tab

import rindices as ri
from rindices.analysis.study_results import read_study_results
from rindices.plot.brain import match_atlas, paint_view
from rindices.plot.geometry import BrainView
from rindices.report.sections import compute_colour_limit
from tests.report.helpers import read_script_data, unpack_arrays

READY = "document.getElementById('sliders').children.length"


def test_curves_are_those_of_the_model(study: Path, page: str) -> None:
    data = read_script_data(page, "severity-data")
    model = ri.load(study / "model.safetensors")
    curves = unpack_arrays(data["arrays"])["curves"].reshape(
        11, model.n_patterns, len(model.regions)
    )
    for (pattern, severity), rows in model.trajectories().groupby(
        ["pattern", "severity"]
    ):
        expected = rows.set_index("region").loc[list(model.regions), "change"]
        np.testing.assert_allclose(
            curves[round(10 * severity), int(pattern[1:]) - 1],
            expected,
            rtol=1e-5,
            atol=1e-6,
        )


@pytest.fixture(scope="module")
def tab(study: Path) -> Iterator[Tab]:
    """The page, open in a browser."""
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed")
    path = ri.write_report(study)
    with Browser() as browser:
        tab = browser.open(path, ready=READY)
        tab.run(
            "document.documentElement.style.scrollBehavior = 'auto'; document.getElementById('severity-panel').open = true"
        )  # clicks need places that do not move, and are seen
        yield tab


def get_text(tab: Tab, element: str) -> str:
    return str(tab.run(f"document.getElementById('{element}').textContent"))


def test_sliders_paint_brain_and_bars(tab: Tab, study: Path) -> None:
    results = read_study_results(study)
    match = match_atlas(results.model.regions)
    if match.atlas is None:
        pytest.skip("the extra brain is not installed")
    for slider, value in enumerate([1.0, *[0.0] * (len(results.names) - 1)]):
        tab.run(
            f"(() => {{ const slider = document.querySelectorAll('#sliders input')[{slider}]; slider.value = {value}; "
            "slider.dispatchEvent(new Event('input')); })()"
        )
    effects = results.get_effects("r1")
    bars = tab.run(
        "[...document.querySelectorAll('#severity-bars td:last-child')].map((cell) => cell.textContent)"
    )
    largest = sorted(effects.values(), key=abs, reverse=True)[: len(bars)]
    assert [float(text.replace("−", "-")) for text in bars] == pytest.approx(
        largest, abs=0.006
    )
    values = np.full(len(match.atlas.structures), np.nan)
    for region, structure in match.drawn.items():
        values[match.atlas.structures.index(structure)] = effects[region]
    for number, view in ((0, match.atlas.cortex[0]), (6, match.atlas.slices[2])):
        small = BrainView(
            name=view.name,
            labels=view.labels[::2, ::2],
            shade=view.shade[::2, ::2],
            is_slice=view.is_slice,
        )
        expected = np.round(
            255
            * paint_view(
                small, values, compute_colour_limit(results.model.patterns[-1])
            )
        )
        painted = tab.run(
            f"(() => {{ const canvas = document.querySelectorAll('#severity-views canvas')[{number}]; "
            "return [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data]; })()"
        )
        difference = np.abs(np.array(painted).reshape(expected.shape) - expected)
        assert difference.max() <= 8  # brightness has 64 levels
    tab.run("document.getElementById('severity-none').click()")
    assert get_text(tab, "severity-summary").startswith("No change")
    tab.run("document.getElementById('severity-full').click()")
    assert get_text(tab, "severity-summary").startswith("Strongest")


@pytest.mark.parametrize(
    "selector", [".small-maps img", "#r1 .cortex img", "#severity-views canvas"]
)
def test_the_region_under_the_pointer_is_named(
    tab: Tab, study: Path, selector: str
) -> None:
    regions = read_study_results(study).model.regions
    match = match_atlas(regions)
    if match.atlas is None:
        pytest.skip("the extra brain is not installed")
    labels = match.atlas.cortex[0].labels[::2, ::2]
    row, column = (int(0.45 * size) for size in labels.shape)
    structure = match.atlas.structures[labels[row, column]]
    region = next(name for name, drawn in match.drawn.items() if drawn == structure)
    picture = f"document.querySelector('{selector}')"
    tab.run(f"{picture}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    box = tab.run(f"{picture}.getBoundingClientRect().toJSON()")
    scale = min(box["width"] / labels.shape[1], box["height"] / labels.shape[0])
    x = box["left"] + box["width"] / 2 + scale * (column + 0.5 - labels.shape[1] / 2)
    y = box["top"] + box["height"] / 2 + scale * (row + 0.5 - labels.shape[0] / 2)
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    assert get_text(tab, "region-name") == match.label_regions(regions)[region]
    assert not tab.run("document.getElementById('region-name').hidden")
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
    assert tab.run("document.getElementById('region-name').hidden")


def test_the_page_fits_a_phone_changes_its_theme_and_asks_for_nothing(
    tab: Tab, tmp_path: Path
) -> None:
    tab.take_picture(tmp_path / "page.png")  # of the whole page
    tab.run("document.getElementById('severity-panel').open = false")
    assert tab.run("document.documentElement.scrollHeight") <= 7_500
    tab.set_size(390, 800)
    tab.run("new Promise((done) => setTimeout(done, 100))")
    assert tab.run("document.documentElement.scrollWidth") <= 390
    colour = "getComputedStyle(document.body).backgroundColor"
    before = tab.run(colour)
    tab.run("document.getElementById('theme').click()")
    assert tab.run(colour) != before
    tab.run(
        "addEventListener('beforeprint', () => { window.opened = document.querySelector('.explanation').open; })"
    )
    tab.print_pdf(tmp_path / "page.pdf")
    assert tab.run("window.opened")  # explanations are on paper
    assert not tab.run("document.querySelector('.explanation').open")
    pages = re.findall(rb"/Type /Page\b", (tmp_path / "page.pdf").read_bytes())
    assert 3 <= len(pages) <= 6
    assert tab.list_errors() == []
    assert all(url.endswith("report.html") for url in tab.list_requests())
