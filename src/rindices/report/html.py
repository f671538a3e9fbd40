"""The report: one self-contained page."""

import base64
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rindices import __version__
from rindices.atomic import write_atomically
from rindices.errors import StudyError, reason
from rindices.learners.heads import SEVERITIES
from rindices.report import brain, nothing, people, words
from rindices.report.brain import Canvas
from rindices.report.contents import TOP, Contents, read_contents
from rindices.report.figures import agreement_chart, distribution_charts, excess_chart, members_chart, pair_charts
from rindices.report.nothing import Nothing
from rindices.report.places import labels
from rindices.report.trust import read_trust

NAME = "report.html"
_MANY = 20_000  # people up to which the page carries everyone's R-indices


def write_report(folder: str | PathLike[str]) -> Path:
    """Write ``report.html`` into the folder of a finished study.

    Parameters
    ----------
    folder : path
        What ``rindices fit --out`` or ``fit(..., out=...)`` has written. Where ``rindices associate`` has written
        ``associations.tsv`` there, it is shown, too. Where no pattern was found, the page says so.

    Returns
    -------
    Path
        Of the page: one file, which asks nothing of a network.
    """
    place = Path(folder)
    empty = nothing.read_nothing(place)
    page = render(read_contents(place)) if empty is None else render_nothing(empty)
    try:
        write_atomically(place / NAME, page.encode())
    except OSError as error:
        raise StudyError(f"cannot write {place / NAME} ({reason(error)}): make room or free the folder.") from error
    return place / NAME


def render(contents: Contents) -> str:
    """Return the page."""
    board = brain.canvas(contents.model.regions)
    told = labels(contents.model.regions)
    limit = colour_limit(contents)
    return (
        _environment()
        .get_template("report.html")
        .render(
            contents=contents,
            title=f"R-indices: {contents.title}",
            words=words,
            version=__version__,
            facts=_facts(contents),
            agreement=agreement_chart(contents),
            distributions=distribution_charts(contents),
            pairs=pair_charts(contents),
            members=members_chart(contents),
            cohort=contents.cohort,
            people=people,
            trust=read_trust(contents),
            patterns=[_pattern(contents, name, board, limit, told) for name in contents.names],
            bar={"limit": limit, "stops": brain.colour_stops()},
            board=board,
            severities=SEVERITIES,
            associations=_associations(contents),
            indices=contents.indices.round(4) if len(contents.indices) <= _MANY else None,
        )
    )


