"""Centiles of R-indices among healthy people of the same age and sex.

The R-indices of healthy people have a mean that is a parabola of age plus an effect of
sex, and a spread whose logarithm is linear in both; what is left has the distribution
of the reference people, of any form. A person's centile is the share of that
distribution below them. Its error counts that the mean, the spread and the distribution
are estimates from a sample.

Shape letters: N people, M patterns, P terms of the mean, S terms of the spread, G
groups of reference people.
"""

import re
from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, FloatArray
from rindices.errors import (
    ModelError,
    Problem,
    ProblemCode,
    Severity,
    format_count,
    join_names,
)
from rindices.model.records import HealthyRecord
from rindices.model.unusual import count_groups, get_shares
from rindices.preprocess.residualise import round_outwards

AGE, SEX = "age", "sex"
INDEX_NAME = re.compile(r"r\d+")
CENTILE_COLUMNS = ("centile", "centile_low", "centile_high")
"""Ends of the names of the columns of each R-index."""
N_MEAN_TERMS, N_SPREAD_TERMS = 4, 3
MIN_REFERENCE_PEOPLE = 50
_AGE_UNIT = 10.0
"""Years in which ages enter the terms, so that they are of similar size."""
_AGE_TOLERANCE = 0.05
"""Of the range of ages, by which people of the same population may exceed it."""
_Z_90 = 1.6448536269514722  # half a 90 % interval in standard errors
_MIN_GROUP_SHARE = 0.01
"""Share of people of the less frequent sex, from which on its effect is estimated."""


