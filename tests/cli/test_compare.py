"""The command compare."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from rindices.experiments.simulate import write_cohort
from tests.analysis.helpers import BLOB_CENTRE, IMAGE_AFFINE, write_images


def test_the_true_regions_have_the_largest_effects(tmp_path: Path) -> None:
    simulated = ri.simulate_cohort("small", 0)
    write_cohort(simulated, tmp_path)
    severities = simulated.severities.rename(columns={"s1": "r1", "s2": "r2", "s3": "r3"})
    indices = simulated.cohort.people.merge(severities, how="left").fillna({"r1": 0.0, "r2": 0.0, "r3": 0.0})
    indices.to_csv(tmp_path / "r.tsv", sep="\t", index=False)
    arguments = ["compare", str(tmp_path / "r.tsv"), str(tmp_path / "volumes.csv")]
    arguments += ["--participants", str(tmp_path / "participants.tsv"), "--covariates", "age,sex,icv"]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out"), "--json"])
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    table = pd.DataFrame(value["results"])
    written = pd.read_csv(tmp_path / "out/regions.tsv", sep="\t", na_values="n/a", keep_default_na=False)
    np.testing.assert_allclose(written["effect"], table["effect"])
    truth = simulated.patterns.set_index("region")
    for k in (1, 2, 3):
        high = table[(table["index"] == f"r{k}") & (table["subgroup"] == "high")]
        top = high.nsmallest(14, "effect")["region"]
        assert (truth.loc[top, f"s{k}"] > 0).mean() > 0.75
    people = pd.read_csv(tmp_path / "out/subgroups.tsv", sep="\t")
    assert set(people.columns) == {"participant_id", "index", "subgroup", "range"}
    assert len(people) == table.drop_duplicates(["index", "subgroup"])["n"].sum()
    assert "Description" in json.loads((tmp_path / "out/regions.json").read_text())["effect"]


def test_maps_of_voxels_are_written(tmp_path: Path) -> None:
    nibabel = pytest.importorskip("nibabel")
    pytest.importorskip("nilearn")
    indices, images = write_images(tmp_path)
    write_cohort(ri.simulate_cohort("tiny", 0), tmp_path)
    volumes = pd.read_csv(tmp_path / "volumes.csv").iloc[: len(indices)]
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
    np.testing.assert_allclose(written.affine, IMAGE_AFFINE)
    assert np.asarray(written.dataobj)[BLOB_CENTRE] < 0
    table = pd.read_csv(tmp_path / "out/voxels.tsv", sep="\t", na_values="n/a")
    assert table.set_index(["index", "subgroup"]).loc[("r1", "high"), "significant"] > 50
    wrong = CliRunner().invoke(app, [*arguments, "--images", "imgae", "--out", str(tmp_path / "out")])
    assert "did you mean 'image'" in str(wrong.exception)
