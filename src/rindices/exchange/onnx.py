"""Export a model as an ONNX graph, from the columns of a table to R-indices.

The graph computes in double precision what `FittedModel.apply` computes. Each column is
a separate input (N, 1), named as in the table, so that the order of columns does not
matter: regions (or the columns that a region is the sum of) and numeric covariates as
doubles, categories and the site as text. A category or site that was not in training
gives NaN.

Shape letters: N people, R regions, P columns of the design, S members, M patterns, K
knots, T training people.
"""

import json
from collections.abc import Sequence
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from rindices._typing import AnyArray
from rindices._version import __version__
from rindices.atomic import write_atomically
from rindices.errors import ModelError, explain_write_errors, make_install_command
from rindices.learners import inference
from rindices.learners.outlying_measurements import (
    FLAG_LIMIT,
    MAX_SIZE,
    WRAP_END,
    WRAP_START,
)
from rindices.model.apply_checks import resolve_on_outlier
from rindices.model.fitted import FittedModel
from rindices.model.intervals import CalibratedIntervals
from rindices.model.unusual import TrainingDistribution
from rindices.preprocess.harmonise import Harmoniser
from rindices.preprocess.pipeline import Preprocessing
from rindices.preprocess.residualise import CovariateCoding, NumericCovariate
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD
from rindices.tables.cohort import SITE

OPSET, IR_VERSION = 19, 9
_DOUBLE_TYPE = 11  # onnx.TensorProto.DOUBLE


def export_onnx(model: FittedModel, path: Path) -> dict[str, list[str]]:
    """Write a model as an ONNX graph.

    Returns names of the ``inputs`` and ``outputs``: ``r_indices`` (N, M) and, if the
    model has them, the bounds of the intervals ``low`` and ``high`` (N, M),
    ``outlier_score`` (N, 1) and ``outlying_measurements`` (N, 1), the number of cells
    that do not fit the person's other regions. The graph uses such cells all the same.
    """
    graph = _GraphBuilder()
    volumes, design = (
        _add_volumes(graph, model),
        _add_design(graph, model.preprocessing.residualiser.codings),
    )
    pipelines = (model.preprocessing, *model.pipelines)
    values, *prepared = (
        _add_pipeline(graph, each, volumes, design) for each in pipelines
    )
    members = _add_members(graph, model, prepared or [values] * len(model.heads))
    indices = graph.op("ReduceMean", members, graph.ints([1]), keepdims=0)
    outputs = {"r_indices": indices}
    if model.intervals is not None:
        deviations = members - graph.op("Unsqueeze", indices, graph.ints([1]))
        variance = graph.op(
            "ReduceMean", deviations * deviations, graph.ints([1]), keepdims=0
        )
        outputs["low"], outputs["high"] = _add_interval_bounds(
            graph, model.intervals, indices, variance
        )
    if model.training is not None and model.has_distances:
        outputs["outlier_score"] = _add_unusual(graph, model.training, values)
        policy = resolve_on_outlier(None, model.card.unit, model.has_reference_alone)
        if policy == "model":
            outputs["outlying_measurements"] = _add_outlying_measurements(
                graph, model.training, values
            )
    about = {
        name: getattr(model.card, name) or None
        for name in ("unit", "source", "citation", "licence")
    }
    about |= {
        "rindices_version": __version__,
        "patterns": model.n_patterns,
        "regions": list(model.regions),
    }
    about |= {"covariates": model.preprocessing.residualiser.to_dict()}
    content = graph.serialise(
        outputs, {name: json.dumps(value) for name, value in about.items()}
    )
    with explain_write_errors(str(path), ModelError, "give another path with --onnx"):
        write_atomically(path, content)
    return {"inputs": list(graph.inputs), "outputs": list(outputs)}


class _Value:
    """Result of a node of a graph; arithmetic with other values and with constants adds
    nodes.
    """

    def __init__(self, graph: "_GraphBuilder", name: str) -> None:
        self.graph, self.name = graph, name

    def __add__(self, other: object) -> "_Value":
        return self.graph.op("Add", self, other)

    def __sub__(self, other: object) -> "_Value":
        return self.graph.op("Sub", self, other)

    def __mul__(self, other: object) -> "_Value":
        return self.graph.op("Mul", self, other)

    def __truediv__(self, other: object) -> "_Value":
        return self.graph.op("Div", self, other)

    def __matmul__(self, other: object) -> "_Value":
        return self.graph.op("MatMul", self, other)


