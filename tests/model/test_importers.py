"""Published checkpoints: imported as they were meant, refused where they were tampered with, never run."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from rindices.errors import ModelError
from rindices.learners.surreal.upstream_checkpoint import read_upstream_checkpoint
from rindices.model.importers import PUBLISHED_MODELS, import_checkpoint, import_published, list_published_regions

WIDTH, PATTERNS = 12, 2


def checkpoint(epochs: tuple[int, ...] = (300,), covariates: int = 2) -> dict[Any, Any]:
    """A checkpoint such as SurrealGAN 0.1.1 writes, of random numbers."""
    rng = np.random.default_rng(0)

    def tensor(*shape: int) -> torch.Tensor:
        return torch.as_tensor(rng.normal(0, 0.2, shape), dtype=torch.float32)

    wide, narrow = WIDTH // 2, WIDTH // 4
    nets = {
        "netMapping": {
            "model.0.weight": tensor(wide, WIDTH),
            "model.2.weight": tensor(narrow, wide),
            "model.4.add_noise.0.weight": tensor(narrow, PATTERNS),
            "model.4.add_noise.0.bias": tensor(narrow),
            "model.5.weight": tensor(wide, narrow),
            "model.7.weight": tensor(WIDTH, wide),
        },
        "netReconstruction": {
            "model.0.weight": tensor(wide, WIDTH),
            "model.0.bias": tensor(wide),
            "model.2.weight": tensor(narrow, wide),
            "model.2.bias": tensor(narrow),
            "model.4.weight": tensor(PATTERNS, narrow),
            "model.4.bias": tensor(PATTERNS),
        },
        "netDecomposer": {"model.1.weight": tensor(PATTERNS * WIDTH, WIDTH), "model.1.bias": tensor(PATTERNS * WIDTH)},
        "phi": torch.nn.Parameter(torch.tensor([1.0, 0.5, 1.0])),
        "optimizer_D": {"state": {}, "param_groups": [{"lr": 1e-4, "params": [0]}]},
    }
    correction = {
        "min_cov": np.array([0.0, 50.0])[:covariates],
        "max_cov": np.array([1.0, 90.0])[:covariates],
        "beta": rng.normal(0, 100, (covariates, WIDTH)),
    }
    return {
        "npattern": PATTERNS,
        "nROI": WIDTH,
        "lr": 8e-4,
        "normalization_variables": {"cn_mean": np.full(WIDTH, 3000.0), "cn_std": np.full(WIDTH, 200.0)},
        "correction_variables": correction if covariates else None,
        **dict.fromkeys(epochs, nets),
    }


def by_hand(content: dict[Any, Any], epoch: int, volumes: np.ndarray, covariates: np.ndarray) -> np.ndarray:
    """R-indices from the stored weights, layer by layer in float64: (N, R), (N, C) -> (N, M)."""

    def leaky(x: np.ndarray) -> np.ndarray:
        return np.maximum(x, 0) + 0.2 * np.minimum(x, 0)

    def layer(name: str, place: int, x: np.ndarray) -> np.ndarray:
        net = {key: value.detach().numpy().astype(float) for key, value in content[epoch][name].items()}
        return x @ net[f"model.{place}.weight"].T + net[f"model.{place}.bias"]

    if (found := content["correction_variables"]) is not None:
        volumes = volumes - (covariates - found["min_cov"]) / (found["max_cov"] - found["min_cov"]) @ found["beta"]
    scale = content["normalization_variables"]
    y = 1 + (volumes - scale["cn_mean"]) / (10 * scale["cn_std"])
    blocks = np.split(layer("netDecomposer", 1, leaky(y)), content["npattern"], axis=1)
    inner = [layer("netReconstruction", 2, leaky(layer("netReconstruction", 0, block))) for block in blocks]
    return np.sum([layer("netReconstruction", 4, leaky(hidden)) for hidden in inner], axis=0)


def pair_sums(volumes: pd.DataFrame) -> np.ndarray:
    """The 72 regions of DLMUSE volumes by code, as the models' description has them."""
    single = [35, 71, 72, 73, 95]
    out = {4, 11, 49, 50, 51, 52, *single}
    rest = sorted(int(name) for name in volumes if int(name) < 300 and int(name) not in out)
    columns = [volumes[str(code)] for code in single]
    columns += [volumes[str(a)] + volumes[str(b)] for a, b in zip(rest[::2], rest[1::2], strict=True)]
    return np.stack(columns, axis=1)


