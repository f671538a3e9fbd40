"""One path from volumes to what learners see, the same for people who were fitted on and for new people."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rindices.blocks import in_blocks
from rindices.errors import Findings, PreprocessingError, Problem, named
from rindices.preprocess.residualise import Residualiser
from rindices.preprocess.standardise import Standardiser
from rindices.tables.cohort import ID, Cohort

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Preprocessing:
    """Adjustment and standardisation learnt on controls, a frozen value of plain arrays.

    Attributes
    ----------
    regions : tuple of str
        The R regions, in order.
    residualiser : Residualiser
    standardiser : Standardiser

    Examples
    --------
    >>> preprocessing = Preprocessing.fit(cohort)                       # doctest: +SKIP
    >>> values = preprocessing.transform(new_cohort)                    # doctest: +SKIP
    """

    regions: tuple[str, ...]
    residualiser: Residualiser
    standardiser: Standardiser

    @classmethod
    def fit(cls, cohort: Cohort) -> Self:
        """Learn from the controls of a cohort."""
        controls = cohort.take(cohort.is_control)
        if not len(controls):
            raise PreprocessingError("the cohort has no controls: name the group column and the controls' label.")
        volumes = controls.volumes.to_numpy(dtype=float)
        residualiser = Residualiser.fit(volumes, controls.covariates)
        adjusted = residualiser.transform(volumes, controls.covariates)
        return cls(cohort.regions, residualiser, Standardiser.fit(adjusted, cohort.regions))

    def transform(self, cohort: Cohort) -> Matrix:
        """Return what learners see, (N, R): controls have mean 1 and standard deviation 0.1.

        Regions and covariates are found by name; people whose category no control has are refused.
        """
        volumes, covariates = self.aligned(cohort)
        errors = [p for p in self.review(cohort) if p.severity == "error"]
        if errors:
            raise PreprocessingError(errors)
        return self.prepare(volumes, covariates)

    def prepare(self, volumes: Matrix, covariates: pd.DataFrame) -> Matrix:
        """Return what learners see, (N, R), of aligned volumes (N, R) and covariates (N, C) that were reviewed."""

        def one_block(block: Matrix, design: Matrix) -> Matrix:
            return self.standardiser.transform(self.residualiser.adjust(block, design))

        return in_blocks(one_block, volumes, self.residualiser.design(covariates))

    def review(self, cohort: Cohort, whole: bool = True) -> list[Problem]:
        """Return what the adjustment cannot do for these people: unseen categories, values out of range.

        Parameters
        ----------
        whole : bool
            Whether these people are a table, and not a piece whose typical person says nothing about the table.
        """
        findings = Findings(list(self.residualiser.notes))
        self.residualiser.review(self._covariates(cohort), cohort.people[ID].to_numpy(dtype=object), findings, whole)
        return list(findings)

    def aligned(self, cohort: Cohort) -> tuple[Matrix, pd.DataFrame]:
        """Return the volumes (N, R) and covariates (N, C) in the order of training."""
        missing = [region for region in self.regions if region not in cohort.volumes]
        if missing:
            raise PreprocessingError(f"{len(missing)} regions are missing: {named(missing)}. Give them in the table.")
        volumes = cohort.volumes if cohort.regions == self.regions else cohort.volumes[list(self.regions)]
        return volumes.to_numpy(dtype=float), self._covariates(cohort)

    def _covariates(self, cohort: Cohort) -> pd.DataFrame:
        names = [coding.name for coding in self.residualiser.codings]
        absent = [name for name in names if name not in cohort.covariates]
        if absent:
            raise PreprocessingError(f"covariates are missing: {named(absent)}. Name them when reading the table.")
        return cohort.covariates[names]

    def to_arrays(self) -> dict[str, Matrix]:
        """Return all learnt numbers as plain arrays."""
        return self.residualiser.to_arrays() | self.standardiser.to_arrays()

    def to_dict(self) -> dict[str, Any]:
        """Return everything else as plain values for JSON."""
        return {"regions": list(self.regions), "covariates": self.residualiser.to_dict()}

    @classmethod
    def from_parts(cls, values: Mapping[str, Any], arrays: Mapping[str, Matrix]) -> Self:
        """Build from `to_dict` and `to_arrays`."""
        residualiser = Residualiser.from_parts(values["covariates"], arrays)
        return cls(tuple(values["regions"]), residualiser, Standardiser.from_arrays(arrays))
