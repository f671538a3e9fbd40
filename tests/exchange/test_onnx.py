"""An exported graph gives the same results as apply, in onnxruntime and in
onnxruntime-web.
"""

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
from rindices.exchange.onnx import export_onnx
from rindices.preprocess.residualise import CategoricalCovariate, Residualiser
from rindices.tables.cohort import Cohort
from tests.cohorts import fit_tiny_model, simulate_few_regions

FIXTURES = Path(__file__).parents[1] / "model" / "fixtures"
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "r_indices.mjs"
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def training() -> Cohort:
    return simulate_few_regions("tiny", seed=0).cohort


@pytest.fixture(scope="module")
def model() -> ri.FittedModel:
    return fit_tiny_model(3)


def list_columns(cohort: Cohort) -> dict[str, list[Any]]:
    return {
        name: frame[name].tolist()
        for frame in (cohort.volumes, cohort.covariates)
        for name in frame
    }


def run_graph(path: Path, table: dict[str, list[Any]]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(path)
    feeds = {
        node.name: np.array(
            table[node.name],
            dtype=object if node.type == "tensor(string)" else np.float64,
        )[:, None]
        for node in session.get_inputs()
    }
    return dict(
        zip(
            [node.name for node in session.get_outputs()],
            session.run(None, feeds),
            strict=True,
        )
    )


def assert_equal(
    outputs: dict[str, np.ndarray], applied: pd.DataFrame, n_patterns: int
) -> float:
    """Compare the outputs of a graph with the table of apply, and return the largest
    difference.
    """
    differences = [0.0]
    for output, name in {
        "r_indices": "r{}",
        "low": "r{}_low",
        "high": "r{}_high",
    }.items():
        if output in outputs:
            expected = applied[
                [name.format(k + 1) for k in range(n_patterns)]
            ].to_numpy()
            assert outputs[output].shape == expected.shape
            differences.append(float(np.abs(outputs[output] - expected).max()))
    if "outlier_score" in outputs:
        differences.append(
            float(
                np.abs(
                    outputs["outlier_score"][:, 0] - applied["outlier_score"].to_numpy()
                ).max()
            )
        )
    assert max(differences) < TOLERANCE
    return max(differences)


def test_contrastive_model(model: ri.FittedModel, tmp_path: Path) -> None:
    names = export_onnx(model, tmp_path / "m.onnx")
    assert names["outputs"] == [
        "r_indices",
        "low",
        "high",
        "outlier_score",
        "outlying_measurements",
    ]
    assert set(names["inputs"]) == {*model.regions, *model.covariates}
    new = simulate_few_regions("tiny", seed=1).cohort
    new.volumes.iloc[:5] *= 0.3  # below the floor of the logarithm
    assert_equal(
        run_graph(tmp_path / "m.onnx", list_columns(new)),
        model.assess_chunk(new).table,
        3,
    )


@pytest.mark.parametrize("name", ["default", "contrastive", "paper"])
def test_models_of_every_kind(name: str, tmp_path: Path) -> None:
    model, cohort = ri.load(FIXTURES / f"{name}.safetensors"), small_cohort()
    outputs = export_onnx(model, tmp_path / "m.onnx")["outputs"]
    assert outputs == [
        "r_indices",
        "low",
        "high",
        "outlier_score",
        "outlying_measurements",
    ]
    assert_equal(
        run_graph(tmp_path / "m.onnx", list_columns(cohort)), model.apply(cohort), 2
    )


@pytest.mark.parametrize("name", ["ad_2rindices", "brain_aging_5rindices"])
def test_published_models_take_the_columns_of_their_sums(
    name: str, shared: Path, tmp_path: Path
) -> None:
    from rindices.exchange.importers import import_published

    checkpoint = next((shared / "upstream").rglob(f"{name}*"))
    model = import_published(checkpoint, name)
    names = export_onnx(model, tmp_path / "m.onnx")
    assert names["outputs"] == ["r_indices", "low", "high", "outlier_score"]
    rng = np.random.default_rng(0)
    parts = sorted({part for region in model.regions for part in region.split("+")})
    assert set(names["inputs"]) == {*parts, *model.covariates}
    volumes = pd.DataFrame({part: rng.uniform(500, 5000, 30) for part in parts})
    covariates = pd.DataFrame(
        {"sex": rng.choice(["F", "M"], 30), "age": 70.0, "icv": 1.4e6}
    )[list(model.covariates)]
    cohort = Cohort(
        volumes=volumes,
        people=pd.DataFrame({"participant_id": [f"p{k:02d}" for k in range(30)]}),
        covariates=covariates,
        unit="mm3",
    )
    assert_equal(
        run_graph(tmp_path / "m.onnx", list_columns(cohort)),
        model.assess_chunk(cohort).table,
        model.n_patterns,
    )


def test_people_with_outlying_measurements_are_flagged(
    model: ri.FittedModel, tmp_path: Path
) -> None:
    """`outlier_score` alone flags 92 % of such people in small studies."""
    export_onnx(model, tmp_path / "m.onnx")
    new = simulate_few_regions("basic", seed=904).cohort
    rng = np.random.default_rng(0)
    wrong = rng.random(len(new)) < 0.5
    values, columns = (
        new.volumes.to_numpy(dtype=float).copy(),
        rng.integers(new.n_regions, size=len(new)),
    )
    values[wrong, columns[wrong]] *= np.where(rng.random(wrong.sum()) < 0.5, 4.0, 0.25)
    new = replace(new, volumes=pd.DataFrame(values, columns=new.volumes.columns))
    number = run_graph(tmp_path / "m.onnx", list_columns(new))["outlying_measurements"][
        :, 0
    ]
    training = model.training
    assert training is not None
    sd, covariance = (
        np.sqrt(np.diag(training.covariance)),
        np.linalg.inv(training.precision),
    )
    z = np.clip((model.preprocessing.transform(new) - training.mean) / sd, -50, 50)
    wrapped = np.sign(z) * np.minimum(
        np.abs(z), np.maximum(4.0 - np.abs(z), 0.0) * 2.5 / 1.5
    )
    scale = max(np.median(training.distances) / np.sqrt(len(sd)), 1.0)
    expected = np.zeros(len(z))
    for region in range(len(sd)):
        others = np.delete(np.arange(len(sd)), region)
        slope = np.linalg.solve(
            covariance[np.ix_(others, others)], covariance[others, region]
        )
        deviation = np.sqrt(
            covariance[region, region] - covariance[others, region] @ slope
        )
        residuals = (
            z[:, region] * sd[region] - (wrapped * sd)[:, others] @ slope
        ) / deviation
        expected += np.abs(residuals) > 5.0 * scale
    np.testing.assert_array_equal(number, expected)
    assert (number[wrong] > 0).mean() >= 0.97
    assert (number[~wrong] > 0).mean() <= 0.03


def test_an_unknown_category_gives_nan(
    model: ri.FittedModel, training: Cohort, tmp_path: Path
) -> None:
    export_onnx(model, tmp_path / "m.onnx")
    table = list_columns(training)
    table["sex"][4] = "female"
    outputs = run_graph(tmp_path / "m.onnx", table)
    for output in outputs.values():
        assert np.isnan(output[4]).all()
        assert np.isfinite(np.delete(output, 4, axis=0)).all()


def adjust_anew(model: ri.FittedModel, cohort: Cohort) -> ri.FittedModel:
    """Return a model with the same members, after the adjustment that these people
    have.
    """
    return replace(model, preprocessing=ri.Preprocessing.fit(cohort), pipelines=())


def test_three_categories_and_no_covariates(
    model: ri.FittedModel, training: Cohort, tmp_path: Path
) -> None:
    three = np.resize(["a", "b", "c"], len(training)).astype(object)
    for covariates in (pd.DataFrame({"hand": three}), training.covariates[[]]):
        cohort = replace(training, covariates=covariates)
        other = adjust_anew(model, cohort)
        assert other.covariates == tuple(covariates)
        export_onnx(other, tmp_path / "m.onnx")
        assert_equal(
            run_graph(tmp_path / "m.onnx", list_columns(cohort)),
            other.apply(cohort),
            other.n_patterns,
        )


def test_sites_are_harmonised_in_the_graph(
    model: ri.FittedModel, training: Cohort, tmp_path: Path
) -> None:
    sites = np.resize(["x", "y", "z"], len(training)).astype(object)
    volumes = training.volumes * np.where(sites == "y", 1.1, 1.0)[:, None]
    cohort = replace(
        training, volumes=volumes, people=training.people.assign(site=sites)
    )
    model = adjust_anew(model, cohort)
    assert model.preprocessing.harmoniser is not None
    export_onnx(model, tmp_path / "m.onnx")
    table = list_columns(cohort) | {"site": sites.tolist()}
    assert_equal(
        run_graph(tmp_path / "m.onnx", table), model.apply(cohort), model.n_patterns
    )
    table["site"][0] = "elsewhere"
    assert np.isnan(run_graph(tmp_path / "m.onnx", table)["r_indices"][0]).all()


def test_a_covariate_with_one_category(tmp_path: Path, model: ri.FittedModel) -> None:
    single = Residualiser(
        codings=(CategoricalCovariate("sex", ("F",)),),
        centre=np.zeros(0),
        coefficients=np.zeros((0, len(model.regions))),
    )
    changed = replace(
        model,
        preprocessing=replace(model.preprocessing, residualiser=single),
        pipelines=(),
    )
    export_onnx(changed, tmp_path / "m.onnx")
    cohort = simulate_few_regions("tiny", seed=0).cohort
    cohort = replace(cohort, covariates=pd.DataFrame({"sex": ["F"] * len(cohort)}))
    assert_equal(
        run_graph(tmp_path / "m.onnx", list_columns(cohort)),
        changed.assess_chunk(cohort).table,
        3,
    )


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with onnxruntime-web and the example of the documentation."""
    folder = tmp_path_factory.mktemp("web")
    node_modules = os.environ.get("RINDICES_NODE_MODULES")
    if shutil.which("node") is None or (
        node_modules is None and shutil.which("npm") is None
    ):
        pytest.skip("node and npm are not installed")
    if node_modules:
        (folder / "node_modules").symlink_to(node_modules)
    else:
        done = subprocess.run(
            ["npm", "install", "--silent", "onnxruntime-web"], cwd=folder, check=False
        )
        if done.returncode:
            pytest.skip("npm could not install onnxruntime-web")
    shutil.copy(EXAMPLE, folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["contrastive", "paper", "brain_aging_5rindices"])
def test_onnxruntime_web(
    kind: str, web: Path, model: ri.FittedModel, request: pytest.FixtureRequest
) -> None:
    cohort = (
        small_cohort()
        if kind == "paper"
        else simulate_few_regions("tiny", seed=1).cohort
    )
    cohort = (
        ri.simulate_cohort("tiny", seed=1).cohort
        if kind.startswith("brain")
        else cohort
    )
    if kind == "paper":
        model = ri.load(FIXTURES / f"{kind}.safetensors")
    elif kind.startswith("brain"):
        from rindices.exchange.importers import import_published

        shared = request.getfixturevalue("shared")
        model = import_published(next((shared / "upstream").rglob(f"{kind}*")), kind)
    export_onnx(model, web / "m.onnx")
    (web / "people.json").write_text(json.dumps(list_columns(cohort)))
    done = subprocess.run(
        ["node", "r_indices.mjs", "m.onnx", "people.json"],
        cwd=web,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outputs = {
        name: np.reshape(t["data"], t["dims"])
        for name, t in json.loads(done.stdout).items()
    }
    difference = assert_equal(
        outputs, model.assess_chunk(cohort).table, model.n_patterns
    )
    print(
        f"{kind}: onnxruntime-web under Node differs from apply by {difference:.1e} at most"
    )
