"""The section Explore: its data are those of the study, and every control works in a browser."""

import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scripts.chromium import Browser, Tab

import rindices as ri
from rindices.report.explore_section import compute_person_changes
from rindices.report.figures import match_atlas, paint_view
from rindices.report.geometry import BrainView
from rindices.report.sections import compute_colour_limit
from rindices.report.study_results import read_study_results
from tests.report.helpers import read_script_data, unpack_arrays

READY = "document.getElementById('person').children.length"


def test_curves_are_those_of_the_model(study: Path, page: str) -> None:
    data = read_script_data(page, "explore-data")
    model = ri.load(study / "model.safetensors")
    curves = unpack_arrays(data["arrays"])["curves"].reshape(11, model.n_patterns, len(model.regions))
    for (pattern, severity), rows in model.trajectories().groupby(["pattern", "severity"]):
        expected = rows.set_index("region").loc[list(model.regions), "change"]
        np.testing.assert_allclose(curves[round(10 * severity), int(pattern[1:]) - 1], expected, rtol=1e-5, atol=1e-6)


def test_changes_of_people_are_interpolated_along_the_curves(curved_study: Path) -> None:
    results = read_study_results(curved_study)
    changes = compute_person_changes(results.model, results.indices[results.names].to_numpy())
    table = results.model.trajectories()
    for person in (0, 17, 60):
        for k, name in enumerate(results.names):
            z = np.clip(results.indices[name].iloc[person], 0, 1)
            rows = table[table["pattern"] == name]
            naive = [
                np.interp(z, own["severity"], own["change"])
                for region in results.model.regions
                for own in [rows[rows["region"] == region]]
            ]
            np.testing.assert_allclose(changes[person, k], naive, atol=1e-5)


@pytest.fixture(scope="module")
def tab(study: Path) -> Iterator[Tab]:
    """The page with ids, open in a browser."""
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed")
    path = ri.write_report(study, with_ids=True)
    with Browser() as browser:
        tab = browser.open(path, ready=READY)
        tab.run("document.documentElement.style.scrollBehavior = 'auto'")  # clicks need places that do not move
        yield tab


@pytest.fixture(scope="module")
def indices(study: Path) -> pd.DataFrame:
    return pd.read_csv(study / "r_indices.tsv", sep="\t").set_index("participant_id")


def get_text(tab: Tab, element: str) -> str:
    return str(tab.run(f"document.getElementById('{element}').textContent"))


def place_of(tab: Tab, element: str) -> tuple[float, float, float, float]:
    tab.run(f"document.getElementById('{element}').scrollIntoView({{block: 'center', behavior: 'instant'}})")
    box = tab.run(f"document.getElementById('{element}').getBoundingClientRect().toJSON()")
    return box["left"], box["top"], box["width"], box["height"]


def test_a_person_is_found_by_id(tab: Tab, indices: pd.DataFrame) -> None:
    person = indices.index[123]
    tab.run("document.getElementById('person-search').focus()")
    tab.type_text(person)
    assert tab.run("document.querySelectorAll('#person-matches li[role=option]').length") == 1
    tab.press("Enter")
    row = indices.loc[person]
    assert get_text(tab, "person-name").startswith(f"{person}, {row['group']}, age ")
    text = get_text(tab, "person").replace("−", "-")  # noqa: RUF001
    assert f"r1 {row['r1']:.2f} (90 % interval {row['r1_low']:.2f} to {row['r1_high']:.2f})" in text
    for group in ("control", "patient"):
        share = 100 * (indices.loc[indices["group"] == group, "r1"] < row["r1"]).mean()
        assert f"{int(share + 0.5)} % of {group}s" in text  # a half is rounded up in JavaScript
    assert "that speak for r1" in text or "speaks for it by itself" in text
    severities = [
        float(text) for text in tab.run("[...document.querySelectorAll('#sliders output')].map((o) => o.value)")
    ]
    names = [name for name in indices if name in ("r1", "r2", "r3")]
    assert severities == pytest.approx(list(row[names].clip(0, 1)), abs=0.006)


def test_ids_that_nobody_has_are_said(tab: Tab) -> None:
    tab.run("document.getElementById('person-search').value = ''; document.getElementById('person-search').focus()")
    tab.type_text("zzz")
    assert get_text(tab, "person-matches") == "nobody has such an id"
    tab.press("Escape")
    assert tab.run("document.getElementById('person-matches').hidden")


def test_buttons_go_to_the_neighbours_on_the_axis(tab: Tab, indices: pd.DataFrame) -> None:
    tab.run("document.getElementById('person-clear').click()")
    assert get_text(tab, "person-name").startswith("Nobody is picked")
    order = indices.sort_values("r1").index
    for button, person in (("next", order[0]), ("next", order[1]), ("previous", order[0]), ("previous", order[-1])):
        tab.run(f"document.getElementById('person-{button}').click()")
        assert get_text(tab, "person-name").startswith(f"{person},")


def test_a_click_picks_the_nearest_dot_and_keys_move_on(tab: Tab, indices: pd.DataFrame) -> None:
    tab.run("document.getElementById('person-clear').click()")
    left, top, width, height = place_of(tab, "scatter-overlay")
    for x, y in product(np.linspace(0.2, 0.9, 12), repeat=2):  # until a dot is hit
        tab.click(left + x * width, top + (1.0 - y) * height)
        if not get_text(tab, "person-name").startswith("Nobody"):
            break
    first = get_text(tab, "person-name").partition(",")[0]
    assert first in indices.index
    tab.run("document.getElementById('scatter-overlay').focus()")
    tab.press("ArrowRight")
    second = get_text(tab, "person-name").partition(",")[0]
    assert indices.loc[second, "r1"] > indices.loc[first, "r1"]
    tab.press("ArrowLeft")
    assert indices.loc[get_text(tab, "person-name").partition(",")[0], "r1"] < indices.loc[second, "r1"]


