"""Each figure looks as its picture in ``baselines`` does, without letters, whose shapes
differ between builds of FreeType.

``RINDICES_BASELINES=1 python -m pytest tests/plot/test_images.py`` draws the pictures
again: look at them.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib

matplotlib.use("agg")

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.testing.compare import compare_images
from matplotlib.text import Text

from rindices import plot
from rindices.analysis.change import change_per_year
from rindices.analysis.predict import predict_outcome
from rindices.plot import style
from rindices.plot.files import get_figure
from tests.analysis.test_change import make_group_visits
from tests.analysis.test_predict import make_outcomes
from tests.plot.test_plot import FIGURES, clinical

BASELINES = Path(__file__).parent / "baselines"
DPI, TOLERANCE = 60, 12.0
"""Of the pictures, and the root mean square of the difference of two (0 to 255) that
other builds may have.
"""


def draw_training() -> Any:
    steps = np.tile(np.arange(100, 1100, 100), 2)
    member = np.repeat([0, 1], 10)
    losses = {
        "discrimination": 1.3 - steps / 4000 + 0.1 * member,
        "reconstruction": np.exp(-steps / 300) * (1 + 0.2 * member),
    }
    return plot.training(pd.DataFrame({"member": member, "step": steps} | losses))


def draw_synthetic() -> Any:
    real = np.linspace(-2, 0.5, 40)
    return plot.synthetic(real, real + 0.2 * np.sin(9 * real))


def draw_transformation() -> Any:
    full = np.linspace(-2, 0.3, 12)
    names = [f"region {k}" for k in range(12)]
    return plot.transformation(
        np.array([z * full for z in (0.3, 0.6, 1.0)]), names, [0.3, 0.6, 1.0]
    )


def draw_agreement() -> Any:
    rows = [
        (number, weight, 0.9 - 0.05 * number - weight / 10)
        for number in (2, 3, 4)
        for weight in (0.1, 0.2, 0.4)
    ]
    table = pd.DataFrame(rows, columns=["n_patterns", "orthogonality", "agreement"])
    table = table.assign(
        low=table["agreement"] - 0.03,
        high=table["agreement"] + 0.03,
        chosen=np.arange(len(table)) == 4,
    )
    return plot.agreement(table)


def draw_recovery() -> Any:
    truth = np.stack([np.linspace(0, 1, 60), np.linspace(0, 1, 60)[::-1] ** 2], axis=1)
    return plot.recovery(truth, truth + 0.1 * np.cos(40 * truth))


def draw_outcome() -> Any:
    indices, outcomes = make_outcomes(200)
    return plot.outcome(
        predict_outcome(indices, outcomes, event="converted", time="years")
    )


def draw_replication() -> Any:
    x = np.linspace(-3, 0, 30)
    row = {"first": "r1", "second": "r2", "correlation": 0.9, "p": 0.001}
    result: Any = SimpleNamespace(
        maps=[(x, x + 0.4 * np.cos(7 * x))],
        table=pd.DataFrame([row | {"matched": True}]),
        largest=np.linspace(-0.6, 0.6, 400) ** 3 * 2,
        chance=0.4,
    )
    return plot.replication(result, ("A", "B"))


def change_groups() -> Any:
    return change_per_year(make_group_visits(3, 24), "age")


FIXED: dict[str, Callable[[], Any]] = {
    "training": draw_training,
    "synthetic": draw_synthetic,
    "transformation": draw_transformation,
    "agreement_by_weight": draw_agreement,
    "recovery": draw_recovery,
    "outcome": draw_outcome,
    "replication": draw_replication,
    "change": lambda: plot.change(change_groups()),
    "visits": lambda: plot.visits(change_groups()),
}


@pytest.fixture(autouse=True)
def same_letters(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Letters of matplotlib's own font, whose widths are the same everywhere."""
    monkeypatch.setattr(style, "_JOURNAL_FONTS", ())
    style.get_style.cache_clear()
    yield
    style.get_style.cache_clear()


def save_without_letters(draw: Callable[[], Any], path: Path) -> None:
    with style.make_hidden_figures(style.COLUMN_MM):
        figure = get_figure(draw())
        figure.set_dpi(DPI)
        FigureCanvasAgg(figure).draw()
        figure.set_layout_engine("none")  # letters keep their room
        for text in figure.findobj(Text):
            text.set_alpha(0.0)
        figure.savefig(path, dpi=DPI, metadata={"Software": None})


def measure_difference(name: str, draw: Callable[[], Any], folder: Path) -> float:
    """Return how far a figure is from its picture; draw the picture where asked."""
    baseline, actual = BASELINES / f"{name}.png", folder / f"{name}.png"
    save_without_letters(draw, actual)
    if os.environ.get("RINDICES_BASELINES"):
        BASELINES.mkdir(exist_ok=True)
        save_without_letters(draw, baseline)
    found = compare_images(str(baseline), str(actual), tol=0, in_decorator=True)
    return 0.0 if found is None else float(found["rms"])


@pytest.mark.parametrize("name", FIGURES)
def test_figures_of_a_study_look_as_before(
    name: str, study: Path, clinical: pd.DataFrame, tmp_path: Path
) -> None:
    draw = FIGURES[name]
    assert measure_difference(name, lambda: draw(study, clinical), tmp_path) < TOLERANCE


@pytest.mark.parametrize("name", FIXED)
def test_other_figures_look_as_before(name: str, tmp_path: Path) -> None:
    assert measure_difference(name, FIXED[name], tmp_path) < TOLERANCE


def test_the_course_looks_as_before(staged_study: Path, tmp_path: Path) -> None:
    draw = lambda: plot.course(staged_study, "r1")  # noqa: E731
    assert measure_difference("course", draw, tmp_path) < TOLERANCE


def test_a_figure_of_other_numbers_is_told_apart(tmp_path: Path) -> None:
    def draw_less() -> Any:
        return plot.synthetic(np.linspace(-2, 0.5, 40), np.linspace(-1, 0.2, 40))

    if not os.environ.get("RINDICES_BASELINES"):
        assert measure_difference("synthetic", draw_less, tmp_path) > TOLERANCE


def test_every_figure_has_a_picture() -> None:
    assert set(plot.__all__) <= {path.stem for path in BASELINES.glob("*.png")}


__all__ = ["clinical"]
