"""Can this be trusted? The test of patterns and what other people make of each, in words that need no statistics."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from rindices.errors import capital, count
from rindices.learners.reproduction import BOOTSTRAPS, SPLITS
from rindices.report.contents import Contents
from rindices.report.figures import Chart, excess_chart, p_words
from rindices.report.people import joined
from rindices.study.evidence import RARE, REPRODUCED, doubts

_ORDERS = ((0.9, "almost the same order"), (0.7, "much the same order"), (REPRODUCED, "a roughly similar order"))
_HARDLY = "hardly the same order"


@dataclass(frozen=True, eq=False)
class Trust:
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


def read_trust(contents: Contents) -> Trust | None:
    """Return what is known; None for a study that was run before any of it was asked."""
    number = contents.selection.get("number_of_patterns")
    if not number:
        return None
    patterns = contents.selection.get("patterns", [])
    return Trust(
        anything=[*anything(number["test"], contents.cohort), _reading(number["by_test"])],
        curve=excess_chart(number["test"]),
        numbers=_numbers(number, contents.model.n_patterns),
        many=_many(number, contents.model.n_patterns),
        patterns=[{"name": pattern["name"], "rows": _rows(pattern)} for pattern in patterns],
        data=pd.DataFrame([_record(pattern) for pattern in patterns]),
        doubts=[capital(str(problem)) for problem in doubts(number, patterns)],
    )


def anything(test: dict[str, Any], cohort: dict[str, Any]) -> list[str]:
    """Return whether patients differ from controls at all, in sentences.

    Parameters
    ----------
    test : dict
        ``number_of_patterns.test`` of ``selection.json``.
    """
    first = test["curve"][0]
    reached = round(first["p"] * (first["relabellings"] + 1)) - 1
    who = {0: "none", first["relabellings"]: "all"}.get(reached, f"{reached:,}")
    answer = "Yes" if first["p"] <= test["level"] else "That could not be shown"
    return [
        f"{answer}. The labels “patient” and “control” were shuffled {count(first['relabellings'], 'time')}"
        f"{among(cohort)}. Of these shuffles, in which the labels mean nothing, {who} made the two groups differ as "
        f"much as they really do (p = {p_words(first['p'])})."
    ]


def among(cohort: dict[str, Any]) -> str:
    """Return among whom labels were exchanged; nothing where among all."""
    names = [covariate["name"] for covariate in cohort["covariates"]]
    alike = f"people alike in {joined(names, 12)}" if names else ""
    site = "people of the same site" if cohort["sites"] else ""
    told = " and ".join(part for part in (alike, site) if part)
    return f" among {told.replace(' and people of', ' and of')}" if told else ""


def number_words(test: dict[str, Any]) -> str:
    """Return the number of patterns by the test; the last question that it asks may still find one."""
    most = test["curve"][-1]["p"] <= test["level"]
    return f"at least {test['n_patterns']}" if most else str(test["n_patterns"])


def methods(contents: Contents) -> list[str]:
    """Return a paragraph for a paper; none for a study that was run before any of it was asked."""
    number, patterns = contents.selection.get("number_of_patterns"), contents.selection.get("patterns", [])
    if not number:
        return []
    said = how_tested(number["test"], contents.cohort)
    if patterns:
        figures = [
            f"{p['name']} {p['stability']:.2f}, {p['split_half']:.2f} and {100 * p['carriers']:.0f} %" for p in patterns
        ]
        said += (
            f" For each pattern we give the rank correlation of R-indices over {BOOTSTRAPS} bootstraps of people, "
            f"between {SPLITS} pairs of fits on disjoint people, both in patients not learnt from, and the share of "
            f"patients beyond the 95th percentile of controls, less that expected by chance: {'; '.join(figures)}."
        )
    return [said]


def how_tested(test: dict[str, Any], cohort: dict[str, Any]) -> str:
    """Return how the test was done and what it gave, for a paper."""
    first = test["curve"][0]
    return (
        "Whether patients differ from controls, and in how many directions, was tested by the largest excess of "
        "patients' second moments over controls' covariance, and at first by the mean difference as well, against "
        f"labels exchanged at random{among(cohort)}, with the adjustment learnt anew each time, one direction after "
        f"the other at a level of {test['level']:g}: {number_words(test)} found (p = {p_words(first['p'])} "
        "against none)."
    )


def _reading(found: int) -> str:
    if not found:
        return "What follows may be nothing but chance."
    times = "once" if found == 1 else f"{found} times"
    return (
        "Then the strongest difference was taken out of everyone and the question asked again, until what was left "
        f"was no more than chance. It was more than chance {times}."
    )


def _numbers(number: dict[str, Any], taken: int) -> list[tuple[str, str]]:
    who = "by agreement" if number["forced"] is None else "asked for"
    return [(str(taken), who), (number_words(number["test"]), "by the test")]


def _many(number: dict[str, Any], taken: int) -> list[str]:
    """Return how many patterns there are by each; why they differ is among the doubts."""
    first = (
        f"Agreement looks for patterns that are found again in other people, and takes {taken}"
        if number["forced"] is None
        else f"This study asked for {count(taken, 'pattern')}, so no other number was tried"
    )
    said = [f"{first}. The test counts the ways in which patients differ from controls by more than chance."]
    same = not number["why"]
    return [*said, "Both give the same number." if same else "The numbers differ; the warning above says why."]


def _rows(pattern: dict[str, Any]) -> list[dict[str, Any]]:
    carried, few = pattern["carriers"], pattern["carriers"] < RARE
    return [
        _row(
            "Learnt again from people drawn at random from these, it puts the patients who were not drawn in "
            f"{_order(pattern['stability'])}.",
            pattern["stability"],
            pattern["stability_interval"],
            pattern["stability"] < REPRODUCED,
        ),
        _row(
            "Learnt twice, from people who have nobody in common, it puts patients whom neither has seen in "
            f"{_order(pattern['split_half'])}.",
            pattern["split_half"],
            pattern["split_half_interval"],
            pattern["split_half"] < REPRODUCED,
        ),
        _row(
            f"{'Only about' if few else 'About'} {100 * carried:.0f} in 100 patients carry it: they are more severe "
            "than 95 % of controls, chance taken off.",
            carried,
            pattern.get("carriers_interval"),
            few,
            percent=True,
        ),
    ]


def _row(said: str, value: float, ends: list[float] | None, weak: bool, percent: bool = False) -> dict[str, Any]:
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


def _order(value: float) -> str:
    return next((said for least, said in _ORDERS if value >= least), _HARDLY)


def _record(pattern: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a pattern as a row of a table."""
    row: dict[str, Any] = {"pattern": pattern["name"]}
    for name in ("stability", "split_half", "carriers"):
        low, high = pattern.get(f"{name}_interval") or (None, None)
        row |= {name: pattern[name], f"{name}_low": low, f"{name}_high": high}
    return row
