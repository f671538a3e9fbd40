"""Repeat visits: the change of R-indices per year, person by person, with its interval.

A person's change is the slope of the straight line through the visits. The interval of an R-index (`model.intervals`)
says nothing about it: most of that error is the person's own anatomy, which is the same at every visit. What blurs a
slope is how much an R-index moves from visit to visit for no reason, and that is learnt from the visits themselves.
Shape letters: N people, V visits, M patterns.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import Findings, InputError, did_you_mean, format_count, join_names
from rindices.tables.cohort import ID, SESSION

NOMINAL_COVERAGE = 0.9
_MIN_DEGREES_OF_FREEDOM = 10  # degrees of freedom from which on the scatter about people's lines is used
_MIN_YEARS = 1e-6


@dataclass(frozen=True)
class YearlyChange:
    """Change of R-indices per year.

    Attributes
    ----------
    table : DataFrame
        (N, ...): ``participant_id``, ``visits``, ``years`` between the first and the last, and for each R-index
        ``r1_per_year``, ``r1_per_year_low``, ``r1_per_year_high``.
    names : list of str
        (M,) of the R-indices.
    noise : (M,)
        Standard deviation of an R-index from visit to visit about the person's line.
    freedom : int
        Degrees of freedom that it was learnt with.
    from_lines : bool
        Whether it was learnt from the scatter about lines (three visits and more), or, where hardly anyone has three,
        from the spread of slopes between people, which is too wide where people truly differ.
    problems : Findings
    """

    table: pd.DataFrame
    names: list[str]
    noise: FloatArray
    freedom: int
    noise_from_residuals: bool
    problems: Findings

    def summary(self) -> dict[str, Any]:
        """Return the change of everyone together, as plain values for JSON."""
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


def change_per_year(visits: pd.DataFrame, time: str) -> YearlyChange:
    """Return the change of each R-index per year.

    Parameters
    ----------
    visits : DataFrame
        A row a visit: ``participant_id``, r1, r2, ... and the time.
    time : str
        The column that tells when: years as a number (age, years since the first visit) or a date.
    """
    findings = Findings()
    names = [name for name in visits.columns if re.fullmatch(r"r\d+", name)]
    if not names:
        raise InputError("the table has no R-indices: give what apply or fit wrote, with columns r1, r2, ...")
    years = convert_to_years(visits, time)
    rows = _select_usable_visits(visits, years, names, findings)
    who, start = np.unique(visits[ID].astype(str).to_numpy()[rows], return_inverse=True)
    lines = _LinearTrends.of(years[rows], visits[names].to_numpy(dtype=float)[rows], start, len(who))
    some = (lines.visits > 1) & (lines.spread > _MIN_YEARS)
    if not some.any():
        raise InputError(
            "nobody has two visits at different times: change needs repeat visits, told apart by session_id."
        )
    left = int((~some).sum())
    if left:
        findings.note(f"{format_count(left, 'person has', 'people have')} a single visit (or time): left out")
    noise, freedom, from_lines = _estimate_visit_noise(lines, some)
    if not from_lines:
        findings.warn(
            "hardly anyone has three visits: intervals come from how much slopes differ between people",
            "",
            "They are too wide where people truly differ; a third visit would tell noise from change",
        )
    return YearlyChange(
        _build_change_table(who, lines, some, names, noise, freedom), names, noise, freedom, from_lines, findings
    )


@dataclass(frozen=True)
class _LinearTrends:
    """Least-squares lines: visits, years, spread (sum of squares of time) are (N,), slope and rest (N, M)."""

    visits: FloatArray
    years: FloatArray
    spread: FloatArray
    slope: FloatArray
    rest: FloatArray

    @classmethod
    def of(cls, time: FloatArray, values: FloatArray, person: IntArray, people: int) -> "_LinearTrends":
        """Fit a line a person to values (V, M) at times (V,)."""

        def total(x: FloatArray) -> FloatArray:
            found = np.zeros((people, *x.shape[1:]))
            np.add.at(found, person, x)
            return found

        visits = total(np.ones(len(time)))
        t = time - (total(time) / visits)[person]
        y = values - (total(values) / visits[:, None])[person]
        spread = total(t**2)
        slope = total(t[:, None] * y) / np.maximum(spread, _MIN_YEARS**2)[:, None]
        rest = total((y - slope[person] * t[:, None]) ** 2)
        first, last = np.full(people, np.inf), np.full(people, -np.inf)
        np.minimum.at(first, person, time)
        np.maximum.at(last, person, time)
        return cls(visits, last - first, spread, slope, rest)


def _estimate_visit_noise(lines: _LinearTrends, some: BoolArray) -> tuple[FloatArray, int, bool]:
    """Return the noise of a visit (M,), its degrees of freedom, and whether lines told it."""
    freedom = int((lines.visits[some] - 2).sum())
    if freedom >= _MIN_DEGREES_OF_FREEDOM:
        return np.sqrt(lines.rest[some].sum(axis=0) / freedom), freedom, True
    weight, slope = lines.spread[some], lines.slope[some]  # noise of variance s2 gives slopes of variance s2 / spread
    people = int(some.sum())
    if people < 2:
        raise InputError("one person with two visits says nothing about noise: give more people, or a third visit.")
    mean = weight @ slope / weight.sum()
    return np.sqrt(weight @ (slope - mean) ** 2 / (people - 1)), people - 1, False


def _build_change_table(
    who: NDArray[np.str_], lines: _LinearTrends, some: BoolArray, names: list[str], noise: FloatArray, freedom: int
) -> pd.DataFrame:
    from scipy.stats import t as student

    half = student.ppf((1 + NOMINAL_COVERAGE) / 2, freedom) * noise / np.sqrt(lines.spread[some])[:, None]
    columns = {ID: who[some], "visits": lines.visits[some].astype(int), "years": lines.years[some]}
    for place, name in enumerate(names):
        slope = lines.slope[some, place]
        columns |= {f"{name}_per_year": slope}
        columns |= {f"{name}_per_year_low": slope - half[:, place], f"{name}_per_year_high": slope + half[:, place]}
    return pd.DataFrame(columns)


def convert_to_years(visits: pd.DataFrame, time: str) -> FloatArray:
    """Return when each visit was, (V,), in years."""
    if time not in visits:
        raise InputError(f"there is no column '{time}' of the time: {did_you_mean(time, list(visits.columns))}")
    values = visits[time]
    if pd.api.types.is_numeric_dtype(values):
        return np.asarray(values, dtype=float)
    dates = pd.to_datetime(values, errors="coerce", format="ISO8601")
    wrong = values[dates.isna() & values.notna()]
    if len(wrong):
        raise InputError(f"{time} is neither years nor dates (2021-03-31): {join_names(wrong, 3)}.")
    days = (dates - dates.min()) / pd.Timedelta(days=1)
    return np.asarray(days.to_numpy(dtype=float) / 365.25)


def _select_usable_visits(visits: pd.DataFrame, years: FloatArray, names: list[str], findings: Findings) -> BoolArray:
    rows = np.isfinite(years) & np.isfinite(visits[names].to_numpy(dtype=float)).all(axis=1)
    if not rows.all():
        lacking = visits[ID][~rows]
        findings.warn(
            f"{format_count(len(lacking), 'visit lacks', 'visits lack')} a time or an R-index: {join_names(lacking)}; left out"
        )
    twice = visits[rows].duplicated([ID, SESSION] if SESSION in visits else [ID, *names])
    if twice.any():
        raise InputError(f"visits stand more than once: {join_names(visits[rows][ID][twice])}. Keep one row a visit.")
    return np.asarray(rows)
