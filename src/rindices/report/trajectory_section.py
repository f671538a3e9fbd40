"""Section "How each pattern unfolds": the order of the regions of each pattern, and their curves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from rindices.model.records import HeldOutLikelihoodRecord
from rindices.model.trajectories import (
    COURSE_LEVELS,
    ONSET_SHARE,
    compute_progress,
    has_curved_patterns,
    list_trajectory_heads,
    make_course_table,
    make_region_order,
)
from rindices.report import brain
from rindices.report.bars import Bar, ColourCell, make_bar, make_colour_cell
from rindices.report.brain import AtlasMatch
from rindices.report.figures import Chart, plot_progress
from rindices.report.pattern_section import SeverityStep
from rindices.report.study_results import StudyResults
from rindices.report.summary import PatternLocation, locate_pattern

MAX_ORDERED_REGIONS = 20
"""Regions of a pattern whose order the page shows; the data hold all."""
MIN_ORDER_ERRORS = 1.5
"""Standard errors by which curved patterns must be ahead before the order of the regions is interpreted. In simulated
cohorts of 180 and 350 people of seeds 400 to 402, it was at most 1.3 where all regions change together and at least 1.8
where they change one after another. R-indices of curved patterns are as accurate or more accurate either way."""
_PROGRESS_LEVELS = np.linspace(0.0, 1.0, 51)


@dataclass(frozen=True)
class RegionCourse:
    """Onset of a region with its interval, None where it is not known, and its change at `COURSE_LEVELS`."""

    region: str
    rank: int
    onset: float
    interval: tuple[float, float] | None
    bar: Bar
    cells: Sequence[ColourCell]


@dataclass(frozen=True, eq=False)
class PatternCourse:
    """The course of one pattern.

    Attributes
    ----------
    location : PatternLocation
    regions : sequence of RegionCourse
        Earliest first: the strongest of the regions that clearly belong to the pattern.
    n_regions : int
        Number of regions that clearly belong to the pattern.
    chart : Chart or None
        Curves of the listed regions; None without any.
    steps : sequence of SeverityStep
        Pictures at `COURSE_LEVELS`; without images where there is no atlas.
    data : DataFrame
        Rows of `make_course_table`.
    """

    location: PatternLocation
    regions: Sequence[RegionCourse]
    n_regions: int
    chart: Chart | None
    steps: Sequence[SeverityStep]
    data: pd.DataFrame

    @property
    def name(self) -> str:
        """``r1`` to ``rM``."""
        return self.location.name


class InteractionRow(NamedTuple):
    """Factor by which full severity of another pattern multiplies the change of a pattern, with its interval."""

    pattern: str
    other: str
    factor: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class TrajectorySection:
    """What the section shows.

    Attributes
    ----------
    is_curved : bool
        Whether regions of a pattern change at different severities.
    held_out : HeldOutLikelihoodRecord or None
        Likelihood of the held-out patients with patterns of both shapes.
    patterns : sequence of PatternCourse
        Empty where patterns are straight.
    interactions : sequence of InteractionRow
        Empty where the changes of the patterns add up.
    levels : tuple of float
        Severities of the pictures and of the table.
    onset_share : float
        Share of its final change that a region has at its onset.
    """

    is_curved: bool
    held_out: HeldOutLikelihoodRecord | None
    patterns: Sequence[PatternCourse]
    interactions: Sequence[InteractionRow] = ()
    levels: tuple[float, ...] = COURSE_LEVELS
    onset_share: float = ONSET_SHARE

    @property
    def is_order_uncertain(self) -> bool:
        """Whether curved patterns are ahead of straight ones by no more than chance would give."""
        held_out = self.held_out
        if held_out is None or held_out.curved is None or held_out.straight is None or held_out.curved_gain_se is None:
            return False
        return held_out.curved - held_out.straight < MIN_ORDER_ERRORS * held_out.curved_gain_se


def build_trajectory_section(results: StudyResults, match: AtlasMatch, limit: float) -> TrajectorySection | None:
    """Return what the section shows; None for a model whose learner has no curves.

    Parameters
    ----------
    results : StudyResults
    match : AtlasMatch
        What can be drawn.
    limit : float
        Effect at which colours end.
    """
    model, held_out = results.model, results.chosen.held_out
    if not list_trajectory_heads(model):
        return None
    interactions = [InteractionRow(*row) for row in model.interactions().itertuples(index=False, name=None)]
    if not has_curved_patterns(model):
        return TrajectorySection(False, held_out, [], interactions)
    courses, order = make_course_table(model), make_region_order(model)
    progress = compute_progress(model, _PROGRESS_LEVELS)
    patterns = [
        _build_pattern_course(
            locate_pattern(results, name),
            courses[courses["pattern"] == name].reset_index(drop=True),
            order[order["pattern"] == name],
            progress[:, position],
            match,
            limit,
        )
        for position, name in enumerate(results.names)
    ]
    return TrajectorySection(True, held_out, patterns, interactions)


def _build_pattern_course(
    location: PatternLocation,
    courses: pd.DataFrame,
    order: pd.DataFrame,
    progress: np.ndarray,
    match: AtlasMatch,
    limit: float,
) -> PatternCourse:
    """Return the course of a pattern, from its rows of both tables and the progress (Q, R) of its regions."""
    labels = match.label_regions(tuple(courses["region"]))
    strongest = order["change"].abs().sort_values(ascending=False, kind="stable").index[:MAX_ORDERED_REGIONS]
    listed = order.loc[order.index.isin(strongest)]
    by_region = courses.set_index("region")
    positions = [by_region.index.get_loc(region) for region in listed["region"]]
    names = [labels[region] for region in listed["region"]]
    return PatternCourse(
        location=location,
        regions=[_build_region_course(row, by_region, labels, limit) for _, row in listed.iterrows()],
        n_regions=len(order),
        chart=plot_progress(location.name, _PROGRESS_LEVELS, progress[:, positions], names, match.holds_features)
        if positions
        else None,
        steps=[
            SeverityStep(
                level, brain.render_views(match, by_region[_name_column(level)].to_dict(), limit, "outside", shrink=2)
            )
            for level in COURSE_LEVELS
        ],
        data=match.name_columns(courses),
    )


def _build_region_course(row: pd.Series, by_region: pd.DataFrame, labels: dict[str, str], limit: float) -> RegionCourse:
    onset, low, high = (float(row[name]) for name in ("onset", "onset_low", "onset_high"))
    interval = None if np.isnan(low) or np.isnan(high) else (low, high)
    changes = [float(by_region.loc[row["region"], _name_column(level)]) for level in COURSE_LEVELS]
    return RegionCourse(
        region=labels[row["region"]],
        rank=int(row["rank"]),
        onset=onset,
        interval=interval,
        bar=make_bar(onset, interval, (0.0, 1.0), "var(--patient)"),
        cells=[make_colour_cell(change, limit) for change in changes],
    )


def _name_column(level: float) -> str:
    return f"c{100 * level:.0f}"
