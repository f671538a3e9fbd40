"""People who lack regions: filled regions are conditional expectations, and too little information is refused."""

import re

import numpy as np
import pandas as pd
import pytest

from rindices.errors import ModelError
from rindices.learners.inference import ContrastiveHead
from rindices.model.measured import (
    add_missing_regions,
    compute_measured_distances,
    find_people_without_index,
    make_measured_inference,
    note_missing,
    report_people_without_index,
)
from rindices.model.unusual import TrainingDistribution
from rindices.tables.cohort import Cohort

N_REGIONS = 6


@pytest.fixture
def training() -> TrainingDistribution:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(300, N_REGIONS)) @ rng.normal(size=(N_REGIONS, N_REGIONS))
    return TrainingDistribution.fit(values, range(300))


def make_cohort(n_regions: int = 4) -> Cohort:
    volumes = pd.DataFrame(np.ones((2, n_regions)), columns=[f"r{k}" for k in range(n_regions)])
    people = pd.DataFrame({"participant_id": ["a", "b"]})
    return Cohort(volumes, people, pd.DataFrame(index=range(2)))


def test_a_linear_index_is_its_conditional_expectation(training: TrainingDistribution) -> None:
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(N_REGIONS, 2))
    zeros, ones = np.zeros(N_REGIONS), np.ones(N_REGIONS)
    head = ContrastiveHead(zeros, ones, np.array(0.0), zeros, ones, weights)
    values, missing = rng.normal(size=(5, N_REGIONS)), np.array([1, 4])
    o = np.setdiff1d(np.arange(N_REGIONS), missing)
    covariance = training.covariance
    slope = np.linalg.solve(covariance[np.ix_(o, o)], covariance[np.ix_(o, missing)])
    expected = values.copy()
    expected[:, missing] = training.mean[missing] + (values[:, o] - training.mean[o]) @ slope
    left = covariance[np.ix_(missing, missing)] - covariance[np.ix_(missing, o)] @ slope
    values[:, missing] = np.nan
    infer, added = make_measured_inference([head], missing, training)
    np.testing.assert_allclose(infer([np.nan_to_num(values)]), expected @ weights)
    np.testing.assert_allclose(added, np.diag(weights[missing].T @ left @ weights[missing]), rtol=0.2)
    deviations = (expected - training.mean)[:, o]
    inverse = np.linalg.inv(covariance[np.ix_(o, o)])
    distances = np.sqrt(((deviations @ inverse) * deviations).sum(axis=1) * N_REGIONS / len(o))
    np.testing.assert_allclose(compute_measured_distances(np.nan_to_num(values), missing, training), distances)


def test_an_imported_model_needs_all_regions() -> None:
    zeros, ones = np.zeros(3), np.ones(3)
    head = ContrastiveHead(zeros, ones, np.array(0.0), zeros, ones, np.ones((3, 1)))
    with pytest.raises(ModelError, match="needs all of them"):
        make_measured_inference([head], np.array([0]), None)


def test_empty_columns_stand_for_missing_regions() -> None:
    cohort = make_cohort(4)
    completed, absent = add_missing_regions(cohort, ["r0", "r1", "r2", "r3", "x"], "model")
    assert absent == ["x"]
    assert completed.volumes["x"].isna().all()
    for regions, policy in (
        (["r0", "x"], "model"),
        (["r0", "r1", "r2", "r3", "x"], "error"),
        (list("abcdefghi"), "model"),
    ):
        assert add_missing_regions(cohort, regions, policy) == (cohort, [])


def test_people_of_whom_too_little_is_known_are_named() -> None:
    cohort, spread = make_cohort(), np.array([0.1, 0.2])
    assert not find_people_without_index(np.array([[0.04, 0.0], [0.0, 0.09]]), spread, 0.5).any()
    is_short = find_people_without_index(np.array([[0.04, 0.0], [0.0, 0.11]]), spread, 0.5)
    (warning,) = report_people_without_index(cohort, is_short, 0.5)
    assert re.search(r"1 person lacks too many regions.*50% of an R-index: b\. They are left out", str(warning))


def test_notes_say_how_much_wider_intervals_are() -> None:
    volumes, widening = np.array([[1.0, np.nan], [1.0, 2.0]]), np.array([1.25, 1.0])
    (note,) = note_missing((), volumes, widening, "mm3")
    assert (
        note.what
        == "1 person lacks regions: R-indices come from the others, and their intervals are 25% wider on average"
    )
    (warning,) = note_missing(["x"], volumes, widening, "any")
    assert "the table lacks 1 feature" in warning.what
    assert note_missing((), np.ones((2, 2)), widening, "mm3") == []
