"""The same people give the same R-indices, whoever holds them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import rindices as ri
from rindices.selection.agreement import pattern_c_index
from rindices.study.config import ModelConfig
from rindices.sums.people import LocalPeople
from rindices.tables.cohort import ID, SITE
from tests.learners.diffuse_people import (
    DiffusePeople,
    make_diffuse_cohort,
    simulate_diffuse_people,
    simulate_mixed_people,
)
from tests.sums.sites import fit_parts, simulate_people, simulate_study, split_cohort


@pytest.mark.parametrize(
    ("n_sites", "harmonise"),
    [(3, True), *(pytest.param(n, False, marks=pytest.mark.slow) for n in (2, 1))],
)
def test_sites_give_the_r_indices_of_one_table(n_sites: int, harmonise: bool) -> None:
    cohorts = split_cohort(simulate_people(), n_sites)
    named = [each.people.assign(**{SITE: name}) for name, each in cohorts.items()]
    frames = [
        pd.concat([getattr(each, name) for each in cohorts.values()])
        for name in ("volumes", "covariates")
    ]
    volumes, covariates = (frame.reset_index(drop=True) for frame in frames)
    people = pd.concat(named, ignore_index=True)
    table = replace(
        simulate_people(), volumes=volumes, covariates=covariates, people=people
    )
    settings = {"patterns": 2, "members": 5}
    pooled = ri.fit(
        table,
        harmonise="controls" if harmonise else "none",
        on_outlier="keep",
        **settings,
    )
    divided = fit_parts(
        cohorts, ModelConfig(patterns=(2,), members=5), harmonise=harmonise
    )
    columns = ["r1", "r2"]
    assert divided.card.finding == pooled.card.finding == "patterns"
    new = simulate_people(seed=1)
    new = replace(new, people=new.people.assign(**{SITE: "site-0"}))
    np.testing.assert_allclose(
        divided.apply(new)[columns], pooled.apply(new)[columns], atol=1e-9
    )
    own = pd.concat(
        [
            LocalPeople(name, each).tabulate_people(divided)
            for name, each in cohorts.items()
        ]
    ).set_index(ID)
    expected = pooled.indices.set_index(ID)
    np.testing.assert_allclose(
        own.loc[expected.index, columns], expected[columns], atol=1e-9
    )
    for (
        group,
        quantiles,
    ) in (
        divided.card.index_quantiles.items()
    ):  # for the sheet of a person; from sums of cosines
        np.testing.assert_allclose(
            quantiles, pooled.card.index_quantiles[group], atol=0.05
        )
    assert (
        own["members_behind"].tolist()
        == expected.loc[own.index, "members_behind"].tolist()
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("truth", "start"),
    [
        (simulate_diffuse_people(), "whole-cohort"),
        (simulate_mixed_people(seed=1), "mixed"),
    ],
    ids=["whole-cohort", "mixed"],
)
def test_sites_take_the_start_of_one_table(truth: DiffusePeople, start: str) -> None:
    cohort = make_diffuse_cohort(truth)
    cohorts, settings = split_cohort(cohort, 2), {"patterns": 2, "members": 5}
    pooled = ri.fit(cohort, on_outlier="keep", **settings)
    divided = fit_parts(cohorts, ModelConfig(patterns=(2,), members=5))
    starts = []
    for model in (pooled, divided):
        assert model.selection is not None
        assert model.selection.chosen is not None
        assert model.selection.chosen.start is not None
        starts.append(model.selection.chosen.start)
    assert starts[0].taken == starts[1].taken == start
    names = ["contrastive_loss", "whole_cohort_loss"]
    for name in [*names, *(["mixed_loss"] if start == "mixed" else [])]:
        assert getattr(starts[0], name) == pytest.approx(
            getattr(starts[1], name), abs=1e-9
        )
    np.testing.assert_allclose(
        divided.apply(cohort)[["r1", "r2"]],
        pooled.apply(cohort)[["r1", "r2"]],
        atol=1e-9,
    )
    assert pooled.indices is not None
    own = (
        pooled.indices.set_index(ID)
        .loc[cohort.people[ID][truth.y == 1], ["r1", "r2"]]
        .to_numpy()
    )
    assert pattern_c_index(truth.severities, own).mean > 0.7


@pytest.mark.slow
def test_sites_draw_missing_cells() -> None:
    """A tenth of the cells is missing, so most people lack some; a person with few
    regions is left out.
    """
    simulated = simulate_study()
    cohort, rng = simulated.cohort, np.random.default_rng(0)
    is_missing = rng.random(cohort.volumes.shape) < 0.1
    is_missing[0, 1:] = True
    cohorts = split_cohort(replace(cohort, volumes=cohort.volumes.mask(is_missing)), 3)
    sites = {name: LocalPeople(name, each) for name, each in cohorts.items()}
    assert sum(site.n_left_out for site in sites.values()) == 1
    for name, site in sites.items():
        measured = (
            cohorts[name]
            .volumes.loc[cohorts[name].people[ID].isin(site.cohort.people[ID])]
            .to_numpy()
        )
        volumes = site.cohort.volumes.to_numpy()
        assert np.isfinite(volumes).all()
        np.testing.assert_array_equal(
            volumes[~np.isnan(measured)], measured[~np.isnan(measured)]
        )
        true = cohort.volumes.loc[
            cohort.people[ID].isin(site.cohort.people[ID])
        ].to_numpy()
        deviations = (
            np.log(each) - np.log(true).mean(axis=0) for each in (volumes, true)
        )
        drawn, expected = (each[np.isnan(measured)] for each in deviations)
        assert (
            np.corrcoef(drawn, expected)[0, 1] > 0.5
        )  # by the other cells; 0 if drawn by the region's mean alone
        assert 0.8 < drawn.std() / expected.std() < 1.2  # expectations would vary less
    model = fit_parts(cohorts, ModelConfig(patterns=(3,), members=5))
    own = pd.concat([site.tabulate_people(model) for site in sites.values()]).set_index(
        ID
    )
    patients = cohort.people[ID][cohort.is_patient]
    is_used = patients.isin(own.index).to_numpy()
    indices = own.loc[patients[is_used], ["r1", "r2", "r3"]].to_numpy()
    assert pattern_c_index(simulated.truth[is_used], indices).mean > 0.8
