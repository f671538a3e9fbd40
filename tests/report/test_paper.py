"""What a paper needs of a study: figures, captions, Table 1 and methods."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

from rindices.cli.main import app
from rindices.errors import InputError
from rindices.model.records import CohortRecord
from rindices.plot import style
from rindices.plot.files import get_figure
from rindices.plot.source import StudySource
from rindices.report import paper
from rindices.tables.cohort import describe_cohort
from tests.plot.boxes import list_faults


@pytest.mark.parametrize("width", [style.COLUMN_MM, style.PAGE_MM])
def test_texts_of_the_set_can_be_read(study: Path, width: float) -> None:
    source = StudySource.of(study)
    for figure in paper.FIGURES:
        if figure.can_draw(source):
            with style.make_hidden_figures(width):
                drawn = get_figure(figure.draw(source, False))
                assert list_faults(drawn) == [], figure.name
            assert drawn.get_figwidth() == pytest.approx(width / 25.4)
            n_bars = sum(each.get_label() == "<colorbar>" for each in drawn.axes)
            assert n_bars <= 1


def test_command_writes_the_set(study: Path) -> None:
    arguments = ["figures", str(study), "--format", "svg", "--width", "85mm", "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    files = json.loads(result.stdout)["files"]
    maps = [name for name in files if name.startswith("maps/")]
    assert "maps/r1_space-MNI152.nii.gz" in maps
    files = [name for name in files if name not in maps]
    assert files[-3:] == ["captions.md", "table1.csv", "methods.md"]
    folder = study / "figures"
    captions = (folder / "captions.md").read_text("utf-8")
    for name in files[:-3]:
        assert f"(`{name.removesuffix('.svg')}`)" in captions
    svg = (folder / "forest.svg").read_text("utf-8")
    assert "hippocampus" in svg
    assert "240.94" in svg[:1000]  # 85 mm in points
    methods = (folder / "methods.md").read_text("utf-8")
    assert "@inproceedings{yang2022surrealgan" in methods
    assert re.search(r"Versions: rindices \S+, numpy \d", methods)
    assert "<" not in methods.partition("```")[0].replace("< 0", "")


@pytest.mark.parametrize(
    ("option", "value"), [("--width", "20mm"), ("--width", "wide"), ("--format", "gif")]
)
def test_wrong_options_name_right_ones(study: Path, option: str, value: str) -> None:
    result = CliRunner().invoke(app, ["figures", str(study), option, value])
    assert result.exit_code == 2
    assert "write" in result.stderr


def test_unknown_format_is_refused(study: Path) -> None:
    with pytest.raises(InputError, match="give pdf, svg or png"):
        paper.write_figures(study, ["gif"])


def test_table_1_has_the_tests_of_the_people(small_cohort) -> None:
    cohort = small_cohort.cohort
    table = paper.make_table_1(CohortRecord.of(describe_cohort(cohort), []))
    age = cohort.covariates["age"]
    groups = age[cohort.is_patient], age[cohort.is_control]
    row = table[table["variable"] == "age, mean (SD)"].iloc[0]
    p = stats.ttest_ind(*groups, equal_var=False).pvalue
    assert float(row["p"]) == pytest.approx(p, abs=6e-3)
    spread = np.sqrt((groups[0].var() + groups[1].var()) / 2)
    expected = (groups[0].mean() - groups[1].mean()) / spread
    assert float(row["standardised_difference"]) == pytest.approx(expected, abs=6e-3)
    sex = table[table["variable"] == "sex, n (%)"]
    counts = pd.crosstab(cohort.is_patient, cohort.covariates["sex"])
    p = stats.chi2_contingency(counts, correction=False).pvalue
    assert float(sex.iloc[0]["p"]) == pytest.approx(p, abs=6e-3)
    assert list(sex["controls"].str.split(" ").str[0].astype(int)) == list(
        counts.loc[False]
    )


def test_few_people_are_compared_by_fishers_test() -> None:
    rows = paper._compare_counts("sex", {"F": 1, "M": 9}, {"F": 8, "M": 3})
    assert rows[0]["test"] == "Fisher"
    p = stats.fisher_exact([[1, 9], [8, 3]]).pvalue
    assert float(rows[0]["p"]) == pytest.approx(p, abs=6e-4)
