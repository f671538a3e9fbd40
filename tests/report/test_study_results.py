"""Results of a study are read from its folder; what is no finished study is refused."""

import json
import shutil
from pathlib import Path

import pytest

from rindices.analysis.study_results import read_null_results, read_study_results
from rindices.errors import StudyError

UNSTABLE = {
    "setting": {"n_patterns": 2, "orthogonality": None},
    "agreement": {"concordance": None, "dimension": None, "difference": None},
    "stable": False,
}
TEST = {
    "n_patterns": 0,
    "level": 0.05,
    "overlap": 0.9,
    "curve": [
        {
            "patterns": 0,
            "excess": 4.0,
            "chance_median": 4.0,
            "chance_95": 5.0,
            "p": 0.8,
            "relabellings": 19,
        }
    ],
}
NUMBER = {"by_agreement": None, "by_test": 0, "forced": None, "why": "", "test": TEST}
DIFFERENCE = {
    "p": 0.8,
    "permutations": 19,
    "statistics": {},
    "p_values": {},
    "smallest_effect": 0.4,
}
COHORT = {
    "source": "t",
    "unit": "mm3",
    "people": 3,
    "controls": 1,
    "patients": 2,
    "regions": 4,
}


@pytest.fixture
def copied(study: Path, tmp_path: Path) -> Path:
    return Path(
        shutil.copytree(
            study,
            tmp_path / "copy",
            ignore=shutil.ignore_patterns("runs", "report.html"),
        )
    )


def write_null_study(folder: Path, **changes: object) -> None:
    selection = {
        "chosen": None,
        "grid": [],
        "number_of_patterns": NUMBER,
        "finding": "no_difference",
    } | changes
    (folder / "selection.json").write_text(
        json.dumps(selection | {"difference": DIFFERENCE})
    )
    (folder / "cohort.json").write_text(json.dumps(COHORT))
    (folder / "effects.tsv").write_text("region\td\tlow\thigh\tp\tq\n")


def test_the_strongest_regions_come_first(study: Path) -> None:
    results = read_study_results(study)
    for name in results.names:
        top = results.list_top_regions(name, 5)
        changes = list(top["change"].abs())
        assert changes == sorted(changes, reverse=True)
        effects = results.get_effects(name)
        assert set(effects) == set(results.model.regions)
        assert max(map(abs, effects.values())) == changes[0]
    assert "participant_id" not in results.indices


def test_damaged_files_are_named(copied: Path) -> None:
    text = (copied / "selection.json").read_text()
    for content, words in (
        (text[:50], "cannot be read"),
        ("[]", "no object"),
        (json.dumps(json.loads(text) | {"chosen": None}), "chosen"),
        ('{"chosen": null}', "number_of_patterns: field required"),
    ):
        (copied / "selection.json").write_text(content)
        with pytest.raises(
            StudyError, match=rf"selection\.json.*{words}.*fit the study again"
        ):
            read_study_results(copied)
    (copied / "selection.json").write_text(text)
    (copied / "associations.tsv").write_text("index\tvariable\nr1\tage\n")
    with pytest.raises(StudyError, match=r"associations\.tsv lacks n, correlation"):
        read_study_results(copied)
    (copied / "r_indices.tsv").write_text("participant_id\nsub-1\n")
    with pytest.raises(StudyError, match=r"r_indices\.tsv lacks group"):
        read_study_results(copied)


def test_a_study_without_a_pattern(tmp_path: Path, study: Path) -> None:
    write_null_study(tmp_path)
    results = read_null_results(tmp_path)
    assert results is not None
    assert (
        results.cohort.patients,
        results.selection.number_of_patterns.test.curve[0].p,
        results.selection.made_with,
    ) == (2, 0.8, None)
    assert read_null_results(study) is None


def test_settings_that_were_asked_for_and_failed_are_kept(tmp_path: Path) -> None:
    write_null_study(tmp_path, grid=[UNSTABLE])
    results = read_null_results(tmp_path)
    assert results is not None
    assert [
        each.setting.n_patterns for each in results.selection.unstable_candidates
    ] == [2]
