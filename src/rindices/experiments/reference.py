"""Generators of healthy people: adults with the paper's 139 MUSE regions, people like
those of a table, and organs.

Log volumes are linear in age, sex and log intracranial volume, with correlated normal
residuals. The parameters are summary statistics of the IXI data set (see
``model/data/README.md``), written by ``scripts/make_reference.py``.

The task ``organs`` has features of heart and blood: signed, of very different scales,
some of them skewed. Each feature measures a latent that behaves as the log volumes of
the other tasks: linear in age and sex, with correlated normal deviations, and lowered
by disease. A feature is linear in its latent, or the exponential of it (skewed), and
falls or rises with disease. The latents can be computed back from the features, so that
the oracle is exact. The features are made up; their names and magnitudes are typical.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
from sklearn.covariance import ledoit_wolf

from rindices._typing import FloatArray
from rindices.errors import SimulationError
from rindices.model.normal_reference import load_muse_figures
from rindices.preprocess.residualise import Residualiser
from rindices.tables.cohort import Cohort
from rindices.tables.layouts.muse import region_name

AGE_CENTRE = 55.0
LOG_ICV_CENTRE = float(np.log(1.4e6))
LATENT_SD = 0.1  # of the deviations of people
_PARAMETER_SEED = 20_260
_N_FACTORS = 5
_UNIQUE_SHARE = 0.45  # of the variance of a latent that it shares with no other
_AGES = (40.0, 80.0)
_DATA: dict[str, Any] = tomllib.loads(
    (files("rindices.experiments") / "data" / "tasks.toml").read_text("utf-8")
)
PATTERNS: dict[str, list[str]] = _DATA["patterns"]
"""Sets of patterns of the tasks; the regions or features of a pattern are separated by
blanks.
"""


class HealthyGenerator(Protocol):
    """Anything that draws healthy people."""

    def draw(
        self, number: int, rng: np.random.Generator
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return volumes (N, R) and covariates (N, C) of new people."""


@dataclass(frozen=True)
class _LinearReference:
    """Log volumes, or latents of features, that are linear in covariates.

    Attributes
    ----------
    regions : tuple of str
        Names of the R regions.
    coefficients : ndarray of shape (C, R)
        Level at the centre, change per year, difference of men, and change per log
        intracranial volume.
    root : ndarray of shape (R, R)
        A square root of the residual covariance.
    """

    regions: tuple[str, ...]
    coefficients: FloatArray
    root: FloatArray

    @property
    def residual_covariance(self) -> FloatArray:
        """Covariance of log volumes given the covariates, (R, R)."""
        return np.asarray(self.root @ self.root.T)

    def draw_volumes(self, means: FloatArray, rng: np.random.Generator) -> pd.DataFrame:
        """Return volumes (N, R) of new people with these mean logs (N, R)."""
        logs = means + rng.normal(size=means.shape) @ self.root.T
        return pd.DataFrame(np.exp(logs), columns=list(self.regions))


