"""A validated cohort: the input of everything else in the package."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

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
        n_controls, n_patients = (self.people.loc[rows, ID].nunique() for rows in (self.is_control, self.is_patient))
        groups = f", {n_controls} controls, {n_patients} patients" if GROUP in self.people else ""
        noun = get_wording(self.unit)("regions")
        n_people = self.people[ID].nunique()
        scans = f"{len(self)} scans of " if len(self) > n_people else ""
        return f"<Cohort: {scans}{n_people} people{groups}, {self.n_regions} {noun} ({self.source}, {self.unit})>"

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
        """Hash everything that training uses: people, groups, covariates, regions and volumes, in any order of rows.

        Returns
        -------
        str
            Hexadecimal SHA-256.
        """
        names = [list(self.people.columns), list(self.covariates.columns), self.regions]
        cells = zip(*list_json_columns(self.people), *list_json_columns(self.covariates), strict=True)
        volumes = np.ascontiguousarray(self.volumes.to_numpy(dtype="<f8"))
        rows = [json.dumps(row).encode() + values.tobytes() for row, values in zip(cells, volumes, strict=True)]
        digest = hashlib.sha256(json.dumps(names).encode())
        for row_digest in sorted(hashlib.sha256(row).digest() for row in rows):
            digest.update(row_digest)
        if self.visits is not None:
            digest.update(self.visits.fingerprint().encode())
        return digest.hexdigest()

    def _is_in_group(self, label: str) -> BoolArray:
        if GROUP not in self.people:
            return np.zeros(len(self), dtype=bool)
        return np.asarray(self.people[GROUP] == label, dtype=bool)


def list_json_columns(frame: pd.DataFrame) -> list[list[object]]:
    """Return the cells column by column as values that JSON can write."""
    return [
        frame[column].astype(float).tolist()
        if pd.api.types.is_numeric_dtype(frame[column])
        else [None if pd.isna(value) else str(value) for value in frame[column]]
        for column in frame.columns
    ]


def describe_cohort(cohort: Cohort) -> dict[str, Any]:
    """Return the size of a cohort and the distribution of each covariate in each group, for JSON."""
    groups = {
        "all": cohort.covariates,
        "control": cohort.covariates[cohort.is_control],
        "patient": cohort.covariates[cohort.is_patient],
    }
    return {
        "source": cohort.source,
        "unit": cohort.unit,
        "people": len(cohort),
        "controls": cohort.n_controls,
        "patients": cohort.n_patients,
        "regions": cohort.n_regions,
        "covariates": [
            {"name": name, "groups": {group: _summarise_covariate(frame[name]) for group, frame in groups.items()}}
            for name in cohort.covariates.columns
        ],
        "sites": _count_by_site(cohort),
        **({} if cohort.visits is None else {"scans": len(cohort.visits)}),
    }


def _summarise_covariate(values: pd.Series) -> dict[str, Any]:
    """Return mean, standard deviation and range of numbers, or the number of people in each category."""
    if pd.api.types.is_numeric_dtype(values) and values.nunique() > 2:
        statistics = {"mean": values.mean(), "sd": values.std(), "min": values.min(), "max": values.max()}
        return {name: float(value) for name, value in statistics.items()}
    counts = values.value_counts().sort_index()
    return {"counts": {_format_level(level): int(number) for level, number in counts.items()}}


def _format_level(level: Any) -> str:
    return f"{level:g}" if isinstance(level, int | float) else str(level)


def _count_by_site(cohort: Cohort) -> dict[str, dict[str, int]]:
    """Return the number of people of each group at each site; empty without sites."""
    if SITE not in cohort.people or GROUP not in cohort.people:
        return {}
    table = pd.crosstab(cohort.people[SITE], cohort.people[GROUP])
    return {str(site): {str(group): int(number) for group, number in row.items()} for site, row in table.iterrows()}