def published(path: Path) -> Any:
    """The file as torch's own weights-only loader opens it."""
    import numpy._core.multiarray as multiarray

    names = [(multiarray._reconstruct, "numpy.core.multiarray._reconstruct"), np.ndarray, np.dtype]
    with torch.serialization.safe_globals([*names, np.dtypes.Float64DType]):
        return torch.load(path, weights_only=True)


@pytest.mark.parametrize(("name", "epoch"), [("ad_2rindices", 15000), ("brain_aging_5rindices", 50000)])
def test_published_models_give_what_their_weights_give(name: str, epoch: int, shared: Path, tmp_path: Path) -> None:
    demo = shared / "nichart_demo"
    file = shared / "upstream" / f"{name}.saved_model"
    run = CliRunner().invoke
    made = run(app, ["model", "import", str(file), "--as", name, "--out", str(tmp_path / "m.safetensors")])
    assert made.exit_code == 0, made.output
    arguments = ["apply", str(tmp_path / "m.safetensors"), str(demo / "DLMUSE_Volumes.csv"), "--participants"]
    arguments += [str(demo / "participants.csv"), "--out", str(tmp_path / "r.tsv")]
    done = run(app, arguments)
    assert done.exit_code == 0, done.output
    assert "67 regions of the model are sums of the table's columns" in done.stderr
    assert "no intervals" in done.stderr
    found = pd.read_csv(tmp_path / "r.tsv", sep="\t").set_index("participant_id")

    volumes = pd.read_csv(demo / "DLMUSE_Volumes.csv").set_index("MRID").loc[found.index]
    volumes.columns = volumes.columns.str.removeprefix("DL_MUSE_Volume_")
    people = pd.read_csv(demo / "participants.csv").set_index("MRID").loc[found.index]
    second = people["Age"] if name.startswith("ad") else volumes["702"]
    covariates = np.stack([people["Sex"] == "M", second], axis=1).astype(float)
    expected = by_hand(published(file), epoch, pair_sums(volumes), covariates)
    columns = ["r1", "r2"] if name.startswith("ad") else ["r1", "r3", "r4", "r5", "r2"]
    np.testing.assert_allclose(found[columns], expected, atol=1e-6)
    if name.startswith("brain"):
        scores = pd.read_csv(demo / "SurrealGAN_RScores.csv").set_index("MRID").loc[found.index]
        each = [np.corrcoef(found[f"r{k}"], scores[f"SurrealGAN_R{k}"])[0, 1] for k in range(1, 6)]
        assert min(each) >= 0.95


def test_what_an_imported_model_knows(shared: Path, tmp_path: Path) -> None:
    model = import_published(shared / "upstream" / "brain_aging_5rindices.saved_model", "brain_aging_5rindices")
    model.save(tmp_path / "m.safetensors")
    shown = CliRunner().invoke(app, ["model", "show", str(tmp_path / "m.safetensors"), "--json"])
    told = json.loads(shown.stdout)
    assert (told["n_patterns"], len(told["regions"]), len(told["sums"])) == (5, 72, 67)
    assert told["sums"]["MUSE_206+MUSE_207"] == ["MUSE_206", "MUSE_207"]
    assert [coding["name"] for coding in told["covariates"]] == ["sex", "icv"]
    assert told["covariates"][0]["levels"] == ["F", "M"]
    assert told["licence"] == "MIT"
    assert "49,482" in told["citation"]
    assert told["intervals"] is None
    assert "ranges of covariates alone" in told["novelty"]
    off = np.array(told["severity_correlation"])[np.triu_indices(5, 1)]
    assert (round(off.min(), 2), round(off.max(), 2)) == (0.28, 0.49)
    np.testing.assert_array_equal(ri.load(tmp_path / "m.safetensors").patterns, model.patterns)
    volume = {code: 5000.0 for region in list_published_regions() for code in region.split("+")}
    assert len(volume) == 139


def test_the_patterns_are_those_of_f(tmp_path: Path) -> None:
    content = checkpoint()
    torch.save(content, tmp_path / "c")
    model = import_checkpoint(tmp_path / "c", [f"v{k}" for k in range(WIDTH)], ["sex=F/M", "age"])
    net = {key: value.double() for key, value in content[300]["netMapping"].items()}
    relu = torch.nn.LeakyReLU(0.2)
    x = relu(net["model.2.weight"] @ relu(net["model.0.weight"] @ torch.ones(WIDTH, dtype=torch.float64)))
    z = torch.tensor([0.0, 0.5], dtype=torch.float64)
    x = x * torch.sigmoid(net["model.4.add_noise.0.weight"] @ z + net["model.4.add_noise.0.bias"])
    change = relu(net["model.7.weight"] @ relu(net["model.5.weight"] @ x))
    np.testing.assert_allclose(model.patterns[1, 1], change.numpy() / 0.1, atol=1e-12)


