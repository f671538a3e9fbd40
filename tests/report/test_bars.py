"""Bars lie within their scale, and numbers on colours can be read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rindices.report.sections import make_bar, make_colour_cell
from tests.report.helpers import compute_contrast


def test_positions_are_percent_of_the_scale() -> None:
    bar = make_bar(-1.0, (-2.0, 0.5), (-3.0, 1.0), "red")
    assert (bar.zero, bar.value, bar.low, bar.high) == (75.0, 50.0, 25.0, 87.5)
    assert (
        make_bar(0.5, None, (0.0, 1.0), "red").low
        == make_bar(0.5, None, (0.0, 1.0), "red").high
        == 50.0
    )


@given(st.floats(-5, 5), st.floats(-5, 5))
def test_nothing_is_drawn_beyond_the_scale(value: float, low: float) -> None:
    bar = make_bar(value, (low, 9.0), (0.0, 1.0), "red")
    assert all(
        0 <= position <= 100 for position in (bar.zero, bar.value, bar.low, bar.high)
    )


@given(st.floats(-5, 5))
def test_numbers_on_colours_can_be_read(value: float) -> None:
    cell = make_colour_cell(value, 3.0)
    ink = {"#000": "#000000", "#fff": "#ffffff"}[cell.ink]
    assert compute_contrast(ink, cell.colour) >= 4.5
    assert cell.value == pytest.approx(value)
