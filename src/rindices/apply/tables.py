"""R-indices as a file, with a data dictionary of its columns as in BIDS; large results
are written in parts.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from rindices.atomic import atomic_path, write_json
from rindices.errors import ModelError, describe_os_error, make_install_command
from rindices.json_files import read_json
from rindices.model.scale import UNKNOWN_SCALE
from rindices.tables.cohort import GROUP
from rindices.tables.sources.spreadsheet import protect_texts
from rindices.wording import get_wording, load_columns

if TYPE_CHECKING:
    import pyarrow as pa

SEPARATORS = {".csv": ",", ".tsv": "\t"}
_NO_PYARROW = f"writing parquet needs pyarrow: {make_install_command('parquet')}"


def write_indices(
    indices: pd.DataFrame, path: Path, unit: str = "", scale: str = ""
) -> None:
    """Write R-indices as csv, tsv or parquet.

    Parameters
    ----------
    path : Path
        Its suffix decides the format. A text table gets a data dictionary in a
        .json file of the same name.
    unit : str
        Unit of the model, for the words of the data dictionary.
    scale : str
        Sentence on its scale, see `describe_scale`.

    Raises
    ------
    ModelError
        For another suffix, or if the file cannot be written.
    """
    if path.suffix not in (*SEPARATORS, ".parquet"):
        raise ModelError(
            f"{path.name}: results are written as .csv, .tsv or .parquet; give one of these suffixes."
        )
    try:
        with atomic_path(path, is_private=True) as temporary_path:
            if path.suffix == ".parquet":
                indices.to_parquet(temporary_path, index=False)
            else:
                text, separator = protect_texts(indices), SEPARATORS[path.suffix]
                text.to_csv(
                    temporary_path, sep=separator, index=False, lineterminator="\n"
                )
            check_people_count(len(indices), temporary_path, path)
        _write_data_dictionary(path, list(indices.columns), unit, scale)
    except ImportError as error:
        raise ModelError(_NO_PYARROW) from error
    except OSError as error:
        raise ModelError(
            f"cannot write {path} ({describe_os_error(error)}): give another place with --out."
        ) from error


def check_people_count(expected: int, path: Path, out: Path) -> None:
    """Raise an error if a file, which is to become ``out``, holds another number of
    people than it should.
    """
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        written = int(pq.read_metadata(path).num_rows)
    else:
        with path.open("rb") as file:
            written = (
                sum(
                    content.count(b"\n")
                    for content in iter(lambda: file.read(1_000_000), b"")
                )
                - 1
            )
    if expected != written:
        what = f"{expected:,} people should be in {out} and {written:,} are: it is not complete"
        raise ModelError(f"{what}. Run the command again.")


def _write_data_dictionary(
    path: Path, columns: Sequence[str], unit: str, scale: str
) -> None:
    """Write the data dictionary of a text table, unless there is a file of this name
    with other content.
    """
    dictionary = path.with_suffix(".json")
    try:
        is_other = dictionary.exists() and "r1" not in read_json(dictionary)
    except (OSError, ValueError):
        is_other = True
    if path.suffix != ".parquet" and not is_other:
        write_json(dictionary, describe_columns(columns, unit, scale))


def describe_columns(
    columns: Sequence[str], unit: str = "", scale: str = ""
) -> dict[str, dict[str, object]]:
    """Return the data dictionary of columns of R-indices, in the words for the unit of
    a model, with its scale.
    """
    texts, word = load_columns("r_indices"), get_wording(unit)
    if GROUP in columns and "members_behind" not in columns:
        texts["r"] = texts["r_in_sample"]
    descriptions: dict[str, dict[str, object]] = {}
    for name in columns:
        index, _, end = name.partition("_")
        key = name if name in texts else f"r_{end}" if f"r_{end}" in texts else "r"
        text = word(texts[key]).format(
            index=index,
            number=index.removeprefix("r"),
            scale=scale.removesuffix(".") or UNKNOWN_SCALE,
        )
        descriptions[name] = {
            "Description": text,
            **({} if key == name else {"Units": "arbitrary"}),
        }
    if GROUP in descriptions:
        descriptions[GROUP]["Levels"] = {
            "control": "reference group",
            "patient": "patient",
        }
    return descriptions


@contextmanager
def open_part_file(path: Path) -> Iterator[Callable[[pd.DataFrame], None]]:
    """Yield a function that appends rows: as text without a header, or parquet; then
    the file gets its name.
    """
    with atomic_path(path, is_private=True) as temporary_path, ExitStack() as stack:
        file: Any = None

        def append_rows(table: pd.DataFrame) -> None:
            nonlocal file
            if path.suffix == ".parquet":
                rows = _to_arrow_table(table)
                file = file or stack.enter_context(
                    _open_parquet_writer(temporary_path, rows.schema)
                )
                file.write_table(rows)
            else:
                file = file or stack.enter_context(
                    temporary_path.open("w", encoding="utf-8", newline="")
                )
                text, separator = protect_texts(table), SEPARATORS[path.suffix]
                text.to_csv(
                    file, sep=separator, index=False, header=False, lineterminator="\n"
                )

        yield append_rows


def join_parts(
    parts: Sequence[Path],
    out: Path,
    columns: Sequence[str],
    people: int,
    unit: str = "",
    scale: str = "",
) -> None:
    """Join parts to one file, in their order; a text table gets a header and a data
    dictionary.

    Parameters
    ----------
    columns : sequence of str
        Names of the columns of all parts.
    people : int
        Number of people in all parts.
    unit : str
        Unit of the model, for the words of the data dictionary.
    scale : str
        Sentence on its scale.
    """
    with atomic_path(out, is_private=True) as temporary_path:
        if out.suffix == ".parquet":
            _join_parquet(parts, temporary_path)
        else:
            with temporary_path.open("wb") as file:
                file.write(f"{SEPARATORS[out.suffix].join(columns)}\n".encode())
                for part in parts:
                    with part.open("rb") as rows:
                        shutil.copyfileobj(rows, file, 1_000_000)
        check_people_count(people, temporary_path, out)
    _write_data_dictionary(out, columns, unit, scale)


def _join_parquet(parts: Sequence[Path], out: Path) -> None:
    import pyarrow.parquet as pq

    with _open_parquet_writer(out, pq.read_schema(parts[0])) as writer:
        for part in parts:
            with pq.ParquetFile(part) as file:
                for batch in file.iter_batches():
                    writer.write_batch(batch)


def _to_arrow_table(table: pd.DataFrame) -> "pa.Table":
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ModelError(_NO_PYARROW) from error
    columns = {
        name: pa.array(column.to_numpy())
        if pd.api.types.is_numeric_dtype(column)
        else pa.array(column.array, pa.string(), from_pandas=True)
        for name, column in table.items()
    }
    return pa.table(columns)


def _open_parquet_writer(path: Path, schema: "pa.Schema") -> Any:
    import pyarrow.parquet as pq

    texts = [
        name for name in schema.names if name == "outside_because"
    ]  # ids are too many for a dictionary
    return pq.ParquetWriter(path, schema, use_dictionary=texts)
