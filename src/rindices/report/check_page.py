"""A page about a table before a study: what is wrong, and pictures of each suspect
block, as one would look at it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, FloatArray
from rindices._version import __version__
from rindices.atomic import write_atomically
from rindices.errors import Problem, ProblemCode, Severity, explain_write_errors
from rindices.plot import blocks
from rindices.report.figures import Chart, draw_chart
from rindices.report.formatting import make_environment
from rindices.tables.checks.block_table import (
    AGE,
    HEAD_SIZE,
    SEX,
    BlockTable,
    Suspicion,
)
from rindices.tables.checks.report import make_problem
from rindices.tables.layouts.sides import pair_sides

_MAX_DOTS = 1_500  # people of a scatter plot
_N_NEIGHBOURS = 6  # regions that are drawn beside a shifted one


def write_check_page(
    path: Path,
    facts: Sequence[tuple[str, str]],
    problems: Sequence[Problem],
    unused: Mapping[str, Sequence[str]],
    table: BlockTable | None,
) -> None:
    """Write the page of `rindices check`.

    It shows values of single people, so only its owner and their group can read it.

    Parameters
    ----------
    path : Path
        File of the page.
    facts : sequence of tuple of str
        Names and values of what the table is. The verdict comes last.
    problems : sequence of Problem
        What was found.
    unused : mapping
        Columns that are not used, by reason.
    table : BlockTable or None
        Table after the search of its blocks.
    """
    suspicions = [] if table is None else table.suspicions
    pictures = (
        []
        if table is None
        else [
            (describe(table, each), draw_suspicion(table, each)) for each in suspicions
        ]
    )
    ordered = sorted(
        problems, key=lambda problem: list(reversed(Severity)).index(problem.severity)
    )
    page = (
        make_environment()
        .get_template("check.html")
        .render(
            title="Check of a table",
            verdict=facts[-1][1].split(":")[0].replace("above", "below"),
            version=__version__,
            facts=facts[:-1],
            problems=[(str(problem.severity), str(problem)) for problem in ordered],
            pictures=pictures,
            unused=unused,
        )
    )
    with explain_write_errors(str(path), cure="give another path with --report"):
        write_atomically(path, page.encode(), is_private=True)


def describe(table: BlockTable, suspicion: Suspicion) -> str:
    """Return what is suspicious, as a sentence."""
    problem = make_problem(table, suspicion, "error", "")
    return f"{problem.text[0].upper()}{problem.text[1:]}."


def draw_suspicion(table: BlockTable, suspicion: Suspicion) -> Chart:
    """Return a picture of a suspect block beside the others."""
    draw = {
        ProblemCode.SUSPECT_FACTOR: _draw_factor,
        ProblemCode.SUSPECT_COLUMNS: _draw_profiles,
        ProblemCode.SUSPECT_ROWS: _draw_profiles,
        ProblemCode.SUSPECT_SIDES: _draw_sides,
        ProblemCode.SUSPECT_CODES: _draw_codes,
        ProblemCode.SUSPECT_UNITS: _draw_units,
        ProblemCode.SUSPECT_JOIN: _draw_link,
        ProblemCode.SUSPECT_COVARIATE: _draw_link,
        ProblemCode.SUSPECT_COPIES: _draw_copies,
    }[suspicion.code]
    return draw(table, suspicion)


def _log(table: BlockTable) -> FloatArray:
    """Return logarithms (N, R) of the values as they stand in the table."""
    return np.log(table.raw)


def _get_others(table: BlockTable, rows: BoolArray) -> BoolArray:
    return ~rows if (~rows).any() else rows


def _draw_factor(table: BlockTable, suspicion: Suspicion) -> Chart:
    """Draw the ratio of each region of a block to that of the others."""
    rows, X = suspicion.block.rows, _log(table)
    ratios = np.exp(
        np.nanmedian(X[rows], axis=0)
        - np.nanmedian(X[_get_others(table, rows)], axis=0)
    )
    order = np.argsort(ratios)
    data = pd.DataFrame(
        {"region": np.array(table.regions)[order], "ratio": ratios[order]}
    )
    return draw_chart(
        lambda: blocks.ratios(data["ratio"].to_numpy()),
        "factor",
        "Ratio of each region of the block to the others.",
        data,
    )


def _draw_profiles(table: BlockTable, suspicion: Suspicion) -> Chart:
    """Draw the medians of the regions of a block and of the others, in the order of the
    columns.
    """
    rows, X = suspicion.block.rows, _log(table)
    block = np.exp(np.nanmedian(X[rows], axis=0))
    others = np.exp(np.nanmedian(X[_get_others(table, rows)], axis=0))
    n_regions = len(block)
    worst = int(np.nanargmax(np.abs(np.log(block / others))))
    start = max(0, min(worst - 2 * _N_NEIGHBOURS, n_regions - 4 * _N_NEIGHBOURS))
    shown = slice(start, start + 4 * _N_NEIGHBOURS)
    data = pd.DataFrame(
        {"region": table.regions[shown], "block": block[shown], "others": others[shown]}
    )
    return draw_chart(
        lambda: blocks.profiles(data, start + 1),
        "profile",
        "Median of each region of the block and of the others.",
        data,
    )


def _draw_sides(table: BlockTable, suspicion: Suspicion) -> Chart:
    """Draw the difference between left and right of each pair, in the block against the
    others.
    """
    rows, X = suspicion.block.rows, _log(table)
    left, right = np.array(pair_sides(table.regions)).T
    difference = X[:, left] - X[:, right]
    block = np.nanmean(difference[rows], axis=0)
    others = np.nanmean(difference[_get_others(table, rows)], axis=0)
    data = pd.DataFrame(
        {"left": np.array(table.regions)[left], "others": others, "block": block}
    )
    return draw_chart(
        lambda: blocks.sides(data),
        "sides",
        "Difference between the sides in the block against the others.",
        data,
    )


def _draw_codes(table: BlockTable, suspicion: Suspicion) -> Chart:
    """Draw how many people have each code of sex, in the block and in the others."""
    texts = pd.Series(table.sex_texts, dtype="object").fillna("missing")
    rows = pd.Series(np.where(suspicion.block.rows, "block", "others"))
    data = pd.crosstab(texts, rows, normalize="columns").reset_index(names="code")
    return draw_chart(
        lambda: blocks.codes(data),
        "codes",
        "Codes of sex in the block and in the others.",
        data,
    )


def _get_written(table: BlockTable, name: str) -> FloatArray:
    """Return a covariate (N,) as it stands in the table."""
    values = table.written[name]
    return np.exp(values) if name == HEAD_SIZE else values


def _draw_units(table: BlockTable, suspicion: Suspicion) -> Chart:
    """Draw the distribution of a covariate in the block and in the others."""
    rows, values = suspicion.block.rows, _get_written(table, suspicion.covariate)
    known = np.isfinite(values)
    bins = np.histogram_bin_edges(np.log10(np.maximum(values[known], 1e-6)), 40)
    data = pd.DataFrame({"from": 10 ** bins[:-1], "to": 10 ** bins[1:]})
    for name, mask in (("others", ~rows), ("block", rows)):
        values_of = np.log10(np.maximum(values[known & mask], 1e-6))
        data[name] = np.histogram(values_of, bins)[0]
    return draw_chart(
        lambda: blocks.units(data, suspicion.covariate),
        "units",
        f"{suspicion.covariate} in the block and in the others.",
        data,
    )


def _draw_link(table: BlockTable, suspicion: Suspicion) -> Chart:
    """Draw a covariate against the region that it goes with most elsewhere."""
    rows, X = suspicion.block.rows, _log(table)
    others = _get_others(table, rows)
    names = (
        [suspicion.covariate]
        if suspicion.covariate
        else [name for name in table.written if name != SEX]
    )
    name, region, correlation = _find_strongest_link(
        table, X, others, names or list(table.written)
    )
    values = _get_written(table, name)
    data = pd.DataFrame(
        {name: values, table.regions[region]: table.raw[:, region], "block": rows}
    )
    data = data[np.isfinite(data[name])]
    if len(data) > _MAX_DOTS:
        data = data.sample(_MAX_DOTS, random_state=0).sort_index()
    spread = 0.15 if name in (SEX, AGE) else 0.0
    label = name if name != SEX else "sex (two codes)"
    return draw_chart(
        lambda: blocks.link(data, spread, label),
        "link",
        f"{table.regions[region]} against {name}; correlation {correlation:.2f} in the others.",
        data,
    )


def _find_strongest_link(
    table: BlockTable, X: FloatArray, others: BoolArray, names: Sequence[str]
) -> tuple[str, int, float]:
    """Return the covariate and the region with the strongest correlation among some
    people (N,).
    """
    found: list[tuple[float, str, int]] = []
    for name in names:
        values = table.written[name]
        known = others & np.isfinite(values) & np.isfinite(X).all(axis=1)
        if known.sum() < 3 or values[known].std() < 1e-12:
            continue
        Z = X[known] - X[known].mean(axis=0)
        y = values[known] - values[known].mean()
        sizes = np.maximum(np.sqrt(np.square(Z).sum(axis=0) * float(y @ y)), 1e-12)
        correlations = (Z.T @ y) / sizes
        best = int(np.argmax(np.abs(correlations)))
        found.append((abs(float(correlations[best])), name, best))
    correlation, name, region = max(found) if found else (0.0, names[0], 0)
    return name, region, correlation


def _draw_copies(table: BlockTable, suspicion: Suspicion) -> Chart:
    """Draw the regions of the first pair of rows against each other, relative to
    everyone's median.
    """
    rows = np.flatnonzero(suspicion.block.rows)
    deviations = _log(table) - np.nanmedian(_log(table), axis=0)
    first = rows[0]
    distances = [
        float(np.nanmedian(np.abs(deviations[first] - deviations[other])))
        for other in rows[1:]
    ]
    second = int(rows[1 + int(np.argmin(distances))])
    stranger = next(
        (each for each in range(table.n_people) if not suspicion.block.rows[each]),
        second,
    )
    columns: dict[str, Any] = {
        "first": deviations[first],
        "second": deviations[second],
        "stranger": deviations[stranger],
    }
    data = pd.DataFrame({"region": table.regions, **columns})
    return draw_chart(
        lambda: blocks.copies(data, table.ids[first]),
        "copies",
        "Regions of two rows against each other.",
        data,
    )
