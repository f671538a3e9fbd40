"""Write the report of a study: one self-contained page."""

import random
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from markupsafe import Markup

from rindices._version import __version__
from rindices.analysis import study_results
from rindices.atomic import write_atomically
from rindices.errors import ProblemCode, StudyError, explain_write_errors, format_count
from rindices.learners.inference import SEVERITY_LEVELS
from rindices.model.findings import GroupCounts
from rindices.model.fitted import CITATION
from rindices.model.intervals import NOMINAL_COVERAGE
from rindices.model.pattern_tables import list_trajectory_heads
from rindices.model.records import CohortRecord
from rindices.packing import ArrayPacker
from rindices.plot import brain
from rindices.report import figures, sections
from rindices.report.formatting import make_environment
from rindices.report.severities import describe_severities
from rindices.study.checks import list_needed_people
from rindices.study.subgroups import MIN_GROUP
from rindices.study.write import FIGURE_FOLDER, REPORT_FIGURE, delete_report_figures

REPORT_FILE = "report.html"
_MAX_EMBEDDED_PEOPLE = 20_000  # whose R-indices a page with people contains


def write_report(folder: str | PathLike[str], show_people: bool = False) -> Path:
    """Write ``report.html`` into the folder of a finished study, and its charts as SVG
    files into ``figures``.

    Parameters
    ----------
    folder : path
        What ``rindices fit --out`` or ``fit(..., out=...)`` has written. What
        ``rindices associate``, ``change`` and ``predict`` have written there is shown,
        too. Where no pattern was detected, or where the members of ``surreal-gan``
        failed, the page says so.
    show_people : bool
        Whether the page holds a point and a row for each person. Otherwise each mark
        stands for at least five people.

    Returns
    -------
    Path
        Of the page: one file that requests nothing from a network.

    Raises
    ------
    StudyError
        If the folder holds no finished study, or the page cannot be written.

    Examples
    --------
    >>> import rindices as ri
    >>> ri.write_report("results").name
    'report.html'
    """
    path = Path(folder) / REPORT_FILE
    with figures.record_charts() as charts:
        page = _render_study(path.parent, show_people)
    with explain_write_errors(str(path), StudyError, "make room or free the folder"):
        write_atomically(path, page.encode(), is_private=show_people)
        _write_charts(path.parent, charts, show_people)
    return path


def _render_study(folder: Path, show_people: bool) -> str:
    """Return the page of a study, with or without a model, as HTML."""
    null_results = study_results.read_null_results(folder)
    failed_results = study_results.read_failed_results(folder)
    if failed_results is not None:
        return render_failed_report(failed_results)
    if null_results is not None:
        return render_null_report(null_results, show_people)
    return render_report(study_results.read_study_results(folder), show_people)


def _write_charts(
    folder: Path, charts: Iterable[figures.Chart], show_people: bool
) -> None:
    """Write the charts of a report as files beside it, in place of earlier ones."""
    delete_report_figures(folder)
    (folder / FIGURE_FOLDER).mkdir(exist_ok=True)
    for chart in charts:
        file = folder / FIGURE_FOLDER / REPORT_FIGURE.format(chart.name)
        write_atomically(file, chart.file, is_private=show_people)


def render_report(
    results: study_results.StudyResults, show_people: bool = False
) -> str:
    """Return the page of a study with a model as HTML."""
    model, selection = results.model, results.selection
    match = brain.match_atlas(model.regions, results.cohort.unit)
    limit, trust = (
        brain.compute_colour_limit(model.patterns[-1]),
        sections.build_trust_section(results),
    )
    packer = ArrayPacker()
    sliders = describe_severities(model, match, limit, packer)
    # rows in the order of ids would tell everyone who has the list of participants
    # whose row is whose
    order = random.SystemRandom().sample(
        range(len(results.indices)), len(results.indices)
    )
    return _render_page(
        "report.html",
        results.cohort,
        list_warnings(results),
        title="R-indices of {}",
        results=results,
        facts=sections.StudyFacts.of_model(model, results.findings),
        findings=results.findings,
        are_posterior_means=bool(list_trajectory_heads(model)),
        needed=list_needed_people(),
        interactions=list(model.interactions().itertuples(index=False)),
        trust=trust,
        test=trust.test,
        effects=sections.build_effect_section(
            results.effects, selection.difference.smallest_effect, match
        ),
        agreement_chart=figures.plot_agreement(results),
        measures=sections.list_measures(results),
        colour_limit=limit,
        severities=SEVERITY_LEVELS,
        patterns=sections.build_pattern_sections(results, match, limit),
        trajectories=sections.build_trajectory_section(results, match, limit),
        training=sections.build_training_section(
            results.training, selection, match, limit
        ),
        sliders={**sliders, "arrays": packer.pack()},
        atlas=match.atlas,
        atlas_problem=match.problem,
        coverage=NOMINAL_COVERAGE,
        severity_chart=figures.plot_severities(results, show_people),
        change_chart=None
        if results.change is None or results.change.groups is None
        else figures.plot_change(results.change.groups),
        pair_charts=figures.plot_index_pairs(results, show_people),
        shows_people=show_people,
        associations=sections.build_association_rows(results.associations),
        outlying=sections.build_outlying_section(
            results.outlying_measurements, results.findings.outlying, show_people
        ),
        subgroups=sections.build_subgroup_rows(results.subgroups, results.names),
        min_group=MIN_GROUP,
        sites=sections.build_site_section(results),
        site_chart=figures.plot_site_effects(results),
        indices=results.indices.iloc[order].round(4)
        if show_people and len(order) <= _MAX_EMBEDDED_PEOPLE
        else None,
        methods=sections.summarise_methods(results),
        made_with=model.card,
        citation=model.card.citation or CITATION,
    )


