"""Export a model as an ONNX graph, from the columns of a table to R-indices.

The graph computes in double precision what `FittedModel.apply` computes. Each column is a separate input (N, 1), named
as in the table, so that the order of columns does not matter: regions (or the columns that a region is the sum of) and
numeric covariates as doubles, categories and the site as text. A category or site that was not in training gives NaN.

Shape letters: N people, R regions, P columns of the design, S members, M patterns, K knots, T training people.
"""

import json
from collections.abc import Iterable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from rindices._typing import AnyArray
from rindices._version import __version__
from rindices.atomic import write_atomically
from rindices.errors import ModelError, describe_os_error
from rindices.learners import inference
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

    Returns names of the ``inputs`` and ``outputs``: ``r_indices`` (N, M) and, if the model has them, the bounds of the
    intervals ``low`` and ``high`` (N, M) and ``unusual`` (N, 1).
    """
    graph = _GraphBuilder()
    volumes, design = _add_volumes(graph, model), _add_design(graph, model.preprocessing.residualiser.codings)
    values, *prepared = (
        _add_pipeline(graph, each, volumes, design) for each in (model.preprocessing, *model.pipelines)
    )
    members = _add_members(graph, model, prepared or [values] * len(model.heads))
    indices = graph.op("ReduceMean", members, graph.ints([1]), keepdims=0)
    outputs = {"r_indices": indices}
    if model.intervals is not None:
        deviations = graph.op("Sub", members, graph.op("Unsqueeze", indices, graph.ints([1])))
        squares = graph.op("Mul", deviations, deviations)
        variance = graph.op("ReduceMean", squares, graph.ints([1]), keepdims=0)
        outputs["low"], outputs["high"] = _add_interval_bounds(graph, model.intervals, indices, variance)
    if model.training is not None and model.has_distances:
        outputs["unusual"] = _add_unusual(graph, model.training, values)
    about = {name: getattr(model.card, name) or None for name in ("unit", "source", "citation", "licence")}
    about |= {"rindices_version": __version__, "patterns": model.n_patterns, "regions": list(model.regions)}
    about |= {"covariates": model.preprocessing.residualiser.to_dict()}
    content = graph.serialise(outputs, {name: json.dumps(value) for name, value in about.items()})
    try:
        write_atomically(path, content)
    except OSError as error:
        raise ModelError(f"cannot write {path} ({describe_os_error(error)}): give another path with --onnx.") from error
    return {"inputs": list(graph.inputs), "outputs": list(outputs)}


class _GraphBuilder:
    """Collects the nodes of a graph; methods that add a node or constant return the name of its result."""

    def __init__(self) -> None:
        try:
            import onnx
        except ImportError as error:
            raise ModelError("writing ONNX needs its library: pip install 'rindices[onnx]'.") from error
        self.onnx = onnx
        self.inputs: dict[str, Any] = {}
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def input(self, name: str, text: bool = False) -> str:
        """Add an input (N, 1) of numbers or text, once."""
        kind = self.onnx.TensorProto.STRING if text else self.onnx.TensorProto.DOUBLE
        self.inputs.setdefault(name, self.onnx.helper.make_tensor_value_info(name, kind, ["people", 1]))
        return name

    def const(self, value: object, dtype: Any = np.float64) -> str:
        """Add a constant, of doubles unless another type is named."""
        name = f"c{len(self._constants)}"
        self._constants.append(self.onnx.numpy_helper.from_array(np.array(value, dtype=dtype), name))
        return name

    def ints(self, value: Sequence[int]) -> str:
        """Add a constant of integers, for axes and shapes."""
        return self.const(value, np.int64)

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node."""
        name = f"n{len(self._nodes)}"
        self._nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def sum(self, terms: Iterable[str]) -> str:
        """Add nodes that sum terms."""
        return reduce(lambda total, term: self.op("Add", total, term), terms)

    def standardise(self, values: str, centre: AnyArray, scale: AnyArray) -> str:
        """Add (values - centre) / scale."""
        return self.op("Div", self.op("Sub", values, self.const(centre)), self.const(scale))

    def matmul(self, values: str, matrix: AnyArray) -> str:
        """Add a product with a constant matrix."""
        return self.op("MatMul", values, self.const(matrix))

    def linear(self, values: str, weight: AnyArray, bias: AnyArray) -> str:
        """Add a linear layer."""
        return self.op("Add", self.matmul(values, weight), self.const(bias))

    def interpolate(self, values: str, knots: AnyArray, heights: AnyArray) -> str:
        """Add linear interpolation of values (N, M) between knots (M, K) with heights (M, K), as sums over segments."""
        lower, upper = knots[None, :, :-1], knots[None, :, 1:]
        slopes = np.diff(heights)[None] / np.where(upper > lower, upper - lower, np.inf)
        position = self.op("Min", self.op("Unsqueeze", values, self.ints([2])), self.const(upper))
        rise = self.op("Sub", self.op("Max", position, self.const(lower)), self.const(lower))
        total = self.op("ReduceSum", self.op("Mul", rise, self.const(slopes)), self.ints([2]), keepdims=0)
        return self.op("Add", total, self.const(heights[:, 0]))

    def leaky_relu(self, values: str) -> str:
        """Add a leaky ReLU; the operator LeakyRelu is defined for single precision only in some runtimes."""
        return self.op("Max", values, self.op("Mul", values, self.const(inference.LEAKY_RELU_SLOPE)))

    def serialise(self, outputs: dict[str, str], properties: dict[str, str]) -> bytes:
        """Return the checked graph as bytes."""
        helper = self.onnx.helper
        for name, result in outputs.items():
            self._nodes.append(helper.make_node("Identity", [result], [name]))
        double = self.onnx.TensorProto.DOUBLE
        infos = [helper.make_tensor_value_info(name, double, ["people", None]) for name in outputs]
        graph = helper.make_graph(self._nodes, "rindices", list(self.inputs.values()), infos, self._constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        helper.set_model_props(model, properties)
        self.onnx.checker.check_model(model, full_check=True)
        return bytes(model.SerializeToString())


def _add_volumes(graph: _GraphBuilder, model: FittedModel) -> str:
    """Return the volumes (N, R), on the scale on which they are adjusted."""
    pre = model.preprocessing
    if pre.adjust == "rank":
        raise ModelError("models of ranks cannot be exported to ONNX: fit with adjust = log or linear, or use apply.")
    columns = [graph.sum(graph.input(part) for part in model.sums.get(region, (region,))) for region in pre.regions]
    volumes = graph.op("Concat", *columns, axis=1)
    return graph.op("Log", volumes) if pre.adjust == "log" else volumes


def _add_pipeline(graph: _GraphBuilder, pre: Preprocessing, volumes: str, design: str | None) -> str:
    """Return the values (N, R) that a pipeline prepares."""
    if pre.harmoniser is not None:
        volumes = _add_harmonisation(graph, pre.harmoniser, volumes, design)
    if design is not None:
        centred = graph.op("Sub", design, graph.const(pre.residualiser.centre))
        volumes = graph.op("Sub", volumes, graph.matmul(centred, pre.residualiser.coefficients))
    z = graph.standardise(volumes, pre.standardiser.mean, pre.standardiser.sd)
    return graph.op("Add", graph.op("Mul", z, graph.const(CONTROL_SD)), graph.const(CONTROL_MEAN))


def _add_design(graph: _GraphBuilder, codings: Sequence[CovariateCoding]) -> str | None:
    """Return the design (N, P), or None without covariates; rows with an unknown category are NaN."""
    columns = []
    for coding in codings:
        if isinstance(coding, NumericCovariate):
            column = graph.input(coding.name)
            columns.append(graph.op("Log", column) if coding.log else column)
        else:
            columns.append(_add_one_hot(graph, coding.name, coding.levels, skip=1))
    return graph.op("Concat", *columns, axis=1) if columns else None


def _add_one_hot(graph: _GraphBuilder, name: str, levels: Sequence[str], skip: int) -> str:
    """Return indicators (N, levels - skip) of the levels, NaN for texts that are no level."""
    texts = graph.const([[level.encode() for level in levels]], object)
    matches = graph.op("Cast", graph.op("Equal", graph.input(name, text=True), texts), to=_DOUBLE_TYPE)
    n_matches = graph.op("ReduceSum", matches, graph.ints([1]), keepdims=1)
    is_level = graph.op("Greater", n_matches, graph.const(0.5))
    unknown = graph.op("Where", is_level, graph.const(0.0), graph.const(np.nan))
    one_hot = graph.op("Add", matches, unknown)
    if not skip:
        return one_hot
    return graph.op("Slice", one_hot, graph.ints([skip]), graph.ints([len(levels)]), graph.ints([1]))


def _add_harmonisation(graph: _GraphBuilder, harmoniser: Harmoniser, volumes: str, design: str | None) -> str:
    """Return the volumes (N, R) without site effects."""
    expected = graph.const(harmoniser.mean)
    if design is not None:
        centred = graph.op("Sub", design, graph.const(harmoniser.centre))
        expected = graph.op("Add", graph.matmul(centred, harmoniser.coefficients), expected)
    site = _add_one_hot(graph, SITE, harmoniser.sites, skip=0)
    z = graph.op("Div", graph.op("Sub", volumes, expected), graph.const(harmoniser.sd))
    shifted = graph.op("Sub", z, graph.matmul(site, harmoniser.shift))
    z = graph.op("Div", shifted, graph.matmul(site, harmoniser.scale))
    return graph.op("Add", expected, graph.op("Mul", z, graph.const(harmoniser.sd)))


def _add_members(graph: _GraphBuilder, model: FittedModel, prepared: Sequence[str]) -> str:
    """Return the R-indices of each member, (N, S, M), from the values (N, R) that its pipeline prepares."""
    members = []
    for head, order, values in zip(model.heads, model.orders, prepared, strict=True):
        if isinstance(head, inference.ContrastiveHead):
            indices = graph.matmul(_add_log_transform(graph, head, values), head.weights[:, list(order)])
        elif isinstance(head, inference.TrajectoryHead):
            indices = _add_trajectory_head(graph, head, order, values)
        else:
            indices = _add_surreal_head(graph, head, order, values)
        members.append(graph.op("Unsqueeze", indices, graph.ints([1])))
    return graph.op("Concat", *members, axis=1)


def _add_trajectory_head(
    graph: _GraphBuilder, head: inference.TrajectoryHead, order: Sequence[int], values: str
) -> str:
    """Return the posterior means of the severities (N, M), as sums over the points of `SeverityPosterior`."""
    posterior = head.posterior
    numbers = graph.matmul(_add_log_transform(graph, head, values), head.weights)
    density = graph.op("Add", graph.matmul(numbers, posterior.basis.T), graph.const(posterior.offset[None]))
    return graph.matmul(graph.op("Softmax", density, axis=1), posterior.points[:, list(order)])


def _add_log_transform(graph: _GraphBuilder, head: inference.ShiftHead, values: str) -> str:
    """Return the standardised log volumes (N, R); below `LOG_FLOOR` the logarithm is continued by its tangent."""
    share = float(head.share)
    z = graph.standardise(values, head.control_mean, head.control_scale)
    if share >= inference.IDENTITY_THRESHOLD:
        fraction = graph.op("Add", graph.op("Mul", z, graph.const(share)), graph.const(1.0))
        bounded = graph.op("Max", fraction, graph.const(inference.LOG_FLOOR))
        tangent = graph.op("Div", graph.op("Sub", fraction, bounded), graph.const(inference.LOG_FLOOR))
        z = graph.op("Div", graph.op("Add", graph.op("Log", bounded), tangent), graph.const(share))
    return graph.standardise(z, head.shift_mean, head.shift_scale)


def _add_surreal_head(graph: _GraphBuilder, head: inference.SurrealHead, order: Sequence[int], values: str) -> str:
    """Return g2 of g1, (N, M); g1 and the first layer of g2 are merged into one matrix, as in `SurrealHead`."""
    activated, n_regions = graph.leaky_relu(values), head.g2_weight1.shape[0]
    weight, bias = head.g2_weight3.astype(float), head.g2_bias3.astype(float)
    is_summed = isinstance(head, inference.UpstreamHead)
    if is_summed:
        weight, bias = weight[:, list(order)], bias[:, list(order)]
    outputs = []
    for block in np.split(head.g1.astype(np.float64), head.g1.shape[1] // n_regions, axis=1):
        merged = block @ head.g2_weight1
        hidden = graph.leaky_relu(graph.linear(activated, merged[:-1], merged[-1] + head.g2_bias1))
        hidden = graph.leaky_relu(graph.linear(hidden, head.g2_weight2, head.g2_bias2))
        outputs.append(graph.linear(hidden, weight, bias))
    return graph.sum(outputs) if is_summed else graph.op("Concat", *(outputs[k] for k in order), axis=1)


def _add_interval_bounds(
    graph: _GraphBuilder, intervals: CalibratedIntervals, indices: str, variance: str
) -> tuple[str, str]:
    """Return `CalibratedIntervals.compute_bounds`, each (N, M)."""
    relative = graph.op("Mul", variance, graph.const(intervals.members / intervals.error**2))
    widening = graph.op("Sqrt", graph.op("Add", relative, graph.const(1.0)))
    middle = graph.interpolate(indices, intervals.knots, intervals.middle)
    bounds = []
    for offsets, outermost in ((intervals.low, "Min"), (intervals.high, "Max")):
        offset = graph.interpolate(indices, intervals.knots, offsets)
        half = graph.op("Mul", graph.op("Sub", offset, middle), widening)
        bounds.append(graph.op(outermost, graph.sum([indices, middle, half]), indices))
    return bounds[0], bounds[1]


def _add_unusual(graph: _GraphBuilder, training: TrainingDistribution, values: str) -> str:
    """Return `TrainingDistribution.compute_unusual` (N, 1)."""
    projected = graph.matmul(graph.op("Sub", values, graph.const(training.mean)), training.root)
    squares = graph.op("Mul", projected, projected)
    distance = graph.op("Sqrt", graph.op("ReduceSum", squares, graph.ints([1]), keepdims=1))
    unusual = graph.interpolate(distance, training.distances[None], training.shares[None])
    return graph.op("Where", graph.op("IsNaN", distance), graph.const(np.nan), unusual)
