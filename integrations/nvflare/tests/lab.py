"""A server and its clients as real processes, with start kits by ``nvflare cert`` and
``nvflare package``.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from nvflare.fuel.flare_api.flare_api import new_secure_session
from typer.testing import CliRunner

from rindices_nvflare.cli import app

WAIT = 30
"""Seconds that a server waits for the answers of a round."""
SERVER, ADMIN, LEAD = "localhost", "admin@centre.org", "lead@centre.org"
SOURCE = Path(__file__).parents[1] / "src"
TYPES = {
    SERVER: "type: server",
    ADMIN: "type: admin, role: org_admin",
    LEAD: "type: admin, role: lead",
}


def join_path(source: Path) -> str:
    """Return the path of modules with a folder in front."""
    return os.pathsep.join([str(source), *filter(None, [os.environ.get("PYTHONPATH")])])


class Lab:
    """A folder with a certificate authority, start kits and the processes that run
    them.
    """

    def __init__(self, folder: Path, sites: Sequence[str]) -> None:
        self.folder, self.sites = folder, list(sites)
        self.kits = folder / "workspace" / "rindices" / "prod_00"
        with socket.socket() as probe:
            probe.bind(("localhost", 0))
            self.port = int(probe.getsockname()[1])
        paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        threads = dict.fromkeys(
            ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"
        )
        self.env = {
            **os.environ,
            **threads,
            "HOME": str(folder / "home"),
            "PATH": paths,
            "PYTHONPATH": join_path(SOURCE),
        }
        (folder / "home").mkdir(parents=True, exist_ok=True)
        (folder / "logs").mkdir(exist_ok=True)
        self.started: dict[str, psutil.Process] = {}
        self.sources: dict[str, Path] = {}
        self.session: Any = None

    def run(self, *words: Any, ok: bool = True) -> str:
        """Run a command in the folder and return what it says."""
        done = subprocess.run(
            [str(word) for word in words],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
        )
        if done.returncode and ok:
            raise RuntimeError(f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout + done.stderr

    def call(self, *words: Any) -> str:
        """Run ``rindices-nvflare`` in this process, and return what it says."""
        done = CliRunner().invoke(app, [str(word) for word in words])
        if done.exit_code:
            raise RuntimeError(f"{words}: {done.output}")
        return done.output

    def make_authority(self, folder: str = "ca") -> str:
        """Make a certificate authority and return its fingerprint."""
        server = f"server: {{host: localhost, fed_learn_port: {self.port}}}"
        profile = self.folder / "profile.yaml"
        profile.write_text(
            f"name: rindices\nscheme: grpc\nconnection_security: mtls\n{server}\n"
        )
        said = self.run("nvflare", "cert", "init", "--profile", profile, "-o", folder)
        return next(
            line.split(": ", 1)[1]
            for line in said.splitlines()
            if line.startswith("rootca_fingerprint")
        )

    def provision(
        self,
        name: str,
        fingerprint: str,
        authority: str = "ca",
        workspace: str = "workspace",
    ) -> Path:
        """Make the start kit of a participant, whose key stays where it was made."""
        request, definition = (
            self.folder / f"{authority}-{name}",
            self.folder / f"{name}.yaml",
        )
        kind = TYPES.get(name, "type: client")
        definition.write_text(
            f"name: rindices\nparticipants:\n  - {{name: {name}, org: {name[-1]}org, {kind}}}\n"
        )
        self.run(
            "nvflare", "cert", "request", "-p", definition, "--out", request, "--force"
        )
        archive, signed = (
            request / f"{name}.request.zip",
            request / f"{name}.signed.zip",
        )
        self.run(
            "nvflare",
            "cert",
            "approve",
            archive,
            "-c",
            authority,
            "--profile",
            "profile.yaml",
            "--out",
            signed,
        )
        words = (
            "--request-dir",
            request,
            "--fingerprint",
            fingerprint,
            "-w",
            workspace,
            "--force",
        )
        self.run("nvflare", "package", signed, *words)
        return self.folder / workspace / "rindices" / "prod_00" / name

    def provision_all(self, names: Sequence[str]) -> None:
        """Make the start kits of several participants."""
        fingerprint = self.make_authority()
        for name in names:
            self.provision(name, fingerprint)

    def copy_source(self, run: str, changes: dict[str, dict[str, str]]) -> Path:
        """Return a copy of the package in which lines are changed, to see what a fault
        or a curious person would do.
        """
        source = self.folder / "sources" / run
        shutil.copytree(
            SOURCE,
            source,
            ignore=shutil.ignore_patterns("__pycache__"),
            dirs_exist_ok=True,
        )
        for file, lines in changes.items():
            path = source / "rindices_nvflare" / file
            text = path.read_text()
            for old, new in lines.items():
                assert text.count(old) == 1, old
                text = text.replace(old, new)
            path.write_text(text)
        return source

    def start(self, name: str, kit: Path | None = None) -> None:
        """Start the process of a participant, with a changed copy of the package where
        `sources` names one.
        """
        kit = kit or self.kits / name
        for pid_file in ("pid.fl", "daemon_pid.fl"):
            (kit / pid_file).unlink(missing_ok=True)
        env = {**self.env, "PYTHONPATH": join_path(self.sources.get(name, SOURCE))}
        with (self.folder / "logs" / f"{name}.log").open("a") as log:
            process = subprocess.Popen(
                ["bash", str(kit / "startup/sub_start.sh")],
                stdout=log,
                stderr=log,
                env=env,
                start_new_session=True,
            )
        self.started[name] = psutil.Process(process.pid)

    def find_processes(self, name: str, what: str = "all") -> list[psutil.Process]:
        """Return the processes of a participant: ``all``, its ``job`` alone, or its
        ``parent`` without the script.
        """
        try:
            script = self.started[name]
            family = [script, *script.children(recursive=True)]
        except (KeyError, psutil.NoSuchProcess):
            return []
        found = []
        for process in family:
            try:
                words = " ".join(process.cmdline())
            except psutil.NoSuchProcess:
                continue
            is_job = "worker_process" in words or "runner_process" in words
            if (
                what == "all"
                or (what == "job" and is_job)
                or (what == "parent" and "_train" in words and not is_job)
            ):
                found.append(process)
        return found

    def signal(self, name: str, what: str = "all", number: int = signal.SIGKILL) -> int:
        """Send a signal to processes of a participant, and return how many
        there were.
        """
        processes = self.find_processes(name, what)
        for process in processes:
            try:
                process.send_signal(number)
            except psutil.NoSuchProcess:
                continue
        if number == signal.SIGKILL:
            psutil.wait_procs(processes, timeout=10)
        return len(processes)

    def start_all(self) -> None:
        """Start the server and all sites, and wait until the server knows them."""
        for name in (SERVER, *self.sites):
            if not self.find_processes(name):
                self.start(name)

    def stop_all(self) -> None:
        """Kill all processes that were started."""
        self.close_session()
        for name in list(self.started):
            self.signal(name)

    def close_session(self) -> None:
        """Forget the session of the admin who submits jobs."""
        if self.session is not None:
            with suppress(Exception):
                self.session.close()
        self.session = None

    def ask_admin(self, function: Callable[[Any], Any], seconds: float = 90.0) -> Any:
        """Return what the server answers to the admin who submits jobs,
        once it does.
        """
        end = time.monotonic() + seconds
        while True:
            try:
                if self.session is None:
                    self.session = new_secure_session(
                        LEAD, str(self.kits / LEAD), timeout=10.0
                    )
                return function(self.session)
            except Exception:
                self.close_session()
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)

    def submit(self, job: Path, seconds: float = 90.0) -> str:
        """Submit a job, once the server answers, and return its id."""
        return str(
            self.ask_admin(lambda session: session.submit_job(str(job)), seconds)
        )

    def get_status(self, job: str) -> str:
        """Return the status of a job."""
        return str(self.ask_admin(lambda session: session.get_job_meta(job))["status"])

    def wait(self, out: str, job: str, seconds: float = 300.0) -> dict[str, Any]:
        """Wait until a study says that it ended, or until the job did, and return what
        the study says.
        """
        end, state = time.monotonic() + seconds, self.read_state(out)
        next_look = time.monotonic() + 10.0
        while time.monotonic() < end:
            state = self.read_state(out)
            if state["finished"] or state["says"] not in ("", "running"):
                return state
            if time.monotonic() > next_look:
                status = self.get_status(job)
                if status.startswith("FINISHED"):
                    return {**self.read_state(out), "status": status}
                next_look = time.monotonic() + 5.0
            time.sleep(0.2)
        raise TimeoutError(f"{job} has not ended after {seconds} seconds: {state}")

    def read_state(self, out: str) -> dict[str, Any]:
        """Return what a study at the server says."""
        path = self.kits / SERVER / out / "state.json"
        return (
            dict(json.loads(path.read_text()))
            if path.exists()
            else {"finished": False, "says": ""}
        )

    def count_rounds(self, out: str) -> int:
        """Return the number of rounds that the server keeps."""
        return len(list((self.kits / SERVER / out / "rounds").glob("[0-9]*.npz")))

    def wait_for_rounds(self, out: str, number: int, seconds: float = 240.0) -> int:
        """Wait until the server keeps so many rounds, and return how many there are."""
        end = time.monotonic() + seconds
        while self.count_rounds(out) < number and time.monotonic() < end:
            time.sleep(0.05)
        return self.count_rounds(out)

    def delete_results(self, run: str) -> None:
        """Delete the folder of a study at the server."""
        shutil.rmtree(self.kits / SERVER / run, ignore_errors=True)

    def close_kits(
        self, run: str, tables: dict[str, Path], *options: str, source: Path = SOURCE
    ) -> None:
        """Close all kits for a run, with a fresh folder of each site, and start all
        processes again.

        source: of the package that the sites have.
        """
        self.stop_all()
        self.sources = dict.fromkeys(tables, source)
        names = [word for name in tables for word in ("--site", name)]
        for name, study in tables.items():
            private = self.folder / "private" / run / name
            words = ("--study", study, "--private", private, *names, *options)
            self.call("kit", self.kits / name, *words)
        self.call("kit", self.kits / SERVER)
        self.start_all()

    def write_job(
        self, run: str, study: str, sites: Sequence[str], *options: str
    ) -> Path:
        """Write the folder of a job whose results go to a folder of the name of the
        run.
        """
        path, folder = self.folder / f"{run}.toml", self.folder / "jobs" / run
        path.write_text(study)
        names = [word for name in sites for word in ("--site", name)]
        columns = self.folder / "columns.json"
        self.call("check", self.kits / sites[0], "--columns", columns)
        words = (
            "--job",
            folder,
            "--columns",
            columns,
            "--out",
            run,
            "--wait",
            str(WAIT),
            *names,
            *options,
        )
        self.call("job", path, *words)
        return folder

    def run_job(self, run: str, job: Path, seconds: float = 300.0) -> dict[str, Any]:
        """Submit a job and wait for the end of its study."""
        return self.wait(run, self.begin_job(run, job), seconds)

    def begin_job(self, run: str, job: Path) -> str:
        """Submit a job, and forget what the study said before."""
        (self.kits / SERVER / run / "state.json").unlink(missing_ok=True)
        return self.submit(job)

    def read_private(self, run: str, name: str, file: str) -> str:
        """Return a file of a site's own folder; empty if there is none."""
        path = self.folder / "private" / run / name / file
        return path.read_text() if path.exists() else ""

    def read_server(self) -> bytes:
        """Return all that the server has on its disk, but for NVFLARE's own settings,
        and all that it said.
        """
        files = [path for path in (self.kits / SERVER).rglob("*") if path.is_file()]
        return b"".join(
            path.read_bytes()
            for path in [*files, self.folder / "logs" / f"{SERVER}.log"]
        )
