"""Effects of sites from sums are those of the pooled people."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.group_difference import estimate_region_effects
from rindices.study.config import ModelConfig
from rindices.sums.adjustment import AdjustedSums
from rindices.sums.messages import SumsError
from rindices.sums.study import SumsSettings, run_study_from_sums
from rindices.tables.cohort import SITE, Cohort
from tests.sums.sites import (
    make_transport,
    prepare_rounds,
    simulate_people,
    split_cohort,
)


@cache
def simulate_sites() -> dict[str, Cohort]:
    """Return the people of three sites, which shift and scale each region."""
    cohorts, rng = {}, np.random.default_rng(3)
    for name, cohort in split_cohort(simulate_people(), 3).items():
        logs = np.log(cohort.volumes)
        scale = np.exp(0.2 * rng.standard_normal(logs.shape[1]))
        logs = (
            logs.mean()
            + scale * (logs - logs.mean())
            + 0.1 * rng.standard_normal(logs.shape[1])
        )
        cohorts[name] = replace(
            cohort, volumes=np.exp(logs), people=cohort.people.assign(**{SITE: name})
        )
    return cohorts


def pool_sites() -> Cohort:
    cohorts = simulate_sites().values()
    frames = {
        name: pd.concat(
            [getattr(cohort, name) for cohort in cohorts], ignore_index=True
        )
        for name in ("volumes", "people", "covariates")
    }
    return Cohort(**frames, source="table", unit=next(iter(cohorts)).unit)


@cache
def ask(harmonise: bool = True) -> AdjustedSums:
    return prepare_rounds(simulate_sites(), harmonise)[0]


def test_preprocessing_is_that_of_pooled_people() -> None:
    cohort, divided = pool_sites(), ask().fit_preprocessing()
    pooled = Preprocessing.fit(cohort, "controls")
    assert pooled.harmoniser is not None
    assert divided.harmoniser is not None
    assert divided.harmoniser.sites == pooled.harmoniser.sites
    assert divided.harmoniser.counts == pooled.harmoniser.counts
    for name in ("mean", "sd", "shift", "scale"):  # covariates have another order
        np.testing.assert_allclose(
            getattr(divided.harmoniser, name),
            getattr(pooled.harmoniser, name),
            atol=1e-9,
        )
    np.testing.assert_allclose(
        divided.transform(cohort), pooled.transform(cohort), atol=1e-9
    )
    assert (
        np.abs(
            Preprocessing.fit(cohort, "none").transform(cohort)
            - pooled.transform(cohort)
        ).max()
        > 0.05
    )


def test_effects_of_regions_are_those_of_harmonised_people() -> None:
    cohort = pool_sites()
    pooled = Preprocessing.fit(cohort, "controls")
    assert pooled.harmoniser is not None
    covariates = pooled.residualiser.build_design(cohort.covariates)
    volumes = pooled.harmoniser.transform(
        np.log(cohort.volumes.to_numpy()), covariates, list(cohort.people[SITE])
    )
    expected = estimate_region_effects(
        volumes, np.column_stack([np.ones(len(cohort)), covariates]), cohort.is_patient
    )
    own = vars(ask().estimate_effects())
    for name, other in vars(expected).items():
        np.testing.assert_allclose(own[name], other, atol=1e-7)


@pytest.mark.slow
def test_study_is_that_of_people_without_site_effects() -> None:
    model = ModelConfig(method="mean-difference", members=2)
    cohort, indices = pool_sites(), {}
    for harmonise in (True, False):
        fitted = run_study_from_sums(
            make_transport(simulate_sites()),
            SumsSettings(model=model, harmonise=harmonise),
        ).model
        assert fitted is not None
        indices[harmonise] = fitted.apply(cohort)["r1"]
    clean = pd.concat(
        split_cohort(simulate_people(), 3)[name].people for name in simulate_sites()
    )
    fitted = run_study_from_sums(
        make_transport(split_cohort(simulate_people(), 3)), SumsSettings(model=model)
    ).model
    assert fitted is not None
    expected = (
        fitted.apply(simulate_people())
        .set_index("participant_id")
        .loc[clean["participant_id"], "r1"]
    )
    close, far = (
        np.corrcoef(indices[harmonise], expected)[0, 1] for harmonise in (True, False)
    )
    assert close > 0.995
    assert far < close


def test_a_site_without_controls_is_named() -> None:
    sites = dict(simulate_sites())
    sites["site-1"] = sites["site-1"].take(sites["site-1"].is_patient)
    with pytest.raises(
        SumsError, match="the effect of site-1 needs at least two controls"
    ):
        prepare_rounds(sites, True)
