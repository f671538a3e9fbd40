"""A model as one ONNX graph: from the columns of a table to R-indices, in any language that has an ONNX runtime.

The graph computes in double precision what `FittedModel.apply` computes. Every column is an input under its own name,
so that their order cannot be wrong: regions (or the columns that a region is the sum of) and numeric covariates as
double, categories and the site as text, each (N, 1). A category or site that the model does not know gives NaN.
Shape letters: N people, R regions, S members, M patterns, K knots, T training people.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rindices._typing import AnyArray
from rindices._version import __version__
from rindices.atomic import write_atomically
from rindices.errors import ModelError, describe_os_error
from rindices.learners.inference import LEAKY_RELU_SLOPE, ContrastiveHead, SurrealHead, UpstreamHead
from rindices.learners.log_transform import IDENTITY_THRESHOLD, LOG_FLOOR
from rindices.model.fitted import FittedModel
from rindices.model.intervals import CalibratedIntervals
from rindices.model.novelty import TrainingDistribution
from rindices.preprocess.harmonise import Harmoniser
from rindices.preprocess.residualise import CovariateCoding, NumericCovariate
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD
from rindices.tables.cohort import SITE

OPSET, IR_VERSION = 19, 9
_DOUBLE_TYPE = 11  # onnx.TensorProto.DOUBLE


def export_onnx(model: FittedModel, path: Path) -> dict[str, list[str]]:
    """Write a model as an ONNX graph.

    Returns
    -------
    dict
        Names of the ``inputs`` and ``outputs``: ``r_indices`` (N, M); where the model knows them, the ends of the
        intervals ``low`` and ``high`` (N, M) and ``novelty`` (N, 1).
    """
    graph = _GraphBuilder()
    volumes = _add_volumes(graph, model)
    values = _add_preprocessing(graph, model, volumes)
    members = _add_members(graph, model, values)
    indices = graph.op("ReduceMean", members, graph.ints([1]), keepdims=0)
    outputs = {"r_indices": indices}
    if model.intervals is not None:
        variance = graph.op("ReduceMean", _add_squared_deviation(graph, members, indices), graph.ints([1]), keepdims=0)
        outputs["low"], outputs["high"] = _add_interval_bounds(graph, model.intervals, indices, variance)
    if model.training is not None and len(model.training.distances):
        outputs["novelty"] = _add_novelty(graph, model.training, values)
    about = {name: getattr(model.card, name) or None for name in ("unit", "source", "citation", "licence")}
    about |= {"rindices_version": __version__, "patterns": model.n_patterns, "regions": list(model.regions)}
    about |= {"covariates": model.preprocessing.residualiser.to_dict()}
    content = graph.serialise(outputs, {name: json.dumps(value) for name, value in about.items()})
    try:
        write_atomically(path, content)
    except OSError as error:
        raise ModelError(
            f"cannot write {path} ({describe_os_error(error)}): give another place with --onnx."
        ) from error
    return {"inputs": list(graph.inputs), "outputs": list(outputs)}


class _GraphBuilder:
    """Collects nodes; every method returns the name of its result."""

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

    def const(self, value: object) -> str:
        """Add doubles."""
        return self._constant(np.asarray(value, dtype=np.float64))

    def ints(self, value: Sequence[int]) -> str:
        """Add whole numbers, as axes and shapes are told."""
        return self._constant(np.asarray(value, dtype=np.int64))

    def texts(self, value: Sequence[str]) -> str:
        """Add a row of texts (1, ...)."""
        name = f"c{len(self._constants)}"
        kind = self.onnx.TensorProto.STRING
        encoded = [text.encode() for text in value]
        self._constants.append(
            self.onnx.helper.make_tensor(name, kind, [1, len(encoded)], np.array(encoded, dtype=object))
        )
        return name

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node."""
        name = f"n{len(self._nodes)}"
        self._nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def sum(self, parts: Iterable[str]) -> str:
        """Add results up."""
        first, *rest = parts
        for part in rest:
            first = self.op("Add", first, part)
        return first

    def serialise(self, outputs: dict[str, str], about: dict[str, str]) -> bytes:
        """Return the checked graph as bytes."""
        helper = self.onnx.helper
        for name, result in outputs.items():
            self._nodes.append(helper.make_node("Identity", [result], [name]))
        double = self.onnx.TensorProto.DOUBLE
        told = [helper.make_tensor_value_info(name, double, ["people", None]) for name in outputs]
        graph = helper.make_graph(self._nodes, "rindices", list(self.inputs.values()), told, self._constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        helper.set_model_props(model, about)
        self.onnx.checker.check_model(model, full_check=True)
        return bytes(model.SerializeToString())

    def _constant(self, value: AnyArray) -> str:
        name = f"c{len(self._constants)}"
        self._constants.append(self.onnx.numpy_helper.from_array(value, name))
        return name


def _add_volumes(graph: _GraphBuilder, model: FittedModel) -> str:
    """Return the regions (N, R), sums made from their parts."""
    columns = [
        graph.sum(graph.input(part) for part in model.sums.get(region, (region,)))
        for region in model.preprocessing.regions
    ]
    return graph.op("Concat", *columns, axis=1)


def _add_preprocessing(graph: _GraphBuilder, model: FittedModel, volumes: str) -> str:
    """Return what members see, (N, R)."""
    pre = model.preprocessing
    design = _add_design(graph, pre.residualiser.codings)
    if pre.harmoniser is not None:
        volumes = _add_harmonisation(graph, pre.harmoniser, volumes, design)
    if design is not None:
        effect = _add_matmul(
            graph, graph.op("Sub", design, graph.const(pre.residualiser.centre)), pre.residualiser.coefficients
        )
        volumes = graph.op("Sub", volumes, effect)
    z = graph.op("Div", graph.op("Sub", volumes, graph.const(pre.standardiser.mean)), graph.const(pre.standardiser.sd))
    return graph.op("Add", graph.op("Mul", z, graph.const(CONTROL_SD)), graph.const(CONTROL_MEAN))


def _add_design(graph: _GraphBuilder, codings: Sequence[CovariateCoding]) -> str | None:
    """Return the design (N, P), or None without covariates; an unknown category makes its row NaN."""
    columns = []
    for coding in codings:
        if isinstance(coding, NumericCovariate):
            columns.append(graph.input(coding.name))
        else:
            columns.append(_add_one_hot(graph, coding.name, coding.levels, skip=1))
    if not columns:
        return None
    return columns[0] if len(columns) == 1 else graph.op("Concat", *columns, axis=1)


def _add_one_hot(graph: _GraphBuilder, name: str, levels: Sequence[str], skip: int) -> str:
    """Return (N, levels - skip) which level a text is, NaN where it is none."""
    is_it = graph.op("Cast", graph.op("Equal", graph.input(name, text=True), graph.texts(levels)), to=_DOUBLE_TYPE)
    known = graph.op("ReduceSum", is_it, graph.ints([1]), keepdims=1)
    strange = graph.op("Where", graph.op("Greater", known, graph.const(0.5)), graph.const(0.0), graph.const(np.nan))
    marked = graph.op("Add", is_it, strange)
    return graph.op("Slice", marked, graph.ints([skip]), graph.ints([len(levels)]), graph.ints([1])) if skip else marked


def _add_harmonisation(graph: _GraphBuilder, sites: Harmoniser, volumes: str, design: str | None) -> str:
    """Return the volumes (N, R) without the effects of sites."""
    expected = graph.const(sites.mean)
    if design is not None:
        kept = _add_matmul(graph, graph.op("Sub", design, graph.const(sites.centre)), sites.coefficients)
        expected = graph.op("Add", kept, expected)
    member = _add_one_hot(graph, SITE, sites.sites, skip=0)
    z = graph.op("Div", graph.op("Sub", volumes, expected), graph.const(sites.sd))
    z = graph.op(
        "Div", graph.op("Sub", z, _add_matmul(graph, member, sites.shift)), _add_matmul(graph, member, sites.scale)
    )
    return graph.op("Add", expected, graph.op("Mul", z, graph.const(sites.sd)))


def _add_members(graph: _GraphBuilder, model: FittedModel, values: str) -> str:
    """Return the members' R-indices (N, S, M)."""
    found = []
    for head, order in zip(model.heads, model.orders, strict=True):
        if isinstance(head, ContrastiveHead):
            one = _add_matmul(graph, _add_log_transform(graph, head, values), head.weights[:, list(order)])
        else:
            one = _add_surreal_head(graph, head, order, values)
        found.append(graph.op("Unsqueeze", one, graph.ints([1])))
    return graph.op("Concat", *found, axis=1)


def _add_log_transform(graph: _GraphBuilder, head: ContrastiveHead, values: str) -> str:
    share = float(head.share)
    z = graph.op("Div", graph.op("Sub", values, graph.const(head.control_mean)), graph.const(head.control_scale))
    if share >= IDENTITY_THRESHOLD:
        left = graph.op("Add", graph.op("Mul", z, graph.const(share)), graph.const(1.0))
        kept = graph.op("Max", left, graph.const(LOG_FLOOR))
        tangent = graph.op("Div", graph.op("Sub", left, kept), graph.const(LOG_FLOOR))
        z = graph.op("Div", graph.op("Add", graph.op("Log", kept), tangent), graph.const(share))
    return graph.op("Div", graph.op("Sub", z, graph.const(head.shift_mean)), graph.const(head.shift_scale))


def _add_surreal_head(graph: _GraphBuilder, head: SurrealHead, order: Sequence[int], values: str) -> str:
    """Return g2 of g1, (N, M); g1 and the first layer of g2 are one matrix, as in `SurrealHead`."""
    people, regions = _add_leaky_relu(graph, values), head.g2_weight1.shape[0]
    last, bias = head.g2_weight3.astype(float), head.g2_bias3.astype(float)
    summed = isinstance(head, UpstreamHead)
    if summed:
        last, bias = last[:, list(order)], bias[:, list(order)]
    outputs = []
    for block in np.split(head.g1.astype(np.float64), head.g1.shape[1] // regions, axis=1):
        joined = block @ head.g2_weight1
        hidden = _add_leaky_relu(graph, _add_linear_layer(graph, people, joined[:-1], joined[-1] + head.g2_bias1))
        hidden = _add_leaky_relu(graph, _add_linear_layer(graph, hidden, head.g2_weight2, head.g2_bias2))
        outputs.append(_add_linear_layer(graph, hidden, last, bias))
    return graph.sum(outputs) if summed else graph.op("Concat", *(outputs[place] for place in order), axis=1)


def _add_interval_bounds(
    graph: _GraphBuilder, known: CalibratedIntervals, indices: str, variance: str
) -> tuple[str, str]:
    """Return the ends of the intervals, each (N, M): `Intervals.around`, interpolation written as a sum of pieces."""
    lower, upper = known.knots[:, :-1], known.knots[:, 1:]
    along = graph.op("Unsqueeze", indices, graph.ints([2]))
    along = graph.op("Max", graph.op("Min", along, graph.const(upper[None])), graph.const(lower[None]))
    along = graph.op("Sub", along, graph.const(lower[None]))  # (N, M, K - 1), how far into each piece
    width = np.where(upper > lower, upper - lower, 1.0)

    def at(offsets: AnyArray) -> str:
        risen = graph.op("Mul", along, graph.const((np.diff(offsets, axis=1) / width)[None]))
        total = graph.op("ReduceSum", risen, graph.ints([2]), keepdims=0)
        return graph.op("Add", total, graph.const(offsets[:, 0]))

    relative = graph.op("Mul", variance, graph.const(known.members / known.error**2))
    wider = graph.op("Sqrt", graph.op("Add", relative, graph.const(1.0)))
    middle = at(known.middle)
    ends = []
    for offsets, outer in ((known.low, "Min"), (known.high, "Max")):
        half = graph.op("Mul", graph.op("Sub", at(offsets), middle), wider)
        ends.append(graph.op(outer, graph.sum([indices, middle, half]), indices))
    return ends[0], ends[1]


def _add_novelty(graph: _GraphBuilder, training: TrainingDistribution, values: str) -> str:
    """Return the tail probability (N, 1)."""
    off = _add_matmul(graph, graph.op("Sub", values, graph.const(training.mean)), training.root)
    distance = graph.op("Sqrt", graph.op("ReduceSum", graph.op("Mul", off, off), graph.ints([1]), keepdims=1))
    number = len(training.distances)
    nearer = graph.op("Cast", graph.op("Less", graph.const(training.distances[None]), distance), to=_DOUBLE_TYPE)
    nearer = graph.op("ReduceSum", nearer, graph.ints([1]), keepdims=1)
    tail = graph.op("Div", graph.op("Sub", graph.const(1.0 + number), nearer), graph.const(1.0 + number))
    unknown = graph.op("IsNaN", distance)
    return graph.op("Where", unknown, graph.const(np.nan), tail)


def _add_squared_deviation(graph: _GraphBuilder, members: str, indices: str) -> str:
    off = graph.op("Sub", members, graph.op("Unsqueeze", indices, graph.ints([1])))
    return graph.op("Mul", off, off)


def _add_matmul(graph: _GraphBuilder, values: str, matrix: AnyArray) -> str:
    return graph.op("MatMul", values, graph.const(matrix))


def _add_linear_layer(graph: _GraphBuilder, values: str, weight: AnyArray, bias: AnyArray) -> str:
    return graph.op("Add", _add_matmul(graph, values, weight), graph.const(bias))


def _add_leaky_relu(graph: _GraphBuilder, values: str) -> str:
    """Return the leaky ReLU; the operator of that name knows single precision alone."""
    return graph.op("Max", values, graph.op("Mul", values, graph.const(LEAKY_RELU_SLOPE)))
