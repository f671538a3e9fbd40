"""What a study ends with: patterns, a mean difference, or no difference."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rindices as ri
from benchmarks.suites.trust_cohorts import simulate_alike_cohort
from rindices.errors import StudyError
from rindices.experiments.tasks import TASKS
from rindices.study.config import ModelConfig
from rindices.study.engines import StudyObserver
from rindices.study.store import RunStore
from rindices.study.study import check_settings, find_largest_number
from tests.cohorts import simulate_few_regions
from tests.study.helpers import fit_cohort

CONTRASTIVE = ModelConfig(method="contrastive", members=3)


def test_patterns_are_tried_around_the_number_of_the_test(tmp_path: Path) -> None:
    cohort = simulate_few_regions("small", seed=1).cohort
    announced: list[int] = []
    observer = StudyObserver(
        on_setting=lambda point, concordance: announced.append(point.n_patterns)
    )
    model = fit_cohort(cohort, CONTRASTIVE, 0, RunStore(tmp_path), 1, observer=observer)
    assert sorted(announced) == [2, 3, 4]
    selection = model.selection
    assert selection is not None
    assert selection.number_of_patterns is not None
    by_test = selection.number_of_patterns.by_test
    assert selection.finding == model.card.finding == "patterns"
    assert [record.setting.n_patterns for record in selection.grid] == [
        by_test - 1,
        by_test,
        by_test + 1,
    ]
    assert model.n_patterns == by_test == selection.number_of_patterns.by_agreement == 3
    assert selection.number_of_patterns.why == ""
    assert [pattern.name for pattern in selection.patterns] == ["r1", "r2", "r3"]
    assert min(pattern.split_half for pattern in selection.patterns) > 0.8
    model.save(tmp_path / "model.safetensors")
    card = ri.load(tmp_path / "model.safetensors").card
    assert card.number_of_patterns == selection.number_of_patterns
    assert card.pattern_evidence == selection.patterns


def test_patients_who_are_alike_get_one_index_along_the_mean_difference(
    tmp_path: Path,
) -> None:
    cohort = simulate_alike_cohort(0.2, 1)
    few_regions = [region for pattern in TASKS["basic"].patterns for region in pattern]
    cohort = replace(cohort, volumes=cohort.volumes[few_regions]).take(
        np.arange(0, len(cohort), 3)
    )
    model = fit_cohort(cohort, CONTRASTIVE, 0, RunStore(tmp_path), 1)
    selection = model.selection
    assert selection is not None
    assert selection.finding == "mean_difference"
    assert (model.n_patterns, selection.grid) == (1, ())
    assert selection.difference is not None
    assert selection.difference.p <= 0.01
    affected = np.isin(cohort.regions, TASKS["basic"].patterns[0])
    assert (
        model.patterns[-1, 0, affected].mean()
        < 3 * model.patterns[-1, 0, ~affected].mean()
        < 0.5
    )
    assert model.card.method is not None
    assert model.card.method.name == "mean-difference"


def test_the_method_of_the_mean_difference_needs_no_number(tmp_path: Path) -> None:
    cohort = simulate_few_regions("tiny", seed=1).cohort
    method = ModelConfig(method="mean-difference", members=4)
    model = fit_cohort(cohort, method, 0, RunStore(tmp_path), 1)
    assert (model.n_patterns, model.card.finding) == (1, "mean_difference")
    with pytest.raises(
        StudyError,
        match="the method mean-difference has one index: leave out --patterns",
    ):
        check_settings(cohort, method.model_copy(update={"patterns": (2,)}))
    null = simulate_few_regions(
        replace(TASKS["null"], n_controls=80, n_patients=100), 1
    ).cohort
    model = fit_cohort(null, method, 0, RunStore(tmp_path), 1)
    assert (model.finding, model.indices) == ("no_difference", None)
    forced = method.model_copy(update={"patterns": (1,)})
    assert fit_cohort(null, forced, 0, RunStore(tmp_path), 1).n_patterns == 1


def test_no_difference_is_a_result_with_its_figures(tmp_path: Path) -> None:
    cohort = simulate_few_regions(
        replace(TASKS["null"], n_controls=80, n_patients=100), 1
    ).cohort
    model = fit_cohort(cohort, CONTRASTIVE, 0, RunStore(tmp_path), 1)
    assert model.ending is not None
    assert "would have been found with a power of 80%" in model.ending.what
    selection = model.selection
    assert selection is not None
    assert (selection.finding, selection.chosen) == ("no_difference", None)
    assert selection.adjustment is not None
    assert selection.adjustment.scale == "log"
    assert selection.difference is not None
    assert 0.3 < selection.difference.smallest_effect < 0.8


def test_the_largest_number_depends_on_people_and_regions() -> None:
    cohort = ri.simulate_cohort("tiny", seed=0).cohort
    few = cohort.take(
        np.r_[np.flatnonzero(cohort.is_control), np.flatnonzero(cohort.is_patient)[:9]]
    )
    assert few.n_patients == 9
    assert find_largest_number(few.n_patients, few.n_regions, "contrastive") == 3
    narrow = replace(cohort, volumes=cohort.volumes.iloc[:, :2])
    assert find_largest_number(narrow.n_patients, narrow.n_regions, "contrastive") == 2
    with pytest.raises(
        StudyError,
        match="4 patterns need at least 11 patients and 4 regions; there are 100 and 2",
    ):
        check_settings(narrow, ModelConfig(method="contrastive", patterns=(4,)))
    with pytest.raises(StudyError, match="needs at least 2 members each"):
        check_settings(cohort, ModelConfig(method="surreal-gan-published", members=1))
    check_settings(cohort, ModelConfig(method="contrastive", members=1))
    lone = cohort.take(
        np.r_[np.flatnonzero(cohort.is_control), np.flatnonzero(cohort.is_patient)[:3]]
    )
    with pytest.raises(
        StudyError,
        match="1 pattern needs at least 5 patients and 1 region; there are 3 and 139: add",
    ):
        check_settings(lone, ModelConfig(method="contrastive"))


def test_later_sets_have_the_shape_that_the_first_one_chose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = itertools.cycle(["staged", "proportional"])
    monkeypatch.setattr(
        "rindices.learners.trajectory.shapes.choose_shape",
        lambda held_out: next(chosen),
    )
    cohort = simulate_few_regions("tiny", seed=1).cohort
    model = fit_cohort(
        cohort, ModelConfig(patterns=(1,), members=10), 0, RunStore(tmp_path), 1
    )
    assert model.selection is not None
    assert model.selection.chosen is not None
    record = model.selection.chosen
    assert (record.members.trained, record.members.converged) == (10, 10)
    assert len(model.heads) > 5
    assert record.held_out is not None
    assert record.held_out.shape == "staged"
