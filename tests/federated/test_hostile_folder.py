"""Somebody else writes to the exchange folder: links are not followed, and signatures hold for one run alone."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rindices.federated import kinds
from rindices.federated.folder import DONE, FolderTransport, MessageFile, SharedFolder, make_run_name, wait_for_sites
from rindices.federated.messages import Answer, ExchangeError, Request, WaitingError, receive_answer
from rindices.federated.site import Site
from tests.federated.sites import simulate_people
from tests.federated.test_folder import KEYS, make_service

NAME, KEY = "site-0", KEYS["site-0"]
RUN, OTHER_RUN = make_run_name({"study": 1}), make_run_name({"study": 2})
REQUEST = Request("describe", 1)


def make_centre(exchange: Path, run: str = RUN, **settings: Any) -> FolderTransport:
    """Return a centre that looks at the folder once."""
    return FolderTransport(exchange, run, [NAME], {NAME: KEY}, patience=0.0, poll=0.0, **settings)


def ask(exchange: Path, run: str = RUN) -> None:
    """Let a centre put its first request into the folder."""
    centre = make_centre(exchange, run)
    centre.begin()
    with pytest.raises(WaitingError):
        centre.ask(REQUEST)


def serve(tmp_path: Path, exchange: Path) -> tuple[bool, list[str]]:
    """Let the site answer what is there; return whether the run is over for it, and what it says."""
    service, lines = make_service(NAME, exchange, tmp_path / "private", KEY), []
    service.on_answer = lines.append
    return service.serve(0.0) is not None, lines


@pytest.mark.parametrize("name", ["answers", f"answers/{RUN}", f"answers/{RUN}/{NAME}"])
def test_a_site_does_not_write_through_a_link(tmp_path: Path, name: str) -> None:
    exchange, outside = tmp_path / "exchange", tmp_path / "outside"
    ask(exchange)
    target = outside.joinpath(*f"answers/{RUN}/{NAME}".removeprefix(name).split("/"))
    target.mkdir(parents=True)
    (target / "0001.json").write_text("precious")
    (exchange / name).parent.mkdir(parents=True, exist_ok=True)
    (exchange / name).symlink_to(outside, target_is_directory=True)
    over, lines = serve(tmp_path, exchange)
    assert not over
    assert [path.name for path in target.iterdir()] == ["0001.json"]
    assert (target / "0001.json").read_text() == "precious"
    assert "is a link" in lines[0]
    assert not (tmp_path / "private" / NAME / "log.tsv").exists()


def test_a_site_does_not_announce_itself_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "exchange").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "exchange" / "sites").symlink_to(tmp_path / "outside", target_is_directory=True)
    with pytest.raises(ExchangeError, match=r"sites/site-0.json is a link"):
        serve(tmp_path, tmp_path / "exchange")
    assert not list((tmp_path / "outside").iterdir())
    with pytest.raises(ExchangeError, match="sites is a link"):
        wait_for_sites(tmp_path / "exchange", 1, patience=0.0)


@pytest.mark.parametrize("name", ["run.json", f"requests/{RUN}", f"requests/{RUN}/0001.json"])
def test_a_site_does_not_read_through_a_link(tmp_path: Path, name: str) -> None:
    exchange = tmp_path / "exchange"
    ask(exchange)
    (exchange / name).rename(tmp_path / "moved")
    (exchange / name).symlink_to(tmp_path / "moved")
    over, lines = serve(tmp_path, exchange)
    assert not over
    assert name in lines[0]
    assert not (exchange / "answers").exists()


def test_the_centre_follows_no_link(tmp_path: Path) -> None:
    """Neither to put requests nor to read answers; the message names the site."""
    exchange = tmp_path / "exchange"
    ask(exchange)
    serve(tmp_path, exchange)
    folder = exchange / "answers" / RUN / NAME
    for moved in (folder / "0001.safetensors", folder):
        moved.rename(tmp_path / moved.name)
        moved.symlink_to(tmp_path / moved.name)
        problems: list[str] = []
        with pytest.raises((ExchangeError, WaitingError), match=NAME):
            make_centre(exchange, on_problem=problems.append).ask(REQUEST)
        assert NAME in problems[0]
        assert "is a link" in problems[0]
        (folder / "0001.safetensors.rejected").unlink(missing_ok=True)
        serve(tmp_path, exchange)
    (tmp_path / "outside").mkdir()
    (exchange / "requests" / OTHER_RUN).symlink_to(tmp_path / "outside", target_is_directory=True)
    with pytest.raises(ExchangeError, match=f"requests/{OTHER_RUN}.* is a link"):
        make_centre(exchange, OTHER_RUN).ask(REQUEST)
    assert not list((tmp_path / "outside").iterdir())


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_files_that_are_links_are_replaced(tmp_path: Path, link: Any) -> None:
    precious, exchange = tmp_path / "precious.txt", tmp_path / "exchange"
    precious.write_text("precious")
    exchange.mkdir()
    link(precious, exchange / "run.json")
    link(precious, exchange / "model.safetensors")
    make_centre(exchange).finish("", b"model")
    assert precious.read_text() == "precious"
    assert not (exchange / "run.json").is_symlink()
    assert (exchange / "model.safetensors").read_bytes() == b"model"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_does_not_stop_a_site(tmp_path: Path) -> None:
    ask(tmp_path)
    path = tmp_path / "requests" / RUN / "0001.json"
    path.unlink()
    os.mkfifo(path)
    assert "is no file" in serve(tmp_path, tmp_path)[1][0]


@pytest.mark.parametrize("kind", ["rows", "", "moments"])
def test_the_log_has_the_kind_of_the_request_itself(tmp_path: Path, kind: str) -> None:
    """The JSON beside a request is not signed."""
    ask(tmp_path)
    path = tmp_path / "requests" / RUN / "0001.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"kind": kind}))
    assert serve(tmp_path, tmp_path)[1][0].startswith("round 1, describe: sums over")
    assert "describe" in (tmp_path / "private" / NAME / "log.tsv").read_text()


def test_folders_above_the_exchange_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "exchange").mkdir()
    with pytest.raises(ExchangeError, match="no folder of an exchange"):
        SharedFolder(tmp_path / "exchange", "answers/..").write("x", b"")


def test_a_request_of_another_run_is_refused(tmp_path: Path) -> None:
    """It is signed by the centre; somebody copied it into the run that is under way."""
    ask(tmp_path, OTHER_RUN)
    make_centre(tmp_path).begin()
    (tmp_path / "requests" / OTHER_RUN).rename(tmp_path / "requests" / RUN)
    lines = serve(tmp_path, tmp_path)[1]
    assert "nothing, refused" in lines[0]
    assert "signature of the centre for this run" in lines[0]


def test_an_answer_of_another_run_is_refused(tmp_path: Path) -> None:
    """The first request is the same in all runs, so a digest does not show it."""
    ask(tmp_path, OTHER_RUN)
    serve(tmp_path, tmp_path)
    ask(tmp_path)
    (tmp_path / "answers" / OTHER_RUN).rename(tmp_path / "answers" / RUN)
    header = tmp_path / "answers" / RUN / NAME / "0001.json"
    request = json.loads((tmp_path / "requests" / RUN / "0001.json").read_text())
    answered = {"request_signed": request["signed"][NAME]}
    header.write_text(json.dumps(json.loads(header.read_text()) | answered))
    problems: list[str] = []
    with pytest.raises(WaitingError):
        make_centre(tmp_path, on_problem=problems.append).ask(REQUEST)
    assert "the signature of this site and run" in problems[0]


@pytest.mark.parametrize("signature", ["", "0" * 64, "\ud800é", 7, None])
def test_a_forged_end_does_not_end_a_site(tmp_path: Path, signature: object) -> None:
    ask(tmp_path)
    run = json.loads((tmp_path / "run.json").read_text())
    signed = {NAME: run["signed"][NAME] if signature is None else signature}  # that of a run that is not over
    (tmp_path / "run.json").write_text(json.dumps(run | {"state": DONE, "signed": signed}))
    over, lines = serve(tmp_path, tmp_path)
    assert not over
    assert lines[0].startswith("round 1, describe: sums over")
    assert serve(tmp_path, tmp_path)[1] == [
        f"the end of the run {RUN} does not have the signature of the centre: it is forged."
    ]
    make_centre(tmp_path).finish()
    assert serve(tmp_path, tmp_path)[0]


def test_the_end_of_another_run_does_not_end_a_site(tmp_path: Path) -> None:
    make_centre(tmp_path, OTHER_RUN).finish()
    end = (tmp_path / "run.json").read_bytes()
    ask(tmp_path)
    service = make_service(NAME, tmp_path, tmp_path / "private", KEY)
    assert service.serve(0.0) is None
    (tmp_path / "run.json").write_bytes(end)
    assert service.serve(0.0) is None
    make_centre(tmp_path).finish()
    assert service.serve(0.0) is not None


def test_a_model_that_was_replaced_is_named(tmp_path: Path) -> None:
    make_centre(tmp_path).finish("", b"model")
    assert serve(tmp_path, tmp_path)[0]
    (tmp_path / "model.safetensors").write_bytes(b"other")
    with pytest.raises(ExchangeError, match=r"model.safetensors is not the model of this run"):
        serve(tmp_path, tmp_path)


def test_a_centre_that_forgot_its_keys_goes_on_with_them(tmp_path: Path) -> None:
    keyless = FolderTransport(tmp_path, RUN, [NAME], {}, patience=0.0, poll=0.0)
    keyless.begin()
    with pytest.raises(WaitingError):
        keyless.ask(REQUEST)
    assert "--keys" in serve(tmp_path, tmp_path)[1][0]
    ask(tmp_path)
    serve(tmp_path, tmp_path)
    assert isinstance(make_centre(tmp_path).ask(REQUEST)[NAME], Answer)


def test_an_answer_in_the_place_of_another_site_is_refused_without_keys(tmp_path: Path) -> None:
    """A folder that was synchronised wrongly would count one site twice."""
    request = Request(kinds.DESCRIBE, 1)
    content = Site("site-1", simulate_people(), 0).answer(request).encode()
    assert receive_answer(content, "site-1", request).site == "site-1"
    with pytest.raises(ExchangeError, match="the answer of site-0 in round 1 is that of site-1: let site-0 send"):
        receive_answer(content, "site-0", request)


def test_words_of_a_site_are_one_printable_line(tmp_path: Path) -> None:
    centre = FolderTransport(tmp_path, RUN, [NAME], {}, patience=0.0, poll=0.0)
    with pytest.raises(WaitingError):
        centre.ask(REQUEST)
    header = json.loads((tmp_path / "requests" / RUN / "0001.json").read_text())
    answer = Answer(header["digest"], facts={"refused": "\x1b[2Jno\nproblem" * 99}, site=NAME)
    file = MessageFile(SharedFolder(tmp_path, f"answers/{RUN}/{NAME}"), 1)
    file.write(answer.encode(), {"request": header["digest"], "request_signed": ""})
    with pytest.raises(Exception, match="site-0 refuses round 1") as caught:
        centre.ask(REQUEST)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600
