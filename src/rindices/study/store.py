"""The run store: one file per finished member set, named by its key."""

import hashlib
import io
import json
import math
import os
import socket
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field

from rindices._typing import AnyArray
from rindices.atomic import PRIVATE_FOLDER_MODE, write_atomically
from rindices.errors import ModelError, StudyError, explain_write_errors
from rindices.learners.ensemble import (
    HeldOutLikelihood,
    Member,
    NetworkTraining,
    TrainingOutcome,
)
from rindices.learners.gan.recipe import LOSS_NAMES
from rindices.learners.inference import HEADS_BY_KIND, SEVERITY_LEVELS
from rindices.learners.prepared_people import PreparedPeople
from rindices.model.safetensors_io import (
    MAX_DIMENSION,
    read_arrays,
    read_metadata,
    write_safetensors,
)
from rindices.study.methods import MemberSet

FILE_VISIBILITY_TIMEOUT = 60.0
"""Seconds within which a file written on one machine must be visible on another."""
MAKE_ROOM = "make room and run again"
"""What to do if the store cannot be written."""
_LIKELIHOODS = tuple(each.name for each in fields(HeldOutLikelihood))


class RunStore:
    """Finished member sets in one folder.

    folder: created if it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with explain_write_errors(
            f"to {folder}", StudyError, "give another folder with --out"
        ):
            folder.mkdir(PRIVATE_FOLDER_MODE, parents=True, exist_ok=True)

    def path(self, work: MemberSet) -> Path:
        """Return the file of a member set."""
        return self.folder / f"{work.key}.safetensors"

    def checkpoint_path(self, work: MemberSet) -> Path:
        """Return the checkpoint of a member set in training."""
        return self.folder / f"{work.key}.checkpoint"

    def save(self, work: MemberSet, members: Sequence[Member]) -> None:
        """Write a finished member set and delete its checkpoint."""
        arrays: dict[str, AnyArray] = {}
        for index, member in enumerate(members):
            arrays |= {
                f"{index}.{name}": array
                for name, array in member.head.to_arrays().items()
            }
            arrays[f"{index}.patterns"] = member.patterns
            if member.training is not None:
                arrays |= {
                    f"{index}.networks.{name}": weight
                    for name, weight in member.training.weights.items()
                }
                arrays[f"{index}.losses"] = member.training.losses
        states = [
            [
                each.number,
                str(each.outcome),
                each.steps,
                _replace_nonfinite(each.evidence),
                None if each.held_out is None else list(vars(each.held_out).values()),
            ]
            for each in members
        ]
        regions = int(members[0].patterns.shape[2])
        metadata = {
            "key": work.key,
            "kind": members[0].head.kind,
            "regions": regions,
            "members": states,
        }
        metadata["trainings"] = [
            _describe_training(member.training) for member in members
        ]
        with explain_write_errors(str(self.path(work)), StudyError, MAKE_ROOM):
            write_safetensors(self.path(work), arrays, metadata)
        self.checkpoint_path(work).unlink(missing_ok=True)

    def evidence_path(self, key: str) -> Path:
        """Return the file of the evidence of a member, for as long as its set lacks
        that of others.
        """
        return self.folder / f"{key}.evidence"

    def load_trained(self, work: MemberSet) -> list[Member]:
        """Return the members of a set of halves as they were trained."""
        members = self.load(replace(work, halves=False))
        if members is None:
            raise StudyError(
                f"{self.folder} has lost members that it had: run the same command again."
            )
        return members

    def take_evidence(self, work: MemberSet, keys: Sequence[str]) -> None:
        """Save a set of halves, whose members are those of the trained set with
        evidence.
        """
        paths, members = [*map(self.evidence_path, keys)], self.load_trained(work)
        if not all(map(_wait_for_file, paths)):  # `wait_for` says so
            return
        values = [json.loads(path.read_bytes())["evidence"] for path in paths]
        self.save(
            work,
            [
                replace(member, evidence=None if each is None else tuple(each))
                for member, each in zip(members, values, strict=True)
            ],
        )
        for path in paths:
            path.unlink()

    def load(self, work: MemberSet) -> list[Member] | None:
        """Return a finished member set; None if it is missing or damaged, so that it is
        trained again.
        """
        path = self.path(work)
        if not path.is_file():
            return None
        try:
            return _load_members(path, work)
        except (ModelError, KeyError, TypeError, ValueError):
            return None

    def save_people(self, people: Sequence[PreparedPeople]) -> Path:
        """Write the people of a set of members for the workers; the name of the file
        depends on its content.
        """
        arrays = [
            (f"{k}.{name}", array)
            for k, each in enumerate(people)
            for name, array in vars(each).items()
        ]
        content = io.BytesIO()
        np.savez(
            content, **{name: array for name, array in arrays if array is not None}
        )
        path = (
            self.folder.absolute()
            / f"people-{hashlib.sha256(content.getbuffer()).hexdigest()[:16]}.npz"
        )
        with explain_write_errors(str(path), StudyError, MAKE_ROOM):
            write_atomically(path, content.getbuffer())
        return path

    def wait_for(self, work: MemberSet) -> None:
        """Wait until a set that a worker has finished is visible here; shared file
        systems are slow.
        """
        if not _wait_for_file(self.path(work)):
            raise StudyError(
                f"{self.path(work)} was written but is not seen here: give an --out that all nodes share."
            )

    def log_event(self, event: str, key: str) -> None:
        """Write an event of a task to the journal of this process."""
        journal = self.folder / "journal"
        journal.mkdir(exist_ok=True)
        now = datetime.now().astimezone().isoformat(timespec="seconds")
        with (journal / f"{socket.gethostname()}-{os.getpid()}.tsv").open(
            "a", encoding="utf-8"
        ) as file:
            file.write(f"{now}\t{event}\t{key}\n")

    def count_events(self, event: str) -> Counter[str]:
        """Return how often an event is in the journals of all processes, by the key of
        the task.
        """
        counts: Counter[str] = Counter()
        for path in (self.folder / "journal").glob("*.tsv"):
            lines = (line.split("\t") for line in path.read_text("utf-8").splitlines())
            counts.update(
                parts[2] for parts in lines if parts[1:2] == [event] and len(parts) == 3
            )
        return counts


@lru_cache(maxsize=1)
def load_people(path: Path) -> list[PreparedPeople]:
    """Return the people that `RunStore.save_people` wrote; a process keeps the last
    ones that it has read.
    """
    if not _wait_for_file(path):
        raise StudyError(
            f"{socket.gethostname()} does not see {path}: give an --out on a file system that all workers share."
        )
    fields: dict[int, dict[str, AnyArray]] = {}
    with np.load(path) as arrays:
        for key in arrays.files:
            number, name = key.split(".")
            fields.setdefault(int(number), {})[name] = arrays[key]
    return [PreparedPeople(**fields[number]) for number in sorted(fields)]


def _wait_for_file(path: Path) -> bool:
    """Return whether a file exists, after waiting for it."""
    end = time.monotonic() + FILE_VISIBILITY_TIMEOUT
    while not path.is_file():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
        os.listdir(path.parent)  # refreshes the cache of a network file system
    return True


_HeldOutRecord = tuple[  # the fields of `HeldOutLikelihood`
    str,
    float | None,
    float | None,
    float | None,
    bool | None,
    float | None,
    bool | None,
    str,
    float | None,
    float | None,
    float | None,
]
_MemberRecord = tuple[
    int,
    TrainingOutcome,
    int,
    tuple[float, float, float | None] | None,
    _HeldOutRecord | None,
]


class _TrainingRecord(BaseModel):
    """Training of a member with networks.

    Attributes
    ----------
    met_bars : bool
        Whether the losses were below the bars of the recipe at the last check.
    checks : list of int
        Steps of the checks.
    shapes : dict
        Shape of each weight.
    """

    met_bars: bool
    checks: list[int]
    shapes: dict[str, tuple[int, ...]]

    def list_shapes(self, index: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of all arrays of the training of a member, by their names
        in the file.
        """
        shapes = {
            f"{index}.networks.{name}": shape for name, shape in self.shapes.items()
        }
        return shapes | {f"{index}.losses": (len(self.checks), len(LOSS_NAMES))}

    def build(self, arrays: Mapping[str, AnyArray], index: int) -> NetworkTraining:
        """Return the training of a member from the arrays of the file."""
        return NetworkTraining(
            met_bars=self.met_bars,
            checks=np.array(self.checks, dtype=np.intp),
            losses=arrays[f"{index}.losses"],
            weights={name: arrays[f"{index}.networks.{name}"] for name in self.shapes},
        )


