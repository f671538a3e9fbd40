"""Largest difference between the exported page, in a headless Chromium, and ``rindices
apply``.

    python -m benchmarks.page_equality

Fits models of every shape of the default method and one of the mean difference, writes
a table of 1,000 new people of whom a quarter lack regions and some are unlike the
training people, applies each model with the command and with its page, opened as a
file, and writes ``results/page_equality.json`` and ``.md``. Models that are there
already are not measured again.
"""

import json
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scripts.chromium import Browser

import rindices as ri
from rindices.experiments.tasks import TASKS
from rindices.report.model_page import export_page
from rindices.tables.cohort import Cohort

HERE = Path(__file__).parent

OUT = HERE / "results" / "page_equality.json"
N_PEOPLE, TRAINING_SEED, NEW_SEED = 1_000, 0, 9
SHAPES = {"proportional": "basic", "staged": "staged", "interacting": "together"}
AVERAGE = replace(
    TASKS["basic"],
    beta=(900.0, 900.0),
    noise=0.0,
    rate=0.1,
    n_controls=150,
    n_patients=200,
)
READY = "document.getElementById('status').textContent === 'Ready.'"
DONE = "/Done|cannot/.test(document.getElementById('status').textContent)"


def fit_model(kind: str) -> ri.FittedModel:
    if kind == "mean difference":
        return ri.fit(ri.simulate_cohort(AVERAGE, TRAINING_SEED).cohort, workers=1)
    cohort = ri.simulate_cohort(SHAPES[kind], TRAINING_SEED).cohort
    return ri.fit(cohort, 3, members=5, workers=1, method_settings={"shape": kind})


def make_table() -> pd.DataFrame:
    """Return new people with missing cells, altered regions, another unit, and
    covariates out of range.
    """
    task = replace(
        TASKS["basic"], n_controls=N_PEOPLE * 2 // 5, n_patients=N_PEOPLE * 3 // 5
    )
    cohort: Cohort = ri.simulate_cohort(task, NEW_SEED).cohort
    rng = np.random.default_rng(NEW_SEED)
    values, covariates = cohort.volumes.to_numpy(copy=True), cohort.covariates.copy()
    sets = [
        rng.choice(values.shape[1], size, replace=False)
        for size in rng.integers(1, 40, 25)
    ]
    for row in range(0, N_PEOPLE, 4):
        values[row, sets[row // 4 % len(sets)]] = np.nan
    for row in range(1, N_PEOPLE, 25):
        values[row, rng.integers(values.shape[1], size=3)] *= rng.choice([0.3, 3.0])
    values[2 :: N_PEOPLE // 10] *= 8.0
    covariates.loc[5, "age"] = 101.0
    covariates.loc[6, "icv"] *= 3.0
    regions = pd.DataFrame(values, columns=cohort.volumes.columns)
    return pd.concat([cohort.people[["participant_id"]], covariates, regions], axis=1)


def compare(model: ri.FittedModel, folder: Path) -> dict[str, Any]:
    """Return the largest differences, and the size of the page."""
    model.save(folder / "model.safetensors")
    export_page(model, folder / "model.html")
    table = folder / "new.csv"
    make_table().to_csv(table, index=False)
    arguments = [
        folder / "model.safetensors",
        table,
        "--out",
        folder / "applied.tsv",
        "--workers",
        "1",
    ]
    subprocess.run(["rindices", "apply", *map(str, arguments)], check=True)
    with Browser() as browser:
        tab = browser.open(folder / "model.html", ready=READY)
        tab.give_files("#files", [table])
        tab.wait(DONE, 600)
        saved = tab.download("#save", folder / "r_indices.tsv")
        requests = [
            url
            for url in tab.list_requests()
            if url != (folder / "model.html").as_uri()
        ]
    applied, page = (
        pd.read_csv(path, sep="\t", keep_default_na=False)
        for path in (folder / "applied.tsv", saved)
    )
    assert list(page.columns) == list(applied.columns)
    assert list(page["participant_id"]) == list(applied["participant_id"])
    ends = [name for name in applied if name.endswith(("_low", "_high"))]
    names = [f"r{k + 1}" for k in range(model.n_patterns)]
    return {
        "people": len(page),
        "novel": int(applied["outside_training_range"].sum()),
        "r_indices": float(np.abs(page[names] - applied[names]).to_numpy().max()),
        "intervals": float(np.abs(page[ends] - applied[ends]).to_numpy().max()),
        "unusual": float(
            np.abs(page["outlier_score"] - applied["outlier_score"]).max()
        ),
        "other_reasons": int(
            (page["outside_because"] != applied["outside_because"]).sum()
        ),
        "requests": len(requests),
        "megabytes": (folder / "model.html").stat().st_size / 1e6,
    }


def format_table(results: dict[str, Any]) -> str:
    lines = [
        "# The page of a model and `rindices apply`",
        f"Largest difference over {N_PEOPLE:,} new people with 139 regions, of whom a quarter lack 1 to 39 regions. "
        "The page was opened as a file in a headless Chromium; its results are the TSV file that it saves.",
        "",
        "| model | people | novel | R-indices | intervals | unusual | other reasons | requests | page (MB) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for kind, row in results.items():
        numbers = f"{row['r_indices']:.1e} | {row['intervals']:.1e} | {row['unusual']:.1e} | {row['other_reasons']}"
        lines.append(
            f"| {kind} | {row['people']:,} | {row['novel']} | {numbers} | {row['requests']} | {row['megabytes']:.1f} |"
        )
    return "\n".join(
        [*lines, "", "Written by `python -m benchmarks.page_equality`.", ""]
    )


def main() -> None:
    results = json.loads(OUT.read_text()) if OUT.is_file() else {}
    for kind in (*SHAPES, "mean difference"):
        if kind not in results:
            with tempfile.TemporaryDirectory() as folder:
                results[kind] = compare(fit_model(kind), Path(folder))
            OUT.write_text(json.dumps(results, indent=1) + "\n")
    OUT.with_suffix(".md").write_text(format_table(results))
    print(OUT.with_suffix(".md").read_text())


if __name__ == "__main__":
    main()
