"""No command loses people or swaps groups without an error: lines, labels, codes, ids,
job scripts.
"""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from rindices.errors import Findings, RindicesError
from rindices.tables import readers  # noqa: F401  (imported once, before files vanish)
from rindices.tables.sources import frames
from rindices.tables.sources.lines import Dialect

PEOPLE = 60


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model of volumes without covariates."""
    folder = tmp_path_factory.mktemp("model")
    frame = make_frame(200, seed=5).assign(group=["control"] * 100 + ["patient"] * 100)
    severity = np.random.default_rng(6).uniform(0, 1, 100)
    for region in ("roi0", "roi1", "roi2", "roi3"):
        frame.loc[100:, region] *= 1 - 0.5 * severity
    frame.to_csv(folder / "train.csv", index=False)
    cohort = ri.read_cohort(folder / "train.csv", group="group")
    ri.fit(cohort, 1, members=2, method="contrastive", workers=1).save(
        folder / "m.safetensors"
    )
    return folder / "m.safetensors"


def make_frame(people: int = PEOPLE, seed: int = 0) -> pd.DataFrame:
    """Return a table of eight regions."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {f"roi{k}": rng.normal(3000 + 300 * k, 200, people).round(2) for k in range(8)}
    )
    frame.insert(0, "participant_id", [f"sub-{k:04d}" for k in range(people)])
    return frame


def run(*arguments: object) -> tuple[int, str, str]:
    """Return exit code, standard output and messages of a command, as the program
    prints them.
    """
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, RindicesError):
        return 1, result.stdout, str(result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), (
        result.exception
    )
    return result.exit_code, result.stdout, result.stderr


def write_lines(
    path: Path, frame: pd.DataFrame, change: Callable[[list[str]], None], sep: str = ","
) -> Path:
    """Write a table with a comment column, with changes of its lines (the header is
    line 0).
    """
    lines = (
        frame.assign(comment="none")
        .to_csv(index=False, sep=sep, lineterminator="\n")
        .splitlines()
    )
    change(lines)
    path.write_bytes(("\n".join(lines) + "\n").encode("utf-8", "surrogateescape"))
    return path


def stray_quotes(lines: list[str]) -> None:
    lines[10] = lines[10].replace("none", '"none')
    lines[50] = lines[50].replace("none", 'none"')


def line_break(lines: list[str]) -> None:
    lines[10] = lines[10].replace("none", '"no\nne"')


def control_character(lines: list[str]) -> None:
    lines[10] = lines[10].replace("none", "no\x0bne")


def long_cell(lines: list[str]) -> None:
    lines[10] = lines[10].replace("none", "x" * 200_000)


SLOW = pytest.mark.slow
BAD_LINES = {
    stray_quotes: "1 line opens a quotation mark that is not closed on the same line: line 11",
    line_break: "1 line opens a quotation mark that is not closed on the same line: line 11",
    control_character: "1 line holds a control character: line 11",
    long_cell: "1 line has a cell of more than 100,000 bytes: line 11",
}


@pytest.mark.parametrize(
    "sep", [",", pytest.param("\t", marks=SLOW), pytest.param(";", marks=SLOW), " "]
)
@pytest.mark.parametrize("change", BAD_LINES)
def test_lines_that_are_no_rows_are_named_by_every_command(
    change: Callable[[list[str]], None], sep: str, model: Path, tmp_path: Path
) -> None:
    table = write_lines(tmp_path / "t.csv", make_frame(), change, sep)
    message, out = BAD_LINES[change], tmp_path / "out.csv"
    good = tmp_path / "good.csv"
    make_frame().assign(r1=1.0).to_csv(good, index=False)
    for arguments in (
        ("check", table),
        ("check", good, "--participants", table),
        ("apply", model, table, "--out", out),
        ("apply", model, good, "--participants", table, "--out", out),
        ("associate", good, table, "--out", tmp_path / "a"),
        ("change", table, "--out", tmp_path / "b"),
    ):
        code, stdout, stderr = run(*arguments)
        assert code == 1, arguments
        assert message in stdout + stderr
    assert not out.exists()


