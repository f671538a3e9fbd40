"""Summary of a cohort: counts and distributions, nothing about single people."""

from typing import Any

import pandas as pd

from rindices.tables.cohort import GROUP, SITE, Cohort


def describe_cohort(cohort: Cohort) -> dict[str, Any]:
    """Return the size of a cohort and the distribution of each covariate in each group, for JSON."""
    groups = {
        "all": cohort.covariates,
        "control": cohort.covariates[cohort.is_control],
        "patient": cohort.covariates[cohort.is_patient],
    }
    return {
        "source": cohort.source,
        "unit": cohort.unit,
        "people": len(cohort),
        "controls": cohort.n_controls,
        "patients": cohort.n_patients,
        "regions": cohort.n_regions,
        "covariates": [
            {"name": name, "groups": {group: _summarise_covariate(frame[name]) for group, frame in groups.items()}}
            for name in cohort.covariates.columns
        ],
        "sites": _count_by_site(cohort),
    }


def _summarise_covariate(values: pd.Series) -> dict[str, Any]:
    """Return mean, standard deviation and range of numbers, or the number of people in each category."""
    if pd.api.types.is_numeric_dtype(values) and values.nunique() > 2:
        statistics = {"mean": values.mean(), "sd": values.std(), "min": values.min(), "max": values.max()}
        return {name: float(value) for name, value in statistics.items()}
    counts = values.value_counts().sort_index()
    return {"counts": {_format_level(level): int(number) for level, number in counts.items()}}


def _format_level(level: Any) -> str:
    return f"{level:g}" if isinstance(level, int | float) else str(level)


def _count_by_site(cohort: Cohort) -> dict[str, dict[str, int]]:
    """Return the number of people of each group at each site; empty without sites."""
    if SITE not in cohort.people or GROUP not in cohort.people:
        return {}
    table = pd.crosstab(cohort.people[SITE], cohort.people[GROUP])
    return {str(site): {str(group): int(number) for group, number in row.items()} for site, row in table.iterrows()}
