"""Processes of a study are killed at random moments: the result is that of an undisturbed run.

Usage: ``python -m benchmarks.federated_kills [--kills 20]``

In memory and with Dask, ``rindices fit`` gets SIGKILL with all its processes after 1 to 8 seconds of work, and the same
command is given again, until the wanted number of kills is reached. R-indices are compared byte by byte.

Two sites and the centre are processes of the command line. One of the three, drawn at random, gets SIGKILL after 1 to
8 seconds and is started again, until the wanted number of kills is reached. People are simulated (seed 0, 150 + 200, 12
regions). Writes ``results/federated_kills.md``.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import rindices as ri
from rindices.tables.cohort import Cohort

RESULTS = Path(__file__).parent / "results" / "federated_kills.md"
STUDY = '[model]\npatterns = [3]\nmembers = 2\nmethod_settings = { shape = "straight" }\n'
PROGRAM = [sys.executable, "-c", "from rindices.cli.main import run; run()"]


def write_site(folder: Path, cohort: Cohort) -> None:
    folder.mkdir(parents=True)
    volumes = cohort.volumes.copy()
    volumes.insert(0, "participant_id", cohort.people["participant_id"])
    volumes.to_csv(folder / "volumes.csv", index=False)
    pd.concat([cohort.people, cohort.covariates], axis=1).to_csv(folder / "people.tsv", sep="\t", index=False)


def list_commands(folder: Path, run: str) -> dict[str, list[str]]:
    """Return the commands of both sites and of the centre."""
    exchange, commands = str(folder / run / "exchange"), {}
    for name in ("site-a", "site-b"):
        tables = [str(folder / name / "volumes.csv"), "--participants", str(folder / name / "people.tsv")]
        columns = ["--group", "group", "--covariates", "age,sex,icv", "--private", str(folder / run / name)]
        commands[name] = ["site", *tables, *columns, "--exchange", exchange, "--name", name, "--poll", "0.05"]
    out = ["--sites", "2", "--out", str(folder / run / "out"), "--poll", "0.05"]
    commands["centre"] = ["federate", str(folder / "study.toml"), "--exchange", exchange, *out]
    return commands


def run_processes(folder: Path, run: str, n_kills: int, rng: random.Random) -> dict[str, int]:
    """Run a study to its end and return how often each process was killed."""
    commands, killed = list_commands(folder, run), dict.fromkeys(("site-a", "site-b", "centre"), 0)
    log = (folder / f"{run}.log").open("w")
    processes = {name: _start(words, log) for name, words in commands.items()}
    next_kill = time.monotonic() + rng.uniform(1, 8)
    while any(process.poll() is None for process in processes.values()):
        for name, process in processes.items():
            if process.poll() not in (None, 0):
                raise RuntimeError(f"{name} failed: {(folder / f'{run}.log').read_text()[-2000:]}")
        if sum(killed.values()) < n_kills and time.monotonic() > next_kill:
            name = rng.choice(sorted(killed))
            if processes[name].poll() is None:
                processes[name].kill()
                processes[name].wait()
                killed[name] += 1
                processes[name] = _start(commands[name], log)
            next_kill = time.monotonic() + rng.uniform(1, 8)
        time.sleep(0.05)
    return killed


def kill_fits(folder: Path, engine: str, n_kills: int, rng: random.Random) -> dict[str, object]:
    """Run ``fit`` undisturbed and with kills, and return the kills and whether R-indices are equal."""
    tables = [str(folder / "all" / "volumes.csv"), "--participants", str(folder / "all" / "people.tsv")]
    words = ["fit", *tables, "--group", "group", "--covariates", "age,sex,icv", "--patterns", "2,3", "--no-report"]
    words += ["--engine", engine, "--workers", "2", "--out"]
    log, killed, runs = (folder / f"{engine}.log").open("w"), 0, 0
    undisturbed, out = folder / f"{engine}-undisturbed", folder / f"{engine}-killed"
    if _start([*words, str(undisturbed)], log).wait():
        raise RuntimeError((folder / f"{engine}.log").read_text()[-2000:])
    while killed < n_kills:
        process, runs = _start([*words, str(out)], log, new_group=True), runs + 1
        try:
            process.wait(rng.uniform(3, 10))  # two seconds pass before the work begins
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            killed += 1
            continue
        shutil.rmtree(out)  # it has ended before the kill: begin anew
    if _start([*words, str(out)], log).wait():
        raise RuntimeError((folder / f"{engine}.log").read_text()[-2000:])
    equal = (undisturbed / "r_indices.tsv").read_bytes() == (out / "r_indices.tsv").read_bytes()
    return {"kills": killed, "runs": runs, "equal": equal}


def _start(words: list[str], log: object, new_group: bool = False) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([*PROGRAM, *words], stdout=log, stderr=log, process_group=0 if new_group else None)  # type: ignore[call-overload]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    n_kills = parser.parse_args().kills
    cohort = ri.simulate_cohort("small", seed=0).cohort
    cohort = Cohort(cohort.volumes.iloc[:, ::12], cohort.people, cohort.covariates, cohort.source, cohort.unit)
    labels = np.random.default_rng(0).integers(2, size=len(cohort))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for k, site in enumerate(("site-a", "site-b")):
            write_site(folder / site, cohort.take(labels == k))
        (folder / "study.toml").write_text(STUDY)
        write_site(folder / "all", cohort)
        rng = random.Random(0)
        fits = {engine: kill_fits(folder, engine, n_kills, rng) for engine in ("local", "dask")}
        run_processes(folder, "undisturbed", 0, rng)
        killed = run_processes(folder, "killed", n_kills, rng)
        models = [ri.load(folder / run / "out" / "model.safetensors") for run in ("undisturbed", "killed")]
        rounds = json.loads((folder / "killed" / "out" / "federation.json").read_text())["rounds"]
        logs = {site: pd.read_csv(folder / "killed" / site / "log.tsv", sep="\t") for site in ("site-a", "site-b")}
    equal = bool(np.array_equal(models[0].patterns, models[1].patterns))
    lines = [
        "# Kills of sites and centre",
        "",
        "Written by `python -m benchmarks.federated_kills`.",
        "",
        "| figure | value |",
        "|---|---|",
        f"| kills | {sum(killed.values())}: {', '.join(f'{name} {number}' for name, number in killed.items())} |",
        f"| rounds | {rounds} |",
        f"| answers in the logs | {', '.join(f'{site} {len(log)}' for site, log in logs.items())} |",
        f"| patterns equal, bit for bit | {equal} |",
        *(
            f"| `fit`, engine {engine}: kills, runs, R-indices equal | {', '.join(map(str, own.values()))} |"
            for engine, own in fits.items()
        ),
        "",
    ]
    RESULTS.write_text("\n".join(lines), "utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
