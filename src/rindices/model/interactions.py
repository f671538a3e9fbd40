"""How the patterns of a model strengthen or weaken each other.

Shape letters: S members, M patterns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from rindices._typing import FloatArray
from rindices.learners.inference import InteractingHead
from rindices.model.trajectories import compute_member_interval

if TYPE_CHECKING:
    from rindices.model.fitted import FittedModel

INTERACTION_COLUMN_DESCRIPTIONS = {
    "pattern": "R-index of the pattern whose change depends on another one",
    "other": "R-index of the other pattern",
    "factor": "Factor of the pattern's change at full severity of the other one, mean over members; 1 if there is none",
    "low": "Lower end of the 95 % interval of the factor",
    "high": "Upper end of the 95 % interval of the factor",
}
"""Columns of `make_interaction_table` and what they mean."""


def stack_interactions(model: FittedModel) -> FloatArray | None:
    """Return the interactions of the aligned members (S, M, M); None where the changes of the patterns add up."""
    stacked = [
        head.interaction[np.ix_(order, order)]
        for head, order in zip(model.heads, model.orders, strict=True)
        if isinstance(head, InteractingHead)
    ]
    return np.stack(stacked) if stacked else None


def average_interaction(model: FittedModel) -> FloatArray | None:
    """Return the mean over members of the interactions (M, M); None where the changes of the patterns add up."""
    members = stack_interactions(model)
    return None if members is None else np.asarray(members.mean(axis=0))


def make_interaction_table(model: FittedModel) -> pd.DataFrame:
    """Return the factor by which each pattern multiplies the change of each other one.

    Returns see `INTERACTION_COLUMN_DESCRIPTIONS`; empty where the changes of the patterns add up.
    """
    members, names = stack_interactions(model), model.index_names
    if members is None:
        return pd.DataFrame({name: [] for name in INTERACTION_COLUMN_DESCRIPTIONS})
    factor = 1.0 + members.mean(axis=0)
    low, high = compute_member_interval(model, members, factor)
    low = np.maximum(low, 0.0)
    pairs = [(k, m) for k in range(len(names)) for m in range(len(names)) if k != m]
    rows = [(names[k], names[m], factor[k, m], low[k, m], high[k, m]) for k, m in pairs]
    return pd.DataFrame(rows, columns=list(INTERACTION_COLUMN_DESCRIPTIONS))
