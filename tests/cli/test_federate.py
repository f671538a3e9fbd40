"""``rindices site`` and ``rindices federate``."""

import json
import re
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from rindices.cli.main import app
from rindices.federated.folder import FolderTransport, make_run_name, read_key
from rindices.federated.messages import Request, WaitingError
from rindices.federated.site import Site
from rindices.federated.site_service import SiteService
from rindices.model.fitted import FittedModel
from rindices.tables.cohort import Cohort
from tests.cohorts import simulate_few_regions
from tests.federated.sites import simulate_people, split_cohort

STUDY = '[model]\nmethod = "mean-difference"\nmembers = 2\n'


def run(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def write_tables(folder: Path, cohort: Cohort) -> list[object]:
    """Write the tables of a site and return the words that name them."""
    volumes = cohort.volumes.copy()
    volumes.insert(0, "participant_id", cohort.people["participant_id"])
    volumes.to_csv(folder / "volumes.csv", index=False)
    pd.concat([cohort.people, cohort.covariates], axis=1).to_csv(folder / "people.tsv", sep="\t", index=False)
    columns = ["--group", "group", "--covariates", "age,sex,icv"]
    return [folder / "volumes.csv", "--participants", folder / "people.tsv", *columns]


def test_centre_runs_a_study_with_keys(tmp_path: Path) -> None:
    exchange, keys = tmp_path / "exchange", tmp_path / "keys"
    (tmp_path / "study.toml").write_text(STUDY)
    words = [tmp_path / "study.toml", "--exchange", exchange, "--keys", keys]
    assert run("federate", *words, "--make-keys", "site-0,site-1")[0] == 0
    for name, cohort in split_cohort(simulate_people(), 2).items():
        service = SiteService(Site(name, cohort), exchange, tmp_path / name, read_key(keys / f"{name}.key"), poll=0.01)
        threading.Thread(target=service.serve, args=(30.0,), daemon=True).start()
    code, text = run("federate", *words, "--sites", 2, "--out", tmp_path / "out", "--poll", 0.01, "--json")
    assert code == 0
    result = json.loads(text)
    assert result["finding"] == "mean_difference"
    assert (result["controls"], result["patients"], result["rounds"]) == (150, 200, 7)
    for name in ("model.safetensors", "selection.json", "effects.tsv", "patterns.tsv", "federation.json"):
        assert (tmp_path / "out" / name).is_file()
    model = FittedModel.load(exchange / "model.safetensors")
    assert model.preprocessing.harmoniser is not None  # the default of fit where a site is named
    assert model.preprocessing.harmoniser.sites == ("site-0", "site-1")
    people = split_cohort(simulate_people(), 2)["site-1"]
    tables = write_tables(tmp_path, replace(people, people=people.people.assign(hospital="site-1")))[:3]
    words = [exchange / "model.safetensors", *tables, "--site", "hospital", "--out", tmp_path / "r.tsv"]
    assert run("apply", *words)[0] == 0
    words = [*write_tables(tmp_path, people), "--exchange", exchange, "--name", "site-1", "--key", keys / "site-1.key"]
    assert run("site", *words, "--private", tmp_path / "private", "--wait", 0)[0] == 0
    own, everyone = (
        pd.read_csv(path, sep="\t") for path in (tmp_path / "private" / "r_indices.tsv", tmp_path / "r.tsv")
    )
    assert own["participant_id"].tolist() == everyone["participant_id"].tolist()
    assert (own["r1"].isna() == (own["members_behind"] == 0)).all()
    assert own["members_behind"].max() == 1  # of the two members
    assert (own["r1"] - everyone["r1"]).abs().max() > 0.001


def test_centre_names_missing_sites(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    words = ["--exchange", tmp_path / "exchange", "--sites", 2, "--wait", 0, "--out", tmp_path / "out"]
    assert run("federate", tmp_path / "study.toml", *words)[0] == 3


def test_site_answers_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exchange = tmp_path / "exchange"
    transport = FolderTransport(exchange, make_run_name({}), ["hospital-a"], {}, patience=0.0, poll=0.0)
    transport.begin()
    with pytest.raises(WaitingError):
        transport.ask(Request("describe", 1))
    words = [*write_tables(tmp_path, simulate_people()), "--exchange", exchange, "--name", "hospital-a", "--wait", 0]
    code, text = run("site", *words, "--json")
    assert code == 3
    expected = {"site": "hospital-a", "over": False, "log": "rindices-site/log.tsv", "r_indices": None}
    result = json.loads(text)
    assert re.fullmatch("([0-9a-f]{4}-){7}[0-9a-f]{4}", result.pop("fingerprint"))
    assert result == expected
    (answer,) = transport.ask(Request("describe", 1)).values()
    assert answer.numbers == [150, 200]
    transport.finish()
    assert run("site", *words)[0] == 0


def test_a_site_names_wrong_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cohort = simulate_few_regions("small", 0).cohort
    volumes = cohort.volumes.copy()
    volumes.iloc[7, 3] *= 5.0
    words = write_tables(tmp_path, replace(cohort, volumes=volumes))
    result = CliRunner().invoke(app, [str(each) for each in ("site", *words, "--exchange", "shared", "--wait", 0)])
    assert result.exit_code == 3
    assert f"of {cohort.people['participant_id'][7]} (17,800, expected 3,590)" in result.stderr


def test_a_site_leaves_out_people_without_a_covariate_if_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cohort = simulate_people()
    covariates = cohort.covariates.assign(age=cohort.covariates["age"].mask(cohort.covariates.index == 3))
    words = [*write_tables(tmp_path, replace(cohort, covariates=covariates)), "--exchange", "shared", "--wait", 0]
    refused, accepted = (
        CliRunner().invoke(app, [str(each) for each in ("site", *words, *more)])
        for more in ([], ["--on-missing", "drop"])
    )
    assert "--on-missing drop" in str(refused.exception)
    assert accepted.exit_code == 3  # nobody asked it anything
    assert "left out" in accepted.stderr


def test_a_site_without_a_name_gets_one_that_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = [*write_tables(tmp_path, simulate_people()), "--exchange", tmp_path / "exchange", "--wait", 0]
    names = {json.loads(run("site", *words, "--json")[1])["site"] for _ in range(2)}
    assert len(names) == 1
    assert names.pop().startswith("site-")


def test_site_follows_no_link_and_believes_no_forged_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else writes to the folder: a link that leads out of it, and an end without the key of the centre."""
    monkeypatch.chdir(tmp_path)
    exchange, outside, name = tmp_path / "exchange", tmp_path / "outside", make_run_name({})
    (tmp_path / "a.key").write_text("00" * 32)
    transport = FolderTransport(exchange, name, ["a"], {"a": read_key(tmp_path / "a.key")}, patience=0.0, poll=0.0)
    transport.begin()
    with pytest.raises(WaitingError):
        transport.ask(Request("describe", 1))
    (outside / "a").mkdir(parents=True)
    (outside / "a" / "0001.json").write_text("{}")
    (exchange / "answers").mkdir()
    (exchange / "answers" / name).symlink_to(outside, target_is_directory=True)
    words = [*write_tables(tmp_path, simulate_people()), "--exchange", exchange, "--name", "a", "--wait", 0]
    assert run("site", *words, "--key", tmp_path / "a.key")[0] == 3
    assert (outside / "a" / "0001.json").read_text() == "{}"
    state = json.loads((exchange / "run.json").read_text())
    (exchange / "run.json").write_text(json.dumps(state | {"state": "done"}))
    assert run("site", *words, "--key", tmp_path / "a.key")[0] == 3


@pytest.mark.slow  # masks and a killed site: tests/federated/test_masked_folder.py; the commands: the tests above
def test_three_sites_mask_their_sums(tmp_path: Path) -> None:
    """Processes of three sites that accepted each other, of which one is killed; the centre asks with masks unasked."""
    exchange, names = tmp_path / "exchange", ("site-0", "site-1", "site-2")
    (tmp_path / "study.toml").write_text(STUDY)
    cohorts, words, prints = split_cohort(simulate_people(), 3), {}, {}
    for name in names:
        (tmp_path / name).mkdir()
        private = ["--private", tmp_path / name / "private", "--poll", 0.05]
        words[name] = [*write_tables(tmp_path / name, cohorts[name]), "--exchange", exchange, "--name", name, *private]
        prints[name] = json.loads(run("site", *words[name], "--wait", 0, "--json")[1])["fingerprint"]

    def start_site(name: str) -> "subprocess.Popen[bytes]":
        others = ",".join(each for other, each in prints.items() if other != name)
        command = ["site", *words[name], "--wait", 300, "--accept", others]
        program = [sys.executable, "-c", "from rindices.cli.main import run; run()"]
        return subprocess.Popen([*program, *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill_and_restart(process: "subprocess.Popen[bytes]") -> None:
        while not list((exchange / "answers").glob("*/site-2/0003.json")):
            time.sleep(0.01)
        process.kill()
        process.wait()
        processes.append(start_site("site-2"))

    processes = [start_site(name) for name in names]
    killer = threading.Thread(target=kill_and_restart, args=(processes[2],))
    killer.start()
    centre = ["--exchange", exchange, "--sites", 3, "--out", tmp_path / "out", "--poll", 0.05, "--wait", 300, "--json"]
    code, text = run("federate", tmp_path / "study.toml", *centre)
    assert code == 0
    killer.join()
    assert [process.wait(100) for process in processes] == [0, 0, -9, 0]
    assert (json.loads(text)["controls"], json.loads(text)["patients"]) == (150, 200)
    model = FittedModel.load(exchange / "model.safetensors")
    assert model.preprocessing.harmoniser is not None
    assert model.preprocessing.harmoniser.sites == ()  # sites keep their effects
    log = pd.read_csv(tmp_path / "site-2" / "private" / "log.tsv", sep="\t")
    assert set(log["people"][log["kind"] != "describe"]) == {"masked"}
    own = pd.read_csv(tmp_path / "site-1" / "private" / "r_indices.tsv", sep="\t")
    people = cohorts["site-1"]
    tables = write_tables(tmp_path, replace(people, people=people.people.assign(hospital="site-1")))
    words_of_apply = [exchange / "model.safetensors", *tables[:5], "--site", "hospital", "--new-sites", "controls"]
    assert run("apply", *words_of_apply, "--out", tmp_path / "r.tsv")[0] == 0
    everyone = pd.read_csv(tmp_path / "r.tsv", sep="\t")
    assert (own["r1"] - everyone["r1"]).abs().max() < 0.3  # by one member each, and by both


def test_a_site_that_left_is_named_with_its_round(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    words = ["--exchange", tmp_path, "--sites", 3, "--out", tmp_path / "out", "--wait", 0]
    assert run("federate", tmp_path / "study.toml", *words, "--left", "site-2")[0] == 2
