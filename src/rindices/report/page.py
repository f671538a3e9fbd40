"""Write the report of a study: one self-contained page."""

import random
from dataclasses import replace
from os import PathLike
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup

from rindices._version import __version__
from rindices.atomic import write_atomically
from rindices.errors import StudyError, describe_os_error, format_count
from rindices.learners.inference import SEVERITY_LEVELS
from rindices.model.fitted import CITATION
from rindices.model.intervals import NOMINAL_COVERAGE
from rindices.model.records import CohortRecord
from rindices.report import brain
from rindices.report.explore_section import PersonDetails, build_explore_section, read_person_details
from rindices.report.facts import StudyFacts
from rindices.report.figures import plot_agreement, plot_distributions, plot_index_pairs, plot_member_agreement
from rindices.report.formatting import make_environment
from rindices.report.sections import (
    build_association_rows,
    build_effect_section,
    build_pattern_sections,
    build_trajectory_section,
    build_trust_section,
    compute_colour_limit,
)
from rindices.report.study_results import (
    NullResults,
    StudyResults,
    read_index_file,
    read_null_results,
    read_study_results,
)
from rindices.report.summary import (
    build_covariate_rows,
    collect_cohort_warnings,
    collect_warnings,
    list_measures,
    summarise_findings,
    summarise_methods,
    summarise_test,
)

REPORT_FILE = "report.html"
REPORT_WITH_IDS_FILE = "report_with_ids.html"
_MAX_EMBEDDED_PEOPLE = 20_000  # people up to which the page contains everyone's R-indices


def write_report(folder: str | PathLike[str], with_ids: bool = False) -> Path:
    """Write ``report.html`` into the folder of a finished study.

    Parameters
    ----------
    folder : path
        What ``rindices fit --out`` or ``fit(..., out=...)`` has written. What ``rindices associate``, ``change`` and
        ``predict`` have written there is shown, too. Where no pattern was detected, the page says so.
    with_ids : bool
        Write ``report_with_ids.html`` instead, in which people can be found by their id, with their covariates and
        the regions that speak for their R-indices. It must stay with those who may see the data.

    Returns
    -------
    Path
        Of the page: one file that requests nothing from a network.

    Raises
    ------
    StudyError
        If the folder holds no finished study, or the page cannot be written.
    """
    path = Path(folder) / (REPORT_WITH_IDS_FILE if with_ids else REPORT_FILE)
    null_results = read_null_results(path.parent)
    if null_results is not None:
        if with_ids:
            raise StudyError("no pattern was detected, so nobody has R-indices: write the report without ids.")
        page = render_null_report(null_results)
    else:
        results = read_study_results(path.parent)
        page = render_report(
            results, read_person_details(path.parent, read_index_file(path.parent)) if with_ids else None
        )
    try:
        write_atomically(path, page.encode())
    except OSError as error:
        raise StudyError(f"cannot write {path} ({describe_os_error(error)}): make room or free the folder.") from error
    return path


def render_report(results: StudyResults, details: PersonDetails | None = None) -> str:
    """Return the page of a study with a model.

    details: only for a page with ids, which stays at home. Returns HTML.
    """
    unit = results.cohort.unit
    match = brain.match_atlas(results.model.regions, unit)
    limit = compute_colour_limit(results)
    environment = make_environment(unit)
    findings, trust = summarise_findings(results), build_trust_section(results)
    # rows in the order of ids would tell everyone who has the list of participants whose row is whose
    order = random.SystemRandom().sample(range(len(results.indices)), len(results.indices))
    warning_values = {"warnings": collect_warnings(results), "results": results, "cohort": results.cohort}
    return environment.get_template("report.html").render(
        title=f"R-indices of {_describe_people(results.cohort)}",
        version=__version__,
        results=results,
        facts=replace(StudyFacts.of_model(results.model), patterns=results.selection.patterns),
        cohort=results.cohort,
        covariate_rows=build_covariate_rows(results.cohort),
        findings=findings,
        trust=trust,
        test=trust.test,
        effects=build_effect_section(results.effects, results.smallest_effect, match),
        warnings=_render_warnings(environment, "sections/warnings.html", **warning_values),
        agreement_chart=plot_agreement(results) if results.selection.grid else None,
        measures=list_measures(results),
        colour_limit=limit,
        colour_stops=brain.list_colour_stops(),
        severities=SEVERITY_LEVELS,
        patterns=build_pattern_sections(results, match, limit),
        trajectories=build_trajectory_section(results, match, limit),
        explore=build_explore_section(results, match, limit, details),
        atlas=match.atlas,
        atlas_problem=match.problem,
        coverage=NOMINAL_COVERAGE,
        distribution_charts=plot_distributions(results),
        pair_charts=plot_index_pairs(results),
        member_chart=plot_member_agreement(results),
        associations=build_association_rows(results.associations),
        change=results.change,
        outcome=results.outcome,
        indices=results.indices.iloc[order].round(4) if len(order) <= _MAX_EMBEDDED_PEOPLE else None,
        methods=summarise_methods(results),
        made_with=results.model.card,
        citation=results.model.card.citation or CITATION,
    )


def render_null_report(results: NullResults) -> str:
    """Return the page of a study in which no pattern was detected.

    Returns HTML.
    """
    unit = results.cohort.unit
    match = brain.match_atlas(tuple(results.effects["region"]), unit)
    environment = make_environment(unit)
    facts = StudyFacts.of_null_study(results.cohort, results.selection)
    warning_values = {"warnings": collect_cohort_warnings(results.cohort), "cohort": results.cohort, "facts": facts}
    return environment.get_template("null_report.html").render(
        title=f"No difference detected in {_describe_people(results.cohort)}",
        version=__version__,
        facts=facts,
        cohort=results.cohort,
        covariate_rows=build_covariate_rows(results.cohort),
        test=summarise_test(results.test, results.selection.difference, results.cohort, facts.adjustment.scale),
        smallest_effect=results.smallest_effect,
        effects=build_effect_section(results.effects, results.smallest_effect, match),
        colour_stops=brain.list_colour_stops(),
        tried=results.selection.unstable_settings,
        warnings=_render_warnings(environment, "sections/null_warnings.html", **warning_values),
        made_with=results.selection.made_with,
        citation=CITATION,
    )


def _render_warnings(environment: Environment, name: str, **values: object) -> list[Markup]:
    """Return the warnings of a template that has one on each line, the most important first."""
    lines = environment.get_template(name).render(**values).splitlines()
    return [Markup(line) for line in lines if line.strip()]


def _describe_people(cohort: CohortRecord) -> str:
    return f"{format_count(cohort.controls, 'control')} and {format_count(cohort.patients, 'patient')}"
