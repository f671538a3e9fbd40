"""Tables of the patterns of a model: changes along severity, the order of the regions,
interactions.

Shape letters: S members, Q severities, M patterns, K steps of a curve, R regions.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, FloatArray
from rindices.errors import ModelError
from rindices.learners.inference import (
    SEVERITY_LEVELS,
    InteractingHead,
    MemberHead,
    TrajectoryHead,
)
from rindices.learners.prepared_people import SUBSAMPLE_FRACTION
from rindices.model.file import ModelContent
from rindices.selection.agreement import (
    compute_confidence_interval,
    compute_standard_error,
)
from rindices.tables.layouts.muse import region_label
from rindices.wording import load_columns

TRAJECTORY_LEVELS = tuple(round(0.1 * k, 1) for k in range(11))
"""Severities of the rows of `rindices.FittedModel.trajectories`."""
COURSE_LEVELS = (0.2, 0.4, 0.6, 0.8, 1.0)
"""Severities at which curves may change their direction; those of `make_course_table`.
"""
ONSET_SHARE = 0.25
"""Share of its final change that a region has at its onset."""
MIN_FINAL_CHANGE = 0.2
"""Final change, in control standard deviations, below which a region has no onset of
its own.

A region that hardly changes says little about its curve, which then follows the common
course of its pattern.
"""
_ONSET_RESOLUTION = 0.025
"""Standard error of an onset that members share, since curves have steps of 0.2. Chosen
on simulated cohorts of seeds 500 to 504.
"""
_MAX_SHRINKAGE = 0.5
"""Largest share of the distance to the mean that `estimate_shrinkage` assumes to be
taken: onsets that hardly differ by more than their errors do not say how much.
"""
# relative size of the second singular value of a pattern's steps, for files of 0.1.0
_PROPORTIONAL_TOLERANCE = 1e-2

REGION_ORDER_COLUMNS = (
    "pattern",
    "region",
    "label",
    "change",
    "onset",
    "onset_low",
    "onset_high",
    "rank",
)
INTERACTION_COLUMNS = ("pattern", "other", "factor", "low", "high")
PATTERN_COLUMN_DESCRIPTIONS = load_columns("patterns")
COURSE_COLUMN_DESCRIPTIONS = load_columns("trajectories")


def list_trajectory_heads(model: ModelContent) -> list[TrajectoryHead]:
    """Return the members of a model whose patterns are curves; empty unless all members
    are such.
    """
    heads = [head for head in model.heads if isinstance(head, TrajectoryHead)]
    return heads if len(heads) == len(model.heads) else []


def get_shape(model: ModelContent) -> str:
    """Return the shape of the patterns that the study chose: proportional, staged,
    interacting, or '' without curves.

    Files of rindices 0.1.0 do not record it. Their proportional patterns have steps (K,
    R) that deviate from a matrix of rank one by up to 1.2e-3 of its size in our
    fixtures, staged ones by half.
    """
    heads = list_trajectory_heads(model)
    if not heads or model.card.shape:
        return model.card.shape if heads else ""
    if isinstance(heads[0], InteractingHead):
        return "interacting"
    singular = np.linalg.svd(
        np.stack([head.steps for head in heads]), compute_uv=False
    )  # (S, M, K)
    is_staged = (singular[..., 1] > _PROPORTIONAL_TOLERANCE * singular[..., 0]).any()
    return "staged" if is_staged else "proportional"


def make_change_table(
    model: ModelContent, levels: Sequence[float] = SEVERITY_LEVELS
) -> pd.DataFrame:
    """Return the change of each region along severity, one row per pattern, severity
    and region.

    A model without curves has its patterns interpolated between 0 and the severities at
    which they were recorded. The interval ``low`` to ``high`` is empty if there is a
    single member, or no standard error of the patterns.
    """
    changes = zip(
        ("change", "low", "high"),
        _compute_changes(model, np.array(levels)),
        strict=True,
    )
    axes = {"pattern": model.index_names, "severity": levels, "region": model.regions}
    table = _make_long_table(
        axes, {name: array.transpose(1, 0, 2) for name, array in changes}
    )
    return table[list(PATTERN_COLUMN_DESCRIPTIONS)]


def _make_long_table(
    axes: Mapping[str, Sequence[object]], arrays: Mapping[str, FloatArray]
) -> pd.DataFrame:
    """Return arrays as columns, one row per combination of the axes, with a label of
    each region.
    """
    index = pd.MultiIndex.from_product(axes.values(), names=list(axes))
    table = pd.DataFrame(
        {name: array.ravel() for name, array in arrays.items()}, index=index
    ).reset_index()
    table["label"] = [region_label(region) for region in table["region"]]
    return table


def make_region_order(model: ModelContent) -> pd.DataFrame:
    """Return the order in which the regions of each pattern change, earliest first.

    Returns see `rindices.FittedModel.region_order`. One row per pattern and region that
    clearly belongs to it: its final change is at least 0.2 standard deviations of
    controls, and the 95 % interval of that change excludes 0.

    Raises
    ------
    ModelError
        If the patterns of the model are not curves.
    """
    table = _make_onset_table(model)
    table = table[table["onset"].notna()]
    table = table.assign(
        strength=-table["change"].abs(),
        number=table["pattern"].str.removeprefix("r").astype(int),
    )
    table = table.sort_values(["number", "rank", "strength"], kind="stable")
    return table[list(REGION_ORDER_COLUMNS)].reset_index(drop=True)


def make_course_table(model: ModelContent) -> pd.DataFrame:
    """Return onset and change at five severities, one row per pattern and region:
    content of ``trajectories.tsv``.

    Returns see `COURSE_COLUMN_DESCRIPTIONS`.

    Raises
    ------
    ModelError
        If the patterns of the model are not curves.
    """
    table = _make_onset_table(model)
    changes, _, _ = _compute_changes(model, np.array(COURSE_LEVELS))
    for level, change in zip(COURSE_LEVELS, changes, strict=True):
        table[f"c{100 * level:.0f}"] = change.ravel()
    return table[list(COURSE_COLUMN_DESCRIPTIONS)]


def compute_curve_onsets(steps: FloatArray) -> FloatArray:
    """Return the severity at which each region first has a quarter of its final change.

    Parameters
    ----------
    steps : ndarray of shape (..., K, R)
        Change of each region in K equal steps of severity.

    Returns
    -------
    ndarray of shape (..., R)
        , NaN for a region without any change.
    """
    knots = _compute_knots(steps)
    reached = knots[..., 1:, :] >= ONSET_SHARE
    step = reached.argmax(axis=-2)[..., None, :]
    before, after = (
        np.take_along_axis(knots, step + k, axis=-2)[..., 0, :] for k in (0, 1)
    )
    onset = (step[..., 0, :] + (ONSET_SHARE - before) / (after - before)) / steps.shape[
        -2
    ]
    return np.where(reached.any(axis=-2), onset, np.nan)


def _compute_knots(steps: FloatArray) -> FloatArray:
    """Return the share of the final change before the first and after each of the
    steps, (..., K + 1, R).
    """
    change = np.concatenate(
        [np.zeros_like(steps[..., :1, :]), steps.cumsum(axis=-2)], axis=-2
    )
    final = change[..., -1:, :]
    return change / np.where(final == 0.0, np.nan, final)


def _stack_steps(model: ModelContent) -> FloatArray:
    """Return the steps of the aligned members (S, M, K, R), on the scale on which
    disease is additive.
    """
    heads = list_trajectory_heads(model)
    if not heads:
        what = (
            "the patterns of this model are no curves, so their regions have no order"
        )
        raise ModelError(f"{what}: fit with method trajectories.")
    return np.stack(
        [
            head.steps[list(order)]
            for head, order in zip(heads, model.orders, strict=True)
        ]
    )


def _make_onset_table(model: ModelContent) -> pd.DataFrame:
    """Return change, onset and rank, one row per pattern and region."""
    steps = _stack_steps(model)
    if get_shape(model) != "staged":  # regions have one common onset
        left, singular, right = np.linalg.svd(steps, full_matrices=False)
        steps = left[..., :1] * singular[..., None, :1] * right[..., :1, :]
    (change,), (low,), (high,) = _compute_changes(model, np.ones(1))
    member_onsets = compute_curve_onsets(steps)
    onsets = member_onsets.mean(axis=0)
    belongs = (np.abs(change) >= MIN_FINAL_CHANGE) & ~((low <= 0.0) & (high >= 0.0))
    error = np.hypot(_compute_member_error(model, member_onsets), _ONSET_RESOLUTION)
    bias = np.stack(
        [estimate_shrinkage(*each) for each in zip(onsets, error, belongs, strict=True)]
    )
    ends = compute_confidence_interval(onsets, error, len(member_onsets))
    ends = (
        np.clip(ends[0] - np.maximum(bias, 0.0), 0.0, 1.0),
        np.clip(ends[1] - np.minimum(bias, 0.0), 0.0, 1.0),
    )
    columns = {"onset": onsets, "onset_low": ends[0], "onset_high": ends[1]}
    arrays = {name: np.where(belongs, array, np.nan) for name, array in columns.items()}
    table = _make_long_table(
        {"pattern": model.index_names, "region": model.regions},
        {"change": change, **arrays},
    )
    rounded = table["onset"].round(
        2
    )  # as they are shown; regions with equal onsets share a rank
    table["rank"] = rounded.groupby(table["pattern"]).rank(method="min").astype("Int64")
    return table


def _compute_changes(
    model: ModelContent, levels: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the change at severities (Q,) and both ends of its interval, each (Q, M,
    R), in control SDs.
    """
    heads = list_trajectory_heads(model)
    if heads:
        curves = [
            head.compute_curves(levels)[:, list(order)]
            for head, order in zip(heads, model.orders, strict=True)
        ]
        members = np.stack(curves)
        change = members.mean(axis=0)
        return change, *compute_confidence_interval(
            change, _compute_member_error(model, members), len(members)
        )
    change = _interpolate(model.patterns, levels)
    errors = (
        np.full_like(model.patterns, np.nan)
        if model.patterns_se is None
        else model.patterns_se
    )
    return change, *compute_confidence_interval(
        change, _interpolate(errors, levels), len(model.heads)
    )


