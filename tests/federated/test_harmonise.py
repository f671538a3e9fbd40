"""Effects of sites from sums are those of the pooled people."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from rindices.cli.main import app
from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import TASKS
from rindices.federated.adjustment import AdjustedSums
from rindices.federated.fit import FederatedSettings, run_federated_study
from rindices.federated.messages import RefusedError
from rindices.federated.rounds import InMemoryTransport
from rindices.federated.site import Site
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.group_difference import estimate_region_effects
from rindices.study.config import ModelConfig
from rindices.tables.cohort import SITE, Cohort
from tests.federated.sites import make_transport, prepare_rounds, simulate_people, split_cohort


@cache
def simulate_sites() -> dict[str, Cohort]:
    """Return the people of three sites, which shift and scale each region."""
    cohorts, rng = {}, np.random.default_rng(3)
    for name, cohort in split_cohort(simulate_people(), 3).items():
        logs = np.log(cohort.volumes)
        scale = np.exp(0.2 * rng.standard_normal(logs.shape[1]))
        logs = logs.mean() + scale * (logs - logs.mean()) + 0.1 * rng.standard_normal(logs.shape[1])
        cohorts[name] = replace(cohort, volumes=np.exp(logs), people=cohort.people.assign(**{SITE: name}))
    return cohorts


def pool_sites() -> Cohort:
    cohorts = simulate_sites().values()
    frames = (
        pd.concat([getattr(cohort, name) for cohort in cohorts], ignore_index=True)
        for name in ("volumes", "people", "covariates")
    )
    return Cohort(*frames, source="table", unit=next(iter(cohorts)).unit)


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
        np.testing.assert_allclose(getattr(divided.harmoniser, name), getattr(pooled.harmoniser, name), atol=1e-9)
    np.testing.assert_allclose(divided.transform(cohort), pooled.transform(cohort), atol=1e-9)
    assert np.abs(Preprocessing.fit(cohort, "none").transform(cohort) - pooled.transform(cohort)).max() > 0.05


def test_effects_of_regions_are_those_of_harmonised_people() -> None:
    cohort = pool_sites()
    pooled = Preprocessing.fit(cohort, "controls")
    assert pooled.harmoniser is not None
    covariates = pooled.residualiser.build_design(cohort.covariates)
    volumes = pooled.harmoniser.transform(np.log(cohort.volumes.to_numpy()), covariates, list(cohort.people[SITE]))
    expected = estimate_region_effects(volumes, np.column_stack([np.ones(len(cohort)), covariates]), cohort.is_patient)
    for own, other in zip(ask().estimate_effects(), expected, strict=True):
        np.testing.assert_allclose(own, other, atol=1e-7)


@pytest.mark.slow
def test_study_is_that_of_people_without_site_effects() -> None:
    model = ModelConfig(method="mean-difference", members=2)
    cohort, indices = pool_sites(), {}
    for harmonise in (True, False):
        fitted = run_federated_study(
            make_transport(simulate_sites()), FederatedSettings(model, harmonise=harmonise)
        ).model
        assert fitted is not None
        indices[harmonise] = fitted.apply(cohort)["r1"]
    clean = pd.concat(split_cohort(simulate_people(), 3)[name].people for name in simulate_sites())
    fitted = run_federated_study(make_transport(split_cohort(simulate_people(), 3)), FederatedSettings(model)).model
    assert fitted is not None
    expected = fitted.apply(simulate_people()).set_index("participant_id").loc[clean["participant_id"], "r1"]
    close, far = (np.corrcoef(indices[harmonise], expected)[0, 1] for harmonise in (True, False))
    assert close > 0.995
    assert far < close


def test_a_site_without_controls_is_named() -> None:
    sites = dict(simulate_sites())
    sites["site-1"] = sites["site-1"].take(sites["site-1"].is_patient)
    with pytest.raises(RefusedError, match=r"the effect of site-1 needs controls: .*--leave-out"):
        prepare_rounds(sites, True)


def test_a_mode_that_cannot_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text('[data]\nharmonise = "all"\nsite = "scanner"\n')
    words = ["--out", str(tmp_path / "out"), "--wait", "0", "--exchange", "x"]
    result = CliRunner().invoke(app, ["federate", str(tmp_path / "study.toml"), *words])
    assert result.exit_code != 0
    assert "harmonise" in str(result.exception) + result.output


def test_sites_that_differ_are_not_taken_for_a_dishonest_centre() -> None:
    """Pooled over sites with effects, the effect of head size is wrong: a large region is adjusted to its opposite."""
    cohort = simulate_cohort(replace(TASKS["basic"], n_controls=300, n_patients=300), seed=960, sites=3).cohort
    regions = ["MUSE_59", "MUSE_81", "MUSE_82", "MUSE_86", "MUSE_87", *cohort.volumes.columns[:7]]
    cohort = replace(cohort, volumes=cohort.volumes[regions])
    parts = {name: cohort.take((cohort.people[SITE] == name).to_numpy()) for name in cohort.people[SITE].unique()}
    settings = FederatedSettings(ModelConfig(method="mean-difference", members=2))
    transport = InMemoryTransport([Site(name, part) for name, part in parts.items()])
    assert run_federated_study(transport, settings).model is not None
