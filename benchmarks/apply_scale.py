"""Rate and memory of ``rindices apply`` on ten million people, against a bare loop.

    python -m benchmarks.apply_scale [--people 10000000] [--folder FOLDER]

Fits the default method (ten members) to a simulated cohort, writes a folder of parquet
files with these people and 139 regions (float32, 0.6 kB per person), and runs one after
the other, each in a process of its own:

- the bare loop: reads the regions, multiplies them by one matrix, writes the id and M
  columns, with the default threads of pyarrow and numpy. The matrix is as large as the
  model: 139 rows, one column for each pattern of each member and for each of the 139
  directions of the distance, in double precision as in apply. Before and after the next
  one, when all files have been read once;
- ``rindices apply`` to a folder: checks, preprocessing, members, intervals, distances
  with reasons, repeated ids;
- the bare loop on as many processes as there are cores, one thread each, which share
  the files;
- the barest loop: the matrix is 139 x M, in single precision.

Memory is the largest sum of resident memory (RSS) over all processes of the command;
shared libraries are counted in each. Writes ``results/apply_scale.json`` and ``.md``.
Run it on an idle machine.
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
ROWS_PER_FILE, ROW_GROUP_SIZE = 1_000_000, 50_000
PATTERNS, MEMBERS, REGIONS = 3, 10, 139


def write_people(folder: Path, people: int) -> None:
    """Write simulated people, one row group at a time."""
    from rindices.experiments.reference import load_reference

    folder.mkdir(parents=True)
    reference = load_reference()
    for first in range(0, people, ROWS_PER_FILE):
        writer = None
        for start in range(first, min(first + ROWS_PER_FILE, people), ROW_GROUP_SIZE):
            number = min(ROW_GROUP_SIZE, people - start)
            volumes, covariates = reference.draw(
                number, np.random.default_rng([7, start])
            )
            columns = {
                "participant_id": [
                    f"sub-{k:010d}" for k in range(start, start + number)
                ]
            }
            columns |= {name: covariates[name].to_numpy() for name in ("age", "icv")}
            columns |= {"sex": covariates["sex"].astype(object).tolist()}
            columns |= {
                name: volumes[name].to_numpy(dtype=np.float32) for name in volumes
            }
            table = pa.table(columns)
            path = folder / f"people-{first // ROWS_PER_FILE:04d}.parquet"
            writer = writer or pq.ParquetWriter(
                path, table.schema, use_dictionary=["sex"]
            )
            writer.write_table(table, row_group_size=ROW_GROUP_SIZE)
        if writer is not None:
            writer.close()


def run_bare(
    files: list[Path],
    out: Path,
    width: int = PATTERNS * MEMBERS + REGIONS,
    dtype: str = "float64",
) -> None:
    """Read the regions, multiply them by a matrix of ``width`` columns and write the
    first M.
    """
    out.mkdir(exist_ok=True)
    for path in files:
        file = pq.ParquetFile(path)
        regions = [name for name in file.schema_arrow.names if name.startswith("MUSE")]
        matrix = (
            np.random.default_rng(0).normal(size=(len(regions), width)).astype(dtype)
        )
        writer = None
        for batch in file.iter_batches(20_000, columns=["participant_id", *regions]):
            values = (
                np.stack(
                    [batch.column(name).to_numpy() for name in regions], dtype=dtype
                ).T
                @ matrix
            )
            rows = {"participant_id": batch.column("participant_id")}
            rows |= {f"r{k + 1}": values[:, k] for k in range(PATTERNS)}
            table = pa.table(rows)
            writer = writer or pq.ParquetWriter(
                out / path.name, table.schema, use_dictionary=False
            )
            writer.write_table(table)
        if writer is not None:
            writer.close()


def run_bare_shared(files: list[Path], out: Path) -> None:
    """Share the files between processes of `run_bare` with one thread each."""
    n_processes = os.cpu_count() or 1
    out.mkdir(exist_ok=True)
    shares = [files[k::n_processes] for k in range(n_processes)]
    processes = [
        multiprocessing.Process(target=run_bare, args=(share, out)) for share in shares
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def time_command(command: list[str], **environment: str) -> tuple[float, float]:
    """Run a command; return its seconds and the peak memory in MB, with its
    children.
    """
    start = time.perf_counter()
    process = subprocess.Popen(
        command, env=os.environ | environment, stdout=subprocess.DEVNULL
    )
    peak = [0.0]
    watcher = threading.Thread(target=_watch_memory, args=(process, peak))
    watcher.start()
    if process.wait():
        raise SystemExit(f"failed: {' '.join(command)}")
    seconds = time.perf_counter() - start
    watcher.join()
    return seconds, peak[0]


def _watch_memory(process: "subprocess.Popen[bytes]", peak: list[float]) -> None:
    root = psutil.Process(process.pid)
    while process.poll() is None:
        total = 0
        try:
            for running in (root, *root.children(recursive=True)):
                total += running.memory_info().rss
        except psutil.NoSuchProcess:
            pass
        peak[0] = max(peak[0], total / 1e6)
        time.sleep(0.5)


def measure(folder: Path, people: int) -> dict[str, float]:
    """Run all commands one after the other and return the measurements."""
    import rindices as ri

    model = folder / "model.safetensors"
    if not model.exists():
        ri.fit(
            ri.simulate_cohort("basic", seed=0).cohort,
            PATTERNS,
            members=MEMBERS,
            seed=0,
        ).save(model)
        print("model fitted", flush=True)
    table = folder / "people"
    if not table.exists():  # complete, from an earlier run
        shutil.rmtree(folder / "unfinished", ignore_errors=True)
        write_people(folder / "unfinished", people)
        (folder / "unfinished").rename(table)
    print("people written", flush=True)
    for path in sorted(
        table.glob("*.parquet")
    ):  # so that the first command does not pay for the disk
        path.read_bytes()
    bare, runs = [sys.executable, __file__, "--folder", str(folder)], []
    apply = [
        sys.executable,
        "-c",
        "from rindices.cli.main import run; run()",
        "apply",
        str(model),
        str(table),
    ]
    for name in ("bare", "apply", "bare again", "bare shared", "barest"):
        for results in (folder / "out", folder / "applied"):
            shutil.rmtree(results, ignore_errors=True)
        if name == "apply":
            seconds, peak = time_command([*apply, "--out", str(folder / "applied")])
            written = sum(
                path.stat().st_size for path in (folder / "applied").glob("*.parquet")
            )
            rows = sum(
                pq.read_metadata(path).num_rows
                for path in (folder / "applied").glob("*.parquet")
            )
            assert rows == people
        else:
            threads = (
                {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
                if name == "bare shared"
                else {}
            )
            seconds, peak = time_command(
                [*bare, "--run", name.removesuffix(" again")], **threads
            )
        runs.append((name, people / seconds, peak))
        print(
            f"{name}: {people / seconds:,.0f} people a second, {peak:,.0f} MB",
            flush=True,
        )
    rates, peaks = (
        {name: rate for name, rate, _ in runs},
        {name: peak for name, _, peak in runs},
    )
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


def format_report(measured: dict[str, float]) -> str:
    """Return the measurements as a page."""
    rate, bare, shared, barest = (
        measured[f"{name}_people_per_second"]
        for name in ("apply", "bare", "bare_shared", "barest")
    )
    bare_peak, apply_peak = measured["bare_peak_mb"], measured["apply_peak_mb"]
    volumes, results = (
        measured["bytes_a_person"] / 1e3,
        measured["bytes_a_person_written"] / 1e3,
    )  # TB for a billion
    return f"""# Applying a model to {measured["people"]:,} people
