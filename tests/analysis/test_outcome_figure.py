"""The figure has one panel per R-index and one of ratios."""

from pathlib import Path

import pytest
from PIL import Image

from rindices.analysis.outcome_figure import plot_outcome
from rindices.analysis.predict import predict_outcome
from tests.analysis.test_predict import make_outcomes


@pytest.mark.parametrize(("time", "width"), [("years", 1170), (None, 630)])
def test_panels(time: str | None, width: int, tmp_path: Path) -> None:
    indices, outcomes = make_outcomes(80)
    indices = indices.drop(columns="r2")
    plot_outcome(predict_outcome(indices, outcomes, event="converted", time=time), tmp_path / "f.png")
    with Image.open(tmp_path / "f.png") as image:
        assert image.size == (width, 540)
