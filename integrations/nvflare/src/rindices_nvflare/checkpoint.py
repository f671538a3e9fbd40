"""What the server keeps of the rounds of a study, so that the same job goes on when it
is submitted again.

Under masks a file holds the total of a round; answers of single sites are never stored.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from rindices_nvflare.core import Request, StudyError, write_atomically, write_json
from rindices_nvflare.wire import write_message

Arrays = dict[str, np.ndarray[Any, Any]]
_STUDY, _ROUNDS, _STATE = "study.json", "rounds", "state.json"


class Checkpoint:
    """Rounds of one study in the folder of its results.

    study: all that decides what is asked: settings, sites, columns.
    """

    def __init__(self, folder: Path, study: Mapping[str, Any]) -> None:
        self.folder = folder
        (folder / _ROUNDS).mkdir(parents=True, exist_ok=True)
        own, path = hashlib.sha256(write_message(study)).hexdigest(), folder / _STUDY
        if path.exists() and json.loads(path.read_text("utf-8"))["digest"] != own:
            raise StudyError(
                f"{folder} has the rounds of another study: give another --out, or delete the folder."
            )
        if self.is_finished:
            raise StudyError(f"the study in {folder} is finished: give another --out.")
        write_json(path, {"digest": own})

    @property
    def is_finished(self) -> bool:
        """Whether the study has ended by itself."""
        path = self.folder / _STATE
        return path.exists() and bool(json.loads(path.read_text("utf-8"))["finished"])

    def read(self, request: Request) -> Arrays | None:
        """Return the arrays that were kept of a round; none if it was not answered.

        Raises StudyError: if another question was asked in this round.
        """
        path = self._get_path(request)
        if not path.exists():
            return None
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        if arrays.pop("digest").tobytes() != bytes.fromhex(request.digest):
            raise StudyError(
                f"round {request.round} in {self.folder} was another question: delete the folder and submit the job "
                "again, after each site allowed it (rindices-nvflare allow)."
            )
        return arrays

    def keep(self, request: Request, arrays: Arrays) -> None:
        """Write the arrays of a round, atomically."""
        content, digest = (
            BytesIO(),
            np.frombuffer(bytes.fromhex(request.digest), np.uint8),
        )
        np.savez(content, allow_pickle=False, **{"digest": digest, **arrays})
        write_atomically(self._get_path(request), content.getvalue())

    def say(self, text: str, finished: bool = False) -> None:
        """Write down where the study is, for people."""
        write_json(self.folder / _STATE, {"finished": finished, "says": text})
        if finished:
            shutil.rmtree(self.folder / _ROUNDS, ignore_errors=True)

    def _get_path(self, request: Request) -> Path:
        return self.folder / _ROUNDS / f"{request.round:04d}.npz"
