"""A study in a provisioned deployment of NVIDIA FLARE, one client of which is killed: the result is that of memory.

Usage: ``python -m benchmarks.federated_nvflare [--results FOLDER]``; needs the extra ``federated``.

``nvflare provision`` writes the start-up kits, with a certificate each, of a server, three clients and a person who
submits jobs. Server and clients are processes of their own, started by the scripts of their kits. In the middle of the
study the processes of one client get SIGKILL; the script of its kit starts the client again, and the same job is
submitted again. People are simulated (seed 0, 150 + 200, 12 regions). Writes ``results/federated_nvflare.md``.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
import psutil

import rindices as ri
from rindices.federated.fit import FederatedResult, FederatedSettings, run_federated_study
from rindices.federated.rounds import InMemoryTransport
from rindices.federated.site import Site
from rindices.study.config import ModelConfig
from rindices.tables.cohort import Cohort

RESULTS = Path(__file__).parent / "results"
CLIENTS = ("site-1", "site-2", "site-3")
SERVER, ADMIN = "localhost", "admin@centre.org"
STUDY = '[data]\nharmonise = "none"\n[model]\npatterns = [3]\nmembers = 2\nmethod_settings = { shape = "straight" }\n'
MODEL = ModelConfig(patterns=(3,), members=2, method_settings={"shape": "straight"})
KILL_AFTER_ROUND = 20
WAIT = 30
PROGRAM = [sys.executable, "-c", "from rindices.cli.main import run; run()"]


@dataclass
class Deployment:
    """Start-up kits and processes of a server and its clients."""

    folder: Path
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def kits(self) -> Path:
        return self.folder / "workspace" / "study" / "prod_00"

    def provision(self) -> None:
        """Write the start-up kits, with a certificate each."""
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        people = [{"name": SERVER, "type": "server", "org": "centre", "fed_learn_port": port}]
        people += [{"name": name, "type": "client", "org": name.replace("-", "")} for name in CLIENTS]
        people += [{"name": ADMIN, "type": "admin", "org": "centre", "role": "project_admin"}]
        names = ("workspace.WorkspaceBuilder", "static_file.StaticFileBuilder", "cert.CertBuilder")
        builders = [{"path": f"nvflare.lighter.impl.{name}"} for name in (*names, "signature.SignatureBuilder")]
        builders[1]["args"] = {"config_folder": "config", "scheme": "grpc"}  # type: ignore[assignment]
        project = {"api_version": 3, "name": "study", "participants": people, "builders": builders}
        (self.folder / "project.yml").write_text(json.dumps(project))  # JSON is YAML
        self.run_nvflare(["provision", "-p", "project.yml", "-w", "workspace"])

    def run_nvflare(self, words: Sequence[str]) -> str:
        """Run a command of FLARE and return what it prints."""
        command = [sys.executable, "-m", "nvflare.cli", *words]
        result = subprocess.run(command, cwd=self.folder, env=self._environment, capture_output=True, text=True)
        if result.returncode:
            raise RuntimeError(f"nvflare {' '.join(words)}: {result.stdout[-1500:]}{result.stderr[-1500:]}")
        return result.stdout

    @property
    def _environment(self) -> dict[str, str]:
        """Variables of the processes; the settings of FLARE in the home folder are left alone."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, "HOME": str(self.folder), "PATH": path}

    def start(self) -> None:
        """Start the server and the clients with the scripts of their kits."""
        for name in (SERVER, *CLIENTS):
            log = (self.folder / f"{name}.log").open("w")
            script = str(self.kits / name / "startup" / "sub_start.sh")
            self.processes[name] = subprocess.Popen(
                ["bash", script], stdout=log, stderr=log, env=self._environment, start_new_session=True
            )

    def stop(self) -> None:
        """End all processes that were started here."""
        for process in self.processes.values():
            family = [process.pid, *(each.pid for each in psutil.Process(process.pid).children(recursive=True))]
            for pid in family:
                _kill(pid)
            process.wait()

    def kill_client(self, name: str) -> list[int]:
        """Send SIGKILL to the client and to the process of its job; the script of the kit goes on."""
        client = int((self.kits / name / "pid.fl").read_text())
        pids = [client, *(each.pid for each in psutil.Process(client).children(recursive=True))]
        for pid in pids:
            _kill(pid)
        return pids

    def wait_for_restart(self, name: str, killed: Sequence[int]) -> None:
        """Wait until the script of the kit has started the client again."""
        while int((self.kits / name / "pid.fl").read_text() or 0) in killed:
            time.sleep(0.5)

    def submit(self) -> str:
        """Submit the job and return its id."""
        kit = ["--startup-kit", str(self.kits / ADMIN), "--format", "json"]
        for attempt in range(20):  # the server may not be there yet
            try:
                printed = json.loads(self.run_nvflare(["job", "submit", "-j", str(self.folder / "job"), *kit]))
                return str(printed["data"]["job_id"])
            except RuntimeError:
                if attempt == 19:
                    raise
                time.sleep(3)
        raise AssertionError

    def wait_for_job(self, job: str) -> str:
        """Return the status in which a job ends."""
        kit = ["--startup-kit", str(self.kits / ADMIN), "--format", "json"]
        while True:
            status = json.loads(self.run_nvflare(["job", "meta", job, *kit]))["data"]["status"]
            if str(status).startswith("FINISHED"):
                return str(status)
            time.sleep(2)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def simulate_sites() -> dict[str, Cohort]:
    """Return the people of the three clients."""
    cohort = ri.simulate_cohort("small", seed=0).cohort
    cohort = Cohort(cohort.volumes.iloc[:, ::12], cohort.people, cohort.covariates, cohort.source, cohort.unit)
    labels = np.random.default_rng(0).integers(len(CLIENTS), size=len(cohort))
    return {name: cohort.take(labels == k) for k, name in enumerate(CLIENTS)}


