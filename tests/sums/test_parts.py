"""Parts of a table on Dask workers give the result of memory."""

import gc
import json
import os
import secrets
import shlex
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from rindices.errors import StudyError, TableError
from rindices.study.config import ModelConfig, make_study
from rindices.study.outlying_measurements import CheckedCohort, check_cells
from rindices.sums import kinds, parts
from rindices.sums.messages import Request
from rindices.sums.parts import PartsTransport, connect_parts
from rindices.sums.people import LocalPeople
from rindices.sums.rounds import InMemoryTransport
from rindices.sums.study import SumsResult, SumsSettings, run_study_from_sums
from rindices.tables.cohort import Cohort
from rindices.tables.validate import TableRequest
from tests.sums.sites import simulate_people

pytest.importorskip("distributed", reason="the extra cluster is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")
MODEL = ModelConfig(patterns=(1,), members=2, method_settings={"shape": "proportional"})


def write_parquet(folder: Path, cohort: Cohort, n_files: int) -> TableRequest:
    folder.mkdir()
    frame = pd.concat([cohort.people, cohort.covariates, cohort.volumes], axis=1)
    frame = frame.sample(
        frac=1.0, random_state=0
    )  # people of both groups in all files, in any order
    for k in range(n_files):
        frame.iloc[k::n_files].to_parquet(
            folder / f"part-{k}.parquet", index=False, row_group_size=40
        )
    data = {
        "volumes": [str(folder)],
        "group": "group",
        "covariates": ["age", "sex", "icv"],
    }
    return make_study({"data": data}).data.request(Path())


KEEP = partial(check_cells, seed=0, adjust=None, on_outlier="keep")


def list_folders() -> set[Path]:
    """Return the temporary folders of parts."""
    return {
        path
        for path in Path(tempfile.gettempdir()).glob("rindices-*")
        if (path / "volumes").is_file()
    }


