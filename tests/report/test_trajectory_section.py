"""The section on how each pattern unfolds."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rindices as ri
from rindices.analysis.study_results import StudyResults, read_study_results
from rindices.learners.inference import SEVERITY_LEVELS, TrajectoryHead
from rindices.model.findings import describe_shape
from rindices.model.records import HeldOutLikelihoodRecord
from rindices.plot import brain
from rindices.report.sections import (
    MAX_ORDERED_REGIONS,
    Context,
    build_trajectory_section,
)
from tests.report.helpers import (
    Page,
    change_selection,
    get_section_text,
    read_figure_data,
)


def _build_section(results: StudyResults) -> Context | None:
    return build_trajectory_section(
        results, brain.match_atlas(results.model.regions), 3.0
    )


@pytest.fixture(scope="module")
def section(staged_study: Path) -> Context:
    section = _build_section(read_study_results(staged_study))
    assert section is not None
    return section


@pytest.fixture
def proportional_study(staged_study: Path, tmp_path: Path) -> Path:
    """A study whose patterns are proportional: each region follows the course of its
    pattern.
    """
    folder = tmp_path / "proportional"
    shutil.copytree(staged_study, folder, ignore=shutil.ignore_patterns("runs"))
    model = ri.load(folder / "model.safetensors")
    heads = []
    for head in model.heads:
        assert isinstance(head, TrajectoryHead)
        steps = np.full((5, 1), 0.2) * head.steps.sum(axis=1, keepdims=True)
        weights = head.precision @ steps.reshape(head.weights.shape[1], -1).T
        heads.append(replace(head, steps=steps, weights=weights))
    levels = np.array(SEVERITY_LEVELS)
    curves = [
        head.compute_curves(levels)[:, order]
        for head, order in zip(heads, model.orders, strict=True)
    ]
    card = model.card.model_copy(update={"shape": "proportional"})
    proportional = replace(
        model, heads=tuple(heads), patterns=np.mean(curves, axis=0), card=card
    )
    proportional.save(folder / "model.safetensors")

    def choose_proportional(selection: dict[str, Any]) -> None:
        for record in (selection["chosen"], *selection["grid"]):
            record["held_out"] |= {
                "shape": "proportional",
                "proportional": -1.25,
                "staged": -1.375,
            }

    change_selection(folder, choose_proportional)
    return folder


def test_regions_are_listed_from_the_earliest_to_the_latest(section: Context) -> None:
    assert [pattern.name for pattern in section.patterns] == ["r1", "r2", "r3"]
    for pattern in section.patterns:
        onsets = [row.onset for row in pattern.regions]
        assert onsets == sorted(onsets)
        assert 8 <= len(onsets) <= MAX_ORDERED_REGIONS
        assert len(onsets) <= pattern.n_regions
        for row in pattern.regions:
            assert row.interval is not None
            assert row.bar.low <= row.bar.value <= row.bar.high


def test_the_page_has_the_order_the_evidence_and_the_data(
    staged_page: str, staged_study: Path
) -> None:
    text = get_section_text(staged_page, "trajectories")
    assert "How each pattern unfolds" in text
    assert "Each region of a pattern changes at its own severity" in text
    held_out = json.loads((staged_study / "selection.json").read_text("utf-8"))[
        "chosen"
    ]["held_out"]
    staged, proportional = (
        f"{held_out[shape]:.3f}".replace("-", "\N{MINUS SIGN}")
        for shape in ("staged", "proportional")
    )
    assert (
        f"more likely under them (mean log-likelihood {staged}) than under proportional patterns ({proportional}"
        in get_section_text(staged_page, "choice")
    )
    assert held_out["staged"] > held_out["proportional"]
    assert "not from following people over time" in text
    parsed = Page(staged_page)
    written = pd.read_csv(staged_study / "trajectories.tsv", sep="\t")
    data = read_figure_data(parsed, "course_r2")
    expected = written[written["pattern"] == "r2"].reset_index(drop=True)
    np.testing.assert_allclose(data["c100"], expected["c100"], rtol=1e-4, atol=1e-6)
    curves = read_figure_data(parsed, "curves_r1")
    assert curves["severity"].iloc[[0, -1]].tolist() == [0, 1]
    assert 'href="#trajectories"' in staged_page
    assert 'href="#course_r1"' in staged_page


@pytest.mark.parametrize(
    ("error", "is_uncertain"), [(0.02, False), (0.05, True), (None, False)]
)
def test_an_order_within_chance_is_not_interpreted(
    error: float | None, is_uncertain: bool
) -> None:
    held_out = HeldOutLikelihoodRecord(
        shape="staged", proportional=-50.2, staged=-50.0, staged_gain_se=error
    )  # None for one member
    shape = describe_shape(held_out)
    assert shape is not None
    assert shape.is_order_certain is not is_uncertain


@pytest.mark.usefixtures("no_pictures")
def test_the_page_says_that_an_order_is_within_chance(
    staged_study: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "chance"
    shutil.copytree(
        staged_study, folder, ignore=shutil.ignore_patterns("runs", "report.html")
    )

    def raise_error(selection: dict[str, Any]) -> None:
        assert selection["chosen"]["held_out"]["staged_gain_se"] > 0
        for record in (selection["chosen"], *selection["grid"]):
            record["held_out"]["staged_gain_se"] = 1e3

    change_selection(folder, raise_error)
    assert "do not interpret the order of the regions" in ri.write_report(
        folder
    ).read_text("utf-8")


def test_files_of_a_staged_study_are_described(staged_study: Path) -> None:
    table = pd.read_csv(staged_study / "trajectories.tsv", sep="\t")
    descriptions = json.loads((staged_study / "trajectories.json").read_text("utf-8"))
    assert list(table) == list(descriptions)


@pytest.mark.usefixtures("no_pictures")
def test_proportional_patterns_have_one_sentence_with_both_likelihoods_and_no_course(
    proportional_study: Path,
) -> None:
    page = ri.write_report(proportional_study).read_text("utf-8")
    assert "How each pattern unfolds" not in page
    assert 'href="#trajectories"' not in page
    for section in ("choice", "methods"):
        text = get_section_text(page, section)
        assert (
            "The patterns are proportional: all regions of a pattern change together."
            in text
        )
        assert (
            "more likely under them (mean log-likelihood \N{MINUS SIGN}1.250) than under staged patterns"
            in text
        )
        assert "(\N{MINUS SIGN}1.375" in text


def test_without_a_region_that_belongs_there_is_no_order(staged_study: Path) -> None:
    results = read_study_results(staged_study)
    heads = tuple(
        replace(head, steps=1e-3 * head.steps) for head in results.model.heads
    )  # type: ignore[call-arg]
    section = _build_section(
        replace(results, model=replace(results.model, heads=heads))
    )
    assert section is not None
    assert all(
        not pattern.regions and pattern.chart is None for pattern in section.patterns
    )


def test_choice_shows_the_likelihood_and_the_agreement(staged_page: str) -> None:
    text = get_section_text(staged_page, "choice")
    assert "chosen by the likelihood of patients that members had not seen" in text
    assert "below the best (standard error)" in text
    assert "3 (chosen) staged" in text
    methods = get_section_text(staged_page, "methods")
    assert "chosen by agreement" not in methods
    assert "mean log-likelihood" in methods
    assert "posterior means of the severities" in methods


def test_a_study_without_curves_has_no_such_section(study: Path, page: str) -> None:
    assert _build_section(read_study_results(study)) is None
    assert "How each pattern unfolds" not in page
    assert not (study / "trajectories.tsv").exists()
    assert "chosen by agreement" in get_section_text(page, "methods")


@pytest.mark.usefixtures("no_pictures")
def test_an_old_model_is_still_reported(study: Path, tmp_path: Path) -> None:
    """Files from before patterns had a likelihood have no ``held_out`` and no
    ``decided_by``.
    """
    folder = tmp_path / "old"
    shutil.copytree(study, folder, ignore=shutil.ignore_patterns("runs", "report.html"))

    def remove_likelihoods(selection: dict[str, Any]) -> None:
        selection["number_of_patterns"].pop("decided_by")
        for record in (selection["chosen"], *selection["grid"]):
            record.pop("held_out", None)

    change_selection(folder, remove_likelihoods)
    text = ri.write_report(folder).read_text("utf-8")
    assert "agreement is highest for" in get_section_text(text, "choice")
    assert " by agreement, " in get_section_text(text, "trust")


@pytest.mark.usefixtures("no_pictures")
def test_the_number_is_reported_as_chosen_by_likelihood(
    study: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "likelihood"
    shutil.copytree(study, folder, ignore=shutil.ignore_patterns("runs", "report.html"))
    selection = json.loads((folder / "selection.json").read_text("utf-8"))
    selection["number_of_patterns"]["decided_by"] = "likelihood"
    held_out = {
        "shape": "proportional",
        "proportional": -1.0,
        "staged": -1.5,
        "below_best": 0.0,
        "below_best_se": 0.0,
    }
    for record in (selection["chosen"], *selection["grid"]):
        is_chosen = record["setting"] == selection["chosen"]["setting"]
        changed = (
            {}
            if is_chosen
            else {"proportional": -1.25, "below_best": 0.25, "below_best_se": 0.125}
        )
        record["held_out"] = held_out | changed
    (folder / "selection.json").write_text(json.dumps(selection), "utf-8")
    (folder / "findings.json").unlink()
    page = ri.write_report(folder).read_text("utf-8")
    number = selection["chosen"]["setting"]["n_patterns"]
    choice, trust = get_section_text(page, "choice"), get_section_text(page, "trust")
    assert (
        f"{number} patterns (proportional) were chosen: the smallest number" in choice
    )
    assert (
        f"{number} (chosen) proportional \N{MINUS SIGN}1.000 staged \N{MINUS SIGN}1.500 0.000"
        in choice
    )
    assert "\N{MINUS SIGN}1.250 staged \N{MINUS SIGN}1.500 0.250 (0.125)" in choice
    assert "by likelihood" in trust
    assert "by agreement" not in trust
    methods = get_section_text(page, "methods")
    assert (
        "chosen as the smallest number whose log-likelihood of patients that a member had not seen"
        in methods
    )
