"""Figures show what their tables say."""

from pathlib import Path

import pytest
from matplotlib.image import imread
from PIL import Image

from rindices.analysis.change import change_per_year
from rindices.analysis.figures import _MAX_PEOPLE, _space_evenly, plot_change, plot_group_change, plot_outcome
from rindices.analysis.predict import predict_outcome
from tests.analysis.helpers import make_visits
from tests.analysis.test_change import make_group_visits
from tests.analysis.test_predict import make_outcomes


@pytest.mark.parametrize(("time", "width"), [("years", 1170), (None, 630)])
def test_panels(time: str | None, width: int, tmp_path: Path) -> None:
    indices, outcomes = make_outcomes(80)
    indices = indices.drop(columns="r2")
    plot_outcome(predict_outcome(indices, outcomes, event="converted", time=time), tmp_path / "f.png")
    with Image.open(tmp_path / "f.png") as image:
        assert image.size == (width, 540)


def test_rows_are_evenly_spaced_and_limited() -> None:
    assert _space_evenly(5, 10).tolist() == [0, 1, 2, 3, 4]
    assert len(_space_evenly(5000, _MAX_PEOPLE)) == _MAX_PEOPLE
    assert _space_evenly(5000, _MAX_PEOPLE)[[0, -1]].tolist() == [0, 4999]


def test_the_figure_has_one_row_per_index(tmp_path: Path) -> None:
    visits, _ = make_visits(20, 3)
    for names in (["r1"], ["r1", "r2"]):
        table = visits[["participant_id", "session_id", "age", *names]]
        plot_change(change_per_year(table, "age"), tmp_path / f"{len(names)}.png")
    one, two = (imread(tmp_path / f"{number}.png").shape[0] for number in (1, 2))
    assert two > 1.5 * one


@pytest.mark.parametrize("n_visits", [2, 3])
def test_the_figure_of_groups_has_one_row_per_index(n_visits: int, tmp_path: Path) -> None:
    frame = make_group_visits(n_visits, 12).drop(columns="r2")
    plot_group_change(change_per_year(frame, "age"), tmp_path / "f.png")
    with Image.open(tmp_path / "f.png") as image:
        assert image.size == (1350, 525)
