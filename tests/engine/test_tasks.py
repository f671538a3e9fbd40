"""Tasks on every engine: results, errors, lost workers and interruptions."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from rindices.engine.cluster import DaskEngine
from rindices.engine.local import LocalEngine
from rindices.engine.tasks import Engine, Report, StoppedError, Task, run
from rindices.errors import StudyError
from tests.study.helpers import restore_interrupts, wait_for

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
ENGINES = [
    pytest.param(LocalEngine(1), id="this process"),
    pytest.param(LocalEngine(2), id="loky"),
    pytest.param(DaskEngine(2), id="dask"),
]
OTHERS = ENGINES[1:]


def make_tasks(
    function: Callable[..., Any], arguments: list[tuple[Any, ...]], **more: Any
) -> list[Task[Any]]:
    return [
        Task(key=f"task-{k}", function=function, arguments=each, **more)
        for k, each in enumerate(arguments)
    ]


def multiply(seed: int) -> bytes:
    x = np.random.default_rng(seed).normal(size=(400, 400))
    product: bytes = (x @ x.T @ x).tobytes()
    return product


@pytest.mark.parametrize("engine", ENGINES)
def test_results_are_those_of_the_functions(engine: Engine, tmp_path: Path) -> None:
    tasks = make_tasks(multiply, [(seed,) for seed in range(5)])
    found = {each.task.key: each.get_result() for each in run(engine, tasks, tmp_path)}
    assert found == {task.key: multiply(*task.arguments) for task in tasks}
    assert list(run(engine, [], tmp_path)) == []


def refuse(number: int) -> None:
    raise StudyError(f"there is no {number}: give another.")


@pytest.mark.parametrize("engine", ENGINES)
def test_an_error_that_can_be_mended_is_raised(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"^there is no 7: give another\.$"):
        list(run(engine, make_tasks(refuse, [(7,), (7,)]), tmp_path))


def report_steps(number: int, report: Report) -> int:
    for step in range(3):
        report({"step": step, "number": number})
    return number


@pytest.mark.parametrize("engine", ENGINES)
def test_the_last_report_arrives_before_the_result(
    engine: Engine, tmp_path: Path
) -> None:
    heard: dict[str, Mapping[str, Any]] = {}
    tasks = make_tasks(report_steps, [(0,), (1,), (2,)], mailbox=tmp_path)

    def hear(task: Task[Any], values: Mapping[str, Any]) -> None:
        heard[task.key] = values

    for each in run(engine, tasks, tmp_path, on_report=hear):
        assert heard[each.task.key] == {"step": 2, "number": each.get_result()}
    assert not list(tmp_path.glob("*.report"))


def die(folder: Path, name: str, deaths: int) -> str:
    """Die a number of times, and then return."""
    times = len(list(folder.glob(f"{name}-*")))
    (folder / f"{name}-{times}").write_text(str(os.getpid()))
    if times < deaths:
        os.kill(os.getpid(), signal.SIGKILL)
    return name


@posix
@pytest.mark.parametrize("engine", OTHERS)
def test_a_task_that_kills_its_worker_is_named_and_the_others_finish(
    engine: Engine, tmp_path: Path
) -> None:
    """After three more tries; a task that dies once is finished, and no other one is
    begun again on this machine.
    """
    deaths = [("a", 0), ("once", 1), ("always", 99), ("b", 0), ("c", 0)]
    tasks = make_tasks(die, [(tmp_path, *each) for each in deaths])
    results = {each.task.arguments[1]: each for each in run(engine, tasks, tmp_path)}
    lost = results.pop("always")
    assert re.search(r"(SIGKILL|its worker was lost).*, 4 times$", lost.lost)
    assert {name: each.get_result() for name, each in results.items()} == {
        name: name for name in ("a", "once", "b", "c")
    }
    assert len(list(tmp_path.glob("always-*"))) == 4
    if isinstance(engine, LocalEngine):
        assert [len(list(tmp_path.glob(f"{name}-*"))) for name in "abc"] == [1, 1, 1]


def wait_here(folder: Path, name: str) -> None:
    """Wait for a signal, unless it has come before."""
    (folder / f"{name}-{os.getpid()}").touch()
    while not (folder / "go").exists():
        time.sleep(0.05)


@posix
def test_sigterm_stops_the_work_on_this_machine(tmp_path: Path) -> None:
    results = run(
        LocalEngine(2),
        make_tasks(wait_here, [(tmp_path, "a"), (tmp_path, "b")]),
        tmp_path,
    )
    here = psutil.Process()
    killer = subprocess.Popen([sys.executable, "-c", _TERMINATE, str(tmp_path), "1"])
    with pytest.raises(StoppedError, match="run the same command again to go on"):
        list(results)
    assert killer.wait() == 0
    workers = [int(path.name[2:]) for path in tmp_path.glob("?-*")]
    assert not {each.pid for each in here.children(recursive=True)} & set(workers)


@posix
def test_sigterm_of_a_dask_worker_is_no_failure_of_its_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often a batch system ends the job of a task: here, one failure is too
    many.
    """
    monkeypatch.setattr("rindices.engine.tasks.MAX_RETRIES", 0)
    killer = subprocess.Popen(
        [sys.executable, "-c", _TERMINATE, str(tmp_path), "1", "elsewhere"]
    )
    tasks = make_tasks(wait_here, [(tmp_path, "a")])
    (done,) = run(DaskEngine(1), tasks, tmp_path)
    assert not done.lost
    assert killer.wait() == 0
    assert len(list(tmp_path.glob("a-*"))) >= 2


