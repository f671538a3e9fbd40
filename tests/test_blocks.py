"""A person's numbers do not depend on the other people."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rindices.blocks import BLOCK_SIZE, apply_in_blocks, shifted_matmul, take_rows


@settings(deadline=None)
@given(st.integers(1, 3 * BLOCK_SIZE), st.integers(0, 2**32 - 1))
def test_a_person_has_the_same_numbers_in_any_company(number: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, weights = rng.normal(size=(number, 30)), rng.normal(size=(30, 7))
    whole = apply_in_blocks(lambda block: np.log1p(block**2) @ weights, values)
    np.testing.assert_allclose(whole, np.log1p(values**2) @ weights, atol=1e-11)
    some = np.sort(rng.choice(number, size=rng.integers(1, number + 1), replace=False))
    np.testing.assert_array_equal(
        apply_in_blocks(lambda block: np.log1p(block**2) @ weights, values[some]),
        whole[some],
    )
    turned = np.asfortranarray(values)
    np.testing.assert_array_equal(
        apply_in_blocks(lambda block: np.log1p(block**2) @ weights, turned), whole
    )


def test_shifted_matmul_is_a_product_less_a_shift() -> None:
    rng = np.random.default_rng(0)
    people, weights, shift = (
        rng.normal(size=(9, 5)),
        rng.normal(size=(5, 3)),
        rng.normal(size=3),
    )
    np.testing.assert_allclose(
        shifted_matmul(people, weights, shift), people @ weights - shift, atol=1e-12
    )


def test_rows_are_taken_from_arrays_of_any_shape_and_order() -> None:
    values, rows = np.random.default_rng(0).normal(size=(9, 5)), np.array([7, 2, 2])
    for array in (values, np.asfortranarray(values), values[:, 0]):
        np.testing.assert_array_equal(take_rows(array, rows), array[rows])