@contextmanager
def open_in_threads(
    table: Path, request: TableRequest, number: int
) -> Iterator[PartsTransport]:
    """Two workers that are threads, because processes take seconds to begin."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, processes=False, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address
        with connect_parts(table, request, KEEP, scheduler=address) as transport:
            assert len(transport.parts) == number
            yield transport


@cache
def fit_memory(max_people: int) -> SumsResult:
    settings = SumsSettings(model=MODEL, max_people=max_people)
    return run_study_from_sums(
        InMemoryTransport([LocalPeople("all", simulate_people())]), settings
    )


@pytest.mark.parametrize(
    "max_people", [pytest.param(25_000, marks=pytest.mark.slow), 120]
)
def test_parts_equal_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_people: int
) -> None:
    monkeypatch.setattr(parts, "BATCH", 50)
    monkeypatch.setattr("rindices.sums.batches.BATCH", 50)
    cohort = simulate_people()
    request = write_parquet(tmp_path / "table", cohort, 3)
    before = list_folders()
    with open_in_threads(tmp_path / "table", request, 6) as transport:
        model = run_study_from_sums(
            transport, SumsSettings(model=MODEL, max_people=max_people)
        ).model
        assert len(list_folders() - before) == 6
        del transport
    gc.collect()
    assert list_folders() <= before  # files are deleted when the study is over
    monkeypatch.undo()
    expected = fit_memory(max_people).model
    assert model is not None
    assert expected is not None
    assert model.card.trained_on == expected.card.trained_on
    np.testing.assert_allclose(model.patterns, expected.patterns, atol=1e-9)
    np.testing.assert_allclose(model.heads[0].steps, expected.heads[0].steps, atol=1e-9)
    assert model.training is not None
    assert expected.training is not None
    np.testing.assert_allclose(
        model.training.covariance, expected.training.covariance, atol=1e-9
    )


def note_reading(folder: Path, cohort: Cohort) -> CheckedCohort:
    """Write a file for each batch that is read, named by its first person."""
    name = f"{cohort.people['participant_id'].iloc[0]}-{secrets.token_hex(4)}"
    (folder / name).write_text(str(os.getpid()))
    return KEEP(cohort)


@pytest.mark.slow
def test_the_parts_of_a_killed_worker_alone_are_read_again(tmp_path: Path) -> None:
    """Another process reads them and gives the same sums."""
    request, read = (
        write_parquet(tmp_path / "table", simulate_people(), 6),
        tmp_path / "read",
    )
    read.mkdir()
    check = partial(note_reading, read)
    with connect_parts(tmp_path / "table", request, check, workers=2) as transport:
        asked = Request(kind=kinds.DESCRIBE, round=1, settings={}, arrays={})
        first = transport.ask(asked)
        before = {path: int(path.read_text()) for path in read.iterdir()}
        assert len(before) == len(transport.parts) == 6
        victim = next(iter(transport.client.run(os.getpid).values()))
        lost = {path.name[:-9] for path, pid in before.items() if pid == victim}
        os.kill(victim, signal.SIGKILL)
        second = transport.ask(asked)
        again = [path.name[:-9] for path in set(read.iterdir()) - set(before)]
        assert 0 < len(lost) < 6
        assert set(again) == lost
        assert [each.encode() for each in first.values()] == [
            each.encode() for each in second.values()
        ]


def wait_and_name(people: LocalPeople) -> str:
    """Take as long as an answer of many people, and tell which worker answers."""
    from distributed import get_worker

    time.sleep(0.2)
    return str(get_worker().address)


def test_workers_that_come_late_get_parts(tmp_path: Path) -> None:
    from distributed import LocalCluster

    request = write_parquet(tmp_path / "table", simulate_people(), 8)
    with LocalCluster(
        n_workers=1, processes=False, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address
        with connect_parts(
            tmp_path / "table", request, KEEP, scheduler=address
        ) as transport:
            assert len(transport.parts) == 8
            assert len(set(transport._run(wait_and_name))) == 1
            cluster.scale(2)
            transport.client.wait_for_workers(2)
            workers = [len(set(transport._run(wait_and_name))) for _ in range(3)]
            assert workers[-1] == 2


def test_repeated_ids_are_refused_across_files(tmp_path: Path) -> None:
    cohort = simulate_people()
    request = write_parquet(tmp_path / "table", cohort, 2)
    copy = pd.read_parquet(tmp_path / "table" / "part-0.parquet").iloc[:3]
    copy.to_parquet(tmp_path / "table" / "part-2.parquet")
    with (
        pytest.raises(StudyError, match="3 rows with a duplicated ID"),
        open_in_threads(tmp_path / "table", request, 3),
    ):
        pass


def test_fit_takes_a_folder_in_parts(tmp_path: Path) -> None:
    from distributed import LocalCluster

    cohort = simulate_people()
    person, region = cohort.people["participant_id"].iloc[7], cohort.regions[2]
    cohort = replace(cohort, volumes=cohort.volumes.copy())
    cohort.volumes.iloc[7, 2] *= 4.0
    write_parquet(tmp_path / "table", cohort, 3)
    with LocalCluster(
        n_workers=2, processes=False, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        words = [
            "fit",
            str(tmp_path / "table"),
            "--group",
            "group",
            "--controls",
            "control",
            "--method",
        ]
        words += [
            "mean-difference",
            "--covariates",
            "age,sex,icv",
            "--engine",
            "dask",
            "--scheduler",
        ]
        words += [
            cluster.scheduler_address,
            "--in-parts",
            "--out",
            str(tmp_path / "out"),
            "--json",
        ]
        result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["patients"] == 200
    assert (tmp_path / "out" / "model.safetensors").is_file()
    indices = pd.read_csv(tmp_path / "out" / "r_indices.tsv", sep="\t")
    assert sorted(indices["participant_id"]) == sorted(cohort.people["participant_id"])
    assert (
        indices["members_behind"] == 2
    ).all()  # of ten members, each person was left out by two
    wrong = pd.read_csv(
        tmp_path / "out" / "outlying_measurements.tsv", sep="\t"
    ).set_index(["participant_id", "region"])
    assert (
        3.0
        < wrong.loc[(person, region), "value"] / wrong.loc[(person, region), "expected"]
        < 5.0
    )
    assert len(wrong) <= 3
    assert f" of {person} (" in result.stderr


def test_a_folder_of_parquet_files_is_the_table_of_their_rows(tmp_path: Path) -> None:
    cohort = simulate_people()
    write_parquet(tmp_path / "table", cohort, 3)
    read = ri.read_cohort(
        tmp_path / "table",
        group="group",
        controls="control",
        covariates=["age", "sex", "icv"],
    )
    assert sorted(read.people["participant_id"]) == sorted(
        cohort.people["participant_id"]
    )
    frame = pd.read_parquet(tmp_path / "table" / "part-1.parquet").rename(
        columns={"age": "years"}
    )
    frame.to_parquet(tmp_path / "table" / "part-1.parquet")
    with pytest.raises(
        TableError, match=r"part-1\.parquet: its columns differ .* age, years"
    ):
        ri.read_cohort(tmp_path / "table", group="group", controls="control")


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    request = make_study({"data": {"volumes": ["x"], "group": "group"}}).data.request(
        Path()
    )
    with (
        pytest.raises(StudyError, match="has no parquet files"),
        connect_parts(tmp_path, request, KEEP),
    ):
        pass


def test_limited_members_see_other_people() -> None:
    cohort = simulate_people()
    whole, limited = fit_memory(25_000).model, fit_memory(120).model
    assert whole is not None
    assert limited is not None
    assert np.abs(whole.patterns - limited.patterns).max() > 1e-4
    first, second = (model.apply(cohort)["r1"] for model in (whole, limited))
    assert np.corrcoef(first, second)[0, 1] > 0.9


def test_recognised_sites_of_parquet_files_are_not_left_in_silence(
    tmp_path: Path,
) -> None:
    cohort = simulate_people()
    write_parquet(tmp_path / "table", cohort, 1)
    path = tmp_path / "table" / "part-0.parquet"
    frame = pd.read_parquet(path)
    frame.assign(
        scanner=["a", "b"] * (len(frame) // 2) + ["a"] * (len(frame) % 2)
    ).to_parquet(path, index=False)
    words = [
        "fit",
        str(tmp_path / "table"),
        "--group",
        "group",
        "--controls",
        "control",
        "--out",
        str(tmp_path / "o"),
    ]
    result = CliRunner().invoke(app, [*words, "--in-parts"])
    assert (
        "column 'scanner' holds sites, and a table that is fitted in parts is not"
        in str(result.exception)
    )
    assert not (tmp_path / "o").exists()


def fit_in_threads(*words: object) -> Result:
    """Run fit in parts on two workers that are threads."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, processes=False, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        how = [
            "--in-parts",
            "--engine",
            "dask",
            "--scheduler",
            cluster.scheduler_address,
            "--json",
        ]
        return CliRunner().invoke(app, [str(word) for word in ("fit", *words, *how)])


