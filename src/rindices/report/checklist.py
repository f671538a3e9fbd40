"""The checklist TRIPOD+AI of a study: what its files say is filled in, what only its
authors know is marked.
"""

import html
import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from rindices.analysis.study_results import StudyResults, read_study_results
from rindices.atomic import write_atomically
from rindices.errors import (
    ProblemCode,
    StudyError,
    capitalise_first,
    explain_write_errors,
)
from rindices.model.pattern_tables import list_trajectory_heads
from rindices.report import sections
from rindices.report.formatting import make_environment
from rindices.report.page import list_warnings
from rindices.wording import FEATURE_UNIT, reword_template

CHECKLIST_FILE = "checklist.md"
_MISSING_CODES = {
    ProblemCode.MISSING_VALUES,
    ProblemCode.MISSING_BY_GROUP,
    ProblemCode.ZERO_VOLUMES,
}
TO_WRITE = "**To be written:**"
_HEAD = """# TRIPOD+AI checklist
Of 27 items, {filled} are filled from the study, {partly} in part, and {left} are left to the authors ({mark}).
Items are shortened; their full words, and which page of the paper to name, are in Collins et al., BMJ 2024;385:e078378.

| item | topic | answer |
|---|---|---|
"""


def write_checklist(folder: Path) -> Path:
    """Write ``checklist.md`` into the folder of a finished study, and
    return its path.
    """
    if not (folder / "model.safetensors").is_file():
        raise StudyError(
            f"{folder} has no model, so that there is no model to report: fit the study first."
        )
    path = folder / CHECKLIST_FILE
    with explain_write_errors(str(path), StudyError, "make room or free the folder"):
        write_atomically(path, render_checklist(read_study_results(folder)).encode())
    return path


def _make_context(results: StudyResults) -> dict[str, Any]:
    """Return what the items of the checklist are filled in from."""
    cohort, model, subgroups = results.cohort, results.model, results.subgroups
    facts = sections.StudyFacts.of_model(model, results.findings)
    problems = {
        problem.code: problem.summary or problem.what for problem in cohort.problems
    }
    return {
        "results": results,
        "cohort": cohort,
        "card": model.card,
        "n": model.n_patterns,
        "facts": facts,
        "say": sections.load_statements(cohort.unit),
        "methods": sections.summarise_methods(results),
        "findings": results.findings,
        "are_posterior_means": bool(list_trajectory_heads(model)),
        "covariate_rows": sections.build_covariate_rows(cohort),
        "trained": results.chosen.members.trained,
        "in_sample": any(not pattern.is_cross_fitted for pattern in facts.patterns),
        "wrong": 0
        if results.outlying_measurements is None
        else len(results.outlying_measurements),
        "missing": " ".join(
            f"{capitalise_first(text)}."
            for code, text in problems.items()
            if code in _MISSING_CODES
        ),
        "subgroups": [] if subgroups is None else list(subgroups["variable"].unique()),
        "by_site": []
        if subgroups is None
        else list(subgroups[subgroups["variable"] == "site"].itertuples()),
        "warnings": [
            html.unescape(re.sub(r"<[^>]*>", "", line))
            for line in list_warnings(results)
        ],
    }


def render_checklist(results: StudyResults) -> str:
    """Return the checklist of a study in Markdown."""
    cohort = results.cohort
    environment = make_environment(cohort.unit, is_html=False)
    context = _make_context(results)
    items = tomllib.loads(
        (files("rindices.report") / "checklist.toml").read_text("utf-8")
    )["item"]
    reword = reword_template if cohort.unit == FEATURE_UNIT else str
    rows, states = [], dict[str, set[bool]]()
    for item in items:
        study, authors = (
            " ".join(
                environment.from_string(reword(item.get(name, "")))
                .render(context)
                .split()
            )
            for name in ("study", "authors")
        )
        answer = (
            " ".join([study, *([f"{TO_WRITE} {authors}"] if authors else [])])
            .strip()
            .replace("|", "\\|")
        )
        rows.append(f"| {item['number']} | {item['topic']} | {answer} |")
        state = states.setdefault(re.sub(r"[a-z].*", "", item["number"]), set())
        state |= {
            is_filled for is_filled, text in ((True, study), (False, authors)) if text
        }
    counts = {
        "filled": sum(state == {True} for state in states.values()),
        "partly": sum(len(state) == 2 for state in states.values()),
        "left": sum(state == {False} for state in states.values()),
    }
    return _HEAD.format(mark=TO_WRITE, **counts) + "\n".join(rows) + "\n"
