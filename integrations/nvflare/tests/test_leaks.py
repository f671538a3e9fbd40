"""A participant's id in an exception, a file name, a category or a log line does not reach the server."""

import json
from pathlib import Path

import psutil
import pytest

from tests.lab import SERVER, Lab
from tests.people import SIZES, STUDY, simulate_site, write_site
from tests.study import JOB_STUDY, write_sites

pytestmark = pytest.mark.slow
N_JOBS = 20
"""Errors of each kind."""
FAULTS = """
def _provoke(site: str, where: str) -> None:
    import logging, os, sys, warnings
    path = Path(os.environ["HOME"]) / f"{site}.json"
    fault = json.loads(path.read_text()) if path.exists() else {}
    if fault.get("where") != where:
        return
    marker = fault["marker"]
    logging.getLogger("rindices").error(marker)
    print(marker, flush=True)
    print(marker, file=sys.stderr, flush=True)
    warnings.warn(marker)
    errors = (ValueError, KeyError, RuntimeError, RindicesError, MemoryError, SystemExit, OSError, KeyboardInterrupt)
    raise errors[fault["number"] % len(errors)](marker)


"""
CHANGES = {
    "core.py": {
        "from collections.abc import Callable": "import json\nfrom collections.abc import Callable",
        "def open_site(": f"{FAULTS}def open_site(",
        "    study = read_study(study_file)\n": "    _provoke(name, 'open')\n    study = read_study(study_file)\n",
        "    answer = site.answer(request)\n": "    _provoke(site.name, 'sum')\n    answer = site.answer(request)\n",
    }
}


def say_fault(lab: Lab, name: str, **fault: object) -> None:
    (lab.folder / "home" / f"{name}.json").write_text(json.dumps(fault))


def test_ids_do_not_leave(lab: Lab) -> None:
    run = "leaks"
    tables = write_sites(lab.folder / "leaky")
    lab.close_kits(run, tables, source=lab.copy_source(run, CHANGES))
    job, markers, screens = lab.write_job(run, JOB_STUDY, list(tables)), [], []
    for number in range(N_JOBS):
        own = {name: f"sub-{name[-1]}XQ{number:02d}Z" for name in tables}
        markers += own.values()
        say_fault(lab, "site-1", where="open", marker=own["site-1"], number=number)
        tables["site-2"].write_text(STUDY.replace("volumes.csv", f"{own['site-2']}.csv"))
        people = simulate_site("site-3", *SIZES["site-3"])
        people.loc[:20, "sex"] = own["site-3"]
        write_site(tables["site-3"].parent, people)
        lab.delete_results(run)
        screens.append(lab.run_job(run, job)["says"])
        assert "site-3 has a category of covariate 2 that the job does not name" in screens[-1]
        assert "site-2 cannot read its table" in screens[-1]
        assert "site-1 " in screens[-1]
    (lab.folder / "home" / "site-1.json").unlink()
    write_sites(lab.folder / "leaky")
    for number in range(N_JOBS // len(tables)):
        for name in tables:
            marker = f"sub-{name[-1]}YW{number:02d}Z"
            markers.append(marker)
            say_fault(lab, name, where="sum", marker=marker, number=number)
        lab.delete_results(run)
        screens.append(lab.run_job(run, job)["says"])
        assert all(name in screens[-1] for name in tables)
    seen = lab.read_server() + "".join(screens).encode()
    for process in lab.find_processes(SERVER):  # what the server has in its memory, too
        seen += read_memory(process)
    here = "".join(lab.read_private(run, name, "log.txt") for name in tables)
    logs = "".join((lab.folder / "logs" / f"{name}.log").read_text() for name in tables)
    assert len(markers) == 5 * N_JOBS
    assert [marker for marker in markers if marker.encode() in seen] == []
    assert all(marker in here for marker in markers if marker[4:7] in ("1XQ", "2XQ") or "YW" in marker)
    assert all(marker in logs for marker in markers if marker[4:7] == "1XQ" or "YW" in marker)


def test_seeds_are_not_in_the_memory_of_the_server_unless_they_travel_in_the_open(
    lab: Lab, tables: dict[str, Path]
) -> None:
    seed = "seed = secrets.token_bytes(masks.SEED_BYTES)"
    for run, secure in (("secret", True), ("open", False)):
        marker = f"MARKER-{run}-SEED".encode()
        marked = {seed: f"seed = {marker!r} + secrets.token_bytes(masks.SEED_BYTES - {len(marker)})"}
        opened = {"secure=True": "secure=False", "if is_encrypted and is_new": "if is_new"}
        source = lab.copy_source(run, {"site.py": marked | ({} if secure else opened)})
        lab.close_kits(run, tables, source=source)
        job = lab.write_job(run, JOB_STUDY, list(tables))
        number = lab.begin_job(run, job)
        assert lab.wait_for_rounds(run, 1) >= 1
        found = sum(read_memory(process).count(marker) for process in lab.find_processes(SERVER))
        assert read_memory(lab.find_processes("site-1", "job")[0]).count(marker)  # that is how to look
        assert (found == 0) is secure, found
        assert lab.wait(run, number)["finished"]


def read_memory(process: psutil.Process) -> bytes:
    """Return all that can be read of the memory of a process."""
    parts = []
    try:
        with open(f"/proc/{process.pid}/maps") as maps, open(f"/proc/{process.pid}/mem", "rb", 0) as memory:
            for line in maps:
                span, rights, *_ = line.split()
                first, last = (int(each, 16) for each in span.split("-"))
                if rights.startswith("rw") and last - first < 2**30:
                    memory.seek(first)
                    try:
                        parts.append(memory.read(last - first))
                    except OSError:
                        continue
    except (OSError, ValueError):
        pass
    return b"".join(parts)
