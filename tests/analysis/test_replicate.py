"""Matching of the patterns of two studies, and its null."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from rindices.analysis import replicate
from rindices.analysis.replicate import (
    align_regions,
    compare_people,
    draw_maps,
    replicate_patterns,
)
from rindices.errors import AnalysisError
from rindices.model.normal_reference import load_muse_reference
from rindices.tables.layouts.muse import region_label

REFERENCE = load_muse_reference()
CORRELATION = REFERENCE.correlation
STRUCTURES = [
    region_label(name).removesuffix("_L").removesuffix("_R")
    for name in REFERENCE.regions
]
NUMBER, NAMES = pd.factorize(np.array(STRUCTURES))


def draw_smooth_patterns(rng: np.random.Generator, number: int = 3) -> np.ndarray:
    """Return patterns that lower the highest structures of random maps with the
    correlations of healthy people.
    """
    heights = rng.multivariate_normal(
        np.zeros(len(CORRELATION)), CORRELATION, size=number
    )
    sums = np.zeros((number, len(NAMES)))
    np.add.at(sums, (slice(None), NUMBER), heights)
    lowered = np.argsort(np.argsort(sums, axis=1), axis=1)[:, NUMBER] >= len(NAMES) - 9
    return np.where(
        lowered,
        -rng.uniform(1, 4, size=lowered.shape),
        rng.normal(0, 0.2, size=lowered.shape),
    )


def test_common_patterns_are_matched_in_any_order_and_others_are_left_over() -> None:
    rng = np.random.default_rng(0)
    truth = draw_smooth_patterns(rng, 4)
    first = truth[[0, 1, 2]] + rng.normal(0, 0.2, (3, len(CORRELATION)))
    second = truth[[3, 1, 0]][:, :] + rng.normal(0, 0.2, (3, len(CORRELATION)))
    result = replicate_patterns(first, second, CORRELATION, STRUCTURES)
    matched = result.table[result.table["matched"]]
    assert sorted(zip(matched["first"], matched["second"], strict=True)) == [
        ("r1", "r3"),
        ("r2", "r2"),
    ]
    assert (matched["correlation"] > result.chance).all()
    assert result.table.loc[
        ~result.table["matched"], ["first", "second"]
    ].to_numpy().tolist() == [["r3", "r1"]]
    fewer = replicate_patterns(first, second[1:2], CORRELATION, STRUCTURES).table
    assert fewer["first"].tolist() == ["r2", "r1", "r3"]
    assert fewer["second"].isna().tolist() == [False, True, True]
    assert fewer["matched"].tolist() == [True, False, False]


@pytest.mark.slow  # measured in full by benchmarks/replicate.py
def test_unrelated_smooth_patterns_are_rarely_matched_where_exchanged_regions_often_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replicate, "N_MAPS", 200)
    rng = np.random.default_rng(1)
    pairs = [(draw_smooth_patterns(rng), draw_smooth_patterns(rng)) for _ in range(100)]
    results = [
        replicate_patterns(*pair, CORRELATION, STRUCTURES).table for pair in pairs
    ]
    assert np.mean([table["p"].min() <= 0.05 for table in results]) <= 0.1
    assert np.mean([table["matched"].any() for table in results]) <= 0.05
    exchanged = [
        replicate_patterns(*pair, np.eye(len(CORRELATION)), range(139)).table
        for pair in pairs
    ]
    assert np.mean([table["p"].min() <= 0.05 for table in exchanged]) >= 0.15


def test_maps_have_the_values_of_the_pattern_and_are_smooth_and_alike_on_both_sides() -> (
    None
):
    rng = np.random.default_rng(2)
    pattern = rng.normal(size=(1, len(CORRELATION)))
    maps = draw_maps(pattern, CORRELATION, STRUCTURES, rng)[:, 0]
    assert maps.shape == (replicate.N_MAPS, len(CORRELATION))
    np.testing.assert_array_equal(np.sort(maps[0]), np.sort(pattern[0]))
    left, right = REFERENCE.regions.index("MUSE_48"), REFERENCE.regions.index("MUSE_47")
    assert np.corrcoef(maps[:, left], maps[:, right])[0, 1] > 0.95
    neighbours = np.abs(CORRELATION[left]) > 0.3
    others = np.corrcoef(maps.T)[left]
    assert others[neighbours].mean() > others[~neighbours].mean() + 0.3


def test_sums_of_regions_are_compared_with_the_mean_of_their_parts() -> None:
    names = [f"left s{k}" for k in range(12)]
    single = {(name,): np.array([float(k)]) for k, name in enumerate(names)}
    summed = {
        ("left s0", "left s1"): np.array([7.0]),
        **{(name,): np.array([1.0]) for name in [*names[2:], "x"]},
    }
    regions, first, second = align_regions(single, summed)
    assert ("left s0", "left s1") in regions
    assert not {("left s0",), ("left s1",), ("x",)} & set(regions)
    assert first[0, regions.index(("left s0", "left s1"))] == 0.5
    assert second.shape == (1, 11)
    with pytest.raises(
        AnalysisError, match="the two have 1 regions in common, fewer than 10"
    ):
        align_regions(single, {("left s3",): np.zeros(2)})


def test_people_are_joined_by_id() -> None:
    rng = np.random.default_rng(3)
    own = pd.DataFrame(
        {
            "participant_id": [f"s{k}" for k in range(60)],
            "group": ["patient", "control"] * 30,
        }
    )
    own = own.assign(r1=rng.uniform(size=60), r2=rng.uniform(size=60))
    other = own[["participant_id"]].assign(r1=own["r2"] + rng.normal(0, 0.2, 60))
    row = compare_people(
        own, other.sample(frac=1, random_state=0), [("r2", "r1")]
    ).iloc[0]
    patient = own["group"] == "patient"
    assert row["rank_correlation"] == pytest.approx(
        spearmanr(own["r2"][patient], other["r1"][patient]).statistic
    )
    assert row["in_controls"] == pytest.approx(
        spearmanr(own["r2"][~patient], other["r1"][~patient]).statistic
    )
    assert row["auc"] == pytest.approx(roc_auc_score(patient, other["r1"]))
    assert row["n"] == 30
    assert row["low"] < row["rank_correlation"] < row["high"]
