"""Write a model as one web page that computes R-indices in a browser, for people
without Python.

The scripts of the page (``templates/model_page``) repeat the arithmetic of
`rindices.FittedModel.assess` in doubles. Shape letters: R regions, M patterns, G points
of z, N drawn people.
"""

from pathlib import Path
from typing import Any

import numpy as np

from rindices._typing import FloatArray
from rindices._version import __version__
from rindices.atomic import write_atomically
from rindices.errors import ModelError, explain_write_errors, format_quantity
from rindices.learners.inference import SurrealHead, TrajectoryHead
from rindices.learners.severity_posterior import (
    N_STEPS,
    compute_log_copula,
    make_severity_points,
)
from rindices.model.apply_checks import MIN_INFORMATION, resolve_on_outlier
from rindices.model.centiles import describe_centiles
from rindices.model.consensus import draw_training_noise
from rindices.model.file import collect_arrays
from rindices.model.fitted import FittedModel
from rindices.model.records import QUANTILE_RANKS
from rindices.model.scale import describe_scale
from rindices.model.unusual import label_region
from rindices.packing import ArrayPacker
from rindices.plot.brain import AtlasMatch, list_colour_stops, match_atlas
from rindices.report.formatting import make_environment
from rindices.report.severities import describe_severities, list_parts
from rindices.tables.checks.groups import CONTROL, PATIENT
from rindices.tables.checks.values import Unit
from rindices.tables.layouts.column_names import (
    ICV_NAMES,
    ID_NAMES,
    SESSION_NAMES,
    SITE_NAMES,
)
from rindices.tables.layouts.cortex_atlases import list_parcel_spellings
from rindices.tables.layouts.freesurfer import (
    list_region_spellings,
    may_be_zero,
)
from rindices.tables.layouts.layout import Layout
from rindices.tables.layouts.muse import ICV_CODE
from rindices.wording import get_nouns

# standard deviations of controls at which the colours of a person's regions end
_COLOUR_LIMIT = 3.0


def export_page(model: FittedModel, path: Path) -> None:
    """Write a model as a web page.

    Raises ModelError: if the file cannot be written.
    """
    match = match_atlas(list_parts(model), model.card.unit)
    page = (
        make_environment(model.card.unit)
        .get_template("model_page/page.html")
        .render(
            model=describe_model(model, match),
            has_intervals=model.intervals is not None,
            scale=describe_scale(model),
            version=__version__,
            in_sample=any(pattern.in_sample for pattern in model.card.pattern_evidence),
            stops=list_colour_stops(),
            credit="" if match.atlas is None else match.atlas.credit,
        )
    )
    with explain_write_errors(str(path), ModelError, "give another path with --page"):
        write_atomically(path, page.encode())


def describe_model(model: FittedModel, match: AtlasMatch) -> dict[str, Any]:
    """Return all that the page needs of a model, as values for JSON; arrays are packed.

    match: what can be drawn for its regions.
    """
    preprocessing, training, card, packer = (
        model.preprocessing,
        model.training,
        model.card,
        _pack_model(model),
    )
    nouns, has_sizes = (
        get_nouns(card.unit),
        card.unit not in (Unit.STANDARDISED, Unit.ANY),
    )
    parts = [part for columns in model.sums.values() for part in columns]
    sizes = {
        group: {len(rows), *map(len, rows)}
        for group, rows in card.index_quantiles.items()
    }
    has_quantiles = sizes == {
        group: {model.n_patterns, len(QUANTILE_RANKS)} for group in (CONTROL, PATIENT)
    }
    return {
        "patterns": model.n_patterns,
        "steps": N_STEPS,
        "kind": model.heads[0].kind,
        "orders": [list(order) for order in model.orders],
        "pipelines": len(model.pipelines),
        "regions": list(model.regions),
        "labels": [label_region(region) for region in model.regions],
        "aliases": {
            name: [
                label_region(name),
                *list_region_spellings(name),
                *list_parcel_spellings(name),
            ]
            for name in (*model.regions, *parts)
        },
        "sums": {region: list(columns) for region, columns in model.sums.items()},
        "covariates": [
            _describe_covariate(model, record)
            for record in preprocessing.residualiser.to_dict()
        ],
        "sites": None
        if preprocessing.harmoniser is None
        else list(preprocessing.harmoniser.sites),
        "adjust": preprocessing.adjust,
        "unit": card.unit,
        "noun": nouns.regions,
        "values_noun": f"all {nouns.volumes} are",
        "positive": [has_sizes and not may_be_zero(name) for name in model.regions],
        "zero_is_missing": Layout(
            format=card.source or "table", regions={}
        ).zero_is_missing,
        "has_distances": model.has_distances,
        "empties_outliers": model.has_distances
        and resolve_on_outlier(None, card.unit, model.has_reference_alone) == "model",
        **_describe_comparison(model),
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
        "quantiles": dict(card.index_quantiles) if has_quantiles else None,
        "ranks": list(QUANTILE_RANKS),
        "sheet": describe_severities(model, match, _COLOUR_LIMIT, packer),
        "arrays": packer.pack(),
    }


