"""The run store: each finished member set is one file, written atomically, found again by its key."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rindices.errors import ModelError, StudyError, reason
from rindices.learners.heads import HEADS, SEVERITIES
from rindices.learners.members import Member
from rindices.learners.outcome import Outcome
from rindices.model.files import read_arrays, read_metadata, write_file
from rindices.study.plan import MemberSet


class RunStore:
    """Finished member sets under one folder.

    Parameters
    ----------
    folder : Path
        Made if it is not there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StudyError(f"cannot write to {folder} ({reason(error)}): give another folder with --out.") from error

    def path(self, work: MemberSet) -> Path:
        """Return the file of a member set."""
        return self.folder / f"{work.key}.safetensors"

    def checkpoint(self, work: MemberSet) -> Path:
        """Return the file in which a member set in training keeps its state."""
        return self.folder / f"{work.key}.checkpoint"

    def save(self, work: MemberSet, members: Sequence[Member]) -> None:
        """Write a finished member set, then forget its checkpoint."""
        arrays: dict[str, Any] = {}
        for place, member in enumerate(members):
            arrays |= {f"{place}.{name}": array for name, array in member.head.to_arrays().items()}
            arrays[f"{place}.patterns"] = member.patterns
        states = [[m.number, str(m.outcome), m.steps, _plain(m.evidence)] for m in members]
        regions = int(members[0].patterns.shape[2])
        metadata = {"key": work.key, "kind": members[0].head.kind, "regions": regions, "members": states}
        try:
            write_file(self.path(work), arrays, metadata)
        except OSError as error:
            raise StudyError(f"cannot write {self.path(work)} ({reason(error)}): make room and run again.") from error
        self.checkpoint(work).unlink(missing_ok=True)

    def load(self, work: MemberSet) -> list[Member] | None:
        """Return a finished member set, or None where it is not there or damaged, so that it is trained again."""
        path = self.path(work)
        if not path.is_file():
            return None
        try:
            return _load(path, work)
        except (ModelError, KeyError, TypeError, ValueError):
            return None


def _load(path: Path, work: MemberSet) -> list[Member]:
    metadata = read_metadata(path)
    if metadata["key"] != work.key:
        raise ValueError(metadata["key"])
    head, regions, patterns = HEADS[metadata["kind"]], int(metadata["regions"]), work.point.n_patterns
    shapes = head.shapes(regions, patterns) | {"patterns": (len(SEVERITIES), patterns, regions)}
    states = metadata["members"]
    expected = {f"{place}.{name}": shape for place in range(len(states)) for name, shape in shapes.items()}
    arrays = read_arrays(path, expected)
    members = []
    for place, (number, outcome, steps, evidence) in enumerate(states):
        own = {name: arrays[f"{place}.{name}"] for name in shapes}
        told = (
            None if evidence is None else (evidence[0], evidence[1], math.nan if evidence[2] is None else evidence[2])
        )
        members.append(Member(number, Outcome(outcome), steps, head.from_arrays(own), own["patterns"], told))
    return members


def _plain(evidence: tuple[float, float, float] | None) -> list[float | None] | None:
    """Return evidence as JSON can write it; a single pattern has no differences."""
    return None if evidence is None else [value if math.isfinite(value) else None for value in evidence]
