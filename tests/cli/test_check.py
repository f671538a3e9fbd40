"""The command check refuses wrong tables with exit code 1 and a message that names the
offender and the cure.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from rindices.cli.main import app
from rindices.errors import RindicesError
from tests.conftest import muse_volumes, participants_of
from tests.tables.helpers import aparc, aseg, write_table

Change = Callable[[pd.DataFrame, pd.DataFrame], tuple[pd.DataFrame, pd.DataFrame]]
GROUP = ["--group", "diagnosis", "--controls", "CN", "--patients", "AD"]
STRICT = ["--on-missing", "error"]


def volumes_are(change: Callable[[pd.DataFrame], pd.DataFrame]) -> Change:
    return lambda volumes, people: (change(volumes), people)


def people_are(change: Callable[[pd.DataFrame], pd.DataFrame]) -> Change:
    return lambda volumes, people: (volumes, change(people))


def cell(
    column: str, value: object, row: int = 3
) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def change(frame: pd.DataFrame) -> pd.DataFrame:
        frame = frame.astype({column: object})
        frame.loc[row, column] = value
        return frame

    return change


def scaled(rows: slice, factor: float) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def change(frame: pd.DataFrame) -> pd.DataFrame:
        frame = frame.copy()
        frame.iloc[rows, 1:] *= factor
        return frame

    return change


def thickness(frame: pd.DataFrame) -> pd.DataFrame:
    """The same people with values that look like thickness under names that say
    nothing.
    """
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "ID": frame["ID"],
            **{f"area {k}": rng.normal(2.5, 0.2, len(frame)) for k in range(20)},
        }
    )


TABLES: dict[str, tuple[Change, list[str], str, str]] = {
    # name: (change, options, offender in the message, cure in the message)
    "duplicate ids": (
        volumes_are(lambda v: pd.concat([v, v.iloc[:2]])),
        [],
        "sub-000",
        "make the ids unique",
    ),
    "duplicate participants": (
        people_are(lambda p: pd.concat([p, p.iloc[:2]])),
        [],
        "sub-000",
        "make the ids unique",
    ),
    "empty id": (volumes_are(cell("ID", None)), [], "line 5", "Fill the id"),
    "no controls left": (
        people_are(lambda p: p.assign(diagnosis="AD")),
        GROUP,
        "'CN'",
        "there is: AD",
    ),
    "one group only": (
        people_are(lambda p: p.assign(diagnosis="AD")),
        ["--group", "diagnosis"],
        "one group alone, AD (40)",
        "Add the people",
    ),
    "controls coded 0": (
        people_are(lambda p: p.assign(diagnosis=[0, 1] * 20)),
        ["--group", "diagnosis", "--controls", "-1", "--patients", "1"],
        "'-1'",
        "In this column",
    ),
    "controls coded -1 and 0": (
        people_are(lambda p: p.assign(diagnosis=[-1, 0, 1, 1] * 10)),
        ["--group", "diagnosis"],
        "0 (10)",
        "--controls",
    ),
    "label misspelt": (
        people_are(lambda p: p),
        [*GROUP[:4], "--patients", "ADD"],
        "'ADD'",
        "did you mean 'AD'",
    ),
    "same label twice": (
        people_are(lambda p: p),
        [*GROUP[:4], "--patients", "CN"],
        "CN",
        "--controls",
    ),
    "three labels and no word": (
        people_are(lambda p: p.assign(diagnosis=["CN", "MCI", "AD", "AD"] * 10)),
        ["--group", "diagnosis"],
        "MCI (10)",
        "--controls",
    ),
    "group column misspelt": (
        people_are(lambda p: p),
        ["--group", "diagnos"],
        "'diagnos'",
        "diagnosis",
    ),
    "group column empty": (
        people_are(lambda p: p.assign(diagnosis=None)),
        ["--group", "diagnosis"],
        "diagnosis",
        "Fill",
    ),
    "covariate misspelt": (
        people_are(lambda p: p),
        ["--covariates", "agee"],
        "'agee'",
        "'age'",
    ),
    "site misspelt": (
        people_are(lambda p: p),
        ["--site", "scaner"],
        "'scaner'",
        "there is",
    ),
    "labels and no column": (
        people_are(lambda p: p.drop(columns="diagnosis")),
        ["--controls", "CN"],
        "labels",
        "--group",
    ),
    "text in a number column": (
        volumes_are(cell("47", "n. d.")),
        [],
        "'n. d.' for sub-003 in 47",
        "Correct these values",
    ),
    "thousands separators": (
        volumes_are(cell("47", "3,456.7")),
        [],
        "'3,456.7'",
        "thousands",
    ),
    "text in a covariate": (
        people_are(cell("age", "old")),
        ["--covariates", "age"],
        "'old' for sub-003",
        "Correct",
    ),
    "all-missing region": (
        volumes_are(lambda v: v.assign(**{"47": np.nan})),
        [],
        "MUSE_47",
        "--exclude MUSE_47",
    ),
    "missing cell": (
        volumes_are(cell("47", None)),
        STRICT,
        "sub-003",
        "--on-missing drop",
    ),
    "missing covariate": (
        people_are(cell("age", None)),
        ["--covariates", "age", *STRICT],
        "sub-003",
        "--on-missing drop",
    ),
    "missing group": (
        people_are(cell("diagnosis", None)),
        [*GROUP, *STRICT],
        "sub-003",
        "--on-missing drop",
    ),
    "people without participants": (
        people_are(lambda p: p.iloc[:-2]),
        STRICT,
        "sub-038, sub-039",
        "--on-missing drop",
    ),
    "participants of other people": (
        people_are(lambda p: p.assign(participant_id=[f"x{k}" for k in range(40)])),
        [],
        "x0",
        "Give the participants of these people",
    ),
    "negative volumes": (
        volumes_are(cell("47", -12.0)),
        [],
        "MUSE_47 of sub-003",
        "cannot be negative",
    ),
    "infinite volume": (volumes_are(cell("47", "inf")), [], "MUSE_47", "Correct"),
    "volumes of 0": (
        volumes_are(cell("47", 0)),
        [],
        "values of 0 in 1 region: MUSE_47 of sub-003",
        "--missing-codes 0",
    ),
    "an age of 0 among adults": (
        people_are(cell("age", 0)),
        ["--covariates", "age"],
        "covariate age cannot be: 0 for sub-003",
        "--missing-codes 0",
    ),
    "an ICV of 0 in the table of regions": (
        volumes_are(cell("702", 0)),
        ["--covariates", "icv"],
        "v.csv: covariate icv cannot be: 0 for sub-003",
        "--missing-codes 0",
    ),
    "an ICV of another unit": (
        volumes_are(cell("702", 1215.979)),
        ["--covariates", "icv"],
        "v.csv: covariate icv cannot be: 1215.98 for sub-003",
        "Correct these values.",
    ),
    "litres and mm3 mixed": (
        volumes_are(scaled(slice(0, 5), 1e-6)),
        [],
        "sub-000",
        "one unit",
    ),
    "ml and mm3 mixed": (
        volumes_are(scaled(slice(0, 5), 1e-3)),
        [],
        "sub-000",
        "one unit",
    ),
    "one region in ml": (
        volumes_are(lambda v: v.assign(**{"47": v["47"] / 1000})),
        [],
        "Hippocampus_R",
        "unit",
    ),
    "thickness instead of volume": (
        volumes_are(thickness),
        [],
        "thickness",
        "--measure thickness",
    ),
    "constant region": (
        volumes_are(lambda v: v.assign(**{"47": 3500.0})),
        GROUP,
        "MUSE_47",
        "--exclude MUSE_47",
    ),
    "unknown region excluded": (
        volumes_are(lambda v: v),
        ["--exclude", "4711"],
        "'4711'",
        "exclude",
    ),
    "no regions": (
        volumes_are(lambda v: v[["ID", "702"]]),
        [],
        "only one region",
        "one column of numbers a region",
    ),
    "no ids": (
        volumes_are(lambda v: v.rename(columns={"ID": "47.1"}).assign(**{"47.1": 1.0})),
        [],
        "ids",
        "--id",
    ),
    "same label on both sides": (
        people_are(lambda p: p),
        ["--group", "diagnosis", "--controls", "CN,AD", "--patients", "AD"],
        "AD",
        "--controls",
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_wrong_table_is_refused(name: str, tmp_path: Path) -> None:
    change, options, offender, cure = TABLES[name]
    volumes, people = change(muse_volumes(), participants_of(muse_volumes()))
    volumes.to_csv(tmp_path / "v.csv", index=False)
    people.to_csv(tmp_path / "p.tsv", sep="\t", index=False, na_rep="n/a")
    arguments = [
        "check",
        str(tmp_path / "v.csv"),
        "--participants",
        str(tmp_path / "p.tsv"),
        *options,
    ]
    assert_refused(arguments, offender, cure)


HEADER = b"ID,47,48,31,32\n"
ROWS = b"a,3000,3100,900,950\nb,3100,3000,950,900\n"
FILES: dict[str, tuple[bytes, str, str]] = {
    "empty file": (b"", "empty", "Export it again"),
    "blank lines only": (b"\n\r\n  \n", "empty", "Export it again"),
    "header only": (HEADER, "no people", "with its rows"),
    "one column": (b"ID\na\nb\n", "one column", "separated by"),
    "BOM and nothing": (b"\xef\xbb\xbf", "empty", "Export"),
    "two million columns": (
        b"ID," + b",".join(b"%d" % k for k in range(2_000_000)) + b"\n",
        "longer than",
        "transposed",
    ),
    "thirty thousand columns": (
        b"ID," + b",".join(b"c%d" % k for k in range(30_000)) + b"\na\n",
        "30,001",
        "transposed",
    ),
    "column twice": (b"ID,47,47\na,1,2\n", "47", "Rename or remove"),
    "row too long": (HEADER + b"a,1,2,3,4,5,6\n", "more values", "write.csv"),
    "second row too long": (
        HEADER + ROWS + b"c,1,2,3,4,5,6\n",
        "1 line has 7 values, the header 5 names: line 4",
        "write.csv",
    ),
    "row too short": (
        HEADER + b"a,1,2,3\n",
        "1 line has 4 values, the header 5 names: line 2",
        "an empty cell",
    ),
    "a cell lost in two rows": (
        HEADER + ROWS + b"c,3000,3100,900\n" + ROWS.upper() + b"d,3000,900,950\n",
        "2 lines have fewer values than the header names (5): line 4, 7",
        "an empty cell",
    ),
    "rows of blanks too short": (
        b"ID 47 48\na 1 2\nb 1\n",
        "1 line has 2 values, the header 3 names: line 3",
        "cell",
    ),
    "cut within a number": (
        HEADER + ROWS + b"c,3000,31",
        "1 line has 3 values",
        "it may be cut",
    ),
    "row names of R": (
        b"47 48 31 32 35\na 1 2 3 4 5\nb 1 2 3 4 5\n",
        "more values",
        "row.names",
    ),
    "Excel": (b"PK\x03\x04rest", "Excel", "Export it as CSV"),
    "gzip": (b"\x1f\x8b\x08rest", "gzip", "Export it as CSV"),
    "binary": (b"ID,a\x00b\nx,1\n", "binary", "Export"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_wrong_file_is_refused(name: str, tmp_path: Path) -> None:
    content, offender, cure = FILES[name]
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    assert_refused(["check", str(path)], offender, cure)


def test_participants_with_a_lost_cell_are_refused(tmp_path: Path) -> None:
    muse_volumes().to_csv(tmp_path / "v.csv", index=False)
    text = participants_of(muse_volumes()).to_csv(sep="\t", index=False).splitlines()
    text[5] = "\t".join(text[5].split("\t")[:-1])
    (tmp_path / "p.tsv").write_text("\n".join(text) + "\n")
    arguments = [
        "check",
        str(tmp_path / "v.csv"),
        "--participants",
        str(tmp_path / "p.tsv"),
    ]
    assert_refused(arguments, "p.tsv: 1 line has", "an empty cell")


def test_a_file_without_a_last_line_end_is_read_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text(
        muse_volumes().to_csv(index=False)[:-3]
    )  # the last number loses two digits
    result = CliRunner().invoke(app, ["check", str(tmp_path / "v.csv")])
    assert result.exit_code == 0, result.output
    assert (
        "note: v.csv: the last line has no line end. If the file was cut, the last cell is incomplete"
        in result.output
    )


def test_regions_of_text_are_named_where_groups_are_known(tmp_path: Path) -> None:
    volumes = muse_volumes()
    texts = volumes.astype(dict.fromkeys(volumes.columns[1:], object))
    texts.iloc[:, 1:] = [
        [f"{value:g},5" for value in row] for row in volumes.iloc[:, 1:].to_numpy()
    ]
    arguments = write_people(tmp_path, texts, participants_of(volumes))
    assert_refused(
        ["check", *arguments], "text where a number should be", "decimal point"
    )


def test_sexes_that_are_coded_in_two_ways_are_a_warning(tmp_path: Path) -> None:
    people = participants_of(muse_volumes())
    people["sex"] = ["MFMF12"[k % 6] for k in range(len(people))]
    done = CliRunner().invoke(
        app, ["check", *write_people(tmp_path, muse_volumes(), people)]
    )
    assert (
        "covariate sex has 4 common categories: 1, 2, F, M. Code it in one way."
        in done.output
    )


@pytest.mark.parametrize("value", [0.003, 1e-320])
def test_an_impossible_cell_of_few_regions_is_named(
    tmp_path: Path, value: float
) -> None:
    """With few regions, the others do not tell whether a cell is wrong; a hundred times
    off is wrong all the same.
    """
    volumes = (
        muse_volumes(60)
        .iloc[:, [0, *range(2, 10)]]
        .set_axis(["ID", *(f"roi {k}" for k in range(8))], axis=1)
    )
    volumes.loc[3, "roi 5"] = value
    done = CliRunner().invoke(
        app, ["check", *write_people(tmp_path, volumes, participants_of(volumes))]
    )
    named = "1 cell is a hundred times and more off the median of the region: roi 5 of sub-003. Correct or empty"
    assert named in done.output
    assert "divide by zero" not in done.output


def test_a_parquet_file_with_a_damaged_description_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    pd.DataFrame({"participant_id": ["a", "b"], "x": [1.0, 2.0]}).to_parquet(path)
    table = pq.read_table(path)
    described = {
        b"pandas": table.schema.metadata[b"pandas"].replace(
            b'"numpy_type"', b'"numpy_tyqe"'
        )
    }
    pq.write_table(table.replace_schema_metadata(described), path)
    assert_refused(["check", str(path)], "not a readable parquet", "Write it again")


def test_a_broken_parquet_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    path.write_bytes(b"not parquet")
    assert_refused(["check", str(path)], "not a readable parquet", "Write it again")


def test_the_same_hemisphere_twice_is_refused(tmp_path: Path) -> None:
    columns = {f"lh_{name}_volume": [2000.0, 2100.0] for name in "abcdef"}
    frame = pd.DataFrame({"lh.aparc.volume": ["x", "y"], **columns})
    frame.to_csv(tmp_path / "lh.tsv", sep="\t", index=False)
    assert_refused(
        ["check", *[str(tmp_path / "lh.tsv")] * 2], "lh_a_volume", "one lh and one rh"
    )


def test_a_folder_without_subjects_is_refused(tmp_path: Path) -> None:
    assert_refused(["check", str(tmp_path)], "no subject folder", "SUBJECTS_DIR")


def test_a_byte_order_mark_and_doubled_line_ends_are_read(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    text = muse_volumes().to_csv(index=False, lineterminator="\r\r\n")
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    result = CliRunner().invoke(app, ["check", str(path)])
    assert result.exit_code == 0, result.output
    assert "dlmuse" in result.output


def test_zeros_that_are_named_are_missing_and_a_sex_of_zero_is_not(
    tmp_path: Path,
) -> None:
    volumes = cell("47", 0)(muse_volumes())
    people = cell("age", 0)(participants_of(muse_volumes())).assign(sex=[0, 1] * 20)
    arguments = [
        "check",
        *write_people(tmp_path, volumes, people),
        "--covariates",
        "age,sex",
        "--missing-codes",
        "0",
    ]
    assert_refused(arguments, "1 person has no age: sub-003", "--on-missing drop")
    done = CliRunner().invoke(app, [*arguments, "--on-missing", "drop"])
    assert done.exit_code == 0, done.output
    assert "1 person has no age: sub-003; left out" in done.output
    assert "no sex" not in done.output


def test_lesions_may_be_zero_and_zeros_of_freesurfer_are_missing_with_a_note(
    tmp_path: Path,
) -> None:
    table = aseg().assign(**{"Left-WM-hypointensities": np.arange(30) // 15 * 12.5})
    table.loc[4, "Left-Thalamus"] = 0.0
    path = write_table(table, tmp_path / "aseg.txt", "\t")
    done = CliRunner().invoke(
        app,
        [
            "check",
            str(path),
            "--include",
            "Left-WM-hypointensities",
            "--covariates",
            "none",
        ],
    )
    assert done.exit_code == 0, done.output
    assert (
        "1 cell of 0 in 1 region is missing: FreeSurfer writes 0 for what it did not find: sub-04."
        in done.output
    )
    assert "1 person has a missing region" in done.output
    generic = table.rename(
        columns={name: f"roi {k}" for k, name in enumerate(table.columns[1:7])}
    )
    path = write_table(
        generic.drop(columns="Left-Lateral-Ventricle"), tmp_path / "table.txt", "\t"
    )
    options = [
        "--include",
        "Left-WM-hypointensities",
        "--covariates",
        "none",
        "--missing-codes",
        "0",
    ]
    assert_refused(
        ["check", str(path), *options[:4]],
        "values of 0 in 1 region: roi 0 of sub-04",
        "--missing-codes 0",
    )
    assert CliRunner().invoke(app, ["check", str(path), *options]).exit_code == 0


@pytest.mark.parametrize(
    "columns", [["702", "47", "48", "31", "32", "51"], ["702", "47", "48"]]
)
def test_muse_codes_mean_the_same_in_a_small_table(
    columns: list[str], tmp_path: Path
) -> None:
    path = write_table(muse_volumes()[["ID", *columns]], tmp_path / "v.csv")
    result = json.loads(CliRunner().invoke(app, ["check", str(path), "--json"]).stdout)
    assert (result["format"], result["icv"]) == ("dlmuse", "702")
    assert set(result["region_names"]) == {
        f"MUSE_{code}" for code in columns[1:] if code != "51"
    }  # 51: a ventricle


def test_all_problems_are_printed_at_once(tmp_path: Path) -> None:
    volumes = cell("47", "bad")(muse_volumes()).assign(**{"48": np.nan})
    people = cell("age", "old")(participants_of(muse_volumes()))
    volumes.to_csv(tmp_path / "v.csv", index=False)
    people.to_csv(tmp_path / "p.csv", index=False)
    options = [
        "--participants",
        str(tmp_path / "p.csv"),
        "--covariates",
        "age,weight",
        "--group",
        "dx",
    ]
    output = assert_refused(
        ["check", str(tmp_path / "v.csv"), *options], "'bad'", "Correct"
    )
    for offender in ("MUSE_48", "'old'", "'weight'", "'dx'"):
        assert offender in output


def assert_refused(arguments: list[str], offender: str, cure: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    errors = [line for line in result.output.splitlines() if line.startswith("error:")]
    assert any(offender in line for line in errors), result.output
    assert any(cure in line for line in errors), result.output
    assert "Traceback" not in result.output
    return result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--on-missing", "dorp"], "'dorp' is not known: did you mean 'drop'?"),
        (["--measure", "volum"], "'volum' is not known: did you mean 'volume'?"),
    ],
)
def test_an_unknown_value_of_an_option_is_wrong_usage(
    tmp_path: Path, options: list[str], message: str
) -> None:
    muse_volumes().to_csv(tmp_path / "v.csv", index=False)
    result = CliRunner().invoke(
        app, ["check", str(tmp_path / "v.csv"), *options], env={"COLUMNS": "200"}
    )
    assert result.exit_code == 2
    assert message in result.output


def test_json_has_the_documented_keys(tmp_path: Path) -> None:
    assert (
        CliRunner()
        .invoke(app, ["simulate", "--task", "tiny", "--out", str(tmp_path)])
        .exit_code
        == 0
    )
    paths = [
        str(tmp_path / "volumes.csv"),
        "--participants",
        str(tmp_path / "participants.tsv"),
    ]
    value = json.loads(CliRunner().invoke(app, ["check", *paths, "--json"]).stdout)
    assert {
        "format",
        "people",
        "controls",
        "patients",
        "regions",
        "covariates",
        "unused",
        "problems",
    } <= set(value)
    assert (value["format"], value["people"], value["controls"], value["patients"]) == (
        "dlmuse",
        180,
        80,
        100,
    )
    assert {"severity", "what", "where", "cure", "code", "offenders", "block"} <= set(
        value["problems"][0]
    )


def test_json_names_unused_columns_with_the_reason(tmp_path: Path) -> None:
    people = muse_volumes().assign(tau=1.0, Genotype="e3")
    people.to_csv(tmp_path / "v.csv", index=False)
    done = CliRunner().invoke(app, ["check", str(tmp_path / "v.csv"), "--json"])
    unused = {
        each["column"]: each["reason"] for each in json.loads(done.stdout)["unused"]
    }
    assert {"tau", "Genotype"} <= set(unused)
    assert all(unused.values())


def test_json_of_a_broken_file_is_json_too(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("")
    done = CliRunner().invoke(app, ["check", str(tmp_path / "t.csv"), "--json"])
    assert done.exit_code == 1
    assert json.loads(done.stdout)["problems"][0]["what"] == "the file is empty"


def test_json_names_the_offenders_as_data(tmp_path: Path) -> None:
    cell("47", None)(muse_volumes()).to_csv(tmp_path / "v.csv", index=False)
    done = CliRunner().invoke(app, ["check", str(tmp_path / "v.csv"), "--json"])
    problem = next(
        problem
        for problem in json.loads(done.stdout)["problems"]
        if problem["code"] == "missing_values"
    )
    assert (problem["offenders"], problem["offender_kind"]) == (
        ["sub-003"],
        "participant",
    )
    assert "sub-003" in problem["what"]
    assert "sub-003" not in problem["summary"]


@pytest.mark.parametrize(("side", "word"), [("lh", "left"), ("rh", "right")])
def test_a_single_hemisphere_is_answered_with_both_tables(
    tmp_path: Path, side: str, word: str
) -> None:
    path = write_table(aparc(side), tmp_path / f"{side}.txt", "\t")
    output = CliRunner().invoke(app, ["check", str(path)]).output
    assert (
        f"only the {word} hemisphere is here. Give both tables: TABLE_lh TABLE_rh side by side."
        in output
    )


def write_mixed_table(folder: Path) -> list[str]:
    """Write volumes with ventricles and thickness of the same people, and return the
    arguments of check.
    """
    volumes = aseg().assign(**{"4th-Ventricle": np.linspace(1000, 2000, 30)})
    write_table(volumes, folder / "aseg.txt", "\t")
    write_table(
        aparc("lh", measure="thickness").drop(columns="eTIV"), folder / "lh.txt", "\t"
    )
    return ["check", str(folder / "aseg.txt"), str(folder / "lh.txt")]


def test_ventricles_are_named_and_can_be_included(tmp_path: Path) -> None:
    arguments = write_mixed_table(tmp_path)
    without = CliRunner().invoke(app, arguments)
    assert "2 of ventricles or fluid" in without.output
    assert "--include ventricles" in without.output
    included = json.loads(
        CliRunner()
        .invoke(app, [*arguments, "--include", "ventricles", "--json"])
        .stdout
    )
    assert {"Left-Lateral-Ventricle", "4th-Ventricle"} <= set(included["region_names"])


def test_a_measure_filters_the_columns_and_has_its_unit(tmp_path: Path) -> None:
    arguments = write_mixed_table(tmp_path)
    both = CliRunner().invoke(app, arguments).output
    assert "12, 6 of volume (mm3), 6 of thickness (mm)" in both
    assert "For one kind alone: --measure volume" in both
    assert "(ml)" not in both
    thickness = json.loads(
        CliRunner().invoke(app, [*arguments, "--measure", "thickness", "--json"]).stdout
    )
    assert (thickness["regions"], thickness["unit"], thickness["measures"]) == (
        6,
        "mm",
        {"thickness": 6},
    )


def test_the_id_column_of_the_participants_is_found_or_named(tmp_path: Path) -> None:
    write_table(muse_volumes(), tmp_path / "v.csv")
    people = participants_of(muse_volumes()).rename(columns={"participant_id": "FILE"})
    nobody = people.head(3).assign(FILE="no_filename")
    people = pd.concat([people, nobody]).assign(
        SUB_ID=lambda frame: np.arange(len(frame)) + 50_000
    )
    write_table(people, tmp_path / "p.csv")
    arguments = [
        "check",
        str(tmp_path / "v.csv"),
        "--participants",
        str(tmp_path / "p.csv"),
        *GROUP,
    ]
    detected = CliRunner().invoke(app, arguments)
    assert detected.exit_code == 0, detected.output
    assert "column 'FILE' holds the ids of the table of regions" in detected.output
    assert (
        "3 rows have duplicate IDs of nobody in the table of regions: no_filename"
        in detected.output
    )
    named = CliRunner().invoke(app, [*arguments, "--participants-id", "FILE"])
    assert named.exit_code == 0, named.output
    assert "holds the ids" not in named.output
    assert_refused(
        [*arguments, "--participants-id", "FILES"],
        "'FILES' for --participants-id",
        "'FILE'",
    )


def write_people(
    folder: Path, volumes: pd.DataFrame, people: pd.DataFrame
) -> list[str]:
    write_table(volumes, folder / "v.csv")
    write_table(people, folder / "p.csv")
    return [str(folder / "v.csv"), "--participants", str(folder / "p.csv"), *GROUP]


def three_regions(volumes: pd.DataFrame) -> pd.DataFrame:
    return volumes[["ID", "47", "48", "31"]].set_axis(
        ["ID", "roi a", "roi b", "roi c"], axis=1
    )


NOT_READY: dict[str, tuple[Change, list[str], str]] = {
    "missing covariate": (
        people_are(cell("age", None)),
        ["--covariates", "age"],
        "sub-003",
    ),
    "site without controls": (
        people_are(lambda p: p.assign(site=["A"] * 39 + ["B"])),
        ["--site", "site"],
        "no control was measured at B",
    ),
    "category that no control has": (
        people_are(lambda p: p.assign(sex=["F", "M"] * 20)),
        ["--covariates", "sex"],
        "sex has M, which no control has",
    ),
    "too few regions": (
        volumes_are(three_regions),
        ["--patterns", "4"],
        "4 patterns need",
    ),
    "too few controls": (
        volumes_are(lambda v: v.drop(index=range(4, 40, 2))),
        ["--covariates", "age,sex,icv"],
        "too few controls (2)",
    ),
}


@pytest.mark.parametrize("name", NOT_READY)
def test_a_table_that_stops_fit_is_not_called_ready(name: str, tmp_path: Path) -> None:
    change, options, offender = NOT_READY[name]
    arguments = write_people(
        tmp_path, *change(muse_volumes(), participants_of(muse_volumes()))
    )
    done = CliRunner().invoke(app, ["check", *arguments, *options])
    assert done.exit_code == 1, done.output
    assert "not ready" in done.output
    assert any(
        offender in line
        for line in done.output.splitlines()
        if line.startswith("error:")
    ), done.output
    fit_options = [
        "--method",
        "contrastive",
        "--members",
        "2",
        "--no-report",
        "--out",
        str(tmp_path / "out"),
    ]
    fitted = CliRunner().invoke(app, ["fit", *arguments, *options, *fit_options])
    assert isinstance(fitted.exception, RindicesError)
    assert offender in str(fitted.exception)


def test_missing_cells_are_ready_once_people_may_be_left_out(tmp_path: Path) -> None:
    arguments = write_people(
        tmp_path, cell("47", None)(muse_volumes()), participants_of(muse_volumes())
    )
    done = CliRunner().invoke(
        app, ["check", *arguments, "--on-missing", "drop", "--json"]
    )
    assert json.loads(done.stdout)["ready"] is True


def test_missing_cells_are_checked_as_the_study_file_says(tmp_path: Path) -> None:
    write_people(
        tmp_path, cell("47", None)(muse_volumes()), participants_of(muse_volumes())
    )
    data = '[data]\nvolumes = "v.csv"\nparticipants = "p.csv"\ngroup = "diagnosis"\ncontrols = ["CN"]\n'
    for policy, is_ready in (("error", False), ("model", True)):
        (tmp_path / "study.toml").write_text(f'{data}on_missing = "{policy}"\n')
        done = CliRunner().invoke(
            app, ["check", str(tmp_path / "study.toml"), "--json"]
        )
        assert json.loads(done.stdout)["ready"] is is_ready, done.output


def test_without_groups_a_table_is_not_called_ready(tmp_path: Path) -> None:
    write_table(muse_volumes(), tmp_path / "v.csv")
    done = CliRunner().invoke(app, ["check", str(tmp_path / "v.csv")])
    assert done.exit_code == 0
    assert "no errors; to fit, name the groups: --group COLUMN" in done.output


def test_the_sessions_that_fit_uses_are_named(tmp_path: Path) -> None:
    volumes = muse_volumes()
    scans = pd.concat(
        [volumes.assign(visit=1), muse_volumes(seed=1).head(10).assign(visit=2)]
    )
    arguments = write_people(tmp_path, scans, participants_of(volumes))
    note = "patterns are learnt from 50 scans of 40 people"
    done = CliRunner().invoke(app, ["check", *arguments, "--json"])
    value = json.loads(done.stdout)
    assert (value["people"], value["controls"], value["patients"]) == (40, 20, 20)
    assert note in [problem["what"] for problem in value["problems"]]
    dry = CliRunner().invoke(
        app,
        ["fit", *arguments, "--method", "contrastive", "--dry-run", "--out", "never"],
    )
    assert note in dry.output
    first = CliRunner().invoke(
        app, ["fit", *arguments, "--visits", "first", "--dry-run", "--out", "never"]
    )
    note = "40 people have 50 scans; fit uses the first session of each person: 1 (40 people); 10 rows are left out"
    assert note in first.output


def test_a_study_file_is_checked_as_it_is_fitted(tmp_path: Path) -> None:
    write_people(tmp_path, muse_volumes(), participants_of(muse_volumes()))
    data = '[data]\nvolumes = "v.csv"\nparticipants = "p.csv"\ngroup = "diagnosis"\ncontrols = "CN"\npatients = "AD"\n'
    (tmp_path / "study.toml").write_text(f"{data}[model]\npatterns = [30]\n")
    assert_refused(
        ["check", str(tmp_path / "study.toml")], "30 patterns need", "fewer patterns"
    )
    done = CliRunner().invoke(
        app, ["check", str(tmp_path / "study.toml"), "--patterns", "2", "--json"]
    )
    assert json.loads(done.stdout)["ready"] is True
