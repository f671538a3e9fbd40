"""Hashes of people by their values. Shape letters: N people, R regions."""

import hashlib

import numpy as np

from rindices._typing import FloatArray, IntArray

_N_DIGITS = 6  # significant digits of a value
_SMALLEST = 1e-300  # smaller values count as 0; their last digits have no power of ten


def hash_rows(values: FloatArray, salt: str) -> list[bytes]:
    """Return a hash of the values of each person (N, R), rounded to six significant
    digits.
    """
    mantissas, exponents = _split_numbers(values)
    return [
        hashlib.sha256(salt.encode() + mantissa.tobytes() + exponent.tobytes()).digest()
        for mantissa, exponent in zip(mantissas, exponents, strict=True)
    ]


def _split_numbers(values: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the significant digits and the decimal exponent of values (N, R)."""
    is_number = np.isfinite(values) & (np.abs(values) > _SMALLEST)
    exponents = np.zeros(values.shape, dtype="<i8")
    exponents[is_number] = np.floor(np.log10(np.abs(values[is_number]))) - (
        _N_DIGITS - 1
    )
    mantissas = np.zeros(values.shape, dtype="<i8")
    mantissas[is_number] = np.rint(values[is_number] / 10.0 ** exponents[is_number])
    exponents[~np.isfinite(values)] = 999
    return mantissas, exponents
