"""Who was in the data: rows of covariates, and warnings about the groups."""

from dataclasses import replace

from rindices.errors import Problem, ProblemCode, Severity
from rindices.model.findings import GroupCounts
from rindices.model.records import (
    AdjustmentRecord,
    CohortRecord,
    CovariateGroups,
    CovariateSummary,
    GroupSummary,
)
from rindices.report.sections import (
    StudyFacts,
    build_covariate_rows,
    collect_cohort_warnings,
)
from tests.report.helpers import get_text, render_macro, render_section


def group_summaries(summaries: list[GroupSummary]) -> CovariateGroups:
    everyone, control, patient = summaries
    return CovariateGroups(all=everyone, control=control, patient=patient)


def make_numeric(name: str, control: float, patient: float) -> CovariateSummary:
    groups = [
        GroupSummary(mean=mean, sd=2.0, low=mean - 4, high=mean + 4)
        for mean in (control, control, patient)
    ]
    return CovariateSummary(name=name, groups=group_summaries(groups))


def make_categorical(
    name: str, control: dict[str, int], patient: dict[str, int]
) -> CovariateSummary:
    return CovariateSummary(
        name=name,
        groups=group_summaries(
            [GroupSummary(counts=counts) for counts in (control, control, patient)]
        ),
    )


COHORT = CohortRecord(
    source="dlmuse",
    unit="mm3",
    people=350,
    controls=150,
    patients=200,
    regions=139,
    covariates=(
        make_numeric("age", 60.0, 60.5),
        make_categorical("sex", {"F": 90, "M": 60}, {"F": 100, "M": 100}),
    ),
)


def test_rows_of_covariates() -> None:
    rows = build_covariate_rows(COHORT)
    assert [row.name for row in rows] == ["age, mean ± sd (range)", "sex: F", "sex: M"]
    assert rows[0].patient == "60.5 ± 2.00 (56.5 to 64.5)"
    assert (rows[1].control, rows[1].patient) == ("90 (60 %)", "100 (50 %)")


def test_many_categories_are_cut() -> None:
    counts = {f"site{k}": 9 for k in range(20)}
    rows = build_covariate_rows(
        COHORT.model_copy(
            update={"covariates": (make_categorical("scanner", counts, {}),)}
        )
    )
    assert len(rows) == 13
    assert rows[-1].name == "scanner: 8 more categories"
    assert rows[0].patient == "0"


def test_good_groups_give_no_warnings() -> None:
    warnings = collect_cohort_warnings(COHORT)
    assert not [*warnings.rare_levels, *warnings.group_differences, *warnings.problems]


def test_small_and_different_groups_are_named() -> None:
    covariates = (
        make_numeric("age", 60.0, 63.0),
        make_categorical("scanner", {"A": 60, "B": 2}, {"A": 5, "C": 5}),
    )
    warnings = collect_cohort_warnings(
        COHORT.model_copy(update={"controls": 62, "covariates": covariates})
    )
    (rare,), (difference,) = warnings.rare_levels, warnings.group_differences
    assert render_macro("rare_levels", rare).startswith(
        "scanner has fewer than 5 controls in B and C"
    )
    assert "differ in age (63 against 60 on average)" in render_macro(
        "group_difference", difference
    )


def test_problems_are_shown_without_ids() -> None:
    problem = Problem(
        severity=Severity.WARNING,
        what="2 people have no age",
        where="",
        cure="add it",
        code=ProblemCode.MISSING_VALUES,
        offenders=("sub-1", "sub-2"),
    )
    note = replace(problem, severity=Severity.NOTE)
    doubt = replace(
        problem,
        what="few patients carry r2",
        offenders=(),
        code=ProblemCode.FEW_CARRIERS,
    )
    cohort = COHORT.model_copy(
        update={
            "problems": CohortRecord.of(
                COHORT.to_dict(), [problem, note, doubt]
            ).problems
        }
    )
    warnings = collect_cohort_warnings(cohort, {"few_carriers"})
    text = get_text(render_macro("table_problems", warnings))
    assert text == "2 people have no age. Add it."


def test_the_section_names_unit_and_sites() -> None:
    facts = StudyFacts(
        participants=GroupCounts(controls=150, patients=200),
        adjustment=AdjustmentRecord(scale="log", regions=139),
    )
    text = render_section(
        "participants",
        cohort=COHORT,
        covariate_rows=build_covariate_rows(COHORT),
        facts=facts,
    )
    assert text.startswith(
        "150 controls and 200 patients, with 139 regions each (table of kind dlmuse, in mm³)."
    )
    other = COHORT.model_copy(
        update={"unit": "unknown", "covariates": (), "sites": {"A": {}, "B": {}}}
    )
    text = render_section("participants", cohort=other, covariate_rows=[], facts=facts)
    assert "unit unknown" in text
    assert text.endswith("They come from 2 sites.")
