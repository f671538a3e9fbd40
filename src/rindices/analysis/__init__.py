"""Statistics of R-indices: functions of data frames that return tables, and their files
and figures.

The functions below are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rindices.analysis.associate import associate_indices
    from rindices.analysis.change import change_per_year
    from rindices.analysis.classify import classify_patients, summarise_auc
    from rindices.analysis.compare import compare_subgroups, make_subgroups
    from rindices.analysis.predict import predict_outcome
    from rindices.analysis.replicate import replicate_patterns
    from rindices.analysis.reproduce import reproduce_in_halves

__all__ = [
    "associate_indices",
    "change_per_year",
    "classify_patients",
    "compare_subgroups",
    "make_subgroups",
    "predict_outcome",
    "replicate_patterns",
    "reproduce_in_halves",
    "summarise_auc",
]
_MODULES = {
    "make_subgroups": "compare",
    "summarise_auc": "classify",
}


def __getattr__(name: str) -> Any:
    """Import a function on first use; its module has the name of its verb, unless
    `_MODULES` says otherwise.
    """
    if name not in __all__:
        raise AttributeError(f"module 'rindices.analysis' has no attribute {name!r}")
    return getattr(
        import_module(
            f"rindices.analysis.{_MODULES.get(name, name.partition('_')[0])}"
        ),
        name,
    )
