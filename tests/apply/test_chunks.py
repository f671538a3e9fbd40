"""Results do not depend on the size of chunks or the number of workers, and a run can
be resumed.
"""

import json
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rindices as ri
from rindices.apply import chunks
from rindices.apply.chunks import StreamResult, apply_stream, find_repeated_hashes
from rindices.engine.cluster import DaskEngine
from rindices.engine.tasks import Engine, Task
from rindices.errors import ModelError, ProblemCode, RindicesError, TableError
from rindices.experiments.tasks import TASKS
from rindices.tables.chunks import ChunkSize
from rindices.tables.options import TableOptions
from rindices.tables.sources.frames import list_table_files
from rindices.tables.validate import TableRequest
from tests.cohorts import fit_tiny_model, simulate_few_regions

PEOPLE = 350


@pytest.fixture(scope="module")
def model() -> ri.FittedModel:
    return fit_tiny_model()


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    """Regions and covariates of people side by side, ids in no order; a few are older
    than anyone in training.
    """
    cohort = simulate_few_regions(
        replace(TASKS["tiny"], n_controls=PEOPLE - 150, n_patients=150), seed=1
    ).cohort
    frame = pd.concat(
        [cohort.people[["participant_id"]], cohort.covariates, cohort.volumes], axis=1
    )
    frame.loc[::50, "age"] = 99.0
    return frame.sample(frac=1, random_state=0).reset_index(drop=True)


@pytest.fixture
def at(tmp_path: Path, model: ri.FittedModel) -> Path:
    model.save(tmp_path / "m.safetensors")
    return tmp_path


def make_request(
    table: Path,
    model: ri.FittedModel,
    participants: Path | None = None,
    **settings: object,
) -> TableRequest:
    options = {
        "covariates": model.covariates,
        "site": "none",
        "measure": "any",
        "on_missing": "error",
        **settings,
    }
    return TableRequest(
        volumes=(table,),
        participants=participants,
        options=TableOptions(**options),
        find_groups=False,
    )


def run(
    at: Path,
    model: ri.FittedModel,
    table: Path,
    out: str = "out.csv",
    **settings: object,
) -> StreamResult:
    workers, size = (
        settings.pop("workers", 1),
        replace(settings.pop("size", ChunkSize()), schema_rows=200),
    )
    return apply_stream(
        at / "m.safetensors",
        make_request(table, model, **settings),
        at / out,
        workers,
        size,
    )


def in_memory(path: Path, model: ri.FittedModel) -> pd.DataFrame:
    return model.apply(ri.read_cohort(path, covariates=model.covariates))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    "size",
    [
        ChunkSize(rows=37, parquet_rows=50, text_bytes=20_000),
        ChunkSize(rows=1000, parquet_rows=1000, text_bytes=10**9),
    ],
)
def test_chunks_of_any_size_give_the_same_numbers(
    kind: str, size: ChunkSize, at: Path, model: ri.FittedModel, people: pd.DataFrame
) -> None:
    table = at / f"t.{kind}"
    if kind == "csv":
        people.to_csv(table, index=False)
    else:
        people.to_parquet(table, index=False, row_group_size=45)
    outcome = run(at, model, table, "out.parquet", size=size)
    assert (outcome.parts > 3) == (size.rows == 37)
    result = pd.read_parquet(at / "out.parquet")
    assert (
        result["participant_id"].tolist() == people["participant_id"].tolist()
    )  # the order of the rows
    expected = (
        in_memory(table, model)
        .set_index("participant_id")
        .loc[result["participant_id"]]
        .reset_index()
    )
    pd.testing.assert_frame_equal(result, expected, check_exact=True, check_dtype=False)
    assert outcome.counted.people == PEOPLE
    assert (
        outcome.counted.novel
        == int(expected["outside_training_range"].sum())
        >= PEOPLE // 50
    )
    assert outcome.counted.causes["age out of range"] == PEOPLE // 50
    assert not list(at.glob(".*"))


def test_any_number_of_workers_gives_the_same_bytes(
    at: Path, model: ri.FittedModel, people: pd.DataFrame
) -> None:
    people.to_csv(at / "t.csv", index=False)
    for workers in (1, 2):
        run(
            at,
            model,
            at / "t.csv",
            f"{workers}.tsv",
            workers=workers,
            size=ChunkSize(rows=50, parquet_rows=50, text_bytes=100_000),
        )
    assert (at / "1.tsv").read_bytes() == (at / "2.tsv").read_bytes()
    assert "r1_low" in json.loads((at / "1.json").read_text())


