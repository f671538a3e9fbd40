"""The report: one self-contained page."""

import base64
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rindices._version import __version__
from rindices.atomic import write_atomically
from rindices.errors import StudyError, describe_os_error
from rindices.learners.inference import SEVERITY_LEVELS
from rindices.report import brain, null_report, people, sentences
from rindices.report.brain import AtlasMatch
from rindices.report.figures import (
    plot_agreement,
    plot_distributions,
    plot_excess,
    plot_index_pairs,
    plot_member_agreement,
)
from rindices.report.null_report import NullResults
from rindices.report.region_names import label_regions
from rindices.report.study_results import N_LISTED_REGIONS, StudyResults, read_study_results
from rindices.report.trust import build_trust_section

REPORT_FILE = "report.html"
_MAX_EMBEDDED_PEOPLE = 20_000  # people up to which the page carries everyone's R-indices


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
    empty = null_report.read_null_results(place)
    page = render_report(read_study_results(place)) if empty is None else render_null_report(empty)
    try:
        write_atomically(place / REPORT_FILE, page.encode())
    except OSError as error:
        raise StudyError(
            f"cannot write {place / REPORT_FILE} ({describe_os_error(error)}): make room or free the folder."
        ) from error
    return place / REPORT_FILE


def render_report(contents: StudyResults) -> str:
    """Return the page."""
    board = brain.match_atlas(contents.model.regions)
    told = label_regions(contents.model.regions)
    limit = compute_colour_limit(contents)
    return (
        _make_environment()
        .get_template("report.html")
        .render(
            contents=contents,
            title=f"R-indices: {contents.title}",
            words=sentences,
            version=__version__,
            facts=_list_key_figures(contents),
            agreement=plot_agreement(contents),
            distributions=plot_distributions(contents),
            pairs=plot_index_pairs(contents),
            members=plot_member_agreement(contents),
            cohort=contents.cohort,
            people=people,
            trust=build_trust_section(contents),
            patterns=[_build_pattern_section(contents, name, board, limit, told) for name in contents.names],
            bar={"limit": limit, "stops": brain.list_colour_stops()},
            board=board,
            severities=SEVERITY_LEVELS,
            associations=_build_association_rows(contents),
            indices=contents.indices.round(4) if len(contents.indices) <= _MAX_EMBEDDED_PEOPLE else None,
        )
    )


def render_null_report(contents: NullResults) -> str:
    """Return the page of a study that found no pattern."""
    return (
        _make_environment()
        .get_template("nothing.html")
        .render(
            contents=contents,
            title=f"No disease pattern found: {contents.title}",
            words=null_report,
            version=__version__,
            versions=sentences.format_versions(contents.made_with) if contents.made_with else "",
            facts=null_report.list_key_figures(contents),
            cohort=contents.cohort,
            people=people,
            curve=plot_excess(contents.test),
        )
    )


