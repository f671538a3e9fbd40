"""Numbers behind the section "Can this be trusted?": the permutation test, and how each pattern is reproduced."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

from rindices.errors import Problem
from rindices.model.records import DifferenceRecord, Interval, PatternCountRecord, PatternRecord, PermutationTestRecord
from rindices.report.bars import Bar, make_bar
from rindices.report.figures import Chart, plot_excess
from rindices.report.study_results import StudyResults
from rindices.study.result_checks import MIN_CARRIER_SHARE, MIN_SPLIT_HALF, collect_study_warnings

_MEASURES = {"stability": MIN_SPLIT_HALF, "split_half": MIN_SPLIT_HALF, "auc": 0.5, "carriers": MIN_CARRIER_SHARE}
"""Figures of a pattern, and the values below which they are called weak."""


class OrderSimilarity(StrEnum):
    """How similar two orders of the same patients are."""

    HIGH = "high"
    GOOD = "good"
    MODERATE = "moderate"
    LOW = "low"

    @classmethod
    def of(cls, correlation: float) -> "OrderSimilarity":
        """Return the class of a rank correlation."""
        thresholds = {cls.HIGH: 0.9, cls.GOOD: 0.7, cls.MODERATE: MIN_SPLIT_HALF}
        return next((level for level, threshold in thresholds.items() if correlation >= threshold), cls.LOW)


@dataclass(frozen=True)
class PermutationTest:
    """The permutation test as the page tells it.

    Attributes
    ----------
    record : PermutationTestRecord
    p : float
        Of the test against no difference.
    permutations : int
        Of this test.
    n_reached : int
        Permutations in which the groups differ at least as much as they really do.
    is_significant : bool
    is_open_ended : bool
        Whether the last step still detected a difference, so that there may be more patterns.
    """

    record: PermutationTestRecord
    p: float
    permutations: int
    n_reached: int
    is_significant: bool
    is_open_ended: bool

    @classmethod
    def of(cls, record: PermutationTestRecord, difference: DifferenceRecord | None = None) -> "PermutationTest":
        """Summarise the tests; older studies have no test of the difference apart from the first step."""
        p, permutations = record.curve[0].p, record.curve[0].relabellings
        if difference is not None:
            p, permutations = difference.p, difference.permutations
        reached = round(p * (permutations + 1)) - 1
        is_open_ended = record.n_patterns > 0 and record.curve[-1].p <= record.level
        return cls(record, p, permutations, reached, p <= record.level, is_open_ended)


@dataclass(frozen=True)
class ReproductionMeasure:
    """One figure of a pattern: what it is, its value with its interval, and its bar.

    Attributes
    ----------
    name : {'stability', 'split_half', 'auc', 'carriers'}
    similarity : OrderSimilarity
        Only of use for the first two, which are rank correlations.
    """

    name: str
    value: float
    interval: Interval | None
    is_weak: bool
    similarity: OrderSimilarity
    bar: Bar


@dataclass(frozen=True)
class ReproducedPattern:
    """How one pattern fares in other people."""

    record: PatternRecord
    measures: Sequence[ReproductionMeasure]


@dataclass(frozen=True, eq=False)
class TrustSection:
    """What the section shows.

    Attributes
    ----------
    number : PatternCountRecord
        The number of patterns by agreement and by the test.
    test : PermutationTest
    chart : Chart
        Steps of the test.
    patterns : sequence of ReproducedPattern
    data : DataFrame
        The figures of all patterns.
    doubts : sequence of Problem
    """

    number: PatternCountRecord
    test: PermutationTest
    chart: Chart
    patterns: Sequence[ReproducedPattern]
    data: pd.DataFrame
    doubts: Sequence[Problem]


def build_trust_section(results: StudyResults) -> TrustSection | None:
    """Return the numbers of the section; None for a study that is older than the test."""
    number, patterns = results.selection.number_of_patterns, results.selection.patterns
    if number is None:
        return None
    return TrustSection(
        number=number,
        test=PermutationTest.of(number.test, results.selection.difference),
        chart=plot_excess(number.test),
        patterns=[_assess_pattern(pattern) for pattern in patterns],
        data=pd.DataFrame([_build_data_row(pattern) for pattern in patterns]),
        doubts=collect_study_warnings(results.selection),
    )


def _assess_pattern(pattern: PatternRecord) -> ReproducedPattern:
    known = {name: threshold for name, threshold in _MEASURES.items() if getattr(pattern, name) is not None}
    return ReproducedPattern(pattern, [_assess_measure(pattern, *item) for item in known.items()])


def _assess_measure(pattern: PatternRecord, name: str, threshold: float) -> ReproductionMeasure:
    value, interval = getattr(pattern, name), getattr(pattern, f"{name}_interval")
    bar = make_bar(value, interval, (0.0, 1.0), "var(--patient)" if value < threshold else "var(--control)")
    return ReproductionMeasure(name, value, interval, value < threshold, OrderSimilarity.of(value), bar)


def _build_data_row(pattern: PatternRecord) -> dict[str, str | float | None]:
    """Return the figures of a pattern as a row of a table."""
    row: dict[str, str | float | None] = {"pattern": pattern.name}
    for name in _MEASURES:
        low, high = getattr(pattern, f"{name}_interval") or (None, None)
        row |= {name: getattr(pattern, name), f"{name}_low": low, f"{name}_high": high}
    return row
