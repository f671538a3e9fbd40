"""A folder as transport: the same result as in memory, after any interruption, and a log of what left."""

import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rindices.errors import StudyError
from rindices.federated.fit import FederatedResult, FederatedSettings, run_federated_study
from rindices.federated.folder import (
    FolderTransport,
    MessageFile,
    SharedFolder,
    check_site_name,
    make_run_name,
    wait_for_sites,
)
from rindices.federated.messages import RefusedError, Request, WaitingError
from rindices.federated.rounds import RoundRecord
from rindices.federated.site import Site
from rindices.federated.site_service import LOG_COLUMNS, SiteService
from rindices.study.config import ModelConfig
from tests.federated.sites import make_transport, simulate_people, split_cohort

MODEL = ModelConfig(patterns=(1,), members=2, method="mean-difference")
KEYS = {name: name.encode() * 4 for name in ("site-0", "site-1")}


class StopError(Exception):
    """Raised where a process is killed."""


def make_service(name: str, exchange: Path, private: Path, key: bytes | None = None) -> SiteService:
    cohort = split_cohort(simulate_people(), 2)[name]
    folder = private / name
    folder.mkdir(parents=True, exist_ok=True)
    return SiteService(Site(name, cohort, ledger=folder / "ledger.json"), exchange, folder, key, poll=0.01)


def start_sites(exchange: Path, private: Path) -> list[threading.Thread]:
    services = [make_service(name, exchange, private, KEYS[name]) for name in KEYS]
    threads = [threading.Thread(target=service.serve, args=(20.0,), daemon=True) for service in services]
    for thread in threads:
        thread.start()
    return threads


def run_centre(exchange: Path, stop_after: int | None = None) -> FederatedResult:
    def stop(number: int, record: RoundRecord) -> None:
        if number == stop_after:
            raise StopError

    sites = wait_for_sites(exchange, 2, patience=20.0, poll=0.01)
    transport = FolderTransport(exchange, make_run_name({"sites": sites}), sites, KEYS, patience=20.0, poll=0.01)
    transport.begin()
    result = run_federated_study(transport, FederatedSettings(MODEL), on_round=stop)
    transport.finish()
    return result


def test_folder_gives_the_result_of_memory_after_interruptions(tmp_path: Path) -> None:
    """The centre is stopped after each round and begins again; sites answer each request once."""
    exchange, private = tmp_path / "exchange", tmp_path / "private"
    threads = start_sites(exchange, private)
    for stop_after in (1, 3, 5):
        with pytest.raises(StopError):
            run_centre(exchange, stop_after)
    result = run_centre(exchange)
    for thread in threads:
        thread.join(20.0)
        assert not thread.is_alive()
    expected = run_federated_study(make_transport(split_cohort(simulate_people(), 2)), FederatedSettings(MODEL))
    assert result.model is not None
    assert expected.model is not None
    np.testing.assert_array_equal(result.model.patterns, expected.model.patterns)
    log = pd.read_csv(private / "site-0" / "log.tsv", sep="\t")
    assert tuple(log.columns) == LOG_COLUMNS
    assert log["round"].tolist() == [1, 2, 3, 4, 5, 6]
    assert log["bytes"].sum() == pytest.approx(result.sent, rel=0.1)
    text = "".join(path.read_text("latin-1") for path in exchange.rglob("*") if path.is_file())
    assert not any(person in text for person in simulate_people().people["participant_id"])


def test_a_missing_site_is_named(tmp_path: Path) -> None:
    transport = FolderTransport(tmp_path, "0123456789ab", ["hospital-a"], patience=0.0, poll=0.0)
    with pytest.raises(WaitingError, match=r"no answer of hospital-a to round 1.*--leave-out hospital-a"):
        transport.ask(Request("describe", 1))
    with pytest.raises(WaitingError, match="0 of 2 sites"):
        wait_for_sites(tmp_path, 2, patience=0.0)


def test_sites_are_counted_and_left_out_by_name(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        path = tmp_path / "sites" / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")
    assert wait_for_sites(tmp_path, 2, ["b"], 0.0) == ["a", "c"]
    with pytest.raises(StudyError, match="3 sites take part"):
        wait_for_sites(tmp_path, 2, (), 0.0)


def test_a_request_without_the_key_is_refused(tmp_path: Path) -> None:
    """Somebody who sees the folder asks; the site refuses and says so, and the centre hears it."""
    exchange = tmp_path / "exchange"
    run = make_run_name({})
    forger = FolderTransport(exchange, run, ["site-0"], {}, patience=0.0, poll=0.0)
    forger.begin()
    with pytest.raises(WaitingError):
        forger.ask(Request("describe", 1))
    service = make_service("site-0", exchange, tmp_path / "private", KEYS["site-0"])
    assert not service.serve(0.0)
    with pytest.raises(RefusedError, match=r"site-0 refuses round 1.*it is forged"):
        forger.ask(Request("describe", 1))
    log = (tmp_path / "private" / "site-0" / "log.tsv").read_text()
    assert "nothing, refused" in log


def test_a_repeated_request_is_refused(tmp_path: Path) -> None:
    exchange, run = tmp_path / "exchange", make_run_name({})
    transport = FolderTransport(exchange, run, ["site-0"], {}, patience=0.0, poll=0.0)
    transport.begin()
    MessageFile(SharedFolder(exchange, f"requests/{run}"), 1).write(
        Request("describe", 7).encode(), {"kind": "describe"}
    )
    service = make_service("site-0", exchange, tmp_path / "private")
    service.serve(0.0)
    assert "repeated or forged" in (tmp_path / "private" / "site-0" / "log.tsv").read_text()


@pytest.mark.parametrize("name", ["../x", "", "a/b", ".hidden", "x" * 41, "a b"])
def test_names_that_are_paths_are_refused(name: str) -> None:
    with pytest.raises(StudyError, match="no name for a site"):
        check_site_name(name)
