"""Every format that users have is recognised by its header, with the traps of each."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rindices.tables.layout.muse import paper_codes, region_label, single_regions
from tests.conftest import muse_volumes, participants_of
from tests.tables.helpers import look, texts, write

PARCELS = ["bankssts", "cuneus", "entorhinal", "fusiform", "insula", "precuneus"]
ASEG = ["Left-Thalamus", "Right-Thalamus", "Left-Hippocampus", "Right-Hippocampus", "Left-Amygdala", "Brain-Stem"]


def test_muse_table_is_the_papers_139_and_six_ventricles() -> None:
    regions = single_regions()
    assert len(regions) == 145
    assert len(paper_codes()) == 139
    assert {code for code, region in regions.items() if region.is_ventricle} == {4, 11, 49, 50, 51, 52}
    # odd is not always left: the basal forebrain is the exception
    assert (regions[75].side, regions[76].side, regions[47].side) == ("left", "right", "right")
    assert region_label("MUSE_47") == "Hippocampus_R"
    assert region_label("lh_insula_volume") == "lh_insula_volume"


def test_ixi(shared: Path) -> None:
    result = look(shared / "ixi/volumes.csv", shared / "ixi/demographics.csv")
    assert (result.format, result.people, result.regions, result.icv) == ("dlmuse", 291, 139, "702")
    assert result.covariates == ("Age", "Sex", "icv")
    assert (result.unit, result.aside) == ("mm3", {"ventricle": 6, "composite": 114})
    assert {str(p.severity) for p in result.problems} <= {"note"}


def test_nichart_demo(shared: Path) -> None:
    result = look(shared / "nichart_demo/DLMUSE_Volumes.csv", shared / "nichart_demo/participants.csv")
    assert (result.format, result.people, result.regions) == ("dlmuse", 23, 139)
    assert {str(p.severity) for p in result.problems} <= {"note"}


def test_upstream_sample(shared: Path) -> None:
    result = look(shared / "upstream/sample_roi.csv")
    assert (result.format, result.people, result.regions) == ("surrealgan", 1500, 100)
    assert (result.controls, result.patients) == (600, 900)
    assert {str(p.severity) for p in result.problems} <= {"note"}


def test_fcon1000(shared: Path) -> None:
    result = look(shared / "fcon1000/fcon1000.csv", site="site", covariates=["age", "sex", "icv"])
    assert (result.format, result.people, result.regions, result.sites) == ("freesurfer", 1078, 169, 23)
    assert (result.icv, result.unit) == ("EstimatedTotalIntraCranialVol", "mixed")
    assert {str(p.severity) for p in result.problems} <= {"note"}
    assert result.cohort is not None
    assert len(result.cohort) == 1076  # two people have a thickness of 0.0: absent, not zero


@pytest.mark.parametrize("prefix", ["", "DL_MUSE_Volume_", "MUSE_Volume_", "H_MUSE_Volume_", "muse_"])
def test_dlmuse_is_keyed_on_the_code(tmp_path: Path, volumes: pd.DataFrame, prefix: str) -> None:
    renamed = volumes.rename(columns={c: prefix + c for c in volumes.columns[1:]})
    result = look(write(renamed, tmp_path / "v.csv"))
    assert (result.format, result.regions, result.icv) == ("dlmuse", 139, prefix + "702")
    assert result.cohort is not None
    np.testing.assert_allclose(result.cohort.volumes["MUSE_47"], volumes["47"])


def test_dlmuse_by_label(tmp_path: Path, volumes: pd.DataFrame) -> None:
    names = {str(code): region.label for code, region in single_regions().items()}
    result = look(write(volumes.rename(columns=names), tmp_path / "v.csv"))
    assert (result.format, result.regions) == ("dlmuse", 139)


def aseg(people: int = 30, icv: str = "EstimatedTotalIntraCranialVol") -> pd.DataFrame:
    rng = np.random.default_rng(0)
    columns = {
        name: rng.normal(5000, 500, people)
        for name in [*ASEG, "Left-Lateral-Ventricle", "MaskVol", "BrainSegVol", "Left-WM-hypointensities", icv]
    }
    return pd.DataFrame({"Measure:volume": [f"sub-{k:02d}" for k in range(people)], **columns})


def aparc(side: str, people: int = 30, measure: str = "volume", seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    level, spread = (2500, 250) if measure == "volume" else (2.5, 0.2)
    columns = {f"{side}_{name}_{measure}": rng.normal(level, spread, people) for name in PARCELS}
    ids = [f"sub-{k:02d}" for k in range(people)]
    return pd.DataFrame({f"{side}.aparc.{measure}": ids, **columns, "eTIV": rng.normal(1.5e6, 1e5, people)})


@pytest.mark.parametrize("icv", ["EstimatedTotalIntraCranialVol", "IntraCranialVol", "eTIV"])
def test_aseg_and_the_names_of_etiv(tmp_path: Path, icv: str) -> None:
    result = look(write(aseg(icv=icv), tmp_path / "aseg.tsv", "\t"))
    assert (result.format, result.regions, result.icv) == ("aseg", 6, icv)
    assert result.aside == {"ventricle": 1, "composite": 2, "no tissue": 1}


@pytest.mark.parametrize("sep", ["\t", ",", " ", ";"])
def test_two_hemispheres_are_joined_by_id(tmp_path: Path, sep: str) -> None:
    left, right = aparc("lh"), aparc("rh", seed=1)
    shuffled = right.sample(frac=1, random_state=0)
    result = look([write(left, tmp_path / "lh.txt", sep), write(shuffled, tmp_path / "rh.txt", sep)])
    assert (result.format, result.regions, result.icv) == ("aparc", 12, "eTIV")
    assert result.cohort is not None
    np.testing.assert_allclose(result.cohort.volumes["rh_insula_volume"], right["rh_insula_volume"])


def test_aparc_and_aseg_together(tmp_path: Path) -> None:
    paths = [
        write(aparc("lh"), tmp_path / "lh.txt", "\t"),
        write(aparc("rh", seed=1), tmp_path / "rh.txt", "\t"),
        write(aseg(), tmp_path / "aseg.txt", "\t"),
    ]
    result = look(paths)
    assert (result.format, result.regions) == ("freesurfer", 18)
    assert result.ok


def test_one_hemisphere_alone_is_suspicious(tmp_path: Path) -> None:
    result = look(write(aparc("lh"), tmp_path / "lh.txt", "\t"))
    assert "only the left hemisphere" in texts(result, "warning")


def test_aparc_zero_is_missing_not_zero(tmp_path: Path) -> None:
    left = aparc("lh")
    left.loc[3, "lh_insula_volume"] = 0.0
    path = write(left, tmp_path / "lh.txt", "\t")
    assert "sub-03" in texts(look(path, on_missing="error"), "error")
    dropped = look(path, on_missing="drop").cohort
    assert dropped is not None
    assert len(dropped) == 29


def test_aparc_ids_can_be_paths(tmp_path: Path) -> None:
    left = aparc("lh").assign(**{"lh.aparc.volume": [f"/data/fs/sub-{k:02d}/" for k in range(30)]})
    people = pd.DataFrame({"participant_id": [f"sub-{k:02d}" for k in range(30)], "age": range(30)})
    result = look(write(left, tmp_path / "lh.txt", "\t"), write(people, tmp_path / "p.tsv", "\t"), covariates=["age"])
    assert result.cohort is not None
    assert result.cohort.covariates["age"].tolist() == list(range(30))
    assert "spelt differently" in texts(result, "note")


def synthseg(people: int = 30) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    names = ["left cerebral white matter", "left cerebral cortex", "left thalamus", "left ventral DC", "brain-stem"]
    aside = ["left lateral ventricle", "csf"]
    ids = [f"sub-{k:02d}_T1w.nii.gz" for k in range(people)]
    volumes = {name: rng.normal(9000, 500, people) for name in names + aside}
    return pd.DataFrame({"": ids, "total intracranial": rng.normal(1.5e6, 1e5, people), **volumes})


def test_synthseg_blank_first_header_and_stray_carriage_returns(tmp_path: Path) -> None:
    path = tmp_path / "vol.csv"
    text = synthseg().to_csv(index=False, lineterminator="\n")
    path.write_bytes(text.replace("\n", "\r\r\n").encode())
    people = pd.DataFrame({"participant_id": [f"sub-{k:02d}" for k in range(30)], "age": range(30)})
    result = look(path, write(people, tmp_path / "p.tsv", "\t"), covariates=["age", "icv"])
    assert (result.format, result.people, result.regions) == ("synthseg", 30, 5)
    assert (result.icv, result.aside) == ("total intracranial", {"ventricle": 2})
    assert result.cohort is not None
    assert result.cohort.covariates["age"].tolist() == list(range(30))


def test_synthseg_whole_cortex_is_a_composite_beside_its_parcels(tmp_path: Path) -> None:
    frame = synthseg().assign(**{"ctx-lh-insula": np.linspace(6000, 7000, 30)})
    result = look(write(frame, tmp_path / "vol.csv"))
    assert (result.regions, result.aside) == (5, {"ventricle": 2, "composite": 1})


STATS = """# Title Segmentation Statistics
# Measure Mask, MaskVol, Mask Volume, 1612345.0, mm^3
{etiv}# ColHeaders Index SegId NVoxels Volume_mm3 StructName normMean
1   4  6000  6000.5  Left-Lateral-Ventricle 30.0
2  10  7000  {thalamus}  Left-Thalamus 80.0
3  49  7000  7100.0  Right-Thalamus 80.0
4  17  4000  4100.0  Left-Hippocampus 80.0
5  53  4000  4200.0  Right-Hippocampus 80.0
6 2035 6000  6500.0  ctx-lh-insula 80.0
"""


@pytest.mark.parametrize("name", ["aseg+DKT.stats", "aseg.stats"])
def test_fastsurfer_folder(tmp_path: Path, name: str) -> None:
    for k in range(3):
        stats = tmp_path / f"sub-{k}" / "stats"
        stats.mkdir(parents=True)
        (stats / name).write_text(STATS.format(etiv="", thalamus=7000.0 + k))
    (tmp_path / "fsaverage").mkdir()
    result = look(tmp_path)
    assert (result.format, result.people, result.regions) == ("fastsurfer", 3, 5)
    assert result.icv is None  # MaskVol is not eTIV
    assert result.cohort is not None
    assert result.cohort.volumes["Left-Thalamus"].tolist() == [7000.0, 7001.0, 7002.0]


def test_fastsurfer_etiv(tmp_path: Path) -> None:
    stats = tmp_path / "sub-1" / "stats"
    stats.mkdir(parents=True)
    etiv = "# Measure EstimatedTotalIntraCranialVol, eTIV, Estimated Total Intracranial Volume, 1500000.5, mm^3\n"
    (stats / "aseg+DKT.stats").write_text(STATS.format(etiv=etiv, thalamus=7000.0))
    result = look(tmp_path, covariates=["icv"])
    assert result.cohort is not None
    assert result.cohort.covariates["icv"].tolist() == [1500000.5]


def test_enigma_thickness_is_not_volume(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = [f"{side}_{name}_thickavg" for side in "LR" for name in PARCELS]
    frame = pd.DataFrame({"SubjID": range(20), **{name: rng.normal(2.5, 0.2, 20) for name in names}})
    path = write(frame, tmp_path / "thick.csv")
    refused = look(path)
    assert refused.format == "enigma"
    assert "thickness, not volume" in texts(refused, "error")
    assert look(path, measure="thickness").ok


def test_enigma_volumes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = ["LLatVent", "RLatVent", "Lthal", "Rthal", "Lhippo", "Rhippo", "Lamyg", "Ramyg"]
    frame = pd.DataFrame({"SubjID": range(20), **{name: rng.normal(4000, 300, 20) for name in names}})
    result = look(write(frame.assign(ICV=1.5e6), tmp_path / "land.csv"))
    assert (result.format, result.regions, result.icv, result.aside) == ("enigma", 6, "ICV", {"ventricle": 2})


def test_plain_table_with_everything_in_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"name": [f"p{k}" for k in range(40)], "Age": 60, "gender": "F", "dx": ["HC", "SZ"] * 20})
    frame = frame.assign(**{f"area{k}": rng.normal(3000 + 500 * k, 200, 40) for k in range(6)})
    result = look(write(frame, tmp_path / "t.csv", ";"))
    assert (result.format, result.regions, result.controls, result.patients) == ("table", 6, 20, 20)


def test_semicolon_with_decimal_comma(tmp_path: Path, volumes: pd.DataFrame) -> None:
    path = tmp_path / "german.csv"
    volumes.to_csv(path, sep=";", decimal=",", index=False)
    result = look(path)
    assert result.cohort is not None
    np.testing.assert_allclose(result.cohort.volumes["MUSE_47"], volumes["47"])


def test_parquet_equals_csv(tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame) -> None:
    volumes.to_parquet(tmp_path / "v.parquet")
    participants.to_parquet(tmp_path / "p.parquet")
    texts_ = (write(volumes, tmp_path / "v.csv"), write(participants, tmp_path / "p.tsv", "\t"))
    asked = {"group": "diagnosis", "covariates": ["age", "sex", "icv"]}
    prints = [
        look(*paths, **asked).cohort.fingerprint()  # type: ignore[union-attr]
        for paths in (texts_, (tmp_path / "v.parquet", tmp_path / "p.parquet"))
    ]
    assert prints[0] == prints[1]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_encodings_of_excel(tmp_path: Path, encoding: str) -> None:
    frame = muse_volumes().assign(ID=[f"Zoë{k}" for k in range(40)])
    path = tmp_path / "v.csv"
    path.write_bytes(frame.to_csv(index=False).encode(encoding))
    result = look(path)
    assert result.cohort is not None
    assert sorted(result.cohort.people["participant_id"]) == sorted(frame["ID"])


def test_blanks_after_separators(tmp_path: Path, volumes: pd.DataFrame, participants: pd.DataFrame) -> None:
    participants.loc[2, "age"] = np.nan
    text = participants.to_csv(index=False, na_rep="n/a").replace(",", ", ")
    (tmp_path / "p.csv").write_text(text)
    result = look(write(volumes, tmp_path / "v.csv"), tmp_path / "p.csv", covariates=["age", "sex"], group="diagnosis")
    assert "1 person has no age: sub-002" in texts(result)
    assert (result.controls, result.patients) == (20, 20)


def test_leading_zeros_of_ids_survive(tmp_path: Path) -> None:
    frame = muse_volumes().assign(ID=[f"{k:04d}" for k in range(40)])
    result = look(write(frame, tmp_path / "v.csv"))
    assert result.cohort is not None
    assert result.cohort.people["participant_id"].tolist() == [f"{k:04d}" for k in range(40)]


def test_bids_missing_is_na(tmp_path: Path, volumes: pd.DataFrame) -> None:
    people = participants_of(volumes)
    people["age"] = people["age"].astype(object)
    people.loc[4, "age"] = "n/a"
    path = write(people, tmp_path / "participants.tsv", "\t")
    result = look(write(volumes, tmp_path / "v.csv"), path, covariates=["age"], on_missing="error")
    assert "1 person has no age: sub-004" in texts(result, "error")
