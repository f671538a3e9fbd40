"""Numbers and flags of the report, and the sentences that the templates
make of them.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rindices.analysis.study_results import StudyResults, read_study_results
from rindices.model.records import (
    AgreementRecord,
    MemberCountRecord,
    SettingRecord,
)
from rindices.report import sections
from rindices.report.figures import plot_agreement
from rindices.report.sections import StudyFacts, build_trust_section
from rindices.study.checks import list_needed_people
from rindices.study.methods import METHODS
from tests.report.helpers import collect_again, render_section


@pytest.fixture(scope="module")
def results(study: Path) -> StudyResults:
    return read_study_results(study)


def change_chosen(results: StudyResults, **changes: Any) -> StudyResults:
    return replace(
        results,
        selection=results.selection.model_copy(
            update={"chosen": results.chosen.model_copy(update=changes)}
        ),
    )


def render_findings(results: StudyResults) -> str:
    results = collect_again(results)
    trust = build_trust_section(results)
    values = {
        "findings": results.findings,
        "facts": StudyFacts.of_model(results.model, results.findings),
    }
    values |= {
        "results": results,
        "cohort": results.cohort,
        "trust": trust,
        "test": trust.test,
    }
    values |= {"patterns": [], "atlas": None, "warnings": []}
    return render_section("findings", **values).removeprefix("What was found ")


def render_warnings(results: StudyResults) -> str:
    warnings = sections.collect_warnings(results)
    return render_section(
        "warnings", warnings=warnings, results=results, cohort=results.cohort
    )


def test_findings_of_a_negative_test_open_with_doubt(results: StudyResults) -> None:
    difference = results.selection.difference.model_copy(update={"p": 0.4})
    doubtful = replace(
        results,
        selection=results.selection.model_copy(update={"difference": difference}),
    )
    assert render_findings(doubtful).startswith(
        "No difference between patients and controls was detected"
    )


def test_a_mean_difference_claims_no_more_than_was_found(results: StudyResults) -> None:
    def render(p: float, by_test: int, grid: tuple[Any, ...] = ()) -> str:
        number = results.selection.number_of_patterns.model_copy(
            update={"by_test": by_test}
        )
        difference = results.selection.difference.model_copy(update={"p": p})
        changes = {
            "finding": "mean_difference",
            "number_of_patterns": number,
            "difference": difference,
            "grid": grid,
        }
        changed = collect_again(
            replace(results, selection=results.selection.model_copy(update=changes))
        )
        values = {
            "results": changed,
            "findings": changed.findings,
            "agreement_chart": chart,
            "interactions": [],
        }
        values["needed"] = list_needed_people()
        return render_findings(changed) + render_section("choice", **values)

    chart = plot_agreement(results)
    text = render(0.003, 0)
    assert "Patients differ from controls on average, p = 0.003" in text
    assert "Nothing shows that they differ from each other" in text
    assert (
        "No patterns were tried, because patients do not differ from each other" in text
    )
    step = results.selection.number_of_patterns.test.curve[0]
    assert (
        f"excess variance is {step.excess:.2f}, and chance alone gives up to {step.chance_95:.2f}"
        in text
    )
    assert "with 80 controls and 100 patients where they take 30 % of a region" in text
    text = render(0.003, 2, results.selection.grid)
    assert "Patterns were tried and are not stable, so there is one index" in text
    assert "Nothing shows" not in text
    text = render(0.4, 0)
    assert text.startswith("No difference between patients and controls was detected")
    assert "Patients differ from controls" not in text


def test_one_member_says_nothing_about_agreement(results: StudyResults) -> None:
    agreement = results.chosen.agreement.model_copy(update={"concordance": None})
    one = change_chosen(
        results,
        agreement=agreement,
        members=MemberCountRecord(trained=1, converged=1),
        concordance_interval=(None, None),
    )
    assert "There is a single member" in render_warnings(one)


def test_choice_names_ties_and_unstable_settings(results: StudyResults) -> None:
    grid = tuple(
        record.model_copy(update={"stable": record.setting == results.chosen.setting})
        for record in results.selection.grid
    )
    tied = replace(
        results,
        selection=results.selection.model_copy(
            update={
                "ties": (SettingRecord(n_patterns=5, orthogonality=0.2),),
                "grid": grid,
            }
        ),
    )
    values = {
        "findings": tied.findings,
        "needed": list_needed_people(),
        "agreement_chart": plot_agreement(tied),
    }
    text = render_section("choice", results=tied, **values)
    assert "cannot be distinguished from 5 patterns, λ 0.2" in text
    assert "Not eligible: " in text
    assert "5 patterns, λ 0.2 would do about as well" in render_warnings(tied)


def test_warnings_about_members(results: StudyResults) -> None:
    used = len(results.model.heads)
    text = render_warnings(
        change_chosen(
            results, members=MemberCountRecord(trained=used + 3, converged=used + 1)
        )
    )
    assert f"2 of {used + 3} members did not converge." in text
    assert f"1 of {used + 1} members disagree with the rest and were left out." in text


def test_similar_patterns_are_named(results: StudyResults) -> None:
    same = np.repeat(results.model.patterns[:, :1], results.model.n_patterns, axis=1)
    indices = results.indices.assign(r2=results.indices["r1"])
    text = render_warnings(
        replace(results, model=replace(results.model, patterns=same), indices=indices)
    )
    assert "r1 and r2 affect nearly the same regions" in text
    assert "r1 and r2 are correlated in patients (1.00)." in text


def test_nothing_suspicious(results: StudyResults) -> None:
    warnings = sections.collect_warnings(results)
    names = ("doubts", "weak_patterns", "similar_pairs", "correlated_pairs")
    values = dict.fromkeys(names, ()) | {"n_not_converged": 0, "n_left_out": 0}
    values["cohort"] = sections.Context(
        rare_levels=(), group_differences=(), problems=()
    )
    quiet = sections.Context(**vars(warnings) | values)
    untied = replace(
        results, selection=results.selection.model_copy(update={"ties": ()})
    )
    assert not render_section(
        "warnings", warnings=quiet, results=untied, cohort=results.cohort
    )


def test_methods_ask_the_method(
    results: StudyResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(METHODS["contrastive"], "description", "a toy")
    monkeypatch.setattr(
        METHODS["contrastive"], "get_subsample_fraction", lambda values: 0.5
    )
    methods = sections.summarise_methods(results)
    assert (methods.method_description, methods.share) == ("a toy", 0.5)
    assert methods.n_patterns_tried == [2, 3]


def test_methods_can_be_pasted(results: StudyResults) -> None:
    values = {
        "methods": sections.summarise_methods(results),
        "facts": StudyFacts.of_model(results.model),
    }
    values |= {
        "findings": results.findings,
        "are_posterior_means": False,
        "trust": build_trust_section(results),
        "atlas": None,
        "citation": "Yang",
    }
    values |= {"results": results, "cohort": results.cohort}
    text = render_section("methods", made_with=results.model.card, **values)
    assert (
        "2 and 3 patterns were tried with 5 ensemble members each, each trained on 80 %"
        in text
    )
    assert (
        "2 patterns were chosen by agreement." in text
        or "3 patterns were chosen by agreement." in text
    )
    assert "delete-d jackknife intervals" in text
    assert "Shao J, Wu CFJ." in text
    assert " ." not in text.replace("rindices report .", "")


def test_a_number_whose_agreement_was_not_measured_is_not_called_unstable(
    results: StudyResults,
) -> None:
    why = "agreement is measured for the chosen number of patterns and for smaller ones"
    not_measured = results.selection.grid[-1].model_copy(
        update={
            "setting": SettingRecord(n_patterns=7, orthogonality=None),
            "agreement": AgreementRecord(
                concordance=None, dimension=None, difference=None
            ),
            "stable": False,
            "why": why,
        }
    )
    selection = results.selection.model_copy(
        update={"grid": (*results.selection.grid, not_measured)}
    )
    values = {
        "findings": results.findings,
        "needed": list_needed_people(),
        "agreement_chart": plot_agreement(results),
    }
    several = replace(results, selection=selection)
    text = render_section("choice", results=several, **values)
    assert f"7 patterns ({why})" in text
    assert "Not stable" not in text
