"""Import of checkpoints: equality with the stored weights, refusal of changed files, no
code execution.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn import functional
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from rindices.errors import ModelError
from rindices.exchange.importers import (
    PUBLISHED_MODELS,
    import_checkpoint,
    import_published,
    list_published_regions,
)

N_REGIONS, N_PATTERNS = 12, 2


def make_checkpoint(
    epochs: tuple[int, ...] = (300,), covariates: int = 2
) -> dict[Any, Any]:
    """Return a checkpoint in the format of SurrealGAN 0.1.1, with random numbers."""
    rng = np.random.default_rng(0)

    def tensor(*shape: int) -> torch.Tensor:
        return torch.as_tensor(rng.normal(0, 0.2, shape), dtype=torch.float32)

    wide, narrow = N_REGIONS // 2, N_REGIONS // 4
    nets = {
        "netMapping": {
            "model.0.weight": tensor(wide, N_REGIONS),
            "model.2.weight": tensor(narrow, wide),
            "model.4.add_noise.0.weight": tensor(narrow, N_PATTERNS),
            "model.4.add_noise.0.bias": tensor(narrow),
            "model.5.weight": tensor(wide, narrow),
            "model.7.weight": tensor(N_REGIONS, wide),
        },
        "netReconstruction": {
            "model.0.weight": tensor(wide, N_REGIONS),
            "model.0.bias": tensor(wide),
            "model.2.weight": tensor(narrow, wide),
            "model.2.bias": tensor(narrow),
            "model.4.weight": tensor(N_PATTERNS, narrow),
            "model.4.bias": tensor(N_PATTERNS),
        },
        "netDecomposer": {
            "model.1.weight": tensor(N_PATTERNS * N_REGIONS, N_REGIONS),
            "model.1.bias": tensor(N_PATTERNS * N_REGIONS),
        },
        "phi": torch.nn.Parameter(torch.tensor([1.0, 0.5, 1.0])),
        "optimizer_D": {"state": {}, "param_groups": [{"lr": 1e-4, "params": [0]}]},
    }
    correction = {
        "min_cov": np.array([0.0, 50.0])[:covariates],
        "max_cov": np.array([1.0, 90.0])[:covariates],
        "beta": rng.normal(0, 100, (covariates, N_REGIONS)),
    }
    return {
        "npattern": N_PATTERNS,
        "nROI": N_REGIONS,
        "lr": 8e-4,
        "normalization_variables": {
            "cn_mean": np.full(N_REGIONS, 3000.0),
            "cn_std": np.full(N_REGIONS, 200.0),
        },
        "correction_variables": correction if covariates else None,
        **dict.fromkeys(epochs, nets),
    }


def infer_with_stored_weights(
    content: dict[Any, Any], epoch: int, volumes: np.ndarray, covariates: np.ndarray
) -> np.ndarray:
    """Return R-indices computed layer by layer in float64: (N, R), (N, C) -> (N, M)."""

    def leaky(x: np.ndarray) -> np.ndarray:
        return np.maximum(x, 0) + 0.2 * np.minimum(x, 0)

    def layer(name: str, number: int, x: np.ndarray) -> np.ndarray:
        net = {
            key: value.detach().numpy().astype(float)
            for key, value in content[epoch][name].items()
        }
        return x @ net[f"model.{number}.weight"].T + net[f"model.{number}.bias"]

    if (correction := content["correction_variables"]) is not None:
        span = correction["max_cov"] - correction["min_cov"]
        volumes = (
            volumes - (covariates - correction["min_cov"]) / span @ correction["beta"]
        )
    scale = content["normalization_variables"]
    y = 1 + (volumes - scale["cn_mean"]) / (10 * scale["cn_std"])
    blocks = np.split(layer("netDecomposer", 1, leaky(y)), content["npattern"], axis=1)
    inner = [
        layer("netReconstruction", 2, leaky(layer("netReconstruction", 0, block)))
        for block in blocks
    ]
    return np.sum(
        [layer("netReconstruction", 4, leaky(hidden)) for hidden in inner], axis=0
    )


def pair_sums(volumes: pd.DataFrame) -> np.ndarray:
    """Return the 72 regions of the published models from DLMUSE volumes by code."""
    unpaired = [35, 71, 72, 73, 95]
    excluded = {4, 11, 49, 50, 51, 52, *unpaired}
    rest = sorted(
        int(name) for name in volumes if int(name) < 300 and int(name) not in excluded
    )
    columns = [volumes[str(code)] for code in unpaired]
    columns += [
        volumes[str(a)] + volumes[str(b)]
        for a, b in zip(rest[::2], rest[1::2], strict=True)
    ]
    return np.stack(columns, axis=1)


def load_weights(path: Path) -> Any:
    """Read a checkpoint with the weights-only loader of torch."""
    import numpy._core.multiarray as multiarray

    names = [
        (multiarray._reconstruct, "numpy.core.multiarray._reconstruct"),
        np.ndarray,
        np.dtype,
    ]
    with torch.serialization.safe_globals([*names, np.dtypes.Float64DType]):
        return torch.load(path, weights_only=True)


@pytest.mark.parametrize(
    ("name", "epoch"), [("ad_2rindices", 15000), ("brain_aging_5rindices", 50000)]
)
def test_published_models_equal_their_stored_weights(
    name: str, epoch: int, shared: Path, tmp_path: Path
) -> None:
    demo = shared / "nichart_demo"
    file = shared / "upstream" / f"{name}.saved_model"
    run = CliRunner().invoke
    imported = run(
        app,
        [
            "model",
            "import",
            str(file),
            "--as",
            name,
            "--out",
            str(tmp_path / "m.safetensors"),
        ],
    )
    assert imported.exit_code == 0, imported.output
    arguments = [
        "apply",
        str(tmp_path / "m.safetensors"),
        str(demo / "DLMUSE_Volumes.csv"),
        "--participants",
    ]
    arguments += [str(demo / "participants.csv"), "--out", str(tmp_path / "r.tsv")]
    applied = run(app, arguments)
    assert applied.exit_code == 0, applied.output
    assert "67 regions of the model are sums of the table's columns" in applied.stderr
    assert "come from 291 healthy people of IXI, 40 to 86 years old" in applied.stderr
    indices = pd.read_csv(tmp_path / "r.tsv", sep="\t").set_index("participant_id")

    volumes = (
        pd.read_csv(demo / "DLMUSE_Volumes.csv").set_index("MRID").loc[indices.index]
    )
    volumes.columns = volumes.columns.str.removeprefix("DL_MUSE_Volume_")
    people = pd.read_csv(demo / "participants.csv").set_index("MRID").loc[indices.index]
    second = people["Age"] if name.startswith("ad") else volumes["702"]
    covariates = np.stack([people["Sex"] == "M", second], axis=1).astype(float)
    expected = infer_with_stored_weights(
        load_weights(file), epoch, pair_sums(volumes), covariates
    )
    columns = ["r1", "r2"] if name.startswith("ad") else ["r1", "r3", "r4", "r5", "r2"]
    np.testing.assert_allclose(indices[columns], expected, atol=1e-6)
    if name.startswith("brain"):
        scores = (
            pd.read_csv(demo / "SurrealGAN_RScores.csv")
            .set_index("MRID")
            .loc[indices.index]
        )
        correlations = [
            np.corrcoef(indices[f"r{k}"], scores[f"SurrealGAN_R{k}"])[0, 1]
            for k in range(1, 6)
        ]
        assert min(correlations) >= 0.95


@pytest.mark.parametrize(
    ("name", "epoch"), [("ad_2rindices", 15000), ("brain_aging_5rindices", 50000)]
)
def test_networks_of_published_checkpoints_decompose_people(
    name: str, epoch: int, shared: Path
) -> None:
    """g2 of the parts that g1 finds are the R-indices, and g1 is the layer that is
    stored.
    """
    file = shared / "upstream" / f"{name}.saved_model"
    networks, content = ri.SurrealGAN.load_networks(file), load_weights(file)
    people = torch.as_tensor(
        np.random.default_rng(0).normal(1, 0.1, (1, 7, 72)), dtype=torch.float32
    )
    stored = content[epoch]["netDecomposer"]
    weight, bias = stored["model.1.weight"], stored["model.1.bias"]
    expected = functional.linear(functional.leaky_relu(people[0], 0.2), weight, bias)
    with torch.inference_mode():
        parts = networks.g1(people)
        indices = networks.reconstruct(parts)[0].sum(dim=1).numpy()
    torch.testing.assert_close(
        parts[0], expected.detach().view(7, content["npattern"], 72)
    )
    model = import_published(file, name)
    inferred = model.heads[0].infer(people[0].double().numpy())
    np.testing.assert_allclose(indices, inferred, atol=1e-5)


def test_card_of_an_imported_model(shared: Path, tmp_path: Path) -> None:
    model = import_published(
        shared / "upstream" / "brain_aging_5rindices.saved_model",
        "brain_aging_5rindices",
    )
    model.save(tmp_path / "m.safetensors")
    result = CliRunner().invoke(
        app, ["model", "show", str(tmp_path / "m.safetensors"), "--json"]
    )
    shown = json.loads(result.stdout)
    assert (shown["n_patterns"], len(shown["regions"]), len(shown["sums"])) == (
        5,
        72,
        67,
    )
    assert shown["sums"]["MUSE_206+MUSE_207"] == ["MUSE_206", "MUSE_207"]
    assert [coding["name"] for coding in shown["covariates"]] == ["sex", "icv"]
    assert shown["covariates"][0]["levels"] == ["F", "M"]
    assert shown["licence"] == "MIT"
    assert "49,482" in shown["citation"]
    healthy = "291 healthy people of IXI, 40 to 86 years old"
    assert healthy in shown["intervals"]
    assert f"against {healthy}, not the training people" in shown["outlier_score"]
    assert shown["healthy"]["licence"] == "CC BY-SA 3.0"
    correlations = np.array(shown["severity_correlation"])[np.triu_indices(5, 1)]
    assert (round(correlations.min(), 2), round(correlations.max(), 2)) == (0.28, 0.49)
    np.testing.assert_array_equal(
        ri.load(tmp_path / "m.safetensors").patterns, model.patterns
    )
    assert (
        len({code for region in list_published_regions() for code in region.split("+")})
        == 139
    )


def test_patterns_are_computed_from_f(tmp_path: Path) -> None:
    content = make_checkpoint()
    torch.save(content, tmp_path / "c")
    model = import_checkpoint(
        tmp_path / "c", [f"v{k}" for k in range(N_REGIONS)], ["sex=F/M", "age"]
    )
    net = {key: value.double() for key, value in content[300]["netMapping"].items()}
    relu = torch.nn.LeakyReLU(0.2)
    x = relu(
        net["model.2.weight"]
        @ relu(net["model.0.weight"] @ torch.ones(N_REGIONS, dtype=torch.float64))
    )
    z = torch.tensor([0.0, 0.5], dtype=torch.float64)
    x = x * torch.sigmoid(
        net["model.4.add_noise.0.weight"] @ z + net["model.4.add_noise.0.bias"]
    )
    change = relu(net["model.7.weight"] @ relu(net["model.5.weight"] @ x))
    np.testing.assert_allclose(model.patterns[1, 1], change.numpy() / 0.1, atol=1e-12)


def test_other_checkpoints_with_sums_epochs_and_covariates(tmp_path: Path) -> None:
    content = make_checkpoint(epochs=(100, 200))
    torch.save(content, tmp_path / "c")
    regions = ["a+b", *(f"v{k}" for k in range(N_REGIONS - 1))]
    with pytest.raises(
        ModelError, match=r"holds 2 epochs: 100, 200\. Name one: --epoch"
    ):
        import_checkpoint(tmp_path / "c", regions, ["sex=F/M", "age"])
    model = import_checkpoint(tmp_path / "c", regions, ["sex=F/M", "age"], epoch=200)
    rng = np.random.default_rng(1)
    parts = rng.normal(1500, 100, (30, 2))
    rest = rng.normal(3000, 200, (30, N_REGIONS - 1))
    volumes = pd.DataFrame(
        np.hstack([rest[:, ::-1], parts]), columns=[*regions[:0:-1], "b", "a"]
    )
    sex, age = rng.choice(["F", "M"], 30), rng.uniform(50, 90, 30)
    people = pd.DataFrame({"participant_id": [f"p{k:02d}" for k in range(30)]})
    cohort = ri.Cohort(
        volumes=volumes,
        people=people,
        covariates=pd.DataFrame({"age": age, "sex": sex}),
    )
    expected = infer_with_stored_weights(
        content,
        200,
        np.hstack([parts.sum(axis=1, keepdims=True), rest]),
        np.stack([sex == "M", age], axis=1),
    )
    np.testing.assert_allclose(model.apply(cohort)[["r1", "r2"]], expected, atol=1e-9)
    old = ri.Cohort(
        volumes=volumes,
        people=people,
        covariates=pd.DataFrame({"age": age + 30, "sex": sex}),
    )
    table = model.apply(old)
    assert table["outside_training_range"].mean() > 0.5
    assert (
        table.loc[table["outside_training_range"], "outside_because"]
        .str.contains("age .* is outside 50 to 90")
        .all()
    )
    with pytest.raises(ModelError, match=r"1 regions are missing: a\+b"):
        model.apply(
            ri.Cohort(
                volumes=volumes.drop(columns="b"),
                people=people,
                covariates=cohort.covariates,
            )
        )


@pytest.mark.parametrize(
    ("regions", "covariates", "message"),
    [
        (["v"], ["sex=F/M", "age"], "has 12 regions, 1 different"),
        (["v0"] * N_REGIONS, ["sex=F/M", "age"], "has 12 regions, 1 different"),
        (
            [f"v{k}" for k in range(N_REGIONS)],
            ["age"],
            "corrected for 2 covariates, 1 were named",
        ),
        (
            [f"v{k}" for k in range(N_REGIONS)],
            ["sex", "age=young/old"],
            "checkpoint has age from 50 to 90",
        ),
        (
            ["a+", *(f"v{k}" for k in range(N_REGIONS - 1))],
            ["sex", "age"],
            r"'a\+' is not a region",
        ),
    ],
)
def test_wrong_regions_and_covariates_are_refused_by_name(
    regions: list[str], covariates: list[str], message: str, tmp_path: Path
) -> None:
    torch.save(make_checkpoint(), tmp_path / "c")
    with pytest.raises(ModelError, match=message):
        import_checkpoint(tmp_path / "c", regions, covariates)


class FileWriter:
    """A pickle that writes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.write_text, (self.path, "was here"))


