"""Engines: equal bytes from all of them, and what happens when parts of them are lost."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pytest

import rindices as ri
from rindices.errors import StudyError
from rindices.study import store as stores
from rindices.study.config import ModelConfig, QueueConfig, make_study
from rindices.study.engines.base import TrainingJob
from rindices.study.engines.queues import CLUSTER_CLASSES, QueueEngine, compute_worker_lifetime
from rindices.study.engines.registry import make_engine
from rindices.study.engines.worker_process import TrainingPausedError, TrainingProcess
from rindices.study.plan import MemberSet, make_plan
from rindices.study.store import RunStore
from tests.study.helpers import STUDY, command, outputs, run

LONG = {"recipe": "paper", "patterns": (2,), "orthogonality": (0.1,), "members": 2}


def sets(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.glob("runs/*.safetensors")}


def begin(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(command(*arguments), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def wait_for(condition: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


def newest_states(runs: Path, trainings: int) -> dict[Path, int]:
    """Wait until so many trainings keep their state, which they do every now and then; return when they last did."""
    wait_for(lambda: len(list(runs.glob("*.checkpoint"))) == trainings)
    return {path: path.stat().st_mtime_ns for path in runs.glob("*.checkpoint")}


@pytest.mark.parametrize(
    "workers", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(4, marks=pytest.mark.slow)]
)
def test_dask_changes_no_byte(folder: Path, undisturbed: Path, workers: int) -> None:
    out = folder / f"dask{workers}"
    done = run("fit", folder / "study.toml", "--out", out, "--engine", "dask", "--workers", workers)
    assert done.returncode == 0, done.stderr
    assert outputs(out) == outputs(undisturbed)
    assert re.search(r"^dashboard: http://\S+/status$", done.stderr, re.M)
    assert "4 of 4" in done.stderr
    assert sorted(path.name for path in (out / "runs").iterdir() if path.suffix != ".safetensors") == ["journal"]


def test_dask_changes_no_byte_of_a_training(folder: Path, tmp_path: Path) -> None:
    options = ["--recipe", "paper", "--max-steps", 40, "--patterns", 2, "--orthogonality", "0.1,0.2", "--members", 2]
    for name, engine in (("local", ["--workers", 1]), ("dask", ["--engine", "dask", "--workers", 2])):
        done = run("fit", folder / "study.toml", "--out", tmp_path / name, *options, *engine)
        assert "0 of 2 members converged" in done.stderr
    assert len(sets(tmp_path / "local")) == 2
    assert sets(tmp_path / "local") == sets(tmp_path / "dask")


@pytest.mark.parametrize("engine", ["local", "dask"])
@pytest.mark.parametrize("victim", ["training", "worker"])
def test_a_deadly_set_is_given_up_and_the_rest_goes_on(folder: Path, tmp_path: Path, engine: str, victim: str) -> None:
    """Whoever begins one of the sets is killed, each time; the journal's file names tell who that is."""
    if (engine, victim) == ("local", "worker"):
        pytest.skip("the engine local has no workers beside the trainings")
    process = begin("fit", folder / "study.toml", "--out", tmp_path, "--engine", engine, "--workers", 2)
    dead: set[int] = set()
    while process.poll() is None:
        for path in tmp_path.glob("runs/journal/*.tsv"):
            pid = int(path.stem.rpartition("-")[2])
            if pid not in dead and "\tbegun\tm2-005" in path.read_text().rpartition("\n")[0].rpartition("\n")[2]:
                dead.add(pid)
                os.kill(pid if victim == "training" else psutil.Process(pid).ppid(), signal.SIGKILL)
        time.sleep(0.01)
    message = process.communicate()[1]
    assert process.returncode == 1, message
    reason = "its process ended with SIGKILL" if victim == "training" else "its worker was lost"
    assert re.search(rf"1 member set of 4 could not be trained: m2-005-\w+ \({reason}, 4 times\)", message), message
    assert "Traceback" not in message
    assert len(sets(tmp_path)) == 3
    begun = RunStore(tmp_path / "runs").count_events("begun")
    assert [count for key, count in begun.items() if key.startswith("m2-005")] == [4]


