"""Base of the records that a study writes and reports read."""

import json
from collections.abc import Mapping
from typing import Any, Final, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from rindices.old_names import ReadLikeDict, rename_shapes
from rindices.one_line import shorten

Interval = tuple[float, float]
OptionalInterval = tuple[float | None, float | None]
OMIT_EMPTY: Final = "left out of a file while it is None or empty"
"""Mark of a field, in ``Annotated``, that a file does not hold while it is empty."""


class Record(ReadLikeDict, BaseModel):
    """An object of a JSON file; keys that this version does not know are kept.

    A file is read strictly. In Python, a list counts for a tuple and a NumPy number for
    a number.
    """

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read the object of a JSON file; ValueError names the first key that is
        missing or has a wrong value.
        """
        try:  # only JSON has lists for tuples
            return cls.model_validate_json(
                json.dumps(rename_shapes(values)), strict=True
            )
        except ValidationError as error:
            raise ValueError(_describe_fault(error)) from None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return self.model_dump(mode="json", by_alias=True, warnings=False)

    def __repr__(self) -> str:
        return shorten(super().__repr__())

    @model_serializer(mode="wrap")
    def _leave_out_empty(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return plain values without fields that are `OMIT_EMPTY` and None, or empty
        as their default is.
        """
        written: dict[str, Any] = write(self)
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            is_default = value is None or (field.default is not None and not value)
            if is_default and OMIT_EMPTY in field.metadata:
                del written[field.alias or name]
        return written


def _describe_fault(error: ValidationError) -> str:
    """Return the first field that is not as it should be, and what is wrong with it, in
    one line.
    """
    fault = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in fault["loc"])
    value = (
        f" (it is {fault['input']!r:.60})"
        if place and fault["type"] != "missing"
        else ""
    )
    message = str(
        fault.get("ctx", {}).get("error", fault["msg"])
    )  # of our own checks: their words alone
    return f"{place}: {message[:1].lower()}{message[1:]}{value}" if place else message
