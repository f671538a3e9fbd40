"""Choice by held-out likelihood: the one-standard-error rule."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rindices.selection.agreement import IndexRows
from rindices.selection.choose import (
    Candidate,
    GridPoint,
    choose_and_measure,
    choose_grid_point,
    choose_simplest_setting,
    exceeds_chance,
    is_clearly_judged,
)


def test_a_difference_must_exceed_its_standard_error() -> None:
    assert exceeds_chance(np.array([0.1, 0.2, 0.3]))
    assert not exceeds_chance(np.array([-1.0, 1.2, 0.0]))
    assert exceeds_chance(np.array([0.1]))
    assert not exceeds_chance(np.array([0.0, 0.0]))


def test_the_simplest_of_the_likely_settings_is_chosen() -> None:
    base = np.array(
        [-50.0, -48.0, -52.0, -49.0]
    )  # members differ by their people, settings by member
    small, right = base - 0.5, base
    large = base + np.array([0.1, -0.08, 0.05, -0.04])
    assert choose_simplest_setting([small, right, large]) == 1
    assert choose_simplest_setting([small, right, base + 0.2]) == 2
    assert choose_simplest_setting([right]) == 0


def test_likelihood_decides_before_agreement_and_ties_are_listed() -> None:
    rng = np.random.default_rng(0)

    def make(n_patterns: int, likelihood: np.ndarray | None, noise: float) -> Candidate:
        truth = rng.random((40, n_patterns))
        indices = np.stack(
            [truth + noise * rng.random((40, n_patterns)) for _ in range(4)]
        )
        return Candidate(
            point=GridPoint(n_patterns),
            indices=IndexRows(indices),
            numbers=(0, 1, 2, 3),
            trained=4,
            held_out=likelihood,
        )

    base = np.array([-50.0, -48.0, -52.0, -49.0])
    candidates = [
        make(4, base + np.array([0.1, -0.12, 0.1, -0.1]), 0.0),
        make(3, base, 0.1),
        make(2, base - 1, 0.0),
    ]
    result = choose_grid_point(candidates, 0)
    assert result.best == 1
    assert result.ties == (0,)
    without = [replace(candidate, held_out=None) for candidate in candidates]
    assert choose_grid_point(without, 0).best != 1


def test_a_likely_number_on_which_halves_disagree_is_left_out() -> None:
    """Noise within patterns makes a fourth pattern more likely; halves of the people do
    not find the same one.
    """
    rng = np.random.default_rng(0)
    base = np.array([-50.0, -48.0, -52.0, -49.0])

    def make(n_patterns: int, likelihood: np.ndarray, concordance: float) -> Candidate:
        indices = np.stack([rng.random((40, n_patterns))] * 4)
        evidence = np.array([[concordance, 0.5, 0.5]] * 4)
        return Candidate(
            point=GridPoint(n_patterns),
            indices=IndexRows(indices),
            numbers=(0, 1, 2, 3),
            trained=4,
            evidence=evidence,
            held_out=likelihood,
        )

    two, three = make(2, base - 0.2, 0.79), make(3, base, 0.93)
    assert choose_grid_point([two, three, make(4, base + 0.05, 0.83)]).best == 1
    assert choose_grid_point([two, three, make(4, base + 0.05, 0.90)]).best == 2
    assert (
        choose_grid_point([make(1, base - 0.2, 0.95), three]).best == 1
    )  # a single pattern agrees more easily
    assert (
        choose_grid_point([make(1, base, 0.93), make(2, base - 0.2, 0.92)]).best == 0
    )  # and may be the likely one
    assert (
        choose_grid_point([make(2, base, 0.70), make(3, base - 0.2, 0.93)]).best == 0
    )  # smaller ones are kept


def test_evidence_is_measured_for_the_likely_number_and_smaller_ones_until_one_is_stable() -> (
    None
):
    rng = np.random.default_rng(0)
    base, measured, completed = (
        np.array([-50.0, -48.0, -52.0, -49.0]),
        list[int](),
        list[int](),
    )
    concordances = {2: 0.93, 3: 0.55, 4: 0.93}

    def make(n_patterns: int, with_evidence: bool) -> Candidate:
        indices = np.stack([rng.random((40, n_patterns))] * 4)
        evidence = (
            np.array([[concordances[n_patterns], 0.5, 0.5]] * 4)
            if with_evidence
            else None
        )
        likelihood = base - {2: 0.4, 3: 0.0, 4: 0.8}[n_patterns]
        return Candidate(
            point=GridPoint(n_patterns),
            indices=IndexRows(indices),
            numbers=(0, 1, 2, 3),
            trained=4,
            evidence=evidence,
            held_out=likelihood,
        )

    def measure(points: Sequence[GridPoint]) -> list[Candidate]:
        measured.extend(point.n_patterns for point in points)
        return [make(point.n_patterns, True) for point in points]

    def complete(point: GridPoint) -> Candidate:
        completed.append(point.n_patterns)
        return make(point.n_patterns, True)

    result = choose_and_measure(
        [make(number, False) for number in (2, 3, 4)], measure, complete
    )
    assert (result.best, measured, completed) == (
        0,
        [2, 3],
        [2],
    )  # halves do not agree on the most likely number


def test_pairs_of_fits_are_clear_if_all_or_none_agree() -> None:
    assert is_clearly_judged([0.8, 0.9], 0.8)
    assert is_clearly_judged([0.5, 0.7], 0.8)
    assert not is_clearly_judged([0.7, 0.9], 0.8)
