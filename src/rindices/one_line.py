"""Results that are shown in one line, their tables by their sizes."""

from collections.abc import Mapping, Sequence, Sized
from dataclasses import fields
from typing import Any

MAX_LENGTH = 88
"""Characters of a line."""


class ShownInOneLine:
    """A dataclass that is shown in one line; it is made with ``repr=False``."""

    def __repr__(self) -> str:
        return describe_fields(self)


def describe_fields(value: Any) -> str:
    """Return a dataclass or named tuple in one line: numbers and texts, and the sizes
    of tables.
    """
    names = getattr(value, "_fields", None) or [each.name for each in fields(value)]
    facts = [_describe_field(name, getattr(value, name)) for name in names]
    return shorten(f"<{type(value).__name__}: {', '.join(filter(None, facts))}>")


def shorten(text: str) -> str:
    """Return a text that is cut to one line; its last character is kept."""
    if len(text) <= MAX_LENGTH:
        return text
    return f"{text[: MAX_LENGTH - 4]}...{text[-1]}"


def _describe_field(name: str, value: Any) -> str:
    """Return a field in a few words; empty for one that has no value."""
    if value is None or (isinstance(value, Sized) and len(value) == 0):
        return ""
    if shape := getattr(value, "shape", ()):
        return f"{name} {' x '.join(f'{size:,}' for size in shape)}"
    if isinstance(value, str | int | float):
        return f"{name} {value}"
    if isinstance(value, Sequence | Mapping):
        return f"{len(value):,} {name}"
    return f"{name} of {len(value):,}" if isinstance(value, Sized) else name