def _make_environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("rindices.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"csv": encode_csv_uri, "svg": Markup, "signed": format_signed}
    return environment


def compute_colour_limit(contents: StudyResults) -> float:
    """Return the effect at which colours end, one for all patterns, so that they compare; a round number."""
    largest = float(np.abs(contents.model.patterns[-1]).max())
    step = 10.0 ** np.floor(np.log10(max(largest, 1e-6))) / 2
    return float(np.ceil(largest / step) * step)


def encode_csv_uri(table: pd.DataFrame) -> str:
    """Return a table as a CSV file in a data URI."""
    text = table.to_csv(index=False, lineterminator="\n", float_format="%.6g")
    return f"data:text/csv;base64,{base64.b64encode(text.encode()).decode()}"


def format_signed(value: float, digits: int = 2) -> str:
    """Return a number with its sign, a true minus, and nothing but zero for zero."""
    text = f"{value:+.{digits}f}"
    return text.replace("-", "\N{MINUS SIGN}") if float(text) else f"{0:.{digits}f}"


def _list_key_figures(contents: StudyResults) -> list[tuple[str, str]]:
    cohort = contents.cohort
    concordance = contents.chosen.agreement.concordance
    return [
        (str(contents.model.n_patterns), "patterns"),
        ("not known" if concordance is None else f"{concordance:.3f}", "agreement"),
        (f"{cohort.controls:,}", "controls"),
        (f"{cohort.patients:,}", "patients"),
        (f"{cohort.regions}", "regions"),
    ]


def _build_pattern_section(
    contents: StudyResults, name: str, board: AtlasMatch, limit: float, told: dict[str, str]
) -> dict[str, Any]:
    """Return what the section of one pattern shows."""
    own = contents.patterns[contents.patterns["pattern"] == name]
    top = contents.top(name, N_LISTED_REGIONS)
    span = _compute_bar_span(contents)
    effects = contents.effects(name)
    steps: list[dict[str, Any]] = []
    for severity in SEVERITY_LEVELS:
        at = contents.effects(name, severity)
        images = brain.render_views(board, at, limit, "outside", shrink=2)
        steps.append({"severity": severity, "images": images, "effects": at})
    return {
        "name": name,
        "images": brain.render_views(board, effects, limit),
        "strip": [
            {"region": told[region], **_build_colour_cell(effects[region], limit)}
            for region in _list_undrawn_regions(board, effects)
        ],
        "where": sentences.describe_main_structures(contents, name),
        "rows": [{"region": told[row["region"]], **_build_bar_row(row, limit, span)} for row in top.to_dict("records")],
        "curves": [
            {"region": told[region], "cells": [_build_colour_cell(step["effects"][region], limit) for step in steps]}
            for region in top["region"].head(8)
        ],
        "steps": steps,
        "data": own,
        "said": _describe_pattern_strength(contents, name, effects),
    }


def _describe_pattern_strength(contents: StudyResults, name: str, effects: dict[str, float]) -> str:
    """Return one sentence about how strong and how focal a pattern is."""
    rows = contents.patterns[
        (contents.patterns["pattern"] == name) & (contents.patterns["severity"] == SEVERITY_LEVELS[-1])
    ]
    largest = max(effects.values(), key=abs)
    said = (
        f"At full severity the strongest region changes by {format_signed(largest, 1)} standard deviations of controls"
    )
    if rows["low"].isna().any():
        return f"{said}."
    sure = int(((rows["low"] > 0) | (rows["high"] < 0)).sum())
    return f"{said}; in {sure} of {len(rows)} regions the 95 % interval leaves zero out."


def _compute_bar_span(contents: StudyResults) -> tuple[float, float]:
    """Return both ends of the ranked bars, one for all patterns; zero is always within."""
    shown = pd.concat([contents.top(name, N_LISTED_REGIONS) for name in contents.names])[["change", "low", "high"]]
    return min(0.0, float(np.nanmin(shown))), max(0.0, float(np.nanmax(shown)))


def _build_bar_row(row: dict[str, Any], limit: float, span: tuple[float, float]) -> dict[str, Any]:
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
        "colour": brain.effect_to_hex(row["change"], limit),
    }


def _list_undrawn_regions(board: AtlasMatch, effects: dict[str, float]) -> list[str]:
    """Return the regions that no picture shows, strongest first; none where there are no pictures at all."""
    return [] if board.atlas is None else sorted(board.undrawn_regions, key=lambda region: -abs(effects[region]))


def _build_colour_cell(value: float, limit: float) -> dict[str, Any]:
    """Return a number on its colour, with black or white letters, whichever is read better."""
    colour = brain.effects_to_rgb(np.array([value]), limit)[0]
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    luminance = float(linear @ [0.2126, 0.7152, 0.0722])
    dark = (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05)
    return {"value": value, "colour": brain.effect_to_hex(value, limit), "ink": "#000" if dark else "#fff"}


def _build_association_rows(contents: StudyResults) -> list[dict[str, Any]]:
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
        rows.append({**row, **place, "zero": 50.0, "colour": brain.effect_to_hex(-row["correlation"], 1.0)})
    return rows
