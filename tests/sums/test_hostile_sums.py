"""A part sends sums that cannot be: it is named, in one line, and the study never ends
in a traceback.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from rindices.errors import RindicesError
from rindices.study.config import ModelConfig
from rindices.sums import kinds
from rindices.sums.messages import Answer, Request, SumsError
from rindices.sums.people import LocalPeople
from rindices.sums.rounds import InMemoryTransport, check_same_table
from rindices.sums.study import SumsSettings, run_study_from_sums
from tests.sums.sites import simulate_people, split_cohort

MODEL = ModelConfig(method="mean-difference", members=2)
Lie = Callable[[Answer], Answer]


@dataclass
class LyingTransport:
    """Parts in memory, of which the last one alters its answers."""

    sites: InMemoryTransport
    lies: Mapping[str, Lie]

    def ask(self, request: Request) -> dict[str, Answer]:
        answers = dict(self.sites.ask(request))
        name, liar = answers.popitem()
        return {
            **answers,
            name: self.lies.get(request.kind, lambda answer: answer)(liar),
        }


def run(lies: Mapping[str, Lie]) -> str:
    cohorts = split_cohort(simulate_people(), 2)
    sites = InMemoryTransport(
        [LocalPeople(name, cohorts[name]) for name in sorted(cohorts)]
    )
    with pytest.raises(RindicesError) as caught:
        run_study_from_sums(LyingTransport(sites, lies), SumsSettings(model=MODEL))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def alter(name: str, function: Callable[[Any], Any]) -> Lie:
    return lambda answer: replace(
        answer, arrays={**answer.arrays, name: function(answer.arrays[name])}
    )


def count(row: int, number: int) -> Lie:
    return lambda answer: replace(
        answer, numbers=[*answer.numbers[:row], number, *answer.numbers[row + 1 :]]
    )


LIES: dict[str, tuple[str, Lie]] = {
    "negated products": (kinds.PRODUCTS, alter("products", np.negative)),
    "random products": (
        kinds.PRODUCTS,
        alter(
            "products",
            lambda array: (
                np.random.default_rng(0).normal(size=array.shape) * array.std()
            ),
        ),
    ),
    "no products": (kinds.PRODUCTS, alter("products", np.zeros_like)),
    "squares": (kinds.TRANSFORM, alter("squares", lambda array: 1e-3 * array)),
    "moments": (
        kinds.MOMENTS,
        alter("products", lambda array: array[..., ::-1].copy()),
    ),
    "blocks": (kinds.BLOCKS, alter("products", np.negative)),
    "more people": (kinds.PRODUCTS, count(1, 10**9)),
    "more people than alive": (kinds.DESCRIBE, count(0, 10**400)),
    "other sets": (kinds.MOMENTS, lambda answer: replace(answer, numbers=[3])),
    "no unit": (
        kinds.DESCRIBE,
        lambda answer: replace(answer, facts={**answer.facts, "unit": 5}),
    ),
    "unprintable": (
        kinds.DESCRIBE,
        lambda answer: replace(answer, facts={**answer.facts, "regions": ["\x1b[2J"]}),
    ),
    "one region twice": (
        kinds.DESCRIBE,
        lambda answer: replace(answer, facts={**answer.facts, "regions": ["a", "a"]}),
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_impossible_sums_are_named(name: str) -> None:
    kind, lie = LIES[name]
    text = run({kind: lie})
    assert "site-1" in text
    assert "site-0" not in text


@pytest.mark.parametrize("number", [10**9])
def test_a_number_of_people_that_no_sum_fits_is_named(number: int) -> None:
    """The number is the same in all rounds, and the sums are those of fewer people."""
    text = run(
        {
            kinds.DESCRIBE: count(0, number),
            kinds.MEANS: count(0, number),
            kinds.PRODUCTS: count(1, number),
        }
    )
    assert "site-1" in text
    assert "site-0" not in text


def test_sums_that_cannot_be_computed_end_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever passes the checks and fails later names the sites."""

    def fail(*arguments: object) -> None:
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr("rindices.sums.study.ask_for_tests", fail)
    text = run({})
    assert "site-0, site-1" in text
    assert "Singular matrix" in text


def test_the_odd_table_is_named_also_if_it_is_the_first() -> None:
    facts = {"regions": ["a"], "covariates": {}, "unit": "mm3"}
    answers = {name: Answer(request="", facts=facts) for name in "abc"}
    answers["a"] = Answer(request="", facts={**facts, "regions": ["b"]})
    with pytest.raises(SumsError, match="the regions of a are not those of b, c"):
        check_same_table(answers)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"n_columns": "x"},
        {"n_columns": 2, "codings": 3, "regions": [], "adjust": 1},
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any]) -> None:
    site = LocalPeople("a", simulate_people())
    for kind in kinds.KINDS:
        if kind != kinds.DESCRIBE:
            with pytest.raises(RindicesError):
                site.answer(
                    Request(
                        kind=kind,
                        round=2,
                        settings={
                            **settings,
                            "plan": 7,
                            "tasks": 5,
                            "sets": 3,
                            "n_blocks": [],
                        },
                    )
                )
