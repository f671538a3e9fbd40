"""Processor time of the code in turns with an earlier commit, and with bare loops.

    git worktree add --detach /elsewhere/before a673d7a
    python -m benchmarks.floors --before /elsewhere/before [--rows NAME ...]

Each row is one piece of work, which a process of its own does with the code of this
commit and then with the earlier code (``rindices`` alone; this script drives both), in
turns. Seconds are user and system time of one thread, medians; a ratio is this
commit over the earlier one. Load of other programs changes both sides of a ratio, not
the ratio. Rows of bare loops have no earlier code: they are what ``apply`` is compared
with. Writes ``results/floors.json`` and ``.md``; rows that are not named keep their
results.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "benchmarks" / "results" / "floors.json"
N_TURNS, REGIONS, MEMBERS, PATTERNS = 3, 139, 10, 3
SHAPES = {"proportional": "straight", "staged": "curved"}
"""Shapes of patterns, and what the earlier commit calls them."""
SMALL, LARGE = 20_000, 200_000
MISSING_SHARE, MISSING_SETS = 0.1, 200


@dataclass(frozen=True, kw_only=True)
class Row:
    """A piece of work.

    Attributes
    ----------
    text : str
        What it is, for the page.
    work : callable
        Does it in a folder and returns seconds.
    people : int
        By whom seconds are divided; 0 for a whole study.
    compared_with : str
        Another row, of which this one is a multiple as well; empty for none.
    has_before : bool
        Whether the earlier code does it as well.
    """

    text: str
    work: Callable[[Path], float]
    people: int = 0
    compared_with: str = ""
    has_before: bool = True


def read_seconds() -> float:
    """Return user and system seconds of this process and its children."""
    return sum(os.times()[:4])


def prepare(folder: Path) -> None:
    """Write models and people, once for both sides, with the earlier code."""
    import rindices as ri
    from rindices.experiments.reference import load_reference

    cohort = ri.simulate_cohort("basic", seed=0).cohort
    for shape, word in SHAPES.items():
        settings: Any = {"shape": word}
        model = ri.fit(
            cohort, PATTERNS, members=MEMBERS, seed=0, method_settings=settings
        )
        model.save(folder / f"{shape}.safetensors")
    volumes, covariates = load_reference().draw(LARGE, np.random.default_rng(7))
    volumes.to_parquet(folder / "volumes.parquet")
    covariates.to_parquet(folder / "covariates.parquet")
    write_tables(folder)


def make_people(folder: Path, number: int) -> Any:
    """Return the first of the people as a cohort."""
    import rindices as ri

    frames = (
        pd.read_parquet(folder / f"{name}.parquet").iloc[:number].reset_index(drop=True)
        for name in ("volumes", "covariates")
    )
    volumes, covariates = frames
    people = pd.DataFrame({"participant_id": [f"sub-{k:07d}" for k in range(number)]})
    like = ri.simulate_cohort("tiny", seed=0).cohort
    return replace(like, volumes=volumes, covariates=covariates, people=people)


def apply_model(shape: str, number: int) -> Callable[[Path], float]:
    """Return the work of `FittedModel.apply` to people in memory."""

    def work(folder: Path) -> float:
        import rindices as ri

        people = make_people(folder, number)
        model = ri.load(folder / f"{shape}.safetensors")
        model.apply(people.take(np.arange(1_000)))
        start = read_seconds()
        model.apply(people)
        return read_seconds() - start

    return work


def multiply(folder: Path) -> float:
    """Multiply people by one matrix with a column for each pattern of each member."""
    volumes = pd.read_parquet(folder / "volumes.parquet").to_numpy(dtype=float)
    matrix = np.random.default_rng(0).normal(size=(REGIONS, PATTERNS * MEMBERS))
    volumes[:SMALL] @ matrix
    start = read_seconds()
    volumes @ matrix
    return read_seconds() - start


def write_tables(folder: Path) -> None:
    """Write people as parquet and CSV files, and a few of them for the time that a
    command takes to start.
    """
    frames = [
        pd.read_parquet(folder / f"{name}.parquet")
        for name in ("covariates", "volumes")
    ]
    people = pd.concat(frames, axis=1)
    volumes = dict.fromkeys(frames[1], np.float32)
    people = people.astype({**volumes, "sex": object})
    people.insert(0, "participant_id", [f"sub-{k:07d}" for k in range(LARGE)])
    for name, number in (("few", 1_000), ("many", LARGE)):
        (folder / name).mkdir(exist_ok=True)
        path = folder / name / "people.parquet"
        people[:number].to_parquet(path, row_group_size=50_000)
    people[:1_000].to_csv(folder / "few.csv", index=False)
    people[:SMALL].to_csv(folder / "many.csv", index=False)


def apply_files(few: str, many: str) -> Callable[[Path], float]:
    """Return the work of ``rindices apply`` to files, less that for few people."""

    def time_command(folder: Path, table: str) -> float:
        code = "from rindices.cli.main import run; run()"
        with tempfile.TemporaryDirectory() as out:
            results = Path(out) / ("out.csv" if table.endswith("csv") else "out")
            model, source = folder / "proportional.safetensors", folder / table
            options = ["apply", str(model), str(source), "--out", str(results)]
            start = read_seconds()
            subprocess.run(
                [sys.executable, "-c", code, *options, "--workers", "1"],
                check=True,
                capture_output=True,
            )
            return read_seconds() - start

    return lambda folder: time_command(folder, many) - time_command(folder, few)


def loop_over_parquet(folder: Path) -> float:
    """Read, multiply by a matrix as large as the model's, write: `apply_scale`."""
    from benchmarks.apply_scale import run_bare

    with tempfile.TemporaryDirectory() as out:
        start = read_seconds()
        run_bare([folder / "many" / "people.parquet"], Path(out) / "out")
        return read_seconds() - start


