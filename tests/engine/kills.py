"""Kills by a real signal while a study is fitted and a model is applied: the results
are equal to the byte.

    python -m tests.engine.kills local dask [--kills 20] [--out kills.json]

Half of the kills are in ``fit``, half in ``apply``. Victims are taken in turn: a
worker, the client, and with Dask the scheduler. Each is killed (SIGKILL) at a random
moment; a command that ended is run again, as its message says. For Slurm, one must be
running; its victims are workers, jobs (``scancel``) and the client, which holds the
scheduler.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pandas as pd
import psutil

import rindices as ri
from tests.study.helpers import command, scheduler

STUDY = """
[data]
volumes = "people.csv"
group = "group"
covariates = ["age", "sex", "icv"]
[model]
patterns = [2, 3]
members = 20
[run]
seed = 3
"""
SLURM = """engine = "slurm"
[run.slurm]
partition = "debug"
walltime = "00:30:00"
memory = "2GB"
jobs = 2
"""
FILES = 40
RESULTS = {
    "fit": ("r_indices.tsv", "model.safetensors", "selection.json"),
    "apply": ("out.tsv", "out.json"),
}
_LONGEST_WAIT = 6.0  # seconds before a kill


def write_inputs(folder: Path) -> None:
    """Write a study on the task tiny, and a table of some files."""
    cohort = ri.simulate_cohort("tiny", seed=1).cohort
    frame = pd.concat([cohort.people, cohort.covariates, cohort.volumes], axis=1)
    frame.to_csv(folder / "people.csv", index=False)
    (folder / "study.toml").write_text(STUDY)
    (folder / "slurm.toml").write_text(STUDY + SLURM)
    (folder / "table").mkdir()
    for k in range(FILES):
        own = frame.assign(participant_id=frame["participant_id"] + f"n{k}")
        own.to_csv(folder / "table" / f"{k:02d}.csv", index=False)


class Storm:
    """A command that is killed, and run again until it has ended well.

    Parameters
    ----------
    engine : str
        Name of the engine.
    inputs : Path
        Folder of the study and the table.
    out : Path
        Folder for the results.
    """

    def __init__(self, engine: str, inputs: Path, out: Path) -> None:
        self.engine, self.inputs, self.out = engine, inputs, out
        self.chance, self.killed = random.Random(1), Counter[str]()
        self.stack, self.address = ExitStack(), ""
        self.processes: list[psutil.Process] = []

    def list_words(self, name: str) -> list[object]:
        """Return the words of the command."""
        if name == "fit":
            study = "slurm.toml" if self.engine == "slurm" else "study.toml"
            words = ["fit", self.inputs / study, "--out", self.out]
            if self.engine == "dask":
                words += ["--engine", "dask", "--scheduler", self.address]
        else:
            words = ["apply", self.inputs / "model.safetensors"]
            words += [self.inputs / "table", "--out", self.out / "out.tsv"]
            if self.address:
                words += ["--scheduler", self.address]
        return [*words, *(["--workers", 2] if self.engine == "local" else [])]

    def start_cluster(self) -> None:
        """Start a scheduler with two workers."""
        self.stack.close()
        if self.engine == "dask":
            self.address, head, nannies = self.stack.enter_context(
                scheduler(self.out.parent)
            )
            self.processes = [head, *nannies]

    def find_victim(self, kind: str, client: psutil.Process) -> psutil.Process | None:
        """Return a process of a kind that has begun."""
        if kind == "client":
            return client
        if kind == "scheduler":
            return self.processes[0]
        if self.engine == "local":
            found = [
                each
                for each in client.children(recursive=True)
                if "LokyProcess" in " ".join(each.cmdline())
            ]
        elif self.engine == "dask":
            found = [
                child for nanny in self.processes[1:] for child in nanny.children()
            ]
        else:
            found = [
                each
                for each in psutil.process_iter(["cmdline"])
                if "dask" in " ".join(each.info["cmdline"] or [])
                and "worker" in " ".join(each.info["cmdline"] or [])
            ]
        return self.chance.choice(found) if found else None

    def kill(self, kind: str, client: psutil.Process) -> bool:
        """Kill a process of a kind; return whether there was one."""
        if kind == "job":
            shown = subprocess.run(
                ["squeue", "-h", "-t", "R", "-o", "%i"],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.split()
            if shown:
                subprocess.run(["scancel", self.chance.choice(shown)], check=True)
            return bool(shown)
        try:
            victim = self.find_victim(kind, client)
            if victim is None or (kind == "client" and not self.has_begun()):
                return False
            victim.kill()
        except psutil.Error:
            return False
        return True

    def has_begun(self) -> bool:
        """Return whether the command has done some work."""
        return any(self.out.rglob("*.safetensors")) or any(self.out.rglob("*.npz"))

    def run(self, name: str, kills: int) -> None:
        """Run a command to its end, with a number of kills; an output that is finished
        too early is made anew.
        """
        kinds = {
            "local": ["worker", "client"],
            "dask": ["worker", "client", "scheduler"],
            "slurm": ["worker", "job", "client"],
        }[self.engine]
        self.start_cluster()
        done = 0
        while True:
            client = subprocess.Popen(
                command(*self.list_words(name)),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            begun = time.monotonic()
            wait = self.chance.uniform(0.0, _LONGEST_WAIT)
            while client.poll() is None:
                time.sleep(0.05)
                kind = kinds[done % len(kinds)]
                if done < kills and time.monotonic() - begun > wait:
                    if not self.kill(kind, psutil.Process(client.pid)):
                        continue
                    self.killed[f"{name}: {kind}"] += 1
                    done += 1
                    begun, wait = time.monotonic(), self.chance.uniform(0, 3)
                    if kind == "scheduler":
                        client.wait(60)
                        self.start_cluster()
            _, message = client.communicate()
            assert "Traceback" not in message, message
            if client.returncode == 0 and done == kills:
                return
            if client.returncode == 0:
                self.check(name)
                self.clear(name)
            elif client.returncode > 0:
                assert client.returncode in (1, 3), message

    def check(self, name: str) -> None:
        """Compare the results with those of an undisturbed run."""
        for file in RESULTS[name]:
            expected = (self.inputs / "expected" / file).read_bytes()
            assert (self.out / file).read_bytes() == expected, file

    def clear(self, name: str) -> None:
        """Delete finished results, to kill again."""
        for path in sorted(self.out.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()


@contextmanager
def prepare() -> Iterator[Path]:
    """Yield a folder with inputs and the results of an undisturbed run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder)
        run: Callable[..., object] = lambda *words: subprocess.run(  # noqa: E731
            command(*words, "--workers", 1), check=True, capture_output=True
        )
        run("fit", folder / "study.toml", "--out", folder / "expected")
        model = folder / "expected" / "model.safetensors"
        (folder / "model.safetensors").write_bytes(model.read_bytes())
        out = folder / "expected" / "out.tsv"
        run("apply", folder / "model.safetensors", folder / "table", "--out", out)
        yield folder


def main() -> None:
    """Kill, compare, and write the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engines", nargs="+", choices=["local", "dask", "slurm"])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    counts: dict[str, dict[str, int]] = {}
    with prepare() as inputs:
        for engine in options.engines:
            out = inputs / engine / "out"
            out.mkdir(parents=True)
            storm = Storm(engine, inputs, out)
            try:
                for name in ("fit", "apply"):
                    if name == "apply" and engine == "slurm":
                        continue  # it has no jobs of its own
                    share = options.kills // (1 if engine == "slurm" else 2)
                    storm.run(name, share)
                    storm.check(name)
                    storm.clear(name)
            finally:
                storm.stack.close()
            counts[engine] = dict(storm.killed)
            print(json.dumps({engine: counts[engine]}), flush=True)
    if options.out:
        options.out.write_text(json.dumps(counts, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    os.environ["PYTHONUNBUFFERED"] = "1"
    sys.exit(main())
