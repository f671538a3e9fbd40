"""How often ``rindices replicate`` is right about two studies, by simulation, and two
halves of fcon1000.

``python -m benchmarks.replicate [--seeds 950:1000] [--data ../shared/data]``

A seed draws four patterns of 12 to 24 MUSE regions: structures, left and right, where a
random map as smooth as healthy people's correlations is highest; no two correlate above
0.3. Three cohorts of 300 controls and 400 patients (30 % lost at the highest severity)
have the patterns 1, 2, 3; the same; and 1, 2, 4. Their patterns are estimated by the
learner contrastive. Studies of different seeds share no pattern: each is compared with
the next six. There, other nulls are compared on the same pairs: regions exchanged;
structures exchanged within lobes (eight groups of structures that vary together); maps
as smooth as normal variation; and the null of the command, whose maps are smoother,
with changes themselves and with their signed square roots.

The null and the smallest correlation of a match, 0.5, were chosen on seeds 100 to 119;
seeds 900 to 949 were seen before the latter was. Rates of nulls are without it. Real
people: fcon1000, 50 years and more against under 40, halves by site, each a study with
default settings. Writes ``results/replicate.json``, ``.md``,
``replicate_fcon1000.png``.
"""

import argparse
import json
import shutil
import subprocess
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.cluster.hierarchy import fcluster, linkage

from benchmarks.outside import read_fcon1000
from rindices.analysis import replicate
from rindices.experiments.reference import load_reference
from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import TASKS
from rindices.learners.contrastive.estimator import ContrastiveICA
from rindices.preprocess.pipeline import Preprocessing
from rindices.tables.cohort import SITE
from rindices.tables.layouts.muse import region_label

OUT = Path(__file__).parent / "results" / "replicate"
SHARED = {"same": (0, 1, 2), "two": (0, 1, 3)}
N_NEXT, MAX_TRUE_CORRELATION, N_LOBES = 6, 0.3, 8
REGIONS = load_reference().regions
STRUCTURES = np.array(
    [region_label(name).removesuffix("_L").removesuffix("_R") for name in REGIONS]
)
NULLS = {
    "regions exchanged": "regions",
    "structures exchanged within lobes": "lobes",
    "maps as smooth as normal variation": "smooth",
    "smoother maps, changes instead of roots": "changes",
    "smoother maps (the null of the command)": "command",
}


def correlate(covariance: np.ndarray) -> np.ndarray:
    sd = np.sqrt(np.diag(covariance))
    return np.asarray(covariance / np.outer(sd, sd))