def _compute_member_error(model: ModelContent, members: FloatArray) -> FloatArray:
    """Return the standard error of a mean over members (S, ...); NaN for a single
    member.
    """
    if len(members) < 2:
        return np.full(members.shape[1:], np.nan)
    share = SUBSAMPLE_FRACTION if model.card.interval_over == "people" else 1.0
    return compute_standard_error(members, share)


def estimate_shrinkage(
    onsets: FloatArray, error: FloatArray, belongs: BoolArray
) -> FloatArray:
    """Return by how much the onsets of one pattern are drawn towards their mean.

    The prior of the curves is that of a normal mean: an onset is drawn towards the
    common one by a factor ``s``, the share of the variance of the onsets that is not
    error. Among such estimates, the mean squared standard error is ``1
    - s`` times the variance of the onsets, and what was taken from their distance to
      the mean is ``(1 - s) / s`` times
    the distance that is left.

    Parameters
    ----------
    onsets, error : ndarray of shape (R,)
        Onsets and their standard errors.
    belongs : ndarray of shape (R,)
        The regions that have an onset. Others get no meaningful value.

    Returns
    -------
    ndarray of shape (R,)
        , estimated bias: positive for an early region, whose onset is drawn to a
        later one.
    """
    if belongs.sum() < 2:
        return np.zeros_like(onsets)
    mean, variance = onsets[belongs].mean(), onsets[belongs].var(ddof=1)
    taken = (
        min(np.mean(error[belongs] ** 2), _MAX_SHRINKAGE * variance) / variance
        if variance > 0.0
        else 0.0
    )
    return np.asarray((mean - onsets) * taken / (1.0 - taken))


