"""Records as objects of JSON files: exact types, keys of other versions, reading like a dictionary."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from rindices.model.record_base import OMIT_EMPTY, Record


@dataclass(frozen=True, eq=False)
class Inner(Record):
    """A record in another one."""

    size: float


@dataclass(frozen=True, eq=False)
class Outer(Record):
    """A record with all kinds of fields."""

    name: str
    inner: Inner | None = None
    numbers: tuple[int, ...] = ()
    by_name: Mapping[str, float] = field(default_factory=dict, metadata=OMIT_EMPTY)
    renamed: str = field(default="", metadata={"key": "other", **OMIT_EMPTY})


VALUES = {"name": "a", "inner": {"size": 2.5}, "numbers": [1, 2], "by_name": {"x": 0.5}, "other": "b"}


def test_values_are_read_into_fields_and_written_back() -> None:
    record = Outer.from_dict(VALUES)
    assert (record.inner, record.numbers, record.renamed) == (Inner(2.5), (1, 2), "b")
    assert record.to_dict() == VALUES
    assert record["inner"]["size"] == 2.5
    assert list(record) == list(VALUES)


def test_empty_fields_are_omitted_where_they_say_so() -> None:
    assert Outer("a").to_dict() == {"name": "a", "inner": None, "numbers": []}


def test_keys_of_later_versions_are_kept() -> None:
    assert Outer.from_dict(VALUES | {"later": [1]}).to_dict() == VALUES | {"later": [1]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": 3}, "'name' should be text"),
        ({"inner": {"size": "x"}}, "'inner': 'size' should be a number"),
        ({"inner": {"size": float("nan")}}, "should be a number"),
        ({"inner": {}, "numbers": [1.5]}, "'numbers' should be a whole number"),
        ({"numbers": [True]}, "should be a whole number"),
        ({"numbers": 3}, "should be a list"),
        ({"by_name": []}, "should be an object"),
    ],
)
def test_values_of_another_type_are_refused_by_key(change: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Outer.from_dict(VALUES | change)


def test_a_missing_key_is_named() -> None:
    with pytest.raises(ValueError, match="Outer lacks name"):
        Outer.from_dict({})
    with pytest.raises(ValueError, match="should be an object"):
        Outer.from_dict([])  # type: ignore[arg-type]
