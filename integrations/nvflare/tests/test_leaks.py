"""A participant's id in an exception, a file name, a category or a log line does not
reach the server.
"""

import json
import re
import time
from pathlib import Path

import psutil
import pytest

from rindices_nvflare.wire import Code
from tests.lab import SERVER, SOURCE, Lab
from tests.study import JOB_STUDY, write_sites

pytestmark = pytest.mark.slow
N_ERRORS = 20
"""Errors of each kind."""
ANY_MARKER = rb"sub-[1-4]XQ[0-9]{2}Z"
PIECE = 2**24
PROVOKE = f'''
_numbers = iter(range({N_ERRORS}))


def _provoke(site: str, where: str, study: Path | None = None) -> None:
    """Make an error that names a participant, of another kind at each site."""
    import logging, sys, warnings
    number = next(_numbers, None) if (site == "site-4") == (where == "sum") else None
    if number is None:
        return
    marker = f"sub-{{site[-1]}}XQ{{number:02d}}Z"
    if site == "site-2":  # the name of a file that is not there
        text = "[data]\\nvolumes = \\"{{}}.csv\\"\\ngroup = \\"group\\"\\n"
        study.write_text(text.format(marker))
    if site == "site-3":  # a category that the job does not name
        path = study.parent / "participants.tsv"
        people = pd.read_csv(path, sep="\\t")
        people.loc[:20, "sex"] = marker
        people.to_csv(path, sep="\\t", index=False)
    if site == "site-4":  # a line of the log, of both screens, and a warning
        logging.getLogger("rindices").error(marker)
        print(marker, flush=True)
        print(marker, file=sys.stderr, flush=True)
        warnings.warn(marker)
    if site in ("site-1", "site-4"):
        errors = (ValueError, KeyError, RuntimeError, RindicesError, MemoryError, SystemExit, OSError)
        raise errors[number % len(errors)](marker)


'''
READ = "    study = read_study(study_file)\n"
DECODE = "        request, config = Request.decode(message), self._config\n"
IMPORT = "from rindices_nvflare import masks, wire\n"
SITE_CHANGES = {
    "core.py": {
        "def open_site(": f"{PROVOKE}def open_site(",
        READ: f"    _provoke(name, 'open', study_file)\n{READ}",
    },
    "site.py": {
        DECODE: f"        core._provoke(self._name, 'sum')\n{DECODE}",
        IMPORT: f"import rindices_nvflare.core as core\n{IMPORT}",
    },
}
ASK_AGAIN = f"""        regions = self.columns["regions"]
        means = {{"codings": [], "regions": regions, "adjust": "log", "n_columns": len(regions), MASKED: True}}
        told: dict[str, list[list[int]]] = {{name: [] for name in self.sites}}
        for number in range({N_ERRORS}):
            for task, message in ((HELLO, wire.write_message(plan)), (SUMS, Request(kind="means", round=2, settings=means).encode())):
                for name, arrays in self.ask_sites(task, message, refuse=False).items():
                    told[name].append([*arrays[wire.STATUS].tolist(), len(arrays)])
        write_json(checkpoint.folder / "told.json", told)
        while not (checkpoint.folder / "searched").exists():
            __import__("time").sleep(0.1)
        raise StudyError("; ".join(wire.say(each) for each in told["site-1"]))
        rounds = SiteRounds"""


def test_ids_do_not_leave(lab: Lab) -> None:
    run = "leaks"
    tables = write_sites(lab.folder / "leaky")
    lab.close_kits(run, tables, source=lab.copy_source(run, SITE_CHANGES))
    job = lab.write_job(run, JOB_STUDY, list(tables))
    lab.sources[SERVER] = lab.copy_source(
        "ask-again", {"server.py": {"        rounds = SiteRounds": ASK_AGAIN}}
    )
    lab.signal(SERVER)
    lab.start(SERVER)
    number, out = lab.begin_job(run, job), lab.kits / SERVER / run
    end = time.monotonic() + 600
    while not (out / "told.json").exists() and time.monotonic() < end:
        time.sleep(0.5)
    servers = [each for each in lab.find_processes(SERVER) if "python" in each.name()]
    assert len(servers) >= 2  # that of the server and that of the job
    assert [
        found for process in servers for found in search_memory(process, ANY_MARKER)
    ] == []
    (out / "searched").touch()
    screen = lab.wait(run, number)["says"]
    told = json.loads((out / "told.json").read_text())
    expected = {
        "site-1": Code.FAILED,
        "site-2": Code.NO_TABLE,
        "site-3": Code.OTHER_CATEGORY,
        "site-4": Code.FAILED,
    }
    for name, code in expected.items():
        own = told[name][1::2] if name == "site-4" else told[name][::2]
        assert len(own) == N_ERRORS
        assert {each[0] for each in own} <= {code, Code.REFUSED, Code.NO_TABLE}
        assert {each[2] for each in own} == {1}  # the status alone
    markers = [
        f"sub-{name[-1]}XQ{number:02d}Z"
        for name in tables
        for number in range(N_ERRORS)
    ]
    here = "".join(lab.read_private(run, name, "log.txt") for name in tables)
    logs = (lab.folder / "logs" / "site-4.log").read_text()
    assert all(
        marker in here for marker in markers if marker[4] in "124"
    )  # the errors were real
    assert all(marker in logs for marker in markers if marker[4] == "4")
    assert re.findall(ANY_MARKER, "".join(markers).encode()) == [
        marker.encode() for marker in markers
    ]
    assert re.findall(ANY_MARKER, lab.read_server() + screen.encode()) == []
    lab.sources[SERVER] = SOURCE


def test_seeds_are_not_in_the_memory_of_the_server_unless_they_travel_in_the_open(
    lab: Lab, tables: dict[str, Path]
) -> None:
    seed = "seed = secrets.token_bytes(masks.SEED_BYTES)"
    for run, secure in (("secret", True), ("open", False)):
        marker = f"MARKER-{run}-SEED".encode()
        marked = {
            seed: f"seed = {marker!r} + secrets.token_bytes(masks.SEED_BYTES - {len(marker)})"
        }
        opened = {
            "secure=True": "secure=False",
            "                is_encrypted\n                and is_new": "                is_new",
        }
        source = lab.copy_source(run, {"site.py": marked | ({} if secure else opened)})
        lab.close_kits(run, tables, source=source)
        job = lab.write_job(run, JOB_STUDY, list(tables))
        number = lab.begin_job(run, job)
        assert lab.wait_for_rounds(run, 1) >= 1
        servers = [
            each for each in lab.find_processes(SERVER) if "python" in each.name()
        ]
        assert len(servers) >= 2
        found = sum(len(search_memory(process, marker)) for process in servers)
        assert search_memory(
            lab.find_processes("site-1", "job")[0], marker
        )  # that is how to look
        assert (found == 0) is secure, found
        assert lab.wait(run, number)["finished"]


def search_memory(process: psutil.Process, pattern: bytes) -> list[bytes]:
    """Return what a pattern finds in the memory of a process."""
    found = list[bytes]()
    with (
        open(f"/proc/{process.pid}/maps") as maps,
        open(f"/proc/{process.pid}/mem", "rb", 0) as memory,
    ):
        for line in maps:
            span, rights, *_ = line.split()
            first, last = (int(each, 16) for each in span.split("-"))
            if not rights.startswith("rw"):
                continue
            for start in range(first, last, PIECE):
                try:
                    memory.seek(start)
                    found += re.findall(
                        pattern, memory.read(min(PIECE + 100, last - start))
                    )
                except (OSError, ValueError):  # a region that cannot be read
                    break
    return found
