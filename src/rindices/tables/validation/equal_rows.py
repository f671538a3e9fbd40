"""Find people with the same values in all regions: often one person under two ids."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rindices._typing import FloatArray
from rindices.errors import Findings, Problem, ProblemCode, Severity, format_count, join_names

MIN_REGIONS = 5
"""Fewest regions for which equal values are no coincidence."""


def hash_rows(values: FloatArray) -> NDArray[np.uint64]:
    """Return a hash (N,) of the values of each person (N, R); people who lack a value, or all if R is small, have 0.

    Sums of integers do not depend on their order, so that equal rows have equal hashes on every machine.
    """
    if values.shape[1] < MIN_REGIONS:
        return np.zeros(len(values), dtype=np.uint64)
    weights = np.random.default_rng(0).integers(0, 2**63, values.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(
        1
    )
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    mixed = bits ^ (bits >> np.uint64(29))  # the low bits of volumes with few digits are 0
    return np.where(np.isnan(values).any(axis=1), np.uint64(0), (mixed * weights).sum(axis=1, dtype=np.uint64))


def warn_equal_rows(regions: pd.DataFrame, keys: Sequence[str], where: str, findings: Findings) -> None:
    """Warn of people with the same values in all regions.

    Parameters
    ----------
    regions : (N, R) DataFrame
    keys : sequence of str
        (N,) ids of the people, with their sessions.
    where : str
        The file, for messages.
    findings : Findings
        Takes the warning.
    """
    hashes = hash_rows(regions.to_numpy())
    order = np.argsort(hashes, kind="stable")
    starts = np.flatnonzero(np.diff(hashes[order], prepend=np.uint64(0)))
    groups = [group for group in np.split(order, starts) if len(group) > 1 and hashes[group[0]]]
    if groups:
        pairs = [" = ".join(keys[int(row)] for row in group) for group in sorted(groups, key=lambda group: group[0])]
        people = [keys[int(row)] for group in groups for row in group]
        findings.problems.append(describe_equal_rows(len(people), people, pairs, where))


def describe_equal_rows(number: int, people: Sequence[str], pairs: Sequence[str], where: str) -> Problem:
    """Return the warning of a number of people with the values of someone else, of whom some are named."""
    what = f"{format_count(number, 'person has', 'people have')} the same values in all regions as someone else"
    cure = "If it is one person under two ids, keep one of the rows"
    code, listing = ProblemCode.EQUAL_ROWS, join_names(pairs)
    return Problem(Severity.WARNING, what, where, cure, code, offenders=tuple(people), listing=listing)
