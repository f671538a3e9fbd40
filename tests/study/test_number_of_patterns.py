"""The number of patterns: the test of a cohort, and why agreement may give another number."""

from dataclasses import replace

import numpy as np
import pytest

import rindices as ri
from rindices.experiments.trust_cohorts import NULL_COHORTS, simulate_null_cohort
from rindices.study import number_of_patterns
from rindices.study.number_of_patterns import (
    count_cohort_dimensions,
    explain_disagreement,
    log_transform_volumes,
    make_number_record,
)
from rindices.study.result_checks import collect_study_warnings


def test_the_true_number_is_found_whatever_the_unit() -> None:
    cohort = ri.simulate_cohort("basic", seed=0).cohort
    found = count_cohort_dimensions(cohort)
    assert found.number == 3
    assert found.overlap > 0.95
    litres = replace(cohort, volumes=cohort.volumes / 1e6)
    again = count_cohort_dimensions(litres)
    np.testing.assert_allclose(
        [q.excess for q in again.dimension_tests], [q.excess for q in found.dimension_tests], rtol=1e-6
    )


def test_groups_of_different_sites_cannot_be_compared() -> None:
    cohort = ri.simulate_cohort("tiny", seed=0).cohort
    site = np.where(cohort.is_patient, "hospital", "school").astype(object)
    found = count_cohort_dimensions(replace(cohort, people=cohort.people.assign(site=site)))
    assert found.overlap == 0.0
    assert found.number == 0
    assert not found.is_null  # no ground to say that there is none
    assert "can hardly compare" in str(collect_study_warnings(make_number_record(found, (2, 3), 2), [])[1])


def test_a_second_scan_adds_no_person() -> None:
    cohort = ri.simulate_cohort("tiny", seed=0).cohort
    twice = np.repeat(np.arange(len(cohort)), 2)
    frames = (frame.iloc[twice].reset_index(drop=True) for frame in (cohort.volumes, cohort.people, cohort.covariates))
    assert count_cohort_dimensions(type(cohort)(*frames)) == count_cohort_dimensions(cohort)


@pytest.mark.parametrize("kind", list(NULL_COHORTS))
def test_misleading_cohorts_without_disease(kind: str) -> None:
    assert [count_cohort_dimensions(simulate_null_cohort(kind, seed), seed).number for seed in range(3)].count(0) >= 2


def test_large_groups_are_drawn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    cohort = ri.simulate_cohort("basic", seed=0).cohort
    seen = []
    monkeypatch.setattr(number_of_patterns, "MAX_PARTICIPANTS_PER_GROUP", 150)
    monkeypatch.setattr(
        number_of_patterns,
        "count_adjusted_dimensions",
        lambda shifts, covariates, strata, patient, *rest: seen.append(patient),
    )
    count_cohort_dimensions(cohort)
    assert (len(seen[0]), seen[0].sum()) == (300, 150)


def test_shifts_are_logarithms_of_volumes_and_z_scores_stay() -> None:
    rng = np.random.default_rng(0)
    volumes = np.exp(rng.normal(8, 0.1, size=(50, 4)))
    np.testing.assert_allclose(log_transform_volumes(volumes), np.log(volumes / volumes.mean(axis=0)))
    scores = rng.normal(size=(50, 4))
    np.testing.assert_allclose(log_transform_volumes(scores).std(axis=0), 1.0)
    np.testing.assert_allclose(np.corrcoef(log_transform_volumes(scores)[:, 0], scores[:, 0])[0, 1], 1.0)


@pytest.mark.parametrize(
    ("tested", "tried", "agreed", "words"),
    [
        (3, (2, 3, 4), 3, ""),
        (3, (2, 3, 4), None, ""),
        (0, (3,), 3, "chance"),
        (5, (2, 3, 4), 3, "--patterns 5"),
        (3, (2, 3, 4), 2, "weak"),
        (2, (2, 3, 4), 4, "split"),
    ],
)
def test_the_disagreement_is_explained(tested: int, tried: tuple[int, ...], agreed: int | None, words: str) -> None:
    said = explain_disagreement(tested, tried, agreed)
    assert words in said
    assert bool(said) == bool(words)
