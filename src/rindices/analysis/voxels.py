"""Voxel-wise comparison of subgroups with controls (Figure 3 of the paper); needs the extra ``brain``."""

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import rindices.analysis.compare as compare
from rindices._typing import AnyArray, BoolArray, FloatArray
from rindices.analysis.compare import SEVERITY_CUTS, GroupEffects
from rindices.analysis.tidy import false_discovery_rate, join_by_id
from rindices.atomic import write_atomically
from rindices.errors import AnalysisError, explain_write_errors, join_names, make_install_command, name_arguments
from rindices.tables.cohort import ID
from rindices.wording import load_columns

Image = Any

COLUMN_DESCRIPTIONS = load_columns("voxels")
_ALPHA = 0.05


@dataclass(frozen=True)
class VoxelComparison:
    """Result of a voxel-wise comparison.

    table: one row per index and subgroup, with the columns of `COLUMN_DESCRIPTIONS`; maps: three maps per index and
    subgroup with at least two people: ``r1_high_effect`` (Hedges' g), ``r1_high_t`` and ``r1_high_significant`` (the
    effect where the false discovery rate is below 0.05, 0 elsewhere).
    """

    table: pd.DataFrame
    maps: Mapping[str, Image]


@name_arguments()
def compare_voxels(
    indices: pd.DataFrame,
    images: pd.DataFrame,
    *,
    cuts: Sequence[float] = SEVERITY_CUTS,
    covariates: pd.DataFrame | None = None,
    mask: str | Path | Image | None = None,
) -> VoxelComparison:
    """Compare each voxel between each subgroup of patients and all controls.

    Parameters
    ----------
    indices : DataFrame
        ``participant_id``, ``group``, ``r1`` to ``rM``.
    images : DataFrame
        ``participant_id`` and ``image``, the path of a NIfTI file. All images have the same grid. The masked images
        are held in memory in single precision.
    cuts, covariates
        See `rindices.analysis.compare.compare_subgroups`.
    mask : path or image, optional
        Voxels to compare; by default those that vary and are not 0 in at least half of the people.

    Returns
    -------
    VoxelComparison
    """
    groups = compare.make_subgroups(indices, cuts)
    paths = join_by_id(indices, images)["image"]
    design = compare.make_covariate_design(indices, covariates)
    complete = paths.notna().to_numpy() & np.isfinite(design).all(axis=1)
    control = compare.find_controls(indices) & complete
    n_controls = int(control.sum())
    if n_controls < 2:
        raise AnalysisError(f"{n_controls} controls with an image are too few to compare with: at least 2 are needed.")
    used = complete & (control | np.any([group.rows for group in groups], axis=0))
    opened = _open_images(dict(zip(indices.loc[used, ID], paths[used], strict=True)))
    from nibabel import Nifti1Image

    reference = next(iter(opened.values()))
    inside = _find_varying_voxels(opened) if mask is None else _read_mask(mask, reference)
    if not inside.any():
        raise AnalysisError("no voxel is inside the mask: give another with --mask.")
    values = _extract_voxels(opened, inside)
    rows: list[dict[str, object]] = []
    maps: dict[str, Image] = {}
    for group in groups:
        members = (group.rows & complete)[used]
        effects = compare.estimate_group_effects(values, members, control[used], design[used])
        n, q = int(members.sum()), false_discovery_rate(effects.p)
        sizes = {"n": n, "n_controls": n_controls, "voxels": values.shape[1], "significant": int((q < _ALPHA).sum())}
        row = group.labels | sizes | {"note": compare.note_small_groups(n, n_controls)}
        if np.isfinite(effects.t).any():
            row |= _describe_peak(effects, q, np.argwhere(inside), reference.affine)
            significant = np.where(q < _ALPHA, effects.effect, 0.0)
            for kind, array in {"effect": effects.effect, "t": effects.t, "significant": significant}.items():
                volume = np.zeros(inside.shape, dtype=np.float32)  # also where all people have the same value
                volume[inside] = np.nan_to_num(array)
                maps[f"{group.index}_{group.name}_{kind}"] = Nifti1Image(volume, reference.affine)
        rows.append(row)
    return VoxelComparison(pd.DataFrame(rows, columns=list(COLUMN_DESCRIPTIONS)), maps)


