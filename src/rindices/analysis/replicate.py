"""Replication: which patterns of one study are found in another, compared with random
maps that are as smooth.

Neighbouring regions, and the two sides of a structure, vary together. Two unrelated
patterns are therefore alike more often than two lists of independent numbers, and an
exchange of single regions calls many of them replicated. A random map here has the
values of a pattern in the order of white noise that the correlations of regions in
healthy people have smoothed, the same on both sides. In standard deviations, regions
that vary little change most in every disease. Correlations are therefore of signed
square roots of changes. ``benchmarks/replicate.py`` measures how often this errs.

Shape letters: R regions, M and K patterns of two studies, T structures, N maps.
"""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jinja2 import Environment, StrictUndefined
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score

from rindices._typing import FloatArray
from rindices.errors import AnalysisError, join_names, name_arguments
from rindices.one_line import describe_fields
from rindices.tables.checks.groups import CONTROL, PATIENT
from rindices.tables.cohort import GROUP, ID, SESSION
from rindices.wording import load_columns

COLUMN_DESCRIPTIONS = load_columns("replication")
PEOPLE_COLUMN_DESCRIPTIONS = load_columns("replication_people")
LEVEL, MIN_CORRELATION = 0.05, 0.5
"""Largest p and smallest correlation of patterns that are called replicated."""
N_MAPS = 2000
MIN_REGIONS = 10
Regions = tuple[str, ...]
"""Regions whose mean is compared: one, or those of which a model uses the sum."""


class Replication(NamedTuple):
    """Comparison of the patterns of two studies.

    Attributes
    ----------
    table : DataFrame
        One row per pair of patterns, and one per pattern without a partner, with the
        columns of `COLUMN_DESCRIPTIONS`.
    largest : ndarray of shape (N,)
        Largest correlation over all pairs if the first study had random maps.
    maps : list of ndarray of shape (2, R)
        Patterns of each pair.
    """

    table: pd.DataFrame
    largest: FloatArray
    maps: list[FloatArray]

    def __repr__(self) -> str:
        return describe_fields(self)

    @property
    def chance(self) -> float:
        """Correlation that random maps exceed with the probability `LEVEL`."""
        return float(np.quantile(self.largest, 1 - LEVEL))


def align_regions(
    first: Mapping[Regions, FloatArray], second: Mapping[Regions, FloatArray]
) -> tuple[list[Regions], FloatArray, FloatArray]:
    """Return the regions that two studies have in common, and the patterns (M, R) and
    (K, R) of each there.

    Where one study has the sum of some regions, they are averaged in the other.
    """

    def look_up(
        table: Mapping[Regions, FloatArray], regions: Regions
    ) -> FloatArray | None:
        if regions in table:
            return table[regions]
        parts = [table[part,] for part in regions if (part,) in table]
        return np.mean(parts, axis=0) if len(parts) == len(regions) > 1 else None

    found = {
        regions: (look_up(first, regions), look_up(second, regions))
        for regions in [*first, *second]
    }
    common = {
        regions: pair
        for regions, pair in found.items()
        if pair[0] is not None and pair[1] is not None
    }
    summed = {(part,) for regions in common if len(regions) > 1 for part in regions}
    regions = [each for each in common if each not in summed]
    if len(regions) < MIN_REGIONS:
        what = (
            f"the two have {len(regions)} regions in common, fewer than {MIN_REGIONS}"
        )
        raise AnalysisError(f"{what}: compare studies of the same atlas and program.")
    first_patterns, second_patterns = (
        np.array([common[each][k] for each in regions]).T for k in (0, 1)
    )
    return regions, first_patterns, second_patterns


@name_arguments()
def replicate_patterns(
    first: FloatArray,
    second: FloatArray,
    correlation: FloatArray,
    structures: Sequence[object],
    seed: int = 0,
) -> Replication:
    """Match the patterns of two studies one to one, and compare their correlations with
    those of random maps.

    Parameters
    ----------
    first, second : (M, R) and (K, R)
        Change of each region in each pattern.
    correlation : (R, R)
        Correlations of the regions in healthy people.
    structures : sequence of length R
        Structure of each region, the same for its left and right part.
    seed : int
        Of the random maps.

    Returns
    -------
    Replication
        How well the patterns agree.
    """
    roots = [np.sign(each) * np.sqrt(np.abs(each)) for each in (first, second)]
    observed = correlate_maps(*roots)
    maps = draw_maps(roots[0], correlation, structures, np.random.default_rng(seed))
    largest = correlate_maps(maps, roots[1]).max(axis=(1, 2))
    partner = dict(
        zip(
            *map(np.ndarray.tolist, linear_sum_assignment(observed, maximize=True)),
            strict=True,
        )
    )
    pairs = sorted(partner.items(), key=lambda pair: -observed[pair])
    rows: list[dict[str, Any]] = []
    for i, j in pairs:
        p = (1 + int((largest >= observed[i, j]).sum())) / (1 + len(largest))
        rows.append(
            {
                "first": f"r{i + 1}",
                "second": f"r{j + 1}",
                "correlation": observed[i, j],
                "p": p,
            }
        )
    alone = {
        "first": set(range(len(first))) - {*partner},
        "second": set(range(len(second))) - {*partner.values()},
    }
    rows += [
        {side: f"r{k + 1}"} for side, numbers in alone.items() for k in sorted(numbers)
    ]
    table = pd.DataFrame(rows, columns=list(COLUMN_DESCRIPTIONS)).assign(
        regions=first.shape[1]
    )
    table["matched"] = (table["p"] <= LEVEL) & (table["correlation"] >= MIN_CORRELATION)
    return Replication(
        table, largest, [np.stack([first[i], second[j]]) for i, j in pairs]
    )


