"""Patterns of a model as a tidy table."""

import numpy as np
import pandas as pd

from rindices.learners.inference import SEVERITY_LEVELS
from rindices.model.fitted import FittedModel
from rindices.selection.agreement import compute_confidence_interval
from rindices.tables.layout.muse import region_label

PATTERN_COLUMN_DESCRIPTIONS = {
    "pattern": "Pattern, named as its R-index",
    "severity": "Severity at which the change is taken; 1 is full severity",
    "region": "Region, named as in the model",
    "label": "Region, readable",
    "change": "Change of the region in standard deviations of controls; negative is loss",
    "low": "Lower end of the 95 % interval",
    "high": "Upper end of the 95 % interval",
}


def make_pattern_table(model: FittedModel) -> pd.DataFrame:
    """Return the change of each region, one row per pattern, severity and region.

    The interval ``low`` to ``high`` is empty if the model has no standard errors of its patterns.
    """
    axes = {"severity": SEVERITY_LEVELS, "pattern": model.index_names, "region": model.regions}
    index = pd.MultiIndex.from_product(axes.values(), names=list(axes))
    low = high = np.full_like(model.patterns, np.nan)
    if model.patterns_se is not None:
        low, high = compute_confidence_interval(model.patterns, model.patterns_se, len(model.heads))
    arrays = {"change": model.patterns, "low": low, "high": high}
    table = pd.DataFrame({name: array.ravel() for name, array in arrays.items()}, index=index).reset_index()
    table["label"] = [region_label(region) for region in table["region"]]
    ordered = table.sort_values(["pattern", "severity"], kind="stable", key=_natural_sort_key)
    return ordered[list(PATTERN_COLUMN_DESCRIPTIONS)].reset_index(drop=True)


def _natural_sort_key(column: pd.Series) -> pd.Series:
    """Return a sort key by which r2 is before r10."""
    return column.str.removeprefix("r").astype(int) if column.name == "pattern" else column
