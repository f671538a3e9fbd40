"""The scale of the adjustment and the source of site effects, where the user names none."""

from dataclasses import replace

import pytest

import rindices as ri
from rindices.errors import PreprocessingError
from rindices.preprocess.modes import resolve_adjustment, resolve_harmonise_mode
from tests.preprocess.helpers import make_cohort
from tests.preprocess.test_harmonise import SiteData


def test_the_scale_is_logarithmic_where_all_values_are_positive() -> None:
    cohort = make_cohort()
    assert resolve_adjustment(cohort) == "log"
    assert resolve_adjustment(cohort, "linear") == "linear"
    signed = replace(cohort, volumes=cohort.volumes - cohort.volumes.mean())
    assert resolve_adjustment(signed) == "linear"
    with pytest.raises(PreprocessingError, match="needs positive values; these regions have others: r0"):
        resolve_adjustment(signed, "log")
    with pytest.raises(PreprocessingError, match=r"adjust = 'logg' is not known: did you mean 'log'"):
        resolve_adjustment(cohort, "logg")


def test_default_mode_depends_on_sites_and_covariates() -> None:
    cohort = SiteData(100, 4, 2).cohort()
    assert resolve_harmonise_mode(cohort) == "controls"
    assert resolve_harmonise_mode(cohort, "none") == "none"
    assert resolve_harmonise_mode(replace(cohort, people=cohort.people.drop(columns="site"))) == "none"
    adjusted = replace(cohort, covariates=cohort.covariates.assign(scanner=cohort.people["site"]))
    assert resolve_harmonise_mode(adjusted) == "none"  # the site is a covariate already
    with pytest.raises(PreprocessingError, match="scanner is the site and a covariate as well"):
        resolve_harmonise_mode(adjusted, "all")
    with pytest.raises(PreprocessingError, match="needs the site of each person"):
        ri.Preprocessing.fit(replace(cohort, people=cohort.people.drop(columns="site")), "controls")
    with pytest.raises(PreprocessingError, match=r"'control' is not known: did you mean 'controls'"):
        ri.Preprocessing.fit(cohort, "control")