def write_tables(folder: Path, cohort: Cohort) -> list[str]:
    """Write the table of a site and return the options that name it."""
    folder.mkdir(parents=True)
    volumes = cohort.volumes.copy()
    volumes.insert(0, "participant_id", cohort.people["participant_id"])
    volumes.to_csv(folder / "volumes.csv", index=False)
    pd.concat([cohort.people, cohort.covariates], axis=1).to_csv(folder / "people.tsv", sep="\t", index=False)
    columns = ["--group", "group", "--covariates", "age,sex,icv"]
    return [str(folder / "volumes.csv"), "--participants", str(folder / "people.tsv"), *columns]


def run_rindices(words: Sequence[str]) -> None:
    subprocess.run([*PROGRAM, *words], check=True, stdout=subprocess.DEVNULL)


def run_deployment(deployment: Deployment, sites: dict[str, Cohort]) -> dict[str, object]:
    """Run the study with a kill in the middle, and return what happened."""
    folder, results = deployment.folder, deployment.kits / SERVER / "results"
    deployment.provision()
    for name, cohort in sites.items():
        run_rindices(["site", *write_tables(folder / name, cohort), "--flare-kit", str(deployment.kits / name)])
    (folder / "study.toml").write_text(STUDY)
    job = ["--flare-job", str(folder / "job"), "--flare-kit", str(deployment.kits / SERVER), "--wait", str(WAIT)]
    run_rindices(["federate", str(folder / "study.toml"), "--sites", "3", "--out", "results", *job])
    deployment.start()
    start = time.monotonic()
    first = deployment.submit()
    while not (results / "answers" / "job" / "site-2" / f"{KILL_AFTER_ROUND:04d}.json").exists():
        if time.monotonic() - start > 300:
            raise RuntimeError((folder / f"{SERVER}.log").read_text()[-3000:])
        time.sleep(0.1)
    killed = deployment.kill_client("site-2")
    status = deployment.wait_for_job(first)
    n_answers = len(list((results / "answers" / "job" / "site-2").glob("*.json")))
    deployment.wait_for_restart("site-2", killed)
    second = deployment.wait_for_job(deployment.submit())
    seconds = time.monotonic() - start
    logs = [pd.read_csv(deployment.kits / name / "local" / "rindices-log.tsv", sep="\t") for name in CLIENTS]
    return {
        "processes killed": len(killed),
        "rounds that the client had answered": n_answers,
        "end of the first job": status,
        "end of the second job": second,
        "answers in the logs": [len(log) for log in logs],
        "seconds": round(seconds),
    }


def compare_models(folder: Path, expected: FederatedResult, people: ri.Cohort) -> dict[str, object]:
    """Return how the model of the deployment, and the R-indices of people by it, differ from those of memory."""
    model = ri.load(folder / "model.safetensors")
    assert expected.model is not None
    indices = [each.apply(people)[each.index_names].to_numpy() for each in (model, expected.model)]
    return {
        "patterns": model.n_patterns,
        "rounds": json.loads((folder / "federation.json").read_text())["rounds"],
        "rounds in memory": len(expected.rounds),
        "largest difference of patterns": float(np.abs(model.patterns - expected.model.patterns).max()),
        "largest difference of R-indices": float(np.abs(indices[0] - indices[1]).max()),
        "patterns equal, bit for bit": bool(np.array_equal(model.patterns, expected.model.patterns)),
    }


def measure() -> dict[str, object]:
    """Run the study in a deployment and in memory."""
    sites = simulate_sites()
    with tempfile.TemporaryDirectory() as name:
        deployment = Deployment(Path(name))
        try:
            facts = run_deployment(deployment, sites)
            transport = InMemoryTransport([Site(n, sites[n]) for n in sorted(sites)])
            expected = run_federated_study(transport, FederatedSettings(MODEL))
            name, people = min(sites.items())
            people = replace(people, people=people.people.assign(site=name))
            return {**facts, **compare_models(deployment.kits / SERVER / "results", expected, people)}
        finally:
            deployment.stop()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--results", type=Path, default=RESULTS)
    folder = parser.parse_args().results
    facts = measure()
    lines = ["# A deployment of NVIDIA FLARE", "", "Written by `python -m benchmarks.federated_nvflare`.", ""]
    lines += ["| figure | value |", "|---|---|", *(f"| {name} | {value} |" for name, value in facts.items()), ""]
    (folder / "federated_nvflare.json").write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
    (folder / "federated_nvflare.md").write_text("\n".join(lines), "utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