def test_regions_and_people_are_left_out_in_all_rows(tmp_path: Path) -> None:
    """What the columns are is decided by the first 5,000 rows; of the others, excluded
    regions were used.
    """
    cohort, rng = simulate_people(), np.random.default_rng(0)
    frame = pd.concat([cohort.people, cohort.covariates, cohort.volumes], axis=1)
    frame = frame.iloc[rng.integers(0, len(frame), 6_000)].reset_index(drop=True)
    frame[list(cohort.regions)] *= np.exp(
        rng.normal(0, 0.02, (len(frame), cohort.n_regions))
    )
    frame["participant_id"] = [f"p{row:04d}" for row in range(len(frame))]
    frame["scanner"] = rng.choice(["a", "b", "c"], len(frame))
    frame.to_parquet(tmp_path / "people.parquet", index=False)
    region, table = cohort.regions[2], tmp_path / "people.parquet"
    words = [
        table,
        "--group",
        "group",
        "--method",
        "mean-difference",
        "--out",
        tmp_path / "out",
    ]
    words += [
        "--site",
        "scanner",
        "--harmonise",
        "none",
        "--exclude",
        region,
        "--leave-out-site",
        "b",
    ]
    people = "p0003,p5999"
    left = (frame["scanner"] != "b") & ~frame["participant_id"].isin(people.split(","))
    done = fit_in_threads(*words, "--exclude-people", people)
    assert done.exit_code == 0, done.output
    assert (
        region
        not in pd.read_csv(tmp_path / "out" / "effects.tsv", sep="\t")[
            "region"
        ].tolist()
    )
    indices = pd.read_csv(tmp_path / "out" / "r_indices.tsv", sep="\t")
    assert sorted(indices["participant_id"]) == sorted(
        frame.loc[left, "participant_id"]
    )
    error = fit_in_threads(*words, "--exclude-people", "p0003,p6000").exception
    assert isinstance(error, TableError)
    assert "1 id to leave out that nobody has: p6000." in str(error)
    error = fit_in_threads(*words, "--leave-out-site", "d").exception
    assert isinstance(error, TableError)
    assert "there is no site 'd' to leave out" in str(error)