`python -m benchmarks.apply_scale`: {measured["regions"]} regions, {measured["members"]} members of the default method,
{measured["cores"]} cores, a folder of parquet files in, a folder of parquet files out.

| | people per second | memory, MB |
|---|---|---|
| bare loop: read, multiply by one matrix as large as the model's, write | {bare:,.0f} | {bare_peak:,.0f} |
| `rindices apply`, all cores | {rate:,.0f} | {apply_peak:,.0f} |
| the bare loop, its files shared between the cores | {shared:,.0f} | |
| barest loop: a matrix of 139 x {PATTERNS} in single precision | {barest:,.0f} | |

`apply` runs at **{rate / bare:.0%}** of the bare loop, at {rate / shared:.0%} of it on as many processes, and at
{rate / barest:.0%} of the barest. Memory is the sum over all of its processes and does not grow with the table.

## One billion people
{1e9 / rate / 3600:.1f} hours on {measured["cores"]} cores at this rate, for {volumes:.2f} TB of volumes and
{results:.2f} TB of results. It needs no cluster: people are independent of each other, so memory stays the same.
Reading alone takes {volumes * 1e3 / 3600:.2f} hours from a disk of 1 GB/s. Only files on the disk grow with the table:
8 bytes per person to find repeated ids, 8 GB in all, compared a few million at a time. Two machines need half the time
and no communication: give each its files and its folder.
"""


def main() -> None:
    """Measure, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=10_000_000)
    parser.add_argument(
        "--folder",
        type=Path,
        help="keep model and people here, and use them if they are there",
    )
    parser.add_argument(
        "--run", choices=["bare", "bare shared", "barest"], help=argparse.SUPPRESS
    )
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="rindices-"))
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.run:
        files = sorted((folder / "people").glob("*.parquet"))
        if arguments.run == "bare shared":
            run_bare_shared(files, folder / "out")
        else:
            matrix = (
                {"width": PATTERNS, "dtype": "float32"}
                if arguments.run == "barest"
                else {}
            )
            run_bare(files, folder / "out", **matrix)
        return
    try:
        measured = measure(folder, arguments.people)
    finally:
        if not arguments.folder:
            shutil.rmtree(folder, ignore_errors=True)
    arguments.out.write_text(json.dumps(measured, indent=1) + "\n", "utf-8")
    arguments.out.with_suffix(".md").write_text(format_report(measured), "utf-8")
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
