"""Suites ``real-factors`` and ``real-base``: whether a method separates what really
differs between people.

Real-factors: two real factors, such as age and head size, differ between "patients" and
"controls", and nobody tells the method. In people whom a fit has not seen, its indices
are compared with the factors, each factor after what it shares with the others is
removed. Real-base: three patterns are imposed on real healthy people.

Shape letters: N people, M patterns, K factors.
"""

import time
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

from benchmarks.suites.factor_methods import METHODS, Method, Reading
from benchmarks.suites.factor_tables import (
    BaseDescription,
    FactorTable,
    TableDescription,
    draw_base,
    draw_table,
    find_bases,
    find_tables,
)
from rindices._typing import FloatArray
from rindices._version import __version__
from rindices.errors import RindicesError, SimulationError, did_you_mean
from rindices.selection.agreement import pattern_c_index

_ROUNDING = 1e-8
SUITES = ("real-factors", "real-base")


@dataclass(frozen=True, kw_only=True)
class Separation:
    """How well indices separate factors.

    Attributes
    ----------
    own : ndarray of shape (K,)
        Association of each factor with its matched index; 0 if there are fewer indices
        than factors.
    cross : ndarray of shape (K,)
        Largest association of each factor with any other index; 0 if there is none.
    """

    own: FloatArray
    cross: FloatArray

    @property
    def gap(self) -> float:
        """Mean of own less cross: 1 for the factors themselves, about 0 for noise or
        for one index.
        """
        return float(np.mean(self.own - self.cross))


def measure_separation(truth: FloatArray, indices: FloatArray) -> Separation:
    """Return how well indices (N, M) separate factors (N, K).

    The association is the absolute rank correlation of a factor with an index, where
    both are residuals of a regression of their ranks on the ranks of the other factors.
    Factors are matched to indices one to one, so that the sum of associations is
    largest.
    """
    n_factors, n_indices = truth.shape[1], indices.shape[1]
    strength = np.abs(_correlate_partially(truth, indices))
    own, cross = np.zeros(n_factors), np.zeros(n_factors)
    matched = (
        dict(zip(*linear_sum_assignment(-strength), strict=True)) if n_indices else {}
    )
    for k in range(n_factors):
        others = [j for j in range(n_indices) if j != matched.get(k)]
        own[k] = strength[k, matched[k]] if k in matched else 0.0
        cross[k] = strength[k, others].max() if others else 0.0
    return Separation(own=own, cross=cross)


def _correlate_partially(truth: FloatArray, indices: FloatArray) -> FloatArray:
    """Return rank correlations (K, M), partialled for the other factors."""
    factors = np.apply_along_axis(rankdata, 0, truth)
    ranks = np.apply_along_axis(rankdata, 0, indices) if indices.shape[1] else indices
    correlations = np.zeros((factors.shape[1], indices.shape[1]))
    for k in range(factors.shape[1]):
        others = np.column_stack([np.ones(len(factors)), np.delete(factors, k, axis=1)])
        both = np.column_stack([factors[:, k], ranks])
        rest = both - others @ np.linalg.lstsq(others, both, rcond=None)[0]
        rest[
            :, np.linalg.norm(rest, axis=0) < _ROUNDING * np.linalg.norm(both, axis=0)
        ] = 0.0
        lengths = np.linalg.norm(rest, axis=0)
        correlations[k] = (
            rest[:, 0] @ rest[:, 1:] / np.maximum(lengths[0] * lengths[1:], _ROUNDING)
        )
    return correlations


@dataclass(frozen=True)
class Trial:
    """One method on one split of one table.

    Attributes
    ----------
    suite : {'real-factors', 'real-base'}
    table : TableDescription or BaseDescription
    method : str
    label : str
        Version of the method, for methods of this package; empty for others.
    split : int
    """

    suite: str
    table: TableDescription | BaseDescription
    method: str
    label: str
    split: int

    @property
    def key(self) -> str:
        """Name of the row."""
        return " ".join(
            [
                self.suite,
                self.table.name,
                self.method,
                *([self.label] if self.label else []),
                f"{self.split}",
            ]
        )

    def measure(self, data: Path) -> dict[str, Any]:
        """Return the row."""
        row: dict[str, Any] = {
            "suite": self.suite,
            "table": self.table.name,
            "method": self.method,
        }
        row |= {"label": self.label, "split": self.split}
        table = _draw(self.table, self.split, data)
        row |= {
            "controls": table.cohort.n_controls,
            "patients": table.cohort.n_patients,
        }
        start = time.process_time()
        try:
            reading = METHODS[self.method].infer(table, self.split)
        except RindicesError as error:
            return row | {"failed": str(error)}
        seconds = round(time.process_time() - start, 2)
        row |= {
            "patterns": reading.indices.shape[1],
            "finding": reading.finding,
            "seconds": seconds,
        }
        return row | self._score(table, reading)

    def _score(self, table: FactorTable, reading: Reading) -> dict[str, Any]:
        """Return what is measured in the patients for whom there is an index."""
        indices, truth = reading.indices[table.cohort.is_patient], table.patient_truth
        known = np.isfinite(indices).all(axis=1)
        indices, truth = indices[known], truth[known]
        if self.suite == "real-base":
            absent = np.zeros(
                (len(truth), max(0, truth.shape[1] - indices.shape[1]))
            )  # a pattern not found ranks nobody
            return {
                "c_index": round(
                    float(pattern_c_index(truth, np.hstack([indices, absent])).mean), 4
                )
            }
        separation = measure_separation(truth, indices)
        names = list(table.truth)
        values = {
            name: dict(zip(names, map(float, np.round(each, 4)), strict=True))
            for name, each in asdict(separation).items()
        }
        return {"gap": round(separation.gap, 4), **values}


@lru_cache(maxsize=1)
def _draw(
    table: TableDescription | BaseDescription, split: int, data: Path
) -> FactorTable:
    """Return the people; methods of one split of a table come one after another, and
    share them.
    """
    return (
        draw_base(table, split, data)
        if isinstance(table, BaseDescription)
        else draw_table(table, split, data)
    )


def list_trials(
    suite: str, tables: str, methods: str, splits: range, label: str = __version__
) -> list[Trial]:
    """Return trials, split by split; tables and methods are names,
    separated by commas.
    """
    if suite not in SUITES:
        raise SimulationError(
            f"there is no suite '{suite}': {did_you_mean(suite, SUITES)}"
        )
    if unknown := [name for name in methods.split(",") if name not in METHODS]:
        raise SimulationError(
            f"there is no method '{unknown[0]}': {did_you_mean(unknown[0], list(METHODS))}"
        )
    found = find_tables(tables) if suite == "real-factors" else find_bases(tables)
    return [
        Trial(suite, table, method, get_label(METHODS[method], label), split)
        for split in splits
        for table in found
        for method in methods.split(",")
    ]


def get_label(method: Method, label: str) -> str:
    """Return the version under which a method is measured: none if it is not of this
    package.
    """
    return label if method.is_ours else ""
