"""What leaves a site is rebuilt from what was declared."""

import numpy as np
import pytest

from rindices_nvflare import wire
from rindices_nvflare.wire import STATUS, Code, SiteError

DONE = np.array([0, 0], dtype=np.int64)
DECLARED: wire.Declared = {"sum": ("float64", (2, 3)), "numbers": ("int64", (2,))}
GOOD = {STATUS: DONE, "sum": np.ones((2, 3)), "numbers": np.array([5, 6])}
COLUMNS = {
    "regions": ["a", "b"], "unit": "mm3", "source": "table",
    "covariates": {"age": {"levels": []}, "sex": {"levels": ["F", "M"]}},
}  # fmt: skip
FACTS = {
    "regions": ["a", "b"], "unit": "mm3", "source": "table", "positive": True,
    "covariates": {
        "age": {"numeric": True, "positive": True, "levels": []},
        "sex": {"numeric": False, "positive": True, "levels": ["M"]},
    },
}  # fmt: skip


class Chatty(np.ndarray):
    """An array that carries text."""


def test_an_answer_as_declared_leaves_and_nothing_else_does() -> None:
    sent = wire.rebuild(
        {**GOOD, "note": np.array(["sub-0042"]), "more": np.ones(3)}, DECLARED
    )
    assert set(sent) == {STATUS, "sum", "numbers"}
    np.testing.assert_array_equal(sent["sum"], GOOD["sum"])
    assert sent["sum"] is not GOOD["sum"]


@pytest.mark.parametrize(
    "changed",
    [
        {"sum": np.array([["sub-0042"] * 3] * 2)},
        {"sum": np.ones((2, 4))},
        {"sum": np.ones((2, 3), dtype=np.float32)},
        {"sum": np.full((2, 3), np.nan)},
        {"sum": np.array([["sub-0042"] * 3] * 2, dtype=object)},
        {"sum": np.ones((2, 3)).view(Chatty)},
        {"sum": "sub-0042"},
        {"numbers": [5, 6]},
        {STATUS: "sub-0042"},
        {STATUS: np.array([0])},
        {STATUS: np.array([4711, 1])},
        {STATUS: np.array([0.0, 0.0])},
    ],
)
def test_an_answer_that_is_not_as_declared_is_a_code_alone(
    changed: dict[str, object],
) -> None:
    sent = wire.rebuild({**GOOD, **changed}, DECLARED)
    assert set(sent) == {STATUS}
    assert sent[STATUS].tolist() == [Code.FAILED, 0]
    assert wire.rebuild({}, DECLARED)[STATUS].tolist() == [Code.FAILED, 0]


def test_a_refusal_takes_no_arrays_along() -> None:
    sent = wire.rebuild({**GOOD, STATUS: np.array([Code.REFUSED, 3])}, DECLARED)
    assert set(sent) == {STATUS}
    assert wire.say(sent[STATUS]) == wire.SENTENCES[Code.REFUSED]


def test_each_code_has_a_sentence() -> None:
    assert set(wire.SENTENCES) == set(Code) - {Code.DONE}
    assert "3 sites" in wire.say(np.array([Code.SEEDS_MISSING, 3]))


def test_facts_travel_as_integers_and_come_back_with_the_words_of_the_server() -> None:
    numbers = wire.encode_facts(FACTS, COLUMNS)
    assert numbers.dtype == np.int64
    assert wire.decode_facts(numbers, COLUMNS) == FACTS
    declared = wire.declare(wire.HELLO, wire.write_message({"columns": COLUMNS}))
    assert declared["facts"] == ("int64", numbers.shape)


@pytest.mark.parametrize(
    ("changed", "code", "number"),
    [
        ({"regions": ["a", "sub-0042"]}, Code.OTHER_REGIONS, 1),
        ({"unit": "cm3"}, Code.OTHER_UNIT, 0),
        ({"covariates": {"age": FACTS["covariates"]["age"]}}, Code.OTHER_COVARIATE, 0),
        (
            {
                "covariates": {
                    **FACTS["covariates"],
                    "sex": {"numeric": False, "positive": True, "levels": ["sub-0042"]},
                }
            },
            Code.OTHER_CATEGORY,
            2,
        ),
    ],
)
def test_another_table_is_refused_by_a_code(
    changed: dict[str, object], code: Code, number: int
) -> None:
    with pytest.raises(SiteError) as caught:
        wire.encode_facts({**FACTS, **changed}, COLUMNS)
    assert (caught.value.code, caught.value.number) == (code, number)
