"""The engine of many machines: equal bytes, also when workers, scheduler and client are
killed.
"""

import random
import re
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from rindices.study.store import RunStore
from tests.study.helpers import (
    LONG_STUDY,
    begin,
    outputs,
    run,
    run_apart,
    scheduler,
    sets,
    wait_for,
)


@pytest.mark.parametrize(
    "workers",
    [
        1,
        pytest.param(2, marks=pytest.mark.slow),
        pytest.param(4, marks=pytest.mark.slow),
    ],
)
def test_dask_changes_no_byte(folder: Path, undisturbed: Path, workers: int) -> None:
    out = folder / f"dask{workers}"
    done = run_apart(
        "fit",
        folder / "study.toml",
        "--out",
        out,
        "--engine",
        "dask",
        "--workers",
        workers,
    )
    assert done.returncode == 0, done.stderr
    assert outputs(out) == outputs(undisturbed)
    assert re.search(r"^dashboard: http://\S+/status$", done.stderr, re.M)
    assert "4 of 4" in done.stderr
    others = [
        path.name for path in (out / "runs").iterdir() if path.suffix != ".safetensors"
    ]
    assert others == ["journal"]


@pytest.mark.slow
def test_dask_changes_no_byte_of_a_training(folder: Path, tmp_path: Path) -> None:
    options = [
        "--method",
        "surreal-gan",
        "--max-steps",
        40,
        "--patterns",
        2,
        "--orthogonality",
        "0.1,0.2",
    ]
    options += ["--members", 2]
    for name, engine in (
        ("local", ["--workers", 1]),
        ("dask", ["--engine", "dask", "--workers", 2]),
    ):
        done = run_apart(
            "fit", folder / "study.toml", "--out", tmp_path / name, *options, *engine
        )
        assert "none of 5 members of surreal-gan converged" in done.stderr
    # two settings for a quarter of the steps, and the better one for all
    assert len(sets(tmp_path / "local")) == 3
    assert sets(tmp_path / "local") == sets(tmp_path / "dask")


def is_worker(process: psutil.Process) -> bool:
    """Return whether a process is a worker that is still there."""
    try:
        return "spawn_main" in " ".join(process.cmdline())
    except psutil.Error:
        return False


def list_training_workers(out: Path) -> list[psutil.Process]:
    """Return the workers that are training; the journals are named by them."""
    workers = []
    for path in out.glob("runs/journal/*.tsv"):
        if "\tbegun\t" in path.read_text().rpartition("\n")[0].rpartition("\n")[2]:
            try:
                workers.append(psutil.Process(int(path.stem.rpartition("-")[2])))
            except psutil.Error:  # it has ended
                continue
    return [worker for worker in workers if is_worker(worker)]


def kill_processes(
    folder: Path, out: Path, kills: int, at_random: bool
) -> Counter[str]:
    """Kill workers over a study, then its scheduler, then the client; return what was
    lost at most.

    Workers are killed at random moments, or as soon as they train, which does not
    depend on the speed of the machine.
    """
    chance, lost, killed = random.Random(1), Counter[str](), set[int]()
    fit = [
        "fit",
        folder / "study.toml",
        "--out",
        out,
        "--engine",
        "dask",
        "--scheduler",
    ]
    with scheduler(folder) as (address, head, nannies):
        client = begin(*fit, address)
        wait_for(lambda: list(out.glob("runs/journal/*.tsv")))
        while lost["worker"] < kills:
            if at_random:
                time.sleep(chance.uniform(0.5, 3.0))
                workers = [
                    child
                    for nanny in nannies
                    for child in nanny.children()
                    if is_worker(child)
                ]
            else:
                workers = [
                    worker
                    for worker in list_training_workers(out)
                    if worker.pid not in killed
                ]
            if workers:
                worker = chance.choice(workers)
                worker.kill()
                killed.add(worker.pid)
                lost["worker"] += 1
            if (
                client.poll() is not None
            ):  # a set may have met four kills; who asks again gets it
                assert client.returncode == 1, client.communicate()[1]
                client.communicate()
                client = begin(*fit, address)
                wait_for((out / "runs" / "lock").exists)
        head.kill()
        lost["scheduler"] += 2  # both workers had a set
        message = client.communicate(timeout=120)[1]
        assert client.returncode == 3, message
        assert "is gone" in message
    with scheduler(folder, workers=1) as (address, _, _):
        client, before = begin(*fit, address), len(list(out.glob("runs/journal/*.tsv")))
        wait_for(lambda: len(list(out.glob("runs/journal/*.tsv"))) > before)
        client.kill()
        client.communicate()
        lost["client"] += 1
        done = run_apart(*fit, address)
        assert done.returncode == 0, done.stderr
    return lost


def check_kills(folder: Path, out: Path, kills: int, at_random: bool) -> str:
    """Return what happened, in a line."""
    lost = kill_processes(folder, out, kills, at_random)
    store = RunStore(out / "runs")
    begun, finished = store.count_events("begun"), store.count_events("finished")
    assert lost["worker"] == kills
    assert set(finished.values()) == {1}, "a set was trained to its end twice"
    assert set(begun) == set(finished)
    twice = sum(begun.values()) - len(begun)
    assert 0 < twice <= lost.total(), (
        f"{twice} trainings were repeated, {lost.total()} were in flight when killed"
    )
    return f"{kills} workers, the scheduler and the client killed: {len(begun)} sets, {twice} begun again"


@pytest.mark.slow
def test_workers_scheduler_and_client_killed(folder: Path, undisturbed: Path) -> None:
    check_kills(folder, folder / "storm", 2, at_random=False)
    assert outputs(folder / "storm") == outputs(undisturbed)


@pytest.mark.slow
def test_thirty_kills(long_folder: Path, tmp_path: Path) -> None:
    for name in ("volumes.csv", "participants.tsv"):
        (tmp_path / name).symlink_to(long_folder / name)
    more = LONG_STUDY.replace("[2, 3]", "[1, 2, 3, 4, 5, 6]").replace(
        "members = 10", "members = 40"
    )
    (tmp_path / "study.toml").write_text(more)
    assert (
        run("fit", tmp_path / "study.toml", "--out", tmp_path / "plain").returncode == 0
    )
    told = check_kills(tmp_path, tmp_path / "storm", 30, at_random=True)
    sys.stderr.write(f"{told}\n")
    assert outputs(tmp_path / "storm") == outputs(tmp_path / "plain")


def test_no_scheduler_and_no_packages(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rindices.engine.cluster._CONNECT_TIMEOUT", 1.0)
    fit = ["fit", folder / "study.toml", "--out", tmp_path / "out", "--engine", "dask"]
    done = run(*fit, "--scheduler", "tcp://127.0.0.1:9")
    assert done.returncode == 1
    assert "no scheduler answers at tcp://127.0.0.1:9" in done.stderr
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = run(*fit)
    assert done.returncode == 1
    assert (
        "distributed, which is not installed: pip install dask-jobqueue distributed\n"
        in done.stderr
    )