class _GraphBuilder:
    """Collects the nodes and constants of a graph."""

    def __init__(self) -> None:
        try:
            import onnx
        except ImportError as error:
            raise ModelError(
                f"writing ONNX needs its library: {make_install_command('onnx')}"
            ) from error
        self.onnx = onnx
        self.inputs: dict[str, Any] = {}
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def input(self, name: str, text: bool = False) -> _Value:
        """Add an input (N, 1) of numbers or text, once."""
        kind = self.onnx.TensorProto.STRING if text else self.onnx.TensorProto.DOUBLE
        self.inputs.setdefault(
            name, self.onnx.helper.make_tensor_value_info(name, kind, ["people", 1])
        )
        return _Value(self, name)

    def const(self, value: object, dtype: Any = np.float64) -> _Value:
        """Add a constant, of doubles unless another type is named."""
        name = f"c{len(self._constants)}"
        self._constants.append(
            self.onnx.numpy_helper.from_array(np.array(value, dtype=dtype), name)
        )
        return _Value(self, name)

    def ints(self, value: Sequence[int]) -> _Value:
        """Add a constant of integers, for axes and shapes."""
        return self.const(value, np.int64)

    def op(self, kind: str, *inputs: object, **attributes: Any) -> _Value:
        """Add a node; inputs that are not values become constants."""
        names = [
            each.name if isinstance(each, _Value) else self.const(each).name
            for each in inputs
        ]
        name = f"n{len(self._nodes)}"
        self._nodes.append(
            self.onnx.helper.make_node(kind, names, [name], **attributes)
        )
        return _Value(self, name)

    def interpolate(self, values: _Value, knots: AnyArray, heights: AnyArray) -> _Value:
        """Add linear interpolation of values (N, M) between knots (M, K) with heights
        (M, K), as sums over segments.
        """
        lower, upper = knots[None, :, :-1], knots[None, :, 1:]
        slopes = np.diff(heights)[None] / np.where(upper > lower, upper - lower, np.inf)
        rise = (
            self.op(
                "Max",
                self.op("Min", self.op("Unsqueeze", values, self.ints([2])), upper),
                lower,
            )
            - lower
        )
        return (
            self.op("ReduceSum", rise * slopes, self.ints([2]), keepdims=0)
            + heights[:, 0]
        )

    def leaky_relu(self, values: _Value) -> _Value:
        """Add a leaky ReLU; the operator LeakyRelu is defined for single precision only
        in some runtimes.
        """
        return self.op("Max", values, values * inference.LEAKY_RELU_SLOPE)

    def serialise(
        self, outputs: dict[str, _Value], properties: dict[str, str]
    ) -> bytes:
        """Return the checked graph as bytes."""
        helper = self.onnx.helper
        for name, result in outputs.items():
            self._nodes.append(helper.make_node("Identity", [result.name], [name]))
        double = self.onnx.TensorProto.DOUBLE
        infos = [
            helper.make_tensor_value_info(name, double, ["people", None])
            for name in outputs
        ]
        graph = helper.make_graph(
            self._nodes, "rindices", list(self.inputs.values()), infos, self._constants
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
        )
        helper.set_model_props(model, properties)
        self.onnx.checker.check_model(model, full_check=True)
        return bytes(model.SerializeToString())


def _add_volumes(graph: _GraphBuilder, model: FittedModel) -> _Value:
    """Return the volumes (N, R), on the scale on which they are adjusted."""
    pre = model.preprocessing
    columns = [
        reduce(add, map(graph.input, model.sums.get(region, (region,))))
        for region in pre.regions
    ]
    volumes = graph.op("Concat", *columns, axis=1)
    return graph.op("Log", volumes) if pre.adjust == "log" else volumes


def _add_pipeline(
    graph: _GraphBuilder, pre: Preprocessing, volumes: _Value, design: _Value | None
) -> _Value:
    """Return the values (N, R) that a pipeline prepares."""
    if pre.harmoniser is not None:
        volumes = _add_harmonisation(graph, pre.harmoniser, volumes, design)
    if design is not None:
        volumes = (
            volumes - (design - pre.residualiser.centre) @ pre.residualiser.coefficients
        )
    return (
        volumes - pre.standardiser.mean
    ) / pre.standardiser.sd * CONTROL_SD + CONTROL_MEAN


