"""Masks: sums as integers, to which every pair of sites adds and subtracts the same
random integers.

A sum is an integer modulo 2^128 in steps of 2^-64, kept as two numbers of 64 bits, the
lower one first. The masks of a pair follow from a seed of 32 bytes that only the two
have, and from the number of the round. In the total of all sites they cancel exactly; a
single answer is random.

Shape letters: n numbers of an answer.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

Integers = np.ndarray[Any, np.dtype[np.uint64]]
SEED_BYTES = 32
_STEPS = 2.0**64
LARGEST = 2.0**55
"""Largest sum of a site: the total of 256 sites stays below 2^63."""


def to_integers(numbers: np.ndarray[Any, Any]) -> Integers:
    """Return numbers (n,) as integers (n, 2).

    Raises OverflowError: if a number is too large.
    """
    sizes = np.abs(np.asarray(numbers, dtype=float))
    if not (sizes <= LARGEST).all():
        raise OverflowError("a sum is too large for masks: give columns other units")
    high = np.floor(sizes)
    integers = np.stack([np.rint((sizes - high) * _STEPS), high], axis=1)
    carried = integers[:, 0] >= _STEPS
    integers[carried] = np.stack([np.zeros(carried.sum()), high[carried] + 1.0], axis=1)
    unsigned = integers.astype(np.uint64)
    return np.where((numbers < 0)[:, None], negate(unsigned), unsigned)


def to_numbers(integers: Integers) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Invert `to_integers`: return numbers (n,) of integers (n, 2)."""
    is_negative = integers[:, 1] >> np.uint64(63) == 1
    sizes = np.where(is_negative[:, None], negate(integers), integers).astype(float)
    return np.where(is_negative, -1.0, 1.0) * (sizes[:, 1] + sizes[:, 0] / _STEPS)


def add(first: Integers, second: Integers) -> Integers:
    """Add integers (n, 2) modulo 2^128."""
    total = first + second
    total[:, 1] += total[:, 0] < first[:, 0]
    return total


def negate(integers: Integers) -> Integers:
    """Return -x modulo 2^128 of integers (n, 2)."""
    inverted = ~integers
    inverted[:, 0] += np.uint64(1)
    inverted[:, 1] += inverted[:, 0] == 0
    return inverted


def add_all(parts: Iterable[Integers]) -> Integers:
    """Return the total of integers (n, 2) of all sites, in which masks cancel."""
    first, *others = parts
    total = first.copy()
    for part in others:
        total = add(total, part)
    return total


def make_mask(seed: bytes, number: int, n: int) -> Integers:
    """Return the mask (n, 2) of a pair of sites for a round: ChaCha20 under their seed,
    with the round as nonce.
    """
    stream = (
        Cipher(ChaCha20(seed, bytes(4) + number.to_bytes(12, "little")), None)
        .encryptor()
        .update(bytes(16 * n))
    )
    return np.frombuffer(stream, dtype="<u8").astype(np.uint64).reshape(n, 2)


def mask(
    integers: Integers, name: str, seeds: Mapping[str, bytes], number: int
) -> Integers:
    """Return the integers (n, 2) of a site with its masks, which the first site of a
    pair adds, the other subtracts.
    """
    total = integers
    for other, seed in sorted(seeds.items()):
        own = make_mask(seed, number, len(integers))
        total = add(total, own if name < other else negate(own))
    return total
