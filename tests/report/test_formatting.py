"""Numbers and lists as the templates show them."""

import base64

import pandas as pd
import pytest
from jinja2 import UndefinedError

from rindices.analysis.study_results import omit_single_weight
from rindices.model.records import (
    AgreementRecord,
    CandidateRecord,
    GroupSummary,
    SelectionRecord,
    SettingRecord,
)
from rindices.report import formatting
from tests.study.test_checks_results import make_selection


@pytest.mark.parametrize(
    ("value", "text"), [(-3.926, "−3.93"), (0.5, "+0.50"), (-0.001, "0.00")]
)
def test_signed(value: float, text: str) -> None:
    assert formatting.format_signed(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1373342.9, "1,373,000"),
        (55.957, "56.0"),
        (0.01234, "0.0123"),
        (0, "0"),
        (-2.5, "-2.50"),
    ],
)
def test_numbers_have_no_exponent(value: float, text: str) -> None:
    assert formatting.format_number(value) == text


@pytest.mark.parametrize(("p", "text"), [(1 / 60, "0.017"), (0.8, "0.80")])
def test_p_value(p: float, text: str) -> None:
    assert formatting.format_p_value(p) == text


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["a"], "a"),
        (["a", "b"], "a and b"),
        ([1, 2, 3], "1, 2 and 3"),
        (range(5), "0, 1, 2 and 2 more"),
    ],
)
def test_names_are_joined_as_in_a_sentence(names: list[object], text: str) -> None:
    assert formatting.join_with_and(names, 3) == text


def test_words_for_numbers_and_settings() -> None:
    assert [formatting.spell_number(number) for number in (1, 10, 11)] == [
        "one",
        "ten",
        "11",
    ]
    assert (
        formatting.describe_setting(SettingRecord(n_patterns=1, orthogonality=None))
        == "1 pattern"
    )
    assert (
        formatting.describe_setting(SettingRecord(n_patterns=3, orthogonality=0.2))
        == "3 patterns, λ 0.2"
    )
    assert (
        formatting.format_summary(GroupSummary(mean=55.95, sd=8.1, low=40.0, high=69.7))
        == "56.0 ± 8.10 (40.0 to 69.7)"
    )


def test_a_table_becomes_a_link() -> None:
    uri = formatting.encode_csv_uri(pd.DataFrame({"a": [1.5], "b": ["x"]}))
    assert base64.b64decode(uri.partition("base64,")[2]) == b"a,b\n1.5,x\n"


def test_templates_escape_and_refuse_undefined_names() -> None:
    environment = formatting.make_environment()
    assert environment.from_string("{{ name }}").render(name="<b>") == "&lt;b&gt;"
    assert (
        environment.from_string("{{ n | count('person', 'people') }}").render(n=2)
        == "2 people"
    )
    with pytest.raises(UndefinedError):
        environment.from_string("{{ absent }}").render()


def test_a_weight_is_named_only_where_several_were_tried() -> None:
    def select(*weights: float) -> SelectionRecord:
        agreement = AgreementRecord(concordance=0.9, dimension=0.9, difference=0.9)
        grid = tuple(
            CandidateRecord(
                setting=SettingRecord(n_patterns=2, orthogonality=weight),
                agreement=agreement,
            )
            for weight in weights
        )
        return make_selection(chosen=grid[0], ties=(grid[-1].setting,), grid=grid)

    single = omit_single_weight(select(0.2))
    assert single.chosen is not None
    assert single.chosen.setting.orthogonality is None
    assert formatting.describe_setting(single.ties[0]) == "2 patterns"
    several = select(0.1, 0.2)
    assert omit_single_weight(several) is several
