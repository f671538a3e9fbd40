"""Structure in ids: parts that a few people share, such as the site in
``IXI012-HH-1211``.
"""

import re
from collections.abc import Iterator, Sequence

import pandas as pd

from rindices.tables.checks.block_table import SMALLEST_BLOCK

MAX_PREFIXES = 40
_MIN_SHARE = 0.9  # of the people whose part of the id is shared by enough others
_PART_REGEX = re.compile(r"[A-Za-z]+|\d+")


def list_id_parts(ids: Sequence[str]) -> Iterator[pd.Series]:
    """Yield the parts (N,) of ids that divide people into blocks, such as their first
    letters.
    """
    words = [_PART_REGEX.findall(name) for name in ids]
    n_parts = min(map(len, words), default=0)
    for place in range(n_parts):
        parts = pd.Series([each[place] for each in words], dtype="object")
        counts = parts.value_counts()
        large = counts[counts >= SMALLEST_BLOCK]
        if 2 <= len(large) <= MAX_PREFIXES and large.sum() >= _MIN_SHARE * len(ids):
            yield parts