@contextmanager
def scheduler(folder: Path, workers: int = 2) -> Iterator[tuple[str, psutil.Process, list[psutil.Process]]]:
    """A scheduler and its workers, each a process of its own, as on a cluster; ended by their own ids."""
    name = folder / f"scheduler-{time.monotonic_ns()}.json"
    dask = [sys.executable, "-m", "dask"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    how = ["--scheduler-file", str(name), "--nthreads", "1", "--local-directory", str(folder), "--no-dashboard"]
    started = [
        subprocess.Popen([*dask, "scheduler", "--port", "0", "--scheduler-file", str(name), "--no-dashboard"], **quiet)
    ]
    try:
        wait_for(lambda: name.is_file() and '"address"' in name.read_text())  # it is there before it is written
        started += [subprocess.Popen([*dask, "worker", *how, "--death-timeout", "20"], **quiet) for _ in range(workers)]
        address = re.search(r'"address": "([^"]+)"', name.read_text())
        assert address is not None
        yield address[1], psutil.Process(started[0].pid), [psutil.Process(each.pid) for each in started[1:]]
    finally:
        for process in started:
            process.terminate()
        for process in started:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def storm(folder: Path, out: Path, kills: int) -> Counter[str]:
    """Kill random workers over a study, then its scheduler, then the client; return what was lost at most."""
    chance, lost = random.Random(1), Counter[str]()
    fit = ["fit", folder / "study.toml", "--out", out, "--engine", "dask", "--scheduler"]
    with scheduler(folder) as (address, head, nannies):
        client = begin(*fit, address)
        wait_for(lambda: list(out.glob("runs/journal/*.tsv")))
        while lost["worker"] < kills:
            time.sleep(chance.uniform(0.5, 3.0))
            workers = [
                child for nanny in nannies for child in nanny.children() if "spawn_main" in " ".join(child.cmdline())
            ]
            if workers:
                chance.choice(workers).kill()
                lost["worker"] += 1
            if client.poll() is not None:  # a set may have met four kills; who asks again gets it
                assert client.returncode == 1, client.communicate()[1]
                client.communicate()
                client = begin(*fit, address)
                wait_for((out / "runs" / "lock").exists)
        head.kill()
        lost["scheduler"] += 2  # both workers had a set
        message = client.communicate(timeout=120)[1]
        assert client.returncode == 3, message
        assert "is gone" in message
    with scheduler(folder) as (address, _, _):
        client, before = begin(*fit, address), len(list(out.glob("runs/journal/*.tsv")))
        wait_for(lambda: len(list(out.glob("runs/journal/*.tsv"))) > before)
        client.kill()
        client.communicate()
        lost["client"] += 2
        done = run(*fit, address)
        assert done.returncode == 0, done.stderr
    return lost


def check_storm(folder: Path, out: Path, kills: int) -> str:
    """Return what happened, in a line."""
    lost = storm(folder, out, kills)
    store = RunStore(out / "runs")
    begun, finished = store.count_events("begun"), store.count_events("finished")
    assert lost["worker"] == kills
    assert set(finished.values()) == {1}, "a set was trained to its end twice"
    assert set(begun) == set(finished)
    twice = sum(begun.values()) - len(begun)
    assert 0 < twice <= lost.total(), f"{twice} trainings were repeated, {lost.total()} were in flight when killed"
    return f"{kills} workers, the scheduler and the client killed: {len(begun)} sets, {twice} begun again"


def test_workers_scheduler_and_client_killed(folder: Path, undisturbed: Path) -> None:
    check_storm(folder, folder / "storm", 2)
    assert outputs(folder / "storm") == outputs(undisturbed)


@pytest.mark.slow
def test_thirty_kills(folder: Path, tmp_path: Path) -> None:
    for name in ("volumes.csv", "participants.tsv"):
        (tmp_path / name).symlink_to(folder / name)
    more = STUDY.replace("patterns = [2, 3]", "patterns = [1, 2, 3, 4, 5, 6]").replace("members = 10", "members = 40")
    (tmp_path / "study.toml").write_text(more)
    assert run("fit", tmp_path / "study.toml", "--out", tmp_path / "plain").returncode == 0
    told = check_storm(tmp_path, tmp_path / "storm", 30)
    sys.stderr.write(f"{told}\n")
    assert outputs(tmp_path / "storm") == outputs(tmp_path / "plain")


def test_two_clients_on_one_folder(folder: Path, undisturbed: Path) -> None:
    out = folder / "shared"
    first = begin("fit", folder / "study.toml", "--out", out, "--workers", 1)
    wait_for((out / "runs" / "lock").exists)
    time.sleep(0.2)
    second = run("fit", folder / "study.toml", "--out", out)
    assert second.returncode == 1
    who = rf"is in use by process {first.pid} on {socket.gethostname()} since \S+: wait for it, or delete \S+ if"
    assert re.search(who, second.stderr), second.stderr
    message = first.communicate()[1]
    assert first.returncode == 0, message
    assert outputs(out) == outputs(undisturbed)
    assert not (out / "runs" / "lock").exists()


def test_locks_of_the_dead(tmp_path: Path) -> None:
    store, lock = RunStore(tmp_path), tmp_path / "lock"
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    host = socket.gethostname()
    for holder in (f'{{"host": "{host}", "pid": {gone.pid}}}', f'{{"host": "{host}", "pid": 1, "born": "long ago"}}'):
        lock.write_text(holder)
        with store.lock_folder():
            assert f'"pid": {os.getpid()}' in lock.read_text()
        assert not lock.exists()
    for holder, who in (('{"host": "elsewhere", "pid": 7}', "process 7 on elsewhere"), ("", "an unknown machine")):
        lock.write_text(holder)
        with pytest.raises(StudyError, match=who), store.lock_folder():
            pass
        assert lock.read_text() == holder


@pytest.fixture
def order(tmp_path: Path) -> TrainingJob:
    """A training that takes far longer than a test."""
    cohort = ri.simulate_cohort("tiny", seed=1).cohort
    (work,) = make_plan(ModelConfig(**LONG), 0, cohort.fingerprint())
    X, y = ri.Preprocessing.fit(cohort).transform(cohort), cohort.is_patient.astype(np.intp)
    return TrainingJob(work, tmp_path, RunStore(tmp_path).save_training_data(X, y))


@pytest.mark.parametrize("end", ["asked", "abandoned"])
def test_a_training_that_must_end_keeps_its_state(order: TrainingJob, end: str) -> None:
    """SIGTERM at the end of the wall time, and the end of the worker that asked for it."""
    trainer, store, ended = TrainingProcess(), RunStore(order.folder), list[type]()

    def train() -> None:
        try:
            trainer.train(order)
        except TrainingPausedError as error:
            ended.append(type(error))

    thread = threading.Thread(target=train)
    thread.start()
    ((state, last),) = newest_states(order.folder, 1).items()
    time.sleep(0.5)
    if end == "asked":
        trainer.request_stop()
    else:
        assert trainer._process.stdin is not None
        trainer._process.stdin.close()
    thread.join(30)
    trainer.stop()
    assert ended == [TrainingPausedError]
    assert state.stat().st_mtime_ns > last
    assert 0 < store.sum_partial_progress([order.work]) < 0.5


@pytest.mark.parametrize("engine", ["local", "dask"])
def test_the_end_of_a_batch_job_is_an_interruption(folder: Path, tmp_path: Path, engine: str) -> None:
    options = ["--recipe", "paper", "--patterns", 2, "--orthogonality", "0.1,0.2", "--members", 2, "--workers", 2]
    process = begin("fit", folder / "study.toml", "--out", tmp_path, "--engine", engine, *options)
    states = newest_states(tmp_path / "runs", 2)
    time.sleep(1)  # a training that has not gone on since has nothing new to keep
    process.terminate()
    message = process.communicate(timeout=60)[1]
    assert process.returncode == 3, message
    assert "run the same command again" in message
    assert "Traceback" not in message
    wait_for(lambda: all(path.stat().st_mtime_ns > last for path, last in states.items()), 60)
    assert not (tmp_path / "runs" / "lock").exists()


@contextmanager
def small_disk(path: Path, how: str) -> Iterator[Path]:
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", how, "tmpfs", str(path)], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here: that needs root")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.mark.parametrize("engine", [["--workers", 1], ["--engine", "dask", "--workers", 2]])
def test_a_full_disk(folder: Path, tmp_path: Path, engine: list[object]) -> None:
    with small_disk(tmp_path / "disk", "size=316k") as disk:
        done = run("fit", folder / "study.toml", "--out", disk, *engine)
        assert done.returncode == 1
        assert re.search(r"error: cannot write \S+ \(No space left on device\): make room and run again\.", done.stderr)
        assert "Traceback" not in done.stderr
        kept = sets(disk)
        assert 0 < len(kept) < 4
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        assert run("fit", folder / "study.toml", "--out", disk, *engine).returncode == 0
        assert kept.items() <= sets(disk).items()