def copy_csv(folder: Path) -> float:
    """Read the CSV file, and write columns as many as those of the results."""
    with tempfile.TemporaryDirectory() as out:
        start = read_seconds()
        table = pd.read_csv(folder / "many.csv")
        table.iloc[:, :15].to_csv(Path(out) / "out.csv", index=False)
        return read_seconds() - start


def fit_members(is_complete: bool) -> Callable[[Path], float]:
    """Return the work of the learner, with all cells or without a tenth of them."""

    def work(folder: Path) -> float:
        import rindices as ri
        from rindices.learners.prepared_people import N_FOLDS, PreparedPeople
        from rindices.learners.trajectory.members import fit_trajectory_members
        from rindices.preprocess.pipeline import Preprocessing

        cohort = ri.simulate_cohort("basic", seed=0).cohort
        values = Preprocessing.fit(cohort).transform(cohort)
        if not is_complete:
            rng = np.random.default_rng(0)
            sets = rng.random((MISSING_SETS, values.shape[1])) < MISSING_SHARE
            values[sets[rng.integers(MISSING_SETS, size=len(values))]] = np.nan
        people = PreparedPeople(X=values, y=cohort.is_patient.astype(np.intp))
        numbers = range(N_FOLDS)
        start = read_seconds()
        members = people.deal_to_members(numbers, 0)
        fit_trajectory_members(members, PATTERNS, numbers, 0, "auto")
        return read_seconds() - start

    return work


ROWS = {
    f"apply {shape} {number}": Row(
        text=f"`apply` in memory, {shape} patterns, {number:,} people",
        work=apply_model(shape, number),
        people=number,
        compared_with="product",
    )
    for shape in SHAPES
    for number in (SMALL, LARGE)
} | {
    "product": Row(
        text=f"one product of N x {REGIONS} by {REGIONS} x {PATTERNS * MEMBERS}",
        work=multiply,
        people=LARGE,
        has_before=False,
    ),
    "apply parquet": Row(
        text=f"`rindices apply`, parquet to parquet, {LARGE:,} people",
        work=apply_files("few", "many"),
        people=LARGE,
        compared_with="bare parquet",
    ),
    "bare parquet": Row(
        text="bare loop: read, multiply by a matrix as large as the model's, write",
        work=loop_over_parquet,
        people=LARGE,
        has_before=False,
    ),
    "apply csv": Row(
        text=f"`rindices apply`, CSV to CSV, {SMALL:,} people",
        work=apply_files("few.csv", "many.csv"),
        people=SMALL,
        compared_with="pandas csv",
    ),
    "pandas csv": Row(
        text="pandas reads the CSV file and writes a table as large as the results",
        work=copy_csv,
        people=SMALL,
        has_before=False,
    ),
    "complete": Row(
        text="five members of the default method, 1,392 people, all cells",
        work=fit_members(is_complete=True),
        has_before=False,
    ),
    "missing cells": Row(
        text=f"the same with {MISSING_SHARE:.0%} of cells missing in {MISSING_SETS} patterns",
        work=fit_members(is_complete=False),
        compared_with="complete",
        has_before=False,
    ),
}


