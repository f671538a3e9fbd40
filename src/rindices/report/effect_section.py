"""Section on the difference between patients and controls in each region."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from rindices.report import brain
from rindices.report.bars import Bar, make_bar
from rindices.report.brain import AtlasMatch, BrainImage
from rindices.report.pattern_section import round_colour_limit

_N_LISTED = 14
_MAX_Q = 0.05


@dataclass(frozen=True)
class RegionEffect:
    """A region in the list of the largest differences: Cohen's d, its interval, its q and its bar."""

    region: str
    d: float
    low: float
    high: float
    q: float
    bar: Bar


@dataclass(frozen=True, eq=False)
class EffectSection:
    """What the section shows.

    Attributes
    ----------
    smallest_effect : float
        Smallest Cohen's d of one region that the study detects with a power of 80 %.
    n_significant, n_regions : int
        Regions with a false discovery rate below 5 %, and all regions.
    limit : float
        Effect at which colours end.
    images : sequence of BrainImage
    top : sequence of RegionEffect
    data : DataFrame
        All regions.
    """

    smallest_effect: float
    n_significant: int
    n_regions: int
    limit: float
    images: Sequence[BrainImage]
    top: Sequence[RegionEffect]
    data: pd.DataFrame


def build_effect_section(
    effects: pd.DataFrame | None, smallest_effect: float | None, match: AtlasMatch
) -> EffectSection | None:
    """Return what the section shows; None for a study that is older than the effects.

    Parameters
    ----------
    effects : DataFrame or None
        Content of ``effects.tsv``.
    smallest_effect : float or None
    match : AtlasMatch
        What can be drawn.
    """
    if effects is None or smallest_effect is None:
        return None
    strongest = effects.reindex(effects["d"].abs().sort_values(ascending=False, kind="stable").index)
    limit, listed = round_colour_limit(float(effects["d"].abs().max())), strongest.head(_N_LISTED)
    span = min(0.0, float(listed["low"].min())), max(0.0, float(listed["high"].max()))
    labels = match.label_regions(tuple(effects["region"]))
    return EffectSection(
        smallest_effect,
        int((effects["q"] <= _MAX_Q).sum()),
        len(effects),
        limit,
        brain.render_views(match, dict(zip(effects["region"], effects["d"], strict=True)), limit),
        [_build_row(row, labels, span, limit) for _, row in listed.iterrows()],
        match.name_columns(effects),
    )


def _build_row(row: pd.Series, labels: dict[str, str], span: tuple[float, float], limit: float) -> RegionEffect:
    d, low, high, q = (float(row[name]) for name in ("d", "low", "high", "q"))
    bar = make_bar(d, (low, high), span, brain.effect_to_hex(d, limit))
    return RegionEffect(labels[row["region"]], d, low, high, q, bar)
