"""Figures on matplotlib: a study and ``ax=`` in, axes out.

The first argument of most is a study: a fitted model, the folder that
``rindices fit --out`` has written, or a table of R-indices or of patterns. Each draws
on ``ax`` or on a new figure as wide as a column of a journal (85 mm), and returns the
axes, so that a user can go on drawing. Single people are drawn only where
``people=True`` asks for them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rindices.plot.evidence import associations, number, reproducibility
    from rindices.plot.follow_up import change, outcome, replication, visits
    from rindices.plot.gan import agreement, synthetic, training, transformation
    from rindices.plot.maps import patterns
    from rindices.plot.people import (
        pairs,
        scatter,
        severities,
        site_effects,
        subgroups,
    )
    from rindices.plot.regions import course, forest, region_heatmap
    from rindices.plot.simulated import recovery

_HOMES = {
    **dict.fromkeys(("agreement", "synthetic", "training", "transformation"), "gan"),
    **dict.fromkeys(("associations", "number", "reproducibility"), "evidence"),
    **dict.fromkeys(("change", "outcome", "replication", "visits"), "follow_up"),
    "patterns": "maps",
    **dict.fromkeys(("course", "forest", "region_heatmap"), "regions"),
    "recovery": "simulated",
    **dict.fromkeys(
        ("pairs", "scatter", "severities", "site_effects", "subgroups"), "people"
    ),
}

__all__ = [
    "agreement",
    "associations",
    "change",
    "course",
    "forest",
    "number",
    "outcome",
    "pairs",
    "patterns",
    "recovery",
    "region_heatmap",
    "replication",
    "reproducibility",
    "scatter",
    "severities",
    "site_effects",
    "subgroups",
    "synthetic",
    "training",
    "transformation",
    "visits",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rindices.plot' has no attribute {name!r}")
    return getattr(import_module(f"rindices.plot.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
