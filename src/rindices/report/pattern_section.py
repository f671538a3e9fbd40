"""Pictures, bars and coloured cells of each pattern's section."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rindices.learners.inference import SEVERITY_LEVELS
from rindices.model.trajectories import has_curved_patterns
from rindices.report import brain
from rindices.report.bars import Bar, ColourCell, make_bar, make_colour_cell
from rindices.report.brain import AtlasMatch, BrainImage
from rindices.report.study_results import StudyResults
from rindices.report.summary import PatternLocation, locate_pattern

_N_CURVES = 8  # regions whose change along severity is listed


@dataclass(frozen=True)
class RegionCell:
    """A region that no picture shows, and its change."""

    region: str
    cell: ColourCell


@dataclass(frozen=True)
class RegionBar:
    """A region in the list of the strongest; ``interval`` is None where it is not known."""

    region: str
    change: float
    interval: tuple[float, float] | None
    bar: Bar


@dataclass(frozen=True)
class SeverityCurve:
    """The change of a region at each severity."""

    region: str
    cells: Sequence[ColourCell]


@dataclass(frozen=True)
class SeverityStep:
    """Pictures of a pattern at one severity."""

    severity: float
    images: Sequence[BrainImage]


@dataclass(frozen=True, eq=False)
class PatternSection:
    """What the section of one pattern shows.

    Attributes
    ----------
    location : PatternLocation
    largest : float
        Change of the strongest region at full severity.
    n_certain : int or None
        Regions whose 95 % interval excludes zero; None where there are no intervals.
    n_regions : int
    images : sequence of BrainImage
    undrawn : sequence of RegionCell
        Regions that no picture shows, strongest first; empty where there are no pictures.
    top : sequence of RegionBar
    curves : sequence of SeverityCurve
    steps : sequence of SeverityStep
        Empty where patterns are curved: another section then shows how they unfold.
    data : DataFrame
    is_curved : bool
        Whether regions change at different severities.
    """

    location: PatternLocation
    largest: float
    n_certain: int | None
    n_regions: int
    images: Sequence[BrainImage]
    undrawn: Sequence[RegionCell]
    top: Sequence[RegionBar]
    curves: Sequence[SeverityCurve]
    steps: Sequence[SeverityStep]
    data: pd.DataFrame
    is_curved: bool = False

    @property
    def name(self) -> str:
        """``r1`` to ``rM``."""
        return self.location.name


def compute_colour_limit(results: StudyResults) -> float:
    """Return the effect at which colours end, a round number; one for all patterns, so that they can be compared."""
    return round_colour_limit(float(np.abs(results.model.patterns[-1]).max()))


def round_colour_limit(largest: float) -> float:
    """Return a round number that is not below the largest effect."""
    step = 10.0 ** np.floor(np.log10(max(largest, 1e-6))) / 2
    return float(np.ceil(largest / step) * step)


def build_pattern_sections(results: StudyResults, match: AtlasMatch, limit: float) -> list[PatternSection]:
    """Return what the section of each pattern shows.

    Parameters
    ----------
    match : AtlasMatch
        What can be drawn.
    limit : float
        Effect at which colours end.
    """
    labels = match.label_regions(results.model.regions)
    span = _compute_bar_span(results)
    return [_build_pattern_section(results, name, match, limit, labels, span) for name in results.names]


def _build_pattern_section(
    results: StudyResults,
    name: str,
    match: AtlasMatch,
    limit: float,
    labels: dict[str, str],
    span: tuple[float, float],
) -> PatternSection:
    effects, is_curved = results.get_effects(name), has_curved_patterns(results.model)
    by_severity = {severity: results.get_effects(name, severity) for severity in SEVERITY_LEVELS}
    undrawn = [] if match.atlas is None else sorted(match.undrawn_regions, key=lambda region: -abs(effects[region]))
    top = results.list_top_regions(name)
    return PatternSection(
        location=locate_pattern(results, name),
        largest=max(effects.values(), key=abs),
        n_certain=_count_certain_regions(results.select_pattern(name)),
        n_regions=len(effects),
        images=brain.render_views(match, effects, limit),
        undrawn=[RegionCell(labels[region], make_colour_cell(effects[region], limit)) for region in undrawn],
        top=[_build_region_bar(*row, labels, limit, span) for row in _list_changes(top)],
        curves=[
            SeverityCurve(labels[region], [make_colour_cell(step[region], limit) for step in by_severity.values()])
            for region in top["region"].head(_N_CURVES)
        ],
        steps=[
            SeverityStep(severity, brain.render_views(match, step, limit, "outside", shrink=2))
            for severity, step in ({} if is_curved else by_severity).items()
        ],
        data=match.name_columns(results.patterns[results.patterns["pattern"] == name]),
        is_curved=is_curved,
    )


def _list_changes(rows: pd.DataFrame) -> list[tuple[str, float, float, float]]:
    return list(rows[["region", "change", "low", "high"]].itertuples(index=False, name=None))


def _count_certain_regions(rows: pd.DataFrame) -> int | None:
    """Return the number of regions whose interval excludes zero; None where there are no intervals."""
    return None if rows["low"].isna().any() else int(((rows["low"] > 0) | (rows["high"] < 0)).sum())


def _compute_bar_span(results: StudyResults) -> tuple[float, float]:
    """Return both ends of the bars, one scale for all patterns, which includes zero."""
    rows = pd.concat([results.list_top_regions(name) for name in results.names])[["change", "low", "high"]]
    return min(0.0, float(np.nanmin(rows))), max(0.0, float(np.nanmax(rows)))


def _build_region_bar(
    region: str,
    change: float,
    low: float,
    high: float,
    labels: dict[str, str],
    limit: float,
    span: tuple[float, float],
) -> RegionBar:
    interval = None if pd.isna(low) or pd.isna(high) else (low, high)
    bar = make_bar(change, interval, span, brain.effect_to_hex(change, limit))
    return RegionBar(labels[region], change, interval, bar)
