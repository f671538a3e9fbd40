"""Models by name: from a local server or a file, with their SHA-256, and nothing
without being asked.
"""

import json
import threading
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import rindices as ri
from rindices.cli.main import app
from rindices.errors import ModelError
from rindices.exchange.registry import get_model, read_registry
from rindices.model.safetensors_io import PUBLISHED_CHECKPOINTS
from tests.cohorts import fit_tiny_model

ENTRY = """
[tiny]
title = "A small model"
url = "{url}"
sha256 = "{digest}"
licence = "CC0-1.0"
n_patterns = 2
regions = "6 MUSE volumes, mm3"
needs = ["age", "sex"]
"""


class RecordingHandler(SimpleHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def log_message(self, *_: object) -> None:
        self.asked.append(self.path)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The address of a local server, and its folder with a model."""
    folder = tmp_path / "served"
    folder.mkdir()
    fit_tiny_model().save(folder / "tiny.safetensors")
    RecordingHandler.asked.clear()
    handler = partial(RecordingHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", folder
        running.shutdown()
        thread.join()


def write_registry(folder: Path, url: str, digest: str | None = None) -> Path:
    path = folder.parent / "registry.toml"
    content = (folder / "tiny.safetensors").read_bytes()
    digest = sha256(content).hexdigest() if digest is None else digest
    path.write_text(ENTRY.format(url=url, digest=digest))
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["model", *map(str, arguments)])


def test_list_shows_the_published_models() -> None:
    shown = run("list")
    assert shown.exit_code == 0, shown.output
    assert "Brain ageing: five patterns: 5 R-indices from 139 MUSE" in shown.stdout
    assert "licence MIT; https://raw.githubusercontent.com/zhijian-yang" in shown.stdout
    values = json.loads(run("list", "--json").stdout)["models"]
    assert values["ad_2rindices"]["needs"] == ["age", "sex (F, M)"]


def test_published_addresses_name_a_commit_and_hashes_are_known() -> None:
    entries = read_registry()
    assert {name: each.sha256 for name, each in entries.items()} == (
        PUBLISHED_CHECKPOINTS
    )
    for entry in entries.values():
        parts = urlsplit(entry.url)
        assert parts.scheme == "https"
        assert len(parts.path.split("/")[3]) == 40


@pytest.mark.parametrize("kind", ["http", "file"])
def test_get_writes_the_model(
    kind: str, served: tuple[str, Path], tmp_path: Path
) -> None:
    url, folder = served
    source = folder / "tiny.safetensors"
    address = f"{url}/tiny.safetensors" if kind == "http" else source.as_uri()
    registry, out = write_registry(folder, address), tmp_path / "got.safetensors"
    run("list", "--registry", registry)
    assert RecordingHandler.asked == []  # nothing without being asked
    done = run("get", "tiny", "--registry", registry, "--out", out, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["licence"] == "CC0-1.0"
    assert RecordingHandler.asked == (["/tiny.safetensors"] if kind == "http" else [])
    assert ri.load(out).regions == ri.load(source).regions


def test_another_file_is_refused_in_one_line(
    served: tuple[str, Path], tmp_path: Path
) -> None:
    url, folder = served
    address = f"{url}/tiny.safetensors"
    registry = write_registry(folder, address, "0" * 64)
    with pytest.raises(ModelError) as caught:
        get_model("tiny", read_registry(registry))
    assert f"{address} has SHA-256" in str(caught.value)
    assert "\n" not in str(caught.value)
    out = tmp_path / "got.safetensors"
    assert run("get", "tiny", "--registry", registry, "--out", out).exit_code == 1
    assert not out.exists()


def test_names_addresses_and_registries_that_are_wrong_are_said(
    served: tuple[str, Path], tmp_path: Path
) -> None:
    _, folder = served
    entries = read_registry(write_registry(folder, "http://127.0.0.1:9/tiny"))
    with pytest.raises(ModelError, match=r"no model is called 'tny'.*tiny"):
        get_model("tny", entries)
    with pytest.raises(ModelError, match=r"127.0.0.1:9/tiny cannot be reached"):
        get_model("tiny", entries)
    entries = read_registry(write_registry(folder, "ftp://somewhere/tiny"))
    with pytest.raises(ModelError, match="begins with https, http or file"):
        get_model("tiny", entries)
    with pytest.raises(ModelError, match=r"registry.toml: tiny.sha256"):
        read_registry(write_registry(folder, "http://a/b", "short"))
    broken = tmp_path / "broken.toml"
    broken.write_text("[tiny\n")
    with pytest.raises(ModelError, match=r"broken.toml is not TOML"):
        read_registry(broken)


@pytest.mark.parametrize("name", list(PUBLISHED_CHECKPOINTS))
def test_a_published_model_from_a_server_to_centiles(
    name: str,
    shared: Path,
    served: tuple[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, folder = served
    checkpoint = shared / "upstream" / f"{name}.saved_model"
    (folder / "saved_model").write_bytes(checkpoint.read_bytes())
    published = json.loads(run("list", "--json").stdout)["models"][name]
    entry = {**published, "url": f"{url}/saved_model"}
    lines = [f"{key} = {json.dumps(value)}" for key, value in entry.items()]
    registry = tmp_path / "registry.toml"
    registry.write_text("\n".join([f"[{name}]", *lines]) + "\n")
    monkeypatch.chdir(tmp_path)
    done = run("get", name, "--registry", registry)
    assert done.exit_code == 0, done.output
    assert "licence MIT; cite" in done.stderr
    demo, model = shared / "nichart_demo", f"{name}.safetensors"
    tables = [str(demo / "DLMUSE_Volumes.csv"), "--participants"]
    tables += [str(demo / "participants.csv"), "--out", "r.csv", "--centiles"]
    done = CliRunner().invoke(app, ["apply", model, *tables])
    assert done.exit_code == 0, done.output
    assert "A centile of 83 says that 83 of 100 healthy people" in done.stderr
    table = pd.read_csv("r.csv")
    described = json.loads(Path("r.json").read_text())
    for k in range(1, published["n_patterns"] + 1):
        names = [f"r{k}_centile{end}" for end in ("_low", "", "_high")]
        own = table[names].dropna().to_numpy()
        assert len(own) >= 20  # two people are older than the healthy people
        assert (np.diff(own, axis=1) >= 0).all()
        assert (table[f"r{k}_low"] <= table[f"r{k}"]).all()
        assert "healthy people" in described[names[1]]["Description"]


@pytest.mark.parametrize("name", list(PUBLISHED_CHECKPOINTS))
def test_apply_to_a_checkpoint_names_the_command_that_converts_it(
    name: str, shared: Path, tmp_path: Path
) -> None:
    path = tmp_path / "saved_model"  # as the authors call both
    path.write_bytes((shared / "upstream" / f"{name}.saved_model").read_bytes())
    with pytest.raises(ModelError) as caught:
        ri.load(path)
    command = f"rindices model import {path} --as {name} --out {name}.safetensors"
    assert command in str(caught.value)
