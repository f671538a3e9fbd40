"""Rate and memory of applying a model to ten million people, compared with a bare loop.

    python benchmarks/apply_scale.py [--people 10000000] [--folder FOLDER] [--keep]

Fits the default recipe (ten members) to a simulated cohort, writes a folder of parquet files with so many people of 139
regions (float32, 0.6 kB a person), and runs in turn, each as a separate process:

- the bare loop: reads the regions, multiplies them by one matrix, writes id and M columns, with the default threads of
  pyarrow and numpy. The matrix is as large as the model: 139 rows, a column for each member's pattern and for each of
  the 139 directions of novelty, in double precision as in apply. It runs before and after the next;
- ``rindices apply`` to a folder: checks, preprocessing, members, intervals, novelty with reasons, ids that repeat;
- the bare loop with its files shared between as many processes as there are cores, one thread each;
- the barest loop: the matrix is 139 x M, in single precision.

Memory is the largest sum of resident memory (RSS) over all processes of the command, shared libraries counted in each.
Writes ``results/apply_scale.json`` and ``.md``. Run it on an idle machine.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

OUT = Path(__file__).parent / "results" / "apply_scale.json"
FILE, GROUP = 1_000_000, 50_000
PATTERNS, MEMBERS, REGIONS = 3, 10, 139


def write_people(folder: Path, people: int) -> None:
    """Write the people, one row group at a time."""
    from rindices.experiments.reference import load_reference

    folder.mkdir(parents=True)
    reference = load_reference()
    for first in range(0, people, FILE):
        writer = None
        for start in range(first, min(first + FILE, people), GROUP):
            number = min(GROUP, people - start)
            volumes, covariates = reference.draw(number, np.random.default_rng([7, start]))
            columns = {"participant_id": [f"sub-{k:010d}" for k in range(start, start + number)]}
            columns |= {name: covariates[name].to_numpy() for name in ("age", "icv")}
            columns |= {"sex": covariates["sex"].astype(object).tolist()}
            columns |= {name: volumes[name].to_numpy(dtype=np.float32) for name in volumes}
            table = pa.table(columns)
            path = folder / f"people-{first // FILE:04d}.parquet"
            writer = writer or pq.ParquetWriter(path, table.schema, use_dictionary=["sex"])
            writer.write_table(table, row_group_size=GROUP)
        if writer is not None:
            writer.close()


def run_bare_loop(
    files: list[Path], out: Path, width: int = PATTERNS * MEMBERS + REGIONS, kind: str = "float64"
) -> None:
    """Read, multiply by a matrix of that width, write the first M columns."""
    out.mkdir(exist_ok=True)
    for path in files:
        file = pq.ParquetFile(path)
        regions = [name for name in file.schema_arrow.names if name.startswith("MUSE")]
        matrix = np.random.default_rng(0).normal(size=(len(regions), width)).astype(kind)
        writer = None
        for batch in file.iter_batches(20_000, columns=["participant_id", *regions]):
            values = np.stack([batch.column(name).to_numpy() for name in regions], dtype=kind).T @ matrix
            rows = {"participant_id": batch.column("participant_id")}
            rows |= {f"r{k + 1}": values[:, k] for k in range(PATTERNS)}
            table = pa.table(rows)
            writer = writer or pq.ParquetWriter(out / path.name, table.schema, use_dictionary=False)
            writer.write_table(table)
        if writer is not None:
            writer.close()


def run_bare_loop_in_processes(files: list[Path], out: Path) -> None:
    """Run the bare loop with its files distributed over processes of one thread each."""
    number = os.cpu_count() or 1
    out.mkdir(exist_ok=True)
    processes = [multiprocessing.Process(target=run_bare_loop, args=(files[k::number], out)) for k in range(number)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def time_command(command: list[str], **environment: str) -> tuple[float, float]:
    """Return the seconds and the peak memory in MB of a command and its children."""
    start = time.perf_counter()
    process = subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.DEVNULL)
    peak = [0.0]
    watch = threading.Thread(target=_track_memory, args=(process, peak))
    watch.start()
    if process.wait():
        raise SystemExit(f"failed: {' '.join(command)}")
    seconds = time.perf_counter() - start
    watch.join()
    return seconds, peak[0]


def _track_memory(process: "subprocess.Popen[bytes]", peak: list[float]) -> None:
    root = psutil.Process(process.pid)
    while process.poll() is None:
        total = 0
        try:
            for child in (root, *root.children(recursive=True)):
                total += child.memory_info().rss
        except psutil.NoSuchProcess:
            pass
        peak[0] = max(peak[0], total / 1e6)
        time.sleep(0.5)


def measure_rates(folder: Path, people: int) -> dict[str, float]:
    """Run all programs in turn and return rates and memory."""
    import rindices as ri

    model = folder / "model.safetensors"
    if not model.exists():
        ri.fit(ri.simulate_cohort("basic", seed=0).cohort, PATTERNS, members=MEMBERS, seed=0).save(model)
        print("model fitted", flush=True)
    table = folder / "people"
    if not table.exists():  # complete, from an earlier run with --keep
        write_people(folder / "unfinished", people)
        (folder / "unfinished").rename(table)
    print("people written", flush=True)
    script, runs = [sys.executable, __file__, "--folder", str(folder)], []
    apply = [sys.executable, "-c", "from rindices.cli.main import run; run()", "apply", str(model), str(table)]
    for name in ("bare", "apply", "bare again", "bare shared", "barest"):
        for old in (folder / "out", folder / "applied"):
            shutil.rmtree(old, ignore_errors=True)
        if name == "apply":
            seconds, peak = time_command([*apply, "--out", str(folder / "applied")])
            written = sum(path.stat().st_size for path in (folder / "applied").glob("*.parquet"))
            rows = sum(pq.read_metadata(path).num_rows for path in (folder / "applied").glob("*.parquet"))
            assert rows == people
        else:
            threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} if name == "bare shared" else {}
            seconds, peak = time_command([*script, "--run", name.removesuffix(" again")], **threads)
        runs.append((name, people / seconds, peak))
        print(f"{name}: {people / seconds:,.0f} people a second, {peak:,.0f} MB", flush=True)
    rates, peaks = {name: rate for name, rate, _ in runs}, {name: peak for name, _, peak in runs}
    bare_rate = (rates["bare"] + rates["bare again"]) / 2
    size = sum(path.stat().st_size for path in table.glob("*.parquet"))
    return {
        "people": people,
        "regions": REGIONS,
        "members": MEMBERS,
        "cores": os.cpu_count() or 1,
        "bytes_a_person": size / people,
        "bytes_a_person_written": written / people,
        "bare_people_per_second": bare_rate,
        "bare_shared_people_per_second": rates["bare shared"],
        "barest_people_per_second": rates["barest"],
        "apply_people_per_second": rates["apply"],
        "apply_over_bare": rates["apply"] / bare_rate,
        "apply_over_bare_shared": rates["apply"] / rates["bare shared"],
        "apply_over_barest": rates["apply"] / rates["barest"],
        "apply_peak_mb": peaks["apply"],
        "bare_peak_mb": peaks["bare"],
    }


def format_report(result: dict[str, float]) -> str:
    """Return the result as Markdown."""
    rate, plain, shared, barest = (
        result[f"{name}_people_per_second"] for name in ("apply", "bare", "bare_shared", "barest")
    )
    volumes, results = result["bytes_a_person"] / 1e3, result["bytes_a_person_written"] / 1e3  # TB for a billion
    bare_mb = result["bare_peak_mb"]
    return f"""# Applying a model to {result["people"]:,} people
