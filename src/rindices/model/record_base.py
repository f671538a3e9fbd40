"""Base class of records: an object of a JSON file as a dataclass with checked types."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from types import UnionType
from typing import Any, Self, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

_TYPE_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
OMIT_EMPTY = {"omit": True}
"""Metadata of a field that is left out of the file while it is None or empty."""


@dataclass(frozen=True, eq=False)
class Record(Mapping[str, Any]):
    """An object of a JSON file as typed fields; ``extra`` keeps keys that this version does not know."""

    extra: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read the object of a JSON file; a missing key or a value of the wrong form raises ValueError."""
        if not isinstance(values, Mapping):
            raise ValueError(f"{cls.__name__} should be an object, not {values!r:.50}")
        items = _list_keys(cls)
        required = [key for key, (item, _) in items.items() if item.default is item.default_factory is MISSING]
        if missing := [key for key in required if key not in values]:
            raise ValueError(f"{cls.__name__} lacks {', '.join(missing)}")
        arguments = {item.name: _parse(hint, values[key], key) for key, (item, hint) in items.items() if key in values}
        return cls(**arguments, extra={key: value for key, value in values.items() if key not in items})

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        values = {
            key: getattr(self, item.name)
            for key, (item, _) in _list_keys(type(self)).items()
            if not _is_omitted(item, getattr(self, item.name))
        }
        return {key: _to_plain(value) for key, value in (values | dict(self.extra)).items()}

    def __getitem__(self, key: str) -> Any:
        return self.to_dict()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self.to_dict())


@cache
def _list_keys(record: type[Record]) -> dict[str, tuple[Field[Any], Any]]:
    """Return field and type of each key of a record's file."""
    hints = get_type_hints(record)
    items = [item for item in fields(record) if item.name != "extra"]
    return {item.metadata.get("key", item.name): (item, hints[item.name]) for item in items}


def _is_omitted(item: Field[Any], value: Any) -> bool:
    """Return whether a field is left out of the file: optional, and None or empty as its default is."""
    return "omit" in item.metadata and (value is None or (item.default is not None and not value))


def _parse(hint: Any, value: Any, key: str) -> Any:
    """Return a value of a JSON file as its field has it: objects become records, lists tuples."""
    arguments = get_args(hint)
    if get_origin(hint) is UnionType:
        record = next((part for part in arguments if _is_record(part)), None)
        if value is None or (record is not None and value == {}):
            return None
        return _parse(next(part for part in arguments if part is not type(None)), value, key)
    if _is_record(hint):
        try:
            return hint.from_dict(value)
        except ValueError as error:
            raise ValueError(f"{key!r}: {error}") from None
    if get_origin(hint) is tuple:
        if not isinstance(value, list | tuple) or (arguments[-1] is not Ellipsis and len(value) != len(arguments)):
            length = "" if arguments[-1] is Ellipsis else f" of {len(arguments)}"
            raise ValueError(f"{key!r} should be a list{length}, not {value!r:.50}")
        return tuple(_parse(arguments[0], item, key) for item in value)
    if get_origin(hint) is Mapping:
        if not isinstance(value, Mapping):
            raise ValueError(f"{key!r} should be an object, not {value!r:.50}")
        return {name: _parse(arguments[1], item, f"{key}.{name}") for name, item in value.items()}
    if not _is_valid(hint, value):
        raise ValueError(f"{key!r} should be {_TYPE_NAMES.get(hint, hint)}, not {value!r:.50}")
    return value


@cache
def _make_adapter(hint: Any) -> TypeAdapter[Any]:
    return TypeAdapter(hint, config=ConfigDict(strict=True, allow_inf_nan=False))


def _is_valid(hint: Any, value: Any) -> bool:
    """Return whether a single value has its exact type and is finite."""
    try:
        _make_adapter(hint).validate_python(value)
    except ValidationError:
        return False
    return True


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Record)


def _to_plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: _to_plain(item) for key, item in value.items()}
    return [_to_plain(item) for item in value] if isinstance(value, tuple | list) else value
