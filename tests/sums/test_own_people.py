"""Cross-fitted R-indices of the people of a site: chance does not look like
a marker.
"""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from rindices.errors import RindicesError
from rindices.study.config import ModelConfig
from rindices.sums.rounds import Rounds
from rindices.sums.study import SumsFit, SumsSettings
from rindices.tables.cohort import GROUP
from tests.cohorts import fit_tiny_model
from tests.sums.sites import make_transport, simulate_people, split_cohort


def test_exchanged_labels_do_not_separate_the_people_of_a_site() -> None:
    cohort = simulate_people()
    labels = np.random.default_rng(0).permutation(cohort.people[GROUP].to_numpy())
    noise = replace(cohort, people=cohort.people.assign(**{GROUP: labels}))
    transport = make_transport(split_cohort(noise, 2))
    model = ModelConfig(patterns=(1,), method="mean-difference")
    _, fitted = SumsFit(Rounds(transport=transport), SumsSettings(model=model)).run()
    assert fitted is not None
    own, in_sample = [], []
    for site in transport.parts:
        table = site.tabulate_people(fitted)
        assert (
            table["members_behind"].between(0, 2).all()
        )  # a member that does not agree is left out
        used = table["r1"].notna().to_numpy()
        assert used.mean() > 0.6
        own.append(roc_auc_score(site.cohort.is_patient[used], table["r1"][used]))
        in_sample.append(
            roc_auc_score(site.cohort.is_patient, fitted.apply(site.cohort)["r1"])
        )
    assert np.mean(own) == pytest.approx(0.5, abs=0.08)
    assert np.mean(in_sample) > np.mean(own) + 0.02


def test_a_model_of_another_study_is_refused() -> None:
    (site,) = make_transport({"a": simulate_people()}).parts
    with pytest.raises(RindicesError, match="not that of a study from sums"):
        site.tabulate_people(fit_tiny_model())