@dataclass(frozen=True)
class HealthyReference(_LinearReference):
    """Parameters of the distribution of healthy people.

    Attributes
    ----------
    age : ndarray of shape (11,)
        Deciles of age.
    male : float
        Share of men.
    icv : ndarray of shape (4,)
        Log intracranial volume: level at the centre, change per year, difference of
        men, and residual standard deviation.
    """

    age: FloatArray
    male: float
    icv: FloatArray

    def draw(
        self, number: int, rng: np.random.Generator
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return volumes (N, R) in mm3 and covariates ``age``, ``sex``, ``icv`` of new
        people.
        """
        age = np.interp(
            rng.uniform(size=number), np.linspace(0, 1, len(self.age)), self.age
        )
        male = (rng.uniform(size=number) < self.male).astype(float)
        years = age - AGE_CENTRE
        log_icv = (
            self.icv[0]
            + self.icv[1] * years
            + self.icv[2] * male
            + self.icv[3] * rng.normal(size=number)
        )
        design = np.column_stack(
            [np.ones(number), years, male, log_icv - LOG_ICV_CENTRE]
        )
        volumes, sex = (
            self.draw_volumes(design @ self.coefficients, rng),
            np.where(male == 1, "M", "F"),
        )
        covariates = pd.DataFrame(
            {
                "age": age.round(2),
                "sex": sex.astype(object),
                "icv": np.exp(log_icv).round(1),
            }
        )
        return volumes, covariates

    def predict_logs(self, covariates: pd.DataFrame) -> FloatArray:
        """Return the mean log volumes (N, R) of people with these covariates (N, C)."""
        male, log_icv = (
            (covariates["sex"] == "M").to_numpy(dtype=float),
            np.log(covariates["icv"].to_numpy()),
        )
        years = covariates["age"].to_numpy() - AGE_CENTRE
        design = np.column_stack(
            [np.ones(len(covariates)), years, male, log_icv - LOG_ICV_CENTRE]
        )
        return np.asarray(design @ self.coefficients)


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedHealthyReference:
    """Generator fitted to a table of healthy people.

    Log volumes are normal, given the covariates.

    Attributes
    ----------
    regions : tuple of str
        Names of the R regions.
    covariates : DataFrame
        Covariates (N, C) of the table, which are drawn with replacement.
    mean : ndarray of shape (R,)
        Mean of the log volumes, adjusted for the covariates.
    residualiser : Residualiser
        Adjustment of the log volumes.
    root : ndarray of shape (R, R)
        A square root of the covariance of the adjusted log volumes (Ledoit-Wolf).
    """

    regions: tuple[str, ...]
    covariates: pd.DataFrame
    mean: FloatArray
    residualiser: Residualiser
    root: FloatArray

    @classmethod
    def fit(cls, cohort: Cohort) -> Self:
        """Fit to the controls of a cohort, or to everyone if it has no groups."""
        healthy = cohort.take(cohort.is_control) if cohort.n_controls else cohort
        volumes = healthy.volumes.to_numpy(dtype=float)
        if (volumes <= 0).any():
            raise SimulationError(
                "the table has values of 0 or less, which cannot shrink by a share: give volumes."
            )
        residualiser = Residualiser.fit(np.log(volumes), healthy.covariates)
        adjusted = residualiser.transform(np.log(volumes), healthy.covariates)
        root = np.linalg.cholesky(ledoit_wolf(adjusted)[0])
        return cls(
            regions=healthy.regions,
            covariates=healthy.covariates,
            mean=adjusted.mean(axis=0),
            residualiser=residualiser,
            root=root,
        )

    def draw(
        self, number: int, rng: np.random.Generator
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return volumes (N, R) and covariates (N, C) of new people."""
        rows = rng.integers(len(self.covariates), size=number)
        covariates = self.covariates.iloc[rows].reset_index(drop=True)
        adjusted = self.mean + rng.normal(size=(number, len(self.mean))) @ self.root.T
        effect = -self.residualiser.transform(
            np.zeros((number, len(self.mean))), covariates
        )
        return pd.DataFrame(
            np.exp(adjusted + effect), columns=list(self.regions)
        ), covariates


@cache
def load_reference() -> HealthyReference:
    """Return the generator that comes with the package."""
    values = load_muse_figures()
    return HealthyReference(
        regions=tuple(region_name(int(code)) for code in values["codes"]),
        coefficients=values["coefficients"].astype(float),
        root=values["sd"].astype(float)[:, None]
        * np.linalg.cholesky(values["correlation"]),
        age=values["age"].astype(float),
        male=float(values["male"]),
        icv=values["icv"].astype(float),
    )


@dataclass(frozen=True, kw_only=True)
class _Feature:
    """How a feature shows its latent.

    Attributes
    ----------
    name : str
        Name of the column.
    centre : float
        Value of the average person.
    spread : float
        Change of the value, or of its logarithm, per standard deviation of the latent.
    direction : int
        1 or -1.
    is_skewed : bool
        Whether the latent is on the scale of the logarithm.
    """

    name: str
    centre: float
    spread: float
    direction: int
    is_skewed: bool


@cache
def list_features() -> tuple[_Feature, ...]:
    """Return the features, sorted by name."""
    features = [
        _Feature(
            name=name,
            centre=float(centre),
            spread=float(spread),
            direction=direction,
            is_skewed=kind == "skewed",
        )
        for kind, entries in _DATA["features"].items()
        for name, (centre, spread, direction) in entries.items()
    ]
    return tuple(sorted(features, key=lambda feature: feature.name))


@dataclass(frozen=True)
class OrganReference(_LinearReference):
    """Distribution of the latents of healthy people, in the form of
    `HealthyReference`.
    """

    def draw(
        self, number: int, rng: np.random.Generator
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return exponentials of latents (N, R), which disease takes a share of, and
        ``age`` and ``sex``.
        """
        age = rng.uniform(*_AGES, size=number).round(2)
        sex = np.where(rng.uniform(size=number) < 0.5, "M", "F").astype(object)
        covariates = pd.DataFrame({"age": age, "sex": sex})
        return self.draw_volumes(self.predict_logs(covariates), rng), covariates

    def predict_logs(self, covariates: pd.DataFrame) -> FloatArray:
        """Return the mean latents (N, R) of people with these covariates (N, C)."""
        male = (covariates["sex"] == "M").to_numpy(dtype=float)
        design = np.column_stack(
            [np.ones(len(male)), covariates["age"].to_numpy() - AGE_CENTRE, male - 0.5]
        )
        return np.asarray(design @ self.coefficients)


@cache
def load_organ_reference() -> OrganReference:
    """Return the generator of healthy people of the task ``organs``; its parameters are
    drawn with a fixed seed.
    """
    names = tuple(feature.name for feature in list_features())
    rng = np.random.default_rng(_PARAMETER_SEED)
    loadings = rng.normal(size=(len(names), _N_FACTORS))
    loadings *= np.sqrt((1 - _UNIQUE_SHARE) / (loadings**2).sum(axis=1, keepdims=True))
    covariance = LATENT_SD**2 * (
        loadings @ loadings.T + _UNIQUE_SHARE * np.eye(len(names))
    )
    slopes = rng.normal(
        0, [[0.03 * LATENT_SD], [0.5 * LATENT_SD]], size=(2, len(names))
    )
    return OrganReference(
        names,
        np.vstack([np.zeros(len(names)), slopes]),
        np.asarray(np.linalg.cholesky(covariance)),
    )


def express_features(latents: FloatArray) -> FloatArray:
    """Return features from exponentials of latents: (N, R) -> (N, R)."""
    scores = np.log(latents) / LATENT_SD
    columns = []
    for feature, score in zip(list_features(), scores.T, strict=True):
        shift = -feature.direction * feature.spread * score
        columns.append(
            feature.centre * np.exp(shift)
            if feature.is_skewed
            else feature.centre + shift
        )
    return np.column_stack(columns)


def describe_effects(effects: FloatArray) -> FloatArray:
    """Return the change of each feature at severity 1, in standard deviations, from
    shares of latents (R, M).
    """
    directions = np.array(
        [feature.direction for feature in list_features()], dtype=float
    )
    return np.asarray(-directions[:, None] * np.log1p(-effects) / LATENT_SD)