def render_null_report(
    results: study_results.NullResults, show_people: bool = False
) -> str:
    """Return the page of a study in which no pattern was detected, as HTML."""
    cohort, selection = results.cohort, results.selection
    match = brain.match_atlas(tuple(results.effects["region"]), cohort.unit)
    assert selection.adjustment is not None
    facts = sections.StudyFacts(
        participants=results.findings.participants,
        adjustment=selection.adjustment,
        scans=results.findings.scans,
        n_scans=cohort.scans,
    )
    return _render_page(
        "null_report.html",
        cohort,
        _render_warnings(
            "null",
            cohort,
            warnings=sections.collect_cohort_warnings(cohort, {ProblemCode.ARTEFACT}),
            facts=facts,
        ),
        title="No difference detected in {}",
        facts=facts,
        findings=results.findings,
        test=sections.summarise_test(selection, cohort, facts.adjustment.scale),
        effects=sections.build_effect_section(
            results.effects, selection.difference.smallest_effect, match
        ),
        outlying=sections.build_outlying_section(
            results.outlying_measurements, results.findings.outlying, show_people
        ),
        tried=[each.setting for each in selection.unstable_candidates],
        made_with=selection.made_with,
        citation=CITATION,
    )


def render_failed_report(results: study_results.FailedResults) -> str:
    """Return the page of a study whose members failed, as HTML."""
    cohort, failure = results.cohort, results.failure
    match = brain.match_atlas(tuple(results.effects["region"]), cohort.unit)
    participants = GroupCounts(controls=cohort.controls, patients=cohort.patients)
    facts = sections.StudyFacts(
        participants=participants, adjustment=failure.adjustment, n_scans=cohort.scans
    )
    return _render_page(
        "failed_report.html",
        cohort,
        _render_warnings(
            "null",
            cohort,
            warnings=sections.collect_cohort_warnings(cohort),
            facts=facts,
        ),
        title="No model of {}",
        facts=facts,
        failure=failure,
        training=sections.build_training_section(results.training, None, match, 1.0),
        effects=sections.build_effect_section(
            results.effects, failure.difference.smallest_effect, match
        ),
        test=None,
        outlying=None,
    )


def list_warnings(results: study_results.StudyResults) -> list[str]:
    """Return what a reader should know before relying on a study, as HTML, the most
    important first.
    """
    return _render_warnings(
        "", results.cohort, warnings=sections.collect_warnings(results), results=results
    )


def _render_warnings(kind: str, cohort: CohortRecord, **values: Any) -> list[str]:
    """Return the lines of the template of warnings."""
    template = make_environment(cohort.unit).get_template(
        f"sections/{kind + '_' if kind else ''}warnings.html"
    )
    return [
        line
        for line in template.render(cohort=cohort, **values).splitlines()
        if line.strip()
    ]


def _render_page(
    template: str, cohort: CohortRecord, warnings: list[str], title: str, **values: Any
) -> str:
    environment = make_environment(cohort.unit)
    people = f"{format_count(cohort.controls, 'control')} and {format_count(cohort.patients, 'patient')}"
    return environment.get_template(template).render(
        title=title.format(people),
        version=__version__,
        cohort=cohort,
        covariate_rows=sections.build_covariate_rows(cohort),
        colour_stops=brain.list_colour_stops(),
        warnings=[Markup(line) for line in warnings],
        **values,
    )
