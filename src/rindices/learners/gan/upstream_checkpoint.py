"""Read checkpoints of the authors' package, SurrealGAN 0.1.1, without executing them.

They are pickles, and a pickle can run any code. So the names in the file are compared
with a short list of allowed names, torch's weights-only loader reads it, and the
content must have the keys, types and shapes of such a checkpoint. Shape letters: R
regions, M patterns, C covariates, H and L widths of the hidden layers.
"""

from __future__ import annotations

import math
import pickletools
import zipfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.serialization import safe_globals

from rindices._typing import AnyArray, FloatArray
from rindices.array_checks import SMALLEST_SCALE, find_array_fault
from rindices.errors import (
    ModelError,
    Problem,
    ProblemCode,
    Severity,
    describe_os_error,
    join_names,
    make_damage_error,
)
from rindices.learners.gan.networks import SurrealNetworks
from rindices.learners.inference import compute_hidden_widths

_MAX_BYTES = 500_000_000
# a pickle of this size, made of the allowed names, fills a few hundred MB at most
_MAX_PICKLE_BYTES = 2_000_000
_MAX_TUPLES = 20_000  # Python crashes when it hashes a tuple that is nested more deeply
_MAX_DIMENSION = 100_000  # regions or covariates
_MAX_PATTERNS = 1_000
_MAX_EPOCH = 10**12
_ALLOWED_GLOBALS = {
    *("collections OrderedDict", "_codecs encode", "torch Size"),
    *("torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_parameter"),
    *(
        f"torch {kind}Storage"
        for kind in (
            "Float",
            "Double",
            "Half",
            "Long",
            "Int",
            "Short",
            "Char",
            "Byte",
            "Bool",
        )
    ),
    *(
        "numpy ndarray",
        "numpy dtype",
        "numpy.core.multiarray _reconstruct",
        "numpy._core.multiarray _reconstruct",
    ),
}
"""Names that a pickle may hold, written as in the file."""
_TENSOR_TYPES = (torch.float32, torch.float64, torch.int32, torch.int64)


@dataclass(frozen=True, kw_only=True)
class UpstreamCheckpoint:
    """Validated content of a checkpoint.

    Attributes
    ----------
    epoch : int
    n_regions, n_patterns : int
        R and M.
    mean, sd : ndarray of shape (R,)
        Mean and standard deviation of the corrected controls.
    low, high : ndarray of shape (C,)
        Range of each covariate among controls. C is 0 if nothing was corrected for.
    beta : ndarray of shape (C, R)
        Effect of a covariate over that range.
    g1, g2, f : dict
        Weights by their names in the checkpoint, as float32.
    correlation : ndarray of shape (M, M) or None
        Learnt correlation between the severities.
    """

    epoch: int
    n_regions: int
    n_patterns: int
    mean: FloatArray
    sd: FloatArray
    low: FloatArray
    high: FloatArray
    beta: FloatArray
    g1: dict[str, NDArray[np.float32]]
    g2: dict[str, NDArray[np.float32]]
    f: dict[str, NDArray[np.float32]]
    correlation: FloatArray | None


def read_upstream_checkpoint(
    path: Path, epoch: int | None = None
) -> UpstreamCheckpoint:
    """Read a checkpoint.

    Parameters
    ----------
    path : Path
        File that SurrealGAN wrote.
    epoch : int or None
        Which of the saved epochs to read. Needed only if there are several. Raises
        ModelError: if the file cannot be read, is not such a checkpoint, or could
        run code.
    """
    content = _load_weights_only(path)
    try:
        return _validate_content(content, epoch)
    except _InvalidCheckpoint as error:
        raise make_damage_error(
            path.name, f"is not a checkpoint of SurrealGAN 0.1.1: {error}"
        ) from None


