"""Can this be trusted? The test of patterns and what other people make of each, in words that need no statistics."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from rindices.errors import capitalise_first, format_count
from rindices.learners.pattern_stability import N_BOOTSTRAPS, N_SPLITS
from rindices.model.records import CohortRecord, Interval, PatternCountRecord, PatternRecord, PermutationTestRecord
from rindices.report.figures import Chart, format_p_value, plot_excess
from rindices.report.people import join_with_and
from rindices.report.study_results import StudyResults
from rindices.study.evidence import MIN_CARRIER_SHARE, MIN_SPLIT_HALF, collect_study_warnings

_ORDER_PHRASES = (
    (0.9, "almost the same order"),
    (0.7, "much the same order"),
    (MIN_SPLIT_HALF, "a roughly similar order"),
)
_LOWEST_ORDER_PHRASE = "hardly the same order"


@dataclass(frozen=True, eq=False)
class TrustSection:
    """What the section shows.

    Attributes
    ----------
    anything : list of str
        Whether there is anything at all.
    curve : Chart
    numbers : list of tuple of str
        The number of patterns and who says so.
    many : list of str
        How many patterns.
    patterns : list of dict
        ``name`` and ``rows``, one a figure: a sentence, where its bar begins and ends, the number with its interval.
    data : DataFrame
        The figures of all patterns.
    doubts : list of str
    """

    anything: list[str]
    curve: Chart
    numbers: list[tuple[str, str]]
    many: list[str]
    patterns: list[dict[str, Any]]
    data: pd.DataFrame
    doubts: list[str]


def build_trust_section(contents: StudyResults) -> TrustSection | None:
    """Return what is known; None for a study that was run before any of it was asked."""
    number = contents.selection.number_of_patterns
    if number is None:
        return None
    patterns = contents.selection.patterns
    return TrustSection(
        anything=[*describe_overall_test(number.test, contents.cohort), _interpret_n_patterns(number.by_test)],
        curve=plot_excess(number.test),
        numbers=_list_n_patterns(number, contents.model.n_patterns),
        many=_explain_n_patterns(number, contents.model.n_patterns),
        patterns=[{"name": pattern.name, "rows": _build_pattern_rows(pattern)} for pattern in patterns],
        data=pd.DataFrame([_build_table_row(pattern) for pattern in patterns]),
        doubts=[capitalise_first(str(problem)) for problem in collect_study_warnings(number, patterns)],
    )


def describe_overall_test(test: PermutationTestRecord, cohort: CohortRecord) -> list[str]:
    """Return whether patients differ from controls at all, in sentences.

    Parameters
    ----------
    test : PermutationTestRecord
        ``number_of_patterns.test`` of ``selection.json``.
    """
    first = test.curve[0]
    reached = round(first.p * (first.relabellings + 1)) - 1
    who = {0: "none", first.relabellings: "all"}.get(reached, f"{reached:,}")
    answer = "Yes" if first.p <= test.level else "That could not be shown"
    return [
        f"{answer}. The labels “patient” and “control” were shuffled {format_count(first.relabellings, 'time')}"
        f"{describe_permutation_strata(cohort)}. Of these shuffles, in which the labels mean nothing, {who} made the two groups differ as "
        f"much as they really do (p = {format_p_value(first.p)})."
    ]


def describe_permutation_strata(cohort: CohortRecord) -> str:
    """Return among whom labels were exchanged; nothing where among all."""
    names = cohort.covariate_names
    alike = f"people alike in {join_with_and(names, 12)}" if names else ""
    site = "people of the same site" if cohort.sites else ""
    told = " and ".join(part for part in (alike, site) if part)
    return f" among {told.replace(' and people of', ' and of')}" if told else ""


def format_n_patterns(test: PermutationTestRecord) -> str:
    """Return the number of patterns by the test; the last question that it asks may still find one."""
    most = test.curve[-1].p <= test.level
    return f"at least {test.n_patterns}" if most else str(test.n_patterns)


def describe_test_methods(contents: StudyResults) -> list[str]:
    """Return a paragraph for a paper; none for a study that was run before any of it was asked."""
    number, patterns = contents.selection.number_of_patterns, contents.selection.patterns
    if number is None:
        return []
    said = describe_test_procedure(number.test, contents.cohort)
    if patterns:
        figures = [f"{p.name} {p.stability:.2f}, {p.split_half:.2f} and {100 * p.carriers:.0f} %" for p in patterns]
        said += (
            f" For each pattern we give the rank correlation of R-indices over {N_BOOTSTRAPS} bootstraps of people, "
            f"between {N_SPLITS} pairs of fits on disjoint people, both in patients not learnt from, and the share of "
            f"patients beyond the 95th percentile of controls, less that expected by chance: {'; '.join(figures)}."
        )
    return [said]


def describe_test_procedure(test: PermutationTestRecord, cohort: CohortRecord) -> str:
    """Return how the test was done and what it gave, for a paper."""
    first = test.curve[0]
    return (
        "Whether patients differ from controls, and in how many directions, was tested by the largest excess of "
        "patients' second moments over controls' covariance, and at first by the mean difference as well, against "
        f"labels exchanged at random{describe_permutation_strata(cohort)}, with the adjustment learnt anew each time, one direction after "
        f"the other at a level of {test.level:g}: {format_n_patterns(test)} found (p = {format_p_value(first.p)} "
        "against none)."
    )


def _interpret_n_patterns(found: int) -> str:
    if not found:
        return "What follows may be nothing but chance."
    times = "once" if found == 1 else f"{found} times"
    return (
        "Then the strongest difference was taken out of everyone and the question asked again, until what was left "
        f"was no more than chance. It was more than chance {times}."
    )


def _list_n_patterns(number: PatternCountRecord, taken: int) -> list[tuple[str, str]]:
    who = "by agreement" if number.forced is None else "asked for"
    return [(str(taken), who), (format_n_patterns(number.test), "by the test")]


def _explain_n_patterns(number: PatternCountRecord, taken: int) -> list[str]:
    """Return how many patterns there are by each; why they differ is among the doubts."""
    first = (
        f"Agreement looks for patterns that are found again in other people, and takes {taken}"
        if number.forced is None
        else f"This study asked for {format_count(taken, 'pattern')}, so no other number was tried"
    )
    said = [f"{first}. The test counts the ways in which patients differ from controls by more than chance."]
    same = not number.why
    return [*said, "Both give the same number." if same else "The numbers differ; the warning above says why."]


def _build_pattern_rows(pattern: PatternRecord) -> list[dict[str, Any]]:
    carried, few = pattern.carriers, pattern.carriers < MIN_CARRIER_SHARE
    return [
        _build_measure_row(
            "Learnt again from people drawn at random from these, it puts the patients who were not drawn in "
            f"{_describe_rank_order(pattern.stability)}.",
            pattern.stability,
            pattern.stability_interval,
            pattern.stability < MIN_SPLIT_HALF,
        ),
        _build_measure_row(
            "Learnt twice, from people who have nobody in common, it puts patients whom neither has seen in "
            f"{_describe_rank_order(pattern.split_half)}.",
            pattern.split_half,
            pattern.split_half_interval,
            pattern.split_half < MIN_SPLIT_HALF,
        ),
        _build_measure_row(
            f"{'Only about' if few else 'About'} {100 * carried:.0f} in 100 patients carry it: they are more severe "
            "than 95 % of controls, chance taken off.",
            carried,
            pattern.carriers_interval,
            few,
            percent=True,
        ),
    ]


def _build_measure_row(
    said: str, value: float, ends: Interval | None, weak: bool, percent: bool = False
) -> dict[str, Any]:
    low, high = (value, value) if ends is None else ends
    factor, form, unit = (100, ".0f", " %") if percent else (1, ".2f", "")
    numbers = [f"{factor * number:{form}}".replace("-", "\N{MINUS SIGN}") for number in (value, low, high)]
    places = [100 * min(max(number, 0.0), 1.0) for number in (value, low, high)]
    return {
        "said": said,
        "value": f"{numbers[0]}{unit}",
        "interval": None if ends is None else f"{numbers[1]} to {numbers[2]}{unit}",
        "weak": weak,
        **dict(zip(("at", "from", "to"), places, strict=True)),
        "zero": 0.0,
        "colour": "var(--patient)" if weak else "var(--control)",
    }


def _describe_rank_order(value: float) -> str:
    return next((said for least, said in _ORDER_PHRASES if value >= least), _LOWEST_ORDER_PHRASE)


def _build_table_row(pattern: PatternRecord) -> dict[str, Any]:
    """Return the figures of a pattern as a row of a table."""
    row: dict[str, Any] = {"pattern": pattern.name}
    for name in ("stability", "split_half", "carriers"):
        low, high = getattr(pattern, f"{name}_interval") or (None, None)
        row |= {name: getattr(pattern, name), f"{name}_low": low, f"{name}_high": high}
    return row
