"""R-indices against true severities, and figures of tables in place of a study."""

from collections.abc import Iterator
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

import rindices as ri
from rindices import plot
from rindices.errors import InputError
from rindices.selection.agreement import pattern_c_index
from tests.plot.boxes import list_faults


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture
def truth() -> np.ndarray:
    return np.random.default_rng(0).uniform(size=(203, 3))


def test_recovery_matches_patterns_and_draws_medians_of_bins(truth) -> None:
    noise = np.random.default_rng(1).normal(0, 0.1, truth.shape)
    indices = (truth + noise)[:, [2, 0, 1]]
    axes = plot.recovery(truth, indices)
    score = pattern_c_index(truth, indices)
    for k, panel in enumerate(axes):
        assert panel.get_title(loc="left").endswith(f"{score.per_pattern[k]:.2f}")
        x, y = panel.lines[-1].get_xdata(), panel.lines[-1].get_ydata()
        order = np.argsort(truth[:, k])
        expected = [np.median((truth + noise)[p, k]) for p in np.array_split(order, 10)]
        np.testing.assert_allclose(y, expected)
        assert (np.diff(x) > 0).all()
        assert not any(len(each.get_offsets()) > 10 for each in panel.collections)
    assert list_faults(axes[0].figure) == []


def test_recovery_draws_people_only_where_asked_for(truth) -> None:
    panel = plot.recovery(truth[:, :1], truth[:, :1], people=True)
    assert max(len(each.get_offsets()) for each in panel.collections) == len(truth)


def test_shapes_that_differ_are_refused(truth) -> None:
    with pytest.raises(InputError, match="one row for each patient"):
        plot.recovery(truth, truth[:, :2])
    with pytest.raises(InputError, match="15 are needed"):
        plot.recovery(truth[:9], truth[:9])


def read_heights(panel) -> list[np.ndarray]:
    return [path.vertices for each in panel.collections for path in each.get_paths()]


def test_a_table_of_r_indices_is_drawn_as_its_study(study: Path) -> None:
    table = pd.read_csv(study / "r_indices.tsv", sep="\t")
    for draw in (plot.severities, plot.pairs):
        drawn = [read_heights(draw(each)) for each in (study, table)]
        assert len(drawn[0]) == len(drawn[1]) > 0
        for first, second in zip(*drawn, strict=True):
            np.testing.assert_allclose(first, second, atol=1e-6)
    with pytest.raises(InputError, match="no column 'group'"):
        plot.severities(table.drop(columns="group"))


def test_a_table_of_patterns_is_drawn_as_its_study(study: Path) -> None:
    table = pd.read_csv(study / "patterns.tsv", sep="\t")
    for draw in (plot.region_heatmap, lambda each: plot.patterns(each, "r1")):
        images = [
            np.asarray(draw(each).images[0].get_array()) for each in (study, table)
        ]
        np.testing.assert_allclose(images[0], images[1], atol=1e-3)
    rows = pd.DataFrame({"pattern": "r1", "region": ["MUSE_47", "MUSE_48"]})
    panel = plot.forest(rows.assign(change=[-1.0, -2.0]))
    labels = [text.get_text() for text in panel.get_yticklabels()]
    assert labels == ["hippocampus L", "hippocampus R"]


def test_a_table_of_neither_is_refused() -> None:
    with pytest.raises(InputError, match="neither R-indices"):
        plot.forest(pd.DataFrame({"score": [1.0]}))


def test_new_people_are_drawn_by_group(study: Path, small_cohort) -> None:
    cohort = small_cohort.cohort
    try:
        indices = ri.load(study / "model.safetensors").apply(cohort)
    except ri.RindicesError:
        pytest.skip("the study has other regions")
    groups = np.where(cohort.is_patient, "patient", "control")
    panel = plot.severities(indices.assign(group=groups))
    texts = [text.get_text() for text in panel.get_legend().get_texts()]
    assert texts[0] == f"controls (n = {cohort.n_controls})"