def write_maps(compared: VoxelComparison, folder: Path) -> list[Path]:
    """Write each map as ``NAME.nii.gz`` and return the paths."""
    paths = []
    with explain_write_errors(f"maps to {folder}", AnalysisError):
        folder.mkdir(parents=True, exist_ok=True)
        for name, image in compared.maps.items():
            paths.append(folder / f"{name}.nii.gz")
            write_atomically(paths[-1], gzip.compress(image.to_bytes(), compresslevel=1, mtime=0))
    return paths


def _open_images(paths: Mapping[str, str]) -> dict[str, Image]:
    """Open the images by person without reading the voxels; refuse unreadable images and different grids."""
    try:
        import nibabel
        from nibabel.filebasedimages import ImageFileError
    except ImportError as error:
        raise AnalysisError(f"voxel-wise comparison needs nibabel: {make_install_command('brain')}") from error
    images: dict[str, Image] = {}
    unreadable = []
    for person, path in paths.items():
        try:
            images[person] = nibabel.load(path)
        except (OSError, ImageFileError, EOFError) as error:
            unreadable.append(f"{person} ({path}: {str(error).splitlines()[0][:80]})")
    if unreadable:
        raise AnalysisError(f"images cannot be read: {join_names(unreadable)}. Check the paths.")
    first, reference = next(iter(images.items()))
    if len(reference.shape) != 3:
        raise AnalysisError(f"the image of {first} is {_format_grid(reference)}: give one volume per person.")
    others = [f"{name} ({_format_grid(img)})" for name, img in images.items() if not _has_same_grid(img, reference)]
    if others:
        what = f"images have another grid than the image of {first} ({_format_grid(reference)}): {join_names(others)}"
        raise AnalysisError(f"{what}. Resample all images to one grid (same size, voxels and position).")
    return images


def _has_same_grid(image: Image, reference: Image) -> bool:
    return image.shape == reference.shape and np.allclose(image.affine, reference.affine, atol=1e-3)


def _format_grid(image: Image) -> str:
    size = "x".join(str(number) for number in image.shape)
    corner = ", ".join(f"{number:g}" for number in image.affine[:3, 3])
    return f"{size} voxels, from {corner}"


def _read_mask(mask: str | Path | Image, reference: Image) -> BoolArray:
    """Return the voxels inside a mask, which must have the grid of the images."""
    import nibabel

    image: Image = nibabel.load(mask) if isinstance(mask, str | Path) else mask
    if not _has_same_grid(image, reference):
        grids = _format_grid(image), _format_grid(reference)
        raise AnalysisError(f"the mask has another grid ({grids[0]}) than the images ({grids[1]}).")
    return np.asarray(image.dataobj) > 0


def _find_varying_voxels(images: Mapping[str, Image]) -> BoolArray:
    """Return the voxels that vary, are finite in everyone and not 0 in at least half of the people."""
    low: Any = np.inf
    high: Any = -np.inf
    filled: Any = 0
    for image in images.values():
        data = np.asarray(image.dataobj, dtype=np.float32)
        low, high, filled = np.minimum(low, data), np.maximum(high, data), filled + (data != 0)
    return np.asarray((high > low) & np.isfinite(high - low) & (2 * filled >= len(images)))


def _extract_voxels(images: Mapping[str, Image], inside: BoolArray) -> AnyArray:
    """Return the voxels inside the mask, (N, V)."""
    values = np.stack([np.asarray(image.dataobj, dtype=np.float32)[inside] for image in images.values()])
    not_finite = [person for person, row in zip(images, values, strict=True) if not np.isfinite(row).all()]
    if not_finite:
        what = f"images hold missing or infinite values inside the mask: {join_names(not_finite)}"
        raise AnalysisError(f"{what}. Correct these images.")
    return values


def _describe_peak(effects: GroupEffects, q: FloatArray, places: AnyArray, affine: FloatArray) -> dict[str, object]:
    """Return the columns of the table about the largest difference; places: positions (V, 3) of the voxels."""
    peak, significant = int(np.nanargmax(np.abs(effects.t))), q < _ALPHA
    return {
        "t_threshold": float(np.abs(effects.t[significant]).min()) if significant.any() else np.nan,
        "peak_t": effects.t[peak],
        "peak_effect": effects.effect[peak],
        **dict(zip(("peak_x", "peak_y", "peak_z"), affine @ [*places[peak], 1], strict=False)),
    }
