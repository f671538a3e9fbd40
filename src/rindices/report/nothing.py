"""The report of a study that found no pattern: what that means, and what it does not."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rindices.errors import count
from rindices.report import people
from rindices.report.contents import read_json
from rindices.report.figures import p_words
from rindices.report.people import joined
from rindices.report.trust import anything, how_tested


@dataclass(frozen=True, eq=False)
class Nothing:
    """What a study leaves behind that found no pattern.

    Attributes
    ----------
    title : str
    cohort : dict
        Who was in the data.
    test : dict
        The test: its level, overlap and curve.
    made_with : dict
        Versions and seed; may be empty.
    """

    title: str
    cohort: dict[str, Any]
    test: dict[str, Any]
    made_with: dict[str, Any]


def read_nothing(folder: Path) -> Nothing | None:
    """Read the folder of a study that found no pattern; None for any other folder."""
    if (folder / "model.safetensors").is_file() or not all(
        (folder / name).is_file() for name in ("selection.json", "cohort.json")
    ):
        return None
    selection = read_json(folder / "selection.json")
    number = selection.get("number_of_patterns") or {}
    if selection.get("grid") or number.get("by_test") != 0:  # settings were tried, and none was stable
        return None
    cohort = read_json(folder / "cohort.json")
    return Nothing(folder.resolve().name, cohort, number["test"], selection.get("made_with", {}))


def found(nothing: Nothing) -> list[str]:
    """Return what was found, in three sentences."""
    cohort, first = nothing.cohort, nothing.test["curve"][0]
    return [
        f"The {cohort['patients']:,} patients differ from the {cohort['controls']:,} controls no more than two groups "
        f"drawn by chance do (p = {p_words(first['p'])}).",
        "So no pattern was learnt: there is no model, and nobody has an R-index.",
        "This holds for these people, these regions and this adjustment; it does not mean that the patients are well.",
    ]


def facts(nothing: Nothing) -> list[tuple[str, str]]:
    """Return the numbers at the top of the page."""
    cohort = nothing.cohort
    groups = [(f"{cohort[group]:,}", group) for group in ("controls", "patients", "regions")]
    return [("0", "patterns"), (p_words(nothing.test["curve"][0]["p"]), "p-value"), *groups]


def tested(nothing: Nothing) -> list[str]:
    """Return how it was asked, in sentences."""
    alike = nothing.cohort["covariates"] or nothing.cohort["sites"]
    enough = f"The groups are alike enough in these to be compared ({nothing.test['overlap']:.2f}; 1 is fully alike)."
    return [
        *anything(nothing.test, nothing.cohort),
        *([enough] if alike else []),
        f"Where there is no disease, such a test still sees one in about {100 * nothing.test['level']:.0f} of 100 "
        "cohorts.",
    ]


def adjusted(nothing: Nothing) -> str:
    """Return what was adjusted for, in a sentence or two."""
    names = [covariate["name"] for covariate in nothing.cohort["covariates"]]
    sites = len(nothing.cohort["sites"])
    said = (
        f"Linear effects of {joined(names, 12)}, estimated in controls alone, were taken out of everyone."
        if names
        else "Nothing was adjusted for."
    )
    held = f" Labels were shuffled only within each of {count(sites, 'site')}." if sites else ""
    return f"{said}{held} Regions were then expressed in standard deviations of controls."


def means(nothing: Nothing) -> list[str]:
    """Return what the result says."""
    return [
        "In these regions, and after this adjustment, nothing sets these patients apart from these controls that a "
        "shuffle of the labels would not also give.",
        "Patterns learnt from this table all the same would most likely describe chance, and R-indices would rank "
        "patients by it.",
    ]


def means_not(nothing: Nothing) -> list[str]:
    """Return what the result does not say: absence of evidence is no evidence of absence."""
    names = [covariate["name"] for covariate in nothing.cohort["covariates"]]
    along = f" One that goes along with {joined(names, 12)} may have been adjusted away." if names else ""
    return [
        "It does not say that the disease spares the brain. Absence of evidence is not evidence of absence.",
        f"A weak disease, or one that only few patients have, can be missed with this many people.{along}",
        "Changes that these regions do not measure cannot be seen at all: smaller places, other tissue, function.",
    ]


def next_steps(nothing: Nothing) -> list[tuple[str, str]]:
    """Return what can be done, each with a command."""
    cohort = nothing.cohort
    return [
        (
            "How strong would a pattern have to be to be found with as many people?",
            f"rindices power --people {cohort['controls']}+{cohort['patients']}",
        ),
        ("Are the groups, the covariates and the units read as you mean them?", "rindices check"),
        (
            "To train all the same, name one number of patterns; the report will say that the test found none.",
            "rindices fit … --patterns 2",
        ),
    ]


def warnings(nothing: Nothing) -> list[str]:
    """Return what may have hidden a disease."""
    cohort = nothing.cohort
    said = [
        f"Few {group}: {cohort[group]}. Only a strong disease would have been seen."
        for group in ("controls", "patients")
        if cohort[group] < people.FEW
    ]
    said += people.scarce(cohort)
    said += [f"{gap}: disease that goes along with it is adjusted away." for gap in people.apart(cohort)]
    if not cohort["covariates"]:
        said.append("Nothing was adjusted for. Normal differences of age, sex and head size may hide a disease.")
    return [*said, *people.told(cohort)]


def methods(nothing: Nothing) -> list[str]:
    """Return a paragraph for a paper."""
    cohort = nothing.cohort
    names = [covariate["name"] for covariate in cohort["covariates"]]
    how = f", adjusted for {joined(names, 12)} by linear regression fitted in controls" if names else ""
    version, seed = nothing.made_with.get("rindices_version", ""), nothing.made_with.get("seed")
    by = f"rindices {version}".strip() + (f" (seed {seed})" if seed is not None else "")
    return [
        f"Measures of {cohort['regions']} brain regions ({cohort['source']}, {people.unit(cohort)}) of "
        f"{cohort['controls']} controls and {cohort['patients']} patients{how}, were searched for patterns of disease "
        f"with {by}. {how_tested(nothing.test, cohort)} No pattern was learnt."
    ]
