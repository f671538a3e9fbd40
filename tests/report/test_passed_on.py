"""A report may be passed on: nothing in it names a participant, a site, a group label
or a path.
"""

import base64
import io
import json
import re
import stat
import subprocess
import zlib
from html import unescape
from itertools import combinations
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from rindices.experiments.simulate import write_cohort
from rindices.experiments.tasks import TASKS
from rindices.plot import geometry
from tests.cohorts import simulate_few_regions
from tests.report.helpers import (
    Page,
    read_figure_data,
    remove_random_data,
)
from tests.study.helpers import run

MARKERS = {"id": "Qperson", "path": "Qpath", "site": "Qsite", "label": "Qlabel"}


def run_command(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command that writes a report, without the brain pictures, which
    take time.
    """
    with mock.patch.object(geometry, "list_missing_packages", return_value=["nilearn"]):
        return run(*arguments, report=True)


def write_tables(folder: Path, task: str) -> list[object]:
    """Write a study with a marker in every id, path, site and label, and with many
    reasons for warnings.
    """
    write_cohort(simulate_few_regions(TASKS[task], seed=1), folder)
    volumes = pd.read_csv(folder / "volumes.csv")
    people = pd.read_csv(folder / "participants.tsv", sep="\t")
    names = [f"{MARKERS['id']}{number:03d}" for number in range(len(people))]
    volumes[volumes.columns[0]] = names
    volumes.loc[7, volumes.columns[4:6]] *= 40  # far from everyone else
    volumes.loc[8, volumes.columns[5]] *= 200.0
    volumes.loc[11, volumes.columns[6]] = np.nan  # dropped
    people["participant_id"] = [
        f"{name}_T1w" for name in names
    ]  # matched, though spelt differently
    people["group"] = people["group"].map(
        {"control": f"{MARKERS['label']} c", "patient": f"{MARKERS['label']} p"}
    )
    people["site"] = [
        f"{MARKERS['site']}{'BAAAaAAAA'[number % 9]}" for number in range(len(people))
    ]  # A and a, too
    people.loc[9, "age"] = 97.0
    people = people.drop(index=15)  # nobody knows them
    volumes.to_csv(folder / f"{MARKERS['path']}.csv", index=False)
    people.to_csv(folder / f"{MARKERS['path']}.tsv", sep="\t", index=False)
    groups = [
        "--group",
        "group",
        "--controls",
        f"{MARKERS['label']} c",
        "--patients",
        f"{MARKERS['label']} p",
    ]
    model = [
        "--method",
        "contrastive",
        "--members",
        4,
        "--workers",
        1,
        "--on-missing",
        "drop",
        "--site",
        "site",
    ]
    table = [
        folder / f"{MARKERS['path']}.csv",
        "--participants",
        folder / f"{MARKERS['path']}.tsv",
    ]
    return [*table, "--covariates", "age,sex,icv", *groups, *model]


def list_texts(page: str) -> list[str]:
    """Return a page as it is and as it is read, and all its data links."""
    links = re.findall(r'data:[\w/+.-]*;base64,([^"\')\s]+)', page)
    decoded = [
        base64.b64decode(unescape(link)).decode("utf-8", errors="replace")
        for link in links
    ]
    packed = [
        zlib.decompress(base64.b64decode(text))
        for text in re.findall(r'"bytes": ?"([^"]+)"', page)
    ]
    return [
        page,
        unescape(page),
        *decoded,
        *(content.decode("utf-8", errors="replace") for content in packed),
    ]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study whose names are all marked."""
    folder = tmp_path_factory.mktemp(MARKERS["path"])
    out = folder / f"{MARKERS['path']}_out"
    done = run_command(
        "fit", *write_tables(folder, "tiny"), "--patterns", 2, "--out", out
    )
    assert done.returncode == 0, done.stderr
    for marker in ("id", "site"):  # the user sees who is concerned
        assert MARKERS[marker] in done.stderr
    return out


def test_nothing_on_the_page_names_anyone_or_any_place(study: Path) -> None:
    page = (study / "report.html").read_text("utf-8")
    texts = list_texts(page)
    assert len(texts) > 8
    for marker in MARKERS.values():
        assert not [
            text[max(0, text.find(marker) - 80) :][:200]
            for text in texts
            if marker.lower() in text.lower()
        ]
    assert (
        "sites whose effect was estimated" in unescape(page).lower()
    )  # the warnings stay
    assert (
        "categories of the site look like the same ones spelt twice"
        in unescape(page).lower()
    )
    assert "outside the controls" in unescape(page)


def test_nothing_on_the_page_of_a_study_without_a_pattern_does(tmp_path: Path) -> None:
    folder = tmp_path / MARKERS["path"]
    folder.mkdir()
    arguments = [
        *write_tables(folder, "null"),
        "--patterns",
        "2,3",
        "--out",
        folder / "out",
    ]
    done = run_command("fit", *arguments)
    assert done.returncode == 0, done.stderr
    page = (folder / "out" / "report.html").read_text("utf-8")
    assert "No difference detected in" in page
    for marker in MARKERS.values():
        assert not [text for text in list_texts(page) if marker.lower() in text.lower()]


def test_the_order_of_the_rows_is_random_and_everything_else_stays(study: Path) -> None:
    pages = []
    for _ in range(2):
        done = run_command("report", study, "--show-people", "--json")
        assert done.returncode == 0, done.stderr
        size = (study / "report.html").stat().st_size
        assert json.loads(done.stdout) == {
            "report": str(study / "report.html"),
            "bytes": size,
        }
        pages.append((study / "report.html").read_text("utf-8"))
    tables = [read_figure_data(Page(page), "r_indices") for page in pages]
    indices = pd.read_csv(study / "r_indices.tsv", sep="\t")[list(tables[0])].round(4)
    columns = list(indices.columns)
    for table in tables:
        assert not table.equals(indices)
        sorted_tables = [
            frame.sort_values(columns).reset_index(drop=True)
            for frame in (table, indices)
        ]
        pd.testing.assert_frame_equal(*sorted_tables, check_dtype=False)
        assert (
            abs(np.corrcoef(rank_rows(table, indices), np.arange(len(table)))[0, 1])
            < 0.4
        )
    assert not tables[0].equals(tables[1])
    assert len({remove_random_data(page) for page in pages}) == 1


def rank_rows(table: pd.DataFrame, indices: pd.DataFrame) -> list[int]:
    """Return the place of each row of a table in the file that is sorted by id."""
    places = {
        tuple(row): place for place, row in enumerate(indices.itertuples(index=False))
    }
    return [places[tuple(row)] for row in table.itertuples(index=False)]


def test_links_are_decoded_by_this_test() -> None:
    link = base64.b64encode(b"id\nQperson1\n").decode()
    assert "Qperson1" in list_texts(f'<a href="data:text/csv;base64,{link}">')[2]


def count_rows_of_people(page: str, indices: pd.DataFrame) -> tuple[int, int]:
    """Return how many rows of tables on a page are R-indices of a person, and how many
    marks its charts have, but for that of sites, which has a mark for each region.
    """
    names = [name for name in indices if re.fullmatch(r"r\d", name)]
    people = {
        pair: {tuple(row) for row in indices[list(pair)].round(3).to_numpy()}
        for pair in combinations(names, 2)
    }
    found = 0
    for link in re.findall(r'href="data:text/csv;base64,([^"]+)"', page):
        table = pd.read_csv(io.BytesIO(base64.b64decode(unescape(link))))
        for pair, rows in people.items():
            if set(pair) <= set(table):
                shown = table[list(pair)].round(3).to_numpy()
                found += sum(tuple(row) in rows for row in shown)
    charts = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    of_people = [chart for chart in charts if "regions, as used" not in chart]
    return found, max(chart.count("<use ") for chart in of_people)


def test_single_people_are_on_the_page_only_where_asked_for(study: Path) -> None:
    indices = pd.read_csv(study / "r_indices.tsv", sep="\t")
    assert run_command("report", study).returncode == 0
    page = (study / "report.html").read_text("utf-8")
    rows, marks = count_rows_of_people(page, indices)
    assert rows == 0
    assert marks < len(indices) / 3  # five people a mark, and ticks and a legend
    assert 'download="r_indices.csv"' not in page
    assert "<code>r_indices.tsv</code>" in page
    done = run_command("report", study, "--show-people")
    assert done.returncode == 0, done.stderr
    path = study / "report.html"
    rows, marks = count_rows_of_people(path.read_text("utf-8"), indices)
    assert rows > len(indices)  # in the table and in dots; some round differently
    assert marks >= len(indices)
    assert stat.S_IMODE(path.stat().st_mode) & stat.S_IRWXO == 0
    assert run_command("report", study).returncode == 0  # as it was