`python benchmarks/apply_scale.py`: {result["regions"]} regions, {result["members"]} members of the default recipe,
{result["cores"]} cores, a folder of parquet files in, a folder of parquet files out.

| | people a second | memory, MB |
|---|---|---|
| bare loop: read, multiply by one matrix as large as the model's, write | {plain:,.0f} | {bare_mb:,.0f} |
| `rindices apply`, all cores | {rate:,.0f} | {result["apply_peak_mb"]:,.0f} |
| the bare loop, its files shared between the cores | {shared:,.0f} | |
| barest loop: a matrix of 139 x {PATTERNS} in single precision | {barest:,.0f} | |

`apply` runs at **{rate / plain:.0%}** of the bare loop, at {rate / shared:.0%} of it on as many processes, and at
{rate / barest:.0%} of the barest. Memory is the sum over all of its processes and does not grow with the table.

## One billion people
{1e9 / rate / 3600:.1f} hours on {result["cores"]} cores at this rate, for {volumes:.2f} TB of volumes and
{results:.2f} TB of results. It needs no cluster: people do not know of each other, so memory stays where it is.
Reading alone takes {volumes * 1e3 / 3600:.2f} hours from a disk of 1 GB/s. What grows with the table is on the disk:
8 bytes a person to find ids that repeat, 8 GB in all, compared a few million at a time. Two machines halve the time
without a word between them: give each its files and its folder.
"""


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--keep", action="store_true", help="do not delete the folder")
    parser.add_argument("--run", choices=["bare", "bare shared", "barest"], help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="rindices-"))
    folder.mkdir(parents=True, exist_ok=True)
    if options.run:
        files = sorted((folder / "people").glob("*.parquet"))
        if options.run == "bare shared":
            run_bare_loop_in_processes(files, folder / "out")
        else:
            run_bare_loop(
                files, folder / "out", **({"width": PATTERNS, "kind": "float32"} if options.run == "barest" else {})
            )
        return
    try:
        result = measure_rates(folder, options.people)
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    options.out.with_suffix(".md").write_text(format_report(result), "utf-8")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