def _add_design(
    graph: _GraphBuilder, codings: Sequence[CovariateCoding]
) -> _Value | None:
    """Return the design (N, P), or None without covariates; rows with an unknown
    category are NaN.
    """
    columns = []
    for coding in codings:
        if isinstance(coding, NumericCovariate):
            column = graph.input(coding.name)
            columns.append(graph.op("Log", column) if coding.log else column)
            columns += _add_spline(graph, column, coding.knots)
        else:
            columns.append(_add_one_hot(graph, coding.name, coding.levels, skip=1))
    return graph.op("Concat", *columns, axis=1) if columns else None


def _add_spline(
    graph: _GraphBuilder, column: _Value, knots: Sequence[float]
) -> list[_Value]:
    """Return the columns (N, 1) that a restricted cubic spline adds to a number."""
    if not knots:
        return []
    *inner, before, last = knots
    width = (last - knots[0]) ** 2

    def cube(knot: float) -> _Value:
        above = graph.op("Relu", column - knot)
        return above * above * above

    return [
        (
            cube(knot)
            - cube(before) * ((last - knot) / (last - before))
            + cube(last) * ((before - knot) / (last - before))
        )
        / width
        for knot in inner
    ]


def _add_one_hot(
    graph: _GraphBuilder, name: str, levels: Sequence[str], skip: int
) -> _Value:
    """Return indicators (N, levels - skip) of the levels, NaN for texts that are no
    level.
    """
    texts = graph.const([[level.encode() for level in levels]], object)
    matches = graph.op(
        "Cast", graph.op("Equal", graph.input(name, text=True), texts), to=_DOUBLE_TYPE
    )
    n_matches = graph.op("ReduceSum", matches, graph.ints([1]), keepdims=1)
    one_hot = matches + graph.op(
        "Where", graph.op("Greater", n_matches, 0.5), 0.0, np.nan
    )
    if not skip:
        return one_hot
    return graph.op(
        "Slice", one_hot, graph.ints([skip]), graph.ints([len(levels)]), graph.ints([1])
    )


def _add_harmonisation(
    graph: _GraphBuilder, harmoniser: Harmoniser, volumes: _Value, design: _Value | None
) -> _Value:
    """Return the volumes (N, R) without site effects."""
    expected = graph.const(harmoniser.mean)
    if design is not None:
        expected = (design - harmoniser.centre) @ harmoniser.coefficients + expected
    site = _add_one_hot(graph, SITE, harmoniser.sites, skip=0)
    z = ((volumes - expected) / harmoniser.sd - site @ harmoniser.shift) / (
        site @ harmoniser.scale
    )
    return expected + z * harmoniser.sd


def _add_members(
    graph: _GraphBuilder, model: FittedModel, prepared: Sequence[_Value]
) -> _Value:
    """Return the R-indices of each member, (N, S, M), from the values (N, R) that its
    pipeline prepares.
    """
    members = []
    for head, order, values in zip(model.heads, model.orders, prepared, strict=True):
        if isinstance(head, inference.ContrastiveHead):
            indices = (
                _add_log_transform(graph, head, values) @ head.weights[:, list(order)]
            )
        elif isinstance(head, inference.TrajectoryHead):
            indices = _add_trajectory_head(graph, head, order, values)
        else:
            indices = _add_surreal_head(graph, head, order, values)
        members.append(graph.op("Unsqueeze", indices, graph.ints([1])))
    return graph.op("Concat", *members, axis=1)


def _add_trajectory_head(
    graph: _GraphBuilder,
    head: inference.TrajectoryHead,
    order: Sequence[int],
    values: _Value,
) -> _Value:
    """Return the posterior means of the severities (N, M), as sums over the points of
    `SeverityPosterior`.
    """
    posterior = head.posterior
    density = (
        _add_log_transform(graph, head, values) @ head.weights @ posterior.basis.T
        + posterior.offset[None]
    )
    return graph.op("Softmax", density, axis=1) @ posterior.points[:, list(order)]


