"""The patterns of a model as a tidy table."""

import numpy as np
import pandas as pd

from rindices.learners.heads import SEVERITIES
from rindices.model.fitted import FittedModel
from rindices.selection.patterns import interval
from rindices.tables.muse import label

MEANING = {
    "pattern": "Pattern, named as its R-index",
    "severity": "Severity at which the change is taken; 1 is full severity",
    "region": "Region, named as in the model",
    "label": "Region, readable",
    "change": "Change of the region in standard deviations of controls; negative is loss",
    "low": "Lower end of the 95 % interval",
    "high": "Upper end of the 95 % interval",
}


def pattern_table(model: FittedModel) -> pd.DataFrame:
    """Return the change of every region under each pattern, a row per pattern, severity and region.

    ``low`` and ``high`` are empty for a model that does not know how sure its patterns are.
    """
    axes = {"severity": SEVERITIES, "pattern": model.index_names, "region": model.regions}
    index = pd.MultiIndex.from_product(axes.values(), names=list(axes))
    low = high = np.full_like(model.patterns, np.nan)
    if model.patterns_se is not None:
        low, high = interval(model.patterns, model.patterns_se, len(model.heads))
    numbers = {"change": model.patterns, "low": low, "high": high}
    table = pd.DataFrame({name: array.ravel() for name, array in numbers.items()}, index=index).reset_index()
    table["label"] = [label(region) for region in table["region"]]
    ordered = table.sort_values(["pattern", "severity"], kind="stable", key=_natural)
    return ordered[list(MEANING)].reset_index(drop=True)


def _natural(column: pd.Series) -> pd.Series:
    """Return a key that sorts r2 before r10."""
    return column.str.removeprefix("r").astype(int) if column.name == "pattern" else column
