"""Read checkpoints of the authors' package, SurrealGAN 0.1.1, without executing them.

They are pickles, and a pickle can run any code. So the names in the file are compared with a short list of allowed
names, torch's weights-only loader reads it, and the content must have the keys, types and shapes of such a checkpoint.
Shape letters: R regions, M patterns, C covariates, H and L widths of the hidden layers.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

from rindices._typing import AnyArray, FloatArray
from rindices.errors import ModelError, describe_os_error, join_names
from rindices.learners.inference import compute_hidden_widths

_MAX_BYTES = 500_000_000
_MAX_DIMENSION = 100_000  # regions, patterns or covariates


class UpstreamCheckpoint(NamedTuple):
    """Validated content of a checkpoint.

    Attributes
    ----------
    epoch : int
    n_regions, n_patterns : int
        R and M.
    mean, sd : (R,)
        Mean and standard deviation of the corrected controls.
    low, high : (C,)
        Range of each covariate among controls; C is 0 if nothing was corrected for.
    beta : (C, R)
        Effect of a covariate over that range.
    g1, g2, f : dict of arrays
        Weights by their names in the checkpoint, as float32.
    correlation : (M, M) or None
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


def read_upstream_checkpoint(path: Path, epoch: int | None = None) -> UpstreamCheckpoint:
    """Read a checkpoint.

    Parameters
    ----------
    path : Path
        File that SurrealGAN wrote.
    epoch : int, optional
        Which of the saved epochs to read; needed only if there are several.

    Returns
    -------
    UpstreamCheckpoint

    Raises
    ------
    ModelError
        If the file cannot be read, is not such a checkpoint, or could run code.
    """
    content = _load_weights_only(path)
    try:
        return _validate_content(content, epoch)
    except _InvalidCheckpoint as error:
        raise ModelError(f"{path.name} is not a checkpoint of SurrealGAN 0.1.1: {error}. Get the file again.") from None


class _InvalidCheckpoint(Exception):  # noqa: N818
    """A checkpoint lacks something, or holds something else than it should."""


def _load_weights_only(path: Path) -> Any:
    """Load a file with torch's weights-only loader, which executes nothing in it."""
    try:
        if not zipfile.is_zipfile(path):
            path.stat()
            raise ModelError(f"{path.name} is not a file that torch wrote: give a checkpoint of SurrealGAN 0.1.1.")
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > _MAX_BYTES:
            raise ModelError(f"{path.name} would be {size:,} bytes, which no checkpoint of R-indices is.")
        forbidden = sorted(set(get_unsafe_globals_in_checkpoint(path)) - {name for _, name in _list_allowed_globals()})
        if forbidden:
            raise ModelError(
                f"{path.name} holds more than numbers ({join_names(forbidden, 3)}): it could run code and is refused."
            )
        with safe_globals(list(_list_allowed_globals())):
            return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({describe_os_error(error)}): check the path.") from error
    except ModelError:
        raise
    except Exception as error:  # a damaged pickle can raise anything
        reason = (str(error).splitlines() or [""])[0][:100]
        raise ModelError(f"{path.name} is damaged ({type(error).__name__}: {reason}): get the file again.") from error


def _make_empty_array(kind: type, shape: tuple[int, ...], code: bytes) -> AnyArray:
    """Return the empty array that a pickled one is filled into; replaces numpy's function."""
    if kind is not np.ndarray or shape != (0,) or code != b"b":
        raise ValueError("an array that numpy does not write")
    return np.ndarray((0,), np.int8)


def _make_number_dtype(code: str, *_: object) -> np.dtype[Any]:
    """Return a dtype of plain numbers; replaces numpy's class."""
    if code not in ("f4", "f8", "i4", "i8"):
        raise ValueError(f"numbers of type {code!r}")
    return np.dtype(code)


def _list_allowed_globals() -> tuple[tuple[Any, str], ...]:
    """Return the names that a checkpoint may hold besides torch's own, each with its replacement."""
    dtypes = (np.dtypes.Float32DType, np.dtypes.Float64DType, np.dtypes.Int32DType, np.dtypes.Int64DType)
    return (
        (_make_empty_array, "numpy.core.multiarray._reconstruct"),
        (_make_empty_array, "numpy._core.multiarray._reconstruct"),
        (_make_number_dtype, "numpy.dtype"),
        (np.ndarray, "numpy.ndarray"),
        *((kind, f"numpy.dtypes.{kind.__name__}") for kind in dtypes),
    )


def _validate_content(content: Any, epoch: int | None) -> UpstreamCheckpoint:
    top = _require_mapping(content, "its content")
    regions, patterns = _read_dimension(top, "nROI"), _read_dimension(top, "npattern")
    epoch = _choose_epoch(top, epoch)
    networks = _require_mapping(top[epoch], f"epoch {epoch}")
    scale = _require_mapping(_require_key(top, "normalization_variables"), "normalization_variables")
    mean, sd = (_read_array(scale, name, (regions,), np.float64) for name in ("cn_mean", "cn_std"))
    if not (sd > 0).all():
        raise _InvalidCheckpoint("cn_std is not positive")
    shapes = _list_layer_shapes(regions, patterns)
    g1, g2 = (_read_network(networks, name, shapes[name]) for name in ("netDecomposer", "netReconstruction"))
    low, high, beta = _read_covariates(top, regions)
    f = _read_network(networks, "netMapping", shapes["netMapping"])
    correlation = _read_copula_correlation(networks, patterns)
    return UpstreamCheckpoint(epoch, regions, patterns, mean, sd, low, high, beta, g1, g2, f, correlation)


