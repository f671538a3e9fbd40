"""Cost of a study of four sites: rounds, bytes, processor seconds of a site, seconds.

Run in this distribution's folder: ``python -m benchmarks.cost``. It writes
``benchmarks/cost.json`` and ``cost.md``.
"""

import json
import os
import re
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
from tests.lab import ADMIN, LEAD, SERVER, Lab
from tests.people import SIZES
from tests.study import run_in_memory, write_sites

FOLDER = Path(__file__).parent
N_REGIONS = 139
STUDY = "[model]\npatterns = [2]\nmembers = 10\n\n[run]\nseed = 3\n"
RUNS: dict[str, tuple[str, ...]] = {
    "masks": (),
    "no-masks": ("--no-masks", "--fewest", "4"),  # folds of the smaller sites
}
WAIT = ("--wait", "600")
LONGEST_SECONDS = 3600
LOOK_SECONDS = 0.5
MILLION = 1e6
_SOCKET = re.compile(
    r" [\d.:\[\]a-f]+:(?P<own>\d+) +[\d.:\[\]a-f]+:(?P<peer>\d+) .*pid=(?P<pid>\d+)"
)
_BYTES = re.compile(r" bytes_(sent|received):(\d+)")


@dataclass
class Meter:
    """What the processes of a participant have used, by the last look at each.

    Processes and sockets end with a job, so that one has to look again and again.
    """

    lab: Lab
    name: str
    processor: dict[int, float] = field(default_factory=dict)
    sockets: dict[tuple[int, str], dict[str, int]] = field(default_factory=dict)

    def look(self) -> None:
        """Read processor seconds of all processes, and bytes of their connections to
        the server as the kernel counts them.
        """
        for process in self.lab.find_processes(self.name):
            try:
                used = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            self.processor[process.pid] = used.user + used.system
        listed = subprocess.run(
            ["ss", "-tinpHO"], capture_output=True, text=True, check=True
        ).stdout
        for line in listed.splitlines():
            socket = _SOCKET.search(line)
            if socket is None or int(socket["peer"]) != self.lab.port:
                continue
            if (pid := int(socket["pid"])) in self.processor:
                counted = {name: int(each) for name, each in _BYTES.findall(line)}
                self.sockets[pid, socket["own"]] = counted

    def sum_processor(self) -> float:
        """Return the processor seconds of all processes so far."""
        return sum(self.processor.values())

    def sum_bytes(self, name: str) -> int:
        """Return the bytes that were ``sent`` or ``received`` so far."""
        return sum(each.get(name, 0) for each in self.sockets.values())


def measure(
    lab: Lab, tables: dict[str, Path], run: str, options: tuple[str, ...]
) -> dict[str, object]:
    """Run a study and return its cost."""
    lab.close_kits(run, tables, *options)
    job = lab.write_job(run, STUDY, list(tables), *options, *WAIT)
    lab.ask_admin(lambda session: session.list_jobs())  # all processes have started
    time.sleep(10.0)
    meters = {name: Meter(lab, name) for name in (SERVER, *tables)}
    for meter in meters.values():
        meter.look()
    before = {
        name: (meter.sum_processor(), meter.sum_bytes("sent"), meter.sum_bytes("received"))
        for name, meter in meters.items()
    }  # fmt: skip
    lab.begin_job(run, job)
    submitted, times = time.monotonic(), dict[str, float]()
    while not lab.read_state(run)["finished"]:
        if time.monotonic() - submitted > LONGEST_SECONDS:
            raise TimeoutError(lab.read_state(run))
        for path in (lab.kits / SERVER / run / "rounds").glob("[0-9]*.npz"):
            if path.name not in times:
                times[path.name] = path.stat().st_mtime
        for meter in meters.values():
            meter.look()
        time.sleep(LOOK_SECONDS)
    seconds = time.monotonic() - submitted
    facts = json.loads((lab.kits / SERVER / run / "rounds.json").read_text())
    each_round = np.diff(sorted(times.values()))
    used = {
        name: (meter.sum_processor(), meter.sum_bytes("sent"), meter.sum_bytes("received"))
        for name, meter in meters.items()
    }  # fmt: skip
    cost = {name: np.subtract(used[name], before[name]) for name in meters}
    sites = np.array([cost[name] for name in tables])
    return {
        "finding": facts["finding"],
        "rounds": facts["rounds"],
        "MB of sums that a site sends": _round(facts["bytes_sent_by_a_part"] / MILLION),
        "MB that a site sends, with TLS": _round(sites[:, 1].mean() / MILLION),
        "MB of questions that a site receives": _round(
            facts["bytes_received_by_a_part"] / MILLION
        ),
        "MB that a site receives, with TLS": _round(sites[:, 2].mean() / MILLION),
        "processor seconds of a site, mean": _round(sites[:, 0].mean()),
        "processor seconds of the largest site": _round(sites[:, 0].max()),
        "processor seconds of the server": _round(cost[SERVER][0]),
        "seconds a round, median": round(float(np.median(each_round)), 2),
        "seconds from the submitted job to the end": round(seconds),
    }


def _round(number: float) -> float:
    return round(float(number), 1)


def main() -> None:
    """Measure a study with masks and without."""
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder), list(SIZES))
        lab.provision_all([SERVER, ADMIN, LEAD, *SIZES])
        tables = write_sites(lab.folder / "tables", n_regions=N_REGIONS)
        results, loads = {}, []
        try:
            for run, options in RUNS.items():
                results[run] = measure(lab, tables, run, options)
                loads.append(round(os.getloadavg()[2], 1))
                print(run, json.dumps(results[run]), loads, flush=True)
        finally:
            lab.stop_all()
        begin = time.process_time()
        run_in_memory(
            tables, lab.folder / "masks.toml", lab.folder / "memory", masked=True
        )
        memory = _round(time.process_time() - begin)
    facts = {
        "people": {name: list(size) for name, size in SIZES.items()},
        "regions": N_REGIONS,
        "members": 10,
        "study": results,
        "processor seconds of the same study in memory": memory,
        "mean load of 15 minutes at the end of each run": loads,
    }
    (FOLDER / "cost.json").write_text(json.dumps(facts, indent=2) + "\n")
    (FOLDER / "cost.md").write_text(_write_page(results, memory, loads))


def _write_page(
    results: dict[str, dict[str, object]], memory: float, loads: list[float]
) -> str:
    n_people = sum(map(sum, SIZES.values()))
    lines = [
        "# Cost of a study of four sites",
        f"Ten ensemble members, two patterns, {N_REGIONS} regions, {n_people} people. Start kits "
        "with mutual TLS;\nserver and sites are real processes on one machine. "
        "`python -m benchmarks.cost` wrote this page.",
        "",
        f"| | {' | '.join(results)} |",
        f"|---|{'---|' * len(results)}",
        *(
            f"| {name} | {' | '.join(str(result[name]) for result in results.values())} |"
            for name in next(iter(results.values()))
        ),
        "",
        f"The same study in memory takes {memory} processor seconds for all people together.",
        "",
        "Rounds, bytes and processor seconds are the figures to rely on. Seconds depend on what else "
        f"runs: here five\nparticipants shared two cores with other programs (mean load {loads[0]} and "
        f"{loads[-1]}), and no message went over\na network. A site's processor seconds include the start of "
        "its job process and the reading of its table.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