def test_any_checkpoint(tmp_path: Path) -> None:
    """A model of one's own: sums of columns, one of several epochs, covariates by name."""
    content = checkpoint(epochs=(100, 200))
    torch.save(content, tmp_path / "c")
    regions = ["a+b", *(f"v{k}" for k in range(WIDTH - 1))]
    with pytest.raises(ModelError, match=r"holds 2 epochs: 100, 200\. Name one: --epoch"):
        import_checkpoint(tmp_path / "c", regions, ["sex=F/M", "age"])
    model = import_checkpoint(tmp_path / "c", regions, ["sex=F/M", "age"], epoch=200)
    rng = np.random.default_rng(1)
    parts = rng.normal(1500, 100, (30, 2))
    rest = rng.normal(3000, 200, (30, WIDTH - 1))
    volumes = pd.DataFrame(np.hstack([rest[:, ::-1], parts]), columns=[*regions[:0:-1], "b", "a"])
    sex, age = rng.choice(["F", "M"], 30), rng.uniform(50, 90, 30)
    people = pd.DataFrame({"participant_id": [f"p{k:02d}" for k in range(30)]})
    cohort = ri.Cohort(volumes, people, pd.DataFrame({"age": age, "sex": sex}))
    expected = by_hand(
        content, 200, np.hstack([parts.sum(axis=1, keepdims=True), rest]), np.stack([sex == "M", age], axis=1)
    )
    np.testing.assert_allclose(model.apply(cohort)[["r1", "r2"]], expected, atol=1e-9)
    old = ri.Cohort(volumes, people, pd.DataFrame({"age": age + 30, "sex": sex}))
    told = model.apply(old)
    assert told["novel"].mean() > 0.5
    assert told.loc[told["novel"], "novel_because"].str.contains("age .* is outside 50 to 90").all()
    with pytest.raises(ModelError, match=r"1 regions are missing: a\+b"):
        model.apply(ri.Cohort(volumes.drop(columns="b"), people, cohort.covariates))


@pytest.mark.parametrize(
    ("regions", "covariates", "message"),
    [
        (["v"], ["sex=F/M", "age"], "has 12 regions, 1 different"),
        (["v0"] * WIDTH, ["sex=F/M", "age"], "has 12 regions, 1 different"),
        ([f"v{k}" for k in range(WIDTH)], ["age"], "corrected for 2 covariates, 1 were named"),
        ([f"v{k}" for k in range(WIDTH)], ["sex", "age=young/old"], "checkpoint has age from 50 to 90"),
        (["a+", *(f"v{k}" for k in range(WIDTH - 1))], ["sex", "age"], r"'a\+' is no region"),
    ],
)
def test_a_wrong_description_is_named(regions: list[str], covariates: list[str], message: str, tmp_path: Path) -> None:
    torch.save(checkpoint(), tmp_path / "c")
    with pytest.raises(ModelError, match=message):
        import_checkpoint(tmp_path / "c", regions, covariates)


class Evil:
    """Writes a file where it is unpickled by pickle's own rules."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.write_text, (self.path, "was here"))


class Shell(Evil):
    """The same by the shell."""

    def __reduce__(self) -> tuple[Any, ...]:
        import os

        return (os.system, (f"touch {self.path}",))


class Bomb:
    """An array of a size that no memory has, by numpy's own hand."""

    def __reduce__(self) -> tuple[Any, ...]:
        import numpy._core.multiarray as multiarray

        return (multiarray._reconstruct, (np.ndarray, (10**13,), b"b"))


def _in(place: tuple[Any, ...], value: Any) -> Callable[[dict[Any, Any], Path], Any]:
    """A checkpoint with something else in one place; `DROP` takes it out."""

    def change(content: dict[Any, Any], mark: Path) -> Any:
        at = content
        for key in place[:-1]:
            at = at[key]
        if value is DROP:
            del at[place[-1]]
        else:
            at[place[-1]] = value(mark) if isinstance(value, type) else value
        return content

    return change