@dataclass(frozen=True, eq=False, kw_only=True)
class CentileReference:
    """Distribution of the R-indices of healthy people, by age and sex.

    Attributes
    ----------
    people : ndarray of shape ()
        Number of reference people.
    ages : ndarray of shape (2,)
        Lowest and highest age, in whole years.
    centre : ndarray of shape ()
        Age from which the terms count.
    mean : ndarray of shape (M, P)
        Coefficients of the mean: constant, decades, their square, men.
    mean_error : ndarray of shape (M, P, P)
        Covariance of their errors.
    spread : ndarray of shape (M, S)
        Coefficients of the logarithm of the spread: constant, decades, men.
    spread_error : ndarray of shape (M, S, S)
        Covariance of their errors.
    knots : ndarray of shape (M, G + 2)
        Standardised R-indices: a bound below all people, the mean of each group of at
        least five similar people, and a bound above all.
    """

    people: FloatArray
    ages: FloatArray
    centre: FloatArray
    mean: FloatArray
    mean_error: FloatArray
    spread: FloatArray
    spread_error: FloatArray
    knots: FloatArray

    @staticmethod
    def shapes(n_patterns: int, n_knots: int) -> dict[str, tuple[int, ...]]:
        """Return the shape that each array must have."""
        p, s = N_MEAN_TERMS, N_SPREAD_TERMS
        return {
            "people": (),
            "ages": (2,),
            "centre": (),
            "mean": (n_patterns, p),
            "mean_error": (n_patterns, p, p),
            "spread": (n_patterns, s),
            "spread_error": (n_patterns, s, s),
            "knots": (n_patterns, n_knots),
        }

    @classmethod
    def fit(cls, indices: FloatArray, age: FloatArray, is_male: BoolArray) -> Self:
        """Estimate the distribution.

        Parameters
        ----------
        indices : ndarray of shape (N, M)
            R-indices of healthy people.
        age : ndarray of shape (N,)
            Their ages, in years.
        is_male : ndarray of shape (N,)
            Whether each is a man.

        Raises
        ------
        ModelError
            If they are too few, all of one age, or all of one sex.
        """
        n_people, share = len(age), float(np.mean(is_male))
        if n_people < MIN_REFERENCE_PEOPLE:
            people = format_count(n_people, "healthy person", "healthy people")
            raise ModelError(
                f"{people} are too few for centiles: give at least {MIN_REFERENCE_PEOPLE}."
            )
        if np.ptp(age) < 1 or not _MIN_GROUP_SHARE <= share <= 1 - _MIN_GROUP_SHARE:
            raise ModelError(
                "centiles need healthy people of several ages and both sexes: give such a table."
            )
        centre = np.array(np.round(age.mean()))
        terms = _make_terms(age, is_male, centre)
        parts = [_fit_index(each, *terms) for each in indices.T]
        mean, mean_error, spread, spread_error, knots = (
            np.stack(each) for each in zip(*parts, strict=True)
        )
        ages = np.round([age.min(), age.max()])
        count = np.array(float(n_people))
        return cls(
            people=count,
            ages=ages,
            centre=centre,
            mean=mean,
            mean_error=mean_error,
            spread=spread,
            spread_error=spread_error,
            knots=knots,
        )

    def compute(
        self, indices: FloatArray, age: FloatArray, is_male: BoolArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the centiles of people, and the ends of their 90 % intervals.

        Parameters
        ----------
        indices : ndarray of shape (N, M)
            R-indices.
        age : ndarray of shape (N,)
            Ages, in years.
        is_male : ndarray of shape (N,)
            Whether each is a man.

        Returns
        -------
        tuple of ndarray
            Centile, low and high (N, M), from 0 to 100; NaN where an age is outside the
            reference.
        """
        from scipy.special import ndtr, ndtri  # applying without centiles needs none

        mean_terms, spread_terms = _make_terms(age, is_male, self.centre)
        sd = np.exp(spread_terms @ self.spread.T)
        z = (indices - mean_terms @ self.mean.T) / sd
        shares = get_shares(self.knots.shape[1] - 2)
        columns = zip(z.T, self.knots, strict=True)
        share = np.stack([np.interp(own, knots, shares) for own, knots in columns]).T
        n_people = float(self.people)
        least = 0.5 / (n_people + 1.0)
        share = np.clip(share, least, 1.0 - least)
        normal = ndtri(share)
        density = np.exp(-np.square(normal) / 2.0) / np.sqrt(2.0 * np.pi)
        variance = _project(mean_terms, self.mean_error) / np.square(sd)
        variance += np.square(z) * _project(spread_terms, self.spread_error)
        variance += share * (1.0 - share) / (n_people * np.square(density))
        half = _Z_90 * np.sqrt(np.maximum(variance, 0.0))
        ends = (share, ndtr(normal - half), ndtr(normal + half))
        is_outside = ~self.has_age(age)[:, None]
        centile, low, high = (
            np.where(is_outside, np.nan, 100.0 * each) for each in ends
        )
        return centile, low, high

    def has_age(self, age: FloatArray) -> BoolArray:
        """Return whether the reference has people of such ages (N,), or nearly so."""
        low, high = self.ages
        tolerance = _AGE_TOLERANCE * (high - low)
        return np.asarray((age >= low - tolerance) & (age <= high + tolerance))

    def find_fault(self) -> str | None:
        """Return what contradicts itself in a file; None if nothing does."""
        if not self.ages[0] < self.ages[1]:
            return "ages should be a lowest and a highest age"
        if not self.people >= 1:
            return "people should be a number of people"
        return None


def add_centiles(
    table: pd.DataFrame,
    covariates: pd.DataFrame,
    reference: CentileReference | None,
    healthy: HealthyRecord | None,
) -> tuple[pd.DataFrame, list[Problem]]:
    """Return a table of R-indices with their centiles, and what to say about them.

    Parameters
    ----------
    table : DataFrame
        R-indices as `rindices.FittedModel.apply` returns them.
    covariates : DataFrame
        Covariates of the same people, ``age`` and ``sex`` among them.
    reference, healthy
        Of the model.

    Raises
    ------
    ModelError
        If the model has no healthy people, or a covariate is missing or unknown.
    """
    if reference is None or healthy is None:
        raise ModelError(explain_missing_healthy_people())
    missing = [name for name in (AGE, SEX) if name not in covariates]
    if missing:
        raise ModelError(
            f"centiles need {join_names(missing)}: read the table with these covariates, too."
        )
    sexes = covariates[SEX].astype(str)
    unknown = sorted(set(sexes) - set(healthy.sexes))
    if unknown:
        raise ModelError(
            f"sex is {join_names(unknown)} in this table: write {' and '.join(healthy.sexes)} as the healthy people of the model have it."
        )
    age = covariates[AGE].to_numpy(dtype=float)
    names = [name for name in table if INDEX_NAME.fullmatch(name)]
    is_male = (sexes == healthy.sexes[1]).to_numpy()
    ends = reference.compute(table[names].to_numpy(dtype=float), age, is_male)
    columns = {
        f"{name}_{end}": values[:, k]
        for k, name in enumerate(names)
        for end, values in zip(CENTILE_COLUMNS, ends, strict=True)
    }
    place = min(
        table.columns.get_loc(name)
        for name in ("outlier_score", "outside_training_range")
        if name in table
    )
    parts = (table.iloc[:, :place], table.iloc[:, place:])
    added = pd.DataFrame(columns, index=table.index)
    problems = _note_outside(int(np.sum(~reference.has_age(age))), healthy)
    return pd.concat([parts[0], added, parts[1]], axis=1), problems


def _note_outside(n_outside: int, healthy: HealthyRecord) -> list[Problem]:
    """Return a note about people who have no centile."""
    if not n_outside:
        return []
    people = format_count(n_outside, "person has", "people have")
    low, high = healthy.ages
    what = f"{people} no centile: the healthy people of the model are {low:g} to {high:g} years old"
    return [
        Problem(severity=Severity.NOTE, what=what, code=ProblemCode.MISSING_OUTPUTS)
    ]


def explain_missing_healthy_people() -> str:
    """Return why a model has no centiles, and what to do."""
    what = "this model knows no healthy people, so its R-indices have no centiles"
    return f"{what}: add them with rindices model calibrate MODEL TABLE --out NEW."


def describe_centiles(healthy: HealthyRecord) -> str:
    """Return what a centile means, in one sentence."""
    return (
        f"A centile of 83 says that 83 of 100 healthy people of the same age and sex have a lower R-index; they are {healthy.text}, "
        "and the ends of the 90 % interval count that they are a sample, not that other scanners measure otherwise."
    )


def _make_terms(
    age: FloatArray, is_male: BoolArray, centre: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the terms of the mean (N, P) and of the spread (N, S)."""
    decades = (np.asarray(age, dtype=float) - centre) / _AGE_UNIT
    men = np.asarray(is_male, dtype=float)
    ones = np.ones_like(decades)
    return (
        np.column_stack([ones, decades, np.square(decades), men]),
        np.column_stack([ones, decades, men]),
    )


def _fit_index(
    values: FloatArray, mean_terms: FloatArray, spread_terms: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return mean, its error, spread, its error and knots of one R-index (N,).

    The mean is estimated twice, the second time with the weights of the spread.
    Residuals are those of people who are left out of the mean, as those of new people
    are.
    """
    weights = np.ones(len(values))
    for _ in range(2):
        root = np.sqrt(weights)[:, None]
        inverse = _invert(mean_terms * root)
        mean = inverse @ (mean_terms.T @ (weights * values))
        leverage = weights * _project(mean_terms, inverse[None])[:, 0]
        residuals = (values - mean_terms @ mean) / (1.0 - leverage)
        logs = np.log(np.maximum(np.abs(residuals), 1e-12))
        spread_inverse = _invert(spread_terms)
        spread = spread_inverse @ (spread_terms.T @ logs)
        log_error = float(np.var(logs - spread_terms @ spread))
        sd = np.exp(spread_terms @ spread)
        scale = float(np.sqrt(np.mean(np.square(residuals / sd))))
        spread[0] += np.log(scale)
        sd = sd * scale
        weights = 1.0 / np.square(sd)
    standardised = np.sort(residuals / sd)
    n_groups = count_groups(len(values))
    starts = np.arange(n_groups) * len(values) // n_groups
    sizes = np.diff(starts, append=len(values))
    means = np.add.reduceat(standardised, starts) / sizes
    low, high = round_outwards(float(standardised[0]), float(standardised[-1]))
    knots = np.array([low, *means, high])
    return mean, inverse, spread, spread_inverse * log_error, knots


def _invert(terms: FloatArray) -> FloatArray:
    """Return the inverse (P, P) of the products of terms (N, P)."""
    return np.asarray(np.linalg.inv(terms.T @ terms), dtype=float)


def _project(terms: FloatArray, error: FloatArray) -> FloatArray:
    """Return the variance (N, M) of linear predictors with terms (N, P) and errors
    (M, P, P).
    """
    return np.asarray(np.einsum("np,mpq,nq->nm", terms, error, terms))
