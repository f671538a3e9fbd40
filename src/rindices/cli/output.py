"""Writing of results to the folder of ``--out``."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def explain_write_errors(out: Path) -> Iterator[None]:
    """Turn an OSError into one line that names the folder."""
    from rindices.errors import RindicesError, describe_os_error

    try:
        yield
    except OSError as error:
        raise RindicesError(
            f"cannot write to {out} ({describe_os_error(error)}): give another folder with --out."
        ) from error


def make_folder(out: Path) -> None:
    """Create the folder; called before a long computation, so that a wrong --out fails at once."""
    with explain_write_errors(out):
        out.mkdir(parents=True, exist_ok=True)


def write_json_and_table(out: Path, names: tuple[str, str], values: dict[str, Any], table: str) -> None:
    """Write a result as JSON and as a markdown table, atomically; ``names`` are those of the two files."""
    from rindices.atomic import write_atomically

    write_atomically(out / names[0], (json.dumps(values, indent=1) + "\n").encode())
    write_atomically(out / names[1], table.encode())