def test_a_range_and_a_drag_select_the_same_people(tab: Tab, indices: pd.DataFrame) -> None:
    left, top, width, height = place_of(tab, "scatter-overlay")
    tab.drag((left + 0.4 * width, top + 0.1 * height), (left + 0.9 * width, top + 0.8 * height))
    names = ("x-low", "x-high", "y-low", "y-high")
    low, high, y_low, y_high = (float(tab.run(f"document.getElementById('{name}').value")) for name in names)
    inside = indices[indices["r1"].between(low, high) & indices["r2"].between(y_low, y_high)]
    assert len(inside) > 10
    text = get_text(tab, "box-summary")
    patients = (inside["group"] == "patient").sum()
    assert text.startswith(f"{len(inside)} people selected: {len(inside) - patients} controls and {patients} patients.")
    assert f"r1 {inside['r1'].median():.3g}"[:7] in text
    tab.run("document.getElementById('box-clear').click()")
    assert get_text(tab, "box-summary").startswith("Nobody")
    select_from_half(tab)
    assert get_text(tab, "box-summary").startswith(f"{(indices['r1'] >= 0.5).sum()} people")


def select_from_half(tab: Tab) -> None:
    field = "document.getElementById('x-low')"
    tab.run(f"{field}.value = 0.5; {field}.dispatchEvent(new Event('change'))")


def test_a_drag_may_end_outside_the_plot(tab: Tab, indices: pd.DataFrame) -> None:
    left, top, width, height = place_of(tab, "scatter-overlay")
    tab.drag((left + 0.5 * width, top + 0.1 * height), (left + width + 40, top + height + 40))
    low, high = (float(tab.run(f"document.getElementById('{name}').value")) for name in ("x-low", "x-high"))
    inside = indices["r1"].between(low, high).sum()
    assert high >= indices["r1"].max()
    assert 10 < inside < len(indices)
    assert not get_text(tab, "box-summary").startswith("Nobody")
    tab.run("document.getElementById('box-clear').click()")


def test_the_selected_people_are_saved(tab: Tab, indices: pd.DataFrame, tmp_path: Path) -> None:
    tab.run("document.getElementById('box-clear').click()")
    select_from_half(tab)
    path = tab.download("#box-save", tmp_path / "selected.tsv")
    saved = pd.read_csv(path, sep="\t").set_index("participant_id")
    assert set(saved.index) == set(indices.index[indices["r1"] >= 0.5])
    np.testing.assert_allclose(saved["r2"], indices.loc[saved.index, "r2"], atol=2e-4)


def test_axes_and_colours_show_every_column(tab: Tab) -> None:
    for element in ("axis-x", "axis-y", "colour-by"):
        number = tab.run(f"document.getElementById('{element}').options.length")
        assert number >= 5
        pictures = set()
        for k in [*range(number), 1 if element == "axis-y" else 0]:
            tab.run(
                f"(() => {{ const select = document.getElementById('{element}'); select.selectedIndex = {k}; "
                "select.dispatchEvent(new Event('change')); })()"
            )
            pictures.add(tab.run("document.getElementById('scatter').toDataURL()"))
        assert len(pictures) == number
    assert "controls" in get_text(tab, "legend")


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
    bars = tab.run("[...document.querySelectorAll('#severity-bars td:last-child')].map((cell) => cell.textContent)")
    largest = sorted(effects.values(), key=abs, reverse=True)[: len(bars)]
    assert [float(text.replace("−", "-")) for text in bars] == pytest.approx(largest, abs=0.006)  # noqa: RUF001
    values = np.full(len(match.atlas.structures), np.nan)
    for region, structure in match.drawn.items():
        values[match.atlas.structures.index(structure)] = effects[region]
    for number, view in ((0, match.atlas.cortex[0]), (6, match.atlas.slices[2])):
        small = BrainView(view.name, view.labels[::2, ::2], view.shade[::2, ::2], view.is_slice)
        expected = np.round(255 * paint_view(small, values, compute_colour_limit(results.model.patterns[-1])))
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


@pytest.mark.parametrize("selector", [".small-maps img", "#r1 .cortex img", "#severity-views canvas"])
def test_the_region_under_the_pointer_is_named(tab: Tab, study: Path, selector: str) -> None:
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


def test_the_page_fits_a_phone_changes_its_theme_and_asks_for_nothing(tab: Tab, tmp_path: Path) -> None:
    tab.take_picture(tmp_path / "page.png")  # of the whole page, during which the scatter may have no width
    tab.set_size(390, 800)
    tab.run("new Promise((done) => setTimeout(done, 100))")
    assert tab.run("document.documentElement.scrollWidth") <= 390
    before = tab.run("document.getElementById('scatter').toDataURL()")
    tab.run("document.getElementById('theme').click()")
    tab.wait(f"document.getElementById('scatter').toDataURL() !== '{before}'")
    tab.run("addEventListener('beforeprint', () => { window.opened = document.querySelector('.explanation').open; })")
    tab.print_pdf(tmp_path / "page.pdf")
    assert tab.run("window.opened")  # explanations are on paper
    assert not tab.run("document.querySelector('.explanation').open")
    assert (tmp_path / "page.pdf").stat().st_size > 50_000
    assert tab.list_errors() == []
    assert all(url.endswith("report_with_ids.html") for url in tab.list_requests())
