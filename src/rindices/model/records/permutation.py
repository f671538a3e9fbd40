"""Permutation tests of a difference, and of the number of patterns."""

from collections.abc import Mapping
from typing import Annotated

from rindices.model.records.base import OMIT_EMPTY, Record


class DimensionRecord(Record):
    """One step of the permutation test: whether patients still differ after
    ``patterns`` directions are removed.

    ``excess`` and its chance are of one ``statistic``: ``ratio`` or ``added_variance``;
    empty in files of 0.1.0, which had the ratio alone. ``p`` is by both.

    Attributes
    ----------
    patterns : int
    excess : float
    chance_median : float
    chance_95 : float
    p : float
    relabellings : int
    p_error : float
    statistic : str
    """

    patterns: int
    excess: float
    chance_median: float
    chance_95: float
    p: float
    relabellings: int
    p_error: Annotated[float, OMIT_EMPTY] = 0.0
    statistic: Annotated[str, OMIT_EMPTY] = ""


class PermutationTestRecord(Record):
    """Permutation test of the number of patterns, with its level and the overlap of the
    groups in covariates.

    Attributes
    ----------
    n_patterns : int
    level : float
    overlap : float
    curve : tuple of DimensionRecord
    """

    n_patterns: int
    level: float
    overlap: float
    curve: tuple[DimensionRecord, ...]


class PatternCountRecord(Record):
    """Number of patterns by agreement or likelihood and by the test, or ``forced`` by
    the study.

    ``by_agreement`` is the number that the settings' comparison chose, also where it
    was decided by the likelihood of held-out people (``decided_by``). ``why`` says why
    it and the test's number differ.

    Attributes
    ----------
    by_agreement : int or None
    by_test : int
    forced : int or None
    why : str
    test : PermutationTestRecord
    decided_by : str
    """

    by_agreement: int | None
    by_test: int
    forced: int | None
    why: str
    test: PermutationTestRecord
    decided_by: Annotated[str, OMIT_EMPTY] = ""


class DifferenceRecord(Record):
    """Test whether patients differ from controls in any way, by the smallest p of
    several statistics.

    ``smallest_effect`` is the smallest Cohen's d of one region that a study of this
    size detects with a power of 80 %.

    Attributes
    ----------
    p : float
    permutations : int
    statistics : mapping
    p_values : mapping
    smallest_effect : float
    p_error : float
    """

    p: float
    permutations: int
    statistics: Mapping[str, float]
    p_values: Mapping[str, float]
    smallest_effect: float
    p_error: Annotated[float, OMIT_EMPTY] = 0.0

    def is_too_near(self, level: float) -> bool:
        """Whether the 95 % interval of p, given its Monte Carlo error ``p_error``,
        includes the level of the test.
        """
        return abs(self.p - level) <= 1.96 * self.p_error

    def describe_p(self, level: float) -> str:
        """Return p with its Monte Carlo error, and whether it is too near the level to
        tell.
        """
        if (
            self.p * (self.permutations + 1) < 1.5
        ):  # only the true labels reach the difference
            return f"p = {self.p:.3f} (none of {self.permutations:,} permutations of the labels)"
        doubt = f"; too near {level:g} to tell" if self.is_too_near(level) else ""
        return f"p = {self.p:.3f} (Monte Carlo error {self.p_error:.3f}{doubt})"
