"""The figure of the change per year draws every person up to a limit."""

from pathlib import Path

from matplotlib.image import imread

from rindices.analysis.change import change_per_year
from rindices.analysis.change_figures import _MAX_PEOPLE, _space_evenly, plot_change
from tests.analysis.helpers import make_visits


def test_rows_are_evenly_spaced_and_limited() -> None:
    assert _space_evenly(5, 10).tolist() == [0, 1, 2, 3, 4]
    assert len(_space_evenly(5000, _MAX_PEOPLE)) == _MAX_PEOPLE
    assert _space_evenly(5000, _MAX_PEOPLE)[[0, -1]].tolist() == [0, 4999]


def test_the_figure_has_one_row_per_index(tmp_path: Path) -> None:
    visits, _ = make_visits(20, 3)
    for names in (["r1"], ["r1", "r2"]):
        table = visits[["participant_id", "session_id", "age", *names]]
        plot_change(change_per_year(table, "age"), table, "age", tmp_path / f"{len(names)}.png")
    one, two = (imread(tmp_path / f"{number}.png").shape[0] for number in (1, 2))
    assert two > 1.5 * one
