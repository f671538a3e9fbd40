"""Reference generator: healthy adults with the paper's 139 MUSE regions, age, sex and intracranial volume.

Log volumes are linear in age, sex and log intracranial volume, with correlated normal residuals. The parameters are
summary statistics of the IXI data set (see ``model/data/README.md``), written by ``scripts/make_reference.py``.
"""

from dataclasses import dataclass
from functools import cache
from typing import Protocol, Self

import numpy as np
import pandas as pd
from sklearn.covariance import ledoit_wolf

from rindices._typing import FloatArray
from rindices.errors import SimulationError
from rindices.model.normal_reference import load_muse_figures
from rindices.preprocess.residualise import Residualiser
from rindices.tables.cohort import Cohort
from rindices.tables.layout.muse import region_name

AGE_CENTRE = 55.0
LOG_ICV_CENTRE = float(np.log(1.4e6))


class HealthyGenerator(Protocol):
    """Anything that draws healthy people."""

    def draw(self, number: int, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return volumes (N, R) and covariates (N, C) of new people."""


@dataclass(frozen=True)
class HealthyReference:
    """Parameters of the distribution of healthy people."""

    regions: tuple[str, ...]  # R names
    coefficients: FloatArray  # (4, R): log volume at the centre, per year, for men, per log intracranial volume
    root: FloatArray  # (R, R), a square root of the residual covariance
    age: FloatArray  # (11,), deciles
    male: float  # share of men
    icv: FloatArray  # (4,): log intracranial volume at the centre, per year, for men, residual standard deviation

    @property
    def residual_covariance(self) -> FloatArray:
        """Covariance of log volumes given the covariates, (R, R)."""
        return np.asarray(self.root @ self.root.T)

    def draw(self, number: int, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return volumes (N, R) in mm3 and covariates ``age``, ``sex``, ``icv`` of new people."""
        age = np.interp(rng.uniform(size=number), np.linspace(0, 1, len(self.age)), self.age)
        male = (rng.uniform(size=number) < self.male).astype(float)
        years = age - AGE_CENTRE
        log_icv = self.icv[0] + self.icv[1] * years + self.icv[2] * male + self.icv[3] * rng.normal(size=number)
        design = np.column_stack([np.ones(number), years, male, log_icv - LOG_ICV_CENTRE])
        logs = design @ self.coefficients + rng.normal(size=(number, len(self.regions))) @ self.root.T
        sex = np.where(male == 1, "M", "F")
        covariates = pd.DataFrame({"age": age.round(2), "sex": sex.astype(object), "icv": np.exp(log_icv).round(1)})
        return pd.DataFrame(np.exp(logs), columns=list(self.regions)), covariates

    def predict_logs(self, covariates: pd.DataFrame) -> FloatArray:
        """Return the mean log volumes (N, R) of people with these covariates (N, C)."""
        return np.asarray(build_reference_design(covariates) @ self.coefficients)


def build_reference_design(covariates: pd.DataFrame) -> FloatArray:
    """Return the design (N, 4) of `HealthyReference`: intercept, age, male sex and log intracranial volume, centred."""
    return np.column_stack(
        [
            np.ones(len(covariates)),
            covariates["age"].to_numpy() - AGE_CENTRE,
            (covariates["sex"] == "M").to_numpy(dtype=float),
            np.log(covariates["icv"].to_numpy()) - LOG_ICV_CENTRE,
        ]
    )


@dataclass(frozen=True, eq=False)
class FittedHealthyReference:
    """Generator fitted to a table of healthy people: log volumes are normal, given the covariates."""

    regions: tuple[str, ...]  # R names
    covariates: pd.DataFrame  # (N, C) of the table; drawn with replacement
    mean: FloatArray  # (R,), of the log volumes, adjusted for the covariates
    residualiser: Residualiser  # adjustment of the log volumes
    root: FloatArray  # (R, R), a square root of the covariance of the adjusted log volumes (Ledoit-Wolf)

    @classmethod
    def fit(cls, cohort: Cohort) -> Self:
        """Fit to the controls of a cohort, or to everyone if it has no groups."""
        healthy = cohort.take(cohort.is_control) if cohort.n_controls else cohort
        volumes = healthy.volumes.to_numpy(dtype=float)
        if (volumes <= 0).any():
            raise SimulationError("the table has values of 0 or less, which cannot shrink by a share: give volumes.")
        residualiser = Residualiser.fit(np.log(volumes), healthy.covariates)
        adjusted = residualiser.transform(np.log(volumes), healthy.covariates)
        root = np.linalg.cholesky(ledoit_wolf(adjusted)[0])
        return cls(healthy.regions, healthy.covariates, adjusted.mean(axis=0), residualiser, root)

    def draw(self, number: int, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return volumes (N, R) and covariates (N, C) of new people."""
        rows = rng.integers(len(self.covariates), size=number)
        covariates = self.covariates.iloc[rows].reset_index(drop=True)
        adjusted = self.mean + rng.normal(size=(number, len(self.mean))) @ self.root.T
        effect = -self.residualiser.transform(np.zeros((number, len(self.mean))), covariates)
        return pd.DataFrame(np.exp(adjusted + effect), columns=list(self.regions)), covariates


@cache
def load_reference() -> HealthyReference:
    """Return the generator that comes with the package."""
    values = load_muse_figures()
    return HealthyReference(
        regions=tuple(region_name(int(code)) for code in values["codes"]),
        coefficients=values["coefficients"].astype(float),
        root=values["sd"].astype(float)[:, None] * np.linalg.cholesky(values["correlation"]),
        age=values["age"].astype(float),
        male=float(values["male"]),
        icv=values["icv"].astype(float),
    )
