"""An exported graph gives what apply gives, in onnxruntime and in onnxruntime-web under Node."""

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from scripts.make_model_fixture import small_cohort

import rindices as ri
from rindices.model.export import export_onnx
from rindices.preprocess.residualise import CategoricalCovariate, Residualiser
from rindices.tables.cohort import Cohort

HERE = Path(__file__).parent
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "r_indices.mjs"
BOUND = 1e-5


@pytest.fixture(scope="module")
def made() -> Cohort:
    return ri.simulate_cohort("tiny", seed=0).cohort


@pytest.fixture(scope="module")
def model(made: Cohort) -> ri.FittedModel:
    return ri.fit(made, 3, members=3, recipe="contrastive", workers=1)


def columns(cohort: Cohort) -> dict[str, list[Any]]:
    return {name: frame[name].tolist() for frame in (cohort.volumes, cohort.covariates) for name in frame}


def run(path: Path, table: dict[str, list[Any]]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(path)
    feeds = {
        i.name: np.array(table[i.name], dtype=object if i.type == "tensor(string)" else np.float64)[:, None]
        for i in session.get_inputs()
    }
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True))


def assert_equal(found: dict[str, np.ndarray], applied: pd.DataFrame, patterns: int) -> float:
    names = {"r_indices": "r{}", "low": "r{}_low", "high": "r{}_high"}
    off = [0.0]
    for output, name in names.items():
        if output in found:
            expected = applied[[name.format(k + 1) for k in range(patterns)]].to_numpy()
            assert found[output].shape == expected.shape
            off.append(float(np.abs(found[output] - expected).max()))
    if "novelty" in found:
        off.append(float(np.abs(found["novelty"][:, 0] - applied["novelty"].to_numpy()).max()))
    assert max(off) < BOUND
    return max(off)


def test_contrastive(model: ri.FittedModel, tmp_path: Path) -> None:
    names = export_onnx(model, tmp_path / "m.onnx")
    assert names["outputs"] == ["r_indices", "low", "high", "novelty"]
    assert set(names["inputs"]) == {*model.regions, *model.covariates}
    new = ri.simulate_cohort("tiny", seed=1).cohort
    new.volumes.iloc[:5] *= 0.3  # down on the tangent
    assert_equal(run(tmp_path / "m.onnx", columns(new)), model.assess_chunk(new).table, 3)


@pytest.mark.parametrize("name", ["schema1-contrastive", "schema1-paper", "schema2-contrastive", "schema2-paper"])
def test_every_kind_of_file(name: str, tmp_path: Path) -> None:
    model, cohort = ri.load(HERE / "fixtures" / f"{name}.safetensors"), small_cohort()
    outputs = export_onnx(model, tmp_path / "m.onnx")["outputs"]
    assert ("low" in outputs) == name.startswith("schema2")
    assert_equal(run(tmp_path / "m.onnx", columns(cohort)), model.apply(cohort), 2)


@pytest.mark.parametrize("name", ["ad_2rindices", "brain_aging_5rindices"])
def test_published_models_take_the_parts_of_their_sums(name: str, shared: Path, tmp_path: Path) -> None:
    from rindices.model.importers import import_published

    checkpoint = next((shared / "upstream").rglob(f"{name}*"))
    model = import_published(checkpoint, name)
    names = export_onnx(model, tmp_path / "m.onnx")
    assert names["outputs"] == ["r_indices"]
    rng = np.random.default_rng(0)
    parts = sorted({part for region in model.regions for part in region.split("+")})
    assert set(names["inputs"]) == {*parts, *model.covariates}
    volumes = pd.DataFrame({part: rng.uniform(500, 5000, 30) for part in parts})
    covariates = pd.DataFrame({"sex": rng.choice(["F", "M"], 30), "age": 70.0, "icv": 1.4e6})[list(model.covariates)]
    cohort = Cohort(volumes, pd.DataFrame({"participant_id": [f"p{k:02d}" for k in range(30)]}), covariates, unit="mm3")
    assert_equal(run(tmp_path / "m.onnx", columns(cohort)), model.assess_chunk(cohort).table, model.n_patterns)


