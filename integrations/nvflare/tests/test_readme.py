"""The steps of the page, run as they are written, for three hospitals."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.lab import Lab
from tests.people import simulate_site, write_site
from tests.study import JOB_STUDY

pytestmark = pytest.mark.slow
PAGE = (Path(__file__).parents[1] / "README.md").read_text()
HOSPITALS = {"hospital-a": "site-1", "hospital-b": "site-2", "hospital-c": "site-3"}
KINDS = {
    "localhost": "server, org: centre",
    "lead@centre.org": "admin, role: lead, org: centre",
}


def read_commands(title: str) -> list[str]:
    """Return the commands of a section, without comments."""
    block = re.search(rf"## {title}\n.*?```sh\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    return [line for line in block[1].splitlines() if not line.startswith("#")]


def test_the_page_is_one_printed_page_with_a_promise_in_four_sentences() -> None:
    promise = re.search(r"## For an ethics board\n(.*?)\n\n", PAGE, re.DOTALL)
    assert promise is not None
    assert len(re.findall(r"^\d\. ", promise[1], re.MULTILINE)) == 4
    assert len(read_commands("Six steps for a hospital")) == 7


def test_the_steps_as_written(tmp_path: Path) -> None:
    lab, started = Lab(tmp_path, list(HOSPITALS)), []

    def run(command: str, folder: Path, **variables: str) -> str:
        env = {**lab.env, **variables}
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(command: str, folder: Path) -> None:
        with (folder / "screen.txt").open("a") as screen:
            process = subprocess.Popen(
                ["bash", "-c", command],
                cwd=folder,
                env=lab.env,
                stdout=screen,
                stderr=screen,
                start_new_session=True,
            )
        started.append(process.pid)

    centre = tmp_path / "centre"
    centre.mkdir()
    profile, init, approve, close, start_server, job, submit = (
        line.replace("8102", str(lab.port)) for line in read_commands("The centre")
    )
    _, define, request, package, kit, check, start_site = read_commands(
        "Six steps for a hospital"
    )
    run(profile, centre)
    said = run(init, centre)
    fingerprint = next(
        line.split(": ", 1)[1]
        for line in said.splitlines()
        if line.startswith("rootca_fingerprint")
    )

    def make_kit(name: str, folder: Path, *lines: str) -> None:
        for line in lines[:2]:
            run(line.replace("hospital-a", name), folder)
        signed = approve.replace("hospital-a/", f"{folder}/{name}/").replace(
            "hospital-a", name
        )
        run(signed, centre)
        if folder != centre:
            (centre / f"{name}.signed.zip").rename(folder / f"{name}.signed.zip")
        run(lines[2].replace("hospital-a", name), folder, FINGERPRINT=fingerprint)

    try:
        for name, kind in KINDS.items():
            own = define.replace("client, org: hospital_a", kind)
            make_kit(name, centre, own, request, package)
        for name, site in HOSPITALS.items():
            folder = write_site(tmp_path / name, simulate_site(site, 80, 80)).parent
            make_kit(name, folder, define, request, package)
            for line in (kit, check):
                run(line.replace("prod_00/hospital-a", f"prod_00/{name}"), folder)
        run(close, centre)
        start(start_server, centre)
        for name in HOSPITALS:
            start(start_site.replace("hospital-a", name), tmp_path / name)
        (tmp_path / "hospital-a" / "columns.json").rename(centre / "columns.json")
        (centre / "job.toml").write_text(JOB_STUDY)
        run(job, centre)
        run(
            f"for k in 1 2 3 4 5 6 7 8 9; do {submit} && exit 0; sleep 3; done; exit 1",
            centre,
        )
        lab.kits = centre / "workspace" / "rindices" / "prod_00"
        lab.get_status = lambda job: "RUNNING"  # type: ignore[method-assign]
        assert lab.wait("results", "")["says"] == "finished: patterns"
        for name in HOSPITALS:
            assert (tmp_path / name / "own" / "r_indices.tsv").is_file()
            assert not (tmp_path / name / "own" / "log.txt").exists()
    finally:
        for pid in started:
            os.killpg(pid, signal.SIGKILL)
