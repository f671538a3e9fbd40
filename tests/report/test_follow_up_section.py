"""Change and outcomes in the report."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

import rindices as ri
from rindices.analysis.study_results import read_section
from rindices.errors import StudyError
from rindices.report.formatting import format_if_measured

RETEST = {
    "index": ["r1", "r2"],
    "people": [40, 40],
    "correlation": [0.91, 0.4],
    "smallest_change": [0.123, None],
}
_PER_YEAR = {"controls": 0.01, "patients": 0.06, "difference": 0.05}
GROUPS = {"index": ["r1"], "model": ["mixed model"], "p": [0.001], "q": [0.001]} | {
    f"{name}{year}{end}": [value + 0.01 * shift]
    for name, value in _PER_YEAR.items()
    for year in ("" if name == "difference" else "_per_year",)
    for end, shift in (("", 0), ("_low", -1), ("_high", 1))
}
EFFECTS = {
    "index": ["r1", "r2"],
    "model": ["single", "single"],
    "regression": ["cox", "cox"],
    "n": [200, 200],
    "events": [50, 50],
    "ratio": [2.5, 1.01],
    "low": [1.8, 0.9],
    "high": [3.4, 1.2],
    "q": [0.0001, 0.8],
}


def write_table(values: dict[str, list[object]], path: Path) -> None:
    pd.DataFrame(values).to_csv(path, sep="\t", index=False, na_rep="n/a")


def test_there_are_no_sections_without_tables(tmp_path: Path) -> None:
    assert read_section(tmp_path, "change", "change_groups.png") is None
    assert read_section(tmp_path, "predict", "outcome.png") is None


@pytest.mark.usefixtures("no_pictures")
def test_tables_in_the_folder_are_shown(study: Path, tmp_path: Path) -> None:
    folder = tmp_path / "with"
    shutil.copytree(study, folder, ignore=shutil.ignore_patterns("runs"))
    write_table(RETEST, folder / "change_retest.tsv")
    write_table(EFFECTS, folder / "outcome_effects.tsv")
    write_table(GROUPS, folder / "change_groups.tsv")
    (folder / "change.png").write_bytes(b"people")
    (folder / "change_groups.png").write_bytes(b"people")
    (folder / "outcome.png").write_bytes(b"\x89PNG")
    text = ri.write_report(folder).read_text("utf-8")
    change, outcome = (
        text.partition(f'id="{name}"')[2].partition("</section>")[0]
        for name in ("change", "outcome")
    )
    assert 'aria-label="Mean change per year, r1: controls 0.010, patients 0.060' in (
        change
    )
    assert "data:image/png" not in change  # it may show visits of single people
    assert "<td>0.91</td><td>0.123</td>" in change
    assert "<td>0.40</td><td>n/a</td>" in change
    assert "Size of a trial" not in change
    assert "Hazard ratios (Cox regression)" in outcome
    assert "of 200 people with 50 events" in outcome
    assert outcome.count('<tr class="sure">') == 1
    assert "2.50 <small>(1.80 to 3.40)</small></td><td>&lt; 0.001</td>" in outcome
    assert 'src="data:image/png;base64,iVBORw=="' in outcome
    assert '<a href="#change">' in text
    assert '<a href="#outcome">' in text


def test_a_table_of_another_program_is_refused(tmp_path: Path) -> None:
    write_table({"index": ["r1"]}, tmp_path / "change_trial.tsv")
    with pytest.raises(
        StudyError,
        match=r"change_trial\.tsv lacks group, .*write it again \(rindices change\)",
    ):
        read_section(tmp_path, "change", "change_groups.png")


def test_missing_numbers_are_named() -> None:
    assert format_if_measured(float("nan")) == "n/a"
    assert format_if_measured(0.0001, "p_value") == "< 0.001"
    assert format_if_measured(0.5, "signed", 1) == "+0.5"