class ShellCommand(FileWriter):
    """A pickle that writes a file with a shell command."""

    def __reduce__(self) -> tuple[Any, ...]:
        import os

        return (os.system, (f"touch {self.path}",))


class HugeArray:
    """A pickle of an array that is larger than any memory."""

    def __reduce__(self) -> tuple[Any, ...]:
        import numpy._core.multiarray as multiarray

        return (multiarray._reconstruct, (np.ndarray, (10**13,), b"b"))


def expand_tensors(content: dict[Any, Any]) -> dict[Any, Any]:
    """Replace the weights by one number, seen as 10**15 of them."""
    content["nROI"], content["npattern"] = 100_000, 1_000
    content["normalization_variables"] = {
        name: np.ones(100_000) for name in ("cn_mean", "cn_std")
    }
    content[300]["netDecomposer"]["model.1.weight"] = torch.ones(1).expand(10**8, 10**5)
    return content


def _set_item(
    keys: tuple[Any, ...], value: Any
) -> Callable[[dict[Any, Any], Path], Any]:
    """Return a function that replaces one item of a checkpoint, or removes it if the
    value is `DROP`.
    """

    def change(content: dict[Any, Any], mark: Path) -> Any:
        parent = content
        for key in keys[:-1]:
            parent = parent[key]
        if value is DROP:
            del parent[keys[-1]]
        else:
            parent[keys[-1]] = value(mark) if isinstance(value, type) else value
        return content

    return change


