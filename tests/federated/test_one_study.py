"""The same people give the same R-indices, whoever holds them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import rindices as ri
from rindices.federated.site import Site
from rindices.tables.cohort import ID, SITE
from tests.federated.sites import simulate_people, split_cohort


@pytest.mark.parametrize(("n_sites", "harmonise"), [(3, True), (2, False), (1, False)])
def test_sites_give_the_r_indices_of_one_table(n_sites: int, harmonise: bool) -> None:
    cohorts = split_cohort(simulate_people(), n_sites)
    named = [each.people.assign(**{SITE: name}) for name, each in cohorts.items()]
    frames = [pd.concat([getattr(each, name) for each in cohorts.values()]) for name in ("volumes", "covariates")]
    volumes, covariates = (frame.reset_index(drop=True) for frame in frames)
    people = pd.concat(named, ignore_index=True)
    table = replace(simulate_people(), volumes=volumes, covariates=covariates, people=people)
    settings = {"patterns": 2, "members": 5}
    pooled = ri.fit(table, harmonise="controls" if harmonise else "none", on_outlier="keep", **settings)
    divided = ri.fit_federated(cohorts, fewest=0, harmonise=harmonise, **settings)
    columns = ["r1", "r2"]
    assert divided.card.finding == pooled.card.finding == "patterns"
    new = simulate_people(seed=1)
    new = replace(new, people=new.people.assign(**{SITE: "site-0"}))
    np.testing.assert_allclose(divided.apply(new)[columns], pooled.apply(new)[columns], atol=1e-9)
    own = pd.concat([Site(name, each, 0).tabulate_people(divided) for name, each in cohorts.items()]).set_index(ID)
    expected = pooled.indices.set_index(ID)
    np.testing.assert_allclose(own.loc[expected.index, columns], expected[columns], atol=1e-9)
    assert own["members_behind"].tolist() == expected.loc[own.index, "members_behind"].tolist()
