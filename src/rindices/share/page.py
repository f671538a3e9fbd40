"""Write a model as one web page that computes R-indices in a browser, for people without Python.

The scripts of the page (folder ``templates``) repeat the arithmetic of `rindices.FittedModel.assess` in doubles.
Shape letters: R regions, M patterns, G points of z, N drawn people.
"""

from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from rindices._typing import FloatArray
from rindices._version import __version__
from rindices.atomic import write_atomically
from rindices.errors import ModelError, describe_os_error, format_quantity
from rindices.learners.inference import ContrastiveHead, InteractingHead, ShiftHead, TrajectoryHead
from rindices.learners.severity_posterior import N_STEPS, compute_log_copula, make_severity_points
from rindices.model.fitted import FittedModel
from rindices.model.measured import MIN_INFORMATION, draw_training_noise
from rindices.model.summed_regions import format_region_name
from rindices.packing import ArrayPacker, read_decoder
from rindices.preprocess.residualise import CovariateRecord
from rindices.tables.layout.formats import ID_NAMES, SESSION_NAMES, SITE_NAMES, Layout
from rindices.tables.layout.freesurfer import ICV_NAMES, list_region_spellings, may_be_zero
from rindices.tables.layout.muse import ICV_CODE
from rindices.tables.validation.units import Unit
from rindices.wording import get_wording


def export_page(model: FittedModel, path: Path) -> None:
    """Write a model as a web page.

    Raises ModelError: if a browser cannot compute this model, or the file cannot be written.
    """
    _check_model(model)
    environment = Environment(
        loader=PackageLoader("rindices.share"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("page.html").render(
        model=describe_model(model),
        has_intervals=model.intervals is not None,
        version=__version__,
        decoder=read_decoder(),
    )
    try:
        write_atomically(path, page.encode())
    except OSError as error:
        raise ModelError(f"cannot write {path} ({describe_os_error(error)}): give another path with --page.") from error


def _check_model(model: FittedModel) -> None:
    if not all(isinstance(head, ShiftHead) for head in model.heads):
        raise ModelError("networks cannot be exported to a page: fit with recipe default, or export with --onnx.")
    if model.preprocessing.adjust == "rank":
        raise ModelError("models of ranks cannot be exported to a page: fit with adjust = log or linear, or use apply.")


def describe_model(model: FittedModel) -> dict[str, Any]:
    """Return all that the page needs of a model, as values for JSON; arrays are packed."""
    preprocessing, training, card = model.preprocessing, model.training, model.card
    word = get_wording(card.unit)
    has_distances = training is not None and len(training.distances) > 0
    labels = [format_region_name(region) for region in model.regions]
    parts = [part for columns in model.sums.values() for part in columns]
    return {
        "patterns": model.n_patterns,
        "steps": N_STEPS,
        "kind": model.heads[0].kind,
        "orders": [list(order) for order in model.orders],
        "pipelines": len(model.pipelines),
        "regions": list(model.regions),
        "labels": labels,
        "aliases": {
            name: [format_region_name(name), *list_region_spellings(name)] for name in (*model.regions, *parts)
        },
        "sums": {region: list(columns) for region, columns in model.sums.items()},
        "covariates": [_describe_covariate(model, record) for record in preprocessing.residualiser.to_dict()],
        "sites": None if preprocessing.harmoniser is None else list(preprocessing.harmoniser.sites),
        "adjust": preprocessing.adjust,
        "unit": card.unit,
        "noun": word("regions"),
        "values_noun": word("all volumes are"),
        "positive": [
            card.unit not in (Unit.STANDARDISED, Unit.ANY) and not may_be_zero(name) for name in model.regions
        ],
        "zero_is_missing": Layout(card.source or "table", {}).zero_is_missing,
        "has_distances": has_distances,
        "limit": float(training.limit) if training is not None else 1.0,
        "min_information": MIN_INFORMATION,
        "trained_on": dict(card.trained_on) or None,
        "fingerprint": card.fingerprint or "",
        "citation": card.citation or "",
        "licence": card.licence or "",
        "id_names": list(ID_NAMES),
        "session_names": list(SESSION_NAMES),
        "site_names": list(SITE_NAMES),
        "head_size_names": [f"MUSE_{ICV_CODE}", *ICV_NAMES],
        "arrays": _pack_model(model).pack(),
    }


def _describe_covariate(model: FittedModel, record: CovariateRecord) -> dict[str, Any]:
    described: dict[str, Any] = dict(record)
    if record["kind"] == "numeric":
        ranges = model.card.covariate_ranges
        described["text"] = f"{format_quantity(record['low'])} to {format_quantity(record['high'])}"
        described["range"] = list(ranges.get(record["name"], (record["low"], record["high"])))
    return described


def _pack_model(model: FittedModel) -> ArrayPacker:
    """Return the arrays of a model."""
    arrays = ArrayPacker()
    for name, array in model.preprocessing.to_arrays().items():
        arrays.add(name, np.asarray(array, dtype=float))
    for number, pipeline in enumerate(model.pipelines):
        for name, array in pipeline.to_arrays().items():
            arrays.add(f"pipeline{number}.{name}", np.asarray(array, dtype=float))
    arrays.add("control_mean", np.asarray(model.preprocessing.control_mean, dtype=float))
    if model.intervals is not None:
        for name, array in vars(model.intervals).items():
            arrays.add(f"intervals.{name}", np.atleast_1d(np.asarray(array, dtype=float)))
    if model.training is not None:
        arrays.add("training.mean", model.training.mean)
        arrays.add("training.sd", np.sqrt(np.diag(model.training.covariance)))
        if len(model.training.distances):
            arrays.add("training.distances", model.training.distances)
            arrays.add("training.shares", model.training.shares)
        arrays.add("training.precision", pack_triangle(model.training.precision))
    for number, head in enumerate(model.heads):
        assert isinstance(head, ShiftHead)
        _pack_head(arrays, f"member{number}.", head)
    first = model.heads[0]
    if isinstance(first, TrajectoryHead):
        points, noise = first.draw_patients()
        arrays.add("points", make_severity_points(model.n_patterns))
        arrays.add("expected.points", points.astype(np.uint16))
        arrays.add("expected.noise", noise)
        arrays.add("expected.whole", first.expected_variance)
    elif model.training is not None:
        arrays.add("drawn.noise", draw_training_noise(len(model.regions)))
    return arrays


def _pack_head(arrays: ArrayPacker, prefix: str, head: ShiftHead) -> None:
    """Add the arrays of a member."""
    names = ["control_mean", "control_scale", "share", "shift_mean", "shift_scale", "weights"]
    if isinstance(head, TrajectoryHead):
        names.append("steps")
        arrays.add(f"{prefix}precision", pack_triangle(head.precision))
        arrays.add(f"{prefix}log_copula", compute_log_copula(head.correlation))
    if isinstance(head, InteractingHead):
        names.append("interaction")
    assert isinstance(head, ContrastiveHead | TrajectoryHead)
    for name in names:
        arrays.add(f"{prefix}{name}", np.atleast_1d(np.asarray(getattr(head, name), dtype=float)))


def pack_triangle(matrix: FloatArray) -> FloatArray:
    """Return the lower triangle of a symmetric matrix (R, R) as one row."""
    return np.asarray(matrix[np.tril_indices(len(matrix))])
