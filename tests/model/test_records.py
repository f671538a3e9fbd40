"""Records: typed fields in, the same JSON out, newer files read."""

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from pydantic import Field

from rindices.errors import Problem, Severity
from rindices.model.file import MODEL_KEYS
from rindices.model.records import (
    OMIT_EMPTY,
    AgreementRecord,
    CandidateRecord,
    CohortRecord,
    DifferenceRecord,
    DimensionRecord,
    MemberCountRecord,
    MethodRecord,
    ModelCard,
    PatternCountRecord,
    PatternRecord,
    PermutationTestRecord,
    ProvenanceRecord,
    Record,
    SelectionRecord,
    SettingRecord,
    rename_method,
)
from rindices.model.safetensors_io import read_metadata

FIXTURES = Path(__file__).parent / "fixtures"
CURVE = (
    DimensionRecord(
        patterns=0,
        excess=5.0,
        chance_median=3.0,
        chance_95=3.3,
        p=0.005,
        relabellings=199,
    ),
    DimensionRecord(
        patterns=1, excess=3.0, chance_median=3.0, chance_95=3.3, p=0.4, relabellings=19
    ),
)
NUMBER = PatternCountRecord(
    by_agreement=1,
    by_test=1,
    forced=None,
    why="",
    test=PermutationTestRecord(n_patterns=1, level=0.05, overlap=0.9, curve=CURVE),
)
CANDIDATE = CandidateRecord(
    setting=SettingRecord(n_patterns=2, orthogonality=None),
    agreement=AgreementRecord(concordance=0.9, dimension=0.8, difference=None),
    agreement_between="disjoint halves",
    concordance_interval=(0.8, None),
    members=MemberCountRecord(trained=2, converged=2),
    by_member=(0.9, None),
    pairwise=((None, 0.9), (0.9, None)),
)
PATTERN = PatternRecord(
    name="r1",
    stability=0.9,
    stability_interval=(0.8, 1.0),
    split_half=0.7,
    split_half_interval=(0.6, 0.8),
    carriers=0.5,
    carriers_interval=(0.4, 0.6),
)
TESTS = {
    "number_of_patterns": NUMBER,
    "finding": "patterns",
    "difference": DifferenceRecord(
        p=0.005,
        permutations=199,
        statistics={"mean": 2.0},
        p_values={"mean": 0.005},
        smallest_effect=0.4,
    ),
}
SELECTION = SelectionRecord(
    chosen=CANDIDATE,
    ties=(SettingRecord(n_patterns=3, orthogonality=0.2),),
    grid=(CANDIDATE,),
    patterns=(PATTERN,),
    **TESTS,
)
EMPTY = SelectionRecord(chosen=None, made_with=ProvenanceRecord(seed=0), **TESTS)
SUMMARY = {
    "source": "dlmuse",
    "unit": "mm3",
    "people": 3,
    "controls": 1,
    "patients": 2,
    "regions": 4,
    "covariates": [
        {
            "name": "age",
            "groups": {
                g: {"mean": 1.0, "sd": 2.0, "min": 0.0, "max": 3.0}
                for g in ("all", "control", "patient")
            },
        },
        {
            "name": "sex",
            "groups": {
                "all": {"counts": {"F": 1}},
                "control": {"counts": {}},
                "patient": {"counts": {"F": 1}},
            },
        },
    ],
    "sites": {"A": {"control": 1}},
}


def written(record: Any) -> Any:
    return json.loads(json.dumps(record.to_dict(), allow_nan=False))


@pytest.mark.parametrize("record", [SELECTION, NUMBER, PATTERN, EMPTY])
def test_a_record_is_equal_after_writing_and_reading(record: Any) -> None:
    again = type(record).from_dict(written(record))
    assert again == record
    assert pickle.loads(pickle.dumps(record)) == record


def test_records_can_still_be_read_like_dictionaries_with_one_line() -> None:
    with pytest.warns(FutureWarning, match=r"write record\.chosen$"):
        chosen = SELECTION["chosen"]
    assert SELECTION.chosen is not None
    assert chosen["agreement"]["concordance"] == SELECTION.chosen.agreement.concordance
    with pytest.warns(FutureWarning, match="'made_with' in record works in rindices 0"):
        assert "made_with" not in SELECTION
    with pytest.warns(FutureWarning, match=r"write record\.made_with$"):
        assert SELECTION.get("made_with", {}) == {}
    with pytest.warns(FutureWarning):
        assert dict(NUMBER) == NUMBER.to_dict() == dict(NUMBER.items())
    with pytest.warns(FutureWarning), pytest.raises(KeyError):
        SELECTION["other"]


def test_a_record_is_shown_in_one_line() -> None:
    assert repr(Inner(size=2.5)) == "Inner(size=2.5)"
    text = repr(SELECTION)
    assert len(text) <= 88
    assert text.startswith("SelectionRecord(")
    assert "\n" not in text


