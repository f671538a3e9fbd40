"""Processor seconds and memory of ``rindices fit`` with the default method.

Usage: ``python -m benchmarks.study_cost [--studies NAME ...]``. Each study is one
command with one worker: all numbers of patterns (three patterns and five members where
there are 1,000 regions), evidence, tests and report. Simulated cohorts of the task
basic: that of the README (1,392 people, the median of three runs), 50,000 people, 10
regions, and 1,000 regions, of which most are copies of others plus noise. Writes
``results/study_cost.json`` and ``.md``; studies that are not named keep their results.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rindices.experiments.simulate import simulate_cohort, write_cohort
from rindices.experiments.tasks import TASKS

ROOT = Path(__file__).parents[1]
OUT = ROOT / "benchmarks" / "results" / "study_cost.json"
STUDIES = {
    "README": "1,392 people, 139 regions",
    "people": "50,000 people, 139 regions",
    "few regions": "1,392 people, 10 regions",
    "many regions": "1,392 people, 1,000 regions; three patterns, five members",
}
N_RUNS = {"README": 3}
OPTIONS = {"many regions": ["--patterns", "3", "--members", "5"]}
FIT = [
    "--participants",
    "participants.tsv",
    "--group",
    "group",
    "--controls",
    "control",
    "--covariates",
    "age,sex,icv",
]


def write_study(name: str, folder: Path) -> None:
    """Write the tables of a study."""
    task = TASKS["basic"]
    if name == "people":
        task = replace(task, n_controls=20_000, n_patients=30_000)
    simulated = simulate_cohort(task, seed=0)
    write_cohort(simulated, folder)
    table = pd.read_csv(folder / "volumes.csv", index_col=0)
    if name == "few regions":
        chosen = list(
            dict.fromkeys(region for regions in task.patterns for region in regions[:5])
        )[:10]
        table = table[[region.replace("MUSE_", "DL_MUSE_Volume_") for region in chosen]]
    elif name == "many regions":
        rng = np.random.default_rng(0)
        chosen = rng.integers(table.shape[1], size=1_000 - table.shape[1])
        noise = rng.normal(1.0, 0.05, size=(len(table), len(chosen)))
        copies = pd.DataFrame(table.iloc[:, chosen].to_numpy() * noise, table.index)
        table = table.join(copies.add_prefix("copy"))
        table.columns = [
            f"region{k}" for k in range(table.shape[1])
        ]  # a plain table: all columns are regions
    table.to_csv(folder / "volumes.csv")


def measure(folder: Path, options: Sequence[str] = ()) -> dict[str, float]:
    """Return processor seconds and peak megabytes of ``rindices fit`` for a folder with
    tables.
    """
    code = "import sys\nfrom rindices.cli.main import run\ntry:\n    run()\nfinally:\n"
    # VmHWM begins with the program; the peak of getrusage is that of the parent where
    # it is larger
    code += "    print('peak', open('/proc/self/status').read().split('VmHWM:')[1].split()[0], file=sys.stderr)\n"
    threads = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as out:
        command = [
            sys.executable,
            "-c",
            code,
            "fit",
            "volumes.csv",
            *FIT,
            *options,
            "--workers",
            "1",
            "--out",
            out,
        ]
        environment = os.environ | threads | {"PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = float(done.stderr.rsplit("peak", 1)[1])
    return {
        "seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "mb": peak / 1024,
    }


def format_table(results: dict[str, Any]) -> str:
    """Return the results as a page."""
    lines = [
        "# Cost of a study with the default method",
        "`python -m benchmarks.study_cost`",
        "",
    ]
    lines += [
        "One command `rindices fit` with one worker: all numbers of patterns, evidence, tests and report.",
        "",
    ]
    lines += [
        "| study | processor seconds | peak memory, MB | code of commit |",
        "|---|---|---|---|",
    ]
    for name, text in STUDIES.items():
        if name in results:
            own = results[name]
            lines.append(
                f"| {text} | {own['seconds']:.0f} | {own['mb']:,.0f} | {own['commit']} |"
            )
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure the studies that are named and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--studies", nargs="*", default=list(STUDIES), choices=list(STUDIES)
    )
    options = parser.parse_args()
    results = json.loads(OUT.read_text("utf-8")) if OUT.is_file() else {}
    for name in options.studies:
        with tempfile.TemporaryDirectory() as folder:
            write_study(name, Path(folder))
            runs = [
                measure(Path(folder), OPTIONS.get(name, ()))
                for _ in range(N_RUNS.get(name, 1))
            ]
        results[name] = {
            key: float(np.median([run[key] for run in runs])) for key in runs[0]
        }
        head = ["git", "rev-parse", "--short", "HEAD"]
        results[name]["commit"] = subprocess.run(
            head, cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.strip()
        OUT.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
        OUT.with_suffix(".md").write_text(format_table(results), "utf-8")
        print(name, results[name], flush=True)


if __name__ == "__main__":
    main()