def _describe_covariate(model: FittedModel, record: dict[str, Any]) -> dict[str, Any]:
    if record["kind"] != "numeric":
        return record
    ends = (record["low"], record["high"])
    text, ranges = (
        f"{format_quantity(ends[0])} to {format_quantity(ends[1])}",
        model.card.covariate_ranges,
    )
    return record | {"text": text, "range": list(ranges.get(record["name"], ends))}


def _pack_model(model: FittedModel) -> ArrayPacker:
    """Return the arrays of a model that the page needs."""
    training, packer = model.training, ArrayPacker()
    arrays = collect_arrays(model) | {"control_mean": model.preprocessing.control_mean}
    if training is not None:
        sd = np.sqrt(np.diag(training.covariance))
        arrays |= {
            "training.sd": sd,
            "training.precision": training.precision,
            "training.shares": training.shares,
        }
    for number, head in enumerate(model.heads):
        if isinstance(head, SurrealHead):
            names = [f"member{number}.{each}" for each in head.to_arrays()]
            arrays = {key: value for key, value in arrays.items() if key not in names}
            joined = head.join_layers().items()
            arrays |= {f"member{number}.{name}": value for name, value in joined}
        if isinstance(head, TrajectoryHead):
            arrays[f"member{number}.log_copula"] = compute_log_copula(head.correlation)
            points, arrays["simulated.noise"] = (
                head.draw_patients()
            )  # the same noise for all members
            packer.add(f"member{number}.simulated_points", points.astype(np.uint16))
    if isinstance(model.heads[0], TrajectoryHead):
        arrays["points"] = make_severity_points(model.n_patterns)
    elif training is not None:
        arrays["drawn.noise"] = draw_training_noise(len(model.regions))
    unused = () if model.has_distances else ("training.distances", "training.shares")
    for name, array in arrays.items():
        if name.endswith(".precision"):
            packer.add(name, pack_triangle(array))
        elif name not in ("patterns", "patterns_se", *unused) and not name.endswith(
            (".covariance", ".correlation")
        ):
            packer.add(name, np.atleast_1d(np.asarray(array, dtype=float)))
    return packer


def _describe_comparison(model: FittedModel) -> dict[str, Any]:
    """Return whom new people are compared with, in words, and the healthy people of
    whom the model has centiles.
    """
    healthy, alone = model.card.healthy, model.has_reference_alone
    has_centiles = healthy is not None and model.centiles is not None
    return {
        "compared": "healthy people" if alone else "training people",
        "people": "healthy people" if alone else "people of the study",
        "healthy": {
            "sexes": list(healthy.sexes),
            "text": healthy.text,
            "meaning": describe_centiles(healthy),
        }
        if healthy is not None and has_centiles
        else None,
    }


def pack_triangle(matrix: FloatArray) -> FloatArray:
    """Return the lower triangle of a symmetric matrix (R, R) as one row."""
    return np.asarray(matrix[np.tril_indices(len(matrix))])
