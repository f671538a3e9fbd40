"""Unlike the training people: told as a probability that means what it says, with the reason by name."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import mahalanobis
from scipy.stats import binom
from sklearn.covariance import LedoitWolf

import rindices as ri
from rindices.experiments.simulate import SimulatedCohort
from rindices.model.novelty import (
    NOVELTY_LEVEL,
    Novelty,
    NoveltyCount,
    NoveltyDetector,
    NoveltyReason,
    TrainingDistribution,
    make_table_warning,
)
from rindices.preprocess.residualise import CategoricalCovariate, NumericCovariate
from rindices.tables.cohort import Cohort


@pytest.fixture(scope="module")
def training() -> SimulatedCohort:
    return ri.simulate_cohort("basic", seed=0)


@pytest.fixture(scope="module")
def model(training: SimulatedCohort) -> ri.FittedModel:
    return ri.fit(training.cohort, 1, members=1, recipe="contrastive", workers=1)


@pytest.fixture(scope="module")
def people() -> Cohort:
    return ri.simulate_cohort("basic", seed=1).cohort


def test_the_distance_is_mahalanobis() -> None:
    values = np.random.default_rng(0).normal(size=(80, 30)) @ np.random.default_rng(1).normal(size=(30, 30))
    known = TrainingDistribution.learn(values)
    precision = LedoitWolf().fit(values).precision_
    expected = [mahalanobis(row, values.mean(axis=0), precision) for row in values]
    np.testing.assert_allclose(known.compute_distances(values), expected, rtol=1e-9)
    np.testing.assert_allclose(known.parts(values).sum(axis=1), np.square(expected), rtol=1e-9)


def test_training_people_are_measured_by_others() -> None:
    """With as few people as regions, people known to the covariance would look far nearer than new ones."""
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(40, 40))
    known = TrainingDistribution.learn(rng.normal(size=(60, 40)) @ mixing)
    fresh = known.tail(known.compute_distances(rng.normal(size=(4000, 40)) @ mixing))
    assert (fresh < NOVELTY_LEVEL).mean() < 0.12
    assert (fresh < known.bar).mean() <= 0.06
    assert len(known.distances) == 60
    assert (np.diff(known.distances) >= 0).all()
    assert known.tail(known.compute_distances(1e6 * np.ones((1, 40))))[0] == pytest.approx(1 / 61)
    assert known.tail(known.compute_distances(known.mean[None]))[0] == 1.0


@pytest.mark.parametrize("number", [200, 2_000, 100_000])
def test_the_bar_is_the_level_less_its_error(number: int) -> None:
    """So few of as many training people lie beyond the bar by chance in 5 % of trainings only."""
    known = TrainingDistribution(np.zeros(2), np.eye(2), np.arange(float(number)))
    assert known.bar == pytest.approx(binom.ppf(0.05, number, NOVELTY_LEVEL) / number, abs=1.5 / number)
    few = TrainingDistribution(np.zeros(2), np.eye(2), np.arange(20.0))
    assert few.tail(np.array([1e9])) < few.bar < few.tail(np.array([18.5]))


def test_people_of_the_training_distribution(model: ri.FittedModel, people: Cohort) -> None:
    found, problems, _ = model.assess(people)
    assert found["novel"].mean() <= 0.06
    tail = found["novelty"].to_numpy()
    for level in (0.2, 0.5, 0.8):  # a probability, not only a flag
        assert (tail < level).mean() == pytest.approx(level, abs=0.05)
    assert (found["novel"] == (found["novel_because"] != "")).all()
    assert not [problem for problem in problems if "looks unlike" in problem.what]


def test_volumes_in_ml(model: ri.FittedModel, people: Cohort) -> None:
    few = people.take(np.arange(50))
    found, problems, _ = model.assess(replace(few, volumes=few.volumes / 1000, unit="unknown"))
    assert found["novel"].all()
    assert found["novel_because"].str.contains("0.001 times the usual: another unit?", regex=False).mean() >= 0.95
    assert "50 of 50 are novel where at most 5% are expected (another unit in 50)" in problems[0].what


def test_exchanged_structures(model: ri.FittedModel, people: Cohort) -> None:
    pairs = {"MUSE_47": "MUSE_59", "MUSE_48": "MUSE_60"}
    turned = people.volumes.rename(columns=pairs | {b: a for a, b in pairs.items()})
    found = model.apply(replace(people, volumes=turned))
    named = found["novel_because"]
    right = named.str.contains(r"Hippocampus_[LR] \+") & named.str.contains("ThalamusProper_[LR] -")
    assert (found["novel"] & right).mean() >= 0.95


@pytest.mark.parametrize(("end", "years"), [(1, 20), (0, -20)])
def test_ages_out_of_range(model: ri.FittedModel, people: Cohort, end: int, years: float) -> None:
    age = model.card["covariate_ranges"]["age"][end] + years
    found, problems, _ = model.assess(replace(people, covariates=people.covariates.assign(age=age)))
    assert (found["novel"] & found["novel_because"].str.contains(f"age {age:g} is outside")).mean() >= 0.95
    assert "age out of range in 1,392" in problems[0].what


def test_one_strange_person_among_many(model: ri.FittedModel, people: Cohort) -> None:
    volumes = people.volumes.copy()
    volumes.loc[3, "MUSE_47"] *= 2.5
    found, problems, _ = model.assess(replace(people, volumes=volumes))
    assert found.loc[3, "novel"]
    assert found.loc[3, "novel_because"].startswith("Hippocampus_R +")
    assert not [problem for problem in problems if "looks unlike" in problem.what]


def test_the_regions_that_make_the_distance_are_named() -> None:
    """At most four, each with its share; where none stands out, many together."""
    sd = np.array([1.0, 2.0] + [1.0] * 28)
    known = TrainingDistribution(np.zeros(30), np.diag(sd**2), np.sqrt(np.linspace(10, 60, 500)))
    names = tuple(f"region{k}" for k in range(30))
    reference = NoveltyDetector(names, np.zeros(30), (), {}, known)
    values = np.zeros((4, 30))
    values[0] = 3 * sd
    values[1, :3] = 9.0, -12.0, 1.0  # the third makes less than a hundredth
    values[2, :6] = [9.0, -12.0, 6.0, 5.5, 5.0, 0.0]
    found = reference.assess(values, pd.DataFrame(index=range(4)), known.compute_distances(values), values.__getitem__)
    assert found.texts[0] == "many regions together are unusual"
    assert found.texts[1] == "region0 +9.0 sd; region1 -6.0 sd"
    assert [reason.cause for reason in found.reasons[1]] == ["region0 high", "region1 low"]
    assert found.texts[2] == "region0 +9.0 sd; region1 -6.0 sd; region2 +6.0 sd; region3 +5.5 sd"
    assert found.texts[3] == ""


def test_without_training_people_ranges_are_left() -> None:
    codings = (NumericCovariate("age", 50, 90), CategoricalCovariate("sex", ("F", "M")))
    reference = NoveltyDetector(("a", "b"), np.array([100.0, 200.0]), codings, {"age": (40, 90)}, None)
    covariates = pd.DataFrame({"age": [30.0, 38.5, 45.0, 92.0, 93.0], "sex": list("FMFMF")})
    volumes = np.tile([100.0, 200.0], (5, 1))
    found = reference.assess(volumes, covariates, None, np.ones((5, 2)).__getitem__)
    assert found.tail is None
    assert found.novel.tolist() == [True, False, False, False, True]
    assert found.texts[0] == "age 30 is outside 40 to 90"


def test_one_warning_for_a_table_that_is_unlike() -> None:
    strange = [NoveltyReason("age out of range", "age 5 is outside 50 to 90")]
    assert make_table_warning(NoveltyCount.of(Novelty(100, None, dict.fromkeys(range(19), strange)))) == []
    (warning,) = make_table_warning(NoveltyCount.of(Novelty(100, None, dict.fromkeys(range(20), strange))))
    assert "20 of 100 are novel" in warning.what
    assert "age out of range in 20" in warning.what
    assert make_table_warning(NoveltyCount.of(Novelty(1, None, {0: strange}))) == []


def test_values_around_zero_have_no_unit() -> None:
    """Five times a typical z-score is nobody's unit, whatever its sign."""
    reference = NoveltyDetector(("a", "b", "c"), np.array([-0.5, -0.2, -0.1]), (), {}, None)
    volumes = 20 * np.tile(reference.typical, (3, 1))
    assert not reference.assess(volumes, pd.DataFrame(index=range(3)), None, volumes.__getitem__).novel.any()


def test_counts_of_pieces_add_up() -> None:
    both = NoveltyCount(10, 3, Counter({"age": 3})).merged_with(NoveltyCount(20, 4, Counter({"age": 1, "unit": 3})))
    assert both == NoveltyCount(30, 7, Counter({"age": 4, "unit": 3}))