def test_apply_in_memory_names_the_line(model: Path, tmp_path: Path) -> None:
    left = write_lines(tmp_path / "left.csv", make_frame().iloc[:, :5], stray_quotes)
    right = tmp_path / "right.csv"
    make_frame().iloc[:, [0, 5, 6, 7, 8]].to_csv(right, index=False)
    code, _, message = run("apply", model, left, right, "--out", tmp_path / "out.csv")
    assert code == 1
    assert "left.csv: 1 line opens a quotation mark" in message


def test_lines_of_separators_are_no_people(model: Path, tmp_path: Path) -> None:
    table = write_lines(
        tmp_path / "t.csv",
        make_frame(),
        lambda lines: lines.extend(["", ",,,,,,,,,", ' , ,"",,,,,,,']),
    )
    code, stdout, _ = run("apply", model, table, "--out", tmp_path / "o.csv", "--json")
    assert code == 0
    assert json.loads(stdout)["people"] == PEOPLE
    table = write_lines(
        tmp_path / "u.csv",
        make_frame(),
        lambda lines: lines.append("NA,,,,,,,,,looks empty"),
    )
    code, _, message = run("apply", model, table, "--out", tmp_path / "p.csv")
    assert code == 1
    assert "1 row without an id: line 62" in message


def test_lines_of_another_encoding_are_read_alike_in_memory_and_in_chunks(
    model: Path, tmp_path: Path
) -> None:
    def mix(lines: list[str]) -> None:
        lines[10] = lines[10].replace("sub-0009", "Zo\u00eb")
        lines[20] = lines[20].replace("sub-0019", "Zo\udceb2")  # Latin-1 among UTF-8

    table = write_lines(tmp_path / "t.csv", make_frame(), mix)
    code, _, message = run("apply", model, table, "--out", tmp_path / "o.csv")
    assert code == 0, message
    ids = pd.read_csv(tmp_path / "o.csv")["participant_id"]
    assert (ids[9], ids[19]) == ("Zoë", "Zoë2")
    assert "1 line is not UTF-8; read as Latin-1: line 21" in message


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_ids_with_invisible_characters_are_refused(
    suffix: str, model: Path, tmp_path: Path
) -> None:
    frame = make_frame()
    frame.loc[20, "participant_id"] = "sub\u200b-0020"
    table = tmp_path / f"t{suffix}"
    frame.to_csv(table, index=False) if suffix == ".csv" else frame.to_parquet(
        table, index=False
    )
    code, _, message = run("apply", model, table, "--out", tmp_path / "o.csv")
    assert code == 1
    assert (
        "1 row with an id that holds a control character or is longer than 1,000 characters: "
        in message
    )
    assert ("line 22" if suffix == ".csv" else "row 21") in message


