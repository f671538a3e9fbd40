"""Masks: exact sums of integers, in which the masks of all pairs cancel."""

import secrets

import numpy as np
import pytest

from rindices_nvflare import masks


def draw_numbers(seed: int, n: int = 500) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=n) * 10.0 ** rng.integers(-6, 15, size=n)


def to_exact(integers: np.ndarray) -> list[int]:
    """Return integers of Python, by another way than `to_numbers`."""
    values = [int(high) << 64 | int(low) for low, high in integers]
    return [value - (1 << 128) if value >> 127 else value for value in values]


def test_integers_are_the_numbers_in_steps_of_two_to_minus_64() -> None:
    numbers = draw_numbers(0)
    for number, integer in zip(
        numbers, to_exact(masks.to_integers(numbers)), strict=True
    ):
        assert abs(integer - int(number * 2.0**64)) <= 1
    np.testing.assert_allclose(
        masks.to_numbers(masks.to_integers(numbers)), numbers, rtol=1e-15, atol=2.0**-64
    )
    close = np.array([1.0 - 2.0**-53, -1.0 + 2.0**-53, 0.0, -0.0, 3.0, -(2.0**55)])
    np.testing.assert_array_equal(masks.to_numbers(masks.to_integers(close)), close)


def test_a_number_that_could_overflow_is_refused() -> None:
    for number in (2.0**56, np.inf, np.nan):
        with pytest.raises(OverflowError):
            masks.to_integers(np.array([number]))


def test_masks_of_all_pairs_cancel_exactly() -> None:
    names = ["site-1", "site-10", "site-2", "site-3"]
    seeds = {
        frozenset(pair): secrets.token_bytes(32)
        for pair in ((a, b) for a in names for b in names if a < b)
    }
    plain = {name: masks.to_integers(draw_numbers(k)) for k, name in enumerate(names)}
    pairs = {
        name: {
            other: seeds[frozenset((name, other))] for other in names if other != name
        }
        for name in names
    }
    masked = {name: masks.mask(plain[name], name, pairs[name], 7) for name in names}
    total = [
        sum(each)
        for each in zip(*(to_exact(part) for part in plain.values()), strict=True)
    ]
    assert to_exact(masks.add_all(masked.values())) == total
    for name in names:
        assert not (masked[name] == plain[name]).any()
    three = masks.to_numbers(masks.add_all([masked[name] for name in names[1:]]))
    assert np.abs(three).min() > 2.0**30  # without one site, the others are random


def test_each_round_has_another_mask() -> None:
    seed = secrets.token_bytes(32)
    first, second = masks.make_mask(seed, 1, 1000), masks.make_mask(seed, 2, 1000)
    assert not set(first.ravel().tolist()) & set(second.ravel().tolist())
    np.testing.assert_array_equal(first, masks.make_mask(seed, 1, 1000))
