"""Numbers and flags of the report, and the sentences that the templates make of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rindices.model.records import MemberCountRecord, SettingRecord
from rindices.report import summary
from rindices.report.figures import plot_agreement
from rindices.report.study_results import StudyResults, read_study_results
from rindices.report.trust import build_trust_section
from rindices.study.recipes import RECIPES
from tests.report.helpers import render_section


@pytest.fixture(scope="module")
def results(study: Path) -> StudyResults:
    return read_study_results(study)


def change_chosen(results: StudyResults, **changes: Any) -> StudyResults:
    return replace(results, selection=replace(results.selection, chosen=replace(results.chosen, **changes)))


def render_findings(results: StudyResults) -> str:
    findings = summary.summarise_findings(results)
    trust = build_trust_section(results)
    return render_section("findings", findings=findings, results=results, cohort=results.cohort, trust=trust)


def render_warnings(results: StudyResults, trust: None = None) -> str:
    warnings = summary.collect_warnings(results)
    return render_section("warnings", warnings=warnings, results=results, trust=trust, cohort=results.cohort)


def test_findings_are_three_sentences_with_the_right_numbers(results: StudyResults) -> None:
    findings = summary.summarise_findings(results)
    controls, patients = results.select_group("control"), results.select_group("patient")
    raised = patients.to_numpy() > np.quantile(controls.to_numpy(), 0.95, axis=0)
    assert findings.share_raised == pytest.approx(raised.any(axis=1).mean())
    text = render_findings(results)
    assert f"{100 * results.chosen.agreement.concordance:.1f} times in 100 (95 % interval" in text
    assert "two fits on disjoint halves of the people" in text
    assert f"{100 * (raised.sum(axis=1) > 1).mean():.0f} % in more than one" in text
    assert "r1 is loss mainly in" in text
    assert "may be due to chance" not in text


def test_findings_of_a_negative_test_open_with_doubt(results: StudyResults) -> None:
    difference = replace(results.selection.difference, p=0.4)
    doubtful = replace(results, selection=replace(results.selection, difference=difference))
    assert render_findings(doubtful).startswith("No difference between patients and controls was detected")
    number = replace(results.selection.number_of_patterns, by_test=0)
    older = replace(results, selection=replace(results.selection, number_of_patterns=number, difference=None))
    assert render_findings(older).startswith("No difference between patients and controls was detected")


def test_a_mean_difference_claims_no_more_than_was_found(results: StudyResults) -> None:
    def render(p: float, by_test: int, grid: tuple[Any, ...] = ()) -> str:
        number = replace(results.selection.number_of_patterns, by_test=by_test)
        difference = replace(results.selection.difference, p=p)
        changes = {"finding": "mean_difference", "number_of_patterns": number, "difference": difference, "grid": grid}
        changed = replace(results, selection=replace(results.selection, **changes))
        return render_findings(changed) + render_section("choice", results=changed, agreement_chart=chart)

    chart = plot_agreement(results)
    text = render(0.003, 0)
    assert (
        "Patients differ from controls on average (p = 0.003). Nothing shows that they differ from each other" in text
    )
    assert "No patterns were tried, because patients do not differ from each other" in text
    text = render(0.003, 2, results.selection.grid)
    assert "Patterns were tried and are not stable, so there is one index" in text
    assert "Nothing shows" not in text
    text = render(0.4, 0)
    assert text.startswith("No difference between patients and controls was detected")
    assert "Patients differ from controls" not in text


def test_one_member_says_nothing_about_agreement(results: StudyResults) -> None:
    agreement = replace(results.chosen.agreement, concordance=None)
    one = change_chosen(
        results, agreement=agreement, members=MemberCountRecord(1, 1), concordance_interval=(None, None)
    )
    assert "a single ensemble member cannot show how reproducible that is" in render_findings(one)
    assert "There is a single member" in render_warnings(one)


def test_choice_names_ties_and_unstable_settings(results: StudyResults) -> None:
    grid = tuple(replace(record, stable=record.setting == results.chosen.setting) for record in results.selection.grid)
    tied = replace(results, selection=replace(results.selection, ties=(SettingRecord(5, 0.2),), grid=grid))
    text = render_section("choice", results=tied, agreement_chart=plot_agreement(tied))
    assert "cannot be distinguished from 5 patterns, λ 0.2" in text
    assert "Not stable, and therefore not eligible" in text
    assert "5 patterns, λ 0.2 would do about as well" in render_warnings(tied)


def test_warnings_about_members(results: StudyResults) -> None:
    used = len(results.model.heads)
    text = render_warnings(change_chosen(results, members=MemberCountRecord(used + 3, used + 1)))
    assert f"2 of {used + 3} members did not converge." in text
    assert f"1 of {used + 1} members disagree with the rest and were left out." in text


def test_similar_patterns_are_named(results: StudyResults) -> None:
    same = np.repeat(results.model.patterns[:, :1], results.model.n_patterns, axis=1)
    indices = results.indices.assign(r2=results.indices["r1"])
    text = render_warnings(replace(results, model=replace(results.model, patterns=same), indices=indices))
    assert "r1 and r2 affect nearly the same regions" in text
    assert "r1 and r2 are correlated in patients (1.00)." in text


def test_nothing_suspicious(results: StudyResults) -> None:
    warnings = summary.collect_warnings(results)
    quiet = replace(
        warnings,
        cohort=replace(warnings.cohort, small_groups={}, fewer_controls_than_regions=False, rare_levels=(),
                       group_differences=(), problems=(), n_undescribed=0),
        weak_patterns=(), n_not_converged=0, n_left_out=0, similar_pairs=(), correlated_pairs=(),
    )  # fmt: skip
    untied = replace(results, selection=replace(results.selection, ties=()))
    text = render_section("warnings", warnings=quiet, results=untied, trust=None, cohort=results.cohort)
    assert text.startswith("Nothing suspicious was found")


def test_adjustment_is_described(results: StudyResults) -> None:
    assert summary.summarise_adjustment(results).covariates == results.model.covariates
    both = summary.Adjustment(("age", "sex"), 3, "all")
    text = render_section("adjustment", adjustment=both)
    assert text.startswith("Linear effects of age and sex, estimated in controls alone, were removed from everyone. ")
    assert "Effects of 3 sites were removed by ComBat, estimated in everyone" in text
    assert render_section("adjustment", adjustment=summary.Adjustment(())).startswith("Nothing was adjusted for.")


def test_methods_ask_the_recipe(results: StudyResults, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = replace(
        RECIPES["contrastive"], description="a toy", describe_training=lambda values, steps: "It went well.",
        get_subsample_share=lambda values: 0.5,
    )  # fmt: skip
    monkeypatch.setitem(RECIPES, "contrastive", recipe)
    methods = summary.summarise_methods(results)
    assert (methods.recipe_description, methods.training, methods.share) == ("a toy", "It went well.", 0.5)
    assert methods.n_patterns_tried == [2, 3]


def test_methods_can_be_pasted(results: StudyResults) -> None:
    values = {"methods": summary.summarise_methods(results), "adjustment": summary.summarise_adjustment(results)}
    values |= {"findings": summary.summarise_findings(results), "trust": None, "atlas": None, "citation": "Yang"}
    values |= {"results": results, "cohort": results.cohort}
    text = render_section("methods", made_with=results.model.card, **values)
    assert "2 and 3 patterns were tried with 6 ensemble members each, each trained on its own random 80 %" in text
    assert f"chosen by agreement, with a concordance of {results.chosen.agreement.concordance:.3f}" in text
    assert "delete-d jackknife intervals" in text
    assert "Shao J, Wu CFJ." in text
    assert " ." not in text.replace("rindices report .", "")