DROP = object()
TAMPERED: dict[str, Callable[[dict[Any, Any], Path], Any]] = {
    "a pickle that writes a file": _in(("lr",), Evil),
    "a pickle that calls the shell": _in((300, "optimizer_D"), Shell),
    "a pickle alone": lambda content, mark: Shell(mark),
    "an endless array": _in(("normalization_variables", "cn_mean"), Bomb()),
    "no regions": _in(("nROI",), DROP),
    "no patterns": _in(("npattern",), DROP),
    "no epoch": _in((300,), DROP),
    "no scale": _in(("normalization_variables",), DROP),
    "no mean": _in(("normalization_variables", "cn_mean"), DROP),
    "no correction": _in(("correction_variables",), DROP),
    "no decomposer": _in((300, "netDecomposer"), DROP),
    "no bias": _in((300, "netReconstruction", "model.4.bias"), DROP),
    "a layer more": _in((300, "netReconstruction", "model.6.bias"), torch.zeros(2)),
    "a matrix turned": _in((300, "netDecomposer", "model.1.weight"), torch.zeros(WIDTH, 2 * WIDTH)),
    "a short mean": _in(("normalization_variables", "cn_mean"), np.zeros(WIDTH - 1)),
    "no spread": _in(("normalization_variables", "cn_std"), np.zeros(WIDTH)),
    "not finite": _in((300, "netReconstruction", "model.0.bias"), torch.full((WIDTH // 2,), float("nan"))),
    "a range of nothing": _in(("correction_variables", "max_cov"), np.array([0.0, 50.0])),
    "patterns as text": _in(("npattern",), "2"),
    "more regions than there are": _in(("nROI",), 10**9),
    "a list": lambda content, mark: [content],
    "complex weights": _in((300, "netReconstruction", "model.4.bias"), torch.zeros(2, dtype=torch.complex64)),
    "a sparse matrix": _in((300, "netDecomposer", "model.1.weight"), torch.zeros(2 * WIDTH, WIDTH).to_sparse()),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_tampered_checkpoints_are_refused(what: str, tmp_path: Path) -> None:
    mark, file, out = tmp_path / "mark", tmp_path / "c.saved_model", tmp_path / "m.safetensors"
    torch.save(TAMPERED[what](checkpoint(), mark), file)
    (tmp_path / "regions.txt").write_text("\n".join(f"v{k}" for k in range(WIDTH)))
    before = sorted(tmp_path.iterdir())
    arguments = [str(file), "--regions", str(tmp_path / "regions.txt"), "--covariates", "sex=F/M,age"]
    done = CliRunner().invoke(app, ["model", "import", *arguments, "--out", str(out)])
    assert isinstance(done.exception, ModelError)
    assert len(str(done.exception).splitlines()) == 1
    assert "c.saved_model" in str(done.exception)
    assert sorted(tmp_path.iterdir()) == before


def test_other_files_are_refused(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    torch.save(checkpoint(), whole)
    size = whole.stat().st_size
    contents = [whole.read_bytes()[:place] for place in (0, 1, 100, size // 2, size - 1)]
    contents += [pickle.dumps(Shell(tmp_path / "mark")), b"PK\x03\x04 and no more", b"\x00" * 1000]
    for content in contents:
        (tmp_path / "c").write_bytes(content)
        with pytest.raises(ModelError, match=r"^c "):
            read_upstream_checkpoint(tmp_path / "c")
    torch.save(checkpoint(), tmp_path / "c", _use_new_zipfile_serialization=False)
    with pytest.raises(ModelError, match="not a file that torch wrote"):
        read_upstream_checkpoint(tmp_path / "c")
    with pytest.raises(ModelError, match="cannot be read"):
        read_upstream_checkpoint(tmp_path / "absent")
    assert not (tmp_path / "mark").exists()


def test_another_checkpoint_is_not_taken_for_a_published_one(tmp_path: Path) -> None:
    torch.save(checkpoint(), tmp_path / "c")
    for name in PUBLISHED_MODELS:
        with pytest.raises(ModelError, match=f"not those of the published {name}"):
            import_published(tmp_path / "c", name)
    with pytest.raises(ModelError, match="did you mean 'ad_2rindices'"):
        import_published(tmp_path / "c", "ad_rindices")


def test_usage() -> None:
    for arguments in (["c", "--out", "m.safetensors"], ["c", "--as", "x", "--regions", "y", "--out", "m.safetensors"]):
        assert CliRunner().invoke(app, ["model", "import", *arguments]).exit_code == 2