def make_upstream_networks(checkpoint: UpstreamCheckpoint) -> SurrealNetworks:
    """Return f, g1, g2 and the copula of a checkpoint as the networks of one member, to
    synthesise and decompose.

    Upstream layers are (outputs, inputs), ours (inputs, outputs). D is not read, and
    its weights are zero. People are prepared as everywhere here: 1 + 0.1 (v - mean) /
    sd, with mean and sd of the checkpoint.
    """
    networks = SurrealNetworks(1, checkpoint.n_regions, checkpoint.n_patterns)
    f, g1, g2 = checkpoint.f, checkpoint.g1, checkpoint.g2
    layers = {
        "encode1": "model.0",
        "encode2": "model.2",
        "decode1": "model.5",
        "decode2": "model.7",
    }
    weights = {f"f.{ours}": f[f"{theirs}.weight"].T for ours, theirs in layers.items()}
    weights |= {
        "f.gate": f["model.4.add_noise.0.weight"].T,
        "f.gate_bias": f["model.4.add_noise.0.bias"][None],
    }
    weights |= {
        "g1.weight": g1["model.1.weight"].T,
        "g1.bias": g1["model.1.bias"][None],
    }
    for number, theirs in enumerate(("model.0", "model.2", "model.4"), start=1):
        weights[f"g2.weight{number}"] = g2[f"{theirs}.weight"].T
        weights[f"g2.bias{number}"] = g2[f"{theirs}.bias"][None]
    if checkpoint.correlation is not None:
        weights["copula.phi"] = np.linalg.cholesky(checkpoint.correlation).astype(
            np.float32
        )
    state = {
        name: torch.as_tensor(np.ascontiguousarray(weight))[None]
        for name, weight in weights.items()
    }
    networks.load_state_dict(networks.state_dict() | state)
    return networks


class _InvalidCheckpoint(Exception):  # noqa: N818
    """A checkpoint lacks something, or holds something else than it should."""


def _load_weights_only(path: Path) -> Any:
    """Load a file with torch's weights-only loader, which executes nothing in it."""
    try:
        if not path.is_file() or not zipfile.is_zipfile(path):
            path.stat()
            what = "is not a file that torch wrote"
            if path.suffix == ".safetensors":
                what = "is not a checkpoint but looks like a model of rindices, which needs no import"
            raise ModelError(
                f"{path.name} {what}: give a checkpoint of SurrealGAN 0.1.1."
            )
        _check_pickle(path.name, _read_pickle(path))
        with safe_globals(list(_REPLACEMENTS)):
            return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise ModelError(
            f"{path} cannot be read ({describe_os_error(error)}): check the path."
        ) from error
    except ModelError:
        raise
    except Exception as error:  # a damaged pickle can raise anything
        reason = (str(error).splitlines() or [""])[0][:100]
        raise make_damage_error(
            path.name, f"cannot be read ({type(error).__name__}: {reason})"
        ) from error


def _read_pickle(path: Path) -> bytes:
    """Return the pickle in an archive, after the sizes that the archive claims have
    been checked.
    """
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        size = sum(entry.file_size for entry in entries)
        is_compressed = any(
            entry.compress_type != zipfile.ZIP_STORED for entry in entries
        )
        if is_compressed or size > min(_MAX_BYTES, path.stat().st_size):
            raise make_damage_error(
                path.name,
                f"would be {size:,} bytes, which no checkpoint of R-indices is",
            )
        pickles = [entry for entry in entries if entry.filename.endswith("/data.pkl")]
        if len(pickles) != 1 or pickles[0].file_size > _MAX_PICKLE_BYTES:
            sizes = [entry.file_size for entry in pickles]
            raise make_damage_error(
                path.name,
                f"should hold one data.pkl of a few thousand bytes, it has {sizes}",
            )
        return archive.read(pickles[0])


