"""The figure of groups is drawn with and without shrunken slopes."""

from pathlib import Path

import pytest
from PIL import Image

from rindices.analysis.change_figures import plot_group_change
from rindices.analysis.change_models import model_change
from tests.analysis.test_change_models import make_group_visits


@pytest.mark.parametrize("n_visits", [2, 3])
def test_the_figure_has_one_row_per_index(n_visits: int, tmp_path: Path) -> None:
    frame = make_group_visits(n_visits, 12).drop(columns="r2")
    plot_group_change(model_change(frame, "age"), frame, "age", tmp_path / "f.png")
    with Image.open(tmp_path / "f.png") as image:
        assert image.size == (1350, 525)
