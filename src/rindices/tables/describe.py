"""Who is in a cohort, as plain values: counts and summaries, nothing about single people."""

from typing import Any

import pandas as pd

from rindices.tables.cohort import GROUP, SITE, Cohort


def describe_cohort(cohort: Cohort) -> dict[str, Any]:
    """Return the size of a cohort and each covariate in each group, as plain values for JSON."""
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
    """Return mean, spread and range of numbers, or how many people have each category."""
    if pd.api.types.is_numeric_dtype(values) and values.nunique() > 2:
        return {
            "mean": float(values.mean()),
            "sd": float(values.std()),
            "min": float(values.min()),
            "max": float(values.max()),
        }
    return {
        "counts": {_format_level(level): int(number) for level, number in values.value_counts().sort_index().items()}
    }


def _format_level(level: Any) -> str:
    return f"{level:g}" if isinstance(level, int | float) else str(level)


def _count_by_site(cohort: Cohort) -> dict[str, dict[str, int]]:
    """Return the number of people of each group at each site; empty where no site is known."""
    if SITE not in cohort.people or GROUP not in cohort.people:
        return {}
    table = pd.crosstab(cohort.people[SITE], cohort.people[GROUP])
    return {str(site): {str(group): int(number) for group, number in row.items()} for site, row in table.iterrows()}