def test_an_unknown_category_gives_no_number(model: ri.FittedModel, made: Cohort, tmp_path: Path) -> None:
    export_onnx(model, tmp_path / "m.onnx")
    table = columns(made)
    table["sex"][4] = "female"
    found = run(tmp_path / "m.onnx", table)
    for output in found.values():
        assert np.isnan(output[4]).all()
        assert np.isfinite(np.delete(output, 4, axis=0)).all()


def test_three_categories_and_no_covariates(made: Cohort, tmp_path: Path) -> None:
    three = np.resize(["a", "b", "c"], len(made)).astype(object)
    for covariates in (pd.DataFrame({"hand": three}), made.covariates[[]]):
        cohort = replace(made, covariates=covariates)
        model = ri.fit(cohort, 2, members=2, recipe="contrastive", workers=1)
        export_onnx(model, tmp_path / "m.onnx")
        assert_equal(run(tmp_path / "m.onnx", columns(cohort)), model.apply(cohort), 2)


def test_sites_are_harmonised_in_the_graph(made: Cohort, tmp_path: Path) -> None:
    sites = np.resize(["x", "y", "z"], len(made)).astype(object)
    volumes = made.volumes * np.where(sites == "y", 1.1, 1.0)[:, None]
    cohort = replace(made, volumes=volumes, people=made.people.assign(site=sites))
    model = ri.fit(cohort, 2, members=2, recipe="contrastive", workers=1)
    assert model.preprocessing.harmoniser is not None
    export_onnx(model, tmp_path / "m.onnx")
    table = columns(cohort) | {"site": sites.tolist()}
    assert_equal(run(tmp_path / "m.onnx", table), model.apply(cohort), 2)
    table["site"][0] = "elsewhere"
    assert np.isnan(run(tmp_path / "m.onnx", table)["r_indices"][0]).all()


def test_a_category_that_no_one_else_has(tmp_path: Path, model: ri.FittedModel) -> None:
    lonely = Residualiser((CategoricalCovariate("sex", ("F",)),), np.zeros(0), np.zeros((0, len(model.regions))))
    changed = replace(model, preprocessing=replace(model.preprocessing, residualiser=lonely))
    export_onnx(changed, tmp_path / "m.onnx")
    cohort = ri.simulate_cohort("tiny", seed=0).cohort
    cohort = replace(cohort, covariates=pd.DataFrame({"sex": ["F"] * len(cohort)}))
    assert_equal(run(tmp_path / "m.onnx", columns(cohort)), changed.assess_chunk(cohort).table, 3)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with onnxruntime-web installed and the example of the documentation."""
    folder = tmp_path_factory.mktemp("web")
    given = os.environ.get("RINDICES_NODE_MODULES")
    if shutil.which("node") is None or (given is None and shutil.which("npm") is None):
        pytest.skip("node and npm are not here")
    if given:
        (folder / "node_modules").symlink_to(given)
    else:
        done = subprocess.run(["npm", "install", "--silent", "onnxruntime-web"], cwd=folder, check=False)
        if done.returncode:
            pytest.skip("npm could not install onnxruntime-web")
    shutil.copy(EXAMPLE, folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["contrastive", "schema2-paper", "brain_aging_5rindices"])
def test_in_javascript(kind: str, web: Path, model: ri.FittedModel, request: pytest.FixtureRequest) -> None:
    cohort = small_cohort() if kind == "schema2-paper" else ri.simulate_cohort("tiny", seed=1).cohort
    if kind == "schema2-paper":
        model = ri.load(HERE / "fixtures" / f"{kind}.safetensors")
    elif kind.startswith("brain"):
        from rindices.model.importers import import_published

        shared = request.getfixturevalue("shared")
        model = import_published(next((shared / "upstream").rglob(f"{kind}*")), kind)
    export_onnx(model, web / "m.onnx")
    (web / "people.json").write_text(json.dumps(columns(cohort)))
    done = subprocess.run(
        ["node", "r_indices.mjs", "m.onnx", "people.json"], cwd=web, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = {name: np.reshape(t["data"], t["dims"]) for name, t in json.loads(done.stdout).items()}
    worst = assert_equal(found, model.assess_chunk(cohort).table, model.n_patterns)
    print(f"{kind}: onnxruntime-web under Node differs from apply by {worst:.1e} at most")  # noqa: T201
