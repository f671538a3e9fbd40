"""What a study says about the number of patterns and about each of them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rindices as ri
from rindices.experiments.simulate import write_cohort
from rindices.experiments.trust_cohorts import NULL_COHORTS, simulate_null_cohort
from rindices.learners.pattern_stability import PatternStability
from rindices.selection.dimensions import DimensionEstimate, DimensionTest
from rindices.study import evidence
from rindices.study.evidence import (
    collect_study_warnings,
    count_cohort_dimensions,
    explain_disagreement,
    is_null_result,
    log_transform_volumes,
    make_number_record,
    make_pattern_records,
)
from rindices.study.outputs import OUTPUT_FILES
from tests.study.helpers import run


def test_the_true_number_is_found_whatever_the_unit() -> None:
    cohort = ri.simulate_cohort("basic", seed=0).cohort
    found = count_cohort_dimensions(cohort)
    assert found.number == 3
    assert found.overlap > 0.95
    litres = replace(cohort, volumes=cohort.volumes / 1e6)
    again = count_cohort_dimensions(litres)
    np.testing.assert_allclose(
        [q.excess for q in again.dimension_tests], [q.excess for q in found.dimension_tests], rtol=1e-6
    )


def test_groups_of_different_sites_cannot_be_compared() -> None:
    cohort = ri.simulate_cohort("tiny", seed=0).cohort
    site = np.where(cohort.is_patient, "hospital", "school").astype(object)
    found = count_cohort_dimensions(replace(cohort, people=cohort.people.assign(site=site)))
    assert found.overlap == 0.0
    assert found.number == 0
    assert not is_null_result(found)  # no ground to say that there is none
    assert "can hardly compare" in str(collect_study_warnings(make_number_record(found, (2, 3), 2), [])[1])


def test_a_second_scan_adds_no_person() -> None:
    cohort = ri.simulate_cohort("tiny", seed=0).cohort
    twice = np.repeat(np.arange(len(cohort)), 2)
    frames = (frame.iloc[twice].reset_index(drop=True) for frame in (cohort.volumes, cohort.people, cohort.covariates))
    assert count_cohort_dimensions(type(cohort)(*frames)) == count_cohort_dimensions(cohort)


@pytest.mark.parametrize("kind", list(NULL_COHORTS))
def test_misleading_cohorts_without_disease(kind: str) -> None:
    assert [count_cohort_dimensions(simulate_null_cohort(kind, seed), seed).number for seed in range(3)].count(0) >= 2


def test_large_groups_are_drawn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    cohort = ri.simulate_cohort("basic", seed=0).cohort
    seen = []
    monkeypatch.setattr(evidence, "MAX_PARTICIPANTS_PER_GROUP", 150)
    monkeypatch.setattr(evidence, "count_dimensions", lambda people, patient, *rest: seen.append(patient))
    count_cohort_dimensions(cohort)
    assert (len(seen[0]), seen[0].sum()) == (300, 150)


def test_shifts_are_logarithms_of_volumes_and_z_scores_stay() -> None:
    rng = np.random.default_rng(0)
    volumes = np.exp(rng.normal(8, 0.1, size=(50, 4)))
    np.testing.assert_allclose(log_transform_volumes(volumes), np.log(volumes / volumes.mean(axis=0)))
    scores = rng.normal(size=(50, 4))
    np.testing.assert_allclose(log_transform_volumes(scores).std(axis=0), 1.0)
    np.testing.assert_allclose(np.corrcoef(log_transform_volumes(scores)[:, 0], scores[:, 0])[0, 1], 1.0)


DIMENSIONS = DimensionEstimate(
    2, tuple(DimensionTest(k, 5.0 - k, (3.0, 3.3), p, 199) for k, p in enumerate((0.005, 0.01, 0.4))), 0.05, 0.9
)


@pytest.mark.parametrize(
    ("tested", "tried", "agreed", "words"),
    [
        (3, (2, 3, 4), 3, ""),
        (3, (2, 3, 4), None, ""),
        (0, (3,), 3, "chance"),
        (5, (2, 3, 4), 3, "--patterns 5"),
        (3, (2, 3, 4), 2, "weak"),
        (2, (2, 3, 4), 4, "split"),
    ],
)
def test_why_they_differ(tested: int, tried: tuple[int, ...], agreed: int | None, words: str) -> None:
    said = explain_disagreement(tested, tried, agreed)
    assert words in said
    assert bool(said) == bool(words)


def test_records_are_plain_and_complete() -> None:
    number = make_number_record(DIMENSIONS, (2, 3), 3)
    assert (number["by_agreement"], number["by_test"], number["forced"]) == (3, 2, None)
    assert [point["p"] for point in number["test"]["curve"]] == [0.005, 0.01, 0.4]
    assert make_number_record(DIMENSIONS, (4,), 4)["forced"] == 4
    stability = np.array([[0.9, 0.2], [1.0, 0.4]])
    ends = np.array([[0.7, 0.0], [0.9, 0.2]])
    patterns = make_pattern_records(PatternStability(stability, stability, np.array([0.8, 0.1]), ends))
    assert [p["name"] for p in patterns] == ["r1", "r2"]
    assert patterns[0]["stability"] == pytest.approx(0.95)
    assert patterns[1]["carriers_interval"] == [0.0, 0.2]
    json.dumps([number.to_dict(), *(pattern.to_dict() for pattern in patterns)], allow_nan=False)
    said = "\n".join(str(problem) for problem in collect_study_warnings(number, patterns))
    assert "different numbers" in said
    assert "few patients carry r2" in said
    assert "do not reproduce r2" in said
    assert "r1" not in said


@pytest.fixture(scope="module")
def nothing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("null")
    write_cohort(ri.simulate_cohort("null", seed=0), folder)
    return folder


def test_a_null_cohort_ends_well(nothing: Path) -> None:
    table, people = nothing / "volumes.csv", nothing / "participants.tsv"
    options = ["--participants", people, "--group", "group", "--covariates", "age,sex,icv"]
    out = nothing / "out"
    options += ["--out", out]
    out.mkdir()
    for name in OUTPUT_FILES:
        (out / name).write_text("of an earlier study")
    done = run("fit", table, *options, report=True)
    assert done.returncode == 0, done.stderr
    assert "no disease pattern found" in done.stdout
    left = sorted(path.name for path in out.iterdir() if path.is_file())
    assert left == ["cohort.json", "report.html", "selection.json", "study.toml"]
    page = (out / "report.html").read_text("utf-8")
    assert "<h1>No disease pattern found: out</h1>" in page
    assert "of an earlier study" not in page
    selection = json.loads((out / "selection.json").read_text())
    assert selection["chosen"] is None
    assert selection["number_of_patterns"]["by_test"] == 0
    told = json.loads(run("fit", table, *options, "--json", report=True).stdout)
    assert (told["n_patterns"], told["model"]) == (0, None)
    assert told["number_of_patterns"] == selection["number_of_patterns"]
    assert told["report"] == str(out / "report.html")
    assert (out / "report.html").read_text("utf-8") == page
    (out / "report.html").unlink()
    assert run("report", out).returncode == 0
    assert (out / "report.html").read_text("utf-8") == page


def test_a_study_reports_both_numbers_and_every_pattern(tmp_path: Path) -> None:
    made = ri.simulate_cohort("basic", seed=1)
    model = ri.fit(made.cohort, [2, 3], members=4, recipe="contrastive")
    assert model.selection is not None
    number = model.selection["number_of_patterns"]
    assert (number["by_agreement"], number["by_test"], number["why"]) == (3, 3, "")
    assert [pattern["name"] for pattern in model.selection["patterns"]] == ["r1", "r2", "r3"]
    assert min(pattern["split_half"] for pattern in model.selection["patterns"]) > 0.9
    model.save(tmp_path / "model.safetensors")
    card = ri.load(tmp_path / "model.safetensors").card
    assert card["number_of_patterns"] == number
    assert card["pattern_evidence"] == model.selection["patterns"]
