"""Packed arrays give back their numbers, within the stated error."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rindices.packing import ArrayPacker
from tests.report.helpers import unpack_arrays, unpack_texts

NUMBERS = st.lists(st.floats(-1e6, 1e6) | st.just(float("nan")), max_size=30)


@given(first=NUMBERS, second=NUMBERS, n_levels=st.sampled_from([2, 250, 255, 256, 2_048, 65_535]))
def test_quantised_numbers_are_within_half_a_step(first: list[float], second: list[float], n_levels: int) -> None:
    packer = ArrayPacker()
    errors = [packer.add_quantised(name, np.array(v), n_levels) for name, v in (("a", first), ("b", second))]
    arrays = unpack_arrays(packer.pack())
    for name, values, error in zip("ab", (first, second), errors, strict=True):
        np.testing.assert_array_equal(np.isnan(arrays[name]), np.isnan(values))
        assert np.nanmax(np.abs(arrays[name] - values), initial=0.0) <= error * (1 + 1e-6) + 1e-9


@given(texts=st.lists(st.text(st.characters(exclude_characters="\n", codec="utf-8"), max_size=5)))
def test_sorted_texts_are_kept(texts: list[str]) -> None:
    expected = sorted([*texts, 200 * "😀", 300 * "a"])
    packer = ArrayPacker()
    packer.add_sorted_texts("ids", expected)
    assert unpack_texts(unpack_arrays(packer.pack()), "ids") == expected


def test_ids_of_many_people_need_little_room() -> None:
    packer = ArrayPacker()
    packer.add_sorted_texts("ids", [f"sub-{number:05d}" for number in range(50_000)])
    assert len(packer.pack()["bytes"]) < 5_000


def test_other_arrays_are_kept_as_they_are() -> None:
    packer = ArrayPacker()
    given_arrays = {"odd": np.arange(3, dtype=np.uint8), "wide": np.array([1.5, -2.25, np.pi])}
    for name, array in given_arrays.items():
        packer.add(name, array)
    for name, array in unpack_arrays(packer.pack()).items():
        np.testing.assert_array_equal(array, given_arrays[name])
    with pytest.raises(TypeError, match="int64"):
        packer.add("no", np.arange(3))