def _check_pickle(file: str, content: bytes) -> None:
    """Refuse a pickle that names more than numbers, or that is nested too deeply;
    nothing is executed.
    """
    operations = [
        (operation.name, argument)
        for operation, argument, _ in pickletools.genops(content)
    ]
    counts = Counter(operation for operation, _ in operations)
    names = {
        str(argument) for operation, argument in operations if operation == "GLOBAL"
    }
    calls = sorted(
        set(counts) & {"STACK_GLOBAL", "INST", "OBJ", "EXT1", "EXT2", "EXT4"}
    )
    forbidden = (
        sorted(name.replace(" ", ".") for name in names - _ALLOWED_GLOBALS) or calls
    )
    if forbidden:
        what = f"holds more than numbers ({join_names(forbidden, 3)}): it could run code and is refused"
        cure = "Get the file from its authors"
        raise ModelError(
            Problem(
                severity=Severity.ERROR,
                what=what,
                where=file,
                cure=cure,
                code=ProblemCode.UNSAFE_FILE,
                subject=forbidden[0],
            )
        )
    n_tuples = sum(counts[name] for name in ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"))
    if n_tuples > _MAX_TUPLES or counts["EMPTY_SET"]:
        raise make_damage_error(
            file, "holds more than a checkpoint of SurrealGAN 0.1.1 does"
        )


class _PickledDtype:
    """Stands for a numpy dtype in a pickle: plain numbers only."""

    def __init__(self, code: str = "", *_: object) -> None:
        if code not in ("f4", "f8", "i4", "i8"):
            raise ValueError(f"numbers of type {code!r:.20}")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if state[1] not in ("<", "=", "|") or any(
            part is not None for part in state[2:5]
        ):
            raise ValueError("numbers in another order of bytes")


class _PickledArray:
    """Stands for a numpy array in a pickle, so that no function of numpy is called with
    what a file holds.
    """

    array: AnyArray | None = None

    def __init__(self, *_: object) -> None:
        pass

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, is_fortran, content = state
        numbers = np.frombuffer(bytes(content), kind.dtype)
        if type(content) is not bytes or math.prod(shape) != numbers.size:
            raise ValueError(f"an array of {numbers.size} numbers")
        self.array = numbers.reshape(shape, order="F" if is_fortran else "C")


_REPLACEMENTS: tuple[tuple[Any, str], ...] = (
    (_PickledArray, "numpy.core.multiarray._reconstruct"),
    (_PickledArray, "numpy._core.multiarray._reconstruct"),
    (_PickledArray, "numpy.ndarray"),
    (_PickledDtype, "numpy.dtype"),
)
"""What the names of numpy in a pickle stand for."""


def _validate_content(content: Any, epoch: int | None) -> UpstreamCheckpoint:
    top = _require_mapping(content, "its content")
    regions, patterns = (
        _read_dimension(top, "nROI", _MAX_DIMENSION),
        _read_dimension(top, "npattern", _MAX_PATTERNS),
    )
    epoch = _choose_epoch(top, epoch)
    networks = _require_mapping(top[epoch], f"epoch {epoch}")
    scale = _require_mapping(
        _require_key(top, "normalization_variables"), "normalization_variables"
    )
    mean, sd = (
        _read_array(scale, name, (regions,), np.float64)
        for name in ("cn_mean", "cn_std")
    )
    layers = _list_layer_shapes(regions, patterns)
    g1, g2, f = (
        _read_network(networks, name, shapes) for name, shapes in layers.items()
    )
    low, high, beta = _read_covariates(top, regions)
    correlation = _read_copula_correlation(networks, patterns)
    return UpstreamCheckpoint(
        epoch=epoch,
        n_regions=regions,
        n_patterns=patterns,
        mean=mean,
        sd=sd,
        low=low,
        high=high,
        beta=beta,
        g1=g1,
        g2=g2,
        f=f,
        correlation=correlation,
    )


def _list_layer_shapes(
    regions: int, patterns: int
) -> dict[str, dict[str, tuple[int, ...]]]:
    """Return the shapes of all layers of g1, g2 and f, by their names in the
    checkpoint.
    """
    wide, narrow = compute_hidden_widths(regions)

    def shape(
        biased: dict[str, tuple[int, int]], unbiased: dict[str, tuple[int, int]]
    ) -> dict[str, tuple[int, ...]]:
        weights: dict[str, tuple[int, ...]] = {
            f"{name}.weight": size for name, size in (biased | unbiased).items()
        }
        return weights | {f"{name}.bias": size[:1] for name, size in biased.items()}

    perceptron = {
        "model.0": (wide, regions),
        "model.2": (narrow, wide),
        "model.4": (patterns, narrow),
    }
    coder = {
        "model.0": (wide, regions),
        "model.2": (narrow, wide),
        "model.5": (wide, narrow),
        "model.7": (regions, wide),
    }
    return {
        "netDecomposer": shape({"model.1": (patterns * regions, regions)}, {}),
        "netReconstruction": shape(perceptron, {}),
        "netMapping": shape({"model.4.add_noise.0": (narrow, patterns)}, coder),
    }


def _read_covariates(
    top: Mapping[Any, Any], regions: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the covariates' low, high (C,) and beta (C, R)."""
    variables = _require_key(top, "correction_variables")
    if variables is None:
        return np.zeros(0), np.zeros(0), np.zeros((0, regions))
    correction = _require_mapping(variables, "correction_variables")
    count = _to_numpy(_require_key(correction, "min_cov"), "min_cov").size
    if not 0 < count <= _MAX_DIMENSION:
        raise _InvalidCheckpoint("min_cov is empty")
    low, high = (
        _read_array(correction, name, (count,), np.float64)
        for name in ("min_cov", "max_cov")
    )
    if not (high > low).all():
        raise _InvalidCheckpoint("max_cov is not above min_cov")
    return low, high, _read_array(correction, "beta", (count, regions), np.float64)


def _read_copula_correlation(
    nets: Mapping[Any, Any], patterns: int
) -> FloatArray | None:
    """Return the correlation (M, M) behind phi, the lower triangle of a factor whose
    rows are brought to norm one.
    """
    if "phi" not in nets:
        return None
    triangle = _read_array(nets, "phi", (patterns * (patterns + 1) // 2,), np.float64)
    factor = np.zeros((patterns, patterns))
    factor[np.tril_indices(patterns)] = triangle
    norms = np.linalg.norm(factor, axis=1, keepdims=True)
    if not (norms > SMALLEST_SCALE).all():
        raise _InvalidCheckpoint("phi has a row of zeros")
    return np.asarray((factor / norms) @ (factor / norms).T)


def _choose_epoch(top: Mapping[Any, Any], epoch: int | None) -> int:
    epochs = sorted(key for key in top if type(key) is int and 0 <= key <= _MAX_EPOCH)
    if not epochs:
        raise _InvalidCheckpoint("it holds no epoch")
    if epoch is None and len(epochs) > 1:
        raise ModelError(
            f"the checkpoint holds {len(epochs)} epochs: {join_names(epochs, 12)}. Name one: --epoch."
        )
    if epoch is not None and epoch not in epochs:
        raise ModelError(
            f"the checkpoint has no epoch {epoch}; there is: {join_names(epochs, 12)}."
        )
    return epochs[0] if epoch is None else epoch


def _read_network(
    nets: Mapping[Any, Any], name: str, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, NDArray[np.float32]]:
    layers = _require_mapping(_require_key(nets, name), name)
    if set(layers) != set(shapes):
        differing = sorted(
            str(key)[:80]
            for key in set(layers) ^ set(shapes)
            if isinstance(key, str | int)
        )
        raise _InvalidCheckpoint(
            f"{name} has other layers than it should ({join_names(differing, 3)})"
        )
    return {
        layer: _read_array(layers, layer, shape, np.float32)
        for layer, shape in shapes.items()
    }


def _read_array(
    values: Mapping[Any, Any],
    name: str,
    shape: tuple[int, ...],
    dtype: type[np.floating[Any]],
) -> Any:
    """Return an array of finite numbers of this shape."""
    value = _to_numpy(_require_key(values, name), name)
    if value.shape != shape:
        raise _InvalidCheckpoint(f"{name} has shape {value.shape}, not {shape}")
    if fault := find_array_fault(name, value):
        raise _InvalidCheckpoint(f"{name} {fault}")
    return np.array(value, dtype=dtype)


def _to_numpy(value: Any, name: str) -> AnyArray:
    """Return a tensor or array of a checkpoint as an array that holds all its numbers
    in memory.
    """
    if isinstance(value, torch.Tensor):
        is_plain = (
            value.layout is torch.strided
            and value.device.type == "cpu"
            and value.dtype in _TENSOR_TYPES
        )
        if not is_plain or value.is_neg() or value.is_conj():
            raise _InvalidCheckpoint(f"{name} is not an array of plain numbers")
        if (
            value.numel() * value.element_size() > value.untyped_storage().nbytes()
        ):  # an expanded view
            raise _InvalidCheckpoint(
                f"{name} has shape {tuple(value.shape)}, but fewer numbers"
            )
        return np.asarray(value.detach().numpy())
    array = value.array if isinstance(value, _PickledArray) else None
    if array is None:
        raise _InvalidCheckpoint(f"{name} is not an array of plain numbers")
    return array


def _read_dimension(values: Mapping[Any, Any], name: str, most: int) -> int:
    value = _require_key(values, name)
    if type(value) is not int or not 0 < value <= most:
        raise _InvalidCheckpoint(f"{name} should be a number from 1 to {most:,}")
    return value


def _require_mapping(value: Any, name: str) -> Mapping[Any, Any]:
    if not isinstance(value, dict):
        raise _InvalidCheckpoint(f"{name} is not a dictionary")
    return value


def _require_key(values: Mapping[Any, Any], name: str) -> Any:
    if name not in values:
        raise _InvalidCheckpoint(f"it lacks {name}")
    return values[name]
