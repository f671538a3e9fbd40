"""Cost of a study of four sites: seconds a round, bytes, processor seconds of a site.

Run in this distribution's folder: ``python -m benchmarks.cost``. It writes ``benchmarks/cost.json`` and ``cost.md``.
"""

import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
from tests.lab import ADMIN, LEAD, SERVER, Lab
from tests.people import SIZES
from tests.study import run_in_memory, write_sites

FOLDER = Path(__file__).parent
N_REGIONS = 139
STUDY = "[model]\npatterns = [2]\nmembers = 10\n\n[run]\nseed = 3\n"


def measure(lab: Lab, tables: dict[str, Path], run: str, options: tuple[str, ...]) -> dict[str, object]:
    """Run a study and return its cost."""
    lab.close_kits(run, tables, *options)
    job = lab.write_job(run, STUDY, list(tables), *options)
    begin = time.monotonic()
    lab.begin_job(run, job)
    submitted, times, processor = time.monotonic(), dict[str, float](), dict[str, float]()
    while not lab.read_state(run)["finished"]:
        if time.monotonic() - begin > 1500:
            raise TimeoutError(lab.read_state(run))
        for path in (lab.kits / SERVER / run / "rounds").glob("[0-9]*.npz"):
            if path.name not in times:
                times[path.name] = path.stat().st_mtime
        for name in (SERVER, *tables):
            for process in lab.find_processes(name, "job"):
                try:
                    used = process.cpu_times()
                except psutil.NoSuchProcess:
                    continue
                processor[name] = used.user + used.system
        time.sleep(0.3)
    facts = json.loads((lab.kits / SERVER / run / "rounds.json").read_text())
    each = np.diff(sorted(times.values()))
    return {
        "rounds": facts["rounds"],
        "seconds a round, median": round(float(np.median(each)), 2),
        "seconds a round, mean": round(float(each.mean()), 2),
        "seconds from the submitted job to the end": round(time.monotonic() - submitted),
        "bytes that a site receives": facts["bytes_received_by_a_part"],
        "bytes that a site sends": facts["bytes_sent_by_a_part"],
        "processor seconds of a site, mean": round(float(np.mean([processor[name] for name in tables])), 1),
        "processor seconds of the server's job": round(processor[SERVER], 1),
    }


def main() -> None:
    """Measure a study with masks and without."""
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder), list(SIZES))
        lab.provision_all([SERVER, ADMIN, LEAD, *SIZES])
        tables = write_sites(lab.folder / "tables", n_regions=N_REGIONS)
        try:
            results = {
                run: measure(lab, tables, run, options)
                for run, options in (("masks", ()), ("no masks", ("--no-masks",)))
            }
        finally:
            lab.stop_all()
        begin = time.process_time()
        run_in_memory(tables, lab.folder / "masks.toml", lab.folder / "memory", masked=True)
        memory = round(time.process_time() - begin, 1)
    facts = {
        "people": {name: list(size) for name, size in SIZES.items()}, "regions": N_REGIONS, "members": 10,
        "load of the machine, of two processors": [round(each, 1) for each in os.getloadavg()],
        "study": results, "processor seconds of the same study in memory, all sites and server": memory,
    }  # fmt: skip
    (FOLDER / "cost.json").write_text(json.dumps(facts, indent=2) + "\n")
    rows = [f"| {name} | {' | '.join(str(result[name]) for result in results.values())} |" for name in results["masks"]]
    n_people = sum(map(sum, SIZES.values()))
    (FOLDER / "cost.md").write_text(
        "# Cost of a study of four sites\n"
        f"Ten members, {N_REGIONS} regions, {n_people} people, two patterns. Server and four sites "
        "share two cores\nof one machine. `python -m benchmarks.cost` wrote this page.\n\n"
        f"| | {' | '.join(results)} |\n|---|{'---|' * len(results)}\n" + "\n".join(rows) + "\n\n"
        f"The same study in memory takes {memory} processor seconds for all sites and the server together.\n"
    )


if __name__ == "__main__":
    main()