def average_structures(correlation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of each region's structure (R,), and the correlations of
    structures.
    """
    _, number = np.unique(STRUCTURES, return_inverse=True)
    mean = (np.eye(number.max() + 1)[:, number].T / np.bincount(number)).T
    return number, correlate(mean @ correlation @ mean.T)


def draw_patterns(seed: int) -> list[np.ndarray]:
    """Return the regions of four patterns as masks (R,)."""
    rng = np.random.default_rng([seed, 42])
    number, correlation = average_structures(
        correlate(load_reference().residual_covariance)
    )
    root = np.linalg.cholesky(correlation)
    patterns: list[np.ndarray] = []
    while len(patterns) < 4:
        height = root @ rng.normal(size=len(root))
        mask = np.isin(number, np.argsort(height)[-rng.integers(6, 13) :]).astype(float)
        if all(
            np.corrcoef(mask, other)[0, 1] < MAX_TRUE_CORRELATION for other in patterns
        ):
            patterns.append(mask)
    return patterns


def estimate(masks: list[np.ndarray], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the estimated patterns (M, R) of a simulated study, and correlations of
    regions in its controls.
    """
    patterns = tuple(tuple(np.array(REGIONS)[mask > 0]) for mask in masks)
    task = replace(TASKS["basic"], patterns=patterns, n_controls=300, n_patients=400)
    cohort = simulate_cohort(task, seed).cohort
    X = Preprocessing.fit(cohort).transform(cohort)
    learner = ContrastiveICA(len(masks), seed).fit(X, cohort.is_patient.astype(np.intp))
    return learner.patterns_, np.corrcoef(X[cohort.is_control].T)


def draw_null(
    kind: str, patterns: np.ndarray, correlation: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return maps (500, M, R) with the values of patterns in another order."""
    number, between = average_structures(correlation)
    size = (500, len(patterns), len(between))
    noise = rng.normal(size=size)
    if kind == "regions":
        return rng.permuted(np.broadcast_to(patterns, (500, *patterns.shape)), axis=-1)
    if kind == "lobes":
        lobe = fcluster(
            linkage(1 - between[np.triu_indices(len(between), 1)], "average"),
            N_LOBES,
            "maxclust",
        )
        maps = np.broadcast_to(patterns, (500, *patterns.shape)).copy()
        for side in (0, 1):  # the first and the second region of each structure
            members = [np.flatnonzero(number == each) for each in range(len(between))]
            for each in set(lobe):
                paired = [
                    regions[side]
                    for regions in np.array(members, dtype=object)[lobe == each]
                    if len(regions) > side
                ]
                order = noise[..., [number[region] for region in paired]].argsort(
                    axis=-1
                )
                maps[..., paired] = np.take_along_axis(
                    maps[..., paired], order, axis=-1
                )
        return maps
    noise = noise @ np.linalg.cholesky(between).T
    order = (
        (noise[..., number] + 1e-9 * rng.normal(size=(500, *patterns.shape)))
        .argsort(axis=-1)
        .argsort(axis=-1)
    )
    return np.take_along_axis(
        np.broadcast_to(np.sort(patterns), order.shape), order, axis=-1
    )


def compute_p(maps: np.ndarray, patterns: np.ndarray, other: np.ndarray) -> float:
    largest = replicate.correlate_maps(maps, other).max(axis=(1, 2))
    return float(
        (1 + (largest >= replicate.correlate_maps(patterns, other).max()).sum())
        / (1 + len(largest))
    )


def measure(seeds: range) -> dict[str, Any]:
    """Return the matches of each pair of studies."""
    masks = {seed: draw_patterns(seed) for seed in seeds}
    first = {seed: estimate(masks[seed][:3], 10 * seed) for seed in seeds}
    result: dict[str, Any] = {
        "seeds": [seeds.start, seeds.stop],
        "matched": [],
        "none": {name: [] for name in NULLS},
    }
    for number, (name, shared) in enumerate(SHARED.items(), start=1):
        counts = []
        for seed in seeds:
            other, _ = estimate([masks[seed][k] for k in shared], 10 * seed + number)
            found = replicate.replicate_patterns(
                first[seed][0], other, first[seed][1], STRUCTURES.tolist(), seed
            )
            counts.append(int(found.table["matched"].sum()))
        result[name] = counts
        print(name, counts, flush=True)
    for position, seed in enumerate(seeds):
        for step in range(1, N_NEXT + 1):
            (patterns, correlation), (other, _) = (
                first[seed],
                first[seeds[(position + step) % len(seeds)]],
            )
            found = replicate.replicate_patterns(
                patterns, other, correlation, STRUCTURES.tolist(), seed
            )
            roots, other_roots = (
                np.sign(each) * np.sqrt(np.abs(each)) for each in (patterns, other)
            )
            for name, kind in NULLS.items():
                rng = np.random.default_rng([seed, step])
                if kind == "command":
                    p = found.table["p"].min()
                    result["matched"].append(bool(found.table["matched"].any()))
                elif kind == "changes":
                    maps = replicate.draw_maps(
                        patterns, correlation, STRUCTURES.tolist(), rng
                    )
                    p = compute_p(maps, patterns, other)
                else:
                    p = compute_p(
                        draw_null(kind, roots, correlation, rng), roots, other_roots
                    )
                result["none"][name].append(float(p))
        print(
            seed,
            {
                name: round(float(np.mean(np.array(p) <= 0.05)), 3)
                for name, p in result["none"].items()
            },
            flush=True,
        )
    return result


def compare_halves(data: Path) -> dict[str, Any]:
    """Return what replicate says about two halves of fcon1000, by site; its figure is
    written beside the results.
    """
    table = read_fcon1000(data).cohort
    frame = pd.concat([table.people, table.covariates, table.volumes], axis=1)
    old = (
        frame["group"]
        .eq("patient")
        .groupby(frame[SITE])
        .sum()
        .sort_values(ascending=False, kind="stable")
    )
    is_first = {
        site: k % 4 in (0, 3) for k, site in enumerate(old.index)
    }  # by number of old people: A B B A
    with tempfile.TemporaryDirectory() as folder:
        names = ("half-1", "half-2")
        run = partial(
            subprocess.run, check=True, cwd=folder, capture_output=True, text=True
        )
        for name, half in zip(names, (True, False), strict=True):
            frame[frame[SITE].map(is_first) == half].to_csv(
                Path(folder) / f"{name}.csv", index=False
            )
            options = [
                "--group",
                "group",
                "--covariates",
                "sex",
                "--site",
                SITE,
                "--measure",
                "thickness",
            ]
            run(
                [
                    "rindices",
                    "fit",
                    f"{name}.csv",
                    *options,
                    "--seed",
                    "900",
                    "--workers",
                    "1",
                    "--out",
                    name,
                ]
            )
        done = json.loads(
            run(["rindices", "replicate", *names, "--out", "compared", "--json"]).stdout
        )
        shutil.copy(
            Path(folder) / "compared" / "replication.png",
            OUT.with_name("replicate_fcon1000.png"),
        )
        people = pd.read_csv(
            Path(folder) / "compared" / "replication_people.tsv", sep="\t"
        ).to_dict("records")
    sites = [sum(is_first.values()), len(is_first) - sum(is_first.values())]
    return {
        "sites": sites,
        "text": done["text"],
        "results": done["results"],
        "chance": done["chance"],
        "people": people,
    }


def summarise(result: dict[str, Any]) -> str:
    number = len(result["same"])
    lines = [
        "# Replication",
        "",
        "`python -m benchmarks.replicate`",
        "",
        "| two simulated studies | right |",
        "|---|---|",
    ]
    lines += [
        f"| the same three patterns: all matched | {sum(n == 3 for n in result['same'])} of {number} |"
    ]
    lines += [
        f"| two of three in common: two matched | {sum(n == 2 for n in result['two'])} of {number} |",
        "",
    ]
    pairs = len(result["matched"])
    lines += [
        f"| {pairs} pairs of studies without a common pattern | a match is found |",
        "|---|---|",
    ]
    lines += [
        f"| the command: its null, and a correlation of at least 0.5 | {np.mean(result['matched']):.1%} |"
    ]
    lines += [
        f"| {name} | {np.mean(np.array(p) <= 0.05):.1%} |"
        for name, p in result["none"].items()
    ]
    if "fcon1000" in result:
        lines += [
            "",
            f"fcon1000, halves of {result['fcon1000']['sites'][0]} and {result['fcon1000']['sites'][1]} sites:",
        ]
        lines += ["", f"> {result['fcon1000']['text']}"]
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", default="950:1000")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--part", choices=("all", "simulated", "real"), default="all")
    options = parser.parse_args()
    path = OUT.with_suffix(".json")
    result = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    if options.part != "real":
        result |= measure(range(*map(int, options.seeds.split(":"))))
    if options.part != "simulated":
        result["fcon1000"] = compare_halves(options.data)
    if result["seeds"][0] >= 900:
        path.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
        OUT.with_suffix(".md").write_text(summarise(result), "utf-8")
    print(summarise(result))


if __name__ == "__main__":
    main()