def render_nothing(contents: Nothing) -> str:
    """Return the page of a study that found no pattern."""
    return (
        _environment()
        .get_template("nothing.html")
        .render(
            contents=contents,
            title=f"No disease pattern found: {contents.title}",
            words=nothing,
            version=__version__,
            versions=words.versions(contents.made_with) if contents.made_with else "",
            facts=nothing.facts(contents),
            cohort=contents.cohort,
            people=people,
            curve=excess_chart(contents.test),
        )
    )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("rindices.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"csv": csv_uri, "svg": Markup, "signed": signed}
    return environment


def colour_limit(contents: Contents) -> float:
    """Return the effect at which colours end, one for all patterns, so that they compare; a round number."""
    largest = float(np.abs(contents.model.patterns[-1]).max())
    step = 10.0 ** np.floor(np.log10(max(largest, 1e-6))) / 2
    return float(np.ceil(largest / step) * step)


def csv_uri(table: pd.DataFrame) -> str:
    """Return a table as a CSV file in a data URI."""
    text = table.to_csv(index=False, lineterminator="\n", float_format="%.6g")
    return f"data:text/csv;base64,{base64.b64encode(text.encode()).decode()}"


def signed(value: float, digits: int = 2) -> str:
    """Return a number with its sign, a true minus, and nothing but zero for zero."""
    text = f"{value:+.{digits}f}"
    return text.replace("-", "\N{MINUS SIGN}") if float(text) else f"{0:.{digits}f}"


def _facts(contents: Contents) -> list[tuple[str, str]]:
    cohort = contents.cohort
    concordance = contents.chosen["agreement"]["concordance"]
    return [
        (str(contents.model.n_patterns), "patterns"),
        ("not known" if concordance is None else f"{concordance:.3f}", "agreement"),
        (f"{cohort['controls']:,}", "controls"),
        (f"{cohort['patients']:,}", "patients"),
        (f"{cohort['regions']}", "regions"),
    ]


def _pattern(contents: Contents, name: str, board: Canvas, limit: float, told: dict[str, str]) -> dict[str, Any]:
    """Return what the section of one pattern shows."""
    own = contents.patterns[contents.patterns["pattern"] == name]
    top = contents.top(name, TOP)
    span = _span(contents)
    effects = contents.effects(name)
    steps: list[dict[str, Any]] = []
    for severity in SEVERITIES:
        at = contents.effects(name, severity)
        images = brain.pictures(board, at, limit, "outside", shrink=2)
        steps.append({"severity": severity, "images": images, "effects": at})
    return {
        "name": name,
        "images": brain.pictures(board, effects, limit),
        "strip": [{"region": told[region], **_cell(effects[region], limit)} for region in _undrawn(board, effects)],
        "where": words.main_structures(contents, name),
        "rows": [{"region": told[row["region"]], **_row(row, limit, span)} for row in top.to_dict("records")],
        "curves": [
            {"region": told[region], "cells": [_cell(step["effects"][region], limit) for step in steps]}
            for region in top["region"].head(8)
        ],
        "steps": steps,
        "data": own,
        "said": _said(contents, name, effects),
    }


def _said(contents: Contents, name: str, effects: dict[str, float]) -> str:
    """Return one sentence about how strong and how focal a pattern is."""
    rows = contents.patterns[(contents.patterns["pattern"] == name) & (contents.patterns["severity"] == SEVERITIES[-1])]
    largest = max(effects.values(), key=abs)
    said = f"At full severity the strongest region changes by {signed(largest, 1)} standard deviations of controls"
    if rows["low"].isna().any():
        return f"{said}."
    sure = int(((rows["low"] > 0) | (rows["high"] < 0)).sum())
    return f"{said}; in {sure} of {len(rows)} regions the 95 % interval leaves zero out."


def _span(contents: Contents) -> tuple[float, float]:
    """Return both ends of the ranked bars, one for all patterns; zero is always within."""
    shown = pd.concat([contents.top(name, TOP) for name in contents.names])[["change", "low", "high"]]
    return min(0.0, float(np.nanmin(shown))), max(0.0, float(np.nanmax(shown)))


def _row(row: dict[str, Any], limit: float, span: tuple[float, float]) -> dict[str, Any]:
    """Return a region of the ranked bars; places are in percent of the bar's width."""
    ends = [row["change"] if pd.isna(end) else end for end in (row["low"], row["high"])]
    known = not (pd.isna(row["low"]) or pd.isna(row["high"]))
    width = max(span[1] - span[0], 1e-12)
    zero, at, left, right = (100 * (value - span[0]) / width for value in (0.0, row["change"], *ends))
    return {
        "change": row["change"],
        "low": row["low"] if known else None,
        "high": row["high"] if known else None,
        "zero": zero,
        "at": at,
        "from": left,
        "to": right,
        "colour": brain.colour_of(row["change"], limit),
    }


def _undrawn(board: Canvas, effects: dict[str, float]) -> list[str]:
    """Return the regions that no picture shows, strongest first; none where there are no pictures at all."""
    return [] if board.atlas is None else sorted(board.undrawn, key=lambda region: -abs(effects[region]))


def _cell(value: float, limit: float) -> dict[str, Any]:
    """Return a number on its colour, with black or white letters, whichever is read better."""
    colour = brain.colours(np.array([value]), limit)[0]
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ [0.2126, 0.7152, 0.0722])
    dark = (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05)
    return {"value": value, "colour": brain.colour_of(value, limit), "ink": "#000" if dark else "#fff"}


def _associations(contents: Contents) -> list[dict[str, Any]]:
    """Return the rows of the associations, strongest variable first, each R-index in turn."""
    table = contents.associations
    if table is None:
        return []
    known = table[table["correlation"].notna()].copy()
    strength = known.groupby("variable")["correlation"].transform(lambda own: own.abs().max())
    known = known.assign(strength=strength).sort_values(
        ["strength", "variable", "index"], ascending=[False, True, True]
    )
    rows = []
    for row in known.to_dict("records"):
        place = {
            end: float(50 + 50 * row[name]) for end, name in (("at", "correlation"), ("from", "low"), ("to", "high"))
        }
        rows.append({**row, **place, "zero": 50.0, "colour": brain.colour_of(-row["correlation"], 1.0)})
    return rows
