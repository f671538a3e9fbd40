"""Patterns as maps that others can compute with: a value per vertex of fsaverage5, and
per voxel in MNI152.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rindices._typing import FloatArray
from rindices._version import __version__
from rindices.atomic import atomic_path, write_atomically
from rindices.learners.inference import SEVERITY_LEVELS
from rindices.plot import geometry
from rindices.plot.brain import AtlasMatch, match_atlas
from rindices.plot.source import Study, StudySource

_SIDES = {"left": ("L", "CortexLeft"), "right": ("R", "CortexRight")}
_MNI152_CODE = 4


def write_maps(study: Study, folder: Path) -> list[Path]:
    """Write each pattern as two GIFTI files and a NIfTI file, each with a JSON file
    that describes it; nothing where no atlas has the regions.

    Values are changes at severity 1 in standard deviations of controls, negative for
    loss. A vertex or voxel has the value of its region.
    """
    source = StudySource.of(study)
    model = source.fitted
    match = match_atlas(model.regions, model.card.unit)
    if match.atlas is None:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in model.index_names:
        table = source.select_changes(name)
        effects = dict(zip(table["region"], table["change"].astype(float), strict=True))
        values = spread_effects(match, effects)
        for side, (letter, structure) in _SIDES.items():
            path = folder / f"{name}_hemi-{letter}_space-fsaverage5.shape.gii"
            labels = geometry.label_cortex(match.atlas.name, side)
            data = np.append(values, np.nan)[labels]
            _save(make_gifti(data, structure), path)
            written.append(path)
        path = folder / f"{name}_space-MNI152.nii.gz"
        _save(make_nifti(match.atlas.name, values), path)
        written.append(path)
        written += [_describe(each, name, match) for each in written[-3:]]
    return written


def spread_effects(match: AtlasMatch, effects: Mapping[str, float]) -> FloatArray:
    """Return the effect on each structure of the atlas; NaN where no region is."""
    assert match.atlas is not None
    values = np.full(len(match.atlas.structures), np.nan)
    position = {each: index for index, each in enumerate(match.atlas.structures)}
    for region, structure in match.drawn.items():
        values[position[structure]] = effects[region]
    return values


def make_gifti(data: FloatArray, structure: str) -> Any:
    """Return values per vertex as a GIFTI image."""
    from nibabel.gifti import GiftiDataArray, GiftiImage, GiftiMetaData

    array = GiftiDataArray(
        data.astype(np.float32),
        intent="NIFTI_INTENT_SHAPE",
        datatype="NIFTI_TYPE_FLOAT32",
    )
    return GiftiImage(
        darrays=[array], meta=GiftiMetaData({"AnatomicalStructurePrimary": structure})
    )


def make_nifti(name: str, values: FloatArray) -> Any:
    """Return values per structure as a NIfTI image in MNI152; 0 where no region is."""
    from nibabel import Nifti1Image

    parcels = geometry.load_parcellation(name)
    by_code = np.zeros(1 + max(parcels.volume.max(), *parcels.lookup), dtype=np.float32)
    for code, index in parcels.lookup.items():
        by_code[code] = np.nan_to_num(values[index])
    image: Any = Nifti1Image(by_code[parcels.volume], parcels.affine)
    image.header.set_xyzt_units("mm")
    image.set_sform(parcels.affine, _MNI152_CODE)
    image.set_qform(parcels.affine, _MNI152_CODE)
    return image


def _save(image: Any, path: Path) -> None:
    """Write an image; the temporary file keeps the two suffixes of its format."""
    if path.name.endswith(".nii.gz"):
        import gzip

        write_atomically(path, gzip.compress(image.to_bytes(), mtime=0))
    else:
        with atomic_path(path) as temporary_path:
            temporary_path.write_bytes(image.to_bytes())


def _describe(path: Path, pattern: str, match: AtlasMatch) -> Path:
    """Write the JSON file of a map, and return its path."""
    assert match.atlas is not None
    is_surface = path.suffix == ".gii"
    text = {
        "Description": f"Change of each region at severity {SEVERITY_LEVELS[-1]:g} of pattern {pattern}",
        "Units": "standard deviations of controls, after adjustment",
        "Sign": "negative: loss, positive: gain",
        "Space": "fsaverage5" if is_surface else "MNI152",
        "Outside": "NaN: medial wall, or no region of the study"
        if is_surface
        else "0: no region of the study",
        "Atlas": match.atlas.name,
        "RegionsNotDrawn": list(match.undrawn_regions),
        "Source": match.atlas.credit,
        "GeneratedBy": {"Name": "rindices", "Version": __version__},
    }
    sidecar = path.with_name(path.name.removesuffix(".gz").rpartition(".")[0] + ".json")
    content = json.dumps(text, indent=2, ensure_ascii=False) + "\n"
    write_atomically(sidecar, content.encode())
    return sidecar
