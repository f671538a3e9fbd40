"""The report of a study that found no pattern: what that means, and what it does not."""

from dataclasses import dataclass
from pathlib import Path

from rindices.errors import format_count
from rindices.model.records import CohortRecord, PermutationTestRecord, ProvenanceRecord, SelectionRecord
from rindices.report import people
from rindices.report.figures import format_p_value
from rindices.report.people import join_with_and
from rindices.report.study_results import read_record
from rindices.report.trust import describe_overall_test, describe_test_procedure


@dataclass(frozen=True, eq=False)
class NullResults:
    """What a study leaves behind that found no pattern.

    Attributes
    ----------
    title : str
    cohort : CohortRecord
        Who was in the data.
    test : PermutationTestRecord
    made_with : ProvenanceRecord or None
    """

    title: str
    cohort: CohortRecord
    test: PermutationTestRecord
    made_with: ProvenanceRecord | None


def read_null_results(folder: Path) -> NullResults | None:
    """Read the folder of a study that found no pattern; None for any other folder."""
    if (folder / "model.safetensors").is_file() or not all(
        (folder / name).is_file() for name in ("selection.json", "cohort.json")
    ):
        return None
    selection = read_record(folder / "selection.json", SelectionRecord)
    number = selection.number_of_patterns
    if selection.grid or number is None or number.by_test != 0:  # settings were tried, and none was stable
        return None
    cohort = read_record(folder / "cohort.json", CohortRecord)
    return NullResults(folder.resolve().name, cohort, number.test, selection.made_with)


def describe_findings(nothing: NullResults) -> list[str]:
    """Return what was found, in three sentences."""
    cohort, first = nothing.cohort, nothing.test.curve[0]
    return [
        f"The {cohort.patients:,} patients differ from the {cohort.controls:,} controls no more than two groups "
        f"drawn by chance do (p = {format_p_value(first.p)}).",
        "So no pattern was learnt: there is no model, and nobody has an R-index.",
        "This holds for these people, these regions and this adjustment; it does not mean that the patients are well.",
    ]


def list_key_figures(nothing: NullResults) -> list[tuple[str, str]]:
    """Return the numbers at the top of the page."""
    cohort = nothing.cohort
    groups = [(f"{getattr(cohort, group):,}", group) for group in ("controls", "patients", "regions")]
    return [("0", "patterns"), (format_p_value(nothing.test.curve[0].p), "p-value"), *groups]


def describe_test(nothing: NullResults) -> list[str]:
    """Return how it was asked, in sentences."""
    alike = nothing.cohort.covariates or nothing.cohort.sites
    enough = f"The groups are alike enough in these to be compared ({nothing.test.overlap:.2f}; 1 is fully alike)."
    return [
        *describe_overall_test(nothing.test, nothing.cohort),
        *([enough] if alike else []),
        f"Where there is no disease, such a test still sees one in about {100 * nothing.test.level:.0f} of 100 "
        "cohorts.",
    ]


def describe_adjustment(nothing: NullResults) -> str:
    """Return what was adjusted for, in a sentence or two."""
    names = nothing.cohort.covariate_names
    sites = len(nothing.cohort.sites)
    said = (
        f"Linear effects of {join_with_and(names, 12)}, estimated in controls alone, were taken out of everyone."
        if names
        else "Nothing was adjusted for."
    )
    held = f" Labels were shuffled only within each of {format_count(sites, 'site')}." if sites else ""
    return f"{said}{held} Regions were then expressed in standard deviations of controls."


def explain_result(nothing: NullResults) -> list[str]:
    """Return what the result says."""
    return [
        "In these regions, and after this adjustment, nothing sets these patients apart from these controls that a "
        "shuffle of the labels would not also give.",
        "Patterns learnt from this table all the same would most likely describe chance, and R-indices would rank "
        "patients by it.",
    ]


def explain_limits(nothing: NullResults) -> list[str]:
    """Return what the result does not say: absence of evidence is no evidence of absence."""
    names = nothing.cohort.covariate_names
    along = f" One that goes along with {join_with_and(names, 12)} may have been adjusted away." if names else ""
    return [
        "It does not say that the disease spares the brain. Absence of evidence is not evidence of absence.",
        f"A weak disease, or one that only few patients have, can be missed with this many people.{along}",
        "Changes that these regions do not measure cannot be seen at all: smaller places, other tissue, function.",
    ]


def suggest_next_steps(nothing: NullResults) -> list[tuple[str, str]]:
    """Return what can be done, each with a command."""
    cohort = nothing.cohort
    return [
        (
            "How strong would a pattern have to be to be found with as many people?",
            f"rindices power --people {cohort.controls}+{cohort.patients}",
        ),
        ("Are the groups, the covariates and the units read as you mean them?", "rindices check"),
        (
            "To train all the same, name one number of patterns; the report will say that the test found none.",
            "rindices fit … --patterns 2",
        ),
    ]


def describe_warnings(nothing: NullResults) -> list[str]:
    """Return what may have hidden a disease."""
    cohort = nothing.cohort
    said = [
        f"Few {group}: {getattr(cohort, group)}. Only a strong disease would have been seen."
        for group in ("controls", "patients")
        if getattr(cohort, group) < people.MIN_PEOPLE_PER_GROUP
    ]
    said += people.describe_rare_levels(cohort)
    said += [
        f"{gap}: disease that goes along with it is adjusted away." for gap in people.describe_group_differences(cohort)
    ]
    if not cohort.covariates:
        said.append("Nothing was adjusted for. Normal differences of age, sex and head size may hide a disease.")
    return [*said, *people.describe_table_warnings(cohort)]


def describe_methods(nothing: NullResults) -> list[str]:
    """Return a paragraph for a paper."""
    cohort = nothing.cohort
    names = cohort.covariate_names
    how = f", adjusted for {join_with_and(names, 12)} by linear regression fitted in controls" if names else ""
    by = "rindices"
    if nothing.made_with is not None:
        by = f"rindices {nothing.made_with.rindices_version} (seed {nothing.made_with.seed})"
    return [
        f"Measures of {cohort.regions} brain regions ({cohort.source}, {people.describe_unit(cohort)}) of "
        f"{cohort.controls} controls and {cohort.patients} patients{how}, were searched for patterns of disease "
        f"with {by}. {describe_test_procedure(nothing.test, cohort)} No pattern was learnt."
    ]
