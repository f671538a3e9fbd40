"""Altered checkpoints."""

import io
import warnings
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hostile.alterations import (
    ARRAY_CHANGES,
    HOSTILE_VALUES,
    Alteration,
    FileMaker,
    delete_path,
    flip_bytes,
    list_paths,
    set_path,
)
from benchmarks.hostile.sources import (
    PATTERNS,
    REGIONS,
    Source,
    make_checkpoint,
    save_checkpoint,
)


def make_hostile_objects(marker: Path) -> dict[str, Any]:
    """Return values to put into a checkpoint."""
    import torch

    ones = torch.ones(PATTERNS * REGIONS, REGIONS)
    return {
        **{f"value {number}": value for number, value in enumerate(HOSTILE_VALUES)},
        **{
            "pickle": FileMaker(str(marker)),
            "set": {1},
            "complex": 1j,
            "bytes": bytearray(10),
            "large": 100_000,
        },
        "expanded": torch.ones(1).expand(10**5, 10**5, 10**3),
        "same shape, expanded": torch.ones(1).expand(PATTERNS * REGIONS, REGIONS),
        **{
            f"tensor {kind}": ones.to(kind)
            for kind in (torch.bfloat16, torch.float16, torch.complex64, torch.bool)
        },
        **{
            "sparse": ones.to_sparse(),
            "negated": torch.view_as_complex(torch.ones(3, 2)).conj().imag,
        },
        **{
            "meta": torch.ones(3, device="meta"),
            "text": np.array(["a"]),
            "records": np.zeros(3, "i4,f8"),
        },
        **{
            f"numpy {dtype}": np.ones(REGIONS, dtype)
            for dtype in (">f8", "f2", "u1", "c16", "M8[s]", "?")
        },
        "deep": _nest(200),
    }


def _nest(depth: int) -> tuple[Any, ...]:
    nested: tuple[Any, ...] = ()
    for _ in range(depth):
        nested = (nested,)
    return nested


def change_checkpoint(change: Callable[[dict[Any, Any]], None]) -> bytes:
    content = make_checkpoint()
    change(content)
    return save_checkpoint(content)


def change_numbers(
    path: Sequence[Any],
    change: Callable[[np.ndarray], np.ndarray],
    content: dict[Any, Any],
) -> None:
    import torch

    value = content
    for key in path:
        value = value[key]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = np.ascontiguousarray(
            change(
                np.array(value.detach() if isinstance(value, torch.Tensor) else value)
            )
        )
    set_path(
        path,
        torch.as_tensor(array) if isinstance(value, torch.Tensor) else array,
        content,
    )


def rewrite_archive(
    content: bytes,
    change: Callable[[str, bytes], tuple[str, bytes] | None],
    stored: bool,
) -> bytes:
    """Return the archive of a checkpoint with each entry changed."""
    buffer = io.BytesIO()
    kind = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
    with (
        zipfile.ZipFile(io.BytesIO(content)) as old,
        zipfile.ZipFile(buffer, "w", kind) as new,
    ):
        for entry in old.infolist():
            changed = change(entry.filename, old.read(entry))
            if changed is not None:
                new.writestr(*changed)
    return buffer.getvalue()


def make_bomb(size: int, stored: bool) -> bytes:
    """Return an archive whose pickle makes a list of each of its bytes."""
    buffer = io.BytesIO()
    kind = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
    with (
        zipfile.ZipFile(buffer, "w", kind) as archive,
        archive.open("archive/data.pkl", "w") as entry,
    ):
        entry.write(b"\x80\x02")
        for _ in range((size if not stored else min(size, 10_000_000)) // 1_000_000):
            entry.write(b"]" * 1_000_000)
        entry.write(b".")
    return buffer.getvalue()


def list_checkpoint_alterations(source: Source, marker: Path) -> list[Alteration]:
    """Return all alterations of a checkpoint."""
    content, checkpoint = source.content, make_checkpoint()
    pairs: list[tuple[str, str, Callable[[], bytes]]] = []
    for seed in range(100):
        pairs.append(
            (
                "container",
                f"flip {seed}",
                partial(flip_bytes, content, 0, len(content), seed),
            )
        )
        size = int(np.random.default_rng(seed).integers(0, len(content)))
        pairs.append(
            (
                "container",
                f"truncate at {size}",
                partial(content.__getitem__, slice(0, size)),
            )
        )
    names = zipfile.ZipFile(io.BytesIO(content)).namelist()
    for name in names:
        entries: dict[str, Callable[[bytes], bytes]] = {
            **{
                f"flip {seed}": partial(_flip_entry, seed)
                for seed in range(60 if name.endswith("data.pkl") else 1)
            },
            **{
                "cut": lambda data: data[: len(data) // 2],
                "longer": lambda data: data * 3,
                "empty": lambda data: b"",
            },
        }
        for text, change in entries.items():
            pairs.append(
                (
                    "container",
                    f"{name} {text}",
                    partial(_change_entry, content, name, change, True),
                )
            )
        pairs.append(
            (
                "container",
                f"without {name}",
                partial(_change_entry, content, name, None, True),
            )
        )
    pairs.append(
        ("container", "compressed", partial(_change_entry, content, "", None, False))
    )
    for size in (1_900_000, 300_000_000):
        pairs += [
            ("container", f"bomb {size} {stored}", partial(make_bomb, size, stored))
            for stored in (True, False)
        ]
    objects = make_hostile_objects(marker)
    paths = [path for path in list_paths(checkpoint) if "optimizer_D" not in path]
    for path in paths:
        for text, value in objects.items():
            pairs.append(
                (
                    "fields",
                    f"{path} {text}",
                    partial(change_checkpoint, partial(set_path, path, value)),
                )
            )
        pairs.append(
            (
                "fields",
                f"without {path}",
                partial(change_checkpoint, partial(delete_path, path)),
            )
        )
    arrays = [path for path in paths if hasattr(_get_path(checkpoint, path), "shape")]
    for path in arrays:
        for text, change in ARRAY_CHANGES.items():
            pairs.append(
                (
                    "values",
                    f"{path} {text}",
                    partial(change_checkpoint, partial(change_numbers, path, change)),
                )
            )
    return [Alteration(*pair) for pair in pairs]


def _get_path(value: Any, path: Sequence[Any]) -> Any:
    for key in path:
        value = value[key]
    return value


def _flip_entry(seed: int, data: bytes) -> bytes:
    return flip_bytes(data, 0, len(data), seed)


def _change_entry(
    content: bytes, target: str, change: Callable[[bytes], bytes] | None, stored: bool
) -> bytes:
    def change_entry(name: str, data: bytes) -> tuple[str, bytes] | None:
        if name != target:
            return name, data
        return None if change is None else (name, change(data))

    return rewrite_archive(content, change_entry, stored)
