"""Voxel-wise comparison recovers a planted blob, equals scipy, and refuses images that do not lie on one grid."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.ndimage import gaussian_filter
from typer.testing import CliRunner

import rindices as ri
from rindices.analysis.voxels import compare_voxels
from rindices.cli.main import app
from rindices.errors import AnalysisError
from rindices.experiments.simulate import write_cohort

nibabel = pytest.importorskip("nibabel")
pytest.importorskip("nilearn")

SHAPE, PEOPLE = (24, 28, 22), 60
AFFINE = np.diag([4.0, 4.0, 4.0, 1.0])
AFFINE[:3, 3] = [-46, -60, -40]
CENTRE = (8, 14, 10)


def blob() -> np.ndarray:
    grid = np.stack(np.meshgrid(*(np.arange(size) for size in SHAPE), indexing="ij"), axis=-1)
    return ((grid - np.array(CENTRE)) ** 2).sum(axis=-1) <= 3**2


def make(folder: Path, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Thirty controls and thirty patients of smooth grey matter; r1 thins a blob."""
    rng = np.random.default_rng(seed)
    ids = [f"sub-{k:02d}" for k in range(PEOPLE)]
    indices = pd.DataFrame({"participant_id": ids, "group": ["control"] * 30 + ["patient"] * 30})
    indices["r1"] = np.r_[np.zeros(30), np.full(3, 0.2), np.full(7, 0.55), np.full(20, 0.9)]
    indices["r2"] = np.r_[np.zeros(30), rng.uniform(0, 0.39, 30)]
    brain = np.zeros(SHAPE, dtype=bool)
    brain[3:-3, 3:-3, 3:-3] = True
    paths = []
    for person, severity in zip(ids, indices["r1"], strict=True):
        noise = gaussian_filter(rng.normal(size=SHAPE), 1.0)
        image = brain * (0.6 + 0.05 * noise / noise.std() - 0.15 * severity * blob())
        nibabel.save(nibabel.Nifti1Image(image.astype(np.float32), AFFINE), folder / f"{person}.nii.gz")
        paths.append(str(folder / f"{person}.nii.gz"))
    return indices, pd.DataFrame({"participant_id": ids, "image": paths}).sample(frac=1, random_state=seed)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, pd.DataFrame]:
    return make(tmp_path_factory.mktemp("images"))