@pytest.mark.parametrize("lost", ["in memory", "in chunks"])
def test_people_who_are_not_written_are_an_error(
    lost: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = make_frame()
    frame.iloc[:, :5].to_csv(tmp_path / "a.csv", index=False)
    frame.iloc[:, [0, 5, 6, 7, 8]].to_csv(tmp_path / "b.csv", index=False)
    frame.to_csv(tmp_path / "t.csv", index=False)
    write = pd.DataFrame.to_csv
    monkeypatch.setattr(
        pd.DataFrame,
        "to_csv",
        lambda table, *rest, **options: write(table[:-1], *rest, **options),
    )
    tables = (
        [tmp_path / "t.csv"]
        if lost == "in chunks"
        else [tmp_path / "a.csv", tmp_path / "b.csv"]
    )
    code, _, message = run(
        "apply", model, *tables, "--out", tmp_path / "o.csv", "--workers", 1
    )
    assert code == 1
    assert "60 people" in message
    assert "59" in message
    assert "\n" not in message
    assert not (tmp_path / "o.csv").exists()


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    labels = ["control"] * 10 + ["Control "] * 10 + [" CONTROL"] * 10 + ["AD"] * 30
    make_frame().assign(group=labels, sex=["1", "2"] * 29 + ["9", "1"]).to_csv(
        tmp_path / "t.csv", index=False
    )
    return tmp_path / "t.csv"


@pytest.mark.parametrize("options", [("--patients", "*"), ("--patients", "AD"), ()])
def test_labels_that_differ_by_case_or_blanks_are_refused_or_joined(
    options: tuple[str, ...], labelled: Path
) -> None:
    arguments = [
        "check",
        labelled,
        "--group",
        "group",
        *options,
        "--covariates",
        "none",
        "--json",
    ]
    code, stdout, _ = run(*arguments, "--controls", "control")
    assert code == 1
    (problem,) = (
        item for item in json.loads(stdout)["problems"] if item["severity"] == "error"
    )
    assert problem["code"] == "similar_labels"
    assert problem["offenders"] == ["control", "Control", "CONTROL"]
    assert "control,Control,CONTROL" in problem["cure"]
    code, stdout, _ = run(*arguments, "--controls", "control,Control,CONTROL")
    assert code == 0
    assert (json.loads(stdout)["controls"], json.loads(stdout)["patients"]) == (30, 30)


def test_a_label_may_be_named_in_another_spelling(labelled: Path) -> None:
    code, stdout, _ = run(
        "check",
        labelled,
        "--group",
        "group",
        "--controls",
        "ad",
        "--patients",
        "*",
        "--json",
    )
    assert code == 0
    assert json.loads(stdout)["controls"] == 30


@pytest.mark.parametrize("text", [False, True])
def test_a_third_rare_sex_is_questioned(text: bool, labelled: Path) -> None:
    frame = pd.read_csv(labelled, dtype=str)
    if text:
        frame["sex"] = frame["sex"].map({"1": "F", "2": "M", "9": "unknown"})
    frame.to_csv(labelled, index=False)
    code, stdout, _ = run("check", labelled, "--covariates", "sex", "--json")
    warnings = [
        problem
        for problem in json.loads(stdout)["problems"]
        if problem["code"] == "codes_for_missing"
    ]
    assert code == 0
    assert [warning["offenders"] for warning in warnings] == [["sub-0058"]]
    assert f"{'unknown' if text else 9} for sub-0058" in warnings[0]["what"]


def test_sites_in_two_spellings_are_questioned(tmp_path: Path) -> None:
    make_frame().assign(site=["Rome"] * 30 + ["rome", "Ro me"] * 15).to_csv(
        tmp_path / "t.csv", index=False
    )
    _, stdout, _ = run("check", tmp_path / "t.csv", "--site", "site", "--json")
    assert "similar_categories" in [
        problem["code"] for problem in json.loads(stdout)["problems"]
    ]


def test_one_person_under_two_ids_is_noticed(model: Path, tmp_path: Path) -> None:
    frame = make_frame()
    frame.iloc[40, 1:] = frame.iloc[3, 1:]
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.iloc[:, :5].to_csv(tmp_path / "a.csv", index=False)
    frame.iloc[:, [0, 5, 6, 7, 8]].to_csv(tmp_path / "b.csv", index=False)
    for expected, *arguments in (
        (
            "1 pair of rows (2 people) hold one scan under two IDs: sub-0003 = sub-0040",
            "check",
            tmp_path / "t.csv",
        ),
        (
            "2 people have the same values in all regions as someone else: sub-0003 = sub-0040",
            *(
                "apply",
                model,
                tmp_path / "a.csv",
                tmp_path / "b.csv",
                "--out",
                tmp_path / "o.csv",
            ),
        ),
    ):
        code, _, message = run(*arguments)
        assert code == 0
        assert expected in message


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_ids_that_look_like_formulas_are_written_for_spreadsheets_and_read_back(
    suffix: str, model: Path, tmp_path: Path
) -> None:
    frame = make_frame()
    ids = ["=1+1", "+cmd", "-x", "@sum", "'=1+2", "''@a", "-5", "'quoted"]
    frame.loc[: len(ids) - 1, "participant_id"] = ids
    frame.assign(
        participant_id=[
            "'" + name if name in ("'=1+2", "''@a") else name
            for name in frame["participant_id"]
        ]
    ).to_csv(tmp_path / "t.csv", index=False)
    out = tmp_path / f"r{suffix}"
    assert run("apply", model, tmp_path / "t.csv", "--out", out)[0] == 0
    if suffix == ".parquet":
        assert pd.read_parquet(out)["participant_id"].tolist()[: len(ids)] == ids
        return
    written = pd.read_csv(out, sep="," if suffix == ".csv" else "\t", dtype=str)[
        "participant_id"
    ][: len(ids)].tolist()
    assert written == [
        "'=1+1",
        "'+cmd",
        "'-x",
        "'@sum",
        "''=1+2",
        "'''@a",
        "-5",
        "'quoted",
    ]
    clinical = frame[["participant_id"]].assign(score=np.arange(PEOPLE) % 7)
    clinical.to_parquet(tmp_path / "clinical.parquet", index=False)
    code, stdout, message = run(
        "associate",
        out,
        tmp_path / "clinical.parquet",
        "--out",
        tmp_path / "a",
        "--json",
    )
    assert code == 0, message
    assert {result["n"] for result in json.loads(stdout)["results"]} == {PEOPLE}


def test_input_that_vanishes_is_not_an_output_that_cannot_be_written(
    model: Path, tmp_path: Path
) -> None:
    make_frame(6000).to_csv(tmp_path / "t.csv", index=False)
    program = (
        "import sys, pathlib\n"
        "from rindices.tables.chunks import OpenedTable\n"
        "table, opened = pathlib.Path(sys.argv[3]), OpenedTable.open.__func__\n"
        "def open_and_lose(cls, *arguments):\n"
        "    try:\n"
        "        return opened(cls, *arguments)\n"
        "    finally:\n"
        "        table.unlink()\n"
        "OpenedTable.open = classmethod(open_and_lose)\n"
        "from rindices.cli.main import run; run()\n"
    )
    arguments = [
        "apply",
        model,
        tmp_path / "t.csv",
        "--out",
        tmp_path / "o.csv",
        "--workers",
        "1",
    ]
    result = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert "t.csv: the file cannot be read (No such file or directory)" in result.stderr
    assert "cannot write" not in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [("check",), ("fit", "--out", "study"), ("apply", "right.csv", "--out", "o.csv")],
)
def test_input_that_fails_while_it_is_read_is_named(
    arguments: tuple[str, ...],
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(path: Path, findings: Findings) -> Dialect:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(frames.lines, "sniff_dialect", fail)
    for name in ("t.csv", "right.csv"):
        make_frame().to_csv(name, index=False)
    command, *options = arguments
    inputs = [model, "t.csv"] if command == "apply" else ["t.csv"]
    code, _, message = run(command, *inputs, *options)
    assert code == 1
    assert f"t.csv: the file cannot be read ({os.strerror(errno.EIO)})" in message
    assert len(message.splitlines()) == 1


def test_one_control_is_too_few_in_plain_words(tmp_path: Path) -> None:
    make_frame().assign(group=["control"] + ["patient"] * 59).to_csv(
        tmp_path / "t.csv", index=False
    )
    code, _, message = run(
        "fit", tmp_path / "t.csv", "--group", "group", "--out", tmp_path / "study"
    )
    assert code == 1
    assert "too few controls (1): at least 2 are needed" in message
    assert "0 covariate" not in message


@pytest.mark.parametrize(
    "value",
    [
        'account = "a\\nscancel -u all"',
        'setup = ["module load x\\u0007"]',
        'partition = "a\\rb"',
        'memory = "4GB\\t"',
    ],
)
def test_control_characters_in_job_scripts_are_refused(
    value: str, tmp_path: Path
) -> None:
    make_frame().assign(group=["control", "patient"] * 30).to_csv(
        tmp_path / "t.csv", index=False
    )
    text = f'[data]\nvolumes = "t.csv"\ngroup = "group"\n[run]\nengine = "slurm"\n[run.slurm]\n{value}\n'
    (tmp_path / "study.toml").write_text(text)
    code, _, message = run("fit", tmp_path / "study.toml", "--out", tmp_path / "study")
    assert code == 1
    assert (
        f"run.slurm.{value.split()[0]}: a line break or another control character"
        in message
    )
    assert "\n" not in message
    assert (
        os.listdir(tmp_path) == ["t.csv", "study.toml"]
        or not (tmp_path / "study").exists()
    )


def test_the_cell_of_text_among_decimal_commas_is_named_and_not_its_neighbours(
    model: Path, tmp_path: Path
) -> None:
    table = tmp_path / "t.csv"
    text = make_frame().to_csv(index=False, sep=";", decimal=",", lineterminator="\n")
    row = text.splitlines()[12].split(";")
    table.write_text(
        text.replace(";".join(row), ";".join([*row[:3], f"{row[3]}x", *row[4:]]))
    )
    for arguments in (
        ("check", table, "--json"),
        ("apply", model, table, "--out", tmp_path / "o.csv"),
    ):
        code, stdout, message = run(*arguments)
        assert code == 1
        named = json.loads(stdout)["problems"][0]["what"] if stdout else message
        assert (
            f"text where a number should be: '{row[3]}x' for sub-0011 in roi2" in named
        )
        assert "sub-0000" not in named
        assert "no value at all" not in stdout + message


@pytest.mark.parametrize("line", [1, 2, 30])
def test_a_mark_of_utf8_inside_a_file_is_part_of_the_id(
    line: int, model: Path, tmp_path: Path
) -> None:
    def add_mark(lines: list[str]) -> None:
        lines[line] = f"\ufeff{lines[line]}"

    table = write_lines(tmp_path / "t.csv", make_frame(), add_mark)
    for arguments in (
        ("check", table),
        ("apply", model, table, "--out", tmp_path / "o.csv"),
    ):
        code, stdout, message = run(*arguments)
        assert code == 1
        assert (
            f"1 row with an id that holds a control character or is longer than 1,000 characters: line {line + 1}"
            in (stdout + message)
        )


def test_errors_of_all_chunks_are_reported_at_once(model: Path, tmp_path: Path) -> None:
    def plant(lines: list[str]) -> None:
        for line in (5_100, 9_000, 29_999):
            lines[line] = lines[line].replace("none", '"none')
        for line in (6_000, 20_000):
            lines[line] = lines[line].replace("none", "no\x07ne")
        lines[25_000] = lines[25_000].replace(",none", "x,none")

    table = write_lines(tmp_path / "t.csv", make_frame(30_000), plant)
    program = (
        "from rindices.apply import chunks\n"
        "size = chunks.ChunkSize(rows=2_000, text_bytes=300_000)\n"
        "chunks.ChunkSize = lambda: size\n"
        "from rindices.cli.main import run; run()\n"
    )
    arguments = [
        "apply",
        model,
        table,
        "--out",
        tmp_path / "o.csv",
        "--workers",
        "1",
        "--json",
    ]
    result = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    offenders = {
        problem["code"]: problem["offenders"]
        for problem in json.loads(result.stdout)["problems"]
    }
    assert offenders["open_quotes"] == ["5101", "9001", "30000"]
    assert offenders["control_characters"] == ["6001", "20001"]
    assert offenders["not_a_number"] == ["sub-24999"]
    assert result.stderr.count("error:") == len(json.loads(result.stdout)["problems"])
    assert not (tmp_path / "o.csv").exists()


def test_lines_of_another_encoding_in_later_chunks_are_named(
    model: Path, tmp_path: Path
) -> None:
    def mix(lines: list[str]) -> None:
        lines[7_000] = lines[7_000].replace("sub-6999", "Zo\udceb")

    table = write_lines(tmp_path / "t.csv", make_frame(8_000), mix)
    code, _, message = run(
        "apply", model, table, "--out", tmp_path / "o.csv", "--workers", 1
    )
    assert code == 0
    assert "1 line is not UTF-8; read as Latin-1: line 7001" in message.replace(",", "")


def test_a_zero_byte_is_named_by_its_line(model: Path, tmp_path: Path) -> None:
    def add_zero(lines: list[str]) -> None:
        lines[30] = lines[30].replace("none", "no\x00ne")

    table = write_lines(tmp_path / "t.csv", make_frame(), add_zero)
    for arguments in (
        ("check", table),
        ("apply", model, table, "--out", tmp_path / "o.csv"),
    ):
        code, stdout, message = run(*arguments)
        assert code == 1
        assert "1 line holds a control character: line 31" in stdout + message
