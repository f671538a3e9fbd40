"""The command ``rindices check``: validate a table without training."""

import math
import shutil
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rindices.cli import options
from rindices.cli.console import print_facts, print_json, print_problems, split_option
from rindices.cli.options import RUN, TABLE, TRAINING, Words, describe_option
from rindices.errors import Problem, ProblemCode, Severity, format_count, join_names
from rindices.wording import FEATURE_UNIT, get_nouns

if TYPE_CHECKING:
    from rindices.study.config import StudyConfig
    from rindices.tables.validate import ValidationResult

EXAMPLES = {
    "check": "dlmuse.csv --participants participants.tsv --group diagnosis --controls CN"
}

SCREEN_LINES = 24
"""Lines that a terminal shows at once."""
_FACT_INDENT = 14
_STOPPING_CODES = {ProblemCode.MISSING_VALUES}
"""Notes of a table that stop fit unless the user says what to do."""


@options.take_table_options("- on_missing")
def check(
    context: typer.Context,
    tables: Annotated[
        list[Path],
        typer.Argument(
            metavar="STUDY.toml|TABLE...", help="A study file, or volumes joined by id."
        ),
    ],
    patterns: Annotated[
        Words,
        describe_option("Numbers of patterns that fit is to try.", panel=TRAINING),
    ] = None,
    method: Annotated[
        str | None, describe_option("How fit is to train.", panel=TRAINING)
    ] = None,
    recipe: options.OldMethod = None,
    on_missing: Annotated[
        str | None, describe_option("model, drop, error, or report.", panel=TABLE)
    ] = None,
    show_all: Annotated[
        bool,
        describe_option("Print everything, also in a terminal.", None, RUN, "--all"),
    ] = False,
    report: Annotated[
        Path | None,
        describe_option("A page with pictures of suspect blocks.", "FILE.html", RUN),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Read and validate a table of regional volumes, say what it is and what to fix,
    and whether fit would run.
    """
    from rindices.study.preflight import resolve_study

    model = {"patterns": split_option(patterns), "method": method, "recipe": recipe}
    data = options.get_table_values(context)
    reports_missing = on_missing == "report"
    if on_missing and not reports_missing:
        data["on_missing"] = on_missing
    study, folder = options.load_study(tables, data, model, {})
    reports_missing |= on_missing is None and study.data.on_missing == "model"
    read, study = resolve_study(study, folder, reports_missing)
    result = _check_for_training(read, study, folder)
    if as_json:
        names = ["format", "people", "controls", "patients", "regions", "covariates"]
        names += [
            "sites",
            "icv",
            "unit",
            "measures",
            "units",
            "aside",
            "kinds",
            "region_names",
        ]
        values = {name: getattr(result, name) for name in names}
        unused = [
            {"column": name, "reason": reason}
            for reason, columns in result.unused.items()
            for name in columns
        ]
        problems = [_describe_problem(problem) for problem in result.problems]
        print_json(
            values
            | {"ready": _is_ready(result), "unused": unused, "problems": problems}
        )
    else:
        _print_result(result, show_all or not sys.stdout.isatty())
    if report is not None:
        from rindices.report.check_page import write_check_page

        facts = [(name, value) for name, value in _list_facts(result) if value]
        write_check_page(report, facts, result.problems, result.unused, result.blocks)
        typer.echo(f"{report} written; it shows values of single people", err=True)
    raise typer.Exit(0 if result.ok else 1)


def _describe_problem(problem: Problem) -> dict[str, Any]:
    """Return a problem for JSON; ``block`` names the rows of a block that looks
    wrong.
    """
    from rindices.tables.checks.report import SUSPECT_CODES

    is_block = problem.code in SUSPECT_CODES
    return problem.as_dict() | {"block": problem.listing or None if is_block else None}


def _print_result(result: "ValidationResult", is_complete: bool) -> None:
    """Print the problems and the facts: all of them, or what fits on a screen: the
    verdict first, then errors.
    """
    facts = [(name, value) for name, value in _list_facts(result) if value]
    if is_complete:
        print_problems(result.problems, with_untested=True)
        listed = [
            (f"  {why}", ", ".join(names)) for why, names in result.unused.items()
        ]
        print_facts([*facts[:-1], *listed, facts[-1]])
        return
    width = shutil.get_terminal_size().columns
    print_facts([("verdict", _summarise_verdict(result, "below"))])
    facts = [
        (name, _shorten(value, width - _FACT_INDENT)) for name, value in facts[:-1]
    ]
    order = list(reversed(Severity))
    problems = sorted(
        result.problems, key=lambda problem: order.index(problem.severity)
    )
    shown, n_lines = list[Problem](), len(facts) + 2
    for problem in problems:
        n_lines += math.ceil(len(f"{problem.severity}: {problem}") / width)
        if n_lines > SCREEN_LINES:
            break
        shown.append(problem)
    print_problems(shown, with_untested=True)
    hidden = Counter(problem.severity for problem in problems[len(shown) :])
    if hidden:
        counts = [
            format_count(hidden[severity], str(severity))
            for severity in order
            if hidden[severity]
        ]
        typer.echo(f"and {join_names(counts)}: add --all", err=True)
    print_facts(facts)


def _shorten(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(width - 4, 10)]} ..."


def _check_for_training(
    result: "ValidationResult", study: "StudyConfig", folder: Path
) -> "ValidationResult":
    """Add what would stop fit or make it warn, so that a table is called ready only if
    fit would run.
    """
    problems = [
        replace(problem, severity=Severity.ERROR)
        if problem.cure and problem.code in _STOPPING_CODES
        else problem
        for problem in result.problems
    ]
    cohort = result.cohort
    if cohort is not None and result.controls and result.patients:
        from rindices.study.preflight import find_study_problems

        problems += find_study_problems(cohort, study, folder)
    return replace(result, problems=tuple(problems))


def _list_facts(result: "ValidationResult") -> list[tuple[str, str]]:
    groups = (
        f"{result.controls:,} controls, {result.patients:,} patients"
        if result.controls is not None
        else ""
    )
    aside, kinds = (
        ", ".join(f"{number} {why}" for why, number in (result.aside or {}).items()),
        result.kinds or {},
    )
    return [
        ("format", result.format or "unknown"),
        ("people", f"{result.people:,}" if result.people is not None else ""),
        ("groups", groups),
        (
            get_nouns(result.unit).regions,
            _describe_regions(result) if result.regions else "",
        ),
        ("not used", aside),
        (
            "covariates",
            ", ".join(
                f"{name} ({kinds[name]})" if name in kinds else name
                for name in result.covariates
            ),
        ),
        ("ICV", f"column {result.icv}" if result.icv else ""),
        ("sites", f"{result.sites:,}" if result.sites else ""),
        ("verdict", _summarise_verdict(result)),
    ]


def _describe_regions(result: "ValidationResult") -> str:
    """Return the number of regions with their unit, by kind of measure where there are
    several.
    """
    names = join_names(result.region_names)
    if result.unit == FEATURE_UNIT:
        return f"{result.regions:,}: {names}"
    if len(result.units) < 2:
        return f"{result.regions:,} ({result.unit}): {names}"
    kinds = [
        f"{number:,} of {kind} ({result.units[kind]})"
        for kind, number in result.measures.items()
    ]
    return f"{result.regions:,}, {join_names(kinds)}: {names}"


def _is_ready(result: "ValidationResult") -> bool:
    """Return whether fit would run."""
    return result.ok and result.controls is not None


def _summarise_verdict(result: "ValidationResult", where: str = "above") -> str:
    if not result.ok:
        return f"not ready: see the errors {where}"
    if not _is_ready(result):
        return "no errors; to fit, name the groups: --group COLUMN"
    return (
        "ready"
        if not any(problem.cure for problem in result.problems)
        else f"ready, with what is said {where}"
    )
