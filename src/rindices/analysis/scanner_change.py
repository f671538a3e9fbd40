"""Effects of scanners on R-indices, from people who changed scanner between visits.

An R-index is the person's own level, a line in time and the effect of the scanner. The
lines have a mean of each group and vary between people. Scanners are a random effect,
so that those that few people came from or went to are shrunken. The variances are
estimated by restricted maximum likelihood. Levels of people are removed first, so only
people who changed scanner say what scanners do, and only people who did not, or changed
at other times, say what time does.

Shape letters: N people, V visits, K scanners, M R-indices, P columns of time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import linalg
from scipy.optimize import minimize

from rindices._typing import AnyArray, FloatArray, IntArray
from rindices.analysis.slopes import Visits
from rindices.analysis.tidy import sum_by_group
from rindices.errors import AnalysisError

MIN_SCANNER_SHARE = 0.1
"""Share of a change of scanners that must not follow from the time."""
_BOUNDS = (-14.0, 9.0)  # of the logarithms of variances, relative to the noise
_STARTS = ((-3.0, 0.0), (0.0, 2.0))


@dataclass(frozen=True, kw_only=True)
class ScannerEffects:
    """Effects of scanners on R-indices.

    Attributes
    ----------
    names : tuple of str
        Names of the K scanners.
    effects : ndarray of shape (K, M)
        Effect of each scanner. The mean over visits is 0.
    covariances : ndarray of shape (M, K, K)
        Covariance of their errors.
    weights : ndarray of shape (N, K)
        Change of each person's least-squares slope per unit of each effect.
    changed : int
        Number of people who changed scanner.
    """

    names: tuple[str, ...]
    effects: FloatArray
    covariances: FloatArray
    weights: FloatArray
    changed: int

    def remove(self, values: FloatArray, scanner: IntArray) -> FloatArray:
        """Return values (V, M) of visits without the effects of their scanners (V,)."""
        return np.asarray(values - self.effects[scanner])

    def get_slope_variances(self, weights: FloatArray, index: int) -> FloatArray:
        """Return the variances (n,) that errors of the effects give to slopes with
        weights (n, K).
        """
        return np.asarray(
            np.einsum("nk,kl,nl->n", weights, self.covariances[index], weights)
        )

    def tabulate(self, indices: Sequence[str], scanner: IntArray) -> pd.DataFrame:
        """Return one row per R-index and scanner."""
        counts = np.bincount(scanner, minlength=len(self.names))
        rows = [
            (index, name, int(counts[k]), self.effects[k, m], np.sqrt(variances[k]))
            for m, index in enumerate(indices)
            for variances in [np.maximum(np.diag(self.covariances[m]), 0.0)]
            for k, name in enumerate(self.names)
        ]
        columns = ["index", "scanner", "visits", "effect", "error"]
        return pd.DataFrame(rows, columns=columns)


def estimate_scanner_effects(
    visits: Visits, scanner: AnyArray, labels: AnyArray
) -> ScannerEffects | None:
    """Estimate the effects of scanners; None where nobody changed scanner.

    Parameters
    ----------
    visits : Visits
    scanner : ndarray of shape (V,)
        Scanner of each visit.
    labels : ndarray of shape (N,)
        Group of each person, each with a mean slope of its own.

    Raises
    ------
    AnalysisError
        If the change of scanners follows from the time.
    """
    names, codes = np.unique(np.asarray(scanner, dtype=str), return_inverse=True)
    indicators = (codes[:, None] == np.arange(len(names))).astype(float)
    counts = sum_by_group(indicators, visits.person, visits.n_people)
    is_changed = (counts > 0).sum(axis=1) > 1
    if not is_changed.any():
        return None
    groups = np.unique(labels.astype(str))
    own = (labels.astype(str)[visits.person][:, None] == groups).astype(float)
    columns = np.column_stack(
        [own * visits.time[:, None], indicators, visits.values, visits.time]
    )
    means = sum_by_group(columns, visits.person, visits.n_people)
    centred = columns - (means / counts.sum(axis=1)[:, None])[visits.person]
    time, centred = centred[:, -1], centred[:, :-1]
    n_times, n_scanners = len(groups), len(names)
    used = np.ptp(centred[:, :n_times], axis=0) > 0
    order = [*np.flatnonzero(used), *range(n_times, centred.shape[1])]
    centred, n_times = centred[:, order], int(used.sum())
    _refuse_time_as_scanner(centred[:, : n_times + n_scanners], n_times, names.tolist())
    model = _ScannerModel(centred, time, visits, n_times, n_scanners)
    estimates = [model.estimate(m) for m in range(visits.values.shape[1])]
    share = counts.sum(axis=0) / counts.sum()
    shift = np.eye(n_scanners) - share  # the mean over visits is 0
    spread = np.maximum(sum_by_group(time**2, visits.person, visits.n_people), 1e-12)
    slopes = sum_by_group(time[:, None] * indicators, visits.person, visits.n_people)
    return ScannerEffects(
        names=tuple(names.tolist()),
        effects=np.stack([shift @ effects for effects, _ in estimates], axis=1),
        covariances=np.stack([shift @ cov @ shift.T for _, cov in estimates]),
        weights=slopes / spread[:, None],
        changed=int(is_changed.sum()),
    )


def _refuse_time_as_scanner(
    columns: FloatArray, n_times: int, names: Sequence[str]
) -> None:
    """Refuse scanners (V, K) whose changes follow from the times (V, P)."""
    times, scanners = columns[:, :n_times], columns[:, n_times:]
    left = scanners - times @ np.linalg.lstsq(times, scanners, rcond=None)[0]
    values, vectors = linalg.eigh(scanners.T @ scanners)
    basis = vectors[:, values > 1e-9 * values.max()]
    total, free = (each @ basis for each in (scanners, left))
    shares, contrasts = linalg.eigh(free.T @ free, total.T @ total)
    if shares[0] >= MIN_SCANNER_SHARE:
        return
    weights = np.abs(basis @ contrasts[:, 0])
    confused = [
        names[k] for k in np.flatnonzero(weights > 0.3 * weights.max()).tolist()
    ]
    raise AnalysisError(
        f"scanner and time are confounded: people changed between {' and '.join(confused[:4])} at the same time, so that a "
        "difference of scanners cannot be told from change. Give people of the same group who stayed on one scanner, "
        "or take the visits of each person on one scanner."
    )


class _ScannerModel:
    """Restricted likelihood of centred visits with random slopes of people and random
    effects of scanners.
    """

    def __init__(
        self,
        centred: FloatArray,
        time: FloatArray,
        visits: Visits,
        n_times: int,
        n_scanners: int,
    ) -> None:
        self.n_times, self.n_scanners = n_times, n_scanners
        self.spread = sum_by_group(time**2, visits.person, visits.n_people)
        self.by_time = sum_by_group(
            time[:, None] * centred, visits.person, visits.n_people
        )
        self.products = centred.T @ centred
        self.freedom = len(time) - visits.n_people - n_times

    def estimate(self, index: int) -> tuple[FloatArray, FloatArray]:
        """Return the effects of scanners (K,) on an R-index and their
        covariance (K, K).
        """

        def compute_criterion(logs: FloatArray) -> float:
            # the weak prior of Chung and others (2013) keeps scanners from variance 0
            return self._solve(logs, index)[0] - float(logs[1])

        fits = [
            minimize(compute_criterion, start, bounds=[_BOUNDS] * 2, method="L-BFGS-B")
            for start in _STARTS
        ]
        best = min(fits, key=lambda fit: float(fit.fun))
        return self._solve(best.x, index)[1:]

    def _solve(
        self, logs: FloatArray, index: int
    ) -> tuple[float, FloatArray, FloatArray]:
        """Return -2 times the log-likelihood up to a constant, the effects of scanners
        and their covariance.

        logs: logarithms of the variances of slopes and of scanners over that of noise.
        """
        slope, scanner = np.exp(logs)
        gain = slope / (1 + slope * self.spread)
        weighted = self.products - (self.by_time * gain[:, None]).T @ self.by_time
        fixed, k = self.n_times, self.n_scanners
        inner = weighted[: fixed + k, : fixed + k].copy()
        inner[fixed:, fixed:] += np.eye(k) / scanner
        y = fixed + k + index
        inverse = np.linalg.inv(inner)
        solution = inverse @ weighted[: fixed + k, y]
        noise = (weighted[y, y] - solution @ weighted[: fixed + k, y]) / self.freedom
        noise = max(float(noise), np.finfo(float).tiny)
        criterion = (
            float(np.log1p(slope * self.spread).sum())
            + k * float(logs[1])
            + float(np.linalg.slogdet(inner)[1])
            + self.freedom * float(np.log(noise))
        )
        return criterion, solution[fixed:], noise * inverse[fixed:, fixed:]