def _list_layer_shapes(regions: int, patterns: int) -> dict[str, dict[str, tuple[int, ...]]]:
    """Return the shapes of all layers of g1, g2 and f, by their names in the checkpoint."""
    wide, narrow = compute_hidden_widths(regions)
    return {
        "netDecomposer": {"model.1.weight": (patterns * regions, regions), "model.1.bias": (patterns * regions,)},
        "netReconstruction": {
            "model.0.weight": (wide, regions),
            "model.0.bias": (wide,),
            "model.2.weight": (narrow, wide),
            "model.2.bias": (narrow,),
            "model.4.weight": (patterns, narrow),
            "model.4.bias": (patterns,),
        },
        "netMapping": {
            "model.0.weight": (wide, regions),
            "model.2.weight": (narrow, wide),
            "model.4.add_noise.0.weight": (narrow, patterns),
            "model.4.add_noise.0.bias": (narrow,),
            "model.5.weight": (wide, narrow),
            "model.7.weight": (regions, wide),
        },
    }


def _read_covariates(top: Mapping[Any, Any], regions: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the covariates' low, high (C,) and beta (C, R)."""
    variables = _require_key(top, "correction_variables")
    if variables is None:
        return np.zeros(0), np.zeros(0), np.zeros((0, regions))
    correction = _require_mapping(variables, "correction_variables")
    count = np.size(_require_key(correction, "min_cov"))
    if not 0 < count <= _MAX_DIMENSION:
        raise _InvalidCheckpoint("min_cov is empty")
    low, high = (_read_array(correction, name, (count,), np.float64) for name in ("min_cov", "max_cov"))
    if not (high > low).all():
        raise _InvalidCheckpoint("max_cov is not above min_cov")
    return low, high, _read_array(correction, "beta", (count, regions), np.float64)


def _read_copula_correlation(nets: Mapping[Any, Any], patterns: int) -> FloatArray | None:
    """Return the correlation (M, M) behind phi, the lower triangle of a factor whose rows are brought to norm one."""
    if "phi" not in nets:
        return None
    factor = np.zeros((patterns, patterns))
    factor[np.tril_indices(patterns)] = _read_array(nets, "phi", (patterns * (patterns + 1) // 2,), np.float64)
    norms = np.linalg.norm(factor, axis=1, keepdims=True)
    if not (norms > 0).all():
        raise _InvalidCheckpoint("phi has a row of zeros")
    return np.asarray((factor / norms) @ (factor / norms).T)


def _choose_epoch(top: Mapping[Any, Any], epoch: int | None) -> int:
    epochs = sorted(key for key in top if type(key) is int)
    if not epochs:
        raise _InvalidCheckpoint("it holds no epoch")
    if epoch is None and len(epochs) > 1:
        raise ModelError(f"the checkpoint holds {len(epochs)} epochs: {join_names(epochs, 12)}. Name one: --epoch.")
    if epoch is not None and epoch not in epochs:
        raise ModelError(f"the checkpoint has no epoch {epoch}; there is: {join_names(epochs, 12)}.")
    return epochs[0] if epoch is None else epoch


def _read_network(
    nets: Mapping[Any, Any], name: str, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, NDArray[np.float32]]:
    layers = _require_mapping(_require_key(nets, name), name)
    if set(layers) != set(shapes):
        differing = sorted(str(key) for key in set(layers) ^ set(shapes))
        raise _InvalidCheckpoint(f"{name} has other layers than it should ({join_names(differing, 3)})")
    return {layer: _read_array(layers, layer, shape, np.float32) for layer, shape in shapes.items()}


def _read_array(values: Mapping[Any, Any], name: str, shape: tuple[int, ...], dtype: type[np.floating[Any]]) -> Any:
    """Return an array of finite numbers of this shape."""
    value = _require_key(values, name)
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_complex() or value.device.type != "cpu":
            raise _InvalidCheckpoint(f"{name} is not an array of plain numbers")
        value = value.detach().numpy()
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fi":
        raise _InvalidCheckpoint(f"{name} is not an array of plain numbers")
    if value.shape != shape:
        raise _InvalidCheckpoint(f"{name} has shape {value.shape}, not {shape}")
    if not np.isfinite(value).all():
        raise _InvalidCheckpoint(f"{name} holds values that are not finite")
    return np.array(value, dtype=dtype)


def _read_dimension(values: Mapping[Any, Any], name: str) -> int:
    value = _require_key(values, name)
    if type(value) is not int or not 0 < value <= _MAX_DIMENSION:
        raise _InvalidCheckpoint(f"{name} is {value!r}"[:100])
    return value


def _require_mapping(value: Any, name: str) -> Mapping[Any, Any]:
    if not isinstance(value, dict):
        raise _InvalidCheckpoint(f"{name} is not a dictionary")
    return value


def _require_key(values: Mapping[Any, Any], name: str) -> Any:
    if name not in values:
        raise _InvalidCheckpoint(f"it lacks {name}")
    return values[name]
