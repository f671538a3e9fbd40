"""Tables in object storage, read from a real S3 interface on this machine."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import rindices.cli.main
from rindices.errors import TableError
from tests.sums.sites import simulate_people

BUCKET = "s3://studies/people"
COLUMNS = ["--group", "group", "--controls", "control", "--covariates", "age,sex,icv"]


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Start a server, and write a table of four parts."""
    for name in ("moto", "s3fs", "upath", "flask"):
        pytest.importorskip(name, reason="needs the extra cloud and moto's server")
    log = (tmp_path / "server.log").open("w+")
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-p", "0"], stdout=log, stderr=log
    )
    try:
        for _ in range(200):
            time.sleep(0.1)
            text = (tmp_path / "server.log").read_text()
            if "http://127.0.0.1:" in text:
                break
        port = text.split("http://127.0.0.1:")[1].split()[0]
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        for name in (
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_DEFAULT_REGION",
        ):
            monkeypatch.setenv(name, "us-east-1")
        for name in [
            name
            for name in os.environ
            if name.lower().endswith("_proxy") or name == "AWS_CA_BUNDLE"
        ]:
            monkeypatch.delenv(name)
        cohort = simulate_people()
        table = pd.concat([cohort.people, cohort.covariates, cohort.volumes], axis=1)
        import s3fs

        s3fs.S3FileSystem.clear_instance_cache()
        storage = s3fs.S3FileSystem()
        storage.mkdir("studies")
        for k, rows in enumerate(np.array_split(np.arange(len(table)), 4)):
            storage.pipe(f"{BUCKET}/part-{k}.parquet", table.iloc[rows].to_parquet())
        table.to_parquet(tmp_path / "people.parquet")
        yield BUCKET
    finally:
        server.kill()
        server.wait()
        log.close()


def run(*words: object) -> Result:
    return CliRunner().invoke(rindices.cli.main.app, [str(word) for word in words])


@pytest.mark.parametrize("in_parts", [False, True])
def test_a_study_in_a_bucket_is_that_of_the_file(
    bucket: str, tmp_path: Path, in_parts: bool
) -> None:
    words = [*COLUMNS, "--method", "mean-difference", "--members", 5, "--workers", 1]
    words += ["--in-parts"] if in_parts else ["--no-report"]
    for name, table in (("remote", bucket), ("local", tmp_path / "people.parquet")):
        result = run("fit", table, *words, "--out", tmp_path / name)
        assert result.exit_code == 0, result.exception
    remote, local = (
        pd.read_csv(tmp_path / name / "r_indices.tsv", sep="\t")
        for name in ("remote", "local")
    )
    pd.testing.assert_frame_equal(remote, local, atol=1e-9)
    checked = run("check", bucket, *COLUMNS)
    assert checked.exit_code == 0, checked.output


def test_a_part_that_fails_is_named(bucket: str, tmp_path: Path) -> None:
    """The end of a part is cut off, so that its row groups cannot be read."""
    import s3fs

    storage = s3fs.S3FileSystem()
    content = storage.cat(f"{bucket}/part-2.parquet")
    storage.pipe(
        f"{bucket}/part-2.parquet",
        b"PAR1" + bytes(len(content) // 2) + content[-len(content) // 2 :],
    )
    words = [*COLUMNS, "--method", "mean-difference", "--workers", 1, "--in-parts"]
    result = run("fit", bucket, *words, "--out", tmp_path / "out")
    assert isinstance(result.exception, TableError)
    assert "part-2.parquet" in str(result.exception)