def draw_maps(
    patterns: FloatArray,
    correlation: FloatArray,
    structures: Sequence[object],
    rng: np.random.Generator,
) -> FloatArray:
    """Return random maps (N, M, R) with the values of patterns (M, R), in the order of
    smoothed white noise.
    """
    numbers = pd.factorize(pd.Series(structures, dtype=object))[0]
    mean = (np.eye(numbers.max() + 1)[:, numbers].T / np.bincount(numbers)).T  # (T, R)
    covariance = mean @ correlation @ mean.T
    scale = np.sqrt(np.diag(covariance))
    noise = rng.normal(size=(N_MAPS, len(patterns), len(mean))) @ (
        covariance / np.outer(scale, scale)
    )
    order = (
        (noise[..., numbers] + 1e-9 * rng.normal(size=(N_MAPS, *patterns.shape)))
        .argsort(axis=-1)
        .argsort(axis=-1)
    )
    return np.take_along_axis(
        np.broadcast_to(np.sort(patterns), order.shape), order, axis=-1
    )


def correlate_maps(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the correlations (..., M, K) of maps (..., M, R) with others (K, R)."""
    centred = [maps - maps.mean(axis=-1, keepdims=True) for maps in (first, second)]
    a, b = (
        maps / np.maximum(np.linalg.norm(maps, axis=-1, keepdims=True), 1e-300)
        for maps in centred
    )
    return np.asarray(a @ b.T)


def compare_people(
    own: pd.DataFrame, other: pd.DataFrame, pairs: Sequence[Sequence[str]]
) -> pd.DataFrame:
    """Compare R-indices that two models give to the same people, one row per pair of
    patterns.

    No disease orders the controls: their rank correlation is that of normal variation.

    Parameters
    ----------
    own : DataFrame
        Cross-fitted R-indices of a study, with groups.
    other : DataFrame
        R-indices of the same people by the model of another study.
    pairs : sequence of sequence of str
        Names of the matched R-indices in each.
    """
    keys = [name for name in (ID, SESSION) if name in own and name in other]
    both = own.merge(other, on=keys, suffixes=("", " "))
    rows = []
    for name, matched in pairs:
        columns = both[
            [name, f"{matched} " if f"{matched} " in both else matched]
        ].to_numpy(dtype=float)
        complete = np.isfinite(columns).all(axis=1)
        patient, control = (
            complete & (both[GROUP] == group).to_numpy() for group in (PATIENT, CONTROL)
        )
        r, in_controls = (
            _correlate_ranks(columns[rows_of]) for rows_of in (patient, control)
        )
        half = 1.96 * np.sqrt(
            1.06 / max(patient.sum() - 3, 1)
        )  # of Fisher's z of ranks (Fieller and others, 1957)
        low, high = np.tanh(np.arctanh(min(r, 1 - 1e-9)) + np.array([-half, half]))
        members = patient | control
        auc = float(roc_auc_score(patient[members], columns[members, 1]))
        rows.append((name, matched, int(patient.sum()), r, low, high, in_controls, auc))
    return pd.DataFrame(
        rows,
        columns=[
            "index",
            "other",
            "n",
            "rank_correlation",
            "low",
            "high",
            "in_controls",
            "auc",
        ],
    )


def _correlate_ranks(columns: FloatArray) -> float:
    """Return Spearman's correlation of two columns (N, 2)."""
    return (
        float(np.corrcoef(rankdata(columns, axis=0).T)[0, 1])
        if len(columns) > 3
        else np.nan
    )


def describe_replication(
    result: Replication,
    names: tuple[str, str],
    people: pd.DataFrame | None = None,
    has_common_people: bool = False,
    sizes: tuple[int, int] | None = None,
) -> str:
    """Return a paragraph for a paper.

    Parameters
    ----------
    result : Replication
        The comparison.
    names : tuple of str
        Names of the two studies.
    people : DataFrame or None
        Rows of `compare_people` with the number of the ``study``, 1 or 2.
    has_common_people : bool
        Whether both studies may have the same people.
    sizes : tuple of int or None
        Numbers of regions of two studies with different atlases.
    """
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"p_value": format_p, "join_names": join_names}
    source = (files("rindices.analysis") / "replication.txt").read_text("utf-8")
    missed = result.table[~result.table["matched"]]
    studies = zip(("first", "second"), names, strict=True)
    text = environment.from_string(source).render(
        result=result,
        table=result.table,
        first=names[0],
        second=names[1],
        alone=[
            f"{name} of {study}"
            for side, study in studies
            for name in sorted(missed[side].dropna())
        ],
        people=() if people is None else people.groupby("study"),
        has_common_people=has_common_people,
        sizes=sizes,
        level=LEVEL,
        min_correlation=MIN_CORRELATION,
    )
    return " ".join(text.splitlines())


def format_p(p: float) -> str:
    """Return a p-value with its sign of comparison."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
