"""How R-indices separate patients from controls among people of one sex,
age or site.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from rindices.learners.ensemble import measure_separation
from rindices.tables.checks.groups import CONTROL, PATIENT
from rindices.tables.cohort import GROUP, ID, SITE, Cohort
from rindices.tables.layouts.column_names import AGE_NAMES, SEX_NAMES, find_column
from rindices.wording import load_columns

MIN_GROUP = 10
"""Controls and patients that a level needs to be listed: fewer say little, and more
about single people.
"""
_BOOTSTRAPS = 200
SUBGROUP_DESCRIPTIONS = load_columns("subgroups")


def make_subgroup_table(
    cohort: Cohort, indices: pd.DataFrame, names: Sequence[str], seed: int
) -> pd.DataFrame:
    """Return the separation of the groups by each R-index within each sex, band of age
    and site.

    indices: ``participant_id``, ``group`` and R-indices of the people of the study;
    names: of the R-indices.
    """
    table = indices.set_index(ID).dropna(subset=list(names))
    is_control, values = table[GROUP] == CONTROL, table[list(names)]
    is_above, rows = values > values[is_control].quantile(0.95), []
    limits = (
        table.reindex(columns=[f"{name}_{end}" for name in names]).to_numpy()
        for end in ("high", "low")
    )
    widths = pd.DataFrame(np.subtract(*limits), table.index)
    for variable, column in _find_levels(cohort).items():
        own_levels = column.reindex(table.index)
        for level in column.cat.categories:
            controls, patients = (
                (own_levels == level) & (table[GROUP] == group)
                for group in (CONTROL, PATIENT)
            )
            counts = int(controls.sum()), int(patients.sum())
            if min(counts) < MIN_GROUP:
                continue
            auc = measure_separation(
                values[controls].to_numpy(),
                values[patients].to_numpy(),
                seed,
                _BOOTSTRAPS,
            ).auc
            ends = np.quantile(auc[1:], (0.025, 0.975), axis=0)
            width = widths[controls | patients].median()
            figures = zip(
                names, auc[0], *ends, is_above[controls].mean(), width, strict=True
            )
            name = level if isinstance(level, str) else f"{level:g}"
            rows += [
                (variable, name, *counts, index, *map(float, numbers))
                for index, *numbers in figures
            ]
    return pd.DataFrame(rows, columns=list(SUBGROUP_DESCRIPTIONS)).round(4)


def _find_levels(cohort: Cohort) -> dict[str, pd.Series]:
    """Return the sex, band of age and site of people, as far as they are known, by name
    of the variable.
    """
    people = cohort.people.set_index(ID)
    covariates = cohort.covariates.set_index(people.index)
    levels: dict[str, pd.Series] = {}
    if (sex := find_column(covariates.columns, SEX_NAMES)) is not None:
        levels["sex"] = covariates[sex].astype("category")
    age = find_column(covariates.columns, AGE_NAMES)
    if age is not None and pd.api.types.is_numeric_dtype(covariates[age]):
        low, high = np.round(covariates[age].quantile([1 / 3, 2 / 3]))
        bands = [f"up to {low:g}", f"{low:g} to {high:g}", f"above {high:g}"]
        if covariates[age].min() < low < high < covariates[age].max():
            levels["age"] = pd.cut(
                covariates[age], [-np.inf, low, high, np.inf], labels=bands
            )
    if SITE in people:
        levels["site"] = people[SITE].astype(str).astype("category")
    return levels
