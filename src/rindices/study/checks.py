"""Warnings of a study: cohorts that are small by the committed power study
(``data/power.json``), doubtful results.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files

from rindices.errors import (
    Problem,
    ProblemCode,
    Severity,
    capitalise_first,
    format_count,
    join_names,
)
from rindices.model.apply_checks import compare_information
from rindices.model.findings import StudyFindings
from rindices.model.fitted import FittedModel
from rindices.model.records import Reproduction, SelectionRecord
from rindices.selection.dimensions import MIN_GROUP_OVERLAP
from rindices.tables.cohort import GROUP, ID, SITE, Cohort
from rindices.wording import get_nouns

MIN_CARRIER_FRACTION = 0.3
"""Fraction of patients who carry a pattern below which they are called few."""
MIN_CONSENSUS_SCALE = 0.7
"""Scale of a consensus pattern, relative to single members, below which members hardly
agree on it.
"""
_NOT_REPRODUCED = (
    (
        Reproduction.NOT_REPRODUCED,
        ProblemCode.NOT_REPRODUCED,
        "other people do not reproduce",
    ),
    (
        Reproduction.NOT_KNOWN,
        ProblemCode.REPRODUCTION_NOT_KNOWN,
        "it is not known whether other people reproduce",
    ),
)
MILD_RATE = (
    0.2  # loss of the paper's mild task; cohorts are not judged by smaller effects
)
# a cohort is small if the right number of patterns is found in fewer cohorts than this
MIN_RECOVERY_RATE = 0.8


@dataclass(frozen=True, kw_only=True)
class PowerRow:
    """Means and standard errors over the simulated cohorts of one size and effect.

    Attributes
    ----------
    controls : int
        Number of controls.
    patients : int
        Number of patients.
    rate : float
        Share of volume lost at severity 1.
    accuracy : float
        Pattern-c-index.
    accuracy_se : float or None
        Standard error of the accuracy.
    right : float
        Share of cohorts in which the test finds the true number of patterns.
    right_se : float or None
        Standard error of this share.
    any : float
        Share of cohorts in which the test finds at least one pattern.
    any_se : float or None
        Standard error of this share.
    width : float
        Width of the 95 % interval of a person's severity. Severities are 0 to 1.
    width_se : float or None
        Standard error of the width.
    d : float or None
        Cohen's d of a region of a pattern, in the median region where the rate was
        given.
    patterns : int
        True number of patterns.
    """

    controls: int
    patients: int
    rate: float
    accuracy: float
    accuracy_se: float | None
    right: float
    right_se: float | None
    any: float
    any_se: float | None
    width: float
    width_se: float | None
    d: float | None = None
    patterns: int = 3


def load_power_rows() -> list[PowerRow]:
    """Return the power study that comes with the package."""
    text = (files("rindices.study") / "data" / "power.json").read_text("utf-8")
    return [PowerRow(**row) for row in json.loads(text)["rows"]]


def check_sample_size(
    n_controls: int, n_patients: int, unit: str = ""
) -> list[Problem]:
    """Return a warning if simulated cohorts of this size too rarely gave the right
    number of patterns.
    """
    rows = load_power_rows()
    fitting = [
        row for row in rows if row.controls <= n_controls and row.patients <= n_patients
    ]
    if fitting:
        largest = max(row.controls + row.patients for row in fitting)
        typical = [
            row
            for row in fitting
            if row.controls + row.patients == largest and row.rate >= MILD_RATE
        ]
        weak = [row for row in typical if row.right < MIN_RECOVERY_RATE]
        if not weak:
            return []
        row, noun, aim = (
            weak[-1],
            get_nouns(unit).region,
            "what more people would give",
        )
        why = (
            f"with {row.controls} and {row.patients}, simulated patterns that take {row.rate:.0%} of a {noun} were "
            f"ranked {row.accuracy:.2f} (0.5 is chance) and their number was found in {row.right:.0%} of the cohorts"
        )
    else:
        smallest, aim = min(rows, key=lambda row: row.controls), "what to expect"
        sizes = {
            "controls": (n_controls, smallest.controls),
            "patients": (n_patients, smallest.patients),
        }
        few = [
            f"{size} {name} are fewer than {least}"
            for name, (size, least) in sizes.items()
            if size < least
        ]
        why = f"{', and '.join(few)}, the fewest in the simulations"
    command = f"rindices power --people {max(n_controls, 10)}+{max(n_patients, 10)}"
    what = f"a small study ({n_controls} controls and {n_patients} patients): {why}"
    return [
        Problem(
            severity=Severity.WARNING,
            what=what,
            where="",
            cure=f"See {aim}: {command}",
            code=ProblemCode.SMALL_COHORT,
        )
    ]


def list_needed_people() -> list[tuple[float, str]]:
    """Return fractions of volume lost, and the fewest people with whom three such
    patterns were told apart.
    """
    rows = load_power_rows()
    rates = sorted({row.rate for row in rows}, reverse=True)
    return [
        (rate, find_needed_people([row for row in rows if row.rate == rate]))
        for rate in rates
    ]


def find_needed_people(rows: Sequence[PowerRow]) -> str:
    """Return the fewest people who gave the right number of patterns often enough, of
    rows of one effect.
    """
    by_size = sorted(rows, key=lambda row: row.controls + row.patients)
    enough = [row for row in by_size if row.right >= MIN_RECOVERY_RATE]
    row = enough[0] if enough else by_size[-1]
    return f"{'' if enough else 'more than '}{row.controls} controls and {row.patients} patients"


def list_weak_patterns(scales: Sequence[float]) -> list[str]:
    """Return the names of patterns on which members hardly agree, so that their mean is
    nearly flat.
    """
    return [
        f"r{k + 1}" for k, scale in enumerate(scales) if scale < MIN_CONSENSUS_SCALE
    ]


def check_consensus_scale(scales: Sequence[float]) -> list[Problem]:
    """Return a warning for patterns on which members hardly agree."""
    weak = list_weak_patterns(scales)
    what = f"members hardly agree on {join_names(weak)}: fewer patterns may be enough"
    return (
        [Problem(severity=Severity.WARNING, what=what, code=ProblemCode.WEAK_PATTERNS)]
        if weak
        else []
    )


def collect_study_warnings(selection: SelectionRecord) -> list[Problem]:
    """Return warnings about the kind of result, the number of patterns and single
    patterns.
    """
    warnings = [*_doubt_number(selection), *_doubt_patterns(selection)]
    return [
        Problem(
            severity=Severity.WARNING,
            what=what,
            where="",
            cure=capitalise_first(cure),
            code=code,
        )
        for code, what, cure in warnings
    ]


def _doubt_number(
    selection: SelectionRecord,
) -> Iterator[tuple[ProblemCode, str, str]]:
    """Yield codes, reasons to doubt the number of patterns, and cures."""
    number = selection.number_of_patterns
    unstable = [
        f"{candidate.setting.n_patterns} ({candidate.why})"
        for candidate in selection.grid
        if not candidate.stable
    ]
    if unstable and selection.finding == "mean_difference":
        what = f"patterns were tried and are not stable: {join_names(unstable, 3)}"
        cure = "the mean difference is reported instead"
        yield ProblemCode.UNSTABLE_PATTERNS, what, cure
    if number.why:
        source = number.decided_by or "agreement"
        if number.forced is not None:
            source = "the study"
        what = f"{source} and the test name different numbers of patterns"
        yield ProblemCode.N_PATTERNS_UNCLEAR, what, number.why
    if number.test.overlap < MIN_GROUP_OVERLAP:
        what = "controls and patients differ so much in covariates or site that the test can hardly compare them"
        cure = "controls more like the patients would help"
        yield ProblemCode.GROUPS_NOT_COMPARABLE, what, cure


def _doubt_patterns(
    selection: SelectionRecord,
) -> Iterator[tuple[ProblemCode, str, str]]:
    """Yield codes, reasons to doubt single patterns, and cures."""
    patterns, cure = selection.patterns, "try fewer patterns, or more people"
    if selection.finding == "mean_difference":
        cure = "more people would help"
    else:
        rare = [item.name for item in patterns if item.carriers < MIN_CARRIER_FRACTION]
        if rare:
            what = f"few patients carry {join_names(rare)}"
            why = "look for a batch, a scanner or a subgroup behind it"
            yield ProblemCode.FEW_CARRIERS, what, why
    for reproduction, code, words in _NOT_REPRODUCED:
        names = [item.name for item in patterns if item.reproduction is reproduction]
        if names:
            yield code, f"{words} {join_names(names)}", cure


def report_artefacts(findings: StudyFindings) -> list[Problem]:
    """Return a warning for each sign of an artefact."""
    cure = "Look at these people in the table and in the images, and correct or leave out what is wrong"
    return [
        Problem(
            severity=Severity.WARNING,
            what=f"looks like an artefact: {sign.what}",
            where="",
            cure=cure,
            code=ProblemCode.ARTEFACT,
        )
        for sign in findings.artefacts
    ]


def list_doubts(model: FittedModel, cohort: Cohort) -> list[Problem]:
    """Return what the adjustment, the tests and the patterns of a model give reason to
    doubt.
    """
    assert model.selection is not None
    artefacts = [] if model.findings is None else report_artefacts(model.findings)
    doubts = model.preprocessing.review(cohort)
    if model.indices is None:
        return [*doubts, *artefacts]
    doubts = [*doubts, *collect_study_warnings(model.selection), *artefacts]
    sites = {SITE: cohort.people[SITE].to_numpy()} if SITE in cohort.people else {}
    doubts += compare_information(model.indices.assign(**sites))
    if model.visit_indices is not None:
        doubts += compare_information(model.visit_indices.drop(columns=GROUP))
    without = model.indices.loc[model.indices["r1"].isna(), ID].tolist()
    if without:
        people = format_count(len(without), "person has", "people have")
        what = f"{people} no R-index, because every ensemble member that agrees with the others was trained on them"
        cure, code = "Use more members", ProblemCode.PEOPLE_WITHOUT_INDEX
        doubts.append(
            Problem(
                severity=Severity.WARNING,
                what=what,
                where="",
                cure=cure,
                code=code,
                offenders=tuple(without),
            )
        )
    return doubts