def _interpolate(values: FloatArray, levels: FloatArray) -> FloatArray:
    """Return values (4, M, R) at `SEVERITY_LEVELS` as values at other levels (Q, M, R),
    from 0 at severity 0.
    """
    recorded, flat = (0.0, *SEVERITY_LEVELS), values.reshape(len(values), -1)
    columns = [
        np.interp(levels, recorded, np.concatenate([[0.0], column]))
        for column in flat.T
    ]
    return np.stack(columns, axis=1).reshape(len(levels), *values.shape[1:])


def average_interaction(model: ModelContent) -> FloatArray | None:
    """Return the mean over members of the interactions (M, M); None where the changes
    of the patterns add up.
    """
    return average_member_interactions(model.heads, model.orders)


def average_member_interactions(
    heads: Sequence[MemberHead], orders: Sequence[Sequence[int]]
) -> FloatArray | None:
    """Return the mean of the interactions (M, M) of aligned members; None where the
    changes of the patterns add up.
    """
    members = _stack_interactions(heads, orders)
    return None if members is None else np.asarray(members.mean(axis=0))


def make_interaction_table(model: ModelContent) -> pd.DataFrame:
    """Return the factor by which each pattern multiplies the change of each other one.

    Returns see `rindices.FittedModel.interactions`; empty where the changes of the
    patterns add up.
    """
    members, names = _stack_interactions(model.heads, model.orders), model.index_names
    rows = []
    if members is not None:
        factor = 1.0 + members.mean(axis=0)
        low, high = compute_confidence_interval(
            factor, _compute_member_error(model, members), len(members)
        )
        pairs = [(k, m) for k in range(len(names)) for m in range(len(names)) if k != m]
        rows = [
            (names[k], names[m], factor[k, m], max(low[k, m], 0.0), high[k, m])
            for k, m in pairs
        ]
    return pd.DataFrame(rows, columns=list(INTERACTION_COLUMNS))


def _stack_interactions(
    heads: Sequence[MemberHead], orders: Sequence[Sequence[int]]
) -> FloatArray | None:
    """Return the interactions of the aligned members (S, M, M); None where the changes
    of the patterns add up.
    """
    stacked = [
        head.interaction[np.ix_(order, order)]
        for head, order in zip(heads, orders, strict=True)
        if isinstance(head, InteractingHead)
    ]
    return np.stack(stacked) if stacked else None
