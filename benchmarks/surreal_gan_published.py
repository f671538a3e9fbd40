"""Method surreal-gan-published: its whole path with few steps, killed and resumed; and
one of its cells in full.

    python -m benchmarks.surreal_gan_published path|cell [--kills 3]

- ``path``: ``rindices fit --method surreal-gan-published`` on 150 controls and 200
  patients of basic (seed 900): two, three and four patterns, five lambdas, ten members
  each, a fiftieth of the steps (2,000) and bars that members of that length meet, the
  choice and the model of one member. Run once undisturbed, and once killed (SIGKILL)
  after random times and resumed by the same command; the files of both are compared
  byte by byte.
- ``cell``: three patterns, lambda 0.2, ten members, 100,000 to 120,000 steps, on all
  1,392 people of basic (seed 900): accuracy of members, agreement, time. The cost of
  the whole, 15 cells, follows from it. The same command resumes.

Both write ``results/surreal_gan/published.json``.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks.suites.cases import simulate_transformed
from rindices.experiments.simulate import simulate_cohort
from rindices.learners.gan.callbacks import Callback, TrainingEvent
from rindices.learners.gan.recipe import PUBLISHED, TrainingPlan
from rindices.learners.gan.train import extract_head, train_stacks
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.agreement import members_agreement, pattern_c_index
from rindices.tables.cohort import Cohort

OUT = Path(__file__).parent / "results" / "surreal_gan" / "published.json"
SEED, STEPS = 900, PUBLISHED.min_steps // 50
N_CONTROLS, N_PATIENTS = 150, 200
N_PATTERNS, N_MEMBERS, N_CELLS = 3, 10, 15
STUDY = f"""
[data]
volumes = "volumes.csv"
participants = "participants.tsv"
group = "group"
covariates = ["age", "sex", "icv"]

[model]
method = "surreal-gan-published"
method_settings = {{ min_steps = {STEPS}, max_steps = {STEPS}, reconstruction_bar = 1.0, monotonicity_bar = 1.0 }}

[run]
workers = 1
"""
COMPARED = (
    "model.safetensors",
    "networks.safetensors",
    "r_indices.tsv",
    "selection.json",
    "members.tsv",
    "training.tsv",
)
PROGRAM = [sys.executable, "-c", "from rindices.cli.main import run; run()", "fit"]


def write_people(folder: Path, cohort: Cohort) -> None:
    """Write the tables of the first controls and patients of a cohort, and
    the study.
    """
    kept = np.r_[
        np.flatnonzero(cohort.is_control)[:N_CONTROLS],
        np.flatnonzero(cohort.is_patient)[:N_PATIENTS],
    ]
    people = cohort.people.iloc[kept].join(cohort.covariates.iloc[kept])
    volumes = cohort.volumes.iloc[kept]
    volumes.insert(0, "participant_id", people["participant_id"])
    volumes.to_csv(folder / "volumes.csv", index=False)
    people.to_csv(folder / "participants.tsv", sep="\t", index=False)
    (folder / "study.toml").write_text(STUDY, "utf-8")


def fit(
    folder: Path, out: str, seconds: float | None = None
) -> tuple[bool, str, float]:
    """Run the command; return whether it came to its end, what it printed, and its
    processor seconds.
    """
    before = os.times()
    arguments = [*PROGRAM, "study.toml", "--out", out]
    process = subprocess.Popen(
        arguments, cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        _, printed = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        _, printed = process.communicate()
    after = os.times()
    spent = (
        after.children_user
        + after.children_system
        - before.children_user
        - before.children_system
    )
    return process.returncode == 0, printed, spent


def measure_path(kills: int) -> dict[str, Any]:
    """The whole path, undisturbed and killed."""
    times = random.Random(SEED)
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_people(folder, simulate_cohort("basic", SEED).cohort)
        done, printed, spent = fit(folder, "whole")
        assert done, printed
        resumed: list[str] = []
        for _ in range(kills):
            done, printed, _ = fit(
                folder, "killed", times.uniform(0.1, 1.4 / kills) * spent
            )
            resumed += [
                line for line in printed.splitlines() if "resumed from step" in line
            ]
            assert not done, "ended before it was killed"
        done, printed, _ = fit(folder, "killed")
        assert done, printed
        resumed += [
            line for line in printed.splitlines() if "resumed from step" in line
        ]
        equal = [
            (folder / "whole" / each).read_bytes()
            == (folder / "killed" / each).read_bytes()
            for each in COMPARED
        ]
        selection = json.loads((folder / "whole" / "selection.json").read_text("utf-8"))
    return {
        "steps": STEPS,
        "people": [N_CONTROLS, N_PATIENTS],
        "settings": len(selection["grid"]),
        "chosen": selection["chosen"]["setting"],
        "kills": kills,
        "resumed": resumed,
        "equal": dict(zip(COMPARED, equal, strict=True)),
        "processor_seconds": round(spent),
    }


class ProcessorClock(Callback):
    """Keeps the processor seconds of a training in a file, also those of the runs
    before it was resumed.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._start = path, time.process_time()
        self._before = float(path.read_text("utf-8")) if path.is_file() else 0.0

    @property
    def seconds(self) -> float:
        """Processor seconds so far."""
        return self._before + time.process_time() - self._start

    def on_check(self, event: TrainingEvent) -> None:
        """Write the seconds, and now and then where the training stands."""
        self._path.write_text(str(self.seconds), "utf-8")
        if event.step % 5_000 == 0:
            sys.stderr.write(
                f"step {event.step:,}, {self.seconds:.0f} processor seconds\n"
            )


def measure_cell() -> dict[str, Any]:
    """One cell in full."""
    simulated = simulate_transformed("basic", SEED)
    people = Preprocessing.fit(simulated.cohort, adjust="none").transform(
        simulated.cohort
    )
    patient = simulated.cohort.is_patient
    checkpoint = OUT.with_suffix(".checkpoint")
    clock = ProcessorClock(checkpoint.with_suffix(".seconds"))
    plan = TrainingPlan(
        patterns=N_PATTERNS,
        recipe=PUBLISHED,
        seed=SEED,
        members=tuple(range(N_MEMBERS)),
    )
    trained = train_stacks(
        people[~patient], people[patient], plan, path=checkpoint, callbacks=[clock]
    )
    seconds = clock.seconds
    for each in (checkpoint, checkpoint.with_suffix(".seconds")):
        each.unlink(missing_ok=True)
    indices = np.stack(
        [extract_head(each.weights).infer(people[patient]) for each in trained]
    )
    members = [pattern_c_index(simulated.truth, r).mean for r in indices]
    agreement = members_agreement(indices)
    return {
        "steps": [each.steps for each in trained],
        "outcomes": [each.outcome.value for each in trained],
        "members": members,
        "mean_member": float(np.mean(members)),
        "chosen_member": members[int(np.argmax(agreement.per_member))],
        "agreement": agreement.concordance,
        "processor_seconds": round(seconds),
        "core_hours_of_all_cells": round(N_CELLS * seconds / 3600, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=["path", "cell"])
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    torch.set_num_threads(1)
    row = measure_path(options.kills) if options.part == "path" else measure_cell()
    rows = json.loads(options.out.read_text("utf-8")) if options.out.is_file() else {}
    rows[options.part] = row
    options.out.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    print(json.dumps(row, indent=1))


if __name__ == "__main__":
    main()
