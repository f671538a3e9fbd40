"""Voxel-wise comparison recovers a planted blob, equals scipy and nilearn, and refuses different grids."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from rindices.analysis.voxels import compare_voxels
from rindices.errors import AnalysisError
from tests.analysis.helpers import BLOB_CENTRE, IMAGE_AFFINE, IMAGE_SHAPE, make_blob, write_images

nibabel = pytest.importorskip("nibabel")


pytest.importorskip("nilearn")


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, pd.DataFrame]:
    return write_images(tmp_path_factory.mktemp("images"))


def test_a_planted_blob_is_recovered(people: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    compared = compare_voxels(*people)
    significant = np.asarray(compared.maps["r1_high_significant"].dataobj) != 0
    dice = 2 * (significant & make_blob()).sum() / (significant.sum() + make_blob().sum())
    assert dice > 0.9
    row = compared.table.set_index(["index", "subgroup"]).loc[("r1", "high")]
    assert (row["n"], row["n_controls"], row["significant"]) == (20, 30, significant.sum())
    assert row["note"] == ""
    voxel = np.linalg.inv(IMAGE_AFFINE) @ [row["peak_x"], row["peak_y"], row["peak_z"], 1]
    assert make_blob()[tuple(np.rint(voxel[:3]).astype(int))]
    effect = np.asarray(compared.maps["r1_high_effect"].dataobj)
    assert effect[BLOB_CENTRE] < -1.5
    middle = compared.table.set_index(["index", "subgroup"]).loc[("r1", "middle")]
    assert middle["note"] == "few people: 7 patients"
    nobody = compared.table.set_index(["index", "subgroup"]).loc[("r2", "high")]
    assert nobody["note"] == "too few people: 0"
    assert "r2_high_t" not in compared.maps


def test_t_equals_scipy_in_every_voxel(people: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    indices, images = people
    paths = images.set_index("participant_id")["image"].loc[indices["participant_id"]]
    values = np.stack([np.asarray(nibabel.load(path).dataobj, dtype=float) for path in paths])
    expected = stats.ttest_ind(values[40:], values[:30])
    compared = compare_voxels(indices, images)
    t = np.asarray(compared.maps["r1_high_t"].dataobj)
    inside = t != 0
    assert inside.sum() == 18 * 22 * 16
    np.testing.assert_allclose(t[inside], expected.statistic[inside], rtol=1e-4, atol=1e-5)
    q = stats.false_discovery_control(expected.pvalue[inside])
    significant = np.asarray(compared.maps["r1_high_significant"].dataobj)[inside] != 0
    assert (significant != (q < 0.05)).sum() <= 1  # single precision
    row = compared.table.set_index(["index", "subgroup"]).loc[("r1", "high")]
    assert row["t_threshold"] == pytest.approx(np.abs(expected.statistic[inside][q < 0.05]).min(), rel=1e-3)


def test_adjusted_t_equals_nilearn(people: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    from nilearn.glm.second_level import SecondLevelModel

    indices, images = people
    age = pd.DataFrame({"participant_id": indices["participant_id"], "age": np.random.default_rng(1).normal(60, 9, 60)})
    mask = nibabel.Nifti1Image(make_blob().astype(np.uint8), IMAGE_AFFINE)
    ours = np.asarray(compare_voxels(indices, images, covariates=age, mask=mask).maps["r1_high_t"].dataobj)[make_blob()]
    rows = np.r_[0:30, 40:60]
    design = pd.DataFrame({"group": (rows >= 30).astype(float), "age": age["age"].to_numpy()[rows], "one": 1.0})
    paths = images.set_index("participant_id")["image"].loc[indices["participant_id"].iloc[rows]].tolist()
    model = SecondLevelModel(mask_img=mask).fit(paths, design_matrix=design)
    theirs = np.asarray(model.compute_contrast("group", output_type="stat").dataobj)[make_blob()]
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)


def test_images_of_different_grids_are_refused_by_name(
    people: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    indices, images = people
    wrong = images.set_index("participant_id")["image"].copy()
    small, moved = np.zeros((10, 10, 10), dtype=np.float32), IMAGE_AFFINE.copy()
    moved[0, 3] += 2
    nibabel.save(nibabel.Nifti1Image(small, IMAGE_AFFINE), tmp_path / "small.nii.gz")
    nibabel.save(nibabel.Nifti1Image(np.ones(IMAGE_SHAPE, dtype=np.float32), moved), tmp_path / "moved.nii.gz")
    wrong["sub-17"], wrong["sub-55"] = str(tmp_path / "small.nii.gz"), str(tmp_path / "moved.nii.gz")
    with pytest.raises(AnalysisError, match=r"sub-17 \(10x10x10.*sub-55 \(24x28x22.*Resample"):
        compare_voxels(indices, wrong.reset_index())
    mask = nibabel.Nifti1Image(np.ones((10, 10, 10), dtype=np.uint8), IMAGE_AFFINE)
    with pytest.raises(AnalysisError, match="the mask has another grid"):
        compare_voxels(indices, images, mask=mask)


def test_unreadable_images_are_named(people: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path) -> None:
    indices, images = people
    wrong = images.set_index("participant_id")["image"].copy()
    (tmp_path / "broken.nii.gz").write_bytes(b"no image")
    wrong["sub-03"], wrong["sub-44"] = str(tmp_path / "absent.nii.gz"), str(tmp_path / "broken.nii.gz")
    with pytest.raises(AnalysisError, match=r"cannot be read: sub-03 .*sub-44"):
        compare_voxels(indices, wrong.reset_index())
    hollow = np.full(IMAGE_SHAPE, np.nan, dtype=np.float32)
    nibabel.save(nibabel.Nifti1Image(hollow, IMAGE_AFFINE), tmp_path / "hollow.nii.gz")
    wrong = images.set_index("participant_id")["image"].copy()
    wrong["sub-05"] = str(tmp_path / "hollow.nii.gz")
    mask = nibabel.Nifti1Image(make_blob().astype(np.uint8), IMAGE_AFFINE)
    with pytest.raises(AnalysisError, match="infinite values inside the mask: sub-05"):
        compare_voxels(indices, wrong.reset_index(), mask=mask)


def test_people_without_an_image_are_left_out(people: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    indices, images = people
    fewer = images[~images["participant_id"].isin(["sub-00", "sub-59"])]
    row = compare_voxels(indices, fewer).table.set_index(["index", "subgroup"]).loc[("r1", "high")]
    assert (row["n"], row["n_controls"]) == (19, 29)


def test_without_nibabel_the_error_names_the_extra(
    people: tuple[pd.DataFrame, pd.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nibabel", None)
    with pytest.raises(AnalysisError, match=r"pip install .*nibabel"):
        compare_voxels(*people)
