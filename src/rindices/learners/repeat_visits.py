"""Repeat visits of people, reduced to a level and a trend.

Shape letters: V visits of all people, N people, R regions.
"""

from typing import NamedTuple

import numpy as np

from rindices._typing import BoolArray, FloatArray, IntArray


class ReducedVisits(NamedTuple):
    """Visits of N people.

    level (N, R): mean of the visits. A region that was measured at no visit is NaN; trend (N, R): sum of the visits
    with weights of sum 0 and norm 1 that grow with time, less what is expected of controls after that time. It is NaN
    for people with one visit, and for a region that was missing at a visit; n_visits (N,).
    """

    level: FloatArray
    trend: FloatArray
    n_visits: IntArray


def reduce_visits(values: FloatArray, person: IntArray, times: FloatArray, is_control: BoolArray) -> ReducedVisits:
    """Reduce visits to a level and a trend of each person.

    values (V, R): prepared visits; missing cells are NaN; person (V,): position of the person, from 0 to N - 1; times
    (V,): time of the visit in any unit, or its number; is_control (N,).
    """
    n_visits = np.bincount(person, minlength=len(is_control))
    is_measured = ~np.isnan(values)
    counts = _sum_by_person(is_measured.astype(float), person, len(is_control))
    with np.errstate(invalid="ignore"):
        level = _sum_by_person(np.where(is_measured, values, 0.0), person, len(is_control)) / counts
    centred = times - (np.bincount(person, times, len(is_control)) / n_visits)[person]
    spread = np.sqrt(np.bincount(person, centred**2, len(is_control)))
    weights = np.divide(centred, spread[person], out=np.zeros_like(centred), where=spread[person] > 0)
    trend = _sum_by_person(values * weights[:, None], person, len(is_control))
    trend[spread == 0] = np.nan
    return ReducedVisits(level, trend - np.outer(spread, _estimate_control_rate(trend, spread, is_control)), n_visits)


def _sum_by_person(values: FloatArray, person: IntArray, n_people: int) -> FloatArray:
    """Return the sums (N, R) of rows (V, R)."""
    sums = np.zeros((n_people, values.shape[1]))
    np.add.at(sums, person, values)
    return sums


def _estimate_control_rate(trend: FloatArray, spread: FloatArray, is_control: BoolArray) -> FloatArray:
    """Return the mean change (R,) of controls per unit of time, by least squares; 0 where none was followed."""
    is_measured = is_control[:, None] & ~np.isnan(trend)
    weights = np.where(is_measured, spread[:, None], 0.0)
    squares = (weights**2).sum(axis=0)
    products = (weights * np.where(is_measured, trend, 0.0)).sum(axis=0)
    return np.asarray(np.divide(products, squares, out=np.zeros_like(products), where=squares > 0))