def test_a_table_that_is_too_large_is_refused_with_the_command_that_fits_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rindices.study.preflight.get_memory_size", lambda: 1e3)
    write_parquet(tmp_path / "table", simulate_people(), 1)
    path = tmp_path / "table" / "part-0.parquet"
    frame = pd.read_parquet(path)
    frame.assign(scanner=np.arange(len(frame)) % 2).to_parquet(path, index=False)
    words = [
        "fit",
        str(tmp_path / "table"),
        "--group",
        "group",
        "--controls",
        "control",
        "--covariates",
        "age,sex,icv",
    ]
    words += [
        "--method",
        "mean-difference",
        "--out",
        str(tmp_path / "an out"),
        "--reference",
        "muse",
        "--no-report",
    ]
    for more in ([], ["--dry-run"]):
        message = str(CliRunner().invoke(app, [*words, *more]).exception)
        assert len(message.splitlines()) == 1
        assert message.startswith(
            "table needs about 20 times its size in memory, more than this machine has. To fit it"
        )
        assert (
            "without a report, harmonisation of sites, reference and repeat visits"
            in message
        )
        command = shlex.split(message.partition("in parts: ")[2].partition(" (")[0])
        assert command[:2] == ["rindices", "fit"]
        assert not {"--reference", "--no-report", "--dry-run"} & set(command)
    assert not (tmp_path / "an out").exists()
    result = CliRunner().invoke(app, [*command[1:], "--workers", "1"])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "an out" / "model.safetensors").is_file()
    study = (tmp_path / "an out" / "study.toml").read_text("utf-8")
    assert "in_parts = true" in study
    assert 'harmonise = "none"' in study
    checked = CliRunner().invoke(
        app,
        ["check", str(tmp_path / "table"), "--group", "group", "--controls", "control"],
    )
    assert "table needs about 20 times its size in memory" in checked.stderr
    assert "--in-parts --harmonise none" in checked.stderr


def test_thickness_is_not_adjusted_for_head_size_in_silence(tmp_path: Path) -> None:
    """In memory, thickness beside volumes is not adjusted for it; sums treat all
    regions alike.
    """
    cohort = simulate_people()
    volumes = cohort.volumes.set_axis(
        [f"lh_part{k}_{'thickness' if k < 6 else 'volume'}" for k in range(10)], axis=1
    )
    volumes.iloc[:, :6] /= 1e3
    frame = pd.concat([cohort.people, cohort.covariates, volumes], axis=1)
    frame.to_csv(tmp_path / "people.csv", index=False)
    words = [
        "fit",
        str(tmp_path / "people.csv"),
        "--group",
        "group",
        "--in-parts",
        "--out",
        str(tmp_path / "out"),
    ]
    error = CliRunner().invoke(app, words).exception
    assert isinstance(error, TableError)
    assert (
        "in parts, thickness is adjusted for head size as volumes are. If so: --icv-for all"
        in str(error)
    )
