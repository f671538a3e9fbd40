"""``rindices apply`` on large text tables: stray quotation marks lose nobody and cost
no time.
"""

import html
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from rindices.apply import chunks
from rindices.cli.main import app
from rindices.errors import RindicesError
from rindices.experiments.simulate import write_cohort
from rindices.experiments.tasks import TASKS
from rindices.model.scale import describe_scale
from rindices.report.model_page import export_page
from tests.cohorts import fit_tiny_model, simulate_few_regions

PEOPLE = 6_000
COMMENT = "x" * 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model and a table of people with a column of comments, about 7 MB."""
    folder = tmp_path_factory.mktemp("apply")
    fit_tiny_model().save(folder / "m.safetensors")
    cohort = simulate_few_regions(
        replace(TASKS["tiny"], n_controls=PEOPLE - 100, n_patients=100), seed=1
    ).cohort
    comments = pd.Series(COMMENT, index=range(PEOPLE), name="comment")
    frame = pd.concat(
        [
            cohort.people[["participant_id"]],
            comments,
            cohort.covariates,
            cohort.volumes.round(2),
        ],
        axis=1,
    )
    frame.to_csv(folder / "people.csv", index=False)
    return folder


def apply(folder: Path, table: Path) -> tuple[Result, float]:
    """Return the result of the command and the processor time that it took."""
    start = time.process_time()
    arguments = [
        "apply",
        folder / "m.safetensors",
        table,
        "--out",
        table.with_name("out.csv"),
        "--workers",
        1,
    ]
    result = CliRunner().invoke(app, list(map(str, arguments)))
    return result, time.process_time() - start


def write_lines(
    folder: Path, tmp_path: Path, changes: dict[int, tuple[str, str]]
) -> Path:
    """Write the table with text replaced in some lines, counted from 1 as
    editors do.
    """
    lines = (folder / "people.csv").read_text().splitlines(keepends=True)
    for number, (old, new) in changes.items():
        assert old in lines[number - 1]
        lines[number - 1] = lines[number - 1].replace(old, new, 1)
    path = tmp_path / "people.csv"
    path.write_text("".join(lines))
    return path


@pytest.mark.parametrize("line", [20, 2_900, PEOPLE + 1])
def test_a_stray_quotation_mark_is_refused_in_linear_time(
    line: int, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = chunks.ChunkSize(text_bytes=300_000)
    monkeypatch.setattr(chunks, "ChunkSize", lambda: size)
    result, usual_seconds = apply(folder, write_lines(folder, tmp_path, {}))
    assert result.exit_code == 0
    (tmp_path / "out.csv").unlink()
    result, seconds = apply(
        folder, write_lines(folder, tmp_path, {line: (",x", ',"x')})
    )
    assert isinstance(result.exception, RindicesError)
    assert (
        f"people.csv: 1 line opens a quotation mark that is not closed on the same line: line {line:,}."
        in str(result.exception)
    )
    assert seconds < 2 * usual_seconds + 1
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("text_bytes", [300_000, 16_000_000])
def test_short_rows_and_a_cut_file_are_refused_in_all_chunks(
    text_bytes: int, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = chunks.ChunkSize(text_bytes=text_bytes)
    monkeypatch.setattr(chunks, "ChunkSize", lambda: size)
    table = write_lines(
        folder, tmp_path, {30: (f",{COMMENT}", ""), 5_500: (f",{COMMENT}", "")}
    )
    table.write_text(table.read_text()[:-20])
    result, _ = apply(folder, table)
    assert isinstance(result.exception, RindicesError)
    (problem,) = result.exception.problems
    assert problem.offenders == ("30", "5500", f"{PEOPLE + 1}")
    assert not (tmp_path / "out.csv").exists()


def test_a_volume_of_zero_is_refused_by_its_person(
    folder: Path, tmp_path: Path
) -> None:
    frame = pd.read_csv(folder / "people.csv")
    frame.iloc[5_700, -1] = 0.0
    frame.to_csv(tmp_path / "people.csv", index=False)
    result, _ = apply(folder, tmp_path / "people.csv")
    assert isinstance(result.exception, RindicesError)
    problems = [
        problem
        for problem in result.exception.problems
        if "values of 0 in 1 region" in problem.what
    ]
    assert [problem.offenders for problem in problems] == [
        (frame["participant_id"][5_700],)
    ]


def test_an_excel_table_is_applied(folder: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(folder / "people.csv").head(60)
    frame.to_csv(tmp_path / "people.csv", index=False)
    frame.to_excel(tmp_path / "people.xlsx", index=False)
    tables = []
    for name in ("people.csv", "people.xlsx"):
        result, _ = apply(folder, tmp_path / name)
        assert result.exit_code == 0, result.output
        tables.append(
            pd.read_csv(tmp_path / "out.csv").set_index("participant_id").sort_index()
        )
    pd.testing.assert_frame_equal(*tables)


@pytest.mark.parametrize("lines", [(20, 40), (20, 21), (2_900, 2_950)])
def test_two_stray_quotation_marks_do_not_lose_the_people_between_them(
    lines: tuple[int, int], folder: Path, tmp_path: Path
) -> None:
    first, second = lines
    table = write_lines(folder, tmp_path, {first: (",x", ',"x'), second: ("x,", 'x",')})
    result, _ = apply(folder, table)
    assert isinstance(result.exception, RindicesError)
    assert "opens a quotation mark" in str(result.exception)
    assert f"line {first:,}" in str(result.exception)


def test_quotation_marks_within_a_line_are_read(folder: Path, tmp_path: Path) -> None:
    changes = {
        10: (f",{COMMENT},", ',"a ""b"", c",'),
        11: (f",{COMMENT},", ',5" x,'),
        12: (f",{COMMENT},", ',"",'),
    }
    for name, replaced in (("plain", {}), ("quoted", changes)):
        result, _ = apply(
            folder,
            write_lines(
                folder, tmp_path, {k: (old, new) for k, (old, new) in replaced.items()}
            ),
        )
        assert result.exit_code == 0
        (tmp_path / "out.csv").rename(tmp_path / f"{name}.csv")
    assert (tmp_path / "plain.csv").read_bytes() == (
        tmp_path / "quoted.csv"
    ).read_bytes()


def test_a_long_row_is_named_by_its_line(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = chunks.ChunkSize(text_bytes=300_000)
    monkeypatch.setattr(chunks, "ChunkSize", lambda: size)
    result, _ = apply(folder, write_lines(folder, tmp_path, {2_900: (",x", ",x,x")}))
    assert ": line 2,900." in str(result.exception)


def test_text_in_chunks_needs_no_pyarrow(folder: Path, tmp_path: Path) -> None:
    table = write_lines(folder, tmp_path, {})
    assert apply(folder, table)[0].exit_code == 0
    program = "import sys; sys.modules['pyarrow'] = None; from rindices.cli.main import run; run()"
    arguments = [
        "apply",
        folder / "m.safetensors",
        table,
        "--out",
        tmp_path / "without.csv",
        "--workers",
        "1",
    ]
    subprocess.run([sys.executable, "-c", program, *arguments], check=True)
    assert (tmp_path / "without.csv").read_bytes() == (
        tmp_path / "out.csv"
    ).read_bytes()


def test_apply_never_overwrites_its_inputs(tmp_path: Path) -> None:
    write_cohort(simulate_few_regions("tiny", seed=1), tmp_path)
    model, people = tmp_path / "model.safetensors", tmp_path / "participants.tsv"
    fit_tiny_model().save(model)
    before = people.read_bytes()

    def apply_into(out: Path) -> Result:
        arguments = [
            "apply",
            model,
            tmp_path / "volumes.csv",
            "--participants",
            people,
            "--out",
            out,
        ]
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    assert apply_into(people).exit_code == 2
    assert people.read_bytes() == before
    (tmp_path / "new.json").write_text('{"mine": 1}')
    assert apply_into(tmp_path / "new.tsv").exit_code == 0
    assert (tmp_path / "new.json").read_text() == '{"mine": 1}'


@pytest.mark.parametrize(
    ("out", "n_tables"), [("r.tsv", 1), ("r.parquet", 1), ("parts", 1), ("r.tsv", 2)]
)
def test_visits_and_people_are_counted(
    out: str, n_tables: int, folder: Path, tmp_path: Path
) -> None:
    frame = pd.read_csv(folder / "people.csv", nrows=60)
    frame.insert(1, "session_id", "ses-1")
    visits = pd.concat(
        [frame, frame[:40].assign(session_id="ses-2")], ignore_index=True
    )
    tables = [tmp_path / f"{number}.csv" for number in range(n_tables)]
    for table, columns in zip(
        tables, np.array_split(visits.columns[2:], n_tables), strict=True
    ):
        visits[["participant_id", "session_id", *columns]].to_csv(table, index=False)
    arguments = [
        folder / "m.safetensors",
        *tables,
        "--out",
        tmp_path / out,
        "--workers",
        1,
    ]
    result = CliRunner().invoke(app, ["apply", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    assert "100 visits of 60 people written to" in result.output


@pytest.mark.parametrize("in_two_tables", [False, True])  # in chunks, and at once
def test_every_place_that_shows_values_gives_their_scale(
    in_two_tables: bool, tmp_path: Path
) -> None:
    model, simulated = fit_tiny_model(), simulate_few_regions("tiny", seed=1)
    sentence = describe_scale(model)
    assert "0 is the average control" in sentence
    assert "half of the study's controls have" in sentence
    model.save(tmp_path / "m.safetensors")
    write_cohort(simulated, tmp_path / "people")
    arguments = [
        "apply",
        tmp_path / "m.safetensors",
        tmp_path / "people" / "volumes.csv",
    ]
    arguments += [
        "--participants",
        tmp_path / "people" / "participants.tsv",
        "--out",
        tmp_path / "out.tsv",
    ]
    if in_two_tables:
        volumes = pd.read_csv(tmp_path / "people" / "volumes.csv").iloc[:, :4]
        volumes.to_csv(tmp_path / "first.csv", index=False)
        volumes = pd.read_csv(tmp_path / "people" / "volumes.csv")
        volumes.drop(columns=volumes.columns[1:4]).to_csv(arguments[2], index=False)
        arguments.insert(2, tmp_path / "first.csv")
    result = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert result.stderr.splitlines()[-1] == sentence
    dictionary = json.loads((tmp_path / "out.json").read_text())
    assert (
        dictionary["r2"]["Description"]
        == f"Severity of disease pattern 2. {sentence.removesuffix('.')}"
    )
    printed = CliRunner().invoke(
        app, [*map(str, arguments), "--json"], catch_exceptions=False
    )
    assert json.loads(printed.stdout)["scale"] == sentence
    for options in ([], ["--json"], ["--card"]):
        shown = CliRunner().invoke(
            app, ["model", "show", str(tmp_path / "m.safetensors"), *options]
        )
        assert sentence in shown.stdout
    export_page(model, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count(
        html.escape(sentence, quote=False).replace("'", "&#39;")
    ) == 2


def test_text_tables_need_no_pyarrow(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the table of the study, people of the study are looked for in the
    results.
    """
    rows = pd.read_csv(folder / "people.csv", nrows=20)
    rows.to_csv(tmp_path / "some.csv", index=False)
    fit_tiny_model().save(tmp_path / "m.safetensors")
    rows[["participant_id"]].to_csv(tmp_path / "r_indices.tsv", sep="\t", index=False)
    monkeypatch.setitem(sys.modules, "pyarrow.dataset", None)
    result, _ = apply(tmp_path, tmp_path / "some.csv")
    assert result.exit_code == 0, result.output
