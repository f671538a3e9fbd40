"""A fit across sites equals the fit of the pooled people."""

from functools import cache

import numpy as np
import pytest

from rindices.errors import StudyError
from rindices.model.records import QUANTILE_RANKS
from rindices.selection.agreement import pattern_c_index
from rindices.study.config import ModelConfig
from rindices.sums.study import SumsResult, SumsSettings, run_study_from_sums
from rindices.tables.cohort import Cohort
from tests.cohorts import simulate_few_regions
from tests.sums.sites import (
    MEMBERS,
    fit_parts,
    make_transport,
    simulate_people,
    simulate_study,
    split_cohort,
)

MODEL = ModelConfig(patterns=(1, 3), members=MEMBERS)


@cache
def fit_sites(n_sites: int) -> SumsResult:
    return run_study_from_sums(
        make_transport(split_cohort(simulate_people(), n_sites)),
        SumsSettings(model=MODEL),
    )


@pytest.mark.slow
def test_sites_equal_pooled_people() -> None:
    pooled, divided = fit_sites(1), fit_sites(3)
    assert pooled.model is not None
    assert divided.model is not None
    assert len(pooled.rounds) == len(divided.rounds) < 150
    np.testing.assert_allclose(divided.model.patterns, pooled.model.patterns, atol=1e-6)
    assert divided.model.patterns_se is not None
    np.testing.assert_allclose(
        divided.model.patterns_se, pooled.model.patterns_se, atol=1e-6
    )
    assert divided.model.selection is not None
    assert pooled.model.selection is not None
    first, second = (
        result.model.selection.to_dict()
        for result in (pooled, divided)
        if result.model is not None
    )
    assert first.keys() == second.keys()
    assert (
        first["number_of_patterns"]["test"]["curve"][0]["p"]
        == second["number_of_patterns"]["test"]["curve"][0]["p"]
    )
    for one, other in zip(first["grid"], second["grid"], strict=True):
        assert one["held_out"]["shape"] == other["held_out"]["shape"]
        np.testing.assert_allclose(
            one["held_out"]["staged"], other["held_out"]["staged"], atol=1e-6
        )


@pytest.mark.slow
def test_people_rank_identically() -> None:
    indices = []
    for result in (fit_sites(1), fit_sites(3)):
        assert result.model is not None
        indices.append(result.model.apply(simulate_people())[result.model.index_names])
    assert (indices[0].rank() == indices[1].rank()).all(axis=None)
    np.testing.assert_allclose(indices[0], indices[1], atol=1e-6)


@pytest.mark.slow
def test_known_severities_are_found() -> None:
    result = fit_sites(1)
    assert result.model is not None
    assert result.model.n_patterns == 3
    simulated = simulate_study()
    indices = result.model.apply(simulated.cohort)[result.model.index_names].to_numpy()
    assert (
        pattern_c_index(simulated.truth, indices[simulated.cohort.is_patient]).mean
        > 0.8
    )


@pytest.mark.slow
def test_order_of_rows_and_names_of_sites_do_not_matter() -> None:
    cohorts = split_cohort(simulate_people(), 3)
    renamed = {
        f"other-{k}": cohort for k, cohort in enumerate(reversed(cohorts.values()))
    }
    settings = SumsSettings(model=ModelConfig(patterns=(1,), members=2))
    transports = [make_transport(each) for each in (cohorts, renamed)]
    first, second = (run_study_from_sums(each, settings).model for each in transports)
    assert first is not None
    assert second is not None
    np.testing.assert_allclose(first.patterns, second.patterns, atol=1e-8)


def _take(cohort: Cohort, n_controls: int, n_patients: int, used: set[int]) -> Cohort:
    """Return people who are in no other site."""
    rows = []
    for mask, number in (
        (cohort.is_control, n_controls),
        (cohort.is_patient, n_patients),
    ):
        rows += [int(row) for row in np.flatnonzero(mask) if int(row) not in used][
            :number
        ]
    used |= set(rows)
    return cohort.take(np.array(rows))


def test_unequal_sites_end_right() -> None:
    """One site has no patients, one has 25 people."""
    simulated, used = simulate_study(), set[int]()
    cohort = simulated.cohort
    sites = {
        "controls-only": _take(cohort, 50, 0, used),
        "small": _take(cohort, 12, 13, used),
        "large": _take(cohort, 88, 187, used),
    }
    settings = SumsSettings(model=ModelConfig(patterns=(1,), members=MEMBERS))
    result = run_study_from_sums(make_transport(sites), settings)
    assert result.model is not None
    assert result.counts == {"controls": 150, "patients": 200}
    indices = result.model.apply(cohort)["r1"].to_numpy()[cohort.is_patient]
    assert np.corrcoef(indices, simulated.truth.mean(axis=1))[0, 1] > 0.7


def test_no_difference_is_a_result() -> None:
    cohort = simulate_few_regions("null", 3).cohort
    result = run_study_from_sums(
        make_transport(split_cohort(cohort, 2)),
        SumsSettings(model=ModelConfig(members=2)),
    )
    assert result.model is None
    assert result.finding == "no_difference"


def test_mean_difference_needs_no_further_round() -> None:
    cohorts = split_cohort(simulate_people(), 2)
    settings = SumsSettings(
        model=ModelConfig(patterns=(1,), members=MEMBERS, method="mean-difference")
    )
    result = run_study_from_sums(make_transport(cohorts), settings)
    assert result.model is not None
    assert len(result.rounds) == 6
    indices = result.model.apply(simulate_people())["r1"].to_numpy()
    is_patient = simulate_people().is_patient
    assert indices[is_patient].mean() > indices[~is_patient].mean() + 0.3
    assert np.quantile(indices[is_patient], 0.98) == pytest.approx(1.0, abs=0.2)
    for group, mask in (
        ("control", ~is_patient),
        ("patient", is_patient),
    ):  # from normal distributions of the groups
        expected = np.quantile(indices[mask], QUANTILE_RANKS)
        np.testing.assert_allclose(
            result.model.card.index_quantiles[group][0], expected, atol=0.2
        )


def test_distances_can_be_left_out_and_settings_of_em_are_kept() -> None:
    config = ModelConfig(patterns=(1,), members=2)
    model = fit_parts(split_cohort(simulate_people(), 2), config, with_distances=False)
    assert model.card.method is not None
    assert model.card.method.settings["em"] == config.resolve_values()["em"]
    assert model.n_patterns == 1
    assert model.training is not None
    assert not len(model.training.distances)


def test_other_methods_are_refused_by_name() -> None:
    settings = SumsSettings(model=ModelConfig(method="surreal-gan"))
    with pytest.raises(
        StudyError, match="surreal-gan cannot be fitted from sums: use trajectories"
    ):
        run_study_from_sums(
            make_transport(split_cohort(simulate_people(), 2)), settings
        )
