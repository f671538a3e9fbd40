"""Figures of a study show its numbers, no single people, and texts that can be read."""

import doctest
import io
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest

matplotlib.use("agg")

from matplotlib import pyplot as plt
from matplotlib.collections import PathCollection

import rindices as ri
from rindices import plot
from rindices.analysis.study_results import read_study_results
from rindices.errors import InputError
from rindices.plot import evidence, geometry, maps, people, regions, style
from rindices.plot.files import get_figure
from rindices.plot.lobes import find_lobe
from rindices.plot.source import StudySource
from tests.plot.boxes import list_faults


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def clinical(study: Path) -> pd.DataFrame:
    table = pd.read_csv(study / "r_indices.tsv", sep="\t")
    rng = np.random.default_rng(0)
    score = table["r1"] - 0.01 * np.arange(len(table)) + rng.normal(0, 0.2, len(table))
    return pd.DataFrame(
        {
            "participant_id": table["participant_id"],
            "score": score,
            "order": np.arange(len(table)),
            "arm": rng.choice(["a", "b", "c"], len(table)),
        }
    ).sample(frac=1, random_state=0)


SITE_TABLE = pd.DataFrame(
    {
        "what": ["region"] * 40 + ["R-index"] * 4,
        "name": [f"region {k}" for k in range(40)] + ["r1", "r1", "r2", "r2"],
        "group": ["control"] * 40 + ["control", "patient"] * 2,
        "before": [*np.linspace(0, 0.6, 40), *[np.nan] * 4],
        "after": [*np.linspace(-0.02, 0.03, 40), 0.01, 0.02, -0.01, 0.1],
        "p": [*[np.nan] * 40, 0.3, 0.04, 0.9, 1e-5],
    }
)
"""As ``site_effects.tsv`` of a study of several sites."""
FIGURES: dict[str, Callable[[Path, pd.DataFrame], Any]] = {
    "forest": lambda study, _: plot.forest(study),
    "region_heatmap": lambda study, _: plot.region_heatmap(study, n_regions=None),
    "patterns": lambda study, _: plot.patterns(study),
    "severities": lambda study, _: plot.severities(study),
    "arms": lambda study, table: plot.severities(study, table, by="arm"),
    "pairs": lambda study, _: plot.pairs(study),
    "scatter": lambda study, table: plot.scatter(study, table, "score"),
    "associations": lambda study, table: plot.associations(
        ri.analysis.associate_indices(
            pd.read_csv(study / "r_indices.tsv", sep="\t"), table
        )
    ),
    "number": lambda study, _: plot.number(study),
    "agreement": lambda study, _: plot.number(study, by="agreement"),
    "reproducibility": lambda study, _: plot.reproducibility(study),
    "site_effects": lambda *_: plot.site_effects(SITE_TABLE),
    "subgroups": lambda study, _: plot.subgroups(study),
}


@pytest.mark.parametrize("name", FIGURES)
def test_at_the_width_of_a_column_texts_can_be_read(
    name: str, study: Path, clinical: pd.DataFrame
) -> None:
    figure = get_figure(FIGURES[name](study, clinical))
    assert figure.get_figwidth() == pytest.approx(85 / 25.4)
    assert list_faults(figure) == []


@pytest.mark.parametrize("module", [evidence, maps, people, regions])
def test_examples_run(
    module: Any, study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "results").symlink_to(study)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


def test_forest_draws_changes_and_intervals(study: Path) -> None:
    results = read_study_results(study)
    axes = plot.forest(study, "r1", n_regions=5)
    table = results.list_top_regions("r1", 5)
    drawn = np.concatenate([line.get_xdata() for line in axes.lines[:2]])
    assert sorted(drawn) == pytest.approx(sorted(table["change"]))
    segments = np.concatenate(
        [lines for each in axes.collections if len(lines := each.get_segments())]
    )
    ends = np.sort(segments[:, :, 0], axis=1)
    assert sorted(ends[:, 0]) == pytest.approx(sorted(table["low"]))
    assert sorted(ends[:, 1]) == pytest.approx(sorted(table["high"]))


def test_heat_map_holds_the_change_of_each_side(study: Path) -> None:
    source = StudySource.of(study)
    axes = plot.region_heatmap(study, n_regions=None)
    changes = source.select_changes("r2").set_index("region")["change"]
    labels = [text.get_text() for text in axes.get_yticklabels()]
    row = np.asarray(axes.images[0].get_array())[labels.index("hippocampus")]
    assert row[2:4] == pytest.approx([changes["MUSE_48"], changes["MUSE_47"]])


def test_model_and_folder_draw_the_same(study: Path) -> None:
    model = ri.load(study / "model.safetensors")
    drawn = [
        np.asarray(plot.region_heatmap(each).images[0].get_array())
        for each in (study, model)
    ]
    np.testing.assert_array_equal(*drawn)
    with pytest.raises(InputError, match="give the folder of the study"):
        plot.severities(model)


def test_scatter_shows_the_partial_correlation(
    study: Path, clinical: pd.DataFrame
) -> None:
    axes = plot.scatter(study, clinical, "score", covariates=["order"])
    table = ri.analysis.associate_indices(
        pd.read_csv(study / "r_indices.tsv", sep="\t"),
        clinical,
        variables=["score"],
        covariates=["order"],
    ).set_index("index")
    title = axes.get_title(loc="left")
    expected = f"partial r = {table.loc['r1', 'correlation']:.2f} "
    assert title.startswith(expected.replace("-", "\N{MINUS SIGN}"))
    x, y = (
        plot.scatter(study, clinical, "score", covariates=["order"], people=True)
        .collections[-1]
        .get_offsets()
        .T
    )
    assert np.corrcoef(x, y)[0, 1] == pytest.approx(table.loc["r1", "correlation"])