def test_numbers_of_numpy_become_plain() -> None:
    record = Outer(name="a", numbers=[np.int64(3)], by_name={"x": np.float64(0.5)})  # type: ignore[arg-type]
    assert written(record) == {
        "name": "a",
        "inner": None,
        "numbers": [3],
        "by_name": {"x": 0.5},
    }
    assert type(record.numbers[0]) is int


def test_unknown_keys_are_kept() -> None:
    values = {**written(SELECTION), "later": [1, {"a": 2}]}
    values["chosen"]["later"] = 3
    assert written(SelectionRecord.from_dict(values)) == values
    card = ModelCard.from_dict({"unit": "mm3", "contact": "x", "to_dict": 1})
    assert card.model_extra == {"contact": "x", "to_dict": 1}  # no method is replaced
    assert card.to_dict()["to_dict"] == 1


@pytest.mark.parametrize(
    "values",
    [
        None,
        [],
        {},
        {"chosen": 3},
        {"chosen": {"setting": {}}},
        {"chosen": None, "grid": 3},
        {"chosen": None, "patterns": [{"name": "r1"}]},
    ],
)
def test_a_wrong_form_is_refused(values: Any) -> None:
    with pytest.raises(ValueError, match=r"field required|should be"):
        SelectionRecord.from_dict(values)


@pytest.mark.parametrize(
    "path", sorted(FIXTURES.glob("*.safetensors")), ids=lambda path: path.stem
)
def test_cards_are_written_as_they_were(path: Path) -> None:
    values = {
        key: value
        for key, value in rename_method(read_metadata(path)).items()
        if key not in MODEL_KEYS
    }
    card = ModelCard.from_dict(values)
    assert not card.model_extra
    assert written(card) == {"covariate_ranges": {}} | values
    assert card.method == MethodRecord(
        name=values["method"]["name"], settings=values["method"]["settings"]
    )


def test_an_imported_model_knows_little() -> None:
    card = ModelCard(
        unit="mm3", method=MethodRecord(name="published", settings={"epoch": 3})
    )
    assert written(card) == {
        "unit": "mm3",
        "trained_on": {},
        "agreement": {},
        "method": {"name": "published", "settings": {"epoch": 3}},
        "severity_correlation": None,
    }
    assert ModelCard.from_dict(written(card)).agreement is None
    trained = card.model_copy(
        update={"members_trained": MemberCountRecord(trained=1, converged=1), "seed": 0}
    )
    assert {
        "orthogonality": None,
        "covariate_ranges": {},
        "seed": 0,
    }.items() <= written(trained).items()


def test_a_cohort_is_written_as_it_was_summarised() -> None:
    problem = Problem(
        severity=Severity.WARNING, what="few controls", where="table", cure="add some"
    )
    record = CohortRecord.of(SUMMARY, [problem])
    assert written(record) == SUMMARY | {"problems": [problem.as_dict()]}
    assert record.covariate_names == ["age", "sex"]
    assert record.covariates[0].groups.patient.mean == 1.0
    assert record.covariates[1].groups.control.counts == {}
    assert record.problems[0].severity == "warning"


class Inner(Record):
    """A record in another one."""

    size: float


class Outer(Record):
    """A record with all kinds of fields."""

    name: str
    inner: Inner | None = None
    numbers: tuple[int, ...] = ()
    by_name: Annotated[Mapping[str, float], OMIT_EMPTY] = Field(default_factory=dict)


VALUES = {"name": "a", "inner": {"size": 2.5}, "numbers": [1, 2], "by_name": {"x": 0.5}}


def test_values_are_read_into_fields_and_written_back() -> None:
    record = Outer.from_dict(VALUES)
    assert (record.inner, record.numbers) == (Inner(size=2.5), (1, 2))
    assert record.to_dict() == VALUES
    assert list(record.to_dict()) == list(VALUES)


def test_empty_fields_are_omitted_where_they_say_so() -> None:
    assert Outer(name="a").to_dict() == {"name": "a", "inner": None, "numbers": []}


def test_keys_of_later_versions_are_kept() -> None:
    assert Outer.from_dict(VALUES | {"later": [1]}).to_dict() == VALUES | {"later": [1]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": 3}, "name: input should be a valid string"),
        ({"inner": {"size": "x"}}, "inner.size: input should be a valid number"),
        (
            {"inner": {"size": float("nan")}},
            "inner.size: input should be a finite number",
        ),
        ({"numbers": [1.5]}, "numbers.0: input should be a valid integer"),
        ({"numbers": [True]}, "numbers.0: input should be a valid integer"),
        ({"numbers": 3}, "numbers: input should be a valid array"),
        ({"by_name": []}, "by_name: input should be an object"),
    ],
)
def test_values_of_another_type_are_refused_by_key(
    change: dict[str, object], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Outer.from_dict(VALUES | change)


def test_a_missing_key_is_named() -> None:
    with pytest.raises(ValueError, match="name: field required"):
        Outer.from_dict({})
    with pytest.raises(ValueError, match="Input should be an object"):
        Outer.from_dict([])  # type: ignore[arg-type]