def test_a_planted_blob_is_recovered(people: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    compared = compare_voxels(*people)
    found = np.asarray(compared.maps["r1_high_significant"].dataobj) != 0
    dice = 2 * (found & blob()).sum() / (found.sum() + blob().sum())
    assert dice > 0.9
    row = compared.table.set_index(["index", "subgroup"]).loc[("r1", "high")]
    assert (row["n"], row["n_controls"], row["significant"]) == (20, 30, found.sum())
    assert row["note"] == ""
    place = np.linalg.inv(AFFINE) @ [row["peak_x"], row["peak_y"], row["peak_z"], 1]
    assert blob()[tuple(np.rint(place[:3]).astype(int))]
    effect = np.asarray(compared.maps["r1_high_effect"].dataobj)
    assert effect[CENTRE] < -1.5
    middle = compared.table.set_index(["index", "subgroup"]).loc[("r1", "middle")]
    assert middle["note"] == "few people: 7 patients"
    nobody = compared.table.set_index(["index", "subgroup"]).loc[("r2", "high")]
    assert nobody["note"] == "too few people: 0"
    assert "r2_high_t" not in compared.maps


def test_it_equals_scipy_voxel_by_voxel(people: tuple[pd.DataFrame, pd.DataFrame]) -> None:
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
    found = np.asarray(compared.maps["r1_high_significant"].dataobj)[inside] != 0
    assert (found != (q < 0.05)).sum() <= 1  # single precision
    row = compared.table.set_index(["index", "subgroup"]).loc[("r1", "high")]
    assert row["t_threshold"] == pytest.approx(np.abs(expected.statistic[inside][q < 0.05]).min(), rel=1e-3)


def test_adjusting_for_covariates_equals_nilearn(people: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    from nilearn.glm.second_level import SecondLevelModel

    indices, images = people
    age = pd.DataFrame({"participant_id": indices["participant_id"], "age": np.random.default_rng(1).normal(60, 9, 60)})
    mask = nibabel.Nifti1Image(blob().astype(np.uint8), AFFINE)
    ours = np.asarray(compare_voxels(indices, images, covariates=age, mask=mask).maps["r1_high_t"].dataobj)[blob()]
    rows = np.r_[0:30, 40:60]
    design = pd.DataFrame({"group": (rows >= 30).astype(float), "age": age["age"].to_numpy()[rows], "one": 1.0})
    paths = images.set_index("participant_id")["image"].loc[indices["participant_id"].iloc[rows]].tolist()
    model = SecondLevelModel(mask_img=mask).fit(paths, design_matrix=design)
    theirs = np.asarray(model.compute_contrast("group", output_type="stat").dataobj)[blob()]
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)


def test_images_of_different_grids_are_refused_by_name(
    people: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    indices, images = people
    wrong = images.set_index("participant_id")["image"].copy()
    small, moved = np.zeros((10, 10, 10), dtype=np.float32), AFFINE.copy()
    moved[0, 3] += 2
    nibabel.save(nibabel.Nifti1Image(small, AFFINE), tmp_path / "small.nii.gz")
    nibabel.save(nibabel.Nifti1Image(np.ones(SHAPE, dtype=np.float32), moved), tmp_path / "moved.nii.gz")
    wrong["sub-17"], wrong["sub-55"] = str(tmp_path / "small.nii.gz"), str(tmp_path / "moved.nii.gz")
    with pytest.raises(AnalysisError, match=r"sub-17 \(10x10x10.*sub-55 \(24x28x22.*Resample"):
        compare_voxels(indices, wrong.reset_index())
    mask = nibabel.Nifti1Image(np.ones((10, 10, 10), dtype=np.uint8), AFFINE)
    with pytest.raises(AnalysisError, match="the mask has another grid"):
        compare_voxels(indices, images, mask=mask)


def test_images_that_cannot_be_used_are_named(people: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path) -> None:
    indices, images = people
    wrong = images.set_index("participant_id")["image"].copy()
    (tmp_path / "broken.nii.gz").write_bytes(b"no image")
    wrong["sub-03"], wrong["sub-44"] = str(tmp_path / "absent.nii.gz"), str(tmp_path / "broken.nii.gz")
    with pytest.raises(AnalysisError, match=r"cannot be read: sub-03 .*sub-44"):
        compare_voxels(indices, wrong.reset_index())
    hollow = np.full(SHAPE, np.nan, dtype=np.float32)
    nibabel.save(nibabel.Nifti1Image(hollow, AFFINE), tmp_path / "hollow.nii.gz")
    wrong = images.set_index("participant_id")["image"].copy()
    wrong["sub-05"] = str(tmp_path / "hollow.nii.gz")
    mask = nibabel.Nifti1Image(blob().astype(np.uint8), AFFINE)
    with pytest.raises(AnalysisError, match="no numbers inside the mask: sub-05"):
        compare_voxels(indices, wrong.reset_index(), mask=mask)


def test_people_without_an_image_are_left_out(people: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    indices, images = people
    fewer = images[~images["participant_id"].isin(["sub-00", "sub-59"])]
    row = compare_voxels(indices, fewer).table.set_index(["index", "subgroup"]).loc[("r1", "high")]
    assert (row["n"], row["n_controls"]) == (19, 29)


def test_without_nilearn_it_says_what_to_install(
    people: tuple[pd.DataFrame, pd.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nilearn", None)
    with pytest.raises(AnalysisError, match=r"pip install 'rindices\[brain\]'"):
        compare_voxels(*people)


def test_command_writes_maps(people: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path) -> None:
    indices, images = people
    write_cohort(ri.simulate_cohort("tiny", 0), tmp_path)
    volumes = pd.read_csv(tmp_path / "volumes.csv").iloc[:PEOPLE]
    volumes["participant_id"] = indices["participant_id"]
    volumes.to_csv(tmp_path / "v.csv", index=False)
    images.to_csv(tmp_path / "p.tsv", sep="\t", index=False)
    indices.to_csv(tmp_path / "r.tsv", sep="\t", index=False)
    arguments = ["compare", str(tmp_path / "r.tsv"), str(tmp_path / "v.csv"), "--participants", str(tmp_path / "p.tsv")]
    done = CliRunner().invoke(app, [*arguments, "--images", "image", "--out", str(tmp_path / "out"), "--json"])
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    assert str(tmp_path / "out/r1_high_effect.nii.gz") in value["maps"]
    written = nibabel.load(tmp_path / "out/r1_high_significant.nii.gz")
    np.testing.assert_allclose(written.affine, AFFINE)
    assert np.asarray(written.dataobj)[CENTRE] < 0
    table = pd.read_csv(tmp_path / "out/voxels.tsv", sep="\t", na_values="n/a")
    assert table.set_index(["index", "subgroup"]).loc[("r1", "high"), "significant"] > 50
    wrong = CliRunner().invoke(app, [*arguments, "--images", "imgae", "--out", str(tmp_path / "out")])
    assert "did you mean 'image'" in str(wrong.exception)
