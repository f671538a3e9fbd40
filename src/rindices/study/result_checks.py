"""Reasons to doubt the result of a study."""

from collections.abc import Sequence

from rindices.errors import Problem, ProblemCode, Severity, capitalise_first, join_names
from rindices.model.records import Reproduction, SelectionRecord
from rindices.selection.dimensions import MIN_GROUP_OVERLAP

MIN_CARRIER_SHARE = 0.3
"""Share of patients who carry a pattern below which they are called few."""
MIN_CONSENSUS_SCALE = 0.7
"""Scale of a consensus pattern, relative to single members, below which members hardly agree on it."""
_NOT_REPRODUCED = (
    (Reproduction.NOT_REPRODUCED, ProblemCode.NOT_REPRODUCED, "other people do not reproduce"),
    (Reproduction.NOT_KNOWN, ProblemCode.REPRODUCTION_NOT_KNOWN, "it is not known whether other people reproduce"),
)


def list_weak_patterns(scales: Sequence[float]) -> list[str]:
    """Return the names of patterns on which members hardly agree, so that their mean is nearly flat."""
    return [f"r{k + 1}" for k, scale in enumerate(scales) if scale < MIN_CONSENSUS_SCALE]


def check_consensus_scale(scales: Sequence[float]) -> list[Problem]:
    """Return a warning for patterns on which members hardly agree."""
    weak = list_weak_patterns(scales)
    what = f"members hardly agree on {join_names(weak)}: fewer patterns may be enough"
    return [Problem(Severity.WARNING, what, code=ProblemCode.WEAK_PATTERNS)] if weak else []


def collect_study_warnings(selection: SelectionRecord) -> list[Problem]:
    """Return warnings about the kind of result, the number of patterns and single patterns."""
    number, patterns = selection.number_of_patterns, selection.patterns
    warnings: list[tuple[ProblemCode, str, str]] = []  # code, what and cure
    is_mean_difference = selection.finding == "mean_difference"
    if is_mean_difference and (unstable := [candidate for candidate in selection.grid if not candidate.stable]):
        settings = join_names([f"{candidate.setting.n_patterns} ({candidate.why})" for candidate in unstable], 3)
        what = f"patterns were tried and are not stable: {settings}"
        warnings.append((ProblemCode.UNSTABLE_PATTERNS, what, "the mean difference is reported instead"))
    if number.why:
        source = "the study" if number.forced is not None else number.decided_by or "agreement"
        what = f"{source} and the test name different numbers of patterns"
        warnings.append((ProblemCode.N_PATTERNS_UNCLEAR, what, number.why))
    if number.test.overlap < MIN_GROUP_OVERLAP:
        what = "controls and patients differ so much in covariates or site that the test can hardly compare them"
        warnings.append((ProblemCode.GROUPS_NOT_COMPARABLE, what, "controls more like the patients would help"))
    rare = [] if is_mean_difference else [item.name for item in patterns if item.carriers < MIN_CARRIER_SHARE]
    if rare:
        what = f"few patients carry {join_names(rare)}"
        warnings.append((ProblemCode.FEW_CARRIERS, what, "look for a batch, a scanner or a subgroup behind it"))
    cure = "more people would help" if is_mean_difference else "try fewer patterns, or more people"
    for reproduction, code, words in _NOT_REPRODUCED:
        names = [item.name for item in patterns if item.reproduction is reproduction]
        warnings += [(code, f"{words} {join_names(names)}", cure)] if names else []
    return [Problem(Severity.WARNING, what, "", capitalise_first(cure), code) for code, what, cure in warnings]
