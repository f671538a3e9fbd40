"""A validated cohort: the input of everything else in the package."""

import hashlib
import json
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, IntArray
from rindices.tables.validation.groups import CONTROL, PATIENT
from rindices.wording import get_wording

ID, SESSION, GROUP, SITE = "participant_id", "session_id", "group", "site"


@dataclass(frozen=True, eq=False)
class Cohort:
    """People with their regional volumes, read and validated.

    Rows are sorted by participant and session, regions by name (MUSE by code): results do not depend on the order of
    rows or columns in a file.

    Attributes
    ----------
    volumes : DataFrame
        (N, R), one column per region. Missing cells are NaN, if the table was read with ``on_missing="model"``.
    people : DataFrame
        (N, ...), same rows: ``participant_id``, and ``session_id``, ``group`` (``control`` or ``patient``) and
        ``site`` if the table has them.
    covariates : DataFrame
        (N, C), same rows; numeric columns are numbers, text columns are categories. Missing values are NaN, if the
        table was read with ``impute_covariates=True``.
    source : str
        Format of the table: ``dlmuse``, ``freesurfer``, ...
    unit : str
        Unit of the regions, guessed from their magnitude.
    visits : Cohort or None
        All scans of the same people, if patterns are learnt from repeat visits; the rows of this cohort are then the
        first scans.
    """

    volumes: pd.DataFrame
    people: pd.DataFrame
    covariates: pd.DataFrame
    source: str = "table"
    unit: str = "unknown"
    visits: "Cohort | None" = None

    def __len__(self) -> int:
        return len(self.people)

    def __repr__(self) -> str:
        groups = f", {self.n_controls} controls, {self.n_patients} patients" if GROUP in self.people else ""
        noun = get_wording(self.unit)("regions")
        return f"<Cohort: {len(self)} people{groups}, {self.n_regions} {noun} ({self.source}, {self.unit})>"

    @property
    def regions(self) -> tuple[str, ...]:
        """Names of the regions."""
        return tuple(self.volumes.columns.tolist())

    @property
    def n_regions(self) -> int:
        """R, the number of regions."""
        return len(self.regions)

    @property
    def is_control(self) -> BoolArray:
        """(N,) True for controls."""
        return self._is_in_group(CONTROL)

    @property
    def is_patient(self) -> BoolArray:
        """(N,) True for patients."""
        return self._is_in_group(PATIENT)

    @property
    def n_controls(self) -> int:
        """Number of controls."""
        return int(self.is_control.sum())

    @property
    def n_patients(self) -> int:
        """Number of patients."""
        return int(self.is_patient.sum())

    def take(self, rows: BoolArray | IntArray) -> "Cohort":
        """Select people.

        Parameters
        ----------
        rows : (N,) bool or array of int
            Mask or positions of the rows; their order does not matter.

        Returns
        -------
        Cohort
            The selected people in the order of this cohort.
        """
        positions = np.flatnonzero(rows) if rows.dtype == bool else np.sort(rows)
        frames = (self.volumes, self.people, self.covariates)
        volumes, people, covariates = (frame.iloc[positions].reset_index(drop=True) for frame in frames)
        visits = self.visits
        if visits is not None:
            visits = visits.take(visits.people[ID].isin(people[ID]).to_numpy())
        return Cohort(volumes, people, covariates, self.source, self.unit, visits)

    def fingerprint(self) -> str:
        """Hash everything that training uses: people, groups, covariates, regions and volumes.

        Returns
        -------
        str
            Hexadecimal SHA-256.
        """
        digest = hashlib.sha256()
        for frame in (self.people, self.covariates):
            digest.update(json.dumps([list(frame.columns), _to_json_cells(frame)]).encode())
        digest.update(json.dumps(self.regions).encode())
        digest.update(np.ascontiguousarray(self.volumes.to_numpy(dtype="<f8")).tobytes())
        if self.visits is not None:
            digest.update(self.visits.fingerprint().encode())
        return digest.hexdigest()

    def _is_in_group(self, label: str) -> BoolArray:
        if GROUP not in self.people:
            return np.zeros(len(self), dtype=bool)
        return np.asarray(self.people[GROUP] == label, dtype=bool)


def _to_json_cells(frame: pd.DataFrame) -> list[list[object]]:
    """Return the cells column by column as values that JSON can write."""
    return [
        frame[column].astype(float).tolist()
        if pd.api.types.is_numeric_dtype(frame[column])
        else [None if pd.isna(value) else str(value) for value in frame[column]]
        for column in frame.columns
    ]
