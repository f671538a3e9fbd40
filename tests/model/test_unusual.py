"""How unusual people are: a calibrated share, and the reasons by name."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import mahalanobis
from scipy.stats import binom
from sklearn.covariance import LedoitWolf

import rindices as ri
from rindices.errors import ModelError
from rindices.experiments.simulate import SimulatedCohort
from rindices.model.unusual import (
    NOVEL_SHARE,
    TrainingDistribution,
    UnusualCount,
    UnusualDetector,
    UnusualPeople,
    UnusualReason,
    compute_limit,
    label_region,
    make_table_warning,
)
from rindices.preprocess.residualise import CategoricalCovariate, NumericCovariate
from rindices.tables.cohort import Cohort


@pytest.fixture(scope="module")
def training() -> SimulatedCohort:
    return ri.simulate_cohort("basic", seed=0)


@pytest.fixture(scope="module")
def model(training: SimulatedCohort) -> ri.FittedModel:
    return ri.fit(training.cohort, 1, members=5, method="contrastive", workers=1)


@pytest.fixture(scope="module")
def people() -> Cohort:
    return ri.simulate_cohort("basic", seed=1).cohort


def test_the_distance_is_mahalanobis() -> None:
    values = np.random.default_rng(0).normal(size=(80, 30)) @ np.random.default_rng(
        1
    ).normal(size=(30, 30))
    distribution = TrainingDistribution.fit(values, range(80))
    precision = LedoitWolf().fit(values).precision_
    expected = [mahalanobis(row, values.mean(axis=0), precision) for row in values]
    np.testing.assert_allclose(
        distribution.compute_distances(values), expected, rtol=1e-9
    )
    np.testing.assert_allclose(
        distribution.compute_contributions(values).sum(axis=1),
        np.square(expected),
        rtol=1e-9,
    )


def test_distances_of_training_people_are_cross_validated() -> None:
    """With as few people as regions, distances without cross-validation would be far
    too small.
    """
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(40, 40))
    distribution = TrainingDistribution.fit(
        rng.normal(size=(60, 40)) @ mixing, range(60)
    )
    new = distribution.compute_unusual(
        distribution.compute_distances(rng.normal(size=(4000, 40)) @ mixing)
    )
    assert (new > 1 - NOVEL_SHARE).mean() < 0.12
    assert (new >= distribution.limit).mean() <= 0.06
    assert (
        distribution.compute_unusual(
            distribution.compute_distances(1e6 * np.ones((1, 40)))
        )
        == 1.0
    )
    assert (
        distribution.compute_unusual(
            distribution.compute_distances(distribution.mean[None])
        )
        == 0.0
    )


def test_no_distance_is_that_of_one_person() -> None:
    """Means of groups of five or more, and bounds of two digits that hold all."""
    values = np.random.default_rng(0).normal(size=(203, 8))
    distribution = TrainingDistribution.fit(values, range(203))
    distances = np.concatenate(
        [
            fold.compute_distances(values[mask])
            for mask, fold in TrainingDistribution.fit_folds(values, range(203))
        ]
    )
    assert len(distribution.distances) == 203 // 5 + 2
    assert (np.diff(distribution.distances) >= 0).all()
    assert not np.isin(distribution.distances.round(9), distances.round(9)).any()
    low, high = distribution.distances[[0, -1]]
    assert (low, high) == (float(f"{low:.2g}"), float(f"{high:.2g}"))
    assert low <= distances.min()
    assert distances.max() <= high
    shares = distribution.compute_unusual(np.sort(distances))
    np.testing.assert_allclose(shares, (np.arange(203) + 0.5) / 203, atol=0.02)


def test_visits_of_one_person_share_a_fold() -> None:
    values = np.random.default_rng(0).normal(size=(60, 4))
    people = [f"p{row // 2}" for row in range(60)]
    for held_out, _ in TrainingDistribution.fit_folds(values, people):
        assert (held_out[::2] == held_out[1::2]).all()


@pytest.mark.parametrize("n_training", [200, 2_000, 100_000])
def test_the_limit_is_the_share_less_its_error(n_training: int) -> None:
    """The limit is the 5 % quantile of the share that a sample of training people has
    above it.
    """
    expected = 1 - binom.ppf(0.05, n_training, NOVEL_SHARE) / n_training
    assert compute_limit(n_training) == pytest.approx(expected, abs=1.5 / n_training)
    assert compute_limit(60) == 1.0


def test_people_of_a_small_study_have_shares_of_their_own(tmp_path: Path) -> None:
    """With about as many regions as people, each person is near to a mean and
    covariance that include the person.
    """
    cohort = ri.simulate_cohort("tiny", seed=0).cohort
    model = ri.fit(cohort, 1, members=1, method="contrastive", workers=1, out=tmp_path)
    written = pd.read_csv(tmp_path / "r_indices.tsv", sep="\t", keep_default_na=False)
    for level in (0.2, 0.5, 0.8):
        assert (written["outlier_score"] < level).mean() == pytest.approx(
            level, abs=0.05
        )
    new = model.apply(ri.simulate_cohort("tiny", seed=1).cohort)
    assert written["outlier_score"].mean() == pytest.approx(
        new["outlier_score"].mean(), abs=0.1
    )
    assert written["outside_training_range"].mean() <= 0.06
    assert model.apply(cohort)["outlier_score"].max() < 0.5


def test_people_of_the_training_distribution_are_rarely_novel(
    model: ri.FittedModel, people: Cohort
) -> None:
    table, problems, _ = model.assess(people)
    assert table["outside_training_range"].mean() <= 0.06
    for level in (0.2, 0.5, 0.8):  # a share, not only a flag
        assert (table["outlier_score"] < level).mean() == pytest.approx(level, abs=0.05)
    assert (table["outside_training_range"] == (table["outside_because"] != "")).all()
    assert not [problem for problem in problems if "looks unlike" in problem.what]


def test_volumes_in_ml_are_novel_by_their_unit(
    model: ri.FittedModel, people: Cohort
) -> None:
    volumes = people.volumes.copy()
    volumes.iloc[:600] /= 1000
    table, problems, _ = model.assess(replace(people, volumes=volumes, unit="unknown"))
    in_ml = table.iloc[:600]
    assert in_ml["outside_training_range"].all()
    assert (
        in_ml["outside_because"]
        .str.contains("0.001 times the usual: another unit?", regex=False)
        .all()
    )
    assert any("another unit in 600" in problem.what for problem in problems)
    with pytest.raises(
        ModelError, match=r"scaled differently than in training.*Check their unit"
    ):
        model.assess(replace(people, volumes=people.volumes / 1000, unit="unknown"))


def test_exchanged_regions_are_named(model: ri.FittedModel, people: Cohort) -> None:
    pairs = {"MUSE_47": "MUSE_59", "MUSE_48": "MUSE_60"}
    exchanged = people.volumes.rename(columns=pairs | {b: a for a, b in pairs.items()})
    table = model.assess(replace(people, volumes=exchanged)).table
    reasons = table["outside_because"]
    are_named = reasons.str.contains(r"Hippocampus_[LR] \+") & reasons.str.contains(
        "ThalamusProper_[LR] -"
    )
    assert (table["outside_training_range"] & are_named).mean() >= 0.95


@pytest.mark.parametrize(("end", "years"), [(1, 20), (0, -20)])
def test_ages_out_of_range_are_novel(
    model: ri.FittedModel, people: Cohort, end: int, years: float
) -> None:
    age = model.card.covariate_ranges["age"][end] + years
    table, problems, _ = model.assess(
        replace(people, covariates=people.covariates.assign(age=age))
    )
    assert (
        table["outside_training_range"]
        & table["outside_because"].str.contains(f"age {age:g} is outside")
    ).mean() >= 0.95
    assert "age out of range in 1,392" in problems[0].what


def test_one_novel_person_gives_no_warning_for_the_table(
    model: ri.FittedModel, people: Cohort
) -> None:
    volumes = people.volumes.copy()
    volumes.loc[3, "MUSE_47"] *= 2.5
    table, problems, _ = model.assess(replace(people, volumes=volumes))
    assert table.loc[3, "outside_training_range"]
    assert table.loc[3, "outside_because"].startswith("Hippocampus_R +")
    assert not [problem for problem in problems if "looks unlike" in problem.what]


def test_a_wrong_cell_is_missing_kept_or_an_error(
    model: ri.FittedModel, people: Cohort
) -> None:
    volumes = people.volumes.copy()
    volumes.iloc[3, 7] *= 4.0
    wrong = replace(people, volumes=volumes)
    empty = replace(people, volumes=people.volumes.mask(volumes != people.volumes))
    treated = model.apply(wrong)
    assert treated["r1"][3] == pytest.approx(model.apply(empty)["r1"][3])
    assert model.apply(wrong, on_outlier="keep")["r1"][3] != pytest.approx(
        treated["r1"][3], abs=1e-6
    )
    with pytest.raises(ModelError, match="1 measurement of 1 participant"):
        model.apply(wrong, on_outlier="error")


def test_regions_with_the_largest_contribution_are_named() -> None:
    """At most four regions above a share are named; without one, the reason is many
    regions together.
    """
    sd = np.array([1.0, 2.0] + [1.0] * 28)
    distribution = TrainingDistribution(
        mean=np.zeros(30),
        covariance=np.diag(sd**2),
        distances=np.sqrt(np.linspace(10, 60, 500)),
        limit=np.array(0.95),
    )
    names = tuple(f"region{k}" for k in range(30))
    detector = UnusualDetector(
        regions=names,
        control_mean=np.zeros(30),
        codings=(),
        ranges={},
        training=distribution,
    )
    values = np.zeros((4, 30))
    values[0] = 3 * sd
    values[1, :3] = 9.0, -12.0, 1.0  # the third contributes less than one percent
    values[2, :6] = [9.0, -12.0, 6.0, 5.5, 5.0, 0.0]
    flagged = detector.assess(
        values,
        pd.DataFrame(index=range(4)),
        distribution.compute_distances(values),
        values.__getitem__,
    )
    assert flagged.texts[0] == "many regions together are unusual"
    assert flagged.texts[1] == "region0 +9.0 sd; region1 -6.0 sd"
    assert [reason.cause for reason in flagged.reasons[1]] == [
        "region0 high",
        "region1 low",
    ]
    assert (
        flagged.texts[2]
        == "region0 +9.0 sd; region1 -6.0 sd; region2 +6.0 sd; region3 +5.5 sd"
    )
    assert flagged.texts[3] == ""


def test_without_training_distances_only_ranges_are_checked() -> None:
    codings = (
        NumericCovariate(name="age", low=50, high=90),
        CategoricalCovariate("sex", ("F", "M")),
    )
    detector = UnusualDetector(
        regions=("a", "b"),
        control_mean=np.array([100.0, 200.0]),
        codings=codings,
        ranges={"age": (40, 90)},
        training=None,
    )
    covariates = pd.DataFrame(
        {"age": [30.0, 38.5, 45.0, 92.0, 93.0], "sex": list("FMFMF")}
    )
    volumes = np.tile([100.0, 200.0], (5, 1))
    flagged = detector.assess(volumes, covariates, None, np.ones((5, 2)).__getitem__)
    assert flagged.unusual is None
    assert flagged.novel.tolist() == [True, False, False, False, True]
    assert flagged.texts[0] == "age 30 is outside 40 to 90"


def test_a_table_with_many_novel_people_gets_one_warning() -> None:
    reasons = [UnusualReason("age out of range", "age 5 is outside 50 to 90")]
    few, many = (
        UnusualPeople(100, None, dict.fromkeys(range(number), reasons))
        for number in (19, 20)
    )
    everyone = np.ones(100, dtype=bool)
    assert make_table_warning(UnusualCount.of(few, everyone)) == []
    (warning,) = make_table_warning(UnusualCount.of(many, everyone))
    assert UnusualCount.of(many, np.arange(100) >= 5) == (
        95,
        15,
        {"age out of range": 15},
    )
    assert "20 of 100 are outside the training range" in warning.what
    assert "age out of range in 20" in warning.what
    (warning,) = make_table_warning(
        UnusualCount(100, 40, Counter({"age out of range": 36, "another unit?": 4}))
    )
    assert (
        "(age out of range in 36)" in warning.what
    )  # a cause of at most a tenth of them is not named
    assert (
        make_table_warning(
            UnusualCount.of(
                UnusualPeople(1, None, {0: reasons}), np.ones(1, dtype=bool)
            )
        )
        == []
    )


def test_values_around_zero_have_no_unit() -> None:
    """A multiple of the mean z-score does not suggest another unit."""
    detector = UnusualDetector(
        regions=("a", "b", "c"),
        control_mean=np.array([-0.5, -0.2, -0.1]),
        codings=(),
        ranges={},
        training=None,
    )
    volumes = 20 * np.tile(detector.control_mean, (3, 1))
    assert not detector.assess(
        volumes, pd.DataFrame(index=range(3)), None, volumes.__getitem__
    ).novel.any()


def test_counts_of_chunks_add_up() -> None:
    total = UnusualCount(10, 3, Counter({"age": 3})).merged_with(
        UnusualCount(20, 4, Counter({"age": 1, "unit": 3}))
    )
    assert total == UnusualCount(30, 7, Counter({"age": 4, "unit": 3}))


def test_muse_codes_get_their_label() -> None:
    assert label_region("MUSE_47+MUSE_48") == "Hippocampus_R+Hippocampus_L"
    assert label_region("other") == "other"
