"""The change of regions along severity, and their order."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau

import rindices as ri
from rindices.errors import ModelError
from rindices.experiments.simulate import SimulatedCohort
from rindices.experiments.tasks import TASKS
from rindices.learners.inference import SEVERITY_LEVELS, TrajectoryHead
from rindices.model.pattern_tables import (
    COURSE_COLUMN_DESCRIPTIONS,
    COURSE_LEVELS,
    MIN_FINAL_CHANGE,
    PATTERN_COLUMN_DESCRIPTIONS,
    REGION_ORDER_COLUMNS,
    TRAJECTORY_LEVELS,
    compute_curve_onsets,
    estimate_shrinkage,
    get_shape,
    make_change_table,
    make_course_table,
)
from rindices.selection.agreement import compute_confidence_interval
from tests.cohorts import simulate_few_regions

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture(scope="module")
def simulated() -> SimulatedCohort:
    return simulate_few_regions(
        replace(TASKS["staged"], n_controls=200, n_patients=400), seed=3
    )


@pytest.fixture(scope="module")
def model(simulated: SimulatedCohort) -> ri.FittedModel:
    return ri.fit(simulated.cohort, 3, members=3, workers=1)


@pytest.fixture(scope="module")
def old_model() -> ri.FittedModel:
    return ri.load(FIXTURES / "contrastive.safetensors")


def _straighten(model: ri.FittedModel) -> ri.FittedModel:
    """Return a model in which all regions of a pattern follow the mean course."""
    heads = []
    for head in model.heads:
        assert isinstance(head, TrajectoryHead)
        course = np.abs(head.steps).sum(axis=2)
        final = head.steps.sum(axis=1)
        heads.append(
            replace(
                head,
                steps=(course / course.sum(axis=1, keepdims=True))[:, :, None]
                * final[:, None],
            )
        )
    return replace(
        model,
        heads=tuple(heads),
        card=model.card.model_copy(update={"shape": "proportional"}),
    )


def test_the_onset_is_where_a_quarter_of_the_final_change_is_reached() -> None:
    steps = np.array(
        [
            [1.0, 0.0, -4.0, 0.5, 0.0],
            [1.0, 0.0, 0.0, -0.5, 0.0],
            [1.0, 2.0, 0.0, 1.0, 0.0],
            [1.0, 2.0, 0.0, 1.0, 0.0],
        ]
    )
    onsets = compute_curve_onsets(steps)
    np.testing.assert_allclose(onsets[:4], [0.25, 0.625, 0.0625, 0.25])
    assert np.isnan(onsets[4])


def test_changes_are_those_of_the_patterns_at_their_severities(
    model: ri.FittedModel,
) -> None:
    table = model.trajectories()
    assert list(table) == list(PATTERN_COLUMN_DESCRIPTIONS)
    assert len(table) == model.n_patterns * len(model.regions) * len(TRAJECTORY_LEVELS)
    for severity in (0.5, 1.0):
        rows = table[table["severity"] == severity]
        expected = model.patterns[SEVERITY_LEVELS.index(severity)]
        np.testing.assert_allclose(
            rows["change"].to_numpy().reshape(expected.shape), expected, atol=1e-12
        )
    assert (table.loc[table["severity"] == 0.0, "change"] == 0.0).all()
    assert (table["low"] <= table["high"]).all()
    assert (
        (table["low"] <= table["change"]) & (table["change"] <= table["high"])
    ).all()


def test_the_interval_at_full_severity_is_that_of_the_patterns(
    model: ri.FittedModel,
) -> None:
    patterns = make_change_table(model)
    patterns = patterns[patterns["severity"] == 1.0]
    table = model.trajectories()
    table = table[table["severity"] == 1.0]
    np.testing.assert_allclose(
        table[["low", "high"]], patterns[["low", "high"]], atol=1e-9
    )


def test_the_order_of_the_regions_is_the_true_one(
    model: ri.FittedModel, simulated: SimulatedCohort
) -> None:
    assert get_shape(model) == "staged"
    order, truth = model.region_order(), simulated.patterns.set_index("region")
    assert list(order) == list(REGION_ORDER_COLUMNS)
    for name in model.index_names:
        rows = order[order["pattern"] == name].set_index("region")
        overlaps = {
            column: len(rows.index.intersection(truth.index[truth[column] != 0]))
            for column in truth
        }
        affected = _list_true_regions(
            truth, max(overlaps, key=lambda column: overlaps[column])
        )
        onsets = np.linspace(0, TASKS["staged"].last_onset, len(affected))
        present = [region in rows.index for region in affected]
        assert sum(present) > 0.7 * len(affected)
        tau = kendalltau(
            onsets[present], rows.loc[np.array(affected)[present], "onset"]
        ).statistic
        assert tau > 0.6


def _list_true_regions(truth: pd.DataFrame, column: str) -> list[str]:
    """Return the regions of a true pattern in the order in which they change, which is
    that of the table.
    """
    return list(truth.index[truth[column] != 0])


def test_the_order_has_only_regions_that_clearly_change(model: ri.FittedModel) -> None:
    order = model.region_order()
    assert (order["change"].abs() >= MIN_FINAL_CHANGE).all()
    table = model.trajectories()
    final = table[table["severity"] == 1.0].set_index(["pattern", "region"])
    listed = final.loc[list(zip(order["pattern"], order["region"], strict=True))]
    assert ((listed["low"] > 0) | (listed["high"] < 0)).all()
    for _, rows in order.groupby("pattern"):
        assert rows["onset"].is_monotonic_increasing
        assert rows["rank"].iloc[0] == 1
    assert ((order["onset_low"] >= 0) & (order["onset_high"] <= 1)).all()
    assert (
        (order["onset_low"] <= order["onset"]) & (order["onset"] <= order["onset_high"])
    ).all()


@pytest.mark.parametrize("noise", [0.02, 0.05, 0.1])
def test_shrinkage_of_posterior_means_is_found(noise: float) -> None:
    """Normal onsets with normal errors: what the posterior mean takes from the distance
    to the mean is known.
    """
    rng = np.random.default_rng(0)
    truth = 0.5 + 0.15 * rng.standard_normal(20_000)
    kept = 0.15**2 / (0.15**2 + noise**2)
    estimates = 0.5 + kept * (truth + noise * rng.standard_normal(len(truth)) - 0.5)
    bias = estimate_shrinkage(
        estimates, np.full(len(truth), kept * noise), np.full(len(truth), True)
    )
    np.testing.assert_allclose(bias, (1 - kept) / kept * (0.5 - estimates), atol=0.002)
    late = truth > 0.65
    assert abs((estimates - truth)[late].mean() - bias[late].mean()) < (1 - kept) * 0.1


def test_shrinkage_needs_regions_that_differ() -> None:
    same = estimate_shrinkage(np.full(3, 0.4), np.full(3, 0.1), np.full(3, True))
    np.testing.assert_allclose(same, 0.0, atol=1e-12)
    assert not estimate_shrinkage(
        np.array([0.1, 0.6]), np.full(2, 0.1), np.array([True, False])
    ).any()


def test_the_course_table_has_all_regions(model: ri.FittedModel) -> None:
    table, order = make_course_table(model), model.region_order()
    assert list(table) == list(COURSE_COLUMN_DESCRIPTIONS)
    assert {
        "pattern",
        "region",
        "onset",
        "onset_low",
        "onset_high",
        "c20",
        "c40",
        "c60",
        "c80",
        "c100",
    } <= set(table)
    assert len(table) == model.n_patterns * len(model.regions)
    assert table["onset"].notna().sum() == len(order)
    changes = model.trajectories().set_index(["severity", "pattern", "region"])[
        "change"
    ]
    for level in COURSE_LEVELS:
        np.testing.assert_allclose(
            table[f"c{100 * level:.0f}"], changes.loc[level], atol=1e-12
        )


def test_regions_of_proportional_patterns_share_their_onset(
    model: ri.FittedModel,
) -> None:
    proportional = _straighten(model)
    assert (
        get_shape(
            replace(
                proportional, card=proportional.card.model_copy(update={"shape": ""})
            )
        )
        == "proportional"
    )  # files of 0.1.0
    order = proportional.region_order()
    assert (order["rank"] == 1).all()
    assert (order.groupby("pattern")["onset"].agg(np.ptp) < 1e-9).all()


def test_a_single_member_has_no_intervals(model: ri.FittedModel) -> None:
    single = replace(model, heads=model.heads[:1], orders=model.orders[:1])
    assert single.trajectories()[["low", "high"]].isna().all(axis=None)
    order = single.region_order()
    assert order[["onset_low", "onset_high"]].isna().all(axis=None)
    assert len(order) > 0


def test_patterns_that_are_no_curves_are_interpolated(
    old_model: ri.FittedModel,
) -> None:
    table = old_model.trajectories().set_index(["pattern", "region", "severity"])[
        "change"
    ]
    name, region = old_model.index_names[0], old_model.regions[0]
    quarter, half = old_model.patterns[0, 0, 0], old_model.patterns[1, 0, 0]
    assert table[name, region, 0.0] == 0.0
    assert table[name, region, 0.1] == pytest.approx(0.4 * quarter)
    assert table[name, region, 0.4] == pytest.approx(quarter + 0.6 * (half - quarter))
    assert get_shape(old_model) == ""
    with pytest.raises(ModelError, match="method trajectories"):
        old_model.region_order()
    with pytest.raises(ModelError, match="no curves"):
        make_course_table(old_model)


def test_rows_are_ordered_by_pattern_severity_and_region(
    old_model: ri.FittedModel,
) -> None:
    table = make_change_table(old_model)
    assert list(table) == list(PATTERN_COLUMN_DESCRIPTIONS)
    changes = (
        table["change"]
        .to_numpy()
        .reshape(old_model.n_patterns, -1, len(old_model.regions))
    )
    np.testing.assert_array_equal(changes, old_model.patterns.transpose(1, 0, 2))
    assert table["pattern"].drop_duplicates().tolist() == list(old_model.index_names)
    assert table["region"].head(len(old_model.regions)).tolist() == list(
        old_model.regions
    )


def test_the_interval_is_that_of_the_standard_errors_or_empty(
    old_model: ri.FittedModel,
) -> None:
    errors = np.full_like(old_model.patterns, 0.1)
    with_errors = make_change_table(replace(old_model, patterns_se=errors))
    low, high = compute_confidence_interval(
        old_model.patterns, errors, len(old_model.heads)
    )
    np.testing.assert_allclose(with_errors["low"], low.transpose(1, 0, 2).ravel())
    np.testing.assert_allclose(with_errors["high"], high.transpose(1, 0, 2).ravel())
    without_errors = make_change_table(replace(old_model, patterns_se=None))
    assert without_errors[["low", "high"]].isna().all(axis=None)
