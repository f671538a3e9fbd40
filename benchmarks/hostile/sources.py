"""Good models and checkpoints, and the commands that read them."""

import io
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import rindices as ri
from rindices.tables.cohort import Cohort

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "model" / "fixtures"
REGIONS, PATTERNS = 12, 2


@dataclass(frozen=True)
class Source:
    """A good file, the command that reads it with ``{file}`` and ``{out}``, and people
    to apply a model to.
    """

    name: str
    content: bytes
    command: tuple[str, ...]
    apply: tuple[str, ...]


def make_cohort(sites: bool) -> Cohort:
    """Return sixty people with twelve regions, age and sex, the cohort of
    the fixtures.
    """
    rng = np.random.default_rng(0)
    volumes = rng.normal(3000, 200, size=(60, REGIONS))
    volumes[30:, :4] -= rng.uniform(0, 900, size=(30, 1))
    people = {
        "participant_id": [f"p{k:02d}" for k in range(60)],
        "group": ["control"] * 30 + ["patient"] * 30,
    }
    if sites:
        people["site"] = ["A", "B"] * 30
    covariates = pd.DataFrame(
        {
            "age": rng.uniform(50, 80, 60),
            "sex": rng.choice(["F", "M"], 60).astype(object),
        }
    )
    table = pd.DataFrame(volumes, columns=[f"r{k}" for k in range(REGIONS)])
    return Cohort(
        volumes=table,
        people=pd.DataFrame(people),
        covariates=covariates,
        source="table",
        unit="mm3",
    )


def write_table(folder: Path) -> Path:
    """Write the people that models are applied to."""
    cohort = make_cohort(sites=True)
    path = folder / "people.csv"
    people = cohort.people[["participant_id", "site"]]
    pd.concat([people, cohort.covariates, cohort.volumes], axis=1).head(20).to_csv(
        path, index=False
    )
    return path


def make_checkpoint() -> dict[Any, Any]:
    """Return the content of a checkpoint of SurrealGAN 0.1.1 with random numbers."""
    import torch

    rng = np.random.default_rng(0)

    def draw(*shape: int) -> Any:
        return torch.as_tensor(rng.normal(0, 0.2, shape), dtype=torch.float32)

    wide, narrow = REGIONS // 2, REGIONS // 4
    mapping = {
        "model.0.weight": draw(wide, REGIONS),
        "model.2.weight": draw(narrow, wide),
    }
    mapping |= {
        "model.4.add_noise.0.weight": draw(narrow, PATTERNS),
        "model.4.add_noise.0.bias": draw(narrow),
    }
    mapping |= {
        "model.5.weight": draw(wide, narrow),
        "model.7.weight": draw(REGIONS, wide),
    }
    layers = {
        "model.0": (wide, REGIONS),
        "model.2": (narrow, wide),
        "model.4": (PATTERNS, narrow),
    }
    inverse = {f"{name}.weight": draw(*shape) for name, shape in layers.items()}
    inverse |= {f"{name}.bias": draw(shape[0]) for name, shape in layers.items()}
    first = {
        "model.1.weight": draw(PATTERNS * REGIONS, REGIONS),
        "model.1.bias": draw(PATTERNS * REGIONS),
    }
    networks = {
        "netMapping": mapping,
        "netReconstruction": inverse,
        "netDecomposer": first,
    }
    networks |= {
        "phi": torch.nn.Parameter(torch.tensor([1.0, 0.5, 1.0])),
        "optimizer_D": {"state": {}},
    }
    bounds = {"min_cov": np.array([0.0, 50.0]), "max_cov": np.array([1.0, 90.0])}
    return {
        **{"npattern": PATTERNS, "nROI": REGIONS, "lr": 8e-4, 300: networks},
        "normalization_variables": {
            "cn_mean": np.full(REGIONS, 3000.0),
            "cn_std": np.full(REGIONS, 200.0),
        },
        "correction_variables": bounds | {"beta": rng.normal(0, 100, (2, REGIONS))},
    }


def save_checkpoint(content: Any) -> bytes:
    """Return a checkpoint as torch writes it."""
    import torch

    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def make_model_sources(folder: Path) -> list[Source]:
    """Return models of each kind, with sites and with sums of regions."""
    table, path = write_table(folder), folder / "good.safetensors"
    files = {
        file.stem: (file.read_bytes(), ())
        for file in sorted(FIXTURES.glob("*.safetensors"))
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a small cohort
        ri.fit(
            make_cohort(sites=True), 2, members=2, method="contrastive", workers=1
        ).save(path)
    files["sites"] = (path.read_bytes(), ("--site", "site"))
    from rindices.exchange.importers import import_checkpoint

    (folder / "good.saved_model").write_bytes(save_checkpoint(make_checkpoint()))
    names = [f"r{k}" for k in range(REGIONS)]
    import_checkpoint(folder / "good.saved_model", names, ["sex=F/M", "age"]).save(path)
    files["imported"] = (path.read_bytes(), ())
    apply = ("apply", "{file}", str(table), "--workers", "1", "--out", "{out}")
    return [
        Source(name, content, (*apply, *rest), (*apply, *rest))
        for name, (content, rest) in files.items()
    ]


def make_checkpoint_source(folder: Path) -> Source:
    """Return a checkpoint."""
    table, regions = write_table(folder), folder / "regions.txt"
    regions.write_text("\n".join(f"r{k}" for k in range(REGIONS)), "utf-8")
    options = (
        "--regions",
        str(regions),
        "--covariates",
        "sex=F/M,age",
        "--out",
        "{out}",
    )
    apply = ("apply", "{file}", str(table), "--workers", "1", "--out", "{out}")
    return Source(
        "checkpoint",
        save_checkpoint(make_checkpoint()),
        ("model", "import", "{file}", *options),
        apply,
    )