DROP = object()
TAMPERED: dict[str, Callable[[dict[Any, Any], Path], Any]] = {
    "a pickle that writes a file": _set_item(("lr",), FileWriter),
    "a pickle that calls the shell": _set_item((300, "optimizer_D"), ShellCommand),
    "a pickle alone": lambda content, mark: ShellCommand(mark),
    "a huge array": _set_item(("normalization_variables", "cn_mean"), HugeArray()),
    "no regions": _set_item(("nROI",), DROP),
    "no patterns": _set_item(("npattern",), DROP),
    "no epoch": _set_item((300,), DROP),
    "no scale": _set_item(("normalization_variables",), DROP),
    "no mean": _set_item(("normalization_variables", "cn_mean"), DROP),
    "no correction": _set_item(("correction_variables",), DROP),
    "no decomposer": _set_item((300, "netDecomposer"), DROP),
    "no bias": _set_item((300, "netReconstruction", "model.4.bias"), DROP),
    "an extra layer": _set_item(
        (300, "netReconstruction", "model.6.bias"), torch.zeros(2)
    ),
    "a transposed matrix": _set_item(
        (300, "netDecomposer", "model.1.weight"), torch.zeros(N_REGIONS, 2 * N_REGIONS)
    ),
    "a short mean": _set_item(
        ("normalization_variables", "cn_mean"), np.zeros(N_REGIONS - 1)
    ),
    "no spread": _set_item(("normalization_variables", "cn_std"), np.zeros(N_REGIONS)),
    "not finite": _set_item(
        (300, "netReconstruction", "model.0.bias"),
        torch.full((N_REGIONS // 2,), float("nan")),
    ),
    "an empty range": _set_item(
        ("correction_variables", "max_cov"), np.array([0.0, 50.0])
    ),
    "patterns as text": _set_item(("npattern",), "2"),
    "more regions than there are": _set_item(("nROI",), 10**9),
    "a list": lambda content, mark: [content],
    "complex weights": _set_item(
        (300, "netReconstruction", "model.4.bias"),
        torch.zeros(2, dtype=torch.complex64),
    ),
    "an expanded tensor": lambda content, mark: expand_tensors(content),
    "numbers of bfloat16": _set_item(
        (300, "netReconstruction", "model.4.bias"),
        torch.zeros(N_PATTERNS, dtype=torch.bfloat16),
    ),
    "text instead of numbers": _set_item(
        ("correction_variables", "min_cov"), ["a", [1, 2], None]
    ),
    "a dictionary of ranges": _set_item(("correction_variables", "min_cov"), {"a": 1}),
    "a bytearray": _set_item(("lr",), bytearray(10)),
    "a huge epoch": lambda content, mark: content | {10**100: content.pop(300)},
    "a key that is a tuple": _set_item(
        (300, "netReconstruction", (1, 2)), torch.zeros(2)
    ),
    "another order of bytes": _set_item(
        ("normalization_variables", "cn_mean"), np.ones(N_REGIONS, ">f8")
    ),
    "huge weights": _set_item(
        (300, "netMapping", "model.7.weight"),
        torch.full((N_REGIONS, N_REGIONS // 2), 3e38),
    ),
    "a sparse matrix": _set_item(
        (300, "netDecomposer", "model.1.weight"),
        torch.zeros(2 * N_REGIONS, N_REGIONS).to_sparse(),
    ),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_tampered_checkpoints_are_refused(name: str, tmp_path: Path) -> None:
    mark, file, out = (
        tmp_path / "mark",
        tmp_path / "c.saved_model",
        tmp_path / "m.safetensors",
    )
    torch.save(TAMPERED[name](make_checkpoint(), mark), file)
    (tmp_path / "regions.txt").write_text("\n".join(f"v{k}" for k in range(N_REGIONS)))
    before = sorted(tmp_path.iterdir())
    arguments = [
        str(file),
        "--regions",
        str(tmp_path / "regions.txt"),
        "--covariates",
        "sex=F/M,age",
    ]
    result = CliRunner().invoke(app, ["model", "import", *arguments, "--out", str(out)])
    assert isinstance(result.exception, ModelError)
    assert len(str(result.exception).splitlines()) == 1
    assert "c.saved_model" in str(result.exception)
    assert sorted(tmp_path.iterdir()) == before


def test_another_checkpoint_is_not_taken_for_a_published_one(
    shared: Path, tmp_path: Path
) -> None:
    torch.save(make_checkpoint(), tmp_path / "c")
    for name in PUBLISHED_MODELS:
        with pytest.raises(ModelError, match=f"not those of the published {name}"):
            import_published(tmp_path / "c", name)
    other = next((shared / "upstream").glob("brain_aging*"))
    with pytest.raises(
        ModelError,
        match="they are those of brain_aging_5rindices, so give --as brain_aging_5rindices",
    ):
        import_published(other, "ad_2rindices")
    with pytest.raises(ModelError, match="did you mean 'ad_2rindices'"):
        import_published(tmp_path / "c", "ad_rindices")


def test_import_needs_either_a_name_or_regions() -> None:
    for arguments in (
        ["c", "--out", "m.safetensors"],
        ["c", "--as", "x", "--regions", "y", "--out", "m.safetensors"],
    ):
        assert CliRunner().invoke(app, ["model", "import", *arguments]).exit_code == 2