def _add_log_transform(
    graph: _GraphBuilder, head: inference.ShiftHead, values: _Value
) -> _Value:
    """Return the standardised log volumes (N, R); below `LOG_FLOOR` the logarithm is
    continued by its tangent.
    """
    constant = float(head.log_constant)
    z = (values - head.control_mean) / head.control_scale
    if constant >= inference.IDENTITY_THRESHOLD:
        fraction = z * constant + 1.0
        bounded = graph.op("Max", fraction, inference.LOG_FLOOR)
        z = (
            graph.op("Log", bounded) + (fraction - bounded) / inference.LOG_FLOOR
        ) / constant
    return (z - head.shift_mean) / head.shift_scale


def _add_surreal_head(
    graph: _GraphBuilder,
    head: inference.SurrealHead,
    order: Sequence[int],
    values: _Value,
) -> _Value:
    """Return g2 of g1, (N, M); g1 and the first layer of g2 are merged into one matrix,
    as in `SurrealHead`.
    """
    activated, n_regions = graph.leaky_relu(values), head.g2_weight1.shape[0]
    weight, bias = (
        layer.astype(float)[:, list(order)]
        for layer in (head.g2_weight3, head.g2_bias3)
    )
    outputs = []
    for block in np.split(
        head.g1.astype(np.float64), head.g1.shape[1] // n_regions, axis=1
    ):
        merged = block @ head.g2_weight1
        hidden = graph.leaky_relu(
            activated @ merged[:-1] + (merged[-1] + head.g2_bias1)
        )
        hidden = graph.leaky_relu(hidden @ head.g2_weight2 + head.g2_bias2)
        outputs.append(hidden @ weight + bias)
    return reduce(add, outputs)


def _add_interval_bounds(
    graph: _GraphBuilder,
    intervals: CalibratedIntervals,
    indices: _Value,
    variance: _Value,
) -> tuple[_Value, _Value]:
    """Return `CalibratedIntervals.compute_bounds`, each (N, M)."""
    widening = graph.op(
        "Sqrt", variance * (intervals.members / intervals.error**2) + 1.0
    )
    middle = graph.interpolate(indices, intervals.knots, intervals.middle)
    bounds = []
    for offsets, outermost in ((intervals.low, "Min"), (intervals.high, "Max")):
        offset = graph.interpolate(indices, intervals.knots, offsets)
        bounds.append(
            graph.op(
                outermost, indices + middle + (offset - middle) * widening, indices
            )
        )
    return bounds[0], bounds[1]


def _add_unusual(
    graph: _GraphBuilder, training: TrainingDistribution, values: _Value
) -> _Value:
    """Return `TrainingDistribution.compute_unusual` (N, 1)."""
    projected = (values - training.mean) @ training.root
    distance = graph.op(
        "Sqrt",
        graph.op("ReduceSum", projected * projected, graph.ints([1]), keepdims=1),
    )
    unusual = graph.interpolate(
        distance, training.distances[None], training.shares[None]
    )
    return graph.op("Where", graph.op("IsNaN", distance), np.nan, unusual)


def _add_outlying_measurements(
    graph: _GraphBuilder, training: TrainingDistribution, values: _Value
) -> _Value:
    """Return the number (N, 1) of cells far from what the person's other cells let
    expect, large ones reduced.
    """
    sd = np.sqrt(np.diag(training.covariance))
    precision, root = (
        training.precision * np.outer(sd, sd),
        np.sqrt(np.diag(training.precision)) * sd,
    )
    z = graph.op(
        "Max", graph.op("Min", (values - training.mean) / sd, MAX_SIZE), -MAX_SIZE
    )
    size = graph.op("Abs", z)
    reduced = graph.op(
        "Max", (size * -1.0 + WRAP_END) * (WRAP_START / (WRAP_END - WRAP_START)), 0.0
    )
    wrapped = graph.op("Sign", z) * graph.op("Min", size, reduced)
    residuals = graph.op("Abs", (z - wrapped) * root + wrapped @ (precision / root))
    is_wrong = graph.op("Greater", residuals, FLAG_LIMIT * training.residual_scale)
    number = graph.op(
        "ReduceSum",
        graph.op("Cast", is_wrong, to=_DOUBLE_TYPE),
        graph.ints([1]),
        keepdims=1,
    )
    total = graph.op("ReduceSum", residuals, graph.ints([1]), keepdims=1)
    return graph.op("Where", graph.op("IsNaN", total), np.nan, number)
