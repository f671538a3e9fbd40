"""Colours can be told apart by colour-blind readers, and in a grey print."""

from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from rindices.plot import brain, gan, style

_DEUTERANOPIA = [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.011820, 0.042940, 0.968881],
]
_PROTANOPIA = [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
]
"""Machado, Oliveira and Fernandes (2009), severity 1, of linear colours."""


def to_lab(colour: str, matrix: Any) -> np.ndarray:
    """Return a colour in CIELAB, as an eye with a matrix sees it."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.asarray(matrix) @ linear, 0, 1)
    xyz = (
        np.array(
            [
                [0.4124, 0.3576, 0.1805],
                [0.2126, 0.7152, 0.0722],
                [0.0193, 0.1192, 0.9505],
            ]
        )
        @ seen
        / [0.9505, 1.0, 1.089]
    )
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


EYES = {
    "usual": np.eye(3),
    "deuteranopia": np.array(_DEUTERANOPIA),
    "protanopia": np.array(_PROTANOPIA),
}


def measure_distance(first: str, second: str, eye: str) -> float:
    """Return the distance of two colours in CIELAB; about 2 can just be seen."""
    return float(np.linalg.norm(to_lab(first, EYES[eye]) - to_lab(second, EYES[eye])))


def get_lightness(colour: str) -> float:
    """Return how light a colour is in a grey print (0 to 100)."""
    return float(to_lab(colour, EYES["usual"])[0])


@pytest.mark.parametrize("eye", EYES)
def test_loss_and_gain_can_be_told_apart(eye: str) -> None:
    assert measure_distance(style.LOSS_COLOUR, style.GAIN_COLOUR, eye) > 40
    ends = (brain.effect_to_hex(sign, 1.0) for sign in (-1.0, 1.0))
    assert measure_distance(*ends, eye) > 30
    for size in (0.25, 0.5, 0.75):
        signs = (brain.effect_to_hex(sign * size, 1.0) for sign in (-1.0, 1.0))
        assert measure_distance(*signs, eye) > 20, size


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_larger_change_is_another_colour_and_darker(sign: float, eye: str) -> None:
    steps = [brain.effect_to_hex(sign * size, 1.0) for size in np.linspace(0, 1, 6)]
    for first, second in pairwise(steps):
        assert measure_distance(first, second, eye) > 8
    lightness = [get_lightness(colour) for colour in steps]
    assert (np.diff(lightness) < -5).all()  # in grey


@pytest.mark.parametrize("eye", EYES)
def test_lines_of_one_figure_can_be_told_apart(eye: str) -> None:
    """Lines and marks of neighbours in the list also differ in their shape."""
    for colours in (style.SERIES_COLOURS, gan._COLOURS):
        nearest = min(measure_distance(*two, eye) for two in combinations(colours, 2))
        assert nearest > 8
        for colour in colours:
            assert measure_distance(colour, "#ffffff", eye) > 25


def test_groups_of_two_differ_in_grey() -> None:
    control, patient = style.CONTROL_COLOUR, style.PATIENT_COLOUR
    assert abs(get_lightness(control) - get_lightness(patient)) > 20


def test_colours_of_groups_can_be_told_apart() -> None:
    for first, second in combinations(style.GROUP_COLOURS, 2):
        for matrix in (np.eye(3), _DEUTERANOPIA, _PROTANOPIA):
            distance = np.linalg.norm(to_lab(first, matrix) - to_lab(second, matrix))
            assert distance > 18, (first, second)
    lightness = [to_lab(colour, np.eye(3))[0] for colour in style.GROUP_COLOURS[:4]]
    assert np.diff(sorted(lightness)).min() > 12  # in grey
