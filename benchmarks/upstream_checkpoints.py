"""The two published checkpoints of the authors: R-indices, parts of patterns and
synthetic patients, beside theirs.

    python -m benchmarks.upstream_checkpoints

R-indices of the 23 people of NiChart's demonstration (``../shared/data/nichart_demo``)
by the imported model, in memory, beside those of ``apply_saved_model`` of SurrealGAN
0.1.1, which is installed into a temporary folder. The parts of each pattern (g1) and
synthetic patients (f) of the same people by ``SurrealGAN.load_networks``, beside the
authors' networks. Writes ``results/upstream_checkpoints.json``, and
``docs/ad_transformation.png``: the change of the average control under f of the model
of Alzheimer's disease, for each pattern at three severities.
"""

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch

import rindices as ri
from benchmarks.step_speed import install_upstream
from rindices._typing import FloatArray
from rindices.exchange.importers import PUBLISHED_MODELS, import_published
from rindices.learners.gan.networks import SurrealNetworks
from rindices.model.apply_checks import add_summed_regions
from rindices.plot.brain import COLOUR_MAP, AtlasMatch, match_atlas, paint_view
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD

HERE = Path(__file__).parent
DATA = Path(os.environ.get("RINDICES_DATA", HERE.parents[1] / "shared" / "data"))
OUT = HERE / "results" / "upstream_checkpoints.json"
PICTURE = HERE.parent / "docs" / "ad_transformation.png"
EPOCHS = {"ad_2rindices": 15_000, "brain_aging_5rindices": 50_000}
HEAD_SIZE = "DL_MUSE_Volume_702"
SEVERITIES = (1 / 3, 2 / 3, 1.0)


def read_people() -> ri.Cohort:
    """Return the people of the demonstration."""
    demo = DATA / "nichart_demo"
    volumes = pd.read_csv(demo / "DLMUSE_Volumes.csv")
    people = (
        pd.read_csv(demo / "participants.csv")
        .rename(columns=str.lower)
        .rename(columns={"mrid": "MRID"})
    )
    people = people.merge(
        volumes[["MRID", HEAD_SIZE]].rename(columns={HEAD_SIZE: "icv"})
    )
    return ri.read_cohort(volumes, people, covariates=["age", "sex", "icv"])


def compare(name: str, cohort: ri.Cohort) -> dict[str, Any]:
    """Return how far our numbers are from those of the authors' package."""
    from SurrealGAN.model import SurrealGAN  # type: ignore[import-not-found]

    path = DATA / "upstream" / f"{name}.saved_model"
    model = import_published(path, name)
    combined, _ = add_summed_regions(cohort, model.sums)
    prepared = model.preprocessing.transform(combined)
    ours = model.apply(cohort).filter(regex=r"^r\d+$").to_numpy()
    theirs = SurrealGAN()
    theirs.load(str(path), EPOCHS[name])
    people = torch.as_tensor(prepared, dtype=torch.float32)
    order = list(PUBLISHED_MODELS[name]["order"])
    indices = theirs.predict_rindices(people)[:, order]
    networks = ri.SurrealGAN.load_networks(path)
    z = torch.rand(
        len(people), networks.n_patterns, generator=torch.Generator().manual_seed(0)
    )
    with torch.inference_mode():
        parts = networks.g1(people[None])[0].numpy()
        their_parts = np.stack(
            [each.numpy() for each in theirs.netDecomposer.forward(people)], axis=1
        )
        patients = networks.f(people[None], z[None])[0].numpy()
        their_patients = (people + theirs.netMapping.forward(people, z)).numpy()
    return {
        "people": len(people),
        "correlations": [
            float(np.corrcoef(a, b)[0, 1])
            for a, b in zip(ours.T, indices.T, strict=True)
        ],
        "largest_difference": float(np.abs(ours - indices).max()),
        "parts": float(np.abs(parts - their_parts).max()),
        "synthetic_patients": float(np.abs(patients - their_patients).max()),
    }


@torch.inference_mode()
def compute_changes(networks: SurrealNetworks) -> FloatArray:
    """Return the change of the average control under each pattern at each severity, (L,
    M, R), in control sd.
    """
    average = torch.full((1, 1, networks.g1.weight.shape[1]), CONTROL_MEAN)
    singles = torch.eye(networks.n_patterns)
    changes = [
        torch.stack(
            [
                networks.f(average, severity * z[None, None])[0, 0] - CONTROL_MEAN
                for z in singles
            ]
        )
        for severity in SEVERITIES
    ]
    return np.asarray(torch.stack(changes) / CONTROL_SD, dtype=float)


def draw(changes: FloatArray, regions: tuple[str, ...]) -> None:
    """Draw each pattern (rows) at three severities (columns): the left hemisphere from
    outside and one slice.
    """
    codes = [region.split("+") for region in regions]
    names = tuple(code for sums in codes for code in sums)
    match: AtlasMatch = match_atlas(names)
    if match.atlas is None:
        raise SystemExit(str(match.problem))
    position = {
        structure: index for index, structure in enumerate(match.atlas.structures)
    }
    limit = float(np.abs(changes).max())
    views = [match.atlas.cortex[0], match.atlas.slices[1]]
    figure, grid = plt.subplots(
        changes.shape[1], 2 * len(SEVERITIES), figsize=(7.1, 2.6)
    )
    for level, severity in enumerate(SEVERITIES):
        for pattern in range(changes.shape[1]):
            values = np.full(len(position), np.nan)
            for sums, change in zip(codes, changes[level, pattern], strict=True):
                for code in sums:
                    if code in match.drawn:
                        values[position[match.drawn[code]]] = change
            for number, view in enumerate(views):
                axes = grid[pattern, 2 * level + number]
                axes.imshow(paint_view(view, values, limit))
                axes.axis("off")
                if pattern == 0 and number == 0:
                    axes.set_title(f"z = {severity:.2g}", fontsize=8, loc="left")
                if level == 0 and number == 0:
                    axes.text(
                        -0.05,
                        0.5,
                        f"R{pattern + 1}",
                        transform=axes.transAxes,
                        ha="right",
                        va="center",
                        size=8,
                    )
    colours = plt.cm.ScalarMappable(plt.Normalize(-limit, limit), COLOUR_MAP)
    bar = figure.colorbar(
        colours, ax=grid, orientation="horizontal", fraction=0.05, pad=0.02, aspect=40
    )
    bar.set_label("change of the average control (control sd)", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    figure.savefig(PICTURE, dpi=150, bbox_inches="tight")


def main() -> None:
    """Compare and draw."""
    os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = (
        "1"  # the authors' package loads pickles
    )
    cohort = read_people()
    with TemporaryDirectory() as folder:
        install_upstream(Path(folder))
        sys.path.insert(0, folder)
        rows = {name: compare(name, cohort) for name in EPOCHS}
    OUT.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    print(json.dumps(rows, indent=1))
    path = DATA / "upstream" / "ad_2rindices.saved_model"
    draw(
        compute_changes(ri.SurrealGAN.load_networks(path)),
        import_published(path, "ad_2rindices").regions,
    )


if __name__ == "__main__":
    main()
