"""Packed arrays give back their numbers."""

import numpy as np
import pytest

from rindices.packing import ArrayPacker
from tests.report.helpers import unpack_arrays


def test_arrays_are_kept_as_they_are() -> None:
    packer = ArrayPacker()
    given_arrays = {
        "odd": np.arange(3, dtype=np.uint8),
        "wide": np.array([1.5, -2.25, np.pi]),
    }
    for name, array in given_arrays.items():
        packer.add(name, array)
    for name, array in unpack_arrays(packer.pack()).items():
        np.testing.assert_array_equal(array, given_arrays[name])
    with pytest.raises(TypeError, match="int64"):
        packer.add("no", np.arange(3))