def test_single_people_are_drawn_only_where_asked_for(
    study: Path, clinical: pd.DataFrame
) -> None:
    number = len(pd.read_csv(study / "r_indices.tsv", sep="\t"))

    def count_points(axes: Any) -> int:
        scattered = sum(
            len(each.get_offsets())
            for each in axes.collections
            if isinstance(each, PathCollection)
        )
        lines = (
            len(line.get_xdata()) for line in axes.lines if line.get_marker() == "o"
        )
        return scattered + sum(lines)

    assert count_points(plot.severities(study)) == 0
    assert count_points(plot.severities(study, people=True)) >= number
    patients = (
        pd.read_csv(study / "r_indices.tsv", sep="\t")["group"] == "patient"
    ).sum()
    assert count_points(plot.scatter(study, clinical, "score")) <= patients / 5
    assert count_points(plot.scatter(study, clinical, "score", people=True)) >= patients
    assert count_points(plot.pairs(study)) <= number / 5
    assert count_points(plot.pairs(study, people=True)) == number


@pytest.mark.parametrize("number", [5, 9, 10, 37, 4_000])
def test_means_of_neighbours_are_of_five_people(number: int) -> None:
    values = np.random.default_rng(0).normal(size=(number, 2))
    table = pd.DataFrame(values, columns=["r1", "r2"]).assign(group="patient")
    few = table.head(4).assign(group="control")  # too few for a point
    means = people.average_neighbours(pd.concat([few, table]), "r1", "r2")
    assert set(means["group"]) == {"patient"}
    assert means["people"].min() >= 5
    assert means["people"].sum() == number
    assert len(means) <= 100
    mean = np.average(means[["r1", "r2"]], axis=0, weights=means["people"])
    np.testing.assert_allclose(mean, values.mean(axis=0))


def test_ends_of_a_cloud_are_not_those_of_a_person() -> None:
    axes = plt.subplots()[1]
    values = np.arange(40.0)
    people._draw_cloud(axes, values, 0.0, "black", people=False)
    drawn = np.concatenate(
        [path.vertices[:, 0] for each in axes.collections for path in each.get_paths()]
    )
    assert drawn.min() >= values[4]
    assert drawn.max() <= values[-5]


def test_small_groups_are_not_drawn(study: Path, clinical: pd.DataFrame) -> None:
    rare = clinical.assign(arm=["rare"] * 4 + ["common"] * (len(clinical) - 4))
    texts = plot.severities(study, rare, by="arm").get_legend().get_texts()
    assert [text.get_text()[:6] for text in texts] == ["common"]


def test_course_is_only_for_staged_patterns(study: Path, staged_study: Path) -> None:
    with pytest.raises(InputError, match="they have no course"):
        plot.course(study)
    model = ri.load(staged_study / "model.safetensors")
    order = model.region_order()
    axes = plot.course(staged_study, "r1", n_regions=6)
    onsets = axes.lines[-1].get_xdata()
    assert list(onsets) == sorted(onsets)
    assert set(onsets) <= set(order["onset"])
    assert list_faults(axes.figure) == []


@pytest.mark.parametrize(
    ("atlas", "structure"), [("muse", "muse47"), ("desikan_killiany", "hippocampus")]
)
def test_slices_go_through_the_largest_regions(atlas: str, structure: str) -> None:
    structures = geometry.load_parcellation(atlas).structures
    wanted = structures.index(
        next(each for each in structures if each.structure == structure)
    )
    weights = np.zeros(len(structures))
    weights[wanted] = 3.0
    slices = maps.choose_slices(atlas, weights)
    assert len(set(slices)) == 4
    for axis, at in slices:
        view = geometry.render_slice(atlas, axis, at)
        assert (view.labels == wanted).any(), (axis, at)


def test_given_axes_are_used_and_counted(study: Path) -> None:
    panels = plt.subplots(2)[1]
    assert plot.forest(study, "r1", ax=panels[0]) is panels[0]
    with pytest.raises(InputError, match="ax holds 1 panel"):
        plot.forest(study, ax=panels[0])
    with pytest.raises(InputError, match="no pattern 'r9'"):
        plot.forest(study, "r9")


def test_text_stays_text_in_files(study: Path) -> None:
    axes = plot.reproducibility(study)
    with plt.rc_context(style.get_style()):
        svg, pdf = io.StringIO(), io.BytesIO()
        axes.figure.savefig(svg, format="svg")
        axes.figure.savefig(pdf, format="pdf")
    assert re.search(r"<text[^>]*>prevalence above controls</text>", svg.getvalue())
    assert b"/FontFile2" in pdf.getvalue()
    assert b"/Type3" not in pdf.getvalue()


@pytest.mark.parametrize(
    ("label", "lobe"),
    [
        ("triangular part inferior frontal gyrus", "frontal"),
        ("angular gyrus", "parietal"),
        ("precuneus", "parietal"),
        ("occipital fusiform gyrus", "occipital"),
        ("banks of the superior temporal sulcus", "temporal"),
        ("frontal WM", "white matter"),
        ("anything", "other"),
    ],
)
def test_lobes(label: str, lobe: str) -> None:
    assert find_lobe(label) == lobe


def test_long_names_are_shortened() -> None:
    short = style.shorten_label("superior frontal gyrus medial segment, right")
    assert short == "sup. frontal g. med. seg. R"
    assert len(style.shorten_label("x" * 60 + ", left")) <= 28
