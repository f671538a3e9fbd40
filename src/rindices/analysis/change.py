"""Change of R-indices per year from repeat visits, one slope per person, with its interval.

A person's change is the slope of a straight line through the visits. The interval of an R-index (`model.intervals`)
does not apply to it: most of that error comes from the person's anatomy and is the same at every visit. The error of a
slope comes from the variation between visits, which is estimated from the visits themselves.
Shape letters: N people, V visits, M patterns.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.analysis.tidy import exclude_missing_codes, sum_by_group
from rindices.errors import Findings, InputError, ProblemCode, did_you_mean, format_count, join_names
from rindices.tables.cohort import ID, SESSION

NOMINAL_COVERAGE = 0.9
_MIN_DEGREES_OF_FREEDOM = 10  # fewer degrees of freedom do not suffice to estimate noise from residuals
_MIN_YEARS = 1e-6


@dataclass(frozen=True)
class YearlyChange:
    """Change of R-indices per year."""

    table: pd.DataFrame  # (N, ...): participant_id, visits, years, and r1_per_year, r1_per_year_low, r1_per_year_high
    names: list[str]  # of the M R-indices
    noise: FloatArray  # (M,), standard deviation of an R-index between visits, about the person's line
    freedom: int  # degrees of freedom of the noise
    noise_from_residuals: bool  # otherwise from the slopes of people, which is too large if people truly differ
    problems: Findings

    def summary(self) -> dict[str, Any]:
        """Return the change over all people, as plain values for JSON."""
        indices = {
            name: {
                "mean_per_year": float(self.table[f"{name}_per_year"].mean()),
                "above_zero": int((self.table[f"{name}_per_year_low"] > 0).sum()),
                "below_zero": int((self.table[f"{name}_per_year_high"] < 0).sum()),
                "noise_of_a_visit": float(noise),
            }
            for name, noise in zip(self.names, self.noise, strict=True)
        }
        sizes = {"people": len(self.table), "visits": int(self.table["visits"].sum()), "interval": NOMINAL_COVERAGE}
        source = "scatter about lines" if self.noise_from_residuals else "spread of slopes between people"
        return sizes | {"indices": indices, "noise_from": source}


def change_per_year(visits: pd.DataFrame, time: str, missing_codes: Sequence[str] = ()) -> YearlyChange:
    """Return the change of each R-index per year.

    Parameters
    ----------
    visits : DataFrame
        One row per visit: ``participant_id``, r1, r2, ... and the time.
    time : str
        Column of the time: years as a number (age, years since the first visit) or a date.
    missing_codes : sequence of str
        Values of the time that stand for missing, such as -9999; ``none`` if there are none.

    Returns
    -------
    YearlyChange

    Raises
    ------
    AnalysisError
        If the time seems to hold codes for missing that were not named.
    InputError
        If columns are missing, visits are duplicated, or nobody has two visits at different times.
    """
    findings = Findings()
    names = [name for name in visits.columns if re.fullmatch(r"r\d+", name)]
    if not names:
        raise InputError("the table has no R-indices: give what apply or fit wrote, with columns r1, r2, ...")
    if time in visits:
        visits = exclude_missing_codes(visits, [time], missing_codes)
    years = convert_to_years(visits, time)
    rows = select_usable_visits(visits, years, names, findings)
    ids, person = np.unique(visits[ID].astype(str).to_numpy()[rows], return_inverse=True)
    trends = LinearTrends.fit(years[rows], visits[names].to_numpy(dtype=float)[rows], person, len(ids))
    repeated = trends.is_repeated
    if not repeated.any():
        raise InputError("nobody has two visits at different times: give repeat visits, one row per session_id.")
    n_single = int((~repeated).sum())
    if n_single:
        what = f"{format_count(n_single, 'person has', 'people have')} a single visit (or time): left out"
        findings.note(ProblemCode.SINGLE_VISITS, what)
    noise, freedom, from_residuals = _estimate_visit_noise(trends, repeated)
    if not from_residuals:
        what = "hardly anyone has three visits: intervals come from how much slopes differ between people"
        cure = "They are too wide if people truly differ; a third visit would separate noise from change"
        findings.warn(ProblemCode.FEW_VISITS, what, cure)
    table = _build_change_table(ids, trends, repeated, names, noise, freedom)
    return YearlyChange(table, names, noise, freedom, from_residuals, findings)


@dataclass(frozen=True)
class LinearTrends:
    """Least-squares lines of people.

    visits, years (N,): number of visits, and time from the first to the last; spread (N,): sum of squares of time about
    its mean; slope, residual (N, M): slope, and sum of squares about the line.
    """

    visits: FloatArray
    years: FloatArray
    spread: FloatArray
    slope: FloatArray
    residual: FloatArray

    @classmethod
    def fit(cls, time: FloatArray, values: FloatArray, person: IntArray, n_people: int) -> "LinearTrends":
        """Fit one line per person to values (V, M) at times (V,)."""
        sum_by_person = partial(sum_by_group, group=person, n_groups=n_people)
        visits = sum_by_person(np.ones(len(time)))
        t = time - (sum_by_person(time) / visits)[person]
        y = values - (sum_by_person(values) / visits[:, None])[person]
        spread = sum_by_person(t**2)
        slope = sum_by_person(t[:, None] * y) / np.maximum(spread, _MIN_YEARS**2)[:, None]
        residual = sum_by_person((y - slope[person] * t[:, None]) ** 2)
        first, last = np.full(n_people, np.inf), np.full(n_people, -np.inf)
        np.minimum.at(first, person, time)
        np.maximum.at(last, person, time)
        return cls(visits, last - first, spread, slope, residual)

    @property
    def is_repeated(self) -> BoolArray:
        """People with two visits at different times, (N,)."""
        return np.asarray((self.visits > 1) & (self.spread > _MIN_YEARS))


def _estimate_visit_noise(trends: LinearTrends, repeated: BoolArray) -> tuple[FloatArray, int, bool]:
    """Return the noise of a visit (M,), its degrees of freedom, and whether it comes from residuals."""
    freedom = int((trends.visits[repeated] - 2).sum())
    if freedom >= _MIN_DEGREES_OF_FREEDOM:
        return np.sqrt(trends.residual[repeated].sum(axis=0) / freedom), freedom, True
    weight, slope = trends.spread[repeated], trends.slope[repeated]  # variance s2 of noise: s2 / spread of a slope
    n_people = int(repeated.sum())
    if n_people < 2:
        raise InputError("one person with two visits does not show the noise: give more people, or a third visit.")
    mean = weight @ slope / weight.sum()
    return np.sqrt(weight @ (slope - mean) ** 2 / (n_people - 1)), n_people - 1, False


def _build_change_table(
    ids: NDArray[np.str_], trends: LinearTrends, repeated: BoolArray, names: list[str], noise: FloatArray, freedom: int
) -> pd.DataFrame:
    """Return slopes and intervals, one row per person with repeated visits."""
    from scipy.stats import t as student

    half = student.ppf((1 + NOMINAL_COVERAGE) / 2, freedom) * noise / np.sqrt(trends.spread[repeated])[:, None]
    columns = {ID: ids[repeated], "visits": trends.visits[repeated].astype(int), "years": trends.years[repeated]}
    for name, slope, width in zip(names, trends.slope[repeated].T, half.T, strict=True):
        columns |= {f"{name}_per_year": slope}
        columns |= {f"{name}_per_year_low": slope - width, f"{name}_per_year_high": slope + width}
    return pd.DataFrame(columns)


def convert_to_years(visits: pd.DataFrame, time: str) -> FloatArray:
    """Return the time of each visit in years, (V,)."""
    if time not in visits:
        raise InputError(f"there is no column '{time}' for the time: {did_you_mean(time, list(visits.columns))}")
    values = visits[time]
    if pd.api.types.is_numeric_dtype(values):
        return np.asarray(values, dtype=float)
    dates = pd.to_datetime(values, errors="coerce", format="ISO8601")
    wrong = values[dates.isna() & values.notna()]
    if len(wrong):
        raise InputError(f"{time} holds neither years nor dates (2021-03-31): {join_names(wrong, 3)}.")
    days = (dates - dates.min()) / pd.Timedelta(days=1)
    return np.asarray(days.to_numpy(dtype=float) / 365.25)


def select_usable_visits(visits: pd.DataFrame, years: FloatArray, names: list[str], findings: Findings) -> BoolArray:
    """Return the visits with a time and all R-indices; refuse duplicates."""
    rows = np.isfinite(years) & np.isfinite(visits[names].to_numpy(dtype=float)).all(axis=1)
    if not rows.all():
        lacking = visits[ID][~rows]
        count = format_count(len(lacking), "visit lacks", "visits lack")
        what = f"{count} a time or an R-index"
        findings.warn(ProblemCode.INCOMPLETE_VISITS, what, offenders=lacking, ending="; left out")
    duplicated = visits[rows].duplicated([ID, SESSION] if SESSION in visits else [ID, *names])
    if duplicated.any():
        people = join_names(visits[rows][ID][duplicated])
        raise InputError(f"visits appear more than once: {people}. Keep one row per visit.")
    return np.asarray(rows)
