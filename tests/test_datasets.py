"""Public tables are downloaded once from a server, compared with their digests, and
read.
"""

import threading
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlparse

import pytest

import rindices as ri
from rindices import datasets
from rindices.errors import TableError

DATA = Path(__file__).parents[2] / "shared" / "data"
LOCAL = {
    "csf": {"ad_data.csv": "csf/ad_data.csv"},
    "ixi": {
        "volumes.csv": "ixi/volumes.csv",
        "demographics.csv": "ixi/demographics.csv",
    },
    "abide": {
        **{
            name: f"patients/autism/stats/{name}"
            for name in datasets.SOURCES["abide"]["files"]
            if name[-3:] == "tsv"
        },
        "phenotypes.csv": "patients/autism/Phenotypic_V1_0b_preprocessed1.csv",
    },
}


class CountingHandler(SimpleHTTPRequestHandler):
    requests = 0

    def log_message(self, *_: object) -> None:
        type(self).requests += 1


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    folder = tmp_path / "served"
    folder.mkdir()
    CountingHandler.requests = 0
    with ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(CountingHandler, directory=str(folder))
    ) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", folder
        running.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("name", "people", "regions"),
    [("csf", (242, 91), 124), ("ixi", (107, 139), 139), ("abide", (528, 499), 89)],
)
def test_a_table_is_downloaded_once(
    name: str,
    people: tuple[int, int],
    regions: int,
    server: tuple[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if not DATA.is_dir():
        pytest.skip("the tables are not there")
    url, folder = server
    files = {}
    for file, path in LOCAL[name].items():
        content = (DATA / path).read_bytes()
        (folder / file).write_bytes(content)
        assert sha256(content).hexdigest() == datasets.SOURCES[name]["files"][file][1]
        files[file] = (f"{url}/{file}", sha256(content).hexdigest())
    monkeypatch.setitem(
        datasets.SOURCES, name, {**datasets.SOURCES[name], "files": files}
    )
    monkeypatch.setenv("RINDICES_DATA", str(tmp_path / "cache"))
    for _ in range(2):
        cohort = getattr(ri.datasets, f"fetch_{name}")()
        assert (cohort.n_controls, cohort.n_patients) == people
        assert cohort.n_regions == regions
    assert CountingHandler.requests == len(files)
    shown = capsys.readouterr().err
    assert datasets.SOURCES[name]["licence"] in shown
    assert "Cite" in shown


def test_another_file_is_refused(
    server: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, folder = server
    (folder / "ad_data.csv").write_text("another file")
    source = {
        **datasets.SOURCES["csf"],
        "files": {"ad_data.csv": (f"{url}/ad_data.csv", "0" * 64)},
    }
    monkeypatch.setitem(datasets.SOURCES, "csf", source)
    monkeypatch.setenv("RINDICES_DATA", str(tmp_path / "cache"))
    with pytest.raises(TableError, match="not the expected file"):
        datasets.fetch_csf()


def test_without_a_network_the_message_says_where_to_put_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = {
        **datasets.SOURCES["csf"],
        "files": {"ad_data.csv": ("http://127.0.0.1:9/ad_data.csv", "0" * 64)},
    }
    monkeypatch.setitem(datasets.SOURCES, "csf", source)
    monkeypatch.setenv("RINDICES_DATA", str(tmp_path))
    with pytest.raises(TableError, match=r"put it at .*csf/ad_data\.csv"):
        datasets.fetch_csf()


def test_addresses_name_a_commit() -> None:
    for source in datasets.SOURCES.values():
        for url, digest in source["files"].values():
            parts = urlparse(url)
            assert (parts.scheme, parts.netloc) == (
                "https",
                "raw.githubusercontent.com",
            )
            assert len(parts.path.split("/")[3]) == 40
            assert len(digest) == 64
