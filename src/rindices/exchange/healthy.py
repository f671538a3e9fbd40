"""Healthy people for models whose training people are not known: intervals, how unusual
people are, missing regions and centiles.

The published models come with such figures of healthy adults (``data``); any model gets
them from a table of healthy people by `calibrate_with_healthy_people`. Shape letters: N
people, R regions, M patterns.
"""

from dataclasses import fields, replace
from importlib.resources import as_file, files
from typing import Any

import numpy as np

from rindices._typing import FloatArray
from rindices.errors import ModelError, join_names
from rindices.learners.inference import SEVERITY_LEVELS
from rindices.model.apply_checks import add_summed_regions, check_model_regions
from rindices.model.centiles import AGE, SEX, CentileReference
from rindices.model.fitted import FittedModel
from rindices.model.intervals import (
    CalibratedIntervals,
    MemberControls,
    calibrate_intervals,
    iterate_changes,
)
from rindices.model.records import HealthyRecord
from rindices.model.unusual import TrainingDistribution
from rindices.tables.cohort import ID, Cohort

_N_PATIENTS = 8_000
_PARTS: dict[str, type[Any]] = {
    "training": TrainingDistribution,
    "intervals": CalibratedIntervals,
    "centiles": CentileReference,
}
"""What healthy people give a model, by the field of the model."""


def calibrate_with_healthy_people(
    model: FittedModel,
    cohort: Cohort,
    name: str = "",
    licence: str = "",
    sexes: tuple[str, str] = ("F", "M"),
) -> FittedModel:
    """Return a model that compares new people with healthy people.

    An imported model gets intervals, outlier scores and centiles. A model that knows
    its training people gets only centiles.

    Parameters
    ----------
    model : FittedModel
        Any model.
    cohort : Cohort
        Healthy people with the regions and covariates of the model, and ``age`` and
        ``sex``. Of a cohort with groups, the controls are used.
    name : str
        Name of the data set.
    licence : str
        Licence of the figures that the model file then holds.
    sexes : tuple of str
        How women and men are called in the table, and in tables of new people.

    Returns
    -------
    FittedModel
        The model.

    Raises
    ------
    ModelError
        If there are too few people, or a region or covariate is missing.
    """
    healthy = cohort.take(cohort.is_control) if cohort.n_controls else cohort
    missing = [each for each in (AGE, SEX) if each not in healthy.covariates]
    if missing:
        raise ModelError(
            f"healthy people need {join_names(missing)}: read their table with these covariates."
        )
    others = sorted(set(healthy.covariates[SEX].astype(str)) - set(sexes))
    if others:
        raise ModelError(
            f"sex of the healthy people is {join_names(others)}: write {' and '.join(sexes)}."
        )
    combined, _ = add_summed_regions(healthy, model.sums)
    check_model_regions(combined, model.regions, model.card.unit)
    indices = model.apply(healthy, on_missing="error", on_outlier="keep")
    own = indices[model.index_names].to_numpy(dtype=float)
    age = combined.covariates[AGE].to_numpy(dtype=float)
    is_male = (combined.covariates[SEX].astype(str) == sexes[1]).to_numpy()
    centiles = CentileReference.fit(own, age, is_male)
    low, high = centiles.ages.tolist()
    record = HealthyRecord(
        name=name, people=len(combined), ages=(low, high), sexes=sexes, licence=licence
    )
    card = model.card.model_copy(update={"healthy": record})
    if model.card.trained_on:
        return replace(model, centiles=centiles, card=card)
    values = model.preprocessing.transform(combined)
    training = TrainingDistribution.fit(values, combined.people[ID].tolist())
    intervals = _calibrate_intervals(model, values)
    return replace(
        model, card=card, centiles=centiles, training=training, intervals=intervals
    )


def _calibrate_intervals(model: FittedModel, values: FloatArray) -> CalibratedIntervals:
    """Return intervals from healthy people (N, R) to whom the patterns of the model are
    added at known severities.

    Patients are not known: their severities are uniform, as the networks were trained,
    with the correlation that they learnt.
    """
    rng = np.random.default_rng([0, 7])
    severities = _draw_severities(model, rng)
    levels = np.array([0.0, *SEVERITY_LEVELS])
    curves = np.concatenate([np.zeros_like(model.patterns[:1]), model.patterns])
    change = np.sum(list(iterate_changes(levels, curves, severities, None)), axis=0)
    members = [
        MemberControls(head, order, values)
        for head, order in zip(model.heads, model.orders, strict=True)
    ]
    rows = rng.integers(len(values), size=len(change))
    inferred = np.mean([each.infer_changed(rows, change) for each in members], axis=0)
    return calibrate_intervals(members, model.patterns, inferred, share=1.0, seed=0)


def _draw_severities(model: FittedModel, rng: np.random.Generator) -> FloatArray:
    """Return severities (N, M), uniform, correlated as the model has learnt."""
    from scipy.special import ndtr

    n_patterns, correlation = model.n_patterns, model.card.severity_correlation
    matrix = np.eye(n_patterns) if correlation is None else np.array(correlation)
    root = np.linalg.cholesky(matrix + 1e-9 * np.eye(n_patterns))
    return np.asarray(ndtr(rng.standard_normal((_N_PATIENTS, n_patterns)) @ root.T))


def pack_healthy_people(model: FittedModel) -> dict[str, Any]:
    """Return what healthy people gave a model, as arrays for a file of the package."""
    arrays: dict[str, Any] = {}
    for part in _PARTS:
        for each in fields(_PARTS[part]):
            arrays[f"{part}.{each.name}"] = np.asarray(
                getattr(getattr(model, part), each.name), dtype=np.float32
            )
    covariance = arrays.pop("training.covariance")
    arrays["training.triangle"] = covariance[np.tril_indices(len(covariance))]
    return arrays


def add_shipped_healthy_people(model: FittedModel, name: str) -> FittedModel:
    """Return a published model with the healthy people that come with the package; the
    model itself if there are none for it.
    """
    source = files("rindices.exchange") / "data" / f"{name}.npz"
    if not source.is_file():
        return model
    with as_file(source) as path, np.load(path) as stored:
        arrays = {key: stored[key].astype(float) for key in stored.files}
    triangle = arrays.pop("training.triangle")
    number = len(model.regions)
    lower = np.zeros((number, number))
    lower[np.tril_indices(number)] = triangle
    arrays["training.covariance"] = lower + lower.T - np.diag(np.diag(lower))
    parts = {
        part: kind(
            **{each.name: arrays[f"{part}.{each.name}"] for each in fields(kind)}
        )
        for part, kind in _PARTS.items()
    }
    low, high = parts["centiles"].ages.tolist()
    people = int(parts["centiles"].people)
    record = HealthyRecord(
        name="IXI",
        people=people,
        ages=(low, high),
        sexes=("F", "M"),
        licence="CC BY-SA 3.0",
    )
    return replace(
        model, card=model.card.model_copy(update={"healthy": record}), **parts
    )
