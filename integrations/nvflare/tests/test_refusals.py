"""What a server, an admin or a stranger is refused, each against real processes."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from tests.lab import ADMIN, LEAD, SERVER, SOURCE, Lab
from tests.people import SIZES, STUDY, simulate_site, write_site, write_visits
from tests.study import JOB_STUDY

pytestmark = pytest.mark.slow
RUN = "refusals"
LOOK = """
import sys
from nvflare.fuel.flare_api.flare_api import new_secure_session
session = new_secure_session(sys.argv[1], sys.argv[2])
for look in (
    lambda: session.cat_target(sys.argv[3], file="local/rindices-nvflare.json"),
    lambda: session.cat_target(sys.argv[3], file="log.txt"),
    lambda: session.ls_target(sys.argv[3]),
    lambda: session.grep_target(sys.argv[3], pattern="site", file="local/rindices-nvflare.json"),
):
    try:
        print("SEEN", look())
    except Exception as error:
        print("REFUSED", type(error).__name__, error)
session.close()
"""


@pytest.fixture(scope="module")
def job(lab: Lab, tables: dict[str, Path]) -> Path:
    """A study whose server and sites run."""
    lab.close_kits(RUN, tables)
    lab.ask_admin(lambda session: session.list_jobs(), 90.0)  # the server takes jobs
    return lab.write_job(RUN, JOB_STUDY, list(tables))


def change_job(
    lab: Lab, job: Path, name: str, file: str, change: dict[str, Any]
) -> Path:
    """Return a copy of a job in which a JSON file has other values."""
    copy = lab.folder / "jobs" / name
    shutil.copytree(job, copy, dirs_exist_ok=True)
    path = copy / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    return copy


def end_without_rounds(lab: Lab, job: Path, seconds: float = 150.0) -> str:
    """Submit a job that must not run, and return its status."""
    try:
        number = lab.submit(job, seconds=1.0)
    except Exception as error:
        return str(error)
    end, status = time.monotonic() + seconds, ""
    while time.monotonic() < end and not status.startswith("FINISHED"):
        time.sleep(1)
        status = lab.get_status(number)
    if not status.startswith("FINISHED"):
        lab.ask_admin(lambda session: session.abort_job(number))
    return status


def test_a_job_with_code_of_its_own_is_refused(lab: Lab, job: Path) -> None:
    bad, trace = change_job(lab, job, "byoc", "meta.json", {}), lab.folder / "ran"
    (bad / "app" / "custom").mkdir(exist_ok=True)
    (bad / "app" / "custom" / "own.py").write_text(f"open({str(trace)!r}, 'w')\n")
    status = end_without_rounds(lab, bad)
    assert "COMPLETED" not in status
    assert "BYOC not permitted" in lab.read_server().decode(errors="replace") + status
    assert not trace.exists()


def test_a_class_that_is_not_on_the_list_is_refused(lab: Lab, job: Path) -> None:
    executor = {
        "tasks": ["hello"],
        "executor": {"path": "nvflare.app_common.np.np_trainer.NPTrainer", "args": {}},
    }
    bad = change_job(
        lab,
        job,
        "class",
        "app/config/config_fed_client.json",
        {"executors": [executor]},
    )
    assert "COMPLETED" not in end_without_rounds(lab, bad)
    logs = "".join(
        (lab.folder / "logs" / f"{name}.log").read_text() for name in lab.sites
    )
    assert "NPTrainer' at config path" in logs
    assert "is not in allow_list" in logs
    assert not lab.count_rounds(RUN)


def test_an_unknown_scope_is_refused(lab: Lab, job: Path) -> None:
    bad = change_job(lab, job, "scope", "meta.json", {"scope": "public"})
    assert "COMPLETED" not in end_without_rounds(lab, bad)
    assert "privacy scope 'public' is not allowed" in lab.read_server().decode(
        errors="replace"
    )
    assert not lab.count_rounds(RUN)


@pytest.mark.parametrize("admin", [ADMIN, LEAD])
@pytest.mark.parametrize("target", ["site-1", "server"])
def test_an_admin_sees_no_file(lab: Lab, job: Path, admin: str, target: str) -> None:
    said = lab.run("python", "-c", LOOK, admin, lab.kits / admin, target)
    assert said.count("REFUSED") == 4, said
    assert "SEEN" not in said
    assert "private" not in said


def test_a_certificate_of_another_authority_is_refused(lab: Lab, job: Path) -> None:
    fingerprint = lab.make_authority("other-ca")
    kit = lab.provision("site-1", fingerprint, "other-ca", "other-workspace")
    lab.signal("site-1")
    log = lab.folder / "logs" / f"{SERVER}.log"
    before = log.read_text().count("site-1@")
    lab.start("site-1", kit)
    time.sleep(15)
    assert log.read_text().count("site-1@") == before
    lab.signal("site-1")
    lab.start("site-1")


def test_a_site_that_another_does_not_list_is_refused(
    lab: Lab, tables: dict[str, Path], job: Path
) -> None:
    names = [
        word for name in ("site-1", "site-2", "site-3") for word in ("--site", name)
    ]
    private = lab.folder / "private" / RUN / "site-2"
    close = (
        "kit",
        lab.kits / "site-2",
        "--study",
        tables["site-2"],
        "--private",
        private,
    )
    lab.call(*close, *names)
    lab.signal("site-2")
    lab.start("site-2")
    lab.delete_results(RUN)
    said = lab.run_job(RUN, job)["says"]
    assert said == (
        "site-2 lists other sites than this job: run rindices-nvflare kit there with the same --site names."
    )
    lab.call(*close, *names, "--site", "site-4")
    lab.signal("site-2")
    lab.start("site-2")


def test_sums_before_all_seeds_are_refused(lab: Lab, job: Path) -> None:
    skip = "            self._controller.ask_sites(SEEDS, wire.write_message({}))\n"
    lab.sources[SERVER] = lab.copy_source(
        "no-seeds", {"server.py": {skip: "            pass\n"}}
    )
    lab.signal(SERVER)
    lab.start(SERVER)
    lab.delete_results(RUN)
    said = lab.run_job(RUN, job)["says"]
    assert said.count("is missing the seeds of 3 sites") == len(lab.sites)
    lab.sources[SERVER] = SOURCE
    lab.signal(SERVER)
    lab.start(SERVER)


def test_a_round_is_masked_once(lab: Lab, job: Path) -> None:
    add = "masks.add_all(each[MASKED] for each in told.values())"
    again = add.replace("told", "self._controller.ask_sites(SUMS, request.encode())")
    lab.sources[SERVER] = lab.copy_source("ask-twice", {"server.py": {add: again}})
    lab.signal(SERVER)
    lab.start(SERVER)
    lab.delete_results(RUN)
    said = lab.run_job(RUN, job)["says"]
    assert said.count("has answered round 2 in this job") == len(lab.sites)
    lab.sources[SERVER] = SOURCE
    lab.signal(SERVER)
    lab.start(SERVER)


def test_a_site_whose_people_have_several_visits_is_named(
    lab: Lab, tables: dict[str, Path], job: Path
) -> None:
    people = simulate_site("site-2", *SIZES["site-2"])
    write_visits(tables["site-2"].parent, people)
    try:
        lab.delete_results(RUN)
        assert lab.run_job(RUN, job)["says"] == (
            'site-2 has people with several visits: set visits = "first" in [data] of its '
            "study file."
        )
        assert "165 people have several visits" in lab.read_private(
            RUN, "site-2", "log.txt"
        )
    finally:
        write_site(tables["site-2"].parent, people)


def test_a_second_job_with_one_person_less_is_refused_until_it_is_allowed(
    lab: Lab, tables: dict[str, Path], job: Path
) -> None:
    lab.delete_results(RUN)
    number = lab.begin_job(RUN, job)
    assert lab.wait_for_rounds(RUN, 3) >= 3
    lab.signal(SERVER, "job")
    lab.wait(RUN, number)
    tables["site-3"].write_text(STUDY + 'exclude_people = ["sub-30000"]\n')
    try:
        lab.delete_results(RUN)
        assert lab.run_job(RUN, job)["says"] == (
            "site-3 took part before with other people: if this is agreed, run rindices-nvflare allow there."
        )
        lab.call("allow", lab.kits / "site-3")
        lab.delete_results(RUN)
        said = lab.run_job(RUN, job)[
            "says"
        ]  # the others have answered these rounds for other totals
        assert said.startswith("site-1 answered this round before for another question")
    finally:
        tables["site-3"].write_text(STUDY)


@pytest.mark.parametrize(
    ("file", "restart"),
    [
        ("authorization.json", False),
        ("authorization.json", True),
        ("resources.json", True),
        ("privacy.json", True),
    ],
)
def test_a_kit_that_was_opened_again_is_refused(
    lab: Lab, job: Path, file: str, restart: bool
) -> None:
    local = lab.kits / "site-1" / "local"
    closed, default = (local / file).read_text(), local / f"{file}.default"
    opened = (
        default.read_text()
        if default.exists()
        else json.dumps({"scopes": [{"name": "open"}]})
    )
    (local / file).write_text(opened)
    if restart:
        lab.signal("site-1")
        lab.start("site-1")
    lab.delete_results(RUN)
    said = lab.run_job(RUN, job, 150.0)
    assert not said["finished"]
    assert not lab.count_rounds(RUN)
    assert (
        said["says"].startswith("site-1 has a start kit that is not closed")
        or "FINISHED" in said["status"]
    )
    (local / file).write_text(closed)
    lab.signal("site-1")
    lab.start("site-1")
