"""Independent pieces of work: run in parallel, kept one small file each, never done twice."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from joblib import Parallel, delayed, parallel_config

from rindices.atomic import write_atomically


class KeyedJob(Protocol):
    """A piece of work, told from all others by its key."""

    @property
    def key(self) -> str:
        """A name that is the same for the same work, and for nothing else; fit for a file."""


JobT = TypeVar("JobT", bound=KeyedJob)
JobCallback = Callable[[int, int, object], None]
"""Called with the number of finished and of all pieces, and the piece just finished."""


def run_jobs(
    pieces: Sequence[JobT],
    measure: Callable[[JobT], dict[str, Any]],
    store: Path | None = None,
    workers: int = -1,
    told: JobCallback | None = None,
) -> list[dict[str, Any]]:
    """Measure all pieces; finished ones are kept in ``store`` and not measured again.

    Parameters
    ----------
    pieces : sequence of Piece
    measure : callable
        A piece to plain values.
    store : Path, optional
        Folder for one small file a finished piece.
    workers : int
        Processes; -1 for all cores. The numbers do not depend on it.
    told : callable, optional
        See `JobCallback`.
    """
    done = {piece.key: found for piece in pieces if (found := _load_result(store, piece)) is not None}
    rest = [piece for piece in pieces if piece.key not in done]
    with parallel_config(backend="loky", inner_max_num_threads=1):
        finished: Iterator[tuple[JobT, dict[str, Any]]] = Parallel(n_jobs=workers, return_as="generator_unordered")(
            delayed(_run_job)(measure, piece) for piece in rest
        )
        for piece, found in finished:
            done[piece.key] = found
            _save_result(store, piece, found)
            if told is not None:
                told(len(done), len(pieces), piece)
    return [done[piece.key] for piece in pieces]


def _run_job(measure: Callable[[JobT], dict[str, Any]], piece: JobT) -> tuple[JobT, dict[str, Any]]:
    return piece, measure(piece)


def _load_result(store: Path | None, piece: KeyedJob) -> dict[str, Any] | None:
    path = store / f"{piece.key}.json" if store else None
    if path is None or not path.is_file():
        return None
    try:
        found = json.loads(path.read_text("utf-8"))
    except ValueError:  # damaged: measure again
        return None
    return found if isinstance(found, dict) else None


def _save_result(store: Path | None, piece: KeyedJob, found: dict[str, Any]) -> None:
    if store is None:
        return
    store.mkdir(parents=True, exist_ok=True)
    write_atomically(store / f"{piece.key}.json", json.dumps(found).encode())
