"""The comparison of subgroups with controls voxel by voxel (Figure 3 of the paper); needs the extra ``brain``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rindices._typing import BoolArray, FloatArray
from rindices.analysis.compare import (
    SEVERITY_CUTS,
    estimate_group_effects,
    find_controls,
    make_covariate_design,
    make_subgroups,
    note_small_groups,
)
from rindices.analysis.tidy import false_discovery_rate, join_by_id
from rindices.errors import AnalysisError, describe_os_error, join_names
from rindices.tables.cohort import ID

Image = Any

COLUMN_DESCRIPTIONS = {
    "index": "R-index",
    "subgroup": "Patients by their value of this index, the other indices being low",
    "range": "The values of the index in the subgroup",
    "n": "Patients in the subgroup who have an image",
    "n_controls": "Controls who have an image",
    "voxels": "Voxels that were compared",
    "significant": "Voxels at a false discovery rate below 0.05, within this map (Benjamini and Hochberg)",
    "t_threshold": "Smallest absolute t among them",
    "peak_t": "t of the largest absolute value",
    "peak_effect": "Effect there (Hedges' g)",
    "peak_x": "Its place, mm",
    "peak_y": "Its place, mm",
    "peak_z": "Its place, mm",
    "note": "What makes a number weak or absent",
}
_ALPHA = 0.05


@dataclass(frozen=True)
class VoxelComparison:
    """A voxel-wise comparison.

    Attributes
    ----------
    table : DataFrame
        A row per index and subgroup; the columns are those of `COLUMN_DESCRIPTIONS`.
    maps : mapping of str to image
        ``r1_high_effect`` (Hedges' g), ``r1_high_t`` and ``r1_high_significant`` (the effect where the false discovery
        rate is below 0.05, 0 elsewhere), and so on for each index and subgroup of two people or more.
    """

    table: pd.DataFrame
    maps: Mapping[str, Image]


def compare_voxels(
    indices: pd.DataFrame,
    images: pd.DataFrame,
    *,
    cuts: Sequence[float] = SEVERITY_CUTS,
    others_below: float | None = None,
    covariates: pd.DataFrame | None = None,
    mask: str | Path | Image | None = None,
) -> VoxelComparison:
    """Compare each voxel between each subgroup of patients and all controls.

    Parameters
    ----------
    indices : DataFrame
        ``participant_id``, ``group``, ``r1`` to ``rM``.
    images : DataFrame
        ``participant_id`` and ``image``, the path of a NIfTI file; all of one grid. Masked, they are held in memory in
        single precision.
    cuts, others_below, covariates
        See `rindices.analysis.compare.compare_subgroups`.
    mask : path or image, optional
        Voxels to look at; left out, those that vary and are not 0 in at least half of the people.
    """
    _require_nilearn()
    groups = make_subgroups(indices, cuts, others_below)
    paths = join_by_id(indices, images)["image"]
    design = make_covariate_design(indices, covariates)
    known = paths.notna().to_numpy() & np.isfinite(design).all(axis=1)
    control = find_controls(indices) & known
    if control.sum() < 2:
        raise AnalysisError(f"{control.sum()} controls with an image are too few to compare with: give more.")
    looked = known & (control | np.any([group.rows for group in groups], axis=0))
    opened = _open_images(dict(zip(indices.loc[looked, ID], paths[looked], strict=True)))
    inside = _make_mask(opened, mask)
    values = _extract_voxels(opened, inside)
    rows: list[dict[str, Any]] = []
    maps: dict[str, Image] = {}
    for group in groups:
        chosen = (group.rows & known)[looked]
        found = estimate_group_effects(values, chosen, control[looked], design[looked])
        row: dict[str, Any] = {"index": group.index, "subgroup": group.name, "range": group.range}
        row |= {"n": int(chosen.sum()), "n_controls": int(control.sum()), "voxels": values.shape[1]}
        q = false_discovery_rate(found.p)
        rows.append(
            row
            | _summarise_map(found.t, found.effect, q, inside)
            | {"note": note_small_groups(row["n"], row["n_controls"])}
        )
        if np.isfinite(found.t).any():
            kinds = {"effect": found.effect, "t": found.t, "significant": np.where(q < _ALPHA, found.effect, 0.0)}
            maps |= {
                f"{group.index}_{group.name}_{kind}": _unmask_values(array, inside) for kind, array in kinds.items()
            }
    return VoxelComparison(pd.DataFrame(rows, columns=list(COLUMN_DESCRIPTIONS)), maps)


def write_maps(compared: VoxelComparison, folder: Path) -> list[Path]:
    """Write each map as ``NAME.nii.gz`` and return the paths."""
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, image in compared.maps.items():
            image.to_filename(folder / f"{name}.nii.gz")
            paths.append(folder / f"{name}.nii.gz")
    except OSError as error:
        raise AnalysisError(
            f"cannot write maps to {folder} ({describe_os_error(error)}): give another --out."
        ) from error
    return paths


def _require_nilearn() -> None:
    try:
        import nilearn  # noqa: F401
    except ImportError as error:
        raise AnalysisError("voxel-wise comparison needs nilearn: pip install 'rindices[brain]'.") from error


def _open_images(paths: Mapping[str, str]) -> dict[str, Image]:
    """Return the images by person, their voxels not read yet; refuse what is unreadable or of another grid, by name."""
    import nibabel
    from nibabel.filebasedimages import ImageFileError

    opened: dict[str, Image] = {}
    wrong = []
    for who, path in paths.items():
        try:
            opened[who] = nibabel.load(path)
        except (OSError, ImageFileError, EOFError) as error:
            wrong.append(f"{who} ({path}: {str(error).splitlines()[0][:80]})")
    if wrong:
        raise AnalysisError(f"images cannot be read: {join_names(wrong)}. Check the paths.")
    first, reference = next(iter(opened.items()))
    if len(reference.shape) != 3:
        raise AnalysisError(f"the image of {first} has the shape {_format_grid(reference)}: give one volume a person.")
    other = [f"{who} ({_format_grid(image)})" for who, image in opened.items() if not _has_same_grid(image, reference)]
    if other:
        raise AnalysisError(
            f"images of another grid than that of {first} ({_format_grid(reference)}): {join_names(other)}. Resample all "
            "images to one grid (same size, voxels and position)."
        )
    return opened


def _has_same_grid(image: Image, reference: Image) -> bool:
    return image.shape == reference.shape and np.allclose(image.affine, reference.affine, atol=1e-3)


def _format_grid(image: Image) -> str:
    size = "x".join(str(number) for number in image.shape)
    voxel = "x".join(f"{number:g}" for number in np.abs(image.header.get_zooms()[:3]))
    corner = ", ".join(f"{number:g}" for number in image.affine[:3, 3])
    return f"{size}, {voxel} mm, from {corner}"


def _make_mask(opened: Mapping[str, Image], mask: str | Path | Image | None) -> Image:
    """Return the mask as an image of the same grid."""
    import nibabel
    from nilearn.image import new_img_like

    first, reference = next(iter(opened.items()))
    if mask is not None:
        given: Image = nibabel.load(mask) if isinstance(mask, str | Path) else mask
        if not _has_same_grid(given, reference):
            raise AnalysisError(
                f"the mask has another grid ({_format_grid(given)}) than the image of {first} ({_format_grid(reference)})."
            )
        inside = np.asarray(given.dataobj) > 0
    else:
        inside = _find_varying_voxels(opened)
    if not inside.any():
        raise AnalysisError("no voxel is inside the mask: give another with --mask.")
    return new_img_like(reference, inside.astype("uint8"))


def _find_varying_voxels(opened: Mapping[str, Image]) -> BoolArray:
    """Return the voxels that vary, are numbers in everyone and not 0 in at least half of the people."""
    low: Any = np.inf
    high: Any = -np.inf
    filled: Any = 0
    for image in opened.values():
        data = np.asarray(image.dataobj, dtype=np.float32)
        low, high, filled = np.minimum(low, data), np.maximum(high, data), filled + (data != 0)
    return np.asarray((high > low) & np.isfinite(high - low) & (2 * filled >= len(opened)))


def _extract_voxels(opened: Mapping[str, Image], inside: Image) -> NDArray[np.float32]:
    """Return the voxels inside the mask, (N, V)."""
    from nilearn.masking import apply_mask

    width = int(np.asarray(inside.dataobj).sum())
    values = np.empty((len(opened), width), dtype=np.float32)
    for place, image in enumerate(opened.values()):
        values[place] = apply_mask(image, inside, dtype="f", ensure_finite=False)
    strange = [who for who, row in zip(opened, values, strict=True) if not np.isfinite(row).all()]
    if strange:
        raise AnalysisError(
            f"images hold values that are no numbers inside the mask: {join_names(strange)}. Mend them."
        )
    return values


def _unmask_values(values: FloatArray, inside: Image) -> Image:
    """Return values (V,) as an image; voxels outside the mask, and those that do not vary, are 0."""
    from nilearn.masking import unmask

    return unmask(np.nan_to_num(values).astype(np.float32), inside)


def _summarise_map(t: FloatArray, effect: FloatArray, q: FloatArray, inside: Image) -> dict[str, Any]:
    """Return what stands in the table about a map (V,)."""
    if not np.isfinite(t).any():
        return {"significant": 0}
    found = q < _ALPHA
    peak = int(np.nanargmax(np.abs(t)))
    voxel = np.argwhere(np.asarray(inside.dataobj))[peak]
    place = inside.affine @ [*voxel, 1]
    threshold = float(np.abs(t[found]).min()) if found.any() else np.nan
    numbers = {
        "significant": int(found.sum()),
        "t_threshold": threshold,
        "peak_t": t[peak],
        "peak_effect": effect[peak],
    }
    return numbers | {f"peak_{axis}": float(place[k]) for k, axis in enumerate("xyz")}
