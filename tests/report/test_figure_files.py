"""The charts of a report are files beside it: drawn once, and without single people."""

import re
import shutil
import stat
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

import pandas as pd
import pytest
from matplotlib.figure import Figure

import rindices as ri
from rindices.study.write import clear_outputs

N_LEGEND = 2
"""Marks in the legend of pairs of R-indices: one of each group."""


@pytest.fixture
def folder(study: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(study, tmp_path / "results"))


def list_charts(folder: Path) -> dict[str, Path]:
    return {
        path.stem.removeprefix("report_"): path
        for path in (folder / "figures").glob("report_*.svg")
    }


def count_marks(path: Path) -> int:
    """Return the number of markers of an SVG file that are no ticks of an axis and no
    areas.
    """

    def count(node: ElementTree.Element) -> int:
        if re.match(r"matplotlib\.axis|.*PolyCollection", node.get("id", "")):
            return 0
        return node.tag.endswith("}use") + sum(map(count, node))

    return count(ElementTree.parse(path).getroot())


def test_each_chart_is_drawn_once_and_written_beside_the_report(folder: Path) -> None:
    with mock.patch.object(
        Figure, "savefig", autospec=True, side_effect=Figure.savefig
    ) as saved:
        page = ri.write_report(folder).read_text("utf-8")
    charts = list_charts(folder)
    assert {"number", "agreement", "severities", "pairs_r1_r2"} <= set(charts)
    assert saved.call_count == len(charts) == page.count("<svg")
    for path in charts.values():
        text = path.read_text("utf-8")
        assert text.startswith("<?xml")
        assert "var(--" not in text
        labels = re.findall(r"<text[^>]*>([^<]+)</text>", text)
        assert labels
        assert all(label in page for label in labels)


def test_charts_show_single_people_only_where_asked_for(folder: Path) -> None:
    indices = pd.read_csv(folder / "r_indices.tsv", sep="\t")
    ri.write_report(folder)
    charts = list_charts(folder)
    assert count_marks(charts["severities"]) == 0
    assert 0 < count_marks(charts["pairs_r1_r2"]) <= len(indices) / 5 + N_LEGEND
    assert stat.S_IMODE(charts["pairs_r1_r2"].stat().st_mode) & 0o004
    ri.write_report(folder, show_people=True)
    assert count_marks(charts["pairs_r1_r2"]) == len(indices) + N_LEGEND
    n_indices = sum(bool(re.fullmatch(r"r\d+", name)) for name in indices)
    assert count_marks(charts["severities"]) == n_indices * len(indices)
    assert not stat.S_IMODE(charts["pairs_r1_r2"].stat().st_mode) & 0o004


def test_charts_of_an_earlier_report_are_removed(folder: Path) -> None:
    (folder / "figures").mkdir(exist_ok=True)
    (folder / "figures" / "report_pairs_r8_r9.svg").write_text("of an earlier report")
    (folder / "figures" / "own.svg").write_text("a user's")
    ri.write_report(folder)
    assert "pairs_r8_r9" not in list_charts(folder)
    clear_outputs(folder)
    assert [path.name for path in (folder / "figures").glob("*.svg")] == ["own.svg"]