def _describe_training(training: NetworkTraining | None) -> dict[str, object] | None:
    if training is None:
        return None
    shapes = {name: list(weight.shape) for name, weight in training.weights.items()}
    return {
        "met_bars": training.met_bars,
        "checks": training.checks.tolist(),
        "shapes": shapes,
    }


class _MemberSetMetadata(BaseModel):
    """Metadata of a member set.

    Attributes
    ----------
    key : str
        Key of the member set.
    kind : str
        Kind of head of the members.
    regions : int
        Number of regions.
    members : list of _MemberRecord
        Number, outcome, steps, evidence and held-out likelihood of each member.
    trainings : list of _TrainingRecord or None
        Training of each member with networks, and None for others. Sets written by
        rindices 0.1.0 have none.
    """

    key: str
    kind: str
    regions: Annotated[int, Field(ge=1, le=MAX_DIMENSION)]
    members: list[_MemberRecord]
    trainings: list[_TrainingRecord | None] = []


def _load_members(path: Path, work: MemberSet) -> list[Member]:
    metadata = _MemberSetMetadata.model_validate(read_metadata(path))
    if metadata.key != work.key:
        raise ValueError(metadata.key)
    head, regions = HEADS_BY_KIND[metadata.kind], metadata.regions
    patterns = work.point.n_patterns
    shapes = head.shapes(regions, patterns) | {
        "patterns": (len(SEVERITY_LEVELS), patterns, regions)
    }
    trainings = metadata.trainings or [None] * len(metadata.members)
    expected: dict[str, tuple[int, ...]] = {}
    unchecked: set[str] = set()
    for index, (state, networks) in enumerate(
        zip(metadata.members, trainings, strict=True)
    ):
        own = {f"{index}.{name}": shape for name, shape in shapes.items()}
        own |= {} if networks is None else networks.list_shapes(index)
        expected |= own
        unchecked |= set(own) if state[1] is TrainingOutcome.DIVERGED else set()
    arrays = read_arrays(path, expected, unchecked)
    members = []
    for index, (number, outcome, steps, record, likelihoods) in enumerate(
        metadata.members
    ):
        fields = {name: arrays[f"{index}.{name}"] for name in shapes}
        evidence = (
            None
            if record is None
            else (*record[:2], math.nan if record[2] is None else record[2])
        )
        held_out = None
        if likelihoods is not None:
            by_name: dict[str, Any] = dict(zip(_LIKELIHOODS, likelihoods, strict=True))
            held_out = HeldOutLikelihood(**by_name)
        networks = trainings[index]
        training = None if networks is None else networks.build(arrays, index)
        members.append(
            Member(
                number=number,
                outcome=outcome,
                steps=steps,
                head=head.from_arrays(fields),
                patterns=fields["patterns"],
                evidence=evidence,
                held_out=held_out,
                training=training,
            )
        )
    return members


def _replace_nonfinite(
    evidence: tuple[float, float, float] | None,
) -> list[float | None] | None:
    """Return evidence for JSON; the difference agreement of a single pattern is NaN."""
    return (
        None
        if evidence is None
        else [value if math.isfinite(value) else None for value in evidence]
    )
