"""Centiles and intervals of the published models in healthy people who were not in the
reference.

    python -m benchmarks.centiles

The 291 healthy adults of IXI are halved 20 times. One half is the reference; of the
other, the share of people below the 5th, 25th, 50th, 75th and 95th centile is compared
with what it should be: over all, by sex, and below and above the median age. The
standard error counts both halves: sqrt(p (1 - p) (1 / reference + 1 / cell)). Cells of
fewer than 40 people are reported and not judged. As halves share people, the mean over
the 20 is judged by the error of one. The 90 % interval of a centile is checked where
the truth is known: references of 145 simulated people, whose R-indices are skewed.
Intervals of R-indices are checked in simulated patients: people of the other half,
altered by the authors' own network f at known severities. Writes
``results/centiles.json`` and ``.md``.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import ndtr
from scipy.stats import gamma
from scripts.make_healthy_people import read_ixi

import rindices as ri
from rindices._typing import BoolArray, FloatArray
from rindices.exchange.healthy import calibrate_with_healthy_people
from rindices.exchange.importers import PUBLISHED_MODELS, import_published
from rindices.model.apply_checks import add_summed_regions
from rindices.model.centiles import CentileReference

HERE = Path(__file__).parent
DATA = Path(os.environ.get("RINDICES_DATA", HERE.parents[1] / "shared" / "data"))
OUT = HERE / "results" / "centiles.json"
N_HALVES, LEAST, MAX_ERRORS = 20, 40, 3.0
CENTILES = (5, 25, 50, 75, 95)
SHAPE = 4.0  # of the gamma distribution of simulated R-indices


def judge_cell(
    shares: FloatArray, reference: int, people: float, share: float
) -> dict[str, Any]:
    """Return the mean share over halves and R-indices (H, M), and how far it is off."""
    error = float(np.sqrt(share * (1 - share) * (1 / reference + 1 / people)))
    off = (shares.mean(axis=0) - share) / error
    single = np.abs(shares - share) / error
    return {
        "expected": share,
        "shares": shares.mean(axis=0).tolist(),
        "standard_error": error,
        "off": off.tolist(),
        "is_judged": people >= LEAST,
        "is_within": bool(np.abs(off).max() <= MAX_ERRORS),
        "single_halves_beyond": float((single > MAX_ERRORS).mean()),
    }


def measure_halves(
    indices: FloatArray, age: FloatArray, is_male: BoolArray
) -> dict[str, Any]:
    """Return the shares below each centile in people outside the reference."""
    rng, half, middle = np.random.default_rng(0), len(age) // 2, np.median(age)
    cells = {
        "everyone": np.ones(len(age), dtype=bool),
        "women": ~is_male,
        "men": is_male,
        f"below {middle:.0f} years": age < middle,
        f"{middle:.0f} years and above": age >= middle,
    }
    shares: dict[str, list[FloatArray]] = {name: [] for name in cells}
    sizes: dict[str, list[int]] = {name: [] for name in cells}
    for _ in range(N_HALVES):
        order = rng.permutation(len(age))
        first, second = order[:half], order[half:]
        reference = CentileReference.fit(indices[first], age[first], is_male[first])
        centiles, _, _ = reference.compute(
            indices[second], age[second], is_male[second]
        )
        has_centile = ~np.isnan(centiles[:, 0])
        for name, cell in cells.items():
            own = centiles[cell[second] & has_centile]
            sizes[name].append(len(own))
            shares[name].append(
                np.stack([(own < each).mean(axis=0) for each in CENTILES])
            )
    rows = {}
    for name in cells:
        people, every = float(np.mean(sizes[name])), np.stack(shares[name])
        judged = [
            judge_cell(every[:, k], half, people, each / 100)
            for k, each in enumerate(CENTILES)
        ]
        rows[name] = {"people": people, "centiles": judged}
    return {"reference": half, "cells": rows}


def measure_centile_intervals(repeats: int = 300) -> dict[str, Any]:
    """Return how often the 90 % interval has the true centile, by the true centile."""
    rng, found = np.random.default_rng(1), []
    true = np.array([5, 25, 50, 75, 95]) / 100
    for _ in range(repeats):
        age, is_male = rng.uniform(40, 86, 145), rng.random(145) < 0.35
        noise = (gamma.rvs(SHAPE, size=145, random_state=rng) - SHAPE) / np.sqrt(SHAPE)
        values = 0.4 + 0.08 * (age - 60) / 10 + 0.03 * is_male + 0.18 * noise
        reference = CentileReference.fit(values[:, None], age, is_male)
        z = (gamma.ppf(true, SHAPE) - SHAPE) / np.sqrt(SHAPE)
        new_age = rng.uniform(42, 84, len(true))
        new_male = rng.random(len(true)) < 0.35
        new = 0.4 + 0.08 * (new_age - 60) / 10 + 0.03 * new_male + 0.18 * z
        _, low, high = reference.compute(new[:, None], new_age, new_male)
        found.append((low[:, 0] <= 100 * true) & (100 * true <= high[:, 0]))
    coverage = np.mean(found, axis=0)
    return {
        "repeats": repeats,
        "true": (100 * true).tolist(),
        "coverage": coverage.tolist(),
    }


@torch.inference_mode()
def measure_index_intervals(
    name: str, cohort: ri.Cohort, draws: int = 10
) -> dict[str, Any]:
    """Return how often the 90 % interval has the R-index at the true rank."""
    path = DATA / "upstream" / f"{name}.saved_model"
    model = import_published(path, name, with_healthy_people=False)
    networks = ri.SurrealGAN.load_networks(path)
    order = list(PUBLISHED_MODELS[name]["order"])
    permutation = np.random.default_rng(2).permutation(len(cohort))
    first, second = np.array_split(permutation, 2)
    calibrated = calibrate_with_healthy_people(model, cohort.take(first))
    combined, _ = add_summed_regions(cohort.take(second), model.sums)
    prepared = np.tile(model.preprocessing.transform(combined), (draws, 1))
    correlation = np.array(model.card.severity_correlation)
    rng = np.random.default_rng(3)
    root = np.linalg.cholesky(correlation)
    severities = ndtr(rng.standard_normal((len(prepared), len(order))) @ root.T)
    theirs = np.empty_like(severities)
    theirs[:, order] = severities  # in the order of the checkpoint
    people, z = (
        torch.as_tensor(each, dtype=torch.float32)[None] for each in (prepared, theirs)
    )
    patients = networks.f(people, z)[0].numpy().astype(float)
    indices = model.heads[0].infer(patients)[:, order]
    assert calibrated.intervals is not None
    low, high = calibrated.intervals.compute_bounds(indices, np.zeros_like(indices))
    ranks = (np.argsort(np.argsort(severities, axis=0), axis=0) + 0.5) / len(severities)
    truth = np.stack(
        [np.quantile(own, rank) for own, rank in zip(indices.T, ranks.T, strict=True)]
    ).T
    is_covered = (low <= truth) & (truth <= high)
    return {
        "patients": len(indices),
        "coverage": is_covered.mean(axis=0).tolist(),
        "width": (high - low).mean(axis=0).tolist(),
        "rank_correlation": [
            float(np.corrcoef(a, b)[0, 1])
            for a, b in zip(ranks.T, indices.argsort(0).argsort(0).T, strict=True)
        ],
    }


def write_table(results: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    text = [
        "# Centiles of the published models in healthy people outside the reference",
        "",
    ]
    text += [
        "Written by `python -m benchmarks.centiles`. Share of held-out people of IXI below each centile, in percent, as the mean over "
        f"{N_HALVES} random halves; the range is over R-indices. Off: the largest distance from what is expected, in standard errors of both "
        "halves' sampling; beyond: share of single halves and R-indices that are more than three of them off.",
        "",
        "| model | people | number | "
        + " | ".join(f"below {each}" for each in CENTILES)
        + " | off | beyond | |",
        "|---|---|---|" + "---|" * (len(CENTILES) + 3),
    ]
    for name, model in results["models"].items():
        for cell, row in model["halves"]["cells"].items():
            judged = row["centiles"]
            ranges = [
                f"{100 * min(each['shares']):.1f} to {100 * max(each['shares']):.1f}"
                for each in judged
            ]
            off = max(abs(value) for each in judged for value in each["off"])
            beyond = np.mean([each["single_halves_beyond"] for each in judged])
            verdict = (
                "within" if all(each["is_within"] for each in judged) else "beyond"
            )
            verdict = verdict if judged[0]["is_judged"] else "not judged"
            text.append(
                f"| {name} | {cell} | {row['people']:.0f} | {' | '.join(ranges)} | {off:.2f} | {100 * beyond:.1f} % | {verdict} |"
            )
    simulated = results["centile_intervals"]
    shares = ", ".join(
        f"{100 * share:.0f} % at {true:.0f}"
        for true, share in zip(simulated["true"], simulated["coverage"], strict=True)
    )
    text += [
        "",
        f"The 90 % interval of a centile holds the true one in {shares} (references of 145 simulated people with skewed R-indices, {simulated['repeats']} times).",
        "",
        "| model | R-index | 90 % interval holds the R-index at the rank of the severity | mean width | rank correlation with the severity |",
        "|---|---|---|---|---|",
    ]
    for name, model in results["models"].items():
        own = model["index_intervals"]
        columns = zip(
            own["coverage"], own["width"], own["rank_correlation"], strict=True
        )
        for k, (coverage, width, correlation) in enumerate(columns, start=1):
            text.append(
                f"| {name} | r{k} | {100 * coverage:.0f} % | {width:.2f} | {correlation:.2f} |"
            )
    patients = results["models"]["ad_2rindices"]["index_intervals"]["patients"]
    text.append("")
    text.append(
        f"{patients:,} simulated patients each: healthy people outside the reference, altered by the checkpoint's network f at known severities."
    )
    return "\n".join(text) + "\n"


def main() -> None:
    """Measure and write."""
    cohort = read_ixi(DATA)
    age = cohort.covariates["age"].to_numpy(dtype=float)
    is_male = (cohort.covariates["sex"] == "M").to_numpy()
    models = {}
    for name in PUBLISHED_MODELS:
        path = DATA / "upstream" / f"{name}.saved_model"
        model = import_published(path, name, with_healthy_people=False)
        indices = model.apply(cohort)[model.index_names].to_numpy(dtype=float)
        models[name] = {
            "halves": measure_halves(indices, age, is_male),
            "index_intervals": measure_index_intervals(name, cohort),
        }
    results = {"models": models, "centile_intervals": measure_centile_intervals()}
    OUT.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    OUT.with_suffix(".md").write_text(write_table(results), "utf-8")


if __name__ == "__main__":
    main()
