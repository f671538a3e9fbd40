"""Write the report of a study: one self-contained page."""

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import pandas as pd

from rindices._version import __version__
from rindices.atomic import write_atomically
from rindices.errors import StudyError, describe_os_error
from rindices.learners.inference import SEVERITY_LEVELS
from rindices.model.fitted import CITATION
from rindices.model.intervals import NOMINAL_COVERAGE
from rindices.report import brain
from rindices.report.bars import Bar, make_bar
from rindices.report.effect_section import build_effect_section
from rindices.report.explore_section import build_explore_section
from rindices.report.figures import (
    plot_agreement,
    plot_distributions,
    plot_index_pairs,
    plot_member_agreement,
)
from rindices.report.formatting import make_environment
from rindices.report.pattern_section import build_pattern_sections, compute_colour_limit
from rindices.report.people import (
    build_covariate_rows,
    collect_cohort_warnings,
    describe_people,
    shuffle_people,
)
from rindices.report.person_data import PersonDetails, read_person_details
from rindices.report.study_results import (
    NullResults,
    StudyResults,
    read_index_file,
    read_null_results,
    read_study_results,
)
from rindices.report.summary import (
    Adjustment,
    collect_warnings,
    list_measures,
    summarise_adjustment,
    summarise_findings,
    summarise_methods,
)
from rindices.report.trajectory_section import build_trajectory_section
from rindices.report.trust import PermutationTest, build_trust_section

REPORT_FILE = "report.html"
REPORT_WITH_IDS_FILE = "report_with_ids.html"
_MAX_EMBEDDED_PEOPLE = 20_000  # people up to which the page contains everyone's R-indices


@dataclass(frozen=True)
class AssociationRow:
    """Correlation of an R-index with a variable, with its interval, false discovery rate and bar."""

    variable: str
    level: str
    note: str
    index: str
    correlation: float
    low: float
    high: float
    q: float
    n: int
    bar: Bar


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

    Parameters
    ----------
    results : StudyResults
    details : PersonDetails, optional
        Only for a page with ids, which stays at home.

    Returns
    -------
    str
        HTML.
    """
    unit = results.cohort.unit
    match = brain.match_atlas(results.model.regions, unit)
    limit = compute_colour_limit(results)
    template = make_environment(unit).get_template("report.html")
    return template.render(
        title=f"R-indices of {describe_people(results.cohort)}",
        version=__version__,
        results=results,
        cohort=results.cohort,
        covariate_rows=build_covariate_rows(results.cohort),
        findings=summarise_findings(results),
        trust=build_trust_section(results),
        effects=build_effect_section(results.effects, results.smallest_effect, match),
        warnings=collect_warnings(results),
        adjustment=summarise_adjustment(results),
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
        indices=shuffle_people(results.indices).round(4) if len(results.indices) <= _MAX_EMBEDDED_PEOPLE else None,
        methods=summarise_methods(results),
        made_with=results.model.card,
        citation=results.model.card.citation or CITATION,
    )


def render_null_report(results: NullResults) -> str:
    """Return the page of a study in which no pattern was detected.

    Parameters
    ----------
    results : NullResults

    Returns
    -------
    str
        HTML.
    """
    unit = results.cohort.unit
    match = brain.match_atlas(() if results.effects is None else tuple(results.effects["region"]), unit)
    template = make_environment(unit).get_template("null_report.html")
    return template.render(
        title=f"No difference detected in {describe_people(results.cohort)}",
        version=__version__,
        cohort=results.cohort,
        covariate_rows=build_covariate_rows(results.cohort),
        test=PermutationTest.of(results.test, results.difference),
        smallest_effect=results.smallest_effect,
        effects=build_effect_section(results.effects, results.smallest_effect, match),
        colour_stops=brain.list_colour_stops(),
        tried=results.tried,
        warnings=collect_cohort_warnings(results.cohort),
        adjustment=Adjustment(results.cohort.covariate_names, scale=results.adjust),
        made_with=results.made_with,
        citation=CITATION,
    )


def build_association_rows(table: pd.DataFrame | None) -> list[AssociationRow]:
    """Return the rows of the associations, strongest variable first; those without a correlation are left out."""
    if table is None:
        return []
    rows = table[table["correlation"].notna()]
    strength = rows["correlation"].abs().groupby(rows["variable"]).transform("max")
    rows = rows.assign(strength=strength).sort_values(["strength", "variable", "index"], ascending=[False, True, True])
    return [_build_association_row(row) for _, row in rows.iterrows()]


def _build_association_row(row: pd.Series) -> AssociationRow:
    correlation, interval = float(row["correlation"]), (float(row["low"]), float(row["high"]))
    level, note = (_format_cell(row.get(name)) for name in ("level", "note"))
    bar = make_bar(correlation, interval, (-1.0, 1.0), brain.effect_to_hex(-correlation, 1.0))
    return AssociationRow(
        row["variable"], level, note, row["index"], correlation, *interval, float(row["q"]), int(row["n"]), bar
    )


def _format_cell(value: object) -> str:
    """Return a cell of a table as text; '' where it is empty."""
    return "" if value is None or value != value else f"{value:g}" if isinstance(value, float) else str(value)