_TERMINATE = """
import os, pathlib, signal, sys, time
folder, times, seen = pathlib.Path(sys.argv[1]), int(sys.argv[2]), set()
while len(seen) < times:
    for path in set(folder.glob("a-*")) - seen:
        time.sleep(0.2)
        os.kill(int(path.name[2:]), signal.SIGTERM)
        seen.add(path)
    time.sleep(0.05)
while len(list(folder.glob("a-*"))) <= times and "elsewhere" in sys.argv:
    time.sleep(0.05)
(folder / "go").touch()
"""

_SCRIPT = """
import json, sys, time
from pathlib import Path
from rindices.engine.local import LocalEngine
from rindices.engine.tasks import Task, run

print("begun", flush=True)

def double(number):
    return 2 * number

tasks = [Task(key=str(k), function=double, arguments=(k,)) for k in range(4)]
print(sorted(each.get_result() for each in run(LocalEngine(2), tasks, Path("."))))
"""


def test_a_script_is_not_imported_again(tmp_path: Path) -> None:
    """Neither needs it an ``if __name__ == "__main__"``, and its functions are sent."""
    (tmp_path / "script.py").write_text(_SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "begun\n[0, 2, 4, 6]\n", done.stderr
    assert done.stderr == ""


_LONG_SCRIPT = """
import sys
from pathlib import Path
from rindices.engine.local import LocalEngine
from rindices.engine.tasks import Task, run
from tests.engine.test_tasks import wait_here

folder = Path(sys.argv[1])
tasks = [Task(key=k, function=wait_here, arguments=(folder, k)) for k in "ab"]
try:
    list(run(LocalEngine(2), tasks, folder))
except KeyboardInterrupt:
    print("interrupted")
"""


@posix
@pytest.mark.parametrize("end", ["interrupted", "killed"])
def test_workers_end_with_the_process_that_gives_them_tasks(
    end: str, tmp_path: Path
) -> None:
    """Ctrl-C reaches all processes; none prints anything."""
    process = subprocess.Popen(
        [sys.executable, "-c", _LONG_SCRIPT, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=restore_interrupts,
        start_new_session=True,
    )
    wait_for(lambda: len(list(tmp_path.glob("?-*"))) == 2)
    workers = [int(path.name[2:]) for path in tmp_path.glob("?-*")]
    if end == "interrupted":
        os.killpg(process.pid, signal.SIGINT)
        assert process.communicate(timeout=20) == ("interrupted\n", "")
    else:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]
        process.stderr.close()  # type: ignore[union-attr]
    wait_for(lambda: not any(map(psutil.pid_exists, workers)), 20)


@pytest.mark.slow
def test_a_dask_worker_that_exceeds_its_memory_ends_in_a_sentence(
    tmp_path: Path,
) -> None:
    """The machine has more, and the other task is finished."""

    def hold(megabytes: int) -> int:
        taken = [bytearray(os.urandom(1000)) * 1000 for _ in range(megabytes)]
        time.sleep(3 if megabytes > 100 else 0)
        return len(taken)

    tasks = make_tasks(hold, [(900,), (1,)])
    engine = DaskEngine(2, memory_limit=600_000_000)
    small, large = sorted(run(engine, tasks, tmp_path), key=lambda each: each.lost)
    assert small.get_result() == 1
    assert large.lost == (
        "its worker was lost; a worker that needs more than 0.6 GB is ended: give fewer --workers, 4 times"
    )


def test_a_cluster_whose_processes_are_killed_while_they_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is one line."""
    import distributed

    def dies(*arguments: object, **settings: object) -> None:
        raise RuntimeError("Nanny failed to start.\nmore")

    monkeypatch.setattr(distributed, "LocalCluster", dies)
    message = r"^the Dask workers did not start \(Nanny failed to start\.\): run the same command again\.$"
    with pytest.raises(StudyError, match=message):
        list(run(DaskEngine(2), make_tasks(multiply, [(0,), (1,)]), tmp_path))


def listen_addresses(process: psutil.Process) -> set[str]:
    return {
        each.laddr.ip
        for each in process.net_connections(kind="tcp")
        if each.status == psutil.CONN_LISTEN
    }


def find_listeners() -> list[str]:
    """Return the addresses at which a worker and its client listen."""
    here = psutil.Process()
    parents = [each for each in (here, *here.parents()) if "python" in each.name()]
    return sorted({ip for each in parents for ip in listen_addresses(each)})


def test_nothing_of_a_local_cluster_is_seen_from_elsewhere(tmp_path: Path) -> None:
    messages: list[str] = []
    (found,) = run(
        DaskEngine(1),
        make_tasks(find_listeners, [()]),
        tmp_path,
        on_message=messages.append,
    )
    assert found.get_result() == ["127.0.0.1"]
    assert messages[0].startswith("dashboard: http://127.0.0.1:")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes the certificates")
def test_connections_are_encrypted_with_the_certificates_of_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dask
    import distributed

    certificate, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    made = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost"
    subprocess.run(
        [*made.split(), "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )
    settings = {"ca-file": certificate} | {
        f"{role}.{name}": path
        for role in ("client", "scheduler", "worker")
        for name, path in (("cert", certificate), ("key", key))
    }
    settings = {f"distributed.comm.tls.{name}": path for name, path in settings.items()}
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=1,
            processes=False,
            protocol="tls://",
            security=distributed.Security(),
            dashboard_address=None,
        ) as cluster,
    ):
        address = cluster.scheduler_address
        assert address.startswith("tls://")
        (done,) = run(
            DaskEngine(scheduler=address), make_tasks(multiply, [(1,)]), tmp_path
        )
        assert done.get_result() == multiply(1)
        with (
            dask.config.set({"distributed.comm.tls.ca-file": None}),
            pytest.raises(StudyError, match=r"tls://.* needs certificates: name them"),
        ):
            list(
                run(
                    DaskEngine(scheduler=address),
                    make_tasks(multiply, [(1,)]),
                    tmp_path,
                )
            )
