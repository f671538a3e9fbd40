"""A validated cohort: the one thing that the rest of the package works on."""

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, IntArray
from rindices.tables.validation.groups import CONTROL, PATIENT

if TYPE_CHECKING:
    pass

ID, SESSION, GROUP, SITE = "participant_id", "session_id", "group", "site"


@dataclass(frozen=True, eq=False)
class Cohort:
    """People with their regional volumes, read and validated.

    Rows are sorted by participant and session, regions by name (MUSE by code), so that neither the order of
    rows nor of columns in a file can matter.

    Attributes
    ----------
    volumes : DataFrame
        (N, R), one column a region, no missing value.
    people : DataFrame
        (N, ...), same rows: ``participant_id``, ``session_id`` where there are sessions, ``group`` (``control``,
        ``patient``) where groups were named, ``site`` where a site was named.
    covariates : DataFrame
        (N, C), same rows; a numeric column is adjusted for as a number, a text column as categories.
    source : str
        The format of the table (``dlmuse``, ``freesurfer``, ...).
    unit : str
        The unit of the regions, guessed from magnitudes.
    """

    volumes: pd.DataFrame
    people: pd.DataFrame
    covariates: pd.DataFrame
    source: str = "table"
    unit: str = "unknown"

    def __len__(self) -> int:
        return len(self.people)

    def __repr__(self) -> str:
        groups = f", {self.n_controls} controls, {self.n_patients} patients" if GROUP in self.people else ""
        return f"<Cohort: {len(self)} people{groups}, {self.n_regions} regions ({self.source}, {self.unit})>"

    @property
    def regions(self) -> tuple[str, ...]:
        """Names of the regions."""
        return tuple(self.volumes.columns)

    @property
    def n_regions(self) -> int:
        """R, the number of regions."""
        return len(self.regions)

    @property
    def is_control(self) -> "BoolArray":
        """(N,) True for controls."""
        return self._is(CONTROL)

    @property
    def is_patient(self) -> "BoolArray":
        """(N,) True for patients."""
        return self._is(PATIENT)

    @property
    def n_controls(self) -> int:
        """Number of controls."""
        return int(self.is_control.sum())

    @property
    def n_patients(self) -> int:
        """Number of patients."""
        return int(self.is_patient.sum())

    def take(self, rows: "BoolArray | IntArray") -> "Cohort":
        """Return the cohort of some people (a mask or positions), in the same order."""
        places = np.flatnonzero(rows) if rows.dtype == bool else np.sort(rows)
        frames = (self.volumes, self.people, self.covariates)
        volumes, people, covariates = (frame.iloc[places].reset_index(drop=True) for frame in frames)
        return Cohort(volumes, people, covariates, self.source, self.unit)

    def fingerprint(self) -> str:
        """Return a hash of everything that training sees: people, groups, covariates, regions and volumes."""
        digest = hashlib.sha256()
        for frame in (self.people, self.covariates):
            digest.update(json.dumps([list(frame.columns), _to_json_cells(frame)]).encode())
        digest.update(json.dumps(self.regions).encode())
        digest.update(np.ascontiguousarray(self.volumes.to_numpy(dtype="<f8")).tobytes())
        return digest.hexdigest()

    def _is(self, label: str) -> "BoolArray":
        if GROUP not in self.people:
            return np.zeros(len(self), dtype=bool)
        return np.asarray(self.people[GROUP] == label, dtype=bool)


def _to_json_cells(frame: pd.DataFrame) -> list[list[object]]:
    """Return the cells as JSON can write them, floats by their shortest exact text."""
    return [
        frame[column].astype(float).tolist()
        if pd.api.types.is_numeric_dtype(frame[column])
        else [None if pd.isna(value) else str(value) for value in frame[column]]
        for column in frame.columns
    ]