def test_dask_workers_in_another_folder_give_the_same_bytes(
    at: Path,
    model: ri.FittedModel,
    people: pd.DataFrame,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    distributed = pytest.importorskip("distributed")
    people.to_csv(at / "t.csv", index=False)
    size = ChunkSize(rows=50, parquet_rows=50, text_bytes=100_000)
    run(at, model, at / "t.csv", "here.tsv", size=size)
    monkeypatch.chdir(at)
    original = chunks.run

    def run_elsewhere(engine: Engine, tasks: list[Task], folder: Path) -> object:
        for task in tasks:
            job, chunk, _ = task.arguments
            paths = [job.model, job.folder, *job.request.volumes, chunk.path, folder]
            assert all(path.is_absolute() for path in paths)
        return original(engine, tasks, folder)

    monkeypatch.setattr(chunks, "run", run_elsewhere)
    with distributed.LocalCluster(
        n_workers=2, processes=False, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        apply_stream(
            Path("m.safetensors"),
            make_request(Path("t.csv"), model),
            at / "there.tsv",
            size=replace(size, schema_rows=200),
            engine=DaskEngine(scheduler=cluster.scheduler_address),
        )
    assert (at / "there.tsv").read_bytes() == (at / "here.tsv").read_bytes()


def test_participants_are_joined_in_every_chunk(
    at: Path, model: ri.FittedModel, people: pd.DataFrame
) -> None:
    columns = ["participant_id", *model.covariates]
    people.drop(columns=list(model.covariates)).to_csv(at / "t.csv", index=False)
    there = people[columns].sample(frac=1, random_state=3)
    there.assign(participant_id=there["participant_id"] + "_T1w").to_csv(
        at / "p.tsv", sep="\t", index=False
    )
    people.to_csv(at / "whole.csv", index=False)
    outcome = run(
        at,
        model,
        at / "t.csv",
        participants=at / "p.tsv",
        size=ChunkSize(rows=50, parquet_rows=50, text_bytes=100_000),
    )
    assert not [
        problem
        for problem in outcome.problems
        if problem.code is ProblemCode.UNUSED_PARTICIPANTS
    ]
    result = pd.read_csv(at / "out.csv").set_index("participant_id")
    expected = (
        in_memory(at / "whole.csv", model).set_index("participant_id").loc[result.index]
    )
    np.testing.assert_array_equal(
        result[["r1", "r2_high"]], expected[["r1", "r2_high"]]
    )


@pytest.mark.parametrize("policy", ["error", "drop"])
def test_ids_in_two_chunks_are_named(
    at: Path, model: ri.FittedModel, people: pd.DataFrame, policy: str
) -> None:
    twice = people["participant_id"][3]
    table = people.assign(
        participant_id=people["participant_id"].where(people.index != PEOPLE - 2, twice)
    )
    if policy == "drop":  # also where one of both rows is left out
        table.loc[3, model.regions[0]] = np.nan
    table.to_csv(at / "t.csv", index=False)
    with pytest.raises(
        TableError, match=f"1 duplicate ID: {twice}. Make the ids unique"
    ):
        run(
            at,
            model,
            at / "t.csv",
            size=ChunkSize(rows=50, parquet_rows=50, text_bytes=50_000),
            on_missing=policy,
        )
    assert not (at / "out.csv").exists()


def test_two_spellings_of_one_participant_are_not_two_people(
    at: Path, model: ri.FittedModel, people: pd.DataFrame
) -> None:
    people[["participant_id", *model.covariates]].to_csv(at / "p.csv", index=False)
    names = people["participant_id"].where(
        people.index != PEOPLE - 2, people["participant_id"][3] + "_T1w"
    )
    people.assign(participant_id=names).drop(columns=list(model.covariates)).to_csv(
        at / "t.csv", index=False
    )
    with pytest.raises(RindicesError, match="duplicate ID"):
        run(
            at,
            model,
            at / "t.csv",
            participants=at / "p.csv",
            size=ChunkSize(rows=50, parquet_rows=50, text_bytes=50_000),
        )


def test_sessions_are_part_of_the_key_of_a_row(
    at: Path, model: ri.FittedModel, people: pd.DataFrame
) -> None:
    visits = people.assign(
        participant_id=[f"p{k // 2:04d}" for k in range(PEOPLE)],
        session_id=[f"ses-{k % 2}" for k in range(PEOPLE)],
    )
    visits.to_csv(at / "t.csv", index=False)
    run(
        at,
        model,
        at / "t.csv",
        size=ChunkSize(rows=50, parquet_rows=50, text_bytes=50_000),
    )
    result = pd.read_csv(at / "out.csv")
    assert result[["participant_id", "session_id"]].equals(
        visits[["participant_id", "session_id"]]
    )


def test_sites_are_harmonised_in_every_chunk(
    model: ri.FittedModel, tmp_path: Path
) -> None:
    made = simulate_few_regions("tiny", seed=0).cohort
    sites = np.resize(["x", "y", "z"], len(made)).astype(object)
    cohort = replace(made, people=made.people.assign(site=sites))
    model = replace(model, preprocessing=ri.Preprocessing.fit(cohort), pipelines=())
    model.save(tmp_path / "m.safetensors")
    frame = pd.concat(
        [cohort.people[["participant_id", "site"]], cohort.covariates, cohort.volumes],
        axis=1,
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    request = make_request(
        tmp_path / "t.csv",
        model,
        site="site",
    )
    out = tmp_path / "out.csv"
    apply_stream(
        tmp_path / "m.safetensors",
        request,
        out,
        size=ChunkSize(rows=50, parquet_rows=50, text_bytes=30_000, schema_rows=60),
    )
    np.testing.assert_array_equal(
        pd.read_csv(out)[["r1", "r2"]], model.apply(cohort)[["r1", "r2"]]
    )
    frame.assign(site=frame["site"].where(frame.index != 170, "new")).to_csv(
        tmp_path / "t.csv", index=False
    )
    with pytest.raises(RindicesError, match="new was not among the sites in training"):
        apply_stream(
            tmp_path / "m.safetensors",
            request,
            out,
            size=ChunkSize(rows=50, parquet_rows=50, text_bytes=30_000, schema_rows=60),
        )


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [("MUSE_47", "x1", "text where a number"), ("MUSE_47", -5.0, "negative values in 1 region: MUSE_47 of"),
     ("MUSE_47", np.nan, "1 person has a missing region"), ("sex", "X", "which no control has"),
     ("participant_id", None, "1 row without an id"), ("age", "old", "text where a number should be")],
)  # fmt: skip
def test_a_wrong_cell_far_down_is_named(
    column: str,
    value: object,
    message: str,
    at: Path,
    model: ri.FittedModel,
    people: pd.DataFrame,
) -> None:
    wrong = people.astype({column: object})
    wrong.loc[PEOPLE - 5, column] = value
    wrong.to_csv(at / "t.csv", index=False)
    with pytest.raises(RindicesError, match=message):
        run(
            at,
            model,
            at / "t.csv",
            size=ChunkSize(rows=50, parquet_rows=50, text_bytes=50_000),
        )


def test_people_who_lack_a_value_can_be_dropped(
    at: Path, model: ri.FittedModel, people: pd.DataFrame
) -> None:
    lacking = people.copy()
    lacking.loc[250:, "MUSE_47"] = np.nan  # all rows of some chunks
    lacking.to_parquet(at / "t.parquet", index=False, row_group_size=50)
    outcome = run(
        at,
        model,
        at / "t.parquet",
        on_missing="drop",
        size=ChunkSize(rows=20, parquet_rows=50, text_bytes=0),
    )
    assert outcome.counted.people == 250
    assert (
        pd.read_csv(at / "out.csv")["participant_id"].tolist()
        == people["participant_id"][:250].tolist()
    )


def test_a_later_chunk_in_another_unit_is_novel_not_refused(
    at: Path, model: ri.FittedModel, people: pd.DataFrame
) -> None:
    regions = list(model.regions)
    some = people.copy()
    some.loc[250:, regions] = some.loc[250:, regions] / 1000
    some.to_csv(at / "t.csv", index=False)
    outcome = run(
        at,
        model,
        at / "t.csv",
        size=ChunkSize(rows=50, parquet_rows=50, text_bytes=50_000),
    )
    assert outcome.counted.causes["another unit"] == 100
    some[regions] = people[regions] / 1000
    some.to_csv(at / "t.csv", index=False)
    with pytest.raises(
        RindicesError, match=r"in ml|times the usual|scaled differently"
    ):
        run(
            at,
            model,
            at / "t.csv",
            size=ChunkSize(rows=50, parquet_rows=50, text_bytes=50_000),
        )


def test_a_table_unlike_training_is_warned_of_once(
    at: Path, model: ri.FittedModel, people: pd.DataFrame
) -> None:
    people.assign(age=people["age"].where(people.index <= 150, 98.0)).to_csv(
        at / "t.csv", index=False
    )
    outcome = run(
        at,
        model,
        at / "t.csv",
        size=ChunkSize(rows=50, parquet_rows=50, text_bytes=50_000),
    )
    warnings = [
        problem.what
        for problem in outcome.problems
        if "unlike the training people" in problem.what
    ]
    assert len(warnings) == 1
    assert f"of {PEOPLE} are outside the training range" in warnings[0]
    assert len(outcome.problems) < 8


def test_a_folder_in_and_a_folder_out_resumes(
    at: Path,
    model: ri.FittedModel,
    people: pd.DataFrame,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (at / "in" / "more").mkdir(parents=True)
    files = [at / "in" / name for name in ("a.parquet", "b.parquet", "more/a.parquet")]
    for offset, file in enumerate(files):
        people.iloc[offset::3].to_parquet(file, index=False)
    (at / "in" / "_SUCCESS").write_text("")
    assert list_table_files(at / "in") == files
    made, original = [], chunks.make_part

    def dies(
        job: chunks.StreamJob, chunk: chunks.TableChunk, name: str
    ) -> chunks.PartRecord:
        made.append(name)
        if len(made) == 3:
            raise KeyboardInterrupt
        return original(job, chunk, name)

    monkeypatch.setattr(chunks, "make_part", dies)
    with pytest.raises(KeyboardInterrupt):
        run(at, model, at / "in", "out")
    monkeypatch.setattr(chunks, "make_part", original)
    assert not (at / "out").exists()
    before = {
        path.name: path.stat().st_mtime_ns for path in at.glob(".out.parts/*/*.parquet")
    }
    outcome = run(at, model, at / "in", "out")
    assert (outcome.parts, outcome.resumed, len(before)) == (3, 2, 2)
    after = {
        path.name: path.stat().st_mtime_ns for path in (at / "out").glob("*.parquet")
    }
    assert set(after) == {"a-00000.parquet", "b-00000.parquet", "more__a-00000.parquet"}
    assert {name: after[name] for name in before} == before
    people.to_csv(at / "whole.csv", index=False)
    result = (
        pd.read_parquet(at / "out").sort_values("participant_id").reset_index(drop=True)
    )
    pd.testing.assert_frame_equal(
        result, in_memory(at / "whole.csv", model), check_exact=True, check_dtype=False
    )
    assert outcome.counted.novel == int(result["outside_training_range"].sum())

    assert not list(at.glob(".out*"))
    with pytest.raises(
        ModelError,
        match="not empty, and finished results are not replaced: give another folder",
    ):
        run(at, model, at / "in", "out")


def test_changed_files_and_other_options_are_not_resumed(
    at: Path,
    model: ri.FittedModel,
    people: pd.DataFrame,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (at / "in").mkdir()
    for offset in range(3):
        people.iloc[offset::3].to_csv(at / "in" / f"{offset}.csv", index=False)

    def dies(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(chunks, "join_parts", dies)
    for policy, resumed in (("error", 0), ("error", 2), ("drop", 0)):
        made: list[str] = []
        original = chunks.make_part
        monkeypatch.setattr(
            chunks,
            "make_part",
            lambda *each, do=original, to=made: to.append(each[2]) or do(*each),
        )
        with pytest.raises(KeyboardInterrupt):
            run(at, model, at / "in", on_missing=policy)
        assert len(made) == 3 - resumed
        people.iloc[1::3].assign(age=50.0).to_csv(at / "in" / "1.csv", index=False)


def test_folders_with_other_files_are_refused_and_left_alone(
    at: Path, model: ri.FittedModel, people: pd.DataFrame
) -> None:
    people.to_csv(at / "t.csv", index=False)
    (at / "mine").mkdir()
    (at / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(ModelError, match="not empty"):
        run(at, model, at / "t.csv", "mine")
    assert (at / "mine" / "thesis.txt").read_text() == "precious"


@pytest.mark.parametrize(
    "size",
    [
        ChunkSize(rows=20, parquet_rows=1000, text_bytes=0),
        ChunkSize(rows=20, parquet_rows=20, text_bytes=0),
    ],
)
def test_chunks_without_anyone_left_have_the_columns_of_the_others(
    size: ChunkSize, at: Path, model: ri.FittedModel, people: pd.DataFrame
) -> None:
    lacking = people.assign(
        MUSE_47=people["MUSE_47"].where(~people.index.isin(range(260, 280)))
    )
    lacking.to_parquet(at / "t.parquet", index=False, row_group_size=20)
    run(at, model, at / "t.parquet", "out.parquet", on_missing="drop", size=size)
    result = pd.read_parquet(at / "out.parquet")
    assert (
        result["participant_id"].tolist()
        == people["participant_id"].drop(range(260, 280)).tolist()
    )
    assert not result["outside_because"].isna().any()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_column_is_excluded_in_all_chunks(
    kind: str, at: Path, model: ri.FittedModel, people: pd.DataFrame
) -> None:
    twice = people.assign(H_MUSE_Volume_47=2 * people["MUSE_47"])
    for name, frame in (("once", people), ("twice", twice)):
        table = at / f"{name}.{kind}"
        frame.to_csv(table, index=False) if kind == "csv" else frame.to_parquet(
            table, index=False
        )
        more = {"exclude": ("H_MUSE_Volume_47",)} if name == "twice" else {}
        run(
            at,
            model,
            table,
            f"{name}.tsv",
            size=ChunkSize(rows=50, parquet_rows=50, text_bytes=50_000),
            **more,
        )
    assert (at / "once.tsv").read_bytes() == (at / "twice.tsv").read_bytes()


def test_blank_lines_at_the_end_are_ignored(
    at: Path, model: ri.FittedModel, people: pd.DataFrame
) -> None:
    text = people.to_csv(index=False)
    for name, more in (("plain", ""), ("blank", "\n\n\n")):
        (at / f"{name}.csv").write_text(text + more)
        run(
            at,
            model,
            at / f"{name}.csv",
            f"{name}.tsv",
            size=ChunkSize(rows=50, parquet_rows=50, text_bytes=len(text) - 5),
        )
    assert (at / "plain.tsv").read_bytes() == (at / "blank.tsv").read_bytes()


def test_each_file_of_hashes_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many shares there are, so that the cost grows as their number."""
    rng, read, load_hashes = np.random.default_rng(0), [], chunks.load_hashes
    files = [tmp_path / f"{k}.npz" for k in range(4)]
    for file in files:
        hashes = rng.integers(2**64, size=300, dtype=np.uint64)
        np.savez(file, keys=hashes, people=hashes[:100])

    def load(file: Path, kind: str = "keys") -> chunks.Hashes:
        read.append(file)
        return load_hashes(file, kind)

    monkeypatch.setattr(chunks, "load_hashes", load)
    monkeypatch.setattr(chunks, "_MAX_HASHES_IN_MEMORY", 100)
    shares = list(chunks.share_hashes(files, "people"))
    assert len(shares) > 10
    assert read == files
    assert max(map(len, shares)) < 100
    expected = np.concatenate([load_hashes(file, "people") for file in files])
    np.testing.assert_array_equal(np.sort(np.concatenate(shares)), np.sort(expected))
    assert len(np.unique(np.concatenate(shares))) == sum(
        len(np.unique(each)) for each in shares
    )
    assert sorted(tmp_path.iterdir()) == files


@settings(deadline=None)
@given(st.lists(st.integers(0, 60), max_size=40), st.integers(1, 5))
def test_repeated_keys_against_a_counter(keys: list[int], files: int) -> None:
    numbers = [key * (2**64 // 61) + 3 for key in keys]
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{k}.npz" for k in range(files)]
        for k, path in enumerate(paths):
            np.savez(path, keys=np.array(numbers[k::files], dtype=np.uint64))
        result = find_repeated_hashes(paths)
    assert result.tolist() == sorted(
        key for key, times in Counter(numbers).items() if times > 1
    )


def test_few_hashes_in_memory_give_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = np.random.default_rng(0).integers(2**64, size=500, dtype=np.uint64)
    hashes = np.append(hashes, hashes[[7, 300]])
    np.savez(tmp_path / "a.npz", keys=hashes[:250])
    np.savez(tmp_path / "b.npz", keys=hashes[250:])
    monkeypatch.setattr(chunks, "_MAX_HASHES_IN_MEMORY", 20)
    repeated = find_repeated_hashes([tmp_path / "a.npz", tmp_path / "b.npz"])
    assert sorted(repeated.tolist()) == sorted(hashes[[7, 300]].tolist())


def test_a_record_that_the_disk_fails_to_read_is_one_line(tmp_path: Path) -> None:
    """While numpy looks for the end of the archive, an error of the disk becomes one of
    zipfile.
    """
    np.savez(tmp_path / "part.npz", keys=np.arange(3, dtype=np.uint64))
    content = (tmp_path / "part.npz").read_bytes()
    (tmp_path / "part.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(
        ModelError, match=r"part\.npz cannot be read: run the same command again"
    ):
        chunks.load_hashes(tmp_path / "part.npz")