def test_an_unwritable_folder(folder: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "size=1m") as disk:
        (disk / "out" / "runs").mkdir(parents=True)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        for out in ("out", "new"):
            done = run("fit", folder / "study.toml", "--out", disk / out)
            assert done.returncode == 1
            assert "(Read-only file system)" in done.stderr
            assert "give another" in done.stderr
            assert len(done.stderr.splitlines()) < 5


def test_a_slow_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, work = RunStore(tmp_path), make_plan(ModelConfig(**LONG), 0, "x")[0]
    late = threading.Timer(1.0, store.path(work).touch)
    late.start()
    store.wait_for(work)
    late.join()
    monkeypatch.setattr(stores, "FILE_VISIBILITY_TIMEOUT", 0.5)
    store.path(work).unlink()
    with pytest.raises(StudyError, match="is not seen here"):
        store.wait_for(work)
    with pytest.raises(
        StudyError, match=f"{socket.gethostname()} does not see .*people-0.npz: give an --out on a file"
    ):
        store.people(tmp_path / "people-0.npz")


def test_no_scheduler_and_no_packages(folder: Path, tmp_path: Path) -> None:
    fit = ["fit", folder / "study.toml", "--out", tmp_path / "out", "--engine", "dask"]
    done = run(*fit, "--scheduler", "tcp://127.0.0.1:9")
    assert done.returncode == 1
    assert "no scheduler answers at tcp://127.0.0.1:9" in done.stderr
    hide = "import sys; sys.modules['distributed'] = None; from rindices.cli.main import run; run()"
    done = subprocess.run([sys.executable, "-c", hide, *map(str, fit)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'the engine dask needs distributed, which is not installed: pip install "rindices[cluster]".' in done.stderr


@pytest.mark.parametrize("system", list(CLUSTER_CLASSES))
def test_every_batch_system_by_the_same_door(system: str, tmp_path: Path) -> None:
    import dask_jobqueue

    asked = {"partition": "long", "account": "brains", "walltime": "02:00:00", "memory": "3GB", "cores": 4}
    asked |= {"directives": ["--qos=low"], "setup": ["module load python"]}
    study = make_study({"data": {"volumes": "v.csv"}, "run": {"engine": system, system: asked}})
    engine = make_engine(study.run)
    assert isinstance(engine, QueueEngine)
    options = engine.options(tmp_path / "jobs")
    options.pop("scheduler_options")
    job = getattr(dask_jobqueue, CLUSTER_CLASSES[system]).job_cls(scheduler="tcp://x:1", name="w", **options)
    script = job.job_script()
    for part in ("long", "brains", "--qos=low", "module load python", "--nworkers 4", "--lifetime 6900s"):
        assert part in script


def test_workers_leave_before_the_wall_time_ends() -> None:
    assert compute_worker_lifetime("12:00:00") == 12 * 3600 - 300
    assert compute_worker_lifetime("00:20") == 1080
    assert compute_worker_lifetime("2-00:00:00") == 2 * 86_400 - 300


@pytest.mark.parametrize(
    ("run_", "offender", "cure"),
    [
        ({"slurm": {"partion": "x"}}, "run.slurm.partion", "Did you mean 'partition'?"),
        ({"slurm": {"walltime": "long"}}, "run.slurm.walltime", "12:00:00"),
        ({"slurm": {"cores": 0}}, "run.slurm.cores", "greater than or equal to 1"),
        ({"scheduler": "tcp://x:1"}, "scheduler", 'engine = "dask"'),
    ],
)
def test_wrong_tables_of_batch_systems(run_: dict[str, object], offender: str, cure: str) -> None:
    with pytest.raises(StudyError) as caught:
        make_study({"data": {"volumes": "v.csv"}, "run": run_})
    assert offender in str(caught.value)
    assert cure in str(caught.value)
    assert QueueConfig().walltime == "12:00:00"


def test_an_order_survives_the_way_to_its_process(order: TrainingJob) -> None:
    from rindices.study.engines.worker_process import _decode_job, _encode_job

    again = _decode_job(_encode_job(order))
    assert again == order
    assert isinstance(again.work, MemberSet)
    assert again.work.key == order.work.key
