"""Records: typed fields in, the same JSON out, newer files read."""

import json
import pickle
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from rindices.errors import Problem, Severity
from rindices.model.records import (
    AgreementRecord,
    CandidateRecord,
    CohortRecord,
    DifferenceRecord,
    DimensionRecord,
    MemberCountRecord,
    ModelCard,
    PatternCountRecord,
    PatternRecord,
    PermutationTestRecord,
    ProvenanceRecord,
    RecipeRecord,
    SelectionRecord,
    SettingRecord,
)
from rindices.model.safetensors_io import read_metadata
from rindices.model.schemas import _MODEL_KEYS

FIXTURES = Path(__file__).parent / "fixtures"
CURVE = (DimensionRecord(0, 5.0, 3.0, 3.3, 0.005, 199), DimensionRecord(1, 3.0, 3.0, 3.3, 0.4, 19))
NUMBER = PatternCountRecord(1, 1, None, "", PermutationTestRecord(1, 0.05, 0.9, CURVE))
CANDIDATE = CandidateRecord(
    SettingRecord(2, None),
    AgreementRecord(0.9, 0.8, None),
    "disjoint halves",
    (0.8, None),
    MemberCountRecord(2, 2),
    by_member=(0.9, None),
    pairwise=((None, 0.9), (0.9, None)),
)
PATTERN = PatternRecord("r1", 0.9, (0.8, 1.0), 0.7, (0.6, 0.8), 0.5, (0.4, 0.6))
TESTS = {
    "number_of_patterns": NUMBER,
    "finding": "patterns",
    "difference": DifferenceRecord(0.005, 199, {"mean": 2.0}, {"mean": 0.005}, 0.4),
}
SELECTION = SelectionRecord(CANDIDATE, (SettingRecord(3, 0.2),), (CANDIDATE,), (PATTERN,), **TESTS)
EMPTY = SelectionRecord(None, made_with=ProvenanceRecord(0), **TESTS)
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
            "groups": {g: {"mean": 1.0, "sd": 2.0, "min": 0.0, "max": 3.0} for g in ("all", "control", "patient")},
        },
        {
            "name": "sex",
            "groups": {"all": {"counts": {"F": 1}}, "control": {"counts": {}}, "patient": {"counts": {"F": 1}}},
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
    assert [getattr(again, item.name) for item in fields(again)] == [
        getattr(record, item.name) for item in fields(record)
    ]
    assert pickle.loads(pickle.dumps(record)) == record


def test_selection_has_its_keys_in_order() -> None:
    assert list(SELECTION.to_dict()) == ["chosen", "ties", "grid", "patterns", *TESTS]
    assert list(EMPTY.to_dict()) == ["chosen", "ties", "grid", *TESTS, "patterns", "made_with"]


def test_records_can_be_read_like_dictionaries() -> None:
    assert SELECTION["chosen"]["agreement"]["concordance"] == SELECTION.chosen.agreement.concordance
    assert SELECTION["patterns"][0]["split_half_interval"] == [0.6, 0.8]
    assert "made_with" not in SELECTION
    assert SELECTION.get("made_with", {}) == {}
    assert dict(NUMBER) == NUMBER.to_dict() == NUMBER
    with pytest.raises(KeyError):
        SELECTION["other"]


def test_unknown_keys_are_kept() -> None:
    values = {**written(SELECTION), "later": [1, {"a": 2}]}
    values["chosen"]["later"] = 3
    assert written(SelectionRecord.from_dict(values)) == values
    assert ModelCard.from_dict({"unit": "mm3", "contact": "x"})["contact"] == "x"


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
    with pytest.raises(ValueError, match=r"lacks|should be"):
        SelectionRecord.from_dict(values)


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.safetensors")), ids=lambda path: path.stem)
def test_cards_are_written_as_they_were(path: Path) -> None:
    values = {key: value for key, value in read_metadata(path).items() if key not in _MODEL_KEYS}
    card = ModelCard.from_dict(values)
    assert not card.extra
    assert written(card) == {"covariate_ranges": {}} | values
    assert card.recipe == RecipeRecord(values["recipe"]["recipe"], values["recipe"]["values"])


def test_an_imported_model_knows_little() -> None:
    card = ModelCard(unit="mm3", recipe=RecipeRecord("published", {"epoch": 3}))
    assert written(card) == {
        "unit": "mm3",
        "trained_on": {},
        "agreement": {},
        "recipe": {"recipe": "published", "values": {"epoch": 3}},
        "severity_correlation": None,
    }
    assert ModelCard.from_dict(written(card)).agreement is None
    trained = replace(card, members_trained=MemberCountRecord(1, 1), seed=0)
    assert {"orthogonality": None, "covariate_ranges": {}, "seed": 0}.items() <= written(trained).items()


def test_a_cohort_is_written_as_it_was_summarised() -> None:
    problem = Problem(Severity.WARNING, "few controls", "table", "add some")
    record = CohortRecord.of(SUMMARY, [problem])
    assert written(record) == SUMMARY | {"problems": [problem.as_dict()]}
    assert record.covariate_names == ["age", "sex"]
    assert record.covariates[0].groups.patient.mean == 1.0
    assert record.covariates[1].groups.control.counts == {}
    assert record.problems[0].severity == "warning"
