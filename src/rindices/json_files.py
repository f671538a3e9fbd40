"""Read JSON files within bounds: a small file may describe a deep or a large object."""

import json
from pathlib import Path
from typing import Any

MAX_JSON_BYTES = 32_000_000
"""Largest JSON file that is read; it may take twenty times as much memory."""


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises
    ------
    OSError
    ValueError
        If the file is too large, damaged, too deep, or holds no object.
    """
    if (size := path.stat().st_size) > MAX_JSON_BYTES:
        what = f"{size / 1e6:,.0f} MB of JSON; at most {MAX_JSON_BYTES / 1e6:,.0f} MB"
        raise ValueError(f"{what} are read")
    try:
        values = json.loads(path.read_text("utf-8"))
    except RecursionError as error:
        raise ValueError("JSON that is nested too deeply") from error
    if not isinstance(values, dict):
        raise ValueError("JSON that is no object")
    return values
