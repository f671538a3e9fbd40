"""Choose the scale of the adjustment and the people from whom site effects are estimated, where the user does not."""

from rindices.errors import PreprocessingError, did_you_mean, join_names
from rindices.preprocess.harmonise import HARMONISATION_MODES
from rindices.tables.cohort import SITE, Cohort

ADJUSTMENTS = ("log", "linear", "rank", "none")
"""Scales on which measures are adjusted for covariates."""


def resolve_adjustment(cohort: Cohort, requested: str | None = None) -> str:
    """Return the scale on which measures are adjusted: as requested, or ``log`` if all values are positive."""
    if requested not in (None, *ADJUSTMENTS):
        raise PreprocessingError(f"adjust = '{requested}' is not known: {did_you_mean(str(requested), ADJUSTMENTS)}")
    if requested in ("linear", "rank", "none"):
        return requested
    smallest = cohort.volumes.min()
    negative = [str(name) for name in cohort.volumes.columns[(smallest <= 0).to_numpy()]]
    if negative and requested == "log":
        raise PreprocessingError(
            f'adjust = "log" needs positive values; these regions have others: {join_names(negative)}. Leave them out '
            '(--exclude), or set adjust = "linear".'
        )
    return "linear" if negative else "log"


def resolve_harmonise_mode(cohort: Cohort, requested: str | None = None) -> str:
    """Return whose volumes site effects are estimated from: ``controls``, ``all``, or ``none`` for no harmonisation."""
    if requested not in (None, "none", *HARMONISATION_MODES):
        suggestion = did_you_mean(str(requested), [*HARMONISATION_MODES, "none"])
        raise PreprocessingError(f"harmonise = '{requested}' is not known: {suggestion}")
    if requested == "none":
        return "none"
    has_sites = SITE in cohort.people
    duplicates = _find_site_covariates(cohort) if has_sites else []
    if requested is None:
        return "controls" if has_sites and not duplicates else "none"
    if not has_sites:
        raise PreprocessingError(f'harmonise = "{requested}" needs the site of each person: name its column (--site).')
    if duplicates:
        raise PreprocessingError(
            f"{join_names(duplicates)} is the site and a covariate as well: take it out of the covariates, or set "
            'harmonise = "none".'
        )
    return requested


def _find_site_covariates(cohort: Cohort) -> list[str]:
    """Return the covariates that are equal to the site."""
    sites = cohort.people[SITE].astype(str).to_numpy()
    return [name for name in cohort.covariates if (cohort.covariates[name].astype(str).to_numpy() == sites).all()]