def run_in_process(name: str, folder: Path, root: Path) -> float:
    """Do the work of a row in a process of its own, with the code below a folder."""
    threads = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
    )
    module = [sys.executable, "-m", "benchmarks.floors"]
    command = [*module, "--work", name, "--folder", str(folder)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | threads | {"PYTHONPATH": str(root / "src")},
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout.split()[-1])


def measure(name: str, folder: Path, before: Path, turns: int) -> dict[str, float]:
    """Return the seconds of a row on both sides, medians over turns."""
    sides = {"now": ROOT} | ({"before": before} if ROWS[name].has_before else {})
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(turns):
        for side, root in sides.items():
            seconds[side].append(run_in_process(name, folder, root))
    result = {side: median(values) for side, values in seconds.items()}
    result["turns"] = turns
    if "before" in result:
        result["ratio"] = result["now"] / result["before"]
    print(name, {key: round(value, 3) for key, value in result.items()}, flush=True)
    return result


def read_measured() -> dict[str, Any]:
    """Return what is measured so far."""
    return json.loads(OUT.read_text("utf-8")) if OUT.exists() else {"rows": {}}


def format_row(name: str, results: dict[str, dict[str, float]]) -> str:
    """Return the line of a row."""
    row, own = ROWS[name], results[name]
    sides = [own.get(side) for side in ("before", "now")]
    unit = 1e6 / row.people if row.people else 1.0
    form = "{:.1f} us a person" if row.people else "{:.1f} s"
    cells = ["" if side is None else form.format(side * unit) for side in sides]
    ratio = f"{own['ratio']:.2f}" if "ratio" in own else ""
    multiple = ""
    if row.compared_with in results:
        other = ROWS[row.compared_with]
        floor = results[row.compared_with]["now"] / max(other.people, 1)
        multiple = f"{own['now'] / max(row.people, 1) / floor:.1f}"
    turns = f"{own['turns']:.0f}"
    return f"| {row.text} | {' | '.join(cells)} | {ratio} | {multiple} | {turns} |"


def format_page(measured: dict[str, Any]) -> str:
    """Return the results as a page."""
    lines = [
        "# Cost near its floor",
        "`python -m benchmarks.floors --before FOLDER`, with a worktree of commit a673d7a in FOLDER.",
        "",
        "Processor seconds (user and system) of one thread, medians over processes of each side in turns. A ratio is",
        "this commit over the earlier one. Multiples are of the row that says what the work is compared with: the",
        "matrix product for `apply` in memory, the complete study for missing cells.",
        "",
        "| work | a673d7a | now | ratio | multiple | turns |",
        "|---|---|---|---|---|---|",
    ]
    results = measured["rows"]
    return "\n".join(
        [*lines, *(format_row(name, results) for name in ROWS if name in results), ""]
    )


def main() -> None:
    """Measure the rows that are asked for, and write all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--rows", nargs="*", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--turns", type=int, default=N_TURNS)
    steps = ["prepare", *ROWS]
    parser.add_argument("--work", choices=steps, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.work == "prepare":
        prepare(arguments.folder)
        print(0.0)
        return
    if arguments.work:
        print(ROWS[arguments.work].work(arguments.folder))
        return
    if arguments.before is None:
        parser.error("--before is needed: a worktree of the earlier commit")
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="rindices-"))
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "covariates.parquet").exists():
        run_in_process("prepare", folder, arguments.before)
    for name in arguments.rows:
        row = measure(name, folder, arguments.before, arguments.turns)
        # other rows may have been measured meanwhile
        measured = read_measured()
        measured["rows"][name] = row
        OUT.write_text(json.dumps(measured, indent=1) + "\n", "utf-8")
        OUT.with_suffix(".md").write_text(format_page(measured), "utf-8")


if __name__ == "__main__":
    main()
