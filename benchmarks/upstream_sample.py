"""Accuracy and time of rindices and of the authors' package on the authors' sample data
and on simulated tasks.

    python -m benchmarks.upstream_sample [--version 0.1.1] [--steps 20000] [--members 3]
    [--adjusted] [--data basic]

Simulated tasks: the cohort of seed 0, with ``--adjusted`` for age, sex and head size,
as users do; without it as in the paper. The two are different data, and rows of one say
nothing about the other. ``sample`` has no covariates. It reads ``sample_roi.csv`` and
``sample_truth.csv`` of the authors' package from ``../shared/data/upstream`` or
``RINDICES_DATA``. rindices: the methods contrastive and trajectories. Authors' package:
0.0.1 is the program of the paper, 0.1.1 that of 2023 with a copula; ``--members``
members with the settings of its README (M = 3, batch 120, rate 8e-4, lambda 0.2, gamma
6) for ``--steps`` steps; 0 leaves it out. Time is processor time of one core. Writes
``results/upstream_sample.json`` and ``.md`` after each member; rows that exist are not
measured again. With ``--ours``, members of the method ``surreal-gan`` as it ships and
of the published networks with a random start at the rate of the package, for as many
steps, at lambda 0.2 on the same people. Longer trainings of the latter at the lambda of
best agreement: ``python -m benchmarks.paper.full_length --adjusted``.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import rindices as ri
from benchmarks.paper.common import PAPER
from benchmarks.paper.full_length import PATH, is_chosen
from benchmarks.step_speed import install_upstream
from rindices._typing import FloatArray
from rindices.experiments.tasks import TASKS
from rindices.learners.gan.recipe import SURREAL_GAN, Recipe, TrainingPlan
from rindices.learners.gan.train import extract_head, train_stacks
from rindices.selection.agreement import pattern_c_index

HERE = Path(__file__).parent
OUT = HERE / "results" / "upstream_sample.json"
DATA = (
    Path(os.environ.get("RINDICES_DATA", HERE.parents[1] / "shared" / "data"))
    / "upstream"
)
BATCH, EVALUATED_STEPS = 120, 10_000
METHODS = ("contrastive", "trajectories")
SHIPS = "rindices, method surreal-gan"


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--version",
        default="0.1.1",
        choices=["0.0.1", "0.1.1"],
        help="of the authors' package",
    )
    parser.add_argument("--adjusted", action="store_true")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument(
        "--data", nargs="+", default=["sample"], choices=["sample", *TASKS]
    )
    parser.add_argument(
        "--ours", action="store_true", help="also members of rindices's networks"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = json.loads(OUT.read_text("utf-8")) if OUT.is_file() else []
    with tempfile.TemporaryDirectory() as folder:
        if options.steps:
            install_upstream(Path(folder), options.version)
            sys.path.insert(0, folder)
        for name in options.data:
            cohort, truth = read_sample() if name == "sample" else simulate(name)
            if not options.adjusted:
                cohort = replace(cohort, covariates=cohort.covariates.iloc[:, :0])
            key = {"data": name, "adjusted": options.adjusted and name != "sample"}
            runs: list[tuple[dict[str, Any], Callable[[], list[dict[str, Any]]]]] = [
                (
                    {
                        "who": f"rindices, method {method}, ten members and their selection",
                        "seed": 0,
                        "steps": None,
                    },
                    partial(measure_rindices, cohort, truth, method),
                )
                for method in METHODS
            ]
            runs += [
                (
                    {
                        "who": f"SurrealGAN {options.version}",
                        "seed": seed,
                        "steps": options.steps,
                    },
                    partial(
                        measure_upstream,
                        options.version,
                        cohort,
                        truth,
                        options.steps,
                        seed,
                    ),
                )
                for seed in range(options.members if options.steps else 0)
            ]
            if options.ours and options.steps:
                random = PAPER.replace(min_steps=options.steps, max_steps=options.steps)
                recipes = {
                    SHIPS: SURREAL_GAN,
                    "rindices, random start at rate 8e-4": random,
                }
                runs += [
                    (
                        {"who": who, "seed": seed, "steps": recipe.max_steps},
                        partial(measure_member, cohort, truth, recipe, seed),
                    )
                    for who, recipe in recipes.items()
                    for seed in range(options.members)
                ]
            for run, measure in runs:
                run |= key
                if any(run.items() <= row.items() for row in rows):
                    continue
                measured = [run | row for row in measure()]
                again = [describe_run(row) for row in measured]
                rows = [
                    row for row in rows if describe_run(row) not in again
                ] + measured
                rows = sorted(rows, key=lambda row: (row["adjusted"], row["data"]))
                OUT.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
                OUT.with_suffix(".md").write_text(format_table(rows), "utf-8")
    print(format_table(rows))


def read_sample() -> tuple[ri.Cohort, FloatArray]:
    """Return the authors' sample data and the true severities of its patients."""
    cohort = ri.read_cohort(DATA / "sample_roi.csv", group="diagnosis")
    patients = cohort.people.loc[cohort.is_patient, "participant_id"]
    truth = (
        pd.read_csv(DATA / "sample_truth.csv")
        .set_index("participant_id")
        .loc[patients]
        .to_numpy()
    )
    return cohort, truth


def simulate(task: str) -> tuple[ri.Cohort, FloatArray]:
    """Return the cohort of a task and the true severities of its patients."""
    simulated = ri.simulate_cohort(task, 0)
    return simulated.cohort, simulated.truth


def measure_rindices(
    cohort: ri.Cohort, truth: FloatArray, method: str
) -> list[dict[str, Any]]:
    """Return accuracy and time of a study with M = 3 and ten members."""
    start = time.process_time()
    model = ri.fit(cohort, patterns=3, method=method, workers=1)
    seconds = time.process_time() - start
    r = model.apply(cohort).filter(regex=r"^r\d+$").to_numpy()[cohort.is_patient]
    agreement = dict(model.selection or {})["chosen"]["agreement"]["concordance"]
    return [
        {
            "pattern_c_index": pattern_c_index(truth, r).mean,
            "agreement": agreement,
            "seconds": seconds,
        }
    ]


def describe_run(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what identifies a row."""
    return tuple(row[name] for name in ("data", "adjusted", "who", "seed", "steps"))


def measure_member(
    cohort: ri.Cohort, truth: FloatArray, recipe: Recipe, seed: int
) -> list[dict[str, Any]]:
    """Return accuracy and time of one member of our networks."""
    values = ri.Preprocessing.fit(cohort).transform(cohort)
    controls, patients = values[cohort.is_control], values[cohort.is_patient]
    start = time.process_time()
    (member,) = train_stacks(
        controls,
        patients,
        TrainingPlan(patterns=truth.shape[1], recipe=recipe, seed=seed, members=(0,)),
    )
    seconds = time.process_time() - start
    score = pattern_c_index(truth, extract_head(member.weights).infer(patients)).mean
    return [{"pattern_c_index": score, "seconds": seconds}]


def measure_upstream(
    version: str, cohort: ri.Cohort, truth: FloatArray, steps: int, seed: int
) -> list[dict[str, Any]]:
    """Return accuracy and time of one member of the authors' package, at
    several steps.
    """
    from SurrealGAN.model import SurrealGAN, dotdict  # type: ignore[import-not-found]

    values = torch.as_tensor(
        ri.Preprocessing.fit(cohort).transform(cohort), dtype=torch.float32
    )
    controls, patients = values[cohort.is_control], values[cohort.is_patient]
    options = {"lam": 0.2, "zeta": 80, "kappa": 80, "gamma": 6, "mu": 500, "eta": 6}
    options |= {
        "nROI": values.shape[1],
        "npattern": truth.shape[1],
        "lr": 8e-4,
        "beta1": 0.5,
    }
    torch.manual_seed(seed)
    model = SurrealGAN()
    model.create(dotdict(options | {"max_gnorm": 100, "lipschitz_k": 0.5}))
    rng, rows, start = np.random.default_rng(seed), [], time.process_time()
    for step in range(1, steps + 1):
        x, y = (
            people[rng.choice(len(people), BATCH, replace=False)]
            for people in (controls, patients)
        )
        model.train_instance(x, y, *([0.02] if version == "0.1.1" else []))
        if step % EVALUATED_STEPS == 0 or step == steps:
            score = pattern_c_index(
                truth, np.asarray(model.predict_rindices(patients))
            ).mean
            rows.append(
                {
                    "steps": step,
                    "pattern_c_index": score,
                    "seconds": time.process_time() - start,
                }
            )
    return rows


def format_table(rows: list[dict[str, Any]]) -> str:
    """Return the result as Markdown."""
    names = (
        "data",
        "adjusted",
        "what was run",
        "members",
        "steps",
        "pattern-c-index",
        "one core, seconds a member",
    )
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(
            (row["data"], row["adjusted"], row["who"], row["steps"]), []
        ).append(row)
    for (data, adjusted, who, steps), group in groups.items():
        scores = [row["pattern_c_index"] for row in group]
        error = (
            f" +- {np.std(scores, ddof=1) / np.sqrt(len(scores)):.3f}"
            if len(scores) > 1
            else ""
        )
        seconds, number = (
            np.mean([row["seconds"] for row in group]),
            "" if steps is None else len(group),
        )
        cells = [
            data,
            "yes" if adjusted else "no",
            who,
            number,
            "" if steps is None else f"{steps:,}",
        ]
        lines.append(
            f"| {' | '.join(map(str, cells))} | {np.mean(scores):.3f}{error} | {seconds:.0f} |"
        )
    members = json.loads(PATH.read_text("utf-8"))
    for row in (
        row
        for row in members
        if row["adjusted"] and len(row["curve"]) > 1 and is_chosen(row, members)
    ):
        last = row["curve"][-1]
        cells = [
            row["task"],
            "yes",
            f"rindices, random start at rate 8e-4, lambda {row['orthogonality']:g} by agreement",
            row["members"],
        ]
        cells += [f"{last['steps']:,}", f"{last['mean']:.3f} +- {last['error']:.3f}"]
        lines.append(
            f"| {' | '.join(map(str, cells))} | {row['cpu_seconds'] / row['members']:.0f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
